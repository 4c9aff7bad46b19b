"""What a reading of a cluster comes to: each kind of trouble, what outweighs what, and what is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    ClusterInfo,
    GroupListing,
    GroupState,
    GroupType,
    PartitionHealth,
    PartitionState,
    Quorum,
    Voter,
)
from kafkakit.core.errors import ExitCode, UsageError
from kafkakit.core.findings import FailOn, Finding, Rule, Severity
from kafkakit.core.lease import LeaseRecord
from kafkakit.core.model import Broker, BrokerState, LogDir, TopicPartition
from kafkakit.kubernetes.brokers import pods_of_cluster
from kafkakit.kubernetes.objects import read_objects
from kafkakit.status.decide.delays import UNREADABLE, GroupDelay, MeasuredDelays
from kafkakit.status.decide.history import (
    EVERY_S,
    MOST_SAMPLES,
    StatusHistory,
    encode_history,
    read_history,
    with_reading,
)
from kafkakit.status.decide.ignore import FAMILIES, NOTHING_IGNORED, IgnoreRules, parse_ignored
from kafkakit.status.decide.judgement import (
    CHECKS,
    ESSENTIAL,
    ClusterReading,
    Health,
    Part,
    PartName,
    exit_code,
    judge_cluster,
    overall,
)
from kafkakit.status.decide.object_pages import groups_page
from kafkakit.status.decide.page_parts import Address, Cell, ClusterView, Link, PageMark, UiPage, cut_words
from kafkakit.status.decide.pages import findings_page, fleet_page, overview_page
from kafkakit.status.decide.surroundings import POD_CHECKS, LintSummary, SeenService, ServiceName
from kafkakit.status.report.status import nagios_report, status_report
from tests.rigs.kubernetes import cluster, printed

NOW = datetime(2026, 11, 28, 7, 4, 10, tzinfo=UTC)
GIB = 1 << 30


def disk(broker: int, share: float, *, error: str | None = None) -> BrokerLogDirs:
    place = LogDir(path="/data/1", total_bytes=100 * GIB, usable_bytes=round(100 * GIB * (1 - share)), error=error)
    return BrokerLogDirs(broker=broker, log_dirs=(place,))


def healthy(**changes: Any) -> ClusterReading:
    """Three brokers in three racks, one topic of three partitions, all in sync."""
    brokers = tuple(Broker(id=b, rack=rack, host="h", port=9092) for b, rack in zip((1, 2, 3), "abc", strict=True))
    reading = ClusterReading(
        profile="prod",
        at=NOW,
        parts=tuple(Part(name=name) for name in PartName),
        info=ClusterInfo(cluster_id="c", brokers=brokers, controller_id=1, kafka_version="4.1.1"),
        quorum=Quorum(leader=1, voters=(Voter(id=1, behind_ms=0), Voter(id=2, behind_ms=0), Voter(id=3, behind_ms=5))),
        partitions=health({}),
        disks={b: disk(b, 0.5) for b in (1, 2, 3)},
        rates={},
        groups=(),
        lag=(),
        cordoned={},
        program="kafkakit --profile prod",
    )
    return replace(reading, **changes)


def health(unwell: Mapping[TopicPartition, PartitionState], **changes: Any) -> PartitionHealth:
    found = PartitionHealth(
        topics=1,
        partitions=30,
        leaders={1: 10, 2: 10, 3: 10},
        replicas={1: 30, 2: 30, 3: 30},
        not_preferred=0,
        unwell=unwell,
    )
    return replace(found, **changes)


def state(isr: tuple[int, ...], *, leader: int | None = 1, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(replicas=replicas, isr=isr, leader=leader)


def down(reading: ClusterReading, broker: int, how: BrokerState = BrokerState.FENCED) -> ClusterReading:
    assert reading.info is not None
    brokers = tuple(replace(b, state=how) if b.id == broker else b for b in reading.info.brokers)
    return replace(reading, info=replace(reading.info, brokers=brokers))


def named(reading: ClusterReading, rule: str) -> Finding:
    (found,) = [f for f in judge_cluster(reading).findings if f.rule == rule]
    return found


P7 = TopicPartition("payments", 7)


def test_a_cluster_without_trouble_is_ok_and_has_no_finding() -> None:
    status = judge_cluster(healthy())
    assert (status.health, status.findings) == (Health.OK, ())
    assert exit_code([status], FailOn.NOTE) is ExitCode.DONE
    assert [row.state for row in status.brokers] == ["alive"] * 3


def without(name: PartName, reading: ClusterReading | None = None) -> ClusterReading:
    parts = tuple(Part(name=each, error="no answer in 3 s" if each is name else "") for each in PartName)
    return replace(reading or healthy(), parts=parts)


@pytest.mark.parametrize("name", PartName)
def test_a_part_that_is_not_known_never_looks_good(name: PartName) -> None:
    status = judge_cluster(without(name))
    assert status.health is (Health.UNKNOWN if name in ESSENTIAL else Health.WARNING)
    assert exit_code([status], FailOn.ERROR) is (ExitCode.TRY_LATER if name in ESSENTIAL else ExitCode.DONE)
    page = overview_page(ClusterView(name="prod", base="", status=status))
    assert "healthy" not in page.title
    assert "not known" in page.title
    report = nagios_report([status], fail_on=FailOn.ERROR)
    assert int(report.code) in (1, 3)
    assert "not known" in status_report([status], fail_on=FailOn.ERROR, width=120).text.splitlines()[0]


def test_without_its_controllers_a_cluster_is_not_known_unless_an_error_is() -> None:
    lost = without(PartName.CONTROLLER, healthy(quorum=None))
    assert judge_cluster(lost).health is Health.UNKNOWN
    assert judge_cluster(down(lost, 3)).health is Health.ERROR


def test_a_voter_that_the_leader_has_not_heard_of_is_not_caught_up() -> None:
    dead = healthy(quorum=Quorum(leader=1, voters=(Voter(id=1, behind_ms=0), Voter(id=2, behind_ms=0), Voter(id=3))))
    found = named(dead, "quorum-lag")
    assert (found.severity, found.subjects) == (Severity.WARNING, ("3",))
    assert "2 of 3 voters" in status_report([judge_cluster(dead)], fail_on=FailOn.ERROR, width=120).text
    old = healthy(quorum=Quorum(leader=1, voters=(Voter(id=1), Voter(id=2), Voter(id=3))))
    assert judge_cluster(old).findings == ()
    assert "? of 3 voters" in status_report([judge_cluster(old)], fail_on=FailOn.ERROR, width=120).text


def test_a_page_whose_last_reading_failed_says_so_and_not_that_all_is_well() -> None:
    view = ClusterView(name="prod", base="", status=judge_cluster(healthy()), failure="no answer", age_s=5.0)
    page = overview_page(view)
    words = " ".join(word for section in page.sections for word in section.words)
    assert page.health is Health.UNKNOWN
    assert "Nothing is wrong" not in words
    assert "no answer" in words
    assert "healthy" not in page.title
    fleet = fleet_page([view, ClusterView(name="eu", base="/c/eu", failure="no answer")])
    assert "2 not known" in fleet.title


CASES: Mapping[str, tuple[ClusterReading, Severity, str]] = {
    "no-controller": (
        healthy(quorum=Quorum(leader=None, voters=(Voter(id=1),))), Severity.ERROR, "no controller leads"
    ),
    "quorum-lag": (
        healthy(quorum=Quorum(leader=1, voters=(Voter(id=1, behind_ms=0), Voter(id=2, behind_ms=0),
                                                Voter(id=3, behind_ms=41_000)))),
        Severity.WARNING, "voter 3 is 41s behind",
    ),
    "broker-down": (down(healthy(), 3), Severity.ERROR, "3 (rack c) is down; 30 replicas"),
    "broker-hangs": (
        healthy(disks={1: disk(1, 0.5), 2: disk(2, 0.5), 3: BrokerLogDirs(broker=3, error="no answer in 3 s")}),
        Severity.ERROR, "does not answer",
    ),
    "offline": (
        down(healthy(partitions=health({P7: state((3,), leader=None, replicas=(3,))})), 3),
        Severity.ERROR, "payments/7 has no leader; replicas: 3 (down)",
    ),
    "under-min-isr": (
        healthy(partitions=health({P7: state((1,))}), min_isr={"payments": 2}),
        Severity.ERROR, "payments/7: 1 in sync, needs 2; acks=all fails",
    ),
    "at-min-isr": (
        healthy(partitions=health({P7: state((1, 2))}), min_isr={"payments": 2}),
        Severity.WARNING, "payments/7: 2 in sync, as many as acks=all needs",
    ),
    "under-replicated": (
        healthy(partitions=health({P7: state((1, 2))})), Severity.WARNING, "payments/7: 3 not in sync"
    ),
    "not-preferred": (healthy(partitions=health({}, not_preferred=12)), Severity.NOTE, "12 of 30 partitions"),
    "dir-offline": (
        healthy(disks={1: disk(1, 0.1, error="KAFKA_STORAGE_ERROR")}), Severity.ERROR, "1 /data/1 is offline"
    ),
    "disk": (healthy(disks={1: disk(1, 0.86)}), Severity.WARNING, "1 /data/1 is 86% full"),
    "group-stopped": (
        healthy(lag=(GroupDelay(group="fraud", status="stopped", lag=12),)), Severity.WARNING, "12 records behind"
    ),
    "group-lost": (healthy(lag=(GroupDelay(group="fraud", status="lost"),)), Severity.ERROR, "expired before"),
    "group-state": (
        healthy(groups=(GroupListing(group="g", type=GroupType.CLASSIC, state=GroupState.PREPARING),)),
        Severity.NOTE, "1 group rebalancing: g",
    ),
    "group-lag": (
        healthy(lag=(GroupDelay(group="fraud", status="ok", lag=12, over_limit="20m behind, above its limit of 10m"),)),
        Severity.WARNING, "fraud: 20m behind",
    ),
    "service-stopped": (
        healthy(services=(
            SeenService(name=ServiceName.ASSIGNER, needs=("orders",), record=LeaseRecord(
                token=1, beats=1, ttl_s=2.0, taken_at=NOW, renewed_at=NOW - timedelta(minutes=5))),
        )),
        Severity.WARNING, "stream assigner was stopped 5m ago, but partitions of orders are assigned",
    ),
    "versions": (healthy(versions={1: "3.8-IV0", 2: "3.9-IV0"}), Severity.NOTE, "3.8-IV0 on 1, 3.9-IV0 on 2"),
    "certificate": (healthy(certificates={2: NOW + timedelta(days=12)}), Severity.WARNING, "2 expires in 12d"),
    "lint": (
        healthy(lint=LintSummary(at=NOW - timedelta(hours=2), errors=("KKR201 orders",))),
        Severity.WARNING, "KKR201 orders",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_each_trouble_is_one_finding_with_its_severity_and_a_command(rule: str) -> None:
    reading, severity, words = CASES[rule]
    found = named(reading, rule)
    assert (found.severity, words in found.message) == (severity, True), found
    assert found.hint.startswith("kafkakit --profile prod ")


def test_every_check_of_a_reading_without_moves_has_a_case() -> None:
    from_moves = {"move-stalled", "moving", "leftover-throttle", "run-unfinished", "stream-operation"}
    of_pods = {rule.name for rule in POD_CHECKS}  # tests/unit/kubernetes/test_brokers.py
    assert {rule.name for rule in CHECKS} == {*CASES, *from_moves, *of_pods}


@pytest.mark.parametrize(("expands", "command"), [(True, "kubectl patch pvc data-kafka-1 "), (False, "kafkakit ")])
def test_a_full_disk_is_repaired_by_its_volume_if_that_can_grow(expands: bool, command: str) -> None:
    pods = pods_of_cluster(read_objects(printed(cluster("abc", first=1, expands=expands)), "f"))
    found = named(healthy(disks={1: disk(1, 0.91)}, pods=pods), "disk")
    assert found.hint.startswith(command)
    assert ("may grow to 130Gi" in found.message) is expands


def test_half_of_the_voters_behind_is_an_error() -> None:
    voters = (Voter(id=1, behind_ms=0), Voter(id=2, behind_ms=60_000), Voter(id=3, behind_ms=60_000))
    assert named(healthy(quorum=Quorum(leader=1, voters=voters)), "quorum-lag").severity is Severity.ERROR


@pytest.mark.parametrize(("share", "expected"), [(0.84, None), (0.85, "warning"), (0.90, "error")])
def test_a_disk_is_judged_by_what_is_usable(share: float, expected: str | None) -> None:
    found = [f.severity.value for f in judge_cluster(healthy(disks={1: disk(1, share)})).findings]
    assert found == ([expected] if expected else [])


def test_a_disk_that_is_full_in_hours_is_an_error_before_it_is_full() -> None:
    early = with_reading(StatusHistory(), NOW - timedelta(hours=1), (), {1: disk(1, 0.50)})
    status = judge_cluster(healthy(disks={1: disk(1, 0.70)}), early)
    (found,) = status.findings
    assert (found.rule, found.severity) == ("disk", Severity.ERROR)
    assert "left at this rate" in found.message  # 20 GiB an hour, 30 GiB left


def test_a_partition_is_named_by_the_worst_of_its_findings_only_and_counts_overlap_as_kafkas_do() -> None:
    unwell = {P7: state((3,), leader=None, replicas=(3, 1)), TopicPartition("orders", 3): state((1,))}
    reading = down(healthy(partitions=health(unwell), min_isr={"payments": 2, "orders": 2}), 3)
    status = judge_cluster(reading)
    assert status.counts is not None
    assert (status.counts.offline, status.counts.under_min_isr, status.counts.under_replicated) == (1, 2, 2)
    texts = {f.rule: f.message for f in status.findings}
    assert "payments/7" in texts["offline"]
    assert "not named above: orders/3" in texts["under-min-isr"]
    assert "under-replicated" not in texts


def test_min_isr_above_the_number_of_replicas_is_not_counted_twice() -> None:
    reading = healthy(partitions=health({P7: state((1,), replicas=(1,))}), min_isr={"payments": 2})
    assert judge_cluster(reading).findings == ()


@pytest.mark.parametrize(("version", "needs"), [("3.6.1", 3), ("3.9.0", 2), (None, 2)])
def test_before_kafka_3_7_a_minimum_above_the_replicas_stops_writes(version: str | None, needs: int) -> None:
    reading = healthy(partitions=health({P7: state((1,), replicas=(1, 2))}), min_isr={"payments": 3})
    assert reading.info is not None
    reading = replace(reading, info=replace(reading.info, kafka_version=version))
    assert f"1 in sync, needs {needs};" in named(reading, "under-min-isr").message


def test_copies_are_offered_where_replicas_are_lost_and_others_can_take_them() -> None:
    lost = down(down(healthy(partitions=health({P7: state((1,))}), min_isr={"payments": 2}), 2), 3)
    show, mend = "partition describe payments/7", "topicmappr repair --topics payments --plan repair.json"
    assert named(lost, "under-min-isr").hint.endswith(show)  # nobody else is there
    roomy = healthy(partitions=health({P7: state((1,), replicas=(1, 2))}), min_isr={"payments": 2})
    assert named(roomy, "under-min-isr").hint.endswith(show)  # 2 is alive: it may catch up
    assert named(down(roomy, 2), "under-min-isr").hint.endswith(mend)
    failed = replace(roomy, disks={2: disk(2, 0.1, error="KAFKA_STORAGE_ERROR")})
    assert named(failed, "under-min-isr").hint.endswith(mend)


def test_a_broker_of_a_sandbox_is_started_by_the_line_that_names_it() -> None:
    dead = down(healthy(sandbox="trial"), 3)
    assert named(dead, "broker-down").hint == "kafkakit --profile prod sandbox restart 3 --name trial"
    failed = healthy(sandbox="trial", disks={1: disk(1, 0.1, error="KAFKA_STORAGE_ERROR")})
    assert named(failed, "dir-offline").hint == "kafkakit --profile prod sandbox restart 1 --name trial"
    assert named(replace(dead, sandbox=""), "broker-down").hint.endswith("broker describe 3")


def test_a_dead_broker_without_replicas_is_a_note_that_says_how_to_take_it_off_the_list() -> None:
    empty = down(healthy(partitions=health({}, replicas={1: 45, 2: 45})), 3)
    found = named(replace(empty, is_whole=True), "broker-down")
    assert (found.severity, found.hint.endswith("broker decommission 3")) == (Severity.NOTE, True)
    maybe = named(empty, "broker-down")
    assert (maybe.severity, "decommission" in maybe.hint) == (Severity.WARNING, False)
    unread = down(healthy(partitions=None), 3)
    assert named(unread, "broker-down").severity is Severity.ERROR


def test_a_broker_that_only_replica_lists_name_is_down() -> None:
    reading = healthy(partitions=health({}, replicas={1: 30, 2: 30, 3: 30, 9: 4}))
    assert "4 replicas" in named(reading, "broker-down").message
    assert [row.state for row in judge_cluster(reading).brokers] == ["alive"] * 3 + ["down"]


def test_a_fenced_broker_without_replicas_is_found_and_an_unregistered_one_is_not() -> None:
    assert (
        "4"
        in named(
            down(replace(healthy(), info=replace(_info(), brokers=(*_info().brokers, Broker(id=4)))), 4), "broker-down"
        ).message
    )


def _info() -> ClusterInfo:
    info = healthy().info
    assert info is not None
    return info


@pytest.mark.parametrize("part", [PartName.BROKERS, PartName.PARTITIONS])
def test_what_could_not_be_read_is_unknown_and_never_ok(part: PartName) -> None:
    parts = (Part(name=part, error="no answer in 3 s"),)
    status = judge_cluster(healthy(parts=parts, info=None, partitions=None, disks=None, quorum=None))
    assert (status.health, status.worst) == (Health.UNKNOWN, "no answer in 3 s")
    assert exit_code([status], FailOn.ERROR) is ExitCode.TRY_LATER
    denied = judge_cluster(healthy(parts=(replace(parts[0], is_denied=True),), partitions=None))
    assert exit_code([denied], FailOn.ERROR) is ExitCode.FAILED


def test_an_error_outweighs_what_is_not_known() -> None:
    reading = down(healthy(parts=(Part(name=PartName.PARTITIONS, error="no answer"),), partitions=None), 2)
    status = judge_cluster(reading)
    assert status.health is Health.ERROR
    assert exit_code([status], FailOn.ERROR) is ExitCode.FAILED


def test_the_fleet_is_as_well_as_its_worst_cluster() -> None:
    well = judge_cluster(healthy())
    unknown = judge_cluster(healthy(parts=(Part(name=PartName.BROKERS, error="x"),), info=None))
    bad = judge_cluster(down(healthy(), 1))
    assert overall([well]) is Health.OK
    assert overall([well, unknown]) is Health.UNKNOWN
    assert overall([bad, unknown, well]) is Health.ERROR
    assert overall([]) is Health.OK


def test_how_long_a_finding_stands_is_kept_and_forgotten_with_it() -> None:
    reading = down(healthy(), 3)
    first = judge_cluster(reading)
    history = with_reading(StatusHistory(), NOW, first.findings, reading.disks)
    later = judge_cluster(replace(reading, at=NOW + timedelta(minutes=13)), history)
    assert set(later.since.values()) == {780.0}
    assert with_reading(history, NOW + timedelta(minutes=14), (), None).since == {}


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'{"schema":9}', b'{"disks":[{"at_s":"x"}]}', b"\xff\xfe"])
def test_a_damaged_memory_is_no_memory(data: bytes | None) -> None:
    assert read_history(data) == StatusHistory()


@given(st.lists(st.integers(0, 4000), max_size=40))
def test_the_memory_is_bounded_and_comes_back_as_it_was_written(steps: list[int]) -> None:
    history, at = StatusHistory(), NOW
    for step in steps:
        at += timedelta(seconds=step)
        history = with_reading(history, at, (), {1: disk(1, 0.5)})
        times = [sample.at_s for sample in history.disks]
        assert len(times) <= MOST_SAMPLES
        assert all(b - a >= EVERY_S for a, b in pairwise(times))
    assert read_history(encode_history(history)) == history


# -- what its owners do not want to be told

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


def test_pages_show_the_number_and_what_it_is_about() -> None:
    status = judge_cluster(ignoring(BEHIND, "group:billing*"))
    view = ClusterView(name="prod", base="", status=status)
    words = [word for section in overview_page(view).sections for word in section.words]
    assert "Findings: 1 ignored by status.ignore." in words
    (section,) = [s for s in findings_page(view, "").sections if s.id == "ignored"]
    assert [finding.where for finding, _ in section.findings] == ["group billing-eu"]


def test_a_certificate_of_another_broker_is_still_told() -> None:
    reading = healthy(certificates={b: NOW + timedelta(days=b) for b in (1, 2, 3)})
    (kept,) = judge_cluster(ignoring(reading, "certificate:1")).findings
    assert kept.subjects == ("2", "3")


def test_a_finding_about_other_partitions_is_another_one() -> None:
    one, other = (
        named(healthy(partitions=health({key: state((1, 2)) for key in keys})), "under-replicated").fingerprint
        for keys in ((P7,), (TopicPartition("payments", 8),))
    )
    assert one != other


def groups_of(**changes: Any) -> UiPage:
    listed = tuple(
        GroupListing(group=f"g{n}", type=GroupType.CLASSIC, state=GroupState.STABLE if n else GroupState.EMPTY)
        for n in range(3)
    )
    reading = replace(healthy(groups=listed), **changes)
    return groups_page(ClusterView(name="prod", base="", status=judge_cluster(reading)), Address())


def cells_of(page: UiPage) -> dict[str, Sequence[Cell]]:
    rows = [cells for section in page.sections if section.table for cells in section.table.rows]
    return {cells[0].text if isinstance(cells[0], Link) else str(cells[0]): cells for cells in rows}


def test_what_is_not_known_of_groups_does_not_look_good() -> None:
    unread = groups_of(lag=None, parts=(Part(name=PartName.LAG, error="no answer"),))
    assert "not all is known" in unread.title
    assert {cells[2] for cells in cells_of(unread).values()} == {"?"}
    above = groups_of(lag=(GroupDelay(group="g1", status="ok", lag=9, over_limit="9 records behind, limit 5"),))
    mark = cells_of(above)["g1"][1]
    assert isinstance(mark, PageMark)
    assert mark.severity == "warning"
    assert "over a limit" in above.title
    old = groups_of(measured=MeasuredDelays(at=NOW - timedelta(hours=5)))
    assert any("5h" in word or "5 h" in word for section in old.sections for word in section.words)
    blind = groups_of(lag=(GroupDelay(group="g0", status=UNREADABLE),))
    assert any("g0" in word for section in blind.sections for word in section.words)
    assert cells_of(blind)["g0"][2] == "?"


def test_a_list_that_is_cut_says_so() -> None:
    assert [len(cut_words(total, 500)) for total in (0, 500, 501)] == [0, 0, 1]
    brokers = tuple(Broker(id=b, rack="a", host="h", port=9092) for b in range(201))
    found = healthy()
    assert found.info is not None
    many = replace(found, info=replace(found.info, brokers=brokers))
    page = overview_page(ClusterView(name="prod", base="", status=judge_cluster(many)))
    assert [len(section.words) for section in page.sections if section.id == "racks"] == [1]
