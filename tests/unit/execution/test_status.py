"""What `reassign status` makes of its looks: rates from lumps, why copies stall, ETA against promise, what it reads."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import BrokerLogDirs, PartitionState
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import (
    ConnectRefusedError,
    InterruptedRunError,
    TerminatedRunError,
    TerminationRequested,
    TryLaterError,
)
from kafkakit.core.lease import HeldLease, Holder, LeaseRecord, Life
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import identity_of
from kafkakit.core.quantities import format_bytes
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import KnownRuns, RunJournal, journal_path
from kafkakit.execution.act.status_loop import StatusObserver, look_once, watch
from kafkakit.execution.decide.journal import JournalSubject, Layers, Promise, RunState
from kafkakit.execution.decide.status import (
    CopyState,
    CopyView,
    MoveView,
    RunningMove,
    StatusView,
    eta_of,
    owner_of,
    view_run,
)
from kafkakit.execution.decide.status_looks import (
    MAX_SAMPLES,
    QUIET_S,
    TURN_S,
    Cause,
    CopyFacts,
    CopySample,
    CurrentThrottles,
    History,
    KnownRun,
    Limit,
    growth_of,
    health_of,
    remember,
    stall_of,
    window_of,
    without_moves,
)
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, INSIDE_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.reassign.report.status import TOP, render_metrics, screen_sections, status_line, status_sections
from kafkakit.report.report import text_of
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster
from tests.invariants.exposition import parse

MB = 1_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COPY = TopicPartitionReplica("t", 0, 3)
KEY = TopicPartition("t", 0)
FACTS = CopyFacts(key=KEY, broker=3, leader=1, log_dir="/d", free_bytes=10**12, missing_bytes=50 * MB, quiet_s=30.0)
OUT = Limit(broker=1, side="out", rate=2 * MB)
IN = Limit(broker=3, side="in", rate=2 * MB)


def history(*points: tuple[float, int | None], window_s: float = 20.0) -> History:
    found = History()
    for at_s, size in points:
        found = remember(found, CopySample(at_s=at_s, bytes_of={} if size is None else {COPY: size}), window_s)
    return found


def test_lumps_are_averaged_over_the_window_and_not_over_two_looks() -> None:
    lumpy = history(*((float(t), (t // 10) * 20 * MB) for t in range(40)))
    assert window_of(lumpy) == 20
    growth = growth_of(lumpy, COPY)
    assert growth is not None
    assert (growth.bytes_per_s, growth.quiet_s) == (2 * MB, 9)
    long = growth_of(history(*((float(t), min(t, 5)) for t in range(100))), COPY)
    assert long is not None
    assert (long.bytes_per_s, long.seconds, long.quiet_s) == (0, 20, 94)


def test_a_copy_that_appears_shrinks_or_vanishes_begins_anew() -> None:
    assert growth_of(history((0, 5)), COPY) is None
    assert growth_of(history((0, None), (5, 10)), COPY) is None
    late = growth_of(history((0, None), (5, 10), (10, 60)), COPY)
    assert late is not None
    assert (late.seconds, late.bytes_per_s) == (5, 10)
    shrunk = growth_of(history((0, 900), (5, 10), (10, 60)), COPY)
    assert shrunk is not None
    assert (shrunk.first_bytes, shrunk.seconds) == (10, 5)
    assert growth_of(history((0, 10), (5, None)), COPY) is None


def test_a_long_watch_remembers_no_more_than_it_needs() -> None:
    many = history(*((t / 10, t) for t in range(5000)), window_s=300)
    assert len(many.samples) == MAX_SAMPLES
    assert window_of(many) > 6
    growth = growth_of(many, COPY)
    assert growth is not None
    assert growth.bytes_per_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        ({"destination": "fenced"}, Cause.DEAD_DESTINATION, "broker 3 is fenced"),
        ({"destination": ""}, Cause.DEAD_DESTINATION, "broker 3 is not registered"),
        ({"topic_exists": False, "leader": None}, Cause.DELETED, "topic t is deleted"),
        ({"destination_answers": False}, Cause.SILENT_DESTINATION, "broker 3 counts as alive but does not answer"),
        ({"leader": None, "could_lead": (1, 2)}, Cause.NO_LEADER, "no live broker leads the partition"),
        ({"offline_dirs": ("/d",)}, Cause.DIR_OFFLINE, "log dir /d of broker 3 is offline"),
        ({"free_bytes": 10 * MB}, Cause.DIR_FULL, "log dir /d of broker 3 has 9.54 MiB free, 47.7 MiB are to come"),
        ({"limits": (replace(IN, rate=0),)}, Cause.ZERO_RATE, "follower.replication.throttled.rate of broker 3 is 0"),
        (
            {"limits": (replace(OUT, ingest_bytes_per_s=3 * MB),), "nearing": False},
            Cause.BELOW_INGEST,
            "leader.replication.throttled.rate of broker 1 is 2 MB/s, the partitions that move under it take in 3 MB/s",
        ),
        (
            {"limits": (IN, replace(OUT, wildcard=True))},
            Cause.WILDCARD,
            "leader.replication.throttled.replicas of topic t is *",
        ),
        ({"leader_answers": False}, Cause.SILENT_LEADER, "broker 1, which leads the partition, does not answer"),
        ({}, Cause.UNKNOWN, "no bytes arrived for 30s"),
    ],
    ids=lambda value: str(value) if isinstance(value, Cause) else "",
)
def test_each_reason_is_named_with_what_to_do(change: Mapping[str, Any], cause: Cause, words: str) -> None:
    found = stall_of(replace(FACTS, **change))
    assert found is not None
    assert found.cause is cause
    assert words in found.words
    assert found.advice
    assert str(found) == f"{found.words}; {found.advice}"


def test_every_reason_has_its_test() -> None:
    mark = test_each_reason_is_named_with_what_to_do.pytestmark[0]
    assert {case[1] for case in mark.args[1]} == set(Cause)


def test_the_certain_reasons_go_first_and_need_no_time() -> None:
    everything = replace(
        FACTS,
        destination="fenced",
        leader=None,
        offline_dirs=("/d",),
        free_bytes=0,
        limits=(replace(IN, rate=0, wildcard=True, ingest_bytes_per_s=1.0),),
        leader_answers=False,
        quiet_s=None,
    )
    order = []
    for better in (
        {"destination": "alive"},
        {"leader": 1},
        {"offline_dirs": ()},
        {"limits": (replace(IN, wildcard=True, ingest_bytes_per_s=3e6),), "nearing": False, "quiet_s": QUIET_S},
        {"free_bytes": 10**12},
        {"limits": (replace(IN, wildcard=True),)},
        {"limits": ()},
        {"leader_answers": True},
    ):
        found = stall_of(everything)
        assert found is not None
        order.append(found.cause)
        everything = replace(everything, **better)
    assert order == [
        Cause.DEAD_DESTINATION,
        Cause.NO_LEADER,
        Cause.DIR_OFFLINE,
        Cause.ZERO_RATE,
        Cause.BELOW_INGEST,
        Cause.BELOW_INGEST,
        Cause.WILDCARD,
        Cause.SILENT_LEADER,
    ]


def test_silence_that_is_normal_is_no_stall() -> None:
    assert stall_of(replace(FACTS, quiet_s=QUIET_S - 1)) is None
    assert stall_of(replace(FACTS, quiet_s=None)) is None
    assert stall_of(replace(FACTS, others_grow=True)) is None
    assert stall_of(replace(FACTS, others_grow=True, quiet_s=TURN_S)) is not None
    # Grows and comes nearer, although the throttle is below what is taken in on average.
    assert stall_of(replace(FACTS, limits=(replace(IN, ingest_bytes_per_s=3e6),), quiet_s=0.0)) is None


def test_a_copy_that_grows_and_falls_behind_is_told_about_the_throttle() -> None:
    falls = replace(FACTS, limits=(replace(IN, ingest_bytes_per_s=3e6),), quiet_s=0.0, nearing=False)
    found = stall_of(falls)
    assert found is not None
    assert found.cause is Cause.BELOW_INGEST


def cluster_and_run(*, direction: str = "apply", **state: Any) -> tuple[FakeCluster, KnownRun]:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=MB)
    cluster.add_topic("t", dict.fromkeys(range(3), (1, 2)), size_bytes=100 * MB)
    plan = make_plan(cluster, {("t", 0): (3, 2), ("t", 1): (3, 4), ("t", 2): (1, 3)})
    known: dict[str, Any] = {"plan_path": "p.json", "unsettled": True, "token": 7, "runs": 1} | state
    return cluster, KnownRun(journal="j", state=RunState(direction=direction, **known), plan=plan)


def lease(token: int, life: Life = Life.UNKNOWN, *, free: bool = False) -> HeldLease:
    holder = None if free else Holder(host="h", user="ops", command="reassign apply", pid=5)
    record = LeaseRecord(token=token, beats=1, ttl_s=15.0, taken_at=NOW, renewed_at=NOW, holder=holder)
    return HeldLease(record=record, life=life)


def flight(partition: int, target: tuple[int, ...], missing: int, rate: float | None = MB, **more: Any) -> RunningMove:
    move = Reassignment(topic="t", partition=partition, replicas=target)
    return RunningMove(move=move, missing_bytes=missing, bytes_per_s=rate, **more)


def test_eta_now_counts_what_flies_and_what_waits_against_the_promise() -> None:
    promise = Promise(made_at=NOW, promised_s=100.0, bound_s=90.0, total_bytes=400 * MB, steps=3)
    sent = {KEY: (3, 2), TopicPartition("t", 2): (1, 3)}
    _, run = cluster_and_run(submitted=sent, promise=promise)
    # t-0 has 60 MB to come, t-1 waits with two copies, t-2 has arrived.
    view = view_run(run, [flight(0, (3, 2), 60 * MB, 2 * MB)], lease(7), NOW.timestamp() + 30, "kafkakit")
    assert (view.left_bytes, view.eta_s, view.promised_s) == (260 * MB, 130, 70)
    assert (view.working, view.doing) == (True, "copying")
    late = view_run(run, [flight(0, (3, 2), 60 * MB, None)], lease(7), NOW.timestamp() + 130, "kafkakit")
    assert (late.eta_s, late.promised_s) == (None, -30)


@pytest.mark.parametrize(
    ("now_s", "words"),
    [
        (5, "30s left (the first forecast said 5s to 3m 15s from here)"),
        (60, "30s left (the first forecast said 0s to 2m 20s from here)"),
        (300, "30s left, should have ended 1m 40s ago"),
    ],
)
def test_what_was_forecast_as_an_interval_is_shown_as_one(now_s: int, words: str) -> None:
    promise = Promise(
        made_at=NOW, promised_s=100.0, bound_s=90.0, total_bytes=400 * MB, steps=3, least_s=10.0, most_s=200.0
    )
    _, run = cluster_and_run(submitted={KEY: (3, 2)}, promise=promise)
    view = view_run(
        run, [flight(0, (3, 2), 60 * MB, 2 * MB)], None, NOW.timestamp() + now_s, "kafkakit", bytes_per_s=9e6
    )
    shown = text_of(
        status_sections(StatusView(cluster_id="c", at=NOW, window_s=0.0, runs=(replace(view, eta_s=30.0),)))
    )
    assert words in shown


def test_eta_counts_the_copies_after_a_detour_and_the_way_back() -> None:
    _, run = cluster_and_run(submitted={TopicPartition("t", 1): (3, 2)})
    # t-1 goes to [3,2] first and needs broker 4 after that; t-0 and t-2 were not sent.
    flying = [flight(1, (3, 2), 10 * MB)]
    assert view_run(run, flying, None, 0.0, "kafkakit").left_bytes == (10 + 100 + 100 + 100) * MB
    _, back = cluster_and_run(direction="rollback", submitted={KEY: (3, 2)})
    assert view_run(back, [], None, 0.0, "kafkakit").left_bytes == 100 * MB  # only what was sent has to come back
    _, aborted = cluster_and_run(direction="abort", submitted={KEY: (3, 2)})
    assert view_run(aborted, [flight(0, (3, 2), 7)], None, 0.0, "kafkakit").left_bytes == 7
    gone = replace(run, plan=None)
    assert view_run(gone, flying, None, 0.0, "kafkakit").left_bytes is None
    assert eta_of(0, None) == 0.0
    assert eta_of(5, 0.0) is None


@pytest.mark.parametrize(
    ("state", "held", "flying", "words"),
    [
        ({}, lease(7), [flight(0, (3, 2), 5)], "copying"),
        ({"paused": True}, lease(7), [flight(0, (3, 2), 5)], "paused: starts nothing new, what is in flight continues"),
        ({"paused": True}, None, [], "paused, and no process is running; resume with: RESUME"),
        ({}, lease(8), [], "not finished, and no process is running; resume with: RESUME"),
        ({}, lease(7, Life.GONE), [], "not finished, and no process is running; resume with: RESUME"),
        ({}, lease(7, free=True), [], "not finished, and no process is running; resume with: RESUME"),
        (
            {},
            lease(7),
            [],
            "nothing is in flight: it elects leaders, or waits for in-sync replicas, free space, or other moves",
        ),
        ({}, lease(7), [flight(0, (3, 2), 5, held_up=(3,), stalled=True)], "waits for broker 3"),
        ({}, lease(7), [flight(0, (3, 2), 5, stalled=True)], "waits: all its moves are stalled"),
        ({"unsettled": False}, None, [flight(0, (3, 2), 5)], "ended, its moves continue"),
    ],
)
def test_what_a_run_is_about(
    state: dict[str, Any], held: HeldLease | None, flying: list[RunningMove], words: str
) -> None:
    _, run = cluster_and_run(**state)
    line = "kafkakit reassign resume"  # a journal without an operation has no id to give
    assert view_run(run, flying, held, 0.0, "kafkakit").doing == words.replace("RESUME", line)


def test_a_move_belongs_to_the_run_that_sent_its_target_and_to_no_other() -> None:
    _, run = cluster_and_run(trail={KEY: ((3, 2), (4, 2))}, submitted={KEY: (4, 2)})
    ended = replace(run, journal="a", state=replace(run.state, unsettled=False))
    mine = Reassignment(topic="t", partition=0, replicas=(3, 2, 1), adding=(3,), removing=(1,))
    assert owner_of(mine, [ended, run]) is run
    assert owner_of(mine, [ended]) is ended
    assert owner_of(replace(mine, replicas=(2, 3, 1)), [run]) is None
    assert owner_of(replace(mine, partition=1), [run]) is None


class Ledger:
    damaged: tuple[str, ...] = ()

    def __init__(self, *runs: KnownRun) -> None:
        self.runs = runs

    def read(self) -> tuple[KnownRun, ...]:
        return self.runs


class Counting(FakeCluster):
    """Counts reads, and notes how wide they were."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reads: Counter[str] = Counter()
        self.widest_states = 0
        self.unfiltered_dirs = 0
        self.asked_brokers: set[int] = set()

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        self.reads["snapshot"] += 1
        return super().snapshot(now=now, topics=topics, sizes=sizes)

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        self.reads["partition_states"] += 1
        self.widest_states = max(self.widest_states, len(set(topics)))
        return super().partition_states(topics)

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        self.reads["log_dirs"] += 1
        self.unfiltered_dirs += partitions is None
        if partitions is not None:
            self.asked_brokers |= set(brokers)
        return super().log_dirs(brokers, partitions)


