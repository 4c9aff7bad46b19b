"""Repairs of findings as one change that lint reads."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.audit.decide.runs import collect_repairs
from kafkakit.audit.report.exports import fixes_report
from tests.rigs.lint_runs import linted
from tests.unit.audit.made import EVIL, a_finding


def test_settings_are_grouped_by_cluster_and_resource_and_lint_reads_them() -> None:
    findings = (
        a_finding("orders", repair="segment.ms=600000\nsegment.bytes=1048576", code="KKR201"),
        a_finding("x", where="partition orders-3 of c1", repair="retention.ms=86400000", code="KKR202"),
        a_finding("x", where="broker 5 of c1", repair="log.cleaner.threads=2"),
        a_finding("x", where="cluster c2", cluster="c2", repair="log.retention.ms=5000"),
        a_finding("x", cluster="c2", repair="kafkakit topicmappr rebalance --topics x"),
        a_finding("y", cluster="c2", repair="kafkakit topicmappr rebalance --topics x"),
        a_finding("z"),
    )
    report = fixes_report(collect_repairs(findings), "r1")
    assert list(yaml.safe_load_all(report.text)) == [
        {
            "kafkakit": "cluster",
            "cluster": "c1",
            "brokers": [{"id": 5, "dynamic": {"log.cleaner.threads": "2"}}],
            "topics": [
                {
                    "name": "orders",
                    "config": {"retention.ms": "86400000", "segment.bytes": "1048576", "segment.ms": "600000"},
                }
            ],
        },
        {"kafkakit": "cluster", "cluster": "c2", "defaults": {"log.retention.ms": "5000"}},
    ]
    assert report.text.splitlines()[:2] == [
        "# repairs of the findings of run r1: 5 settings of 2 clusters, 1 command",
        "# kafkakit topicmappr rebalance --topics x",
    ]
    assert report.rows[1] == ("c1", "topic", "orders", "retention.ms", "86400000", ["KKR201", "KKR202"])
    assert report.warnings == ()
    read = linted({"fixes.yaml": report.text}).result
    assert read.resources["topic"] == 1
    assert not {c.finding.rule for c in read.checked if c.finding.rule.startswith("KKL")}


def test_one_cluster_can_be_chosen() -> None:
    findings = (a_finding("a", repair="k.a=1"), a_finding("b", cluster="c2", repair="k.b=2"))
    assert list(collect_repairs(findings, "c2").settings) == ["c2"]


def test_the_worse_finding_wins_and_the_other_is_told() -> None:
    findings = (a_finding("a", repair="segment.ms=1"), a_finding("a", repair="segment.ms=2", code="KKR202"))
    made = collect_repairs(findings)
    assert made.settings == {"c1": {("topic", "a"): {"segment.ms": "1"}}}
    assert made.left_out == ("KKR202 at topic a of c1: segment.ms=2 is not taken, a worse finding asks for 1",)


def test_what_cannot_be_a_change_is_told() -> None:
    findings = (
        a_finding("a", where="group billing of c1", repair="k.a=1"),
        a_finding("b", repair="rm -rf /"),
        a_finding("c", where="broker x of c1", repair="k.a=1"),
    )
    made = collect_repairs(findings)
    assert (made.settings, made.commands, len(made.left_out)) == ({}, (), 3)
    assert fixes_report(made, "r").text == (
        "# repairs of the findings of run r: 0 settings of 0 clusters, 0 commands\n"
    )


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
@settings(max_examples=60)
def test_any_name_and_value_come_back_from_the_file(topic: str, value: str) -> None:
    value = " ".join(value.split())
    finding = a_finding("a", where=f"topic {topic} of {EVIL}", cluster=EVIL, repair=f"retention.ms={value}")
    repairs = collect_repairs((finding,))
    report = fixes_report(repairs, EVIL)
    if repairs.settings:
        (document,) = yaml.safe_load_all(report.text)
        assert document["cluster"] == EVIL
        assert document["topics"] == [{"name": topic, "config": {"retention.ms": value}}]
