"""Planners send no copy to a broker whose log dirs have no space for it, and find a place wherever there is one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import ExitCode, InfeasibleError, KafkakitError, UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.selection import BrokerList
from kafkakit.execution.decide.run_rules import Order as SimulatedOrder
from kafkakit.execution.decide.run_rules import SimulateRequest
from kafkakit.placement.problem import PlaceBy
from kafkakit.reassign.decide.simulate import build_scene, play
from kafkakit.reassign.report.simulate import simulate_report
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.place import decide_place
from kafkakit.topicmappr.decide.plain_requests import DrainRequest, FixRacksRequest, PlaceRequest, ReplicationRequest
from kafkakit.topicmappr.decide.rebalance import decide_rebalance
from kafkakit.topicmappr.decide.rebuild import decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.replan import decide_replan
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest, RebuildRequest
from tests.clusters.shapes import make_snapshot
from tests.invariants.log_dirs import verify_space

GB = 10**9
ALL = ("t",)
EVERY = BrokerList(ids=(), everything=True)


def cluster(
    dirs: Mapping[int, tuple[tuple[int, int], ...]],
    lists: list[tuple[int, ...]],
    sizes: list[int],
    racks: Mapping[int, str] | None = None,
) -> ClusterSnapshot:
    """Brokers with dirs of (total, usable) bytes; every copy is in the first dir of its broker."""
    return make_snapshot(
        (
            Broker(
                id=b,
                rack=(racks or {}).get(b),
                log_dirs=tuple(LogDir(path=f"/d{n}", total_bytes=t, usable_bytes=u) for n, (t, u) in enumerate(own)),
            )
            for b, own in dirs.items()
        ),
        {
            "t": [
                Partition(
                    partition=n,
                    replicas=row,
                    isr=row,
                    leader=row[0],
                    replica_bytes=dict.fromkeys(row, size),
                    replica_dirs=dict.fromkeys(row, "/d0"),
                )
                for n, (row, size) in enumerate(zip(lists, sizes, strict=True))
            ]
        },
    )


ROOMY = ((1000 * GB, 500 * GB),)
TWO_HALVES = ((200 * GB, 90 * GB), (200 * GB, 90 * GB))
ONE_WHOLE = ((300 * GB, 150 * GB),)
# 100 GB must leave broker 4: broker 2 has 180 GB free and no dir with 100, broker 3 has one.
SPLIT = cluster({1: ROOMY, 2: TWO_HALVES, 3: ONE_WHOLE, 4: ROOMY}, [(4, 1)], [100 * GB])
WORDS = {"command": "topicmappr drain", "brokers": "4"}


def drained(snapshot: ClusterSnapshot, by: PlaceBy = PlaceBy.COUNT, to: tuple[int, ...] = ()) -> Any:
    receiving = BrokerList(ids=to) if to else None
    leaving = BrokerList(ids=(4,))
    return decide_drain(
        snapshot, DrainRequest(leaving=leaving, receiving=receiving, topics=ALL, placement=by, words=WORDS)
    )


@pytest.mark.parametrize("by", PlaceBy)
def test_drain_passes_a_broker_over_none_of_whose_dirs_has_space(by: PlaceBy) -> None:
    change = drained(SPLIT, by)
    assert [(m.before, m.after) for m in change.plan.moves] == [((4, 1), (1, 3))]
    assert change.plan.certificate.gap == 0
    assert not [n for n in change.plan.notes if "has space" in n]


@pytest.mark.parametrize("by", PlaceBy)
def test_drain_leaves_what_fits_in_no_dir_and_says_what_is_needed(by: PlaceBy) -> None:
    change = drained(SPLIT, by, to=(2,))
    assert (change.plan.moves, change.left_alone) == ((), 1)
    assert change.reasons == (
        "t-0 needs a log dir with 93.1 GiB of space: broker 2 takes 74.5 GiB in one at most; "
        "free space there, or let more brokers receive",
    )


@pytest.mark.parametrize("by", PlaceBy)
@pytest.mark.parametrize("forced", [False, True])
def test_rebuild_passes_such_a_broker_over(by: PlaceBy, forced: bool) -> None:
    brokers = BrokerList(ids=(1, 2, 3))
    request = RebuildRequest(brokers=brokers, topics=ALL, placement=by, force_rebuild=forced, words={})
    rebuild = decide_rebuild(SPLIT, request)
    assert set(rebuild.after[0]) == {1, 3}
    assert not any(rebuild.unplaced)


def test_set_replication_passes_such_a_broker_over_and_says_when_none_is_left() -> None:
    two = replace(SPLIT, brokers=(*SPLIT.brokers[:3], replace(SPLIT.brokers[3], log_dirs=SPLIT.brokers[1].log_dirs)))
    lists = cluster({1: ROOMY, 2: TWO_HALVES, 3: ONE_WHOLE, 4: TWO_HALVES}, [(1,)], [100 * GB])
    change = decide_set_replication(lists, ReplicationRequest(replication=2, topics=ALL, words={}))
    assert [m.after for m in change.plan.moves] == [(1, 3)]
    more = decide_set_replication(two, ReplicationRequest(replication=4, topics=ALL, words={}))
    assert more.left_alone == 1
    assert "needs a log dir with 93.1 GiB of space: broker 2 takes 74.5 GiB in one at most" in more.reasons[0]


def test_fix_racks_passes_such_a_broker_over() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a"}
    snapshot = cluster({1: ROOMY, 2: TWO_HALVES, 3: ONE_WHOLE, 4: ROOMY}, [(4, 1)], [100 * GB], racks)
    change = decide_fix_racks(snapshot, FixRacksRequest(topics=ALL, words={}))
    (move,) = change.plan.moves
    assert move.adding == (3,)
    full = cluster({1: ROOMY, 2: TWO_HALVES, 4: ROOMY}, [(4, 1)], [100 * GB], racks)
    assert "needs a log dir" in decide_fix_racks(full, FixRacksRequest(topics=ALL, words={})).reasons[0]


@pytest.mark.parametrize("split", [2, 3])
def test_rebalance_passes_such_a_broker_over(split: int) -> None:
    dirs = {1: ((400 * GB, 100 * GB),), split: TWO_HALVES, 5 - split: ((400 * GB, 400 * GB),)}
    snapshot = cluster(dict(sorted(dirs.items())), [(1,), (1,), (1,)], [100 * GB, 100 * GB, 100 * GB])
    request = RebalanceRequest(brokers=EVERY, topics=ALL, goal=LoadGoal(band=Fraction(1)), words={})
    found = decide_rebalance(snapshot, request)
    assert [m.adding for m in found.plan.moves] == [(5 - split,)]
    tighter = replace(request, goal=LoadGoal(band=Fraction(1, 10)))
    with pytest.raises(InfeasibleError) as error:
        decide_rebalance(snapshot, tighter)
    assert any("needs a log dir with 93.1 GiB of space" in reason for reason in error.value.reasons)


def test_place_puts_as_many_partitions_on_a_broker_as_its_dirs_hold() -> None:
    dirs = {1: ((200 * GB, 60 * GB),) * 2, 2: ((1000 * GB, 900 * GB),), 3: ((1000 * GB, 900 * GB),)}
    placed = decide_place(
        cluster(dirs, [], []), PlaceRequest(topic="new", partitions=12, replication=1, partition_bytes=40 * GB)
    )
    counts = {share.broker: share.new_replicas for share in placed.shares}
    assert (counts[1], sum(counts.values())) == (2, 12)
    with pytest.raises(InfeasibleError, match="needs a log dir with"):
        decide_place(SPLIT, PlaceRequest(topic="new", partitions=1, replication=2, partition_bytes=460 * GB))


def moved_to(snapshot: ClusterSnapshot, broker: int) -> Plan:
    """The plan that drains broker 4 onto this one, made when its disks were empty."""
    dirs = tuple(replace(d, total_bytes=1000 * GB, usable_bytes=900 * GB) for d in snapshot.brokers[1].log_dirs)
    empty = replace(
        snapshot, brokers=tuple(replace(b, log_dirs=dirs) if b.id == broker else b for b in snapshot.brokers)
    )
    plan: Plan = drained(empty, to=(broker,)).plan
    return plan


def test_replan_takes_a_copy_to_another_broker_when_its_dirs_have_filled() -> None:
    plan = moved_to(SPLIT, 2)
    rules = plan.rules
    assert rules is not None
    plan = replace(plan, rules=replace(rules, receivers=(2, 3)))
    found = decide_replan(plan, SPLIT)
    assert [m.after for m in found.plan.moves] == [(1, 3)]


def test_simulate_refuses_what_apply_refuses() -> None:
    request = SimulateRequest()
    bad, good = moved_to(SPLIT, 2), drained(SPLIT).plan
    codes = []
    for plan in (bad, good):
        scene = build_scene(plan, SPLIT, request)
        report = simulate_report([play(scene, request, SimulatedOrder.SCHEDULE, None)], scene.notes, plain=True)
        codes.append(report.failure.exit_code if report.failure is not None else ExitCode.DONE)
    assert codes == [ExitCode.INFEASIBLE, ExitCode.DONE]


@st.composite
def tight_clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Three to five brokers with one to three tight dirs, some of them cordoned, and up to five partitions."""
    count = draw(st.integers(3, 5))
    names = draw(st.sampled_from(["-----", "abcab", "abcde", "aabbc"]))
    lists = draw(st.lists(st.permutations(range(1, count + 1)), min_size=1, max_size=5))
    factors = draw(st.lists(st.integers(1, 2), min_size=len(lists), max_size=len(lists)))
    sizes = draw(st.lists(st.sampled_from([10, 20, 40, 60, 90]), min_size=len(lists), max_size=len(lists)))
    dirs = {
        b: tuple((200, draw(st.integers(0, 110))) for _ in range(draw(st.integers(1, 3)))) for b in range(1, count + 1)
    }
    snapshot = cluster(
        dirs,
        [tuple(row[:n]) for row, n in zip(lists, factors, strict=True)],
        sizes,
        {b: names[b - 1] for b in dirs if names[b - 1] != "-"},
    )
    shut = draw(st.sets(st.integers(1, count), max_size=1))
    return replace(
        snapshot,
        brokers=tuple(
            replace(b, log_dirs=(replace(b.log_dirs[0], cordoned=True), *b.log_dirs[1:])) if b.id in shut else b
            for b in snapshot.brokers
        ),
    )