def observer(cluster: FakeCluster, clock: FakeClock, *runs: KnownRun, **options: Any) -> StatusObserver:
    given: dict[str, Any] = {"window_s": 20.0, "program": "kafkakit"} | options
    return StatusObserver(cluster, clock, Ledger(*runs), lambda: None, **given)


def test_a_tick_on_200_000_partitions_reads_the_moving_topics_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = Counting(dict.fromkeys(range(1, 9))), FakeClock()
    for t in range(200):
        cluster.add_topic(f"t{t:03}", {n: (1 + n % 3, 4) for n in range(1000)}, size_bytes=MB)
    cluster.reassign({TopicPartition("t000", n): (5, 4) for n in range(2)})
    # The cluster in memory would go through all partitions to find the two that move.
    few = [(TopicPartition("t000", n), p) for n, p in cluster.topics["t000"].partitions.items()]
    monkeypatch.setattr(cluster.replication, "partitions", lambda: iter(few))
    watcher = observer(cluster, clock)
    for tick in range(13):
        view = watcher.look()
        assert len(view.moves) == 2
        clock.advance(5.0 if tick < 11 else 0.5)
    # 55.5 s went by: one look at all of the cluster.
    assert cluster.reads == {"snapshot": 1, "partition_states": 13, "log_dirs": 14}
    assert (cluster.widest_states, cluster.unfiltered_dirs) == (1, 1)
    assert cluster.asked_brokers == {1, 2, 4, 5}
    clock.advance(10.0)
    watcher.look()
    assert cluster.reads["snapshot"] == 2
    short = observer(cluster, clock, whole=False)
    short.look()
    assert cluster.reads["snapshot"] == 2
    assert cluster.unfiltered_dirs == 2


