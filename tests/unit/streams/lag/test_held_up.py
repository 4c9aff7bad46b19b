"""One partition, broker or cluster that is broken must hold up nothing else, and nothing may spin or stop.

When things are due, and the steps of the wall clock.
"""

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.ports.acting import Timetable
from kafkakit.ports.data import LogReader
from kafkakit.streams.lag.act.monitor import (
    ClusterMonitor,
    ClusterWatcher,
    MonitorContext,
    MonitoredCluster,
    StateFiles,
    WallClockSteps,
)
from kafkakit.streams.lag.decide.measure.time_lag import FigureFlag
from kafkakit.streams.lag.decide.monitors import MonitorPhase
from kafkakit.streams.lag.decide.saved_state import decode_state, encode_state
from tests.fakes.groups import FakeGroups
from tests.rigs.lag import PARTITIONS, Rig, SteppingClock
from tests.rigs.waiting import until


@pytest.fixture
def rig() -> Rig:
    return Rig()


def fail_fetches_of(rig: Rig, partition: int, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The ends of the partition are told, and then its leader dies; the list is emptied to bring it back."""
    real, is_dead = rig.reader.fetch, [True]
    place = TopicPartition(OFFSETS_TOPIC, partition)

    def fetch(offsets: Any, **options: Any) -> Any:
        rig.reader.log(place).leader = None if is_dead else 1
        found = real(offsets, **options)
        rig.reader.log(place).leader = 1
        return found

    monkeypatch.setattr(rig.reader, "fetch", fetch)
    return is_dead


def test_a_leader_that_dies_while_the_past_is_read_holds_up_no_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("h", 10)
    assert rig.place("g") != rig.place("h")
    is_dead = fail_fetches_of(rig, rig.place("g").partition, monkeypatch)
    rig.run(3)
    rig.commit("h", 40)
    rig.run(3)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    assert rig.monitor.condition().blind_count == 1
    assert (rig.row("h").committed, rig.row("h").lag) == (40, 60)
    assert FigureFlag.STALE not in rig.row("h").backlog.flags
    is_dead.clear()
    rig.run(3)
    assert rig.row("g").committed == 10
    assert rig.monitor.condition().blind_count == 0


def test_bytes_that_are_no_batch_of_ours_are_passed_over_and_counted(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("g", 20)
    place = rig.place("g")
    broken = rig.reader.log(place).batches[1]
    broken.data = broken.data[:16] + b"\x03" + broken.data[17:]
    rig.run(5)
    condition = rig.monitor.condition()
    assert condition.phase is MonitorPhase.LIVE
    assert condition.totals.skipped_offsets == 1
    assert any("passed over" in note for note in condition.notes)
    rig.commit("g", 30)
    rig.run(3)
    assert rig.row("g").committed == 30


def test_nobody_is_asked_while_the_figures_are_locked(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(2)
    requested: list[str] = []

    def watched(name: str) -> None:
        real = getattr(rig.reader, name)

        def ask(*args: Any, **options: Any) -> Any:
            is_free: list[bool] = []

            def look() -> None:
                is_free.append(rig.monitor._guard.acquire(blocking=False))
                if is_free[0]:
                    rig.monitor._guard.release()

            other = threading.Thread(target=look)
            other.start()
            other.join()
            requested.append(name)
            assert is_free == [True], f"{name} while others wait for the table"
            monkeypatch.undo()
            return real(*args, **options)

        monkeypatch.setattr(rig.reader, name, ask)

    log = rig.reader.log(rig.place("g"))
    log.batches, log.end = [], 0
    rig.clock.advance(10)
    watched("spans")
    rig.run(3)
    assert requested
    assert rig.monitor.condition().blind_count == 0


def test_what_is_read_after_an_outage_is_not_of_now_before_all_is_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(3)
    before = rig.now_ms
    for offset in range(11, 40):
        rig.commit("g", offset)
    rig.clock.advance(3600)
    monkeypatch.setattr("kafkakit.streams.lag.act.reading.LOG_PARTITION_BYTES", 1)
    rig.monitor.tick()
    assert 10 < rig.row("g").committed < 39
    assert rig.row("g").backlog.as_of_ms <= before
    assert FigureFlag.STALE in rig.row("g").backlog.flags
    rig.run(5)
    assert rig.row("g").committed == 39
    assert rig.row("g").backlog.as_of_ms > before


def test_topics_that_may_not_be_described_cost_their_own_figures_only(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    real = rig.reader.places

    def places(topics: Any = None) -> Any:
        if topics is not None and OFFSETS_TOPIC not in topics:
            raise OperationFailedError("describe topic orders: refused", hint="grant DESCRIBE on the topic")
        return real(topics)

    monkeypatch.setattr(rig.reader, "places", places)
    rig.run(3)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    assert rig.row("g").lag == -1
    assert any("orders" in note for note in rig.monitor.condition().notes)


def test_a_topic_made_anew_is_remembered_over_a_restart(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 40)
    rig.run(3)
    rig.reader.add_topic("orders", 2)
    rig.produce(60)
    rig.run(3)
    assert rig.row("g").lag == -1
    saved = rig.monitor.state()
    assert saved is not None
    again = rig.new_monitor()
    again.adopt(decode_state(encode_state(saved), "s"))
    rig.run(3, again)
    row = rig.row("g", monitor=again)
    assert row.lag == -1
    assert FigureFlag.OTHER_TOPIC in row.backlog.flags


def test_a_clock_that_goes_forth_takes_old_samples_with_it(rig: Rig) -> None:

    rig.produce(100)
    rig.commit("g", 10)
    rig.run(3)
    rig.clock.shift = timedelta(hours=1)
    rig.monitor.tick()
    assert rig.monitor.condition().clock_steps == 1


def test_a_cluster_without_a_commit_log_has_no_state_to_keep(rig: Rig) -> None:
    rig.reader.delete_topic(OFFSETS_TOPIC)
    rig.run(2)
    assert rig.monitor.state() is None


def test_a_watcher_outlives_whatever_its_client_raises(rig: Rig) -> None:
    left: list[Exception] = [ValueError("no such thing"), RuntimeError("half open")]

    def open_reader() -> LogReader:
        if left:
            raise left.pop()
        return rig.reader

    said: list[str] = []
    watcher = ClusterWatcher(
        MonitoredCluster(name="prod", open_reader=open_reader, facts_of=rig.facts_of, open_groups=FakeGroups),
        MonitorContext(clock=SystemClock(), warn=said.append),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafkakit.streams.lag.act.monitor.AFTER_FAULT_S", 0.01)
        watcher.start()
        until(lambda: watcher.reached_s is not None or watcher.is_over)
    assert watcher.reached_s is not None
    assert not watcher.is_over
    assert [line for line in said if "unexpected" in line]
    watcher.stop()
    assert watcher.join(120)
    assert watcher.is_over


def test_a_reader_is_closed_although_the_state_cannot_be_saved(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(monitor: ClusterMonitor) -> None:
        raise LookupError("no such group")

    said, closed, states = list[str](), threading.Event(), SimpleNamespace(load=lambda *_: None)
    monkeypatch.setattr(rig.reader, "close", closed.set)
    watcher = ClusterWatcher(
        MonitoredCluster(name="prod", open_reader=lambda: rig.reader, facts_of=rig.facts_of, open_groups=FakeGroups),
        MonitorContext(clock=SystemClock(), warn=said.append, states=cast(StateFiles, states)),
    )
    watcher.carry.set()
    monkeypatch.setattr(ClusterMonitor, "state", broken)
    watcher.start()
    until(lambda: watcher.monitor is not None, "a monitor")
    watcher.stop()
    assert watcher.join(120)
    assert closed.is_set()
    assert said[-1] == "prod: unexpected LookupError: no such group"


def test_there_are_as_many_partitions_as_the_tests_think(rig: Rig) -> None:
    rig.run(1)
    assert rig.monitor.condition().partitions == PARTITIONS


def test_what_is_new_is_due_and_then_after_its_interval() -> None:
    clock = SteppingClock()
    schedule = Timetable(clock)
    assert schedule.is_due("ends", 5)
    assert not schedule.is_due("ends", 5)
    assert schedule.is_due("facts", 60)
    clock.advance(5)
    assert schedule.is_due("ends", 5)
    assert not schedule.is_due("facts", 60)


def test_a_time_can_be_set_and_only_brought_forward() -> None:
    clock = SteppingClock()
    schedule = Timetable(clock)
    schedule.set_due("summary", 60)
    schedule.bring_forward("summary", 90)
    clock.advance(59)
    assert not schedule.is_due("summary", 60)
    schedule.bring_forward("summary", 0.5)
    clock.advance(0.5)
    assert schedule.is_due("summary", 60)
    schedule.set_due("summary", 0)
    assert schedule.is_due("summary", 60)


def test_a_wall_clock_that_is_set_is_noticed_once() -> None:
    clock = SteppingClock()
    steps = WallClockSteps(clock)
    clock.advance(3600)
    assert not steps.was_set()
    clock.shift = timedelta(seconds=-30)
    assert steps.was_set()
    assert not steps.was_set()
    clock.shift = timedelta(seconds=-29.5)
    assert not steps.was_set()
    assert steps.count == 1
