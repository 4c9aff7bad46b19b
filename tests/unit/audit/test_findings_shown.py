"""The findings of a run as text, rows, fields and SARIF."""

import json

import jsonschema
import pytest

from kafkakit.audit.decide.runs import compare, with_since
from kafkakit.audit.report.exports import audit_sarif
from kafkakit.audit.report.results import COLUMNS, AuditView, diff_report, run_report
from kafkakit.cli.output import OutputFormat, format_result
from kafkakit.core.findings import FailOn
from tests.places import ROOT
from tests.unit.audit.made import EVIL, KINDS, a_finding, a_run

SCHEMA = json.loads((ROOT / "tests/cases/lint/sarif-schema-2.1.0.json").read_text())


def a_view() -> AuditView:
    before = a_run(a_finding("old"), a_finding("fixed"), date="2026-11-19")
    today = a_run(
        *with_since((a_finding("old", blast=50, owner="team-a"),), {}, "2026-11-18"),
        *with_since((a_finding("new", severity="error", code="KKR201", repair="k=v"),), {}, "2026-11-20"),
        jobs=("drift", "lag"),
        failed={"lag": "AnalysisException: no table"},
        clusters={"c1": KINDS},
        left_out=("cluster c2 on 2026-11-20: not collected: timed out",),
    )
    return AuditView(run=today, comparison=compare(before, today), history=(before,))


def test_the_text_begins_with_failures_and_what_is_new() -> None:
    assert run_report(a_view()).text == (ROOT / "tests/cases/audit/report.txt").read_text()


def test_the_first_run_has_no_news() -> None:
    run = a_run(a_finding("a"), date="2026-11-20")
    text = run_report(AuditView(run=run)).text
    assert "findings, worst first: 0 errors, 1 warning, 0 notes" in text
    assert "new" not in text
    assert "no findings\n" in run_report(AuditView(run=a_run())).text


def test_a_day_without_news_says_so() -> None:
    before, today = a_run(a_finding("a"), date="2026-11-19"), a_run(a_finding("a"))
    view = AuditView(run=today, comparison=compare(before, today), history=(before,))
    assert "new since 2026-11-19: nothing" in run_report(view).text


def test_at_most_twenty_findings_of_a_rule_are_listed_worst_first() -> None:
    run = a_run(*(a_finding(f"t{n:02}", blast=n + 1.0) for n in range(25)), a_finding("x", code="KKX001"))
    lines = run_report(AuditView(run=run)).text.splitlines()
    shown = [line for line in lines if " KKT001 " in line]
    assert len(shown) == 20
    assert "topic t24 of c1" in shown[0]
    assert "topic t05 of c1" in shown[-1]
    assert "  KKT001: 5 more findings, see -o json or -o tsv" in lines


def test_rows_and_fields_have_every_finding_with_its_state() -> None:
    report = run_report(a_view())
    assert [(row[0], row[COLUMNS.index("where")]) for row in report.rows] == [
        ("new", "topic new of c1"), ("still", "topic old of c1")
    ]  # fmt: skip
    tsv = format_result(report, OutputFormat.TSV)
    assert all(line.count("\t") == len(COLUMNS) - 1 for line in tsv.splitlines())
    data = json.loads(format_result(report, OutputFormat.JSON))
    assert [(f["state"], f["owner"], f["since"]) for f in data["findings"]] == [
        ("new", None, "2026-11-20"), ("still", "team-a", "2026-11-18")
    ]  # fmt: skip
    assert [f["where"] for f in data["gone"]] == ["topic fixed of c1"]
    assert data["totals"] == {"error": 1, "warning": 1, "note": 0}
    assert data["failed"] == ["lag: AnalysisException: no table"]
    assert data["left_out"] == ["cluster c2 on 2026-11-20: not collected: timed out"]


@pytest.mark.parametrize(("fail_on", "code"), [(FailOn.NEVER, 0), (FailOn.ERROR, 0), (FailOn.WARNING, 1)])
def test_the_exit_code_goes_by_the_findings(fail_on: FailOn, code: int) -> None:
    assert run_report(AuditView(run=a_run(a_finding("a"))), fail_on).code == code


def test_a_failed_job_is_a_failure_whatever_is_asked() -> None:
    assert run_report(AuditView(run=a_run(failed={"drift": "boom"})), FailOn.NEVER).code == 1


def test_a_comparison_fails_with_new_findings_alone() -> None:
    one, two = a_run(a_finding("a"), date="2026-11-19"), a_run(a_finding("a"), a_finding("b", severity="note"))
    found = diff_report(compare(one, two), FailOn.WARNING)
    assert found.code == 0
    assert found.text.endswith("1 new, 0 gone, 1 still there\n")
    assert diff_report(compare(one, two), FailOn.NOTE).code == 1
    assert [row[0] for row in found.rows] == ["new", "still"]
    assert found.data["totals"]["new"] == {"error": 0, "warning": 0, "note": 1}  # type: ignore[index]


def test_a_comparison_tells_what_was_not_looked_at_again() -> None:
    one = a_run(a_finding("a", cluster="c2"), date="2026-11-19")
    text = diff_report(compare(one, a_run(clusters={"c1": KINDS})), FailOn.NOTE).text
    assert "note: drift did not look at c2 in " in text
    assert "not looked at again, so neither gone nor still there: 0 errors, 1 warning, 0 notes" in text
    assert "0 new, 0 gone, 0 still there" in text


def test_names_from_outside_cannot_move_the_cursor_or_begin_a_line() -> None:
    run = a_run(a_finding("a", where=f"topic {EVIL}\nx of c1", message=EVIL, owner=EVIL, hint=EVIL), skipped=(EVIL,))
    text = run_report(AuditView(run=run)).text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith("x of") for line in text.splitlines())


def test_sarif_keeps_to_the_schema_and_names_owners() -> None:
    findings = (a_finding("a", owner="team-a"), a_finding(EVIL, severity="error", code="KKR201", blast=9))
    log = json.loads(audit_sarif(findings, "1.0"))
    jsonschema.validate(log, SCHEMA)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["ruleId"] for r in run["results"]] == ["kafkakit/KKR201", "kafkakit/KKT001"]
    assert [rules[r["ruleIndex"]]["id"] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert "[owner: team-a]" in run["results"][1]["message"]["text"]
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)


def test_sarif_joins_findings_of_a_rule_and_cluster_above_the_limit() -> None:
    findings = tuple(a_finding(f"t{n}", cluster=f"c{n % 2}") for n in range(9))
    assert len(json.loads(audit_sarif(findings, "1", most=9))["runs"][0]["results"]) == 9
    results = json.loads(audit_sarif(findings, "1", most=8))["runs"][0]["results"]
    assert sorted(r["message"]["text"].partition(" (and ")[2] for r in results) == [
        "3 more of this rule here)", "4 more of this rule here)"
    ]  # fmt: skip