def test_looks_at_the_whole_cluster_take_a_twentieth_of_the_time_at_most() -> None:
    clock = FakeClock()

    class Slow(Counting):
        def snapshot(
            self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True
        ) -> ClusterSnapshot:
            clock.advance(30.0)
            return super().snapshot(now=now, topics=topics, sizes=sizes)

    cluster = Slow({1: None, 2: None})
    cluster.add_topic("t", {0: (1, 2)})
    watcher = observer(cluster, clock)
    for _ in range(100):
        watcher.look()
        clock.advance(5.9)
    assert cluster.reads["snapshot"] == 1
    clock.advance(30.0)
    watcher.look()
    assert cluster.reads["snapshot"] == 2


def test_copies_that_change_dirs_inside_a_broker_are_seen_and_followed() -> None:
    cluster, clock = Counting({1: None, 2: None}, dirs_per_broker=2), FakeClock()
    cluster.add_topic("t", {0: (1, 2), 1: (1, 2)}, size_bytes=50 * MB)
    here = cluster.topics["t"].partitions[0].dirs[1]
    there = next(d for d in cluster.brokers[1].dirs if d != here)
    cluster.move_log_dirs({TopicPartitionReplica("t", 0, 1): there})
    watcher = observer(cluster, clock)
    for _ in range(2):
        (inside,) = watcher.look().inside
        assert (inside.replica, inside.source_dir, inside.target_dir) == (("t", 0, 1), here, there)
        assert (inside.offset_lag, inside.total_bytes, inside.run) == (1, 50 * MB, "")
        clock.advance(5.0)
    assert cluster.unfiltered_dirs == 1
    view = look_once(observer(cluster, clock), clock, 12.0)
    assert "between log dirs: 1 copy\n" in text_of(status_sections(view))
    assert f"t-0 on broker 1: to {there}, 0 B of 47.7 MiB, 0 B/s, 1 record behind" in text_of(status_sections(view))
    _, run = cluster_and_run(dirs_sent={TopicPartitionReplica("t", 0, 1): (there,)})
    assert observer(cluster, clock, run).look().inside[0].run == "apply of p.json"
    cluster.advance(1.0)
    assert watcher.look().inside == ()


