"""The formats of CI services, checked by their own parsers and schema."""

import json
import re
import xml.etree.ElementTree as ET

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.lint import report as sarif_module
from kafkakit.lint.decide.decision import LintResult
from kafkakit.lint.report import github, gitlab, junit, lint_sections, markdown, render_result, sarif, statistics_text
from kafkakit.report.exports import uri_of
from kafkakit.rules.catalogue import all_rules
from tests.places import ROOT
from tests.rigs.lint_runs import linted

SCHEMA = json.loads((ROOT / "tests/cases/lint/sarif-schema-2.1.0.json").read_text())
TEXT = """kafkakit: cluster
cluster: orders
topics:
- name: a
  owner: team-a
  config: {retention.ms: '0'}
- name: b
  config: {retention.ms: '5'}
"""


@pytest.fixture
def result() -> LintResult:
    return linted({"dir/a.yaml": TEXT, "b.yaml": "kafkakit: cluster: [", "c.yaml": "kafkakit: cluster\n"}).result


def named(name: str) -> LintResult:
    return linted(
        {"a.yaml": json.dumps({"kafkakit": "cluster", "topics": [{"name": name, "config": {"retention.ms": "0"}}]})}
    ).result


def test_text_has_a_line_a_finding_and_the_totals(result: LintResult) -> None:
    lines = list(lint_sections(result))
    assert lines[0].startswith("b.yaml:1:")
    assert (
        "dir/a.yaml:6:12: warning KKT001 no-zero-retention: retention is 0 (topic a of orders) [owner: team-a]" in lines
    )
    assert "2 errors, 2 warnings, 0 notes in 3 files (1 cluster, 2 topics)" in lines
    assert "fixable: 1 with --fix, 2 more with --unsafe-fixes; --diff shows them" in lines
    assert statistics_text(result).splitlines()[0] == "     2  KKT002  segments-of-a-day  (2 fixable)"


def test_sarif_keeps_to_the_published_schema(result: LintResult) -> None:
    log = json.loads(sarif(result, "1.0"))
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[r["ruleIndex"]]["id"] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert len(run["results"]) == len(result.checked)


def test_sarif_joins_findings_above_the_limit(result: LintResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif_module, "MOST_RESULTS", 3)
    log = json.loads(sarif(result, "1.0"))
    jsonschema.validate(log, SCHEMA)
    assert len(log["runs"][0]["results"]) == 3
    assert any("and 1 more of this rule here" in r["message"]["text"] for r in log["runs"][0]["results"])


def test_junit_counts_add_up(result: LintResult) -> None:
    root = ET.fromstring(junit(result))
    for level in (root, *root.findall("testsuite")):
        cases = level.findall(".//testcase")
        assert int(level.attrib["tests"]) == len(cases)
        assert int(level.attrib["failures"]) == len(level.findall(".//failure"))
        assert int(level.attrib["skipped"]) == len(level.findall(".//skipped"))
    assert [suite.attrib["name"] for suite in root.findall("testsuite")] == ["b.yaml", "c.yaml", "dir/a.yaml"]


def test_gitlab_has_what_its_service_needs_with_unique_fingerprints(result: LintResult) -> None:
    entries = json.loads(gitlab(result))
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == len(result.checked)
    for entry in entries:
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["lines"]["begin"] >= 1
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}


@pytest.mark.parametrize("name", ["a%b", "a,b:c", "a\nb", "<a>&\"'", "\x00\x1b\ufffe"])
def test_names_from_files_cannot_break_a_format(name: str) -> None:
    found = named(name)
    assert len(found.checked) == 2
    ET.fromstring(junit(found).encode("utf-8", "surrogatepass"))
    lines = github(found).splitlines()
    assert len(lines) == len(found.checked)
    assert all(
        re.fullmatch(r"::(error|warning|notice) file=[^,:]+,line=\d+,col=\d+,title=[^,:]+::.*", x) for x in lines
    )
    assert len(json.loads(gitlab(found))) == 2
    jsonschema.validate(json.loads(sarif(found, "1")), SCHEMA)
    assert len(list(lint_sections(found))) <= 8
    assert all(
        line.count("|") - line.count("\\|") == 5 for line in markdown(found).splitlines() if line.startswith("| 1")
    )


@given(st.text(max_size=12))
@settings(max_examples=50)
def test_any_name_gives_one_line_a_finding(name: str) -> None:
    found = named(name)
    assert len(github(found).splitlines()) == len(found.checked)


@pytest.mark.parametrize("name", ["text", "sarif", "junit", "github", "gitlab", "markdown", "statistics"])
def test_a_run_without_findings_has_every_format(name: str) -> None:
    text = render_result(linted("kafkakit: cluster\n").result, name, "1")
    assert text == "" if name == "github" else text.endswith("\n")


def test_the_same_findings_give_the_same_bytes(result: LintResult) -> None:
    again = linted({"dir/a.yaml": TEXT, "b.yaml": "kafkakit: cluster: [", "c.yaml": "kafkakit: cluster\n"}).result
    for name in ("text", "sarif", "junit", "github", "gitlab", "markdown"):
        assert render_result(result, name, "1") == render_result(again, name, "1")


def test_paths_are_as_given(result: LintResult) -> None:
    assert {c.finding.place.path for c in result.checked if c.finding.place} == {"dir/a.yaml", "b.yaml"}


@pytest.mark.parametrize(
    ("path", "uri"),
    [("a b #1/server.properties", "a%20b%20%231/server.properties"), ("50%/é?.yaml", "50%25/%C3%A9%3F.yaml")],
)
def test_places_in_sarif_are_uris(path: str, uri: str) -> None:
    assert uri_of(path) == uri
    text = "node.id=1\nlog.dirs=/tmp/a\n" if path.endswith("properties") else "kafkakit: cluster\ntopics: 5\n"
    log = json.loads(sarif(linted({path: text}, rules=all_rules(), known=all_rules()).result, "1.0"))
    found = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]}
    assert found == {uri}
