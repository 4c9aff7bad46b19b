"""Placement; watches of a cluster."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import LogSpan, PartitionState
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.assigner.act.watching import ClusterWatch, WatchedCluster
from kafkakit.streams.assigner.decide.placing import (
    NONE,
    AssignmentProblem,
    PartitionTraffic,
    loads_of,
    place,
    round_rate,
    shares_of,
)
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.groups import FakeGroups
from tests.rigs.assigner_loop import FakeClients
from tests.rigs.waiting import until


def problem(load: list[int], capacity: list[int], **more: Any) -> AssignmentProblem:
    count, workers = len(load), len(capacity)
    given: dict[str, Any] = {
        "load": load,
        "level": [0] * count,
        "kind": [0] * count,
        "zone": [NONE] * count,
        "owner": [NONE] * count,
        "capacity": capacity,
        "worker_zone": [NONE] * workers,
        "serves": [[True]] * workers,
        **more,
    }
    most = given.pop("most", 1000)
    arrays = {name: np.array(value, dtype=bool if name == "serves" else np.int64) for name, value in given.items()}
    return AssignmentProblem(**arrays, most=most)


@st.composite
def problems(draw: st.DrawFn) -> AssignmentProblem:
    workers, count, kinds = draw(st.integers(1, 6)), draw(st.integers(0, 40)), draw(st.integers(1, 3))

    def numbers(low: int, high: int, size: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=size, max_size=size))

    return problem(
        numbers(1, 500, count),
        numbers(0, 200, workers),
        level=numbers(0, 2, count),
        kind=numbers(0, kinds - 1, count),
        zone=numbers(-1, 1, count),
        owner=numbers(-1, workers - 1, count),
        worker_zone=numbers(-1, 1, workers),
        serves=[[bool(each) for each in numbers(0, 1, kinds)] for _ in range(workers)],
        most=draw(st.integers(3, 1000)),
    )


@given(problems(), st.booleans())
def test_partitions_are_where_they_may_be_and_the_same_each_time(found: AssignmentProblem, may_balance: bool) -> None:
    answer = place(found, may_balance=may_balance)
    assert (place(found, may_balance=may_balance).owner == answer.owner).all()
    able = found.serves[:, found.kind].T & (found.capacity > 0)[None, :]
    counts = np.bincount(answer.owner[answer.owner >= 0], minlength=len(found.capacity))
    held = np.bincount(found.owner[found.owner >= 0], minlength=len(found.capacity))
    assert (counts <= np.maximum(held, found.most)).all()
    for partition, owner in enumerate(answer.owner.tolist()):
        if owner >= 0:
            assert able[partition, owner]
        else:
            assert (counts[able[partition]] >= found.most).all()
    was_able = (found.owner >= 0) & able[np.arange(len(found.load)), found.owner]
    assert answer.orphans == int((~was_able).sum())
    moved = int((was_able & (answer.owner != found.owner)).sum())
    assert moved == answer.moves
    if answer.orphans:
        assert answer.moves <= 0.1 * answer.orphans
    elif not may_balance:
        assert answer.moves == 0


def test_loads_follow_capacities() -> None:
    found = problem([10] * 100, [100, 200, 200])
    assert loads_of(found, place(found).owner, 0).tolist() == [200, 400, 400]


def test_heavy_partitions_do_not_meet() -> None:
    found = problem([1000, 1000, 1000, *([10] * 30)], [100, 100, 100])
    owner = place(found).owner
    assert len(set(owner[:3].tolist())) == 3


def test_partitions_stay_in_their_zone_where_there_is_space() -> None:
    found = problem([10] * 30, [100, 100, 100], zone=[0, 1, 2] * 10, worker_zone=[0, 1, 2])
    assert (place(found).owner == found.zone).all()


def test_the_important_lane_is_even_by_itself() -> None:
    found = problem([10] * 12 + [90] * 9, [100, 100, 100], level=[0] * 12 + [2] * 9)
    owner = place(found).owner
    assert np.bincount(owner[:12]).tolist() == [4, 4, 4]
    assert np.bincount(owner[12:]).tolist() == [3, 3, 3]


def test_a_death_moves_what_the_dead_one_had_and_a_tenth_at_most() -> None:
    rng = np.random.default_rng(3)
    found = problem(rng.integers(50, 2000, 1000).tolist(), rng.choice([50, 100, 200], 50).tolist())
    found = replace(found, owner=place(found).owner)
    for dead in range(0, 50, 7):
        capacity = found.capacity.copy()
        capacity[dead] = 0
        after = place(replace(found, capacity=capacity))
        share = int((found.owner == dead).sum())
        assert share <= int((after.owner != found.owner).sum()) <= 1.1 * share
        assert (after.owner != dead).all()


def test_balance_moves_only_what_is_better_off_and_comes_to_an_end() -> None:
    found = problem([10] * 60, [100, 100, 100], owner=[0] * 40 + [1] * 20)
    for _ in range(40):
        answer = place(found)
        if not answer.moves:
            break
        found = replace(found, owner=answer.owner)
    else:
        raise AssertionError("it goes on")
    loads = loads_of(found, found.owner, 0)
    assert (loads >= 0.75 * shares_of(found, 0)).all()
    assert (loads <= 1.25 * shares_of(found, 0)).all()


def test_a_heavy_partition_that_no_worker_can_take_evenly_stays() -> None:
    found = problem([5000, 10, 10, 10], [100, 100], owner=[0, 1, 1, 1])
    assert place(found).moves == 0


def test_a_partition_that_is_placed_and_then_balanced_in_one_answer_did_not_move() -> None:
    serves = [[False, True, True], [False] * 3, [False] * 3, [False, False, True]]
    found = problem(
        [*([1] * 35), 3, 2],
        [2, 0, 0, 1],
        kind=[*([0] * 28), 2, *([0] * 6), 2, 1],
        owner=[*([0] * 28), 1, *([0] * 6), 3, 0],
        serves=serves,
        most=3,
    )
    answer = place(found, may_balance=False)
    assert answer.owner.tolist()[28] == 3
    assert answer.moves == 1


def test_moves_for_balance_fill_no_worker_above_its_most_and_leave_no_space_unused() -> None:
    serves = [[True, True, False], [False] * 3, [True, False, False], [False] * 3, [False, True, False], [False] * 3]
    found = problem(
        [1] * 14,
        [1, 0, 1, 0, 1, 0],
        level=[0] * 9 + [1] * 4 + [0],
        kind=[1, 2, *([0] * 6), 1, *([0] * 4), 1],
        zone=[0] * 14,
        owner=[0, 0, *([1] * 6), 0, *([1] * 4), 0],
        worker_zone=[0] * 6,
        serves=serves,
        most=3,
    )
    answer = place(found, may_balance=False)
    counts = np.bincount(answer.owner[answer.owner >= 0], minlength=6)
    assert counts.max() == 3
    assert (counts[[0, 2]] == 3).all()


class Log:
    """Ends that a test sets."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}

    def spans(self, partitions: Any) -> Mapping[TopicPartition, LogSpan]:
        return {key: LogSpan(start=0, stable=self.ends[key], end=self.ends[key]) for key in partitions}