def test_a_copy_waits_its_turn_while_others_to_its_broker_are_served() -> None:
    cluster, clock = FakeCluster({1: None, 2: None, 3: None}), FakeClock()
    cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=100 * MB)
    cluster.reassign({TopicPartition("t", n): (3, 2 - n) for n in range(2)})
    watcher = observer(cluster, clock)
    for tick in range(6):
        view = watcher.look()
        cluster.topics["t"].partitions[0].copied[3] = tick * 5 * MB
        clock.advance(5.0)
    states = {m.move.partition: [c.state for c in m.copies] for m in view.moves}
    assert states == {0: [CopyState.COPIES], 1: [CopyState.WAITS]}
    assert view.stalled == ()
    assert view.moves[0].bytes_per_s == MB
    # Longer than the window of the samples, and too long for a turn.
    for tick in range(6, 30):
        view = watcher.look()
        cluster.topics["t"].partitions[0].copied[3] = min(tick * 3, 99) * MB
        clock.advance(5.0)
    assert [c.state for m in view.moves for c in m.copies] == [CopyState.COPIES, CopyState.STALLED]


def test_facts_from_a_cluster_become_reasons() -> None:
    clock = FakeClock()
    cluster = FakeCluster({1: None, 2: None, 3: None}, line_rate=0.0)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.reassign({KEY: (3, 2)})

    def cause() -> Cause | None:
        view = look_once(observer(cluster, clock), clock, 12.0)
        ((_, copy),) = view.stalled
        return copy.stall.cause if copy.stall else None

    assert cause() is Cause.UNKNOWN
    cluster.topics["t"].configs[FOLLOWER_LIST] = "*"
    cluster.brokers[3].configs[FOLLOWER_RATE] = "2000000"
    assert cause() is Cause.WILDCARD
    cluster.topics["t"].configs[FOLLOWER_LIST] = "0:3"
    clock.on_sleep.append(lambda _: cluster.write("t", 0, 48 * MB))
    assert cause() is Cause.BELOW_INGEST
    clock.on_sleep.clear()
    del cluster.brokers[3].configs[FOLLOWER_RATE]
    cluster.hang(1)
    assert cause() is Cause.SILENT_LEADER
    cluster.revive(1)
    cluster.brokers[3].dirs = dict.fromkeys(cluster.brokers[3].dirs, 50 * MB)
    assert cause() is Cause.DIR_FULL
    cluster.fail_dir(3, next(iter(cluster.brokers[3].dirs)))
    assert cause() is Cause.DIR_OFFLINE
    cluster.hang(3)
    assert cause() is Cause.SILENT_DESTINATION
    cluster.kill(3)
    assert cause() is Cause.DEAD_DESTINATION


