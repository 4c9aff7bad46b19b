"""A run as metrics, and the dashboard over them."""

import json
import re
from typing import Any

from kafkakit.audit.decide.runs import compare
from kafkakit.audit.report.exports import HELP, PREFIX, datadog_series, families, metrics_report
from kafkakit.audit.report.results import AuditView
from tests.places import ROOT
from tests.rigs.audit_dashboard import dashboard_json
from tests.unit.audit.made import EVIL, KINDS, a_finding, a_run


def a_view() -> AuditView:
    before = a_run(a_finding("old"), date="2026-11-19")
    run = a_run(
        a_finding("a", blast=5),
        a_finding("b", severity="error"),
        a_finding("b", cluster="c2"),
        jobs=("drift", "lag"),
        failed={"lag": "boom"},
        facts={"rows": 12, "days_to_full": 3.25, "words": "x", "none": float("inf")},
        skipped=("one",),
        left_out=("a", "b"),
        clusters={"c1": KINDS, "c2": KINDS, "clean": KINDS},
    )
    return AuditView(run=run, comparison=compare(before, run), history=(before,))


def test_the_text_is_as_recorded() -> None:
    assert metrics_report(a_view()).text == (ROOT / "tests/cases/audit/metrics.prom").read_text()


def test_every_metric_that_has_help_is_written() -> None:
    found = families(a_view())
    assert [f.name for f in found] == list(HELP)
    assert all(f.samples for f in found)


def test_no_two_samples_have_the_same_labels() -> None:
    for family in families(a_view()):
        labels = [labels for labels, _ in family.samples]
        assert len(set(labels)) == len(labels)


def test_a_name_from_outside_stays_in_its_label() -> None:
    name = 'a"} 1\nkafkakit_audit_x 1 \\'
    lines = metrics_report(AuditView(run=a_run(a_finding("a", cluster=name), clusters={EVIL: KINDS}))).text.splitlines()
    assert not any(line.startswith("kafkakit_audit_x") for line in lines)
    assert sum(line.startswith(f"{PREFIX}findings{{") for line in lines) == 1


def test_series_for_datadog_have_the_same_values() -> None:
    series = datadog_series(families(a_view()), 1_795_219_200)
    by_name: dict[Any, Any] = {(s["metric"], tuple(s["tags"])): s["points"] for s in series}  # type: ignore[arg-type]
    assert by_name["kafkakit.audit.fact", ("audit:drift", "fact:days_to_full")] == [
        {"timestamp": 1_795_219_200, "value": 3.25}
    ]
    assert len(series) == sum(len(f.samples) for f in families(a_view()))
    assert {s["type"] for s in series} == {3}


def the_dashboard() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(dashboard_json())
    return made


def test_every_metric_of_the_dashboard_is_written_and_every_metric_is_shown() -> None:
    written = {PREFIX + name for name in HELP}
    board = the_dashboard()
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = {name for text in expressions for name in re.findall(r"[a-z_]*kafkakit[a-z_]*", text)}
    assert used == written
    queries = [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    assert {re.findall(r"\((\w+),", query)[0] for query in queries} <= written


def test_labels_of_the_dashboard_are_those_of_its_metrics() -> None:
    labels = {PREFIX + f.name: {name for own, _ in f.samples for name, _ in own} for f in families(a_view())}
    for panel in the_dashboard()["panels"]:
        for target in panel["targets"]:
            for metric, selected in re.findall(r"(kafkakit_\w+)\{([^}]*)\}", target["expr"]):
                assert set(re.findall(r"(\w+)[=!]", selected)) <= labels[metric], panel["title"]
            grouped = [n for names in re.findall(r"by \(([^)]*)\)", target["expr"]) for n in names.split(", ")]
            metrics = re.findall(r"kafkakit_\w+", target["expr"])
            assert all(set(grouped) - {"__name__"} <= labels[m] for m in metrics), panel["title"]
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(grouped), panel["title"]
