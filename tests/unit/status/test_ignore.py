"""What the owners of a cluster do not want to be told is counted, and is never left out in silence."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kafkakit.core.errors import ExitCode, UsageError
from kafkakit.core.findings import FailOn, Rule, Severity
from kafkakit.core.model import TopicPartition
from kafkakit.status.decide.delays import GroupDelay
from kafkakit.status.decide.ignore import FAMILIES, NOTHING_IGNORED, IgnoreRules, parse_ignored
from kafkakit.status.decide.judgement import CHECKS, ClusterReading, Health, exit_code, judge_cluster
from kafkakit.status.report.status import nagios_report, status_report
from tests.unit.status.test_judgement import CASES, NOW, down, health, healthy, state

KINDS = [rule.name for rule in CHECKS]
BEHIND = healthy(
    lag=(GroupDelay(group="billing-eu", status="stopped", lag=3), GroupDelay(group="fraud", status="stopped", lag=4))
)
SHORT = healthy(
    partitions=health({TopicPartition(t, 0): state((1, 2)) for t in ("test-a", "test-b", "orders")}),
)


def ignoring(reading: ClusterReading, *entries: str) -> ClusterReading:
    return replace(reading, ignore=parse_ignored({"status.ignore": entries}, KINDS))


def test_a_kind_with_a_glob_takes_only_the_names_that_fit() -> None:
    status = judge_cluster(ignoring(BEHIND, "group:billing*"))
    assert [f.where for f in status.findings] == ["group fraud"]
    assert [f.where for f in status.ignored] == ["group billing-eu"]


def test_a_finding_about_many_keeps_those_that_do_not_fit() -> None:
    status = judge_cluster(ignoring(SHORT, "replication:test-*"))
    (kept,), (ignored,) = status.findings, status.ignored
    assert kept.subjects == ("orders/0",)
    assert ignored.subjects == ("test-a/0", "test-b/0")
    assert status.counts == judge_cluster(SHORT).counts


def test_what_is_ignored_does_not_count_for_health_and_exit_code() -> None:
    reading = ignoring(down(healthy(), 3), "broker:3")
    status = judge_cluster(reading)
    assert (status.health, exit_code([status], FailOn.NOTE)) == (Health.OK, ExitCode.DONE)


def test_an_ignored_finding_is_not_told_under_a_lesser_name() -> None:
    reading = healthy(partitions=health({TopicPartition("test", 0): state((1,))}), min_isr={"test": 2})
    assert judge_cluster(ignoring(reading, "under-min-isr:test")).findings == ()


@pytest.mark.parametrize(
    ("entry", "rule"),
    [("certificate:2", "certificate"), ("lint:KKR2*", "lint"), ("group-state", "group-state"), ("disk", "disk")],
)
def test_each_kind_can_be_ignored_by_its_own_name(entry: str, rule: str) -> None:
    status = judge_cluster(ignoring(CASES[rule][0], entry))
    assert (status.findings, [f.rule for f in status.ignored]) == ((), [rule])


def test_every_case_is_ignored_by_its_kind_alone() -> None:
    for rule, (reading, _, _) in CASES.items():
        status = judge_cluster(ignoring(reading, rule))
        assert rule in {f.rule for f in status.ignored}
        assert rule not in {f.rule for f in status.findings}


def test_families_name_kinds_that_exist() -> None:
    assert {kind for kinds in FAMILIES.values() for kind in kinds} <= set(KINDS)


def test_a_kind_that_does_not_exist_is_refused_with_its_source_and_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"status\.ignore: 'grup' .*did you mean group") as found:
        parse_ignored({"status.ignore": ["grup:x"]}, KINDS)
    assert found.value.hint is not None
    assert "under-replicated" in found.value.hint


def test_nothing_is_ignored_without_entries() -> None:
    finding = Rule("disk", Severity.WARNING, "x").finding("broker 1 /data", "full")
    assert not NOTHING_IGNORED.covers(finding)
    assert parse_ignored({"status.ignore": (), "--ignore": ()}, KINDS) == IgnoreRules()


def test_the_number_and_what_asked_for_it_are_shown_in_every_form() -> None:
    status = judge_cluster(ignoring(BEHIND, "group:*"))
    report = status_report([status], fail_on=FailOn.ERROR, width=80)
    assert "2 ignored by status.ignore" in report.text
    assert [row[1] for row in report.rows] == ["ignored", "ignored"]
    assert "2 ignored by status.ignore" in nagios_report([status], fail_on=FailOn.ERROR).text
    fleet = status_report([status, judge_cluster(healthy())], fail_on=FailOn.ERROR, width=80, is_fleet=True)
    assert "ignored findings: 2 of prod" in fleet.text
    both = parse_ignored({"status.ignore": ["disk"], "--ignore": ["lint"]}, KINDS)
    assert both.source == "status.ignore and --ignore"


def test_a_certificate_of_another_broker_is_still_told() -> None:
    reading = healthy(certificates={b: NOW + timedelta(days=b) for b in (1, 2, 3)})
    (kept,) = judge_cluster(ignoring(reading, "certificate:1")).findings
    assert kept.subjects == ("2", "3")