def test_a_stop_while_watching_leaves_the_moves_alone() -> None:
    cluster, clock = FakeCluster({1: None, 2: None, 3: None}), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.reassign({KEY: (3, 2)})
    shown: list[StatusView] = []

    class Quiet:
        def warn(self, line: str) -> None:
            raise AssertionError(line)

    for stop, error in ((KeyboardInterrupt, InterruptedRunError), (TerminationRequested, TerminatedRunError)):

        def press(_: float, stop: type[BaseException] = stop) -> None:
            raise stop

        clock.on_sleep[:] = [press]
        retrier = Retrier(clock, Quiet(), 90.0)  # type: ignore[arg-type]
        with pytest.raises(error, match="the moves continue by themselves"):
            watch(observer(cluster, clock), clock, retrier, interval_s=5.0, after_look=shown.append, show=shown.append)
    assert len(shown) == 4
    assert [name for name, _ in cluster.calls] == ["reassign"]


def view_of(copies: int, topic: str = 'a"\\\n') -> StatusView:
    moves = tuple(
        MoveView(
            move=Reassignment(topic=topic, partition=n, replicas=(3, 1), adding=(3,)),
            copies=(CopyView(broker=3, state=CopyState.COPIES, copied_bytes=0, total_bytes=n, bytes_per_s=1.5),),
            leader=1,
            run="apply of p" if n % 2 else "",
        )
        for n in range(copies)
    )
    return StatusView(cluster_id="c", at=NOW, window_s=12.0, bytes_per_s=4500.0, moves=moves)


def test_metrics_are_well_formed_and_do_not_grow_with_the_cluster() -> None:
    few, many = parse(render_metrics(view_of(TOP))), parse(render_metrics(view_of(5000)))
    assert len(many) == len(few)
    own = [(labels, value) for (name, labels), value in many.items() if name.endswith("_copy_missing_bytes")]
    assert max(value for _, value in own) == 4999
    assert dict(own[0][0])["topic"] == 'a"\\\n'
    (rest,) = (value for (name, _), value in many.items() if name.endswith("_other_copies_missing_bytes"))
    assert rest + sum(value for _, value in own) == sum(range(5000))
    assert parse(render_metrics(replace(view_of(0), at=NOW + timedelta(days=1))))