class Harness:
    def __init__(self) -> None:
        self.cluster, self.log, self.groups = FakeCluster({1: "r1", 2: "r2"}, cluster_id="a-id"), Log(), FakeGroups()
        self.clock = FakeClock()
        self.clients = FakeClients(admin=self.cluster, groups=self.groups, log=self.log)
        self.watch = ClusterWatch("a-id", lambda: nullcontext(self.clients), self.clock)
        self.cluster.create_topic("t", {0: (1, 2), 1: (2, 1)}, {"min.insync.replicas": "2"})
        self.log.ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 100}
        self.watch.wanted = WatchedCluster(partitions={"t": 2}, groups={"t": ("g",)})

    def look(self) -> None:
        self.watch.look_once(self.clients)


@pytest.fixture
def stage() -> Harness:
    return Harness()


def test_a_probe_is_of_the_cluster_that_is_meant(stage: Harness) -> None:
    stage.watch.probe_once(stage.clients)
    assert stage.watch.probe is not None
    assert stage.watch.probe.has_controller
    other = ClusterWatch("b-id", lambda: nullcontext(stage.clients), stage.clock)
    with pytest.raises(OperationFailedError, match="its address answers as cluster a-id"):
        other.probe_once(stage.clients)
    assert other.probe is None


def test_a_watch_that_is_stopped_closes_its_clients(stage: Harness) -> None:
    opened: list[str] = []
    closed: list[str] = []

    @contextmanager
    def clients() -> Iterator[FakeClients]:
        opened.append("")
        yield stage.clients
        closed.append("")

    watch = ClusterWatch("a-id", clients, stage.clock)
    watch.start()
    until(lambda: len(opened) == 2, "both threads have clients")
    assert not closed
    watch.stop()
    until(lambda: len(closed) == 2, "both closed them")


def test_looks_that_fail_are_told_while_probes_are_answered(stage: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: each probe that was answered took away what the looks said, and the cluster counted as healthy."""
    refused = OperationFailedError("not allowed: DESCRIBE_CONFIGS of topic t")

    def refuse(*_: object) -> dict[TopicPartition, PartitionState]:
        raise refused

    monkeypatch.setattr(stage.cluster, "partition_states", refuse)
    stage.watch.start()
    until(lambda: stage.watch.probe is not None and bool(stage.watch.problem), "both threads answered")
    probe = stage.watch.probe
    until(lambda: stage.watch.probe is not probe, "it was probed again")
    assert stage.watch.problem == refused.message
    monkeypatch.undo()
    until(lambda: not stage.watch.problem, "the look's problem is over")
    stage.watch.stop()


def test_a_look_finds_rates_racks_and_lag(stage: Harness) -> None:
    stage.groups.seed("g", TopicPartition("t", 0), 90)
    stage.look()
    stage.clock.advance(10)
    stage.log.ends[TopicPartition("t", 1)] = 1_100
    stage.look()
    found = stage.watch.look
    assert found.number == 2
    assert found.facts["t"] == (PartitionTraffic(0, "r1"), PartitionTraffic(128, "r2"))
    assert found.lags == {"g": 10}
    assert (found.offline, found.under_min_isr) == (0, 0)


def test_a_look_counts_what_is_under_its_minimum(stage: Harness) -> None:
    stage.cluster.kill(2)
    stage.look()
    assert stage.watch.look.under_min_isr == 2


@pytest.mark.parametrize(("version", "below"), [("3.6.2", 2), ("3.7.0", 0), ("4.1", 0), (None, 0)])
def test_a_minimum_above_the_replicas_stops_writes_before_3_7(
    stage: Harness, monkeypatch: pytest.MonkeyPatch, version: str | None, below: int
) -> None:
    info = replace(stage.cluster.cluster(), kafka_version=version)
    monkeypatch.setattr(stage.cluster, "cluster", lambda: info)
    stage.cluster.topics["t"].configs["min.insync.replicas"] = "3"
    stage.look()
    assert stage.watch.look.under_min_isr == below


@pytest.mark.parametrize(("rate", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (1000, 1024), (1024, 1024)])
def test_rates_are_rounded_to_powers_of_two(rate: int, power: int) -> None:
    assert round_rate(rate) == power
