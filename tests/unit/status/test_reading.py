"""Reading a cluster part by part: what one part hinders hinders no other, and what is found is what is judged."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from kafkakit.core.cluster_facts import BrokerLogDirs, ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import KafkakitError, MissingRightError, TryLaterError, UsageError
from kafkakit.core.model import LogDir, TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.status.act.objects import read_groups
from kafkakit.status.act.reading import HISTORY_LIMIT_BYTES, HistoryFile, StatusReader, StatusSources, pause_after
from kafkakit.status.decide.history import MOST_BYTES, StatusHistory, encode_history, with_reading
from kafkakit.status.decide.judgement import Health, PartName, judge_cluster
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader


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
    assert judge_cluster(reading).health is Health.OK
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
    together = Barrier(3)

    class Slow(FakeCluster):
        def log_dirs(self, *given: Any, **named: Any) -> Any:
            together.wait(20)
            return super().log_dirs(*given, **named)

        def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Any:
            if kind is ResourceKind.BROKER:
                together.wait(20)
            return super().dynamic_configs(kind, names)

        def partition_health(self) -> Any:
            together.wait(20)
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