def test_the_library_of_prometheus_reads_the_metrics_alike() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    text = render_metrics(view_of(30))
    theirs = {
        (s.name, tuple(s.labels.items())): s.value
        for family in parser.text_string_to_metric_families(text)
        for s in family.samples
    }
    assert theirs == parse(text)


def test_texts_stay_short_on_thousands_of_moves() -> None:
    view = view_of(3000, "t")
    assert text_of(status_sections(view)).count("\n") < 50
    assert "  and 2970 more: kafkakit reassign list\n" in text_of(status_sections(view))
    assert text_of(screen_sections(view)).count("\n") < 50
    assert status_line(view).startswith("00:00:00Z 3000 moves, 0 B of 4.29 MiB, 4.5 kB/s")


def test_counts_take_the_topics_own_minimum_before_the_brokers_and_leave_out_what_a_move_adds() -> None:
    cluster, clock = FakeCluster({1: None, 2: None, 3: None, 4: None}), FakeClock()
    cluster.static_settings["min.insync.replicas"] = "2"
    cluster.add_topic("default", {0: (1, 2), 1: (2, 3)}, size_bytes=MB)
    cluster.add_topic("own", {0: (1, 2)}, size_bytes=MB, configs={"min.insync.replicas": "1"})
    cluster.reassign({TopicPartition("default", 1): (4, 3)})
    cluster.kill(1)
    health = observer(cluster, clock).look().around.health
    assert health is not None
    assert (health.partitions, health.under_replicated, health.under_min_isr, health.offline) == (3, 2, 1, 0)


@pytest.mark.parametrize(("version", "below"), [("3.6.2", 1), ("3.7.0", 0), ("4.1", 0), (None, 0)])
def test_fewer_replicas_than_the_minimum_count_as_below_it_before_3_7(version: str | None, below: int) -> None:
    cluster = FakeCluster({1: None, 2: None})
    cluster.add_topic("t", {0: (1,), 1: (1, 2)}, size_bytes=MB)
    snapshot = replace(cluster.snapshot(now=FakeClock().now()), kafka_version=version)
    assert health_of(snapshot, 2).under_min_isr == below


def test_a_copy_in_sync_is_not_stalled_while_the_other_one_copies_or_waits() -> None:
    cluster, clock = FakeCluster({1: None, 2: None, 3: None, 4: None}, line_rate=MB), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=30 * MB)
    cluster.reassign({KEY: (3, 4)})
    cluster.topics["t"].partitions[0].copied[3] = 30 * MB
    cluster.kill(4)
    cluster.advance(1.0)
    watcher = observer(cluster, clock)
    for _ in range(5):
        (move,) = watcher.look().moves
        clock.advance(5.0)
    assert [(c.broker, c.state) for c in move.copies] == [(3, CopyState.IN_SYNC), (4, CopyState.STALLED)]
    assert move.stalled
    assert "broker 3: in sync" in text_of(status_sections(watcher.look()))
    cluster.revive(4)
    cluster.advance(1.0)
    (move,) = watcher.look().moves
    assert not move.stalled
    assert move.missing_bytes == 29 * MB


def test_a_throttle_counts_for_listed_copies_only_and_a_sources_for_each_copy_it_feeds() -> None:
    cluster, clock = FakeCluster(dict.fromkeys(range(1, 5)), line_rate=0.0), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.reassign({KEY: (3, 4)})
    cluster.brokers[1].configs[LEADER_RATE] = str(3 * MB)
    cluster.brokers[3].configs[FOLLOWER_RATE] = "0"
    cluster.topics["t"].configs |= {FOLLOWER_LIST: "0:4,1:3", LEADER_LIST: "0:2,7:1"}
    assert {c.stall.cause for _, c in look_once(observer(cluster, clock), clock, 12.0).stalled if c.stall} == {
        Cause.UNKNOWN
    }
    # 2 MB/s come in, and go out to two brokers.
    cluster.topics["t"].configs[LEADER_LIST] = "0:1"
    clock.on_sleep.append(lambda _: cluster.write("t", 0, 24 * MB))
    (found, _) = look_once(observer(cluster, clock), clock, 12.0).stalled
    assert found[1].stall is not None
    assert found[1].stall.words.endswith(" is 3 MB/s, the partitions that move under it take in 4 MB/s")


def test_dead_brokers_are_not_asked_and_throttles_are_read_again_between_the_whole_looks() -> None:
    cluster, clock = Counting({1: None, 2: None, 3: None}), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.reassign({KEY: (3, 2)})
    cluster.kill(2)
    watcher = observer(cluster, clock)
    assert watcher.look().around.throttled.brokers == {}
    assert cluster.asked_brokers == {1, 3}
    cluster.brokers[3].configs[FOLLOWER_RATE] = "5"
    clock.advance(16.0)
    assert watcher.look().around.throttled.brokers == {"3": {FOLLOWER_RATE: "5"}}
    assert cluster.reads["snapshot"] == 1