def plans(snapshot: ClusterSnapshot, by: PlaceBy, factor: int) -> "list[Callable[[], Plan]]":
    """A request of each kind, as plans to be made."""
    leaving = BrokerList(ids=(1,))
    others = BrokerList(ids=tuple(b.id for b in snapshot.brokers if b.id != 1))
    goal = LoadGoal(band=Fraction(3, 10), best_effort=True)
    rebuild = RebuildRequest(brokers=others, topics=ALL, placement=by, replication=factor, words={})
    return [
        lambda: decide_drain(snapshot, DrainRequest(leaving=leaving, topics=ALL, placement=by, words={})).plan,
        lambda: decide_rebuild(snapshot, rebuild).plan,
        lambda: decide_rebuild(snapshot, replace(rebuild, force_rebuild=True)).plan,
        lambda: decide_set_replication(snapshot, ReplicationRequest(replication=factor, topics=ALL, words={})).plan,
        lambda: decide_fix_racks(snapshot, FixRacksRequest(topics=ALL, words={})).plan,
        lambda: (
            decide_rebalance(
                snapshot,
                RebalanceRequest(brokers=EVERY, topics=ALL, goal=goal, max_disk_use=Fraction(95, 100), words={}),
            ).plan
        ),
    ]


@settings(max_examples=30, deadline=None)
@given(tight_clusters(), st.sampled_from(PlaceBy), st.integers(1, 3))
def test_no_plan_sends_a_copy_where_no_dir_holds_it(snapshot: ClusterSnapshot, by: PlaceBy, factor: int) -> None:
    state = json.loads(encode_snapshot(snapshot))
    for make in plans(snapshot, by, factor):
        try:
            plan = make()
        except (UsageError, InfeasibleError):
            continue
        verify_space(json.loads(encode_plan(plan)), state)


