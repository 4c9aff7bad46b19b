"""The configuration of a whole fleet, linted by all rules and by those of `core`: each finding has its reason.

`tests/cases/lint/fleet.findings.yaml` lists them, and `corpus.findings.yaml` those of files in all forms that people
have, in `corpus/`. `sound/` holds clusters without any finding, and `plants.yaml` mistakes to plant into sound files.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.files import read_input
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import FailOn
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar
from kafkakit.lint.act import read_files
from kafkakit.lint.decide.decision import LintRequest, LintResult, LintRun, lint
from kafkakit.lint.decide.files import FileReading, read_document, read_text
from kafkakit.lint.decide.fixes import FixedRun, LintDone, fix_all
from kafkakit.lint.decide.lint_config import RuleSet
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.lint.report import lint_data, lint_report, lint_rows, render_result
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import Limits, LintRule
from tests.places import ROOT

CASES = ROOT / "tests" / "cases" / "lint"
FLEET, SOUND = CASES / "fleet", CASES / "sound"
FORMATS = ("text", "sarif", "junit", "github", "gitlab", "markdown", "statistics")
SECRETS = ("changeit-2024", "Sh0p-cdc!2023", "eLastic-77", "w1nter-is-Coming", "Vee8-tarn-Moss")
NO_CONCERN = {
    "README.md", "package.json",
    "charts/kafka-exporter/templates/topic.yaml", "charts/kafka-exporter/values.yaml",
}  # fmt: skip
CODES_OF_CORE = {rule.code for rule in all_rules() if rule.is_core}
CORPUS = CASES / "corpus"
JUDGED: dict[str, list[list[Any]]] = yaml.safe_load((CASES / "corpus.findings.yaml").read_text(encoding="utf-8"))
PLANTS: dict[str, Any] = yaml.safe_load((CASES / "plants.yaml").read_text(encoding="utf-8"))
STRICT_ALONE = {"KKD115", "KKD118", "KKD120", "KKM402", "KKV012"}
Row = tuple[str, int, str]


def request_of(rules: RuleSet) -> LintRequest:
    return LintRequest(
        rules=all_rules() if rules is RuleSet.STRICT else tuple(rule for rule in all_rules() if rule.is_core),
        known=all_rules(),
        assemble=AssemblyOptions(),
        today=date(2026, 11, 22),
        limits=Limits(strict=rules is RuleSet.STRICT),
    )


def read(folder: Path) -> tuple[FileReading, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return read_files(["."], None, "stdin", read_input)


@pytest.fixture(scope="module")
def readings() -> tuple[FileReading, ...]:
    return read(FLEET)


@pytest.fixture(scope="module")
def strict(readings: tuple[FileReading, ...]) -> LintRun:
    return lint(readings, (), request_of(RuleSet.STRICT))


@pytest.fixture(scope="module")
def explained() -> dict[str, list[tuple[int, str, str]]]:
    text = (CASES / "fleet.findings.yaml").read_text(encoding="utf-8")
    return {path: [tuple(row) for row in rows] for path, rows in yaml.safe_load(text).items()}


def rows_of(result: LintResult) -> Counter[Row]:
    places = ((c.finding.place, c.finding.rule) for c in result.checked)
    return Counter((place.path, place.line, rule) if place else ("", 0, rule) for place, rule in places)


def same_findings(result: LintResult) -> list[tuple[str, str, str, str]]:
    """The findings without where they stand, those about files themselves left out."""
    found = (c.finding for c in result.checked if not c.finding.where.startswith("file "))
    return sorted((f.rule, f.where, f.setting.key if f.setting else "", f.message) for f in found)


def test_all_files_but_those_of_no_concern_are_read(readings: tuple[FileReading, ...]) -> None:
    paths = {path.relative_to(FLEET).as_posix() for path in FLEET.rglob("*") if path.is_file()}
    assert len(paths) > 40
    read_ = {reading.document.path for reading in readings if not reading.speaks}
    assert read_ == paths - NO_CONCERN


@pytest.mark.parametrize("rules", [RuleSet.CORE, RuleSet.STRICT])
def test_findings_are_those_explained(
    readings: tuple[FileReading, ...], explained: dict[str, list[tuple[int, str, str]]], rules: RuleSet
) -> None:
    wanted = Counter(
        (path, line, rule)
        for path, rows in explained.items()
        for line, rule, _ in rows
        if rules is RuleSet.STRICT or rule in CODES_OF_CORE
    )
    assert rows_of(lint(readings, (), request_of(rules)).result) == wanted


def test_explanations_are_sentences(explained: dict[str, list[tuple[int, str, str]]]) -> None:
    whys = [why for rows in explained.values() for _, _, why in rows]
    assert [why for why in whys if len(why.split()) < 4 or not why.endswith(".")] == []


def test_no_secret_is_in_any_output(readings: tuple[FileReading, ...], strict: LintRun) -> None:
    texts = "".join(reading.document.text for reading in readings)
    assert all(secret in texts for secret in SECRETS)
    result = strict.result
    outputs = {name: render_result(result, name, "1.0") for name in FORMATS}
    outputs["json"] = json.dumps(lint_data(result), default=str) + repr(list(lint_rows(result)))
    outputs["everything"] = repr(strict.result)
    shown = [(name, secret) for name, text in outputs.items() for secret in SECRETS if secret in text]
    assert shown == []


def test_each_file_alone_can_be_linted(readings: tuple[FileReading, ...]) -> None:
    for reading in readings:
        alone = lint([reading], (), request_of(RuleSet.STRICT)).result
        assert {c.finding.place.path for c in alone.checked if c.finding.place} <= {reading.document.path}


@settings(max_examples=5)
@given(order=st.randoms(use_true_random=False))
@pytest.mark.parametrize("folder", [FLEET, CORPUS])
def test_the_order_of_files_changes_nothing(folder: Path, order: Random) -> None:
    files = list(read(folder))
    plain = lint(files, (), request_of(RuleSet.STRICT)).result
    order.shuffle(files)
    turned = lint(files, (), request_of(RuleSet.STRICT)).result
    assert turned.skipped == plain.skipped
    assert [(c.finding, c.edits, c.anchor) for c in turned.checked] == [
        (c.finding, c.edits, c.anchor) for c in plain.checked
    ]


def test_topics_in_files_of_their_own_have_the_findings_of_one_file() -> None:
    for folder in (FLEET / "clusters" / "orders", FLEET / "clusters" / "events"):
        cluster = yaml.safe_load((folder / "cluster.yaml").read_text(encoding="utf-8"))
        whole, parts = [cluster], [cluster]
        for path in sorted((folder / "topics").glob("*.yaml")):
            if path.name == "returns.yaml":
                continue  # it has the markers of a merge conflict
            file = yaml.safe_load(path.read_text(encoding="utf-8"))
            whole.append(file)
            parts += [{**file, "topics": [topic]} for topic in file["topics"]]
        assert dumped(parts) == dumped(whole)


def dumped(files: Iterable[object]) -> list[tuple[str, str, str, str]]:
    texts = [yaml.safe_dump(file, sort_keys=False) for file in files]
    return found_in(texts)


def found_in(texts: Sequence[str]) -> list[tuple[str, str, str, str]]:
    read_ = [read_text(f"{number}.yaml", text) for number, text in enumerate(texts)]
    return same_findings(lint(read_, (), request_of(RuleSet.STRICT)).result)


def test_resources_in_files_of_their_own_have_the_findings_of_one_file() -> None:
    folder = FLEET / "strimzi"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.yaml"))]
    documents = [document for text in texts for document in text.split("---\n")]
    assert len(documents) > len(texts)
    assert found_in(documents) == found_in(texts) == found_in(["---\n".join(documents)])


def test_fixing_the_fleet_ends_and_shows_no_more_findings_of_what_it_fixed(readings: tuple[FileReading, ...]) -> None:
    request = request_of(RuleSet.STRICT)
    run = fix_all(readings, (), request, None, unsafe=True)
    assert run.fixed > 50
    again = fix_all([replaced(reading, run) for reading in readings], (), request, None, unsafe=True)
    assert again.fixed == 0
    report = lint_report(LintDone(run=run, fail_on=FailOn.WARNING), "text", "1.0")
    assert "Traceback" not in report.text


def replaced(reading: FileReading, run: FixedRun) -> FileReading:
    changes = {change.path: change.after for change in run.changed}
    after = changes.get(reading.document.path)
    return reading if after is None else read_text(after.path, after.text, is_named=True)


@pytest.mark.parametrize("form", ["kafkakit", "properties", "strimzi"])
def test_a_sound_cluster_has_no_finding_in_any_form(form: str) -> None:
    read_ = read(SOUND / form)
    assert len(read_) > 1
    result = lint(read_, (), request_of(RuleSet.CORE)).result
    assert [f"{c.finding.place}: {c.finding.rule} {c.finding.message}" for c in result.checked] == []
    assert result.resources["topic"] == 3
    assert result.resources["broker"] == 6


def snapshot_of(topics: Iterable[dict[str, Any]]) -> str:
    """A snapshot of a cluster that is as its files declare it: replicas in turn, all in sync, of one size."""
    dirs = [{"path": f"/data/{n}/kafka", "total_bytes": 10**12, "usable_bytes": 9 * 10**11} for n in (1, 2)]
    return json.dumps(
        {
            "kafkakit": {"kind": "cluster-snapshot", "schema": 1},
            "cluster_id": "b1llng",
            "taken_at": "2026-11-22T06:00:00Z",
            "source": "k1.billing.example.com:9093",
            "kafka_version": "4.3",
            "brokers": [{"id": n, "rack": f"eu-west-1{rack}", "log_dirs": dirs} for n, rack in enumerate("abc", 1)],
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {
                            "partition": p,
                            "replicas": [1 + (p + r) % 3 for r in range(3)],
                            "isr": [1, 2, 3],
                            "leader": 1 + p % 3,
                            "size_bytes": 10**9,
                        }
                        for p in range(topic["partitions"])
                    ],
                    "configs": topic["config"],
                }
                for topic in topics
            ],
        }
    )


@pytest.mark.parametrize("rules", [RuleSet.CORE, RuleSet.STRICT])
def test_a_sound_cluster_beside_its_snapshot_has_the_findings_of_its_files(rules: RuleSet) -> None:
    files = read(SOUND / "kafkakit")
    topics = yaml.safe_load((SOUND / "kafkakit" / "topics.yaml").read_text(encoding="utf-8"))["topics"]
    seen = read_text("snapshot.json", snapshot_of(topics))
    assert seen.kinds == ("cluster-snapshot",)
    both, alone = (lint(given, (), request_of(rules)) for given in ([*files, seen], files))
    assert len(both.estate.clusters) == 1
    assert same_findings(both.result) == same_findings(alone.result)
    turned = lint([seen, *reversed(files)], (), request_of(rules))
    assert same_findings(turned.result) == same_findings(alone.result)


def test_a_sound_cluster_is_checked_by_nearly_all_rules_of_files() -> None:
    request = request_of(RuleSet.CORE)
    skipped = lint(read(SOUND / "kafkakit"), (), replace(request, rules=files_only(request))).result.skipped
    assert skipped == {}


def files_only(request: LintRequest) -> tuple[LintRule, ...]:
    return tuple(rule for rule in request.rules if [need.value for need in rule.needs] == ["files"])


def findings_of(path: str, text: str) -> Counter[str]:
    result = lint([read_text(path, text, is_named=True)], (), request_of(RuleSet.STRICT)).result
    return Counter(checked.finding.rule for checked in result.checked)


def planted(plant: dict[str, Any]) -> str:
    text: str = PLANTS["files"][plant["in"]]
    for before, after in plant.get("swap", {}).items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text + str(plant.get("add", ""))


@pytest.mark.parametrize("name", [name for name in PLANTS["files"] if name != "old-topic.yaml"])
def test_the_files_to_plant_into_are_sound(name: str) -> None:
    alone = {"KKQ853", "KKQ857"} if name == "server.properties" else set()  # it is broker and controller at once
    assert set(findings_of(name, PLANTS["files"][name])) == alone


@pytest.mark.parametrize("plant", PLANTS["plants"], ids=lambda plant: plant["what"])
def test_a_planted_mistake_is_found_and_what_is_none_is_not(plant: dict[str, Any]) -> None:
    text = planted(plant)
    if refused := plant.get("refused"):
        with pytest.raises(UsageError, match=refused):
            findings_of(plant["in"], text)
        return
    new = findings_of(plant["in"], text) - findings_of(plant["in"], PLANTS["files"][plant["in"]])
    if plant["found"]:
        assert not new.keys().isdisjoint(plant["found"])
    else:
        assert new.keys() <= plant.get("beside", {}).keys()


def test_at_least_80_of_82_mistakes_are_found_and_nearly_all_by_the_rules_of_core() -> None:
    mistakes = [plant for plant in PLANTS["plants"] if plant["found"]]
    found = [plant for plant in mistakes if "refused" not in plant]
    assert (len(PLANTS["plants"]), len(mistakes)) == (99, 82)
    assert len(found) >= 80
    by_core = [plant for plant in found if not CODES_OF_CORE.isdisjoint(plant["found"])]
    assert {code for plant in found if plant not in by_core for code in plant["found"]} <= STRICT_ALONE
    assert len(by_core) >= 76


def scalars_of(document: Document) -> Iterator[Scalar]:
    queue: list[Node] = list(document.roots)
    while queue:
        node = queue.pop()
        if isinstance(node, Scalar):
            yield node
        else:
            queue += [e.value for e in node.entries.values()] if isinstance(node, Mapping) else node.items


@pytest.mark.parametrize("placeholder", ["${X}", "{{ x }}", "$(X)", "{{ [3, x] | join(',') }}"])
@pytest.mark.parametrize("name", [name for name in PLANTS["files"] if name != "old-topic.yaml"])
def test_a_value_that_is_filled_in_elsewhere_is_no_mistake(name: str, placeholder: str) -> None:
    text: str = PLANTS["files"][name]
    known = findings_of(name, text).keys()
    values = [value for value in scalars_of(read_document(name, text)) if value.text and not value.text.isdecimal()]
    numbers = [value for value in scalars_of(read_document(name, text)) if value.text.isdecimal()]
    assert len(values) > 3
    for value in values + numbers * (name != "kafka_consumer.yaml"):
        written = placeholder if name.endswith(".properties") else json.dumps(placeholder)
        filled = text[: value.start] + written + text[value.end :]
        result = lint([read_text(name, filled, is_named=True)], (), request_of(RuleSet.STRICT)).result
        told = [c.finding for c in result.checked if c.finding.rule not in known and c.finding.severity != "note"]
        assert [(f.rule, f.message) for f in told] == [], value.text


@pytest.mark.parametrize("host", ["${HOST}", "{{ host }}", "$(POD_NAME).kafka.svc", "__HOST__"])
def test_a_host_that_is_filled_in_is_no_mistake(host: str) -> None:
    text: str = PLANTS["files"]["server.properties"]
    for plain in ("kafka1.shop.example", "INSIDE://", "kafka2"):
        filled = text.replace(plain, host if plain[0] == "k" else plain + host)
        assert findings_of("server.properties", filled) == findings_of("server.properties", text)


def folders_of_the_corpus() -> list[str]:
    return sorted(path.name for path in CORPUS.iterdir() if path.is_dir())


@pytest.mark.parametrize("rules", [RuleSet.CORE, RuleSet.STRICT])
@pytest.mark.parametrize("folder", folders_of_the_corpus())
def test_findings_in_all_forms_are_those_judged(folder: str, rules: RuleSet) -> None:
    found = (c.finding for c in lint(read(CORPUS / folder), (), request_of(rules)).result.checked)
    rows = [(f"{folder}/{f.place.path}", f.place.line, f.rule, f.severity.value) for f in found if f.place]
    wanted = [
        (path, line, rule, severity)
        for path, judged in JUDGED.items()
        for line, rule, severity, _ in judged
        if path.partition("/")[0] == folder and (rules is RuleSet.STRICT or rule in CODES_OF_CORE)
    ]
    assert sorted(rows) == sorted(wanted)


def test_no_error_is_false_and_of_warnings_at_most_2_in_100() -> None:
    assert 60 <= len([path for path in CORPUS.rglob("*") if path.is_file()]) <= 100
    assert {path.partition("/")[0] for path in JUDGED} <= set(folders_of_the_corpus())
    judged = [(severity, str(why)) for rows in JUDGED.values() for _, _, severity, why in rows]
    assert [why for _, why in judged if len(why.split()) < 4 or not why.endswith(".")] == []
    false = Counter(severity for severity, why in judged if why.startswith("false: "))
    assert false["error"] == 0
    assert false["warning"] <= 0.02 * Counter(severity for severity, _ in judged)["warning"]


def test_only_what_configures_no_broker_topic_or_connector_is_not_read() -> None:
    unread = {
        f"{folder}/{reading.document.path}"
        for folder in folders_of_the_corpus()
        for reading in read(CORPUS / folder)
        if reading.speaks
    }
    assert unread <= {
        "compose-redpanda/docker-compose.yml",
        "foreign/gitlab-ci.yml",
        "k8s-plain/app.yaml",
        "strimzi-basic/user.yaml",
        "strimzi-prod/rebalance.yaml",
        "templates/topic.yaml",
    }


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("server.properties", "process.roles=broker\nnode.id=1\nbroker.id=${ID}\n", "KKQ858"),
        (
            "server.properties",
            "process.roles=broker\nnode.id=1\nlisteners=SSL://:1\nsecurity.inter.broker.protocol=${X}\n",
            "KKQ854",
        ),
        (
            "cluster.yaml",
            "kafkakit: cluster\nbrokers:\n- {id: 1, config: {log.retention.ms: '5'}}\n"
            "- {id: 2, config: {log.retention.ms: '${X}'}}\n",
            "KKX003",
        ),
        (
            "kafka_consumer.yaml",
            "instances:\n- {kafka_connect_str: 'a:1', monitor_unlisted_consumer_groups: '%%env_ALL%%'}\n",
            "KKA952",
        ),
        (
            "kafka.yaml",
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: k}\nspec:\n  replicas: ${N}\n  template:\n"
            "    spec:\n      containers:\n      - name: k\n        image: apache/kafka:4.1.0\n"
            "        env: [{name: KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR, value: '3'}]\n",
            "KKD125",
        ),
    ],
)
def test_what_is_filled_in_contradicts_nothing(name: str, text: str, code: str) -> None:
    assert code not in findings_of(name, text)
    plain = text.replace("${ID}", "9").replace("${X}", "9").replace("${N}", "1").replace("%%env_ALL%%", "no")
    assert code in findings_of(name, plain)