def test_a_copy_that_its_broker_never_shows_is_named_in_the_end() -> None:
    cluster, clock = FakeCluster({1: None, 2: None, 3: None}), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.reassign({KEY: (3, 2)})
    del cluster.topics["t"].partitions[0].copied[3]
    ((_, copy),) = look_once(observer(cluster, clock), clock, 12.0).stalled
    assert (copy.copied_bytes, copy.stall and copy.stall.cause) == (0, Cause.UNKNOWN)


def test_runs_are_read_anew_when_their_journal_grew_and_with_their_own_plan_only(tmp_path: Path) -> None:
    cluster, run = cluster_and_run()
    assert run.plan is not None
    file = tmp_path / "p.json"
    file.write_bytes(encode_plan(run.plan))
    identity = identity_of(run.plan)
    path = journal_path(tmp_path, "fake-cluster", identity)
    journal = RunJournal(DiskFile(path), FakeClock(), cluster_id="fake-cluster", fingerprint=identity)
    started = {"direction": "apply", "plan_path": str(file), "rate": None}
    runs = KnownRuns(tmp_path, "fake-cluster")
    assert runs.read() == ()
    journal.check(JournalSubject.START, started)
    (found,) = runs.read()
    assert (found.state.unsettled, found.plan) == (True, run.plan)
    journal.check(JournalSubject.END, {"verdict": "complete", "problems": [], "owed": []})
    assert [r.state.unsettled for r in runs.read()] == [False]
    file.write_bytes(encode_plan(make_plan(cluster, {("t", 0): (4, 2)})))
    journal.check(JournalSubject.START, started)
    assert KnownRuns(tmp_path, "fake-cluster").read()[0].plan is None


def test_rates_count_moves_that_began_or_ended_in_the_window() -> None:
    cluster, run = cluster_and_run(
        submitted={KEY: (3, 2), TopicPartition("t", 1): (3, 4)},
        promise=Promise(made_at=NOW, promised_s=100.0, bound_s=90.0, total_bytes=400 * MB, steps=3),
    )
    clock = FakeClock()
    cluster.reassign({KEY: (3, 2)})
    partitions = cluster.topics["t"].partitions
    partitions[0].copied[3] = 70 * MB
    watcher = observer(cluster, clock, run)
    # t-1 is sent with two copies and counts as arrived before it is on the cluster: only t-2 waits.
    assert watcher.look().runs[0].left_bytes == (30 + 100) * MB
    clock.advance(10.0)
    cluster.advance(30.0)  # t-0 arrives, at 1 MB/s
    assert partitions[0].replicas == [3, 2]
    cluster.reassign({TopicPartition("t", 2): (1, 3)})
    partitions[2].copied[3] = 10 * MB
    view = watcher.look()
    assert (view.bytes_per_s, len(view.moves)) == (4 * MB, 1)
    cluster.cancel([TopicPartition("t", 2)])
    clock.advance(10.0)
    assert watcher.look().bytes_per_s == 2 * MB, "what was cancelled has not arrived"
    (told,) = view.runs
    # The move of t-2 is not ours here: what shrank is t-0.
    assert (told.left_bytes, told.bytes_per_s, told.eta_s) == (100 * MB, 3 * MB, 100 * MB / (3 * MB))


def test_the_last_look_of_a_watch_is_all_new() -> None:
    cluster, clock = Counting({1: None, 2: None, 3: None}, line_rate=10 * MB), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=10 * MB)
    cluster.reassign({KEY: (3, 2)})
    cluster.brokers[3].configs[FOLLOWER_RATE] = "5"
    clock.on_sleep.append(cluster.advance)
    clock.on_sleep.append(lambda _: cluster.brokers[3].configs.clear())

    def show(view: StatusView) -> None:
        assert view.around.throttled.brokers

    retrier = Retrier(clock, None, 90.0)  # type: ignore[arg-type]
    last = watch(observer(cluster, clock), clock, retrier, interval_s=5.0, after_look=lambda _: None, show=show)
    assert (last.moves, last.around.throttled.brokers, cluster.reads["snapshot"]) == ((), {}, 2)
    assert last.around.health is not None
    assert last.around.health.at == clock.now()


def test_a_watch_stays_while_a_process_holds_the_lease() -> None:
    cluster, clock = Counting({1: None, 2: None, 3: None}, line_rate=10 * MB), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=200 * MB)
    clock.on_sleep.append(cluster.advance)
    looks: list[StatusView] = []

    def show(view: StatusView) -> None:
        looks.append(view)
        if len(looks) == 30:  # the run plans for so long, and moves then
            cluster.reassign({KEY: (3, 2)})

    def beating() -> HeldLease:
        free = len(looks) >= 60
        held = lease(7, free=free)
        assert held.record is not None
        return replace(held, record=replace(held.record, beats=len(looks)))

    watching = StatusObserver(cluster, clock, Ledger(), beating, window_s=20.0, program="kafkakit")
    retrier = Retrier(clock, None, 90.0)  # type: ignore[arg-type]
    last = watch(watching, clock, retrier, interval_s=5.0, after_look=lambda _: None, show=show)
    assert len(looks) >= 60
    assert any(view.moves for view in looks)
    assert last.around.lease is not None
    assert not last.around.lease.is_held