@settings(max_examples=30, deadline=None)
@given(tight_clusters(), st.sampled_from(PlaceBy))
def test_drain_leaves_nothing_that_some_placement_has_space_for(snapshot: ClusterSnapshot, by: PlaceBy) -> None:
    try:
        change = decide_drain(
            snapshot, DrainRequest(leaving=BrokerList(ids=(1,)), topics=ALL, placement=by, min_rack_ids=1, words={})
        )
    except KafkakitError:
        return
    if change.left_alone:
        state = json.loads(encode_snapshot(snapshot))
        ids = [b.id for b in snapshot.brokers if b.id != 1]
        rows = [p for _, p in snapshot.partitions() if 1 in p.replicas]
        ways = ([(p, b) for b in ids if b not in p.replicas] for p in rows)
        assert not any(_has_space(state, way) for way in product(*ways)), change.reasons


def _has_space(state: dict[str, Any], way: "tuple[tuple[Partition, int], ...]") -> bool:
    moves = [
        {
            "topic": TopicPartition("t", p.partition).topic,
            "partition": p.partition,
            "before": p.replicas,
            "after": [b if old == 1 else old for old in p.replicas],
        }
        for p, b in way
    ]
    try:
        verify_space({"moves": moves}, state)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("by", PlaceBy)
def test_many_copies_without_a_dir_fill_the_brokers_that_have_space(by: PlaceBy) -> None:
    # Broker 4 holds 40 copies. Brokers 1 and 2 have space for two each, one a dir, and broker 3 for all.
    dirs = {1: ((200 * GB, 60 * GB),) * 2, 2: ((200 * GB, 60 * GB),) * 2, 3: ((4000 * GB, 3900 * GB),), 4: ROOMY}
    change = drained(cluster(dirs, [(4,)] * 40, [40 * GB] * 40), by)
    assert change.left_alone == 0
    taken = [b for m in change.plan.moves for b in m.adding]
    assert (taken.count(1) <= 2, taken.count(2) <= 2, len(taken)) == (True, True, 40)
