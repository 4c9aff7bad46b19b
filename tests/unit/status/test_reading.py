"""Reading a cluster part by part: what one part hinders hinders no other, and what is found is what is judged."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    ClusterInfo,
    ConfigChange,
    ConfigOp,
    ItemError,
    LogSpan,
    PartitionHealth,
    PartitionState,
    ResourceKind,
)
from kafkakit.core.errors import ExitCode, KafkakitError, MissingRightError, TryLaterError, UsageError
from kafkakit.core.findings import FailOn
from kafkakit.core.lease import HeldLease, Life
from kafkakit.core.model import ClusterSnapshot, LogDir, TopicPartition, TopicPartitionReplica
from kafkakit.execution.act.leases import LeaseReader
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore
from kafkakit.status.act.objects import read_groups, read_topics
from kafkakit.status.act.reading import (
    HISTORY_LIMIT_BYTES,
    HistoryFile,
    StatusReader,
    StatusSources,
    lag_of_empty,
    pause_after,
)
from kafkakit.status.decide.delays import MOST_EMPTY_GROUPS, UNREADABLE, GroupDelay, MeasuredDelays, merged_delays
from kafkakit.status.decide.history import MOST_BYTES, StatusHistory, encode_history, with_reading
from kafkakit.status.decide.judgement import Health, PartName, exit_code, judge_cluster
from kafkakit.status.decide.objects import PartitionWord
from kafkakit.status.report.status import status_report
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.editing import LineReporter


class NoRuns:
    damaged: tuple[str, ...] = ()

    def read(self) -> tuple[()]:
        return ()


def refusing(error: KafkakitError) -> Callable[[], ClusterAdmin]:
    def open_admin() -> ClusterAdmin:
        raise error

    return open_admin


def cluster() -> FakeCluster:
    found = FakeCluster({1: "a", 2: "b", 3: "c"})
    found.add_topic("orders", {0: (1, 2, 3), 1: (2, 3, 1)}, configs={"min.insync.replicas": "2"})
    return found


def sources(found: FakeCluster, **changes: object) -> StatusSources:
    values: dict[str, object] = {
        "profile": "prod",
        "program": "kafkakit --profile prod",
        "clock": FakeClock(),
        "open_admin": lambda: found,
        "open_groups": FakeGroups,
        "open_log": FakeLogReader,
        "runs": lambda cluster_id: NoRuns(),
        "lease": lambda cluster_id: None,
    }
    return StatusSources(**{**values, **changes})  # type: ignore[arg-type]


def read(found: FakeCluster, **changes: object) -> StatusReader:
    return StatusReader(sources(found, **changes))


def test_a_whole_reading_of_a_cluster_in_order_is_ok() -> None:
    reading = read(cluster()).read()
    assert [part.error for part in reading.parts] == [""] * len(reading.parts)
    status = judge_cluster(reading)
    assert (status.health, status.findings) == (Health.OK, ())


def test_a_dead_broker_shows_in_brokers_and_partitions_and_goes_again() -> None:
    found = cluster()
    reader = read(found)
    found.kill(3)
    status = judge_cluster(reader.read())
    assert [f.rule for f in status.findings if f.severity == "error"] == ["broker-down"]
    assert {f.rule for f in status.findings} >= {"broker-down", "at-min-isr"}
    found.revive(3)
    found.advance(60)
    assert judge_cluster(reader.read()).health is Health.OK


def test_a_glance_differs_after_a_broker_died_and_while_partitions_move() -> None:
    found = cluster()
    reader = read(found)
    whole = reader.glance()
    assert reader.glance() == whole
    found.kill(3)
    assert reader.glance() != whole
    found.revive(3)
    assert reader.glance() == whole
    found.add_broker(4, "a")
    added = reader.glance()
    found.reassign({TopicPartition("orders", 0): (4, 2, 3)})
    assert whole != added != reader.glance()


def test_a_leftover_throttle_is_found_and_gone_when_it_is_removed() -> None:
    found = cluster()
    key = "leader.replication.throttled.rate"
    found.alter_configs([ConfigChange(kind=ResourceKind.BROKER, name="1", key=key, op=ConfigOp.SET, value="1000000")])
    (finding,) = judge_cluster(read(found).read()).findings
    assert (finding.rule, "1 at 1 MB/s" in finding.message) == ("leftover-throttle", True)
    found.alter_configs([ConfigChange(kind=ResourceKind.BROKER, name="1", key=key, op=ConfigOp.DELETE)])
    assert judge_cluster(read(found).read()).findings == ()


def test_a_move_that_runs_is_a_note_and_its_throttle_is_not_left_over() -> None:
    found = cluster()
    found.add_broker(4, "a")
    found.reassign({TopicPartition("orders", 0): (4, 2, 3)})
    key = "follower.replication.throttled.rate"
    found.alter_configs([ConfigChange(kind=ResourceKind.BROKER, name="4", key=key, op=ConfigOp.SET, value="1000000")])
    rules = [f.rule for f in judge_cluster(read(found).read()).findings]
    assert rules == ["moving", "not-preferred"]


@pytest.mark.parametrize(
    "error", [TryLaterError("no answer in 3 s"), MissingRightError("not permitted", hint="grant X")]
)
def test_a_cluster_that_cannot_be_read_is_unknown_in_every_part_and_says_why(error: KafkakitError) -> None:
    reading = read(cluster(), open_admin=refusing(error)).read()
    assert reading.info is None
    failed = {part.name: part for part in reading.parts if part.error}
    assert set(failed) >= {PartName.BROKERS, PartName.PARTITIONS, PartName.DISK, PartName.MOVES, PartName.CONTROLLER}
    assert all(part.is_denied == isinstance(error, MissingRightError) for part in failed.values())


def test_groups_that_cannot_be_read_hinder_nothing_else() -> None:
    groups = FakeGroups()
    groups.unreachable = True
    reading = read(cluster(), open_groups=lambda: groups).read()
    assert [part.name for part in reading.parts if part.error] == [PartName.GROUPS]
    assert (judge_cluster(reading).health, judge_cluster(reading).findings) == (Health.WARNING, ())
    assert reading.groups is None


def test_connections_are_opened_once_and_closed_at_the_end() -> None:
    found, opened = cluster(), list[str]()

    def open_admin() -> FakeCluster:
        opened.append("admin")
        return found

    reader = read(found, open_admin=open_admin)
    reader.read()
    reader.read()
    reader.close()
    assert opened == ["admin"] * 3  # one for each thread of the control side
    assert found.closed


def test_what_each_broker_answers_is_read_side_by_side() -> None:
    together, met = Barrier(3), set[str]()

    def meet(name: str) -> None:
        if name not in met:  # a later look of the same reading meets nobody
            met.add(name)
            together.wait(20)

    class Slow(FakeCluster):
        def log_dirs(self, *given: Any, **named: Any) -> Any:
            meet("dirs")
            return super().log_dirs(*given, **named)

        def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Any:
            if kind is ResourceKind.BROKER:
                meet("configs")
            return super().dynamic_configs(kind, names)

        def partition_health(self) -> Any:
            meet("partitions")
            return super().partition_health()

    reading = read(Slow({1: "a", 2: "b", 3: "c"})).read()
    assert [part.error for part in reading.parts] == [""] * len(reading.parts)
    assert [part.name for part in reading.parts][:2] == [PartName.BROKERS, PartName.CONTROLLER]


def test_what_hinders_throttles_from_being_read_is_not_waited_for_again_for_versions() -> None:
    found = cluster()
    found.fail_next("dynamic_configs", TryLaterError("no answer in 3 s"), 9)
    failed = {part.name for part in read(found).read().parts if part.error}
    assert failed == {PartName.THROTTLES, PartName.VERSIONS}


@pytest.mark.parametrize(("took_s", "expected"), [(0.1, 4.9), (1.0, 9.0), (9.0, 30.0), (300.0, 30.0)])
def test_a_slow_cluster_is_asked_less_often_but_not_seldom(took_s: float, expected: float) -> None:
    assert pause_after(took_s, 5.0) == pytest.approx(expected)


def test_the_memory_is_written_once_a_minute_and_at_the_end(tmp_path: Path) -> None:
    written = list[Path]()

    def note(path: Path, data: bytes) -> None:
        written.append(path)

    history = HistoryFile(tmp_path, lambda path, limit: path.read_bytes(), note)
    reading = read(cluster()).read()
    for seconds in range(0, 61, 5):
        history.judge(replace(reading, at=reading.at + timedelta(seconds=seconds)))
    assert len(written) == 2
    history.save()
    assert len(written) == 2
    history.judge(replace(reading, at=reading.at + timedelta(seconds=65)))
    history.save()
    assert len(written) == 3


def test_the_memory_of_many_disks_can_be_read_again_and_reaches_back_as_far() -> None:
    assert MOST_BYTES < HISTORY_LIMIT_BYTES
    reading, history = read(cluster()).read(), StatusHistory()
    places = tuple(LogDir(path=f"/data/disk-{n:02d}", total_bytes=10**13, usable_bytes=10**12) for n in range(12))
    disks = {broker: BrokerLogDirs(broker=broker, log_dirs=places) for broker in range(1, 51)}
    for step in range(300):
        history = with_reading(history, reading.at + timedelta(minutes=5 * step), (), disks)
    assert len(encode_history(history)) <= MOST_BYTES + 1000
    times = [sample.at_s for sample in history.disks]
    assert times[-1] - times[0] >= 23 * 3600
    assert max(b - a for a, b in pairwise(times)) <= 1800


def test_the_memory_is_written_and_read_again_and_its_loss_costs_only_the_age(tmp_path: Path) -> None:
    found = cluster()
    found.kill(3)
    reader = read(found)

    def write(path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    first = HistoryFile(tmp_path / "status", lambda path, limit: path.read_bytes(), write)
    assert first.judge(reader.read()).since == {}
    again = HistoryFile(tmp_path / "status", lambda path, limit: path.read_bytes(), write)
    assert again.judge(reader.read()).since
    (file,) = (tmp_path / "status").iterdir()
    file.write_bytes(b"{")
    damaged = HistoryFile(tmp_path / "status", lambda path, limit: path.read_bytes(), write)
    assert damaged.judge(reader.read()).since == {}


def test_a_place_that_cannot_be_written_hinders_nothing(tmp_path: Path) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise PermissionError

    history = HistoryFile(tmp_path, lambda path, limit: path.read_bytes(), refuse)
    assert history.judge(read(cluster()).read()).health is Health.OK


def test_the_time_of_a_reading_is_that_of_its_beginning() -> None:
    assert read(cluster()).read().at == datetime(2026, 1, 1, tzinfo=UTC)


def test_groups_are_listed_by_names_and_globs_and_one_that_fits_none_is_refused() -> None:
    groups = FakeGroups()
    for name in ("billing-eu", "billing-us", "fraud"):
        groups.seed(name, TopicPartition("orders", 0), 4)
    log = FakeLogReader()

    def listed(*wanted: str) -> list[str]:
        return sorted(row.listing.group for row in read_groups(groups, log, wanted))

    assert listed() == ["billing-eu", "billing-us", "fraud"]
    assert listed("billing-*", "fraud") == ["billing-eu", "billing-us", "fraud"]
    assert listed("billing-u?") == ["billing-us"]
    with pytest.raises(UsageError, match="group fraud2 does not exist") as found:
        listed("billing-*", "fraud2")
    assert found.value.hint == "is it fraud?"


def test_a_lock_that_cannot_be_read_is_not_free() -> None:
    def text(lease: HeldLease | None) -> str:
        status = judge_cluster(read(cluster(), lease=lambda cluster_id: lease).read())
        return status_report([status], fail_on=FailOn.ERROR, width=120).text

    assert "lock free" in text(None)
    assert "lock ?" in text(HeldLease(is_known=False))


def test_a_reader_of_the_lease_tells_a_store_that_is_away_from_one_without_a_lease() -> None:
    def away() -> ControlStore:
        raise TryLaterError("no answer")

    stores = iter([away, FakeControlStore])

    def open_store() -> ControlStore:
        return next(stores)()

    reader = LeaseReader(open_store, "c", lambda holder: Life.UNKNOWN, lambda: "", LineReporter())
    assert (reader.read(), reader.is_known) == (None, False)
    assert (reader.read(), reader.is_known) == (None, True)


class VeiledCluster(FakeCluster):
    """One whose caller may not see some topics; its brokers tell `version`."""

    veiled: frozenset[str] = frozenset()
    version = "4.0.0"

    def cluster(self) -> ClusterInfo:
        return replace(super().cluster(), kafka_version=self.version)

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        return replace(super().snapshot(now=now, topics=topics, sizes=sizes), kafka_version=self.version)

    def partition_health(self) -> PartitionHealth:
        kept, self.topics = self.topics, {n: t for n, t in self.topics.items() if n not in self.veiled}
        try:
            return super().partition_health()
        finally:
            self.topics = kept

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        if self.veiled & set(topics):
            raise MissingRightError("describe topic: not permitted")
        return super().partition_states(topics)


LIMITED = frozenset({"describe", "describe_configs"})


def veiled(version: str = "4.0.0", operations: frozenset[str] | None = LIMITED) -> VeiledCluster:
    found = VeiledCluster({1: "a", 2: "b", 3: "c"})
    found.add_topic("orders", {0: (1, 2), 1: (2, 1)}, configs={"min.insync.replicas": "1"})
    found.version, found.operations = version, operations
    return found


@pytest.mark.parametrize("version", ["4.0.0", "4.1.0"])
def test_topics_that_the_caller_may_not_see_make_the_health_unknown(version: str) -> None:
    found = veiled(version)
    reader = read(found)
    assert judge_cluster(reader.read()).health is Health.OK
    found.add_topic("secret", {0: (3,)})
    found.veiled = frozenset({"secret"})
    found.advance(700)
    hidden = read(found)
    status = judge_cluster(hidden.read())
    assert (status.health, exit_code([status], FailOn.ERROR)) == (Health.UNKNOWN, ExitCode.FAILED)
    assert "DESCRIBE" in status.worst
    assert judge_cluster(hidden.read()).health is Health.UNKNOWN, "it stays so while nothing is read again"


@pytest.mark.parametrize(
    ("version", "operations", "veils", "proposed"),
    [
        ("4.1.0", LIMITED, frozenset[str](), True),
        ("4.1.0", LIMITED, frozenset({"secret"}), False),
        ("4.0.0", LIMITED, frozenset[str](), False),
        ("4.0.0", LIMITED, frozenset({"secret"}), False),
        ("4.0.0", LIMITED | {"cluster_action"}, frozenset[str](), True),
        ("4.0.0", None, frozenset[str](), True),
    ],
)
def test_a_broker_is_only_taken_off_the_list_where_no_topic_can_be_hidden(
    version: str, operations: frozenset[str] | None, veils: frozenset[str], proposed: bool
) -> None:
    found = veiled(version, operations)
    if veils:
        found.add_topic("secret", {0: (3,)})
    found.veiled = veils
    found.kill(3)
    status = judge_cluster(read(found).read())
    assert any("decommission" in f.hint for f in status.findings) is proposed
    assert (status.health is Health.UNKNOWN) is not proposed


def test_before_kafka_3_7_a_minimum_above_the_replicas_of_a_whole_partition_is_an_error() -> None:
    found = veiled("3.6.1", None)
    found.alter_configs([ConfigChange(kind=ResourceKind.TOPIC, name="orders", key="min.insync.replicas",
                                      op=ConfigOp.SET, value="3")])  # fmt: skip
    status = judge_cluster(read(found).read())
    (finding,) = [f for f in status.findings if f.severity == "error"]
    assert (finding.rule, finding.count, "repair" in finding.hint) == ("under-min-isr", 2, False)
    assert status.counts is not None
    assert status.counts.under_min_isr == 2
    (row,) = read_topics(found, FakeClock(), "orders", internal=False)
    assert row.words == {PartitionWord.UNDER_MIN_ISR: 2}
    found.version = "3.7.0"
    assert judge_cluster(read(found).read()).findings == ()


def test_a_throttle_of_moves_between_log_dirs_is_not_left_over() -> None:
    found = FakeCluster({1: "a"}, dirs_per_broker=2, line_rate=1.0)
    found.add_topic("orders", {0: (1,)}, size_bytes=10**9)
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    found.alter_configs([ConfigChange(kind=ResourceKind.BROKER, name="1", key=key, op=ConfigOp.SET, value="1000")])
    (replica,) = [TopicPartitionReplica("orders", 0, 1)]
    here = found.topics["orders"].partitions[0].dirs[1]
    found.move_log_dirs({replica: next(p for p in found.brokers[1].dirs if p != here)})
    status = judge_cluster(read(found).read())
    assert [f.rule for f in status.findings] == ["moving"]


def test_groups_of_a_coordinator_that_does_not_answer_are_not_forgotten() -> None:
    groups = FakeGroups()
    for name in ("billing", "fraud"):
        groups.seed(name, TopicPartition("orders", 0), 4)
    groups.lost = {"fraud"}
    reading = read(cluster(), open_groups=lambda: groups).read()
    assert [g.group for g in reading.groups or ()] == ["billing"]
    assert reading.failure_of(PartName.GROUPS)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    lost = GroupDelay(group="fraud", status="stopped", lag=5)
    measured = MeasuredDelays(at=at, groups=(lost,))
    assert merged_delays((), measured, reading.groups, is_partial=True) == (lost,)
    assert merged_delays((), measured, reading.groups) == ()
    text = status_report([judge_cluster(reading)], fail_on=FailOn.ERROR, width=120).text
    assert "at least 1" in text


def test_groups_that_are_not_compared_are_counted() -> None:
    groups = FakeGroups()
    for number in range(MOST_EMPTY_GROUPS + 7):
        groups.add_group(f"g{number}")
    status = judge_cluster(read(cluster(), open_groups=lambda: groups).read())
    assert "7 of the empty groups" in status_report([status], fail_on=FailOn.ERROR, width=120).text


def test_a_reading_that_misses_a_part_does_not_forget_since_when_its_findings_stand(tmp_path: Path) -> None:
    found = cluster()
    found.kill(3)
    reader = read(found)
    history = HistoryFile(tmp_path, lambda path, limit: path.read_bytes(), lambda path, data: path.write_bytes(data))
    first = history.judge(reader.read())
    found.advance(60)
    found.fail_next("partition_health", TryLaterError("no answer"))
    assert not any(f.rule == "at-min-isr" for f in history.judge(reader.read()).findings)
    found.advance(60)
    again = history.judge(reader.read())
    ages = {f.rule: again.since.get(f.fingerprint) for f in again.findings}
    assert any(f.rule == "at-min-isr" for f in first.findings)
    assert ages["at-min-isr"] is not None


def test_partitions_that_cannot_be_read_are_not_caught_up() -> None:
    groups, log = FakeGroups(), FakeLogReader()
    groups.add_topic("orders")
    groups.seed("billing", TopicPartition("orders", 0), 4)
    log.add_topic("orders", 1)
    broken = ItemError(name="LeaderNotAvailableError", retriable=True)
    (one,) = lag_of_empty(groups, BrokenSpans(log, broken), groups.groups())
    assert (one.status, one.lag) == (UNREADABLE, None)
    gone = ItemError(name="UnknownTopicOrPartitionError")
    assert list(lag_of_empty(groups, BrokenSpans(log, gone), groups.groups())) == []
    before = GroupDelay(group="billing", status="stopped", lag=7)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert merged_delays((one,), MeasuredDelays(at=at, groups=(before,)), groups.groups()) == (before,)


class BrokenSpans(FakeLogReader):
    """A log whose ends cannot be read."""

    def __init__(self, inner: FakeLogReader, error: ItemError) -> None:
        super().__init__()
        self._inner, self._error = inner, error

    def spans(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogSpan | ItemError]:
        return dict.fromkeys(partitions, self._error)