@pytest.mark.parametrize("life", [Life.UNKNOWN, Life.ALIVE])
def test_a_watch_does_not_wait_for_a_lease_that_nobody_renews(life: Life) -> None:
    cluster, clock = Counting({1: None, 2: None}), FakeClock()
    watching = StatusObserver(cluster, clock, Ledger(), lambda: lease(7, life), window_s=20.0, program="kafkakit")
    retrier = Retrier(clock, None, 90.0)  # type: ignore[arg-type]
    watch(watching, clock, retrier, interval_s=5.0, after_look=lambda _: None, show=lambda _: None)
    assert 15.0 <= clock.elapsed <= 60.0
    local = HeldLease(locked_by="process 5 of ops")
    assert local.is_in_use
    assert not HeldLease().is_in_use


def test_settings_that_are_refused_at_first_are_not_tried_again_and_later_ones_are() -> None:
    said, answers = list[str](), list[str | Exception]()

    class Warned:
        def warn(self, line: str) -> None:
            said.append(line)

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    refused, clock = ConnectRefusedError("login refused"), FakeClock()
    retrier = Retrier(clock, Warned(), 90.0)  # type: ignore[arg-type]
    answers += [refused]
    with pytest.raises(ConnectRefusedError):
        retrier.call("reading", ask)
    assert (clock.elapsed, said) == (0.0, [])
    answers += [TryLaterError("away"), "yes", refused, refused, "renewed"]
    assert [retrier.call("reading", ask), retrier.call("reading", ask)] == ["yes", "renewed"]
    assert said == ["reading: away; trying again", "reading: login refused; trying again"]


def test_the_total_of_a_watch_does_not_shrink_as_moves_end() -> None:
    cluster, clock = Counting({1: None, 2: None, 3: None}, line_rate=10 * MB), FakeClock()
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=100 * MB)
    cluster.add_topic("u", {0: (1, 2)}, size_bytes=20 * MB)
    cluster.reassign({KEY: (3, 2), TopicPartition("u", 0): (3, 2)})
    watching, totals = observer(cluster, clock), []
    clock.on_sleep.append(cluster.advance)
    while cluster.reassignments():
        view = watching.look()
        totals.append(view.total_bytes + view.around.ended_bytes)
        assert f" of {format_bytes(120 * MB)} copied" in text_of(status_sections(view))
        assert f" of {format_bytes(120 * MB)}, " in f"{status_line(view)}, "
        clock.sleep(2.0)
    assert set(totals) == {120 * MB}
    assert len(totals) > 5


def test_what_a_run_has_left_is_told_with_its_whole() -> None:
    _, run = cluster_and_run()
    view = view_run(run, (), None, NOW.timestamp(), "kafkakit")
    assert (view.left_bytes, view.total_bytes) == (400 * MB, 400 * MB)
    sent = Layers[TopicPartition, tuple[int, ...]]().plus({KEY: (3, 2)})
    later = view_run(replace(run, state=replace(run.state, submitted=sent)), (), None, NOW.timestamp(), "kafkakit")
    assert (later.left_bytes, later.total_bytes) == (300 * MB, 400 * MB)


def test_throttles_without_moves_are_named_whoever_set_them() -> None:
    list_of = {FOLLOWER_LIST: "0:3,1:4"}
    throttled = CurrentThrottles(
        brokers={"3": {FOLLOWER_RATE: "5"}, "7": {INSIDE_RATE: "5"}, "12": {LEADER_RATE: "5"}},
        topics={"t": list_of, "u": {LEADER_LIST: "*"}},
    )
    assert without_moves(throttled, ()) == (
        f"broker 3, 7, 12 ({FOLLOWER_RATE}, {LEADER_RATE}, {INSIDE_RATE}) "
        f"and topic t, u ({FOLLOWER_LIST}, {LEADER_LIST})"
    )
    moves = [Reassignment(topic="t", partition=p, replicas=(1, 3), adding=(3,), removing=()) for p in (0, 1)]
    assert without_moves(throttled, moves, inside=(7,)) == f"broker 12 ({LEADER_RATE}) and topic u ({LEADER_LIST})"
    assert without_moves(throttled, moves[:1], inside=(7,)) == (
        f"broker 12 ({LEADER_RATE}) and topic t, u ({FOLLOWER_LIST}, {LEADER_LIST})"
    )
    wild = [*moves, Reassignment(topic="u", partition=5, replicas=(12, 1), adding=(1,), removing=())]
    assert without_moves(throttled, wild, inside=(7,)) == ""
    assert without_moves(CurrentThrottles(), ()) == ""
