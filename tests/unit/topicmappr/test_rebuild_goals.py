"""Who is served first under a budget, what is left, and what is said of it.

The parts of a rebuild by storage. What a rebalance chooses where its bytes leave it free. How many brokers bring a
band within reach, and what a frontier finds, where racks hold one copy of everything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    PartitionAssignment,
    PartitionMap,
    Topic,
    TopicPartition,
)
from kafkakit.core.quantities import parse_percent
from kafkakit.core.selection import BrokerList, parse_broker_list
from kafkakit.placement.problem import Minimize, OptimizeFor, PlaceBy, PlannedPartition
from kafkakit.placement.rebuild_task import fill_row
from kafkakit.topicmappr.decide import rebuild_bytes
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.budget import BudgetSelection, LeftForLater, PartitionChange, budget_notes, serve
from kafkakit.topicmappr.decide.drain import decide_drain
from kafkakit.topicmappr.decide.explain import explain
from kafkakit.topicmappr.decide.fix_racks import decide_fix_racks
from kafkakit.topicmappr.decide.frontier import decide_frontier
from kafkakit.topicmappr.decide.leaders import LeadershipPass, decide_leaders, first_passings
from kafkakit.topicmappr.decide.plain_requests import (
    DrainRequest,
    FixRacksRequest,
    LeaderBudget,
    LeadersRequest,
    ReplicationRequest,
)
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.rebuild import Rebuild, decide_rebuild, decide_set_replication
from kafkakit.topicmappr.decide.rebuild_bytes import lead_evenly
from kafkakit.topicmappr.decide.request_fields import NO_BUDGET, NO_CEILINGS, Ceilings, LoadGoal, PlanBudget
from kafkakit.topicmappr.decide.requests import GIB as GIB_OF_REQUESTS
from kafkakit.topicmappr.decide.requests import (
    FrontierBase,
    FrontierRequest,
    Metric,
    RebalanceRequest,
    RebuildRequest,
    goal_of,
    parse_factor,
)
from kafkakit.topicmappr.decide.scope import TagConstraints, parse_broker_set, parse_topic_rules
from kafkakit.topicmappr.decide.storage import GIB
from tests.clusters.balance_strategies import EVERYBODY
from tests.clusters.shapes import SHAPES, make_snapshot
from tests.invariants.plan import verify_plan
from tests.invariants.soft_goals import choices_left_open, no_worse, same_price, weigh
from tests.invariants.storage_rebuild import verify_even_leaders, verify_storage_rebuild

Lists = list[list[int]]


def partition_change(index: int, copies: int, size: int | None, rank: int = 0) -> PartitionChange:
    return PartitionChange(index=index, key=TopicPartition("t", index), copies=copies, size_bytes=size, rank=rank)


def world(
    lists: Lists,
    sizes: list[int | None],
    *,
    dead: tuple[int, ...] = (),
    isr: Lists | None = None,
    racks: str = "aabbcc",
) -> ClusterSnapshot:
    brokers = tuple(
        Broker(id=b, rack=rack, state=BrokerState.MISSING if b in dead else BrokerState.ALIVE)
        for b, rack in enumerate(racks, 1)
    )
    partitions = tuple(
        Partition(partition=n, replicas=tuple(row), isr=tuple(isr[n] if isr else row), size_bytes=size)
        for n, (row, size) in enumerate(zip(lists, sizes, strict=True))
    )
    return make_snapshot(brokers, {"t": partitions}, sizes_taken=any(size is not None for size in sizes))


def moved(change: PlannedChange, snapshot: ClusterSnapshot) -> list[int]:
    """The partitions that the plan moves, checked."""
    verify_plan(json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot)))
    return [m.partition for m in change.plan.moves]


def drain(budget: PlanBudget = NO_BUDGET, pins: tuple[str, ...] = (), **words: str) -> DrainRequest:
    said = {"command": "topicmappr drain", "brokers": "1", **{k.replace("_", "-"): v for k, v in words.items()}}
    said |= {"pin": ",".join(pins)} if pins else {}
    return DrainRequest(leaving=BrokerList(ids=(1,)), topics=(".*",), budget=budget, pinned=pins, words=said)


def test_without_a_budget_everything_is_served() -> None:
    assert serve([partition_change(0, 3, None), partition_change(1, 1, 10)], NO_BUDGET) == BudgetSelection(
        indices=frozenset({0, 1})
    )


def test_ranks_come_first_then_bytes_with_unknown_ones_last_then_names() -> None:
    changes = [
        partition_change(0, 1, 5),
        partition_change(1, 1, None),
        partition_change(2, 1, 4),
        partition_change(3, 1, 4),
        partition_change(4, 1, 90, rank=-1),
    ]
    order = [min(serve(changes, PlanBudget(max_moves=n)).indices - serve(changes, PlanBudget(max_moves=n - 1)).indices)
             for n in range(1, 6)]  # fmt: skip
    assert order == [4, 2, 3, 0, 1]


def test_what_does_not_fit_is_passed_over_and_counted() -> None:
    served = serve(
        [
            partition_change(0, 2, 10, rank=-1),
            partition_change(1, 1, 8),
            partition_change(2, 0, None),
            partition_change(3, 1, 9),
        ],
        PlanBudget(max_moved_bytes=9),
    )
    assert served.indices == {1, 2}
    assert served.later == (TopicPartition("t", 0), TopicPartition("t", 3))
    assert served.left == LeftForLater(partitions=2, copies=3, bytes=29, beyond=1)


def test_both_limits_hold_at_once() -> None:
    changes = [partition_change(n, 1, 10) for n in range(5)]
    assert len(serve(changes, PlanBudget(max_moves=4, max_moved_bytes=25)).indices) == 2
    assert len(serve(changes, PlanBudget(max_moves=1, max_moved_bytes=25)).indices) == 1
    assert serve(changes, PlanBudget(max_moves=0)).left.beyond == 5


def test_bytes_left_are_unknown_when_one_is() -> None:
    assert serve([partition_change(0, 1, None), partition_change(1, 1, 7)], PlanBudget(max_moves=0)).left.bytes is None


def test_the_notes_say_what_is_left_and_how_to_go_on() -> None:
    budget = PlanBudget(max_moves=1, max_moved_bytes=2048)
    (note,) = budget_notes(budget, serve([partition_change(0, 1, 1024), partition_change(1, 1, 2048)], budget))
    assert note == (
        "--max-moves 1 and --max-moved-bytes 2 KiB leave 1 partition for later, 1 replica to copy (2 KiB); "
        "carry this plan out and give the same command again to continue"
    )
    first, second = budget_notes(budget, serve([partition_change(0, 1, 9999)], budget))
    assert "1 partition for later" in first
    assert second.startswith("1 of them costs more than the whole budget,")
    assert budget_notes(budget, serve([partition_change(0, 1, 1)], budget)) == ()


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="--max-moves: -1 is below 0"):
        PlanBudget(max_moves=-1)


def test_a_drain_serves_dead_brokers_first_then_the_smallest() -> None:
    snapshot = world([[1, 3], [1, 3, 5], [1, 4]], [1, 900, 20], dead=(1,), isr=[[3], [3], [4]])
    whole = decide_drain(snapshot, drain())
    assert moved(whole, snapshot) == [0, 1, 2]
    # All lost a copy; those with one live copy left come before the one whose third is out of sync but there.
    both = world([[1, 3, 5], [1, 3]], [1, 900], dead=(1,), isr=[[3, 5], [3]])
    assert moved(decide_drain(both, drain(PlanBudget(max_moves=1), max_moves="1")), both) == [1]
    alive = world([[1, 3], [1, 3], [1, 4]], [30, 10, 20])
    assert moved(decide_drain(alive, drain(PlanBudget(max_moves=2), max_moves="2")), alive) == [1, 2]
    assert moved(decide_drain(alive, drain(PlanBudget(max_moved_bytes=35), max_moved_bytes="35B")), alive) == [1, 2]


def test_a_mixed_drain_serves_the_dead_broker_first() -> None:
    snapshot = world([[1, 3], [2, 3]], [1, 900], dead=(2,), isr=[[1, 3], [3]])
    words = {"command": "topicmappr drain", "brokers": "1,2", "max-moves": "1"}
    request = DrainRequest(leaving=BrokerList(ids=(1, 2)), topics=(".*",), budget=PlanBudget(max_moves=1), words=words)
    assert moved(decide_drain(snapshot, request), snapshot) == [1]


def test_the_certificate_of_a_part_says_that_it_is_one() -> None:
    snapshot = world([[1, 3], [1, 3]], [1, 2])
    part = decide_drain(snapshot, drain(PlanBudget(max_moves=1), max_moves="1")).plan
    assert (part.certificate.objective, part.certificate.lower_bound) == (1, 1)
    assert part.certificate.argument.startswith("of what the budget takes, 1 replica must leave broker 1")
    assert part.certificate.argument.endswith("1 partition is left for later")
    assert part.rules is not None
    assert part.rules.later == (TopicPartition("t", 1),)
    none = decide_drain(snapshot, drain(PlanBudget(max_moves=0), max_moves="0")).plan
    assert none.certificate.argument == "the budget takes none of 2 partitions: nothing is copied"


def test_a_pinned_partition_stays_on_a_drained_broker_and_is_told() -> None:
    snapshot = world([[1, 3], [1, 3], [2, 4]], [1, 2, 3])
    change = decide_drain(snapshot, drain(pins=("t/1", "t/2")))
    assert moved(change, snapshot) == [0]
    assert change.plan.notes[0] == "1 pinned partition stays on 1, which will not be empty: t-1"
    every = decide_drain(snapshot, drain(pins=("t",)))
    assert moved(every, snapshot) == []
    assert every.plan.certificate.argument == "no replica except of pinned partitions has to leave these brokers"
    with pytest.raises(UsageError, match="--pin: there is no partition t/9"):
        decide_drain(snapshot, drain(pins=("t/9",)))


def test_bytes_need_sizes_of_what_is_copied_alone() -> None:
    budget = PlanBudget(max_moved_bytes=10)
    with pytest.raises(UsageError, match="--max-moved-bytes: the snapshot was taken without sizes, and t-0 need"):
        decide_drain(world([[1, 3], [2, 3]], [None, None]), drain(budget, max_moved_bytes="10B"))
    with pytest.raises(TryLaterError, match="--max-moved-bytes: no size is known for t-0"):
        decide_drain(world([[1, 3], [2, 3]], [None, 4]), drain(budget, max_moved_bytes="10B"))
    snapshot = world([[1, 3], [2, 3]], [4, None])
    assert moved(decide_drain(snapshot, drain(budget, max_moved_bytes="10B")), snapshot) == [0]


def test_fix_racks_mends_the_worst_set_first() -> None:
    snapshot = world([[1, 2, 3], [1, 2, 7], [1, 2, 7]], [1, 1, 900], racks="aabbcca")
    words = {"command": "topicmappr fix-racks", "max-moves": "2"}
    change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), budget=PlanBudget(max_moves=2), words=words))
    assert moved(change, snapshot) == [1]
    assert change.later == LeftForLater(partitions=2, copies=3, bytes=1801)
    pins = {"command": "topicmappr fix-racks", "pin": "t/1"}
    change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), pinned=("t/1",), words=pins))
    assert moved(change, snapshot) == [0, 2]
    assert "1 pinned partition breaks the rule and stay as they are: t-1" not in change.plan.notes
    assert "1 pinned partition breaks the rule and stays as it is: t-1" in change.plan.notes


def test_set_replication_serves_what_lacks_most_first_and_shrinks_for_nothing() -> None:
    snapshot = world([[1, 3], [1], [1, 3, 5, 2], [1, 3, 5]], [1, 900, 5, 5])
    words = {"command": "topicmappr set-replication", "replication": "3", "max-moves": "2"}
    request = ReplicationRequest(replication=3, topics=(".*",), budget=PlanBudget(max_moves=2), words=words)
    change = decide_set_replication(snapshot, request)
    assert moved(change, snapshot) == [1, 2]
    assert change.later == LeftForLater(partitions=1, copies=1, bytes=1)
    pinned = {"command": "topicmappr set-replication", "replication": "3", "pin": "t/0,t/2"}
    change = decide_set_replication(
        snapshot, ReplicationRequest(replication=3, topics=(".*",), pinned=("t/0", "t/2"), words=pinned)
    )
    assert moved(change, snapshot) == [1]
    assert "2 pinned partitions keep another factor: t-0, t-2" in change.plan.notes
    assert change.plan.certificate.argument.startswith("pinned partitions aside, ")


def test_copies_of_a_part_stay_even_with_what_is_left() -> None:
    snapshot = world([[6], [6], [1], [2], [3], [4]], [9, 1, 9, 9, 9, 9], racks="abcdef")
    words = {"command": "topicmappr set-replication", "replication": "2", "max-moves": "1"}
    request = ReplicationRequest(replication=2, topics=(".*",), budget=PlanBudget(max_moves=1), words=words)
    (move,) = decide_set_replication(snapshot, request).plan.moves
    assert move.partition == 1
    assert move.adding == (5,)  # the others hold copies of partitions that are left alone


def test_leaders_take_what_evens_most_and_finish_in_further_runs() -> None:
    lists = [[1, 3], [1, 3], [1, 3], [1, 4], [1, 4], [1, 5]]
    snapshot = world(lists, [1] * 6, racks="abcdef")
    words = {"command": "topicmappr leaders", "max-moves": "1"}
    request = LeadersRequest(
        topics=(".*",), brokers=BrokerList(ids=(1, 3, 4, 5)), budget=LeaderBudget(max_moves=1), words=words
    )
    change = decide_leaders(snapshot, request)
    assert len(moved(change, snapshot)) == 1
    assert change.later.partitions == 3
    assert (change.plan.certificate.objective, change.plan.certificate.lower_bound) == (1, 1)
    assert change.plan.certificate.argument.startswith("even leaders are at least 4 changes away: broker 1 leads 4")


def test_pinned_leaders_count_where_leaders_come_out_even() -> None:
    snapshot = world([[1, 2], [1, 2], [1, 2], [1, 2]], [1] * 4, racks="ab")
    words = {"command": "topicmappr leaders", "pin": "t/0,t/1"}
    change = decide_leaders(snapshot, LeadersRequest(topics=(".*",), pinned=("t/0", "t/1"), words=words))
    assert moved(change, snapshot) == [2, 3]
    away = {"command": "topicmappr leaders", "pin": "t/0", "leader-evac-brokers": "1"}
    change = decide_leaders(
        snapshot,
        LeadersRequest(topics=(".*",), pinned=("t/0",), evacuated=BrokerList(ids=(1,)), words=away),
    )
    assert moved(change, snapshot) == [1, 2, 3]
    assert change.plan.notes == ("1 pinned partition keeps a leader that must not lead: t-0",)


def test_leaderships_that_must_go_pass_on_first_then_the_greatest_difference() -> None:
    passings = [
        LeadershipPass(0, 1, 2),
        LeadershipPass(1, 1, 3),
        LeadershipPass(2, -1, 1),
        LeadershipPass(3, 4, 3),
        LeadershipPass(4, 1, 3),
    ]
    led = {1: 9, 2: 5, 3: 1, 4: 8}
    assert first_passings(passings, led, 1) == {2}
    assert first_passings(passings, led, 2) == {2, 1}
    assert first_passings(passings, led, 3) == {2, 1, 4}
    assert first_passings(passings, led, 4) == {2, 1, 4, 3}
    assert first_passings(passings, led, 9) == {0, 1, 2, 3, 4}


def test_a_broker_that_got_leaderships_gives_earlier() -> None:
    passings = [
        LeadershipPass(0, 1, 2),
        LeadershipPass(1, 1, 2),
        LeadershipPass(2, 1, 2),
        LeadershipPass(3, 2, 3),
        LeadershipPass(4, 4, 3),
    ]
    led = {1: 10, 2: 5, 3: 5, 4: 7}
    assert first_passings(passings, led, 2) == {0, 1}
    assert first_passings(passings, led, 3) == {0, 1, 3}


def test_explain_says_what_waits() -> None:
    snapshot = world([[1, 3], [1, 3]], [1, 2])
    plan = decide_drain(snapshot, drain(PlanBudget(max_moves=1), max_moves="1")).plan
    found = explain(plan, TopicPartition("t", 1))
    assert found.whole == (
        "the budget of this plan did not cover it: the same command continues with it in another run",
    )
    assert {reason.kind for reason in found.others} == {"later"}


World = tuple[dict[int, tuple[str | None, int]], list[tuple[tuple[int, ...], int]]]
EXAMPLE: World = (
    {1001: ("a", 50), 1002: ("b", 100), 1003: ("c", 150), 1004: ("a", 200), 1005: ("b", 250)},
    [((1001, 1002), 10), ((1002, 1003), 20), ((1003, 1001), 5)],
)


def snapshot_of(world: World, **more: Any) -> ClusterSnapshot:
    """Brokers as (rack, GiB free), partitions of topic `a` as (replicas, GiB)."""
    brokers, rows = world
    partitions = tuple(Partition(partition=n, replicas=r, size_bytes=s * GIB) for n, (r, s) in enumerate(rows))
    return make_snapshot(
        (Broker(id=b, rack=r, storage_free_bytes=f * GIB) for b, (r, f) in brokers.items()), {"a": partitions}, **more
    )


def decide(world: World, brokers: str, **more: Any) -> Rebuild:
    """Decide, and check the plan."""
    words = {"command": "topicmappr rebuild", "placement": "storage"}
    words |= {name.replace("_", "-"): "true" if value is True else str(value) for name, value in more.items()}
    request = RebuildRequest(
        brokers=parse_broker_list(brokers), topics=("a",), placement=PlaceBy.STORAGE, words=words, **more
    )
    snapshot = snapshot_of(world)
    decided = decide_rebuild(snapshot, request)
    plan, seen = json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot))
    verify_plan(plan, seen, allow_unplaced=any(decided.unplaced))
    verify_storage_rebuild(plan, seen)
    return decided


def test_the_reference_example_ends_no_further_apart() -> None:
    decided = decide(
        EXAMPLE,
        "-1,1004,1005",
        force_rebuild=True,
        partition_size_factor=Fraction("1.5"),
        optimize=OptimizeFor.STORAGE,
        optimize_leadership=True,
    )
    assert decided.free is not None
    left, right = decided.free.summaries
    assert (left.range / GIB, right.range / GIB) == (100, 132.5)
    assert decided.plan.certificate.objective <= 65 * GIB  # kafka-kit copies 65 GiB
    assert decided.plan.warnings == ("broker free storage range increased",)


def test_only_copies_on_leaving_brokers_move_and_lists_keep_their_order() -> None:
    decided = decide(EXAMPLE, "1002,1003,1004,1005", optimize=OptimizeFor.STORAGE)
    assert decided.after == ((1004, 1002), (1002, 1003), (1003, 1005))
    assert decided.plan.certificate.gap == 0


def test_a_repeated_rack_reserves_too() -> None:
    world: World = ({1: ("a", 50), 2: ("b", 50), 3: ("b", 5), 4: ("c", 9)}, [((1, 4), 10), ((1, 2), 1)])
    # kafka-kit looks at free bytes of a first broker in a rack only, and would fill broker 3.
    decided = decide(world, "1,2,3", min_rack_ids=1)
    assert decided.after == ((1, 2), (1, 2))
    crowded = decide((world[0] | {2: ("b", 3)}, world[1]), "1,2,3", min_rack_ids=1)
    assert crowded.after == ((1,), (1, 2))
    assert crowded.unplaced == (1, 0)


def test_more_replicas_are_placed_by_free_bytes() -> None:
    decided = decide(EXAMPLE, "-2", replication=3)
    assert [len(row) for row in decided.after] == [3, 3, 3]
    assert decided.after[0][:2] == (1001, 1002)
    assert decided.plan.certificate.objective == 35 * GIB


def test_fewer_replicas_leave_the_fullest_brokers_but_never_the_leader() -> None:
    world: World = ({1: ("a", 5), 2: ("b", 9), 3: ("c", 100)}, [((1, 2, 3), 10), ((3, 1, 2), 10)])
    decided = decide(world, "1,2,3", replication=2)
    # Partition 0 may not leave broker 1, its leader, so 2 loses it; then broker 1 is the fullest.
    assert decided.after == ((1, 3), (3, 2))
    assert decided.free is not None
    assert {b: f // GIB for b, f in decided.free.after.items()} == {1: 15, 2: 19, 3: 100}


def test_the_only_copy_in_sync_stays() -> None:
    snapshot = snapshot_of(({1: ("a", 50), 2: ("b", 9), 3: ("c", 100)}, [((1, 2, 3), 10)]))
    rows = (replace(snapshot.topics[0].partitions[0], isr=(2,)),)
    snapshot = replace(snapshot, topics=(replace(snapshot.topics[0], partitions=rows),))
    request = RebuildRequest(
        brokers=parse_broker_list("1,2,3"), topics=("a",), placement=PlaceBy.STORAGE, replication=2, words={}
    )
    assert decide_rebuild(snapshot, request).after == ((1, 2),)


def test_what_has_no_room_is_named_with_how_much_is_short() -> None:
    decided = decide(EXAMPLE, "1002,1003,1004", partition_size_factor=Fraction(50))
    assert decided.unplaced == (1, 0, 1)
    assert any("500 GiB" in line and "300 GiB short" in line for line in decided.shortages)
    assert any("750 GiB (sizes x 50)" in line and "no placement fits" in line for line in decided.shortages)
    assert "a p0: No additional brokers that meet Constraints" in decided.plan.warnings


def test_what_racks_forbid_is_said_as_for_counts() -> None:
    world: World = ({1: ("a", 50), 2: ("b", 50), 3: ("a", 500)}, [((1, 2), 10)])
    decided = decide(world, "1,3")
    assert decided.unplaced == (1,)
    assert "racks" in decided.shortages[0]
    assert "GiB" not in decided.shortages[0]


def test_a_partition_on_leaving_brokers_without_any_room_keeps_its_list() -> None:
    decided = decide(({1: ("a", 50), 2: ("b", 5)}, [((1,), 10)]), "2")
    assert (decided.after, decided.plan.moves, decided.unplaced) == (((1,),), (), (1,))
    assert decided.plan.warnings == (
        "a p0: No additional brokers that meet Constraints",
        "a p0: no broker may take any of its replicas, left as it is",
    )


def test_forced_sets_that_repeat_a_rack_are_spread() -> None:
    world: World = ({1: ("a", 50), 2: ("a", 40), 3: ("b", 60)}, [((1, 2), 10)])
    assert {len(set(row) & {1, 2}) for row in decide(world, "1,2,3", force_rebuild=True).after} == {1}


def test_a_leader_that_stays_keeps_leading_unless_all_lists_are_made_anew() -> None:
    current = [(1, 2), (1, 2), (1, 2), (9, 1)]
    lists = [(1, 2), (1, 2), (1, 3), (1, 3)]
    assert lead_evenly(current, lists, (1, 2, 3), forced=False) == [(1, 2), (1, 2), (1, 3), (3, 1)]
    forced = lead_evenly(current, lists, (1, 2, 3), forced=True)
    assert [set(row) for row in forced] == [set(row) for row in lists]
    assert sorted(row[0] for row in forced) in ([1, 1, 2, 3], [1, 2, 2, 3], [1, 2, 3, 3])


def test_a_list_that_stays_for_want_of_a_place_counts_its_leader() -> None:
    current = [(1, 2), (1, 2), (1, 3), (1, 3)]
    assert lead_evenly(current, [(), (1, 2), (1, 3), ()], (1, 2, 3), forced=True) == [(), (2, 1), (3, 1), ()]


@pytest.mark.parametrize(("placement", "forced"), [("count", True), ("storage", True), ("count", False)])
def test_leaders_are_even_beside_partitions_that_find_no_place(placement: str, forced: bool) -> None:
    racks = {b: "abc"[b % 3] for b in range(1, 10)}
    rows = [(b, b % 9 + 1, (b + 1) % 9 + 1) for b in (1, 1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9) * 5]
    topics: dict[str, list[tuple[int, ...]]] = {"a": [*rows], "z": [(9,)] * 12}
    snapshot = replace(
        snapshot_of(({**{b: (r, 500) for b, r in racks.items()}, 10: ("a", 0)}, [])),
        topics=tuple(
            Topic(
                name=t, partitions=tuple(Partition(partition=n, replicas=r, size_bytes=9) for n, r in enumerate(all_))
            )
            for t, all_ in topics.items()
        ),
    )
    words = {"command": "topicmappr rebuild", "placement": placement, "broker-set": "z: 10"}
    request = RebuildRequest(
        brokers=parse_broker_list("1,2,3,4,5,6,7,8,9"),
        topics=(".*",),
        force_rebuild=forced,
        placement=PlaceBy(placement),
        optimize_leadership=not forced,
        constraints=TagConstraints(sets=(parse_broker_set("z: 10"),)),
        words={**words, **({"force-rebuild": "true"} if forced else {"optimize-leadership": "true"})},
    )
    decided = decide_rebuild(snapshot, request)
    plan = json.loads(encode_plan(decided.plan))
    verify_plan(plan, json.loads(encode_snapshot(snapshot)), allow_unplaced=True)
    verify_even_leaders(plan)
    assert sum(decided.unplaced) == 12
    assert (decided.plan.after.leaders_max, decided.plan.after.leaders_min) == (12, 8)
    if forced:  # leaders are even in any case: chosen again they could only change an order back
        assert decide_rebuild(snapshot, replace(request, optimize_leadership=True)).after == decided.after


def test_new_brokers_take_the_places_of_those_that_leave() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "b", 5: "c"}
    assert fill_row((1, 2, -1), (1, 4, 5), racks) == (1, 4, 5)
    assert fill_row((-1, 2, 3), (2, 3), racks) == (2, 3)
    assert fill_row((1, 2, 3), (3, 5, 4), racks) == (5, 4, 3)


def test_cordoned_and_small_dirs_take_nothing() -> None:
    snapshot = snapshot_of(EXAMPLE)
    dirs = (LogDir(path="/d", total_bytes=900 * GIB, usable_bytes=800 * GIB, cordoned=True),)
    brokers = tuple(replace(b, storage_free_bytes=None, log_dirs=dirs) if b.id == 1005 else b for b in snapshot.brokers)
    request = RebuildRequest(
        brokers=parse_broker_list("1002,1003,1004,1005"), topics=("a",), placement=PlaceBy.STORAGE, words={}
    )
    decided = decide_rebuild(replace(snapshot, brokers=brokers), request)
    assert not any(1005 in row for row in decided.after)
    assert any("cordoned" in warning for warning in decided.plan.warnings)


def test_unknown_sizes_stop_the_plan() -> None:
    snapshot = snapshot_of(EXAMPLE)
    request = RebuildRequest(brokers=parse_broker_list("-1"), topics=("a",), placement=PlaceBy.STORAGE, words={})
    bare = replace(snapshot.topics[0], partitions=(Partition(partition=0, replicas=(1001,)),))
    with pytest.raises(TryLaterError, match="no size is known for a-0"):
        decide_rebuild(replace(snapshot, topics=(bare,)), request)
    with pytest.raises(UsageError, match="taken without sizes"):
        decide_rebuild(replace(snapshot, topics=(bare,), sizes_taken=False), request)
    elsewhere = PartitionMap(partitions=(PartitionAssignment(topic="x", partition=7, replicas=(1001,)),))
    with pytest.raises(UsageError, match="there is no x-7"):
        decide_rebuild(snapshot, replace(request, topics=(), map=elsewhere))


def test_flags_that_do_not_go_together() -> None:
    def request(**more: Any) -> RebuildRequest:
        return RebuildRequest(brokers=parse_broker_list("1"), topics=("a",), words={}, **more)

    with pytest.raises(UsageError, match="--placement=storage requires --use-meta=true"):
        request(placement=PlaceBy.STORAGE, use_meta=False)
    for factor in (0, -1, 1001):
        with pytest.raises(UsageError, match="--partition-size-factor"):
            request(partition_size_factor=Fraction(factor))
    for value in (float("nan"), float("inf")):
        with pytest.raises(UsageError, match="not a number"):
            parse_factor(value)
    assert parse_factor(1.1) == Fraction(11, 10)


def test_flags_of_the_other_placement_are_noted() -> None:
    request = RebuildRequest(brokers=parse_broker_list("-1"), topics=("a",), optimize=OptimizeFor.STORAGE, words={})
    assert any("--optimize" in note for note in decide_rebuild(snapshot_of(EXAMPLE), request).plan.notes)
    assert any("--sub-affinity" in note for note in decide(EXAMPLE, "-1", sub_affinity=True).plan.notes)


def test_the_same_request_gives_the_same_plan() -> None:
    plans = {
        encode_plan(decide((dict(sorted(EXAMPLE[0].items(), reverse=turn)), EXAMPLE[1]), "-2", replication=3).plan)
        for turn in (False, True)
    }
    assert len(plans) == 1


def test_partitions_without_a_live_copy_stay_and_are_warned_of() -> None:
    snapshot = snapshot_of(EXAMPLE)
    rows = (replace(snapshot.topics[0].partitions[0], isr=(7,)), *snapshot.topics[0].partitions[1:])
    snapshot = replace(snapshot, topics=(replace(snapshot.topics[0], partitions=rows),))
    request = RebuildRequest(
        brokers=parse_broker_list("1002,1003,1004,1005"), topics=("a",), placement=PlaceBy.STORAGE, words={}
    )
    decided = decide_rebuild(snapshot, request)
    assert decided.after[0] == PlannedPartition(decided.scope.partitions[0].key, (1001, 1002), 2).current
    assert any("no live copy in sync" in warning for warning in decided.plan.warnings)


Rows = Mapping[str, Sequence[tuple[int, tuple[int, ...]]]]


def snapshot_of_soft_goals(topics: Rows, free: Mapping[int, int]) -> ClusterSnapshot:
    """Partitions as (GiB, replicas) by topic, and free GiB by broker."""
    return make_snapshot(
        (Broker(id=b, storage_free_bytes=n * GIB_OF_REQUESTS) for b, n in sorted(free.items())),
        {
            name: [
                Partition(partition=n, replicas=row, isr=row, size_bytes=size * GIB_OF_REQUESTS)
                for n, (size, row) in enumerate(rows)
            ]
            for name, rows in sorted(topics.items())
        },
    )


def decide_soft_goals(snapshot: ClusterSnapshot, goal: LoadGoal, **how: Any) -> Rebalance:
    """A plan that passes the independent checker."""
    words = {"command": "topicmappr rebalance"}
    words |= {"optimize-leadership": "true"} if how.get("optimize_leadership") else {}
    request = RebalanceRequest(brokers=EVERYBODY, topics=(".*",), goal=goal, words=words, **how)
    decided = decide_rebalance(snapshot, request)
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return decided


def as_found(snapshot: ClusterSnapshot, goal: LoadGoal, **how: Any) -> Rebalance:
    """The plan without its free choices made."""
    with choices_left_open():
        return decide_soft_goals(snapshot, goal, **how)


def counts(decided: Rebalance) -> list[int]:
    return sorted(load.replicas for load in decided.plan.after.brokers)


def leaders(decided: Rebalance) -> list[int]:
    return sorted(load.leaders for load in decided.plan.after.brokers)


def test_counts_get_more_even_for_free() -> None:
    """A range of 20 GiB costs two copies wherever they go; both to one broker would do."""
    snapshot = snapshot_of_soft_goals(
        {"a": [(10, (1,))] * 4, "b": [(10, (1,))] * 4, "c": [(80, (4,))]}, {1: 60, 2: 100, 3: 100, 4: 100}
    )
    goal = LoadGoal(free_range_bytes=20 * GIB_OF_REQUESTS)
    plain, decided = as_found(snapshot, goal), decide_soft_goals(snapshot, goal)
    no_worse(plain, decided)
    assert (counts(plain), counts(decided)) == ([0, 0, 3, 6], [1, 1, 1, 6])
    assert "replicas per receiving broker 0 to 6 -> 1 to 6" in decided.plan.notes[-1]


def test_topics_are_spread_for_free() -> None:
    snapshot = snapshot_of_soft_goals(
        {"a": [(10, (1,))] * 2, "b": [(10, (1,))] * 2, "c": [(10, (1,))]}, {1: 20, 2: 80, 3: 80}
    )
    goal = LoadGoal(free_range_bytes=20 * GIB_OF_REQUESTS)
    plain, decided = as_found(snapshot, goal), decide_soft_goals(snapshot, goal)
    no_worse(plain, decided)
    assert counts(plain) == counts(decided)
    assert weigh(decided).topics < weigh(plain).topics
    assert any("pairs of replicas of one topic on one broker 2 -> 1" in note for note in decided.plan.notes)


def test_who_stays_leads_where_the_leader_leaves_and_others_lead_enough() -> None:
    """Broker 1 loses the lead of four partitions; broker 4, which follows in all, gets some of them."""
    snapshot = snapshot_of_soft_goals(
        {"a": [(10, (1, 4))] * 4, "b": [(10, (1, 4))] * 4}, {1: 20, 2: 100, 3: 100, 4: 60}
    )
    goal = LoadGoal(free_range_bytes=20 * GIB_OF_REQUESTS)
    plain, decided = as_found(snapshot, goal), decide_soft_goals(snapshot, goal)
    no_worse(plain, decided)
    assert (leaders(plain), leaders(decided)) == ([0, 2, 2, 4], [1, 1, 2, 4])
    for old, new in zip(decided.before, decided.after, strict=True):
        assert old[0] == new[0] or old[0] not in new, "a leader that stays keeps leading"
    assert all(set(m.before) != set(m.after) for m in decided.plan.moves), "a list changes for its leader alone"


def test_all_leaders_are_as_even_as_without_free_choices_where_that_is_asked_for() -> None:
    snapshot = SHAPES["plain"](1)
    goal = LoadGoal(band=Fraction(5, 100))
    plain, decided = (how(snapshot, goal, optimize_leadership=True) for how in (as_found, decide_soft_goals))
    same_price(plain, decided)
    assert weigh(decided).counts < weigh(plain).counts
    assert max(leaders(decided)) - min(leaders(decided)) <= max(1, max(leaders(plain)) - min(leaders(plain)))


@pytest.mark.parametrize(
    "shape", ["broken_sets", "equal_sizes", "four_copies", "half_rackless", "plain", "unlike_disks"]
)
def test_larger_plans_get_no_worse(shape: str) -> None:
    snapshot = SHAPES[shape](1)
    free = [b.storage_free_bytes or 0 for b in snapshot.brokers]
    how = {"min_rack_ids": 2 if shape == "four_copies" else 0}
    for goal in (LoadGoal(band=Fraction(1, 2)), LoadGoal(free_range_bytes=(max(free) - min(free)) // 2)):
        plain, decided = as_found(snapshot, goal, **how), decide_soft_goals(snapshot, goal, **how)
        no_worse(plain, decided)
        if plain.plan.moves and shape == "plain":
            before, after = weigh(plain), weigh(decided)
            assert after.counts < before.counts
            assert after.leaders < before.leaders
            assert after.topics < before.topics


def test_count_limits_and_budgets_hold() -> None:
    snapshot = SHAPES["plain"](2)
    goal = LoadGoal(band=Fraction(20, 100), count_band=Fraction(10, 100))
    plain, decided = as_found(snapshot, goal), decide_soft_goals(snapshot, goal)
    no_worse(plain, decided)
    share = sum(counts(decided)) / len(counts(decided))
    assert all(share * 0.9 - 1 <= n <= share * 1.1 + 1 for n in counts(decided))
    assert weigh(decided).soft < weigh(plain).soft
    goal = LoadGoal(max_moves=20)
    plain, decided = as_found(snapshot, goal), decide_soft_goals(snapshot, goal)
    no_worse(plain, decided)
    assert 0 < sum(copies for copies, _ in weigh(decided).moved.values()) <= 20


def test_the_fewest_copies_stay_the_fewest() -> None:
    snapshot = SHAPES["plain"](2)
    plain, decided = (
        how(snapshot, LoadGoal(band=Fraction(1, 5)), minimize=Minimize.MOVES) for how in (as_found, decide_soft_goals)
    )
    no_worse(plain, decided)
    assert weigh(decided).soft < weigh(plain).soft


def test_a_plan_stays_as_found_where_log_dirs_have_room_for_no_other() -> None:
    """Broker 3 has room for both copies together, but in no single dir for either."""
    plain = snapshot_of_soft_goals(
        {"a": [(10, (1,))] * 4, "b": [(10, (1,))] * 4, "c": [(80, (4,))]}, {1: 60, 2: 100, 3: 100, 4: 100}
    )
    usable = [9] * 11 + [1]
    dirs = tuple(
        LogDir(path=f"/d{n}", total_bytes=200 * GIB_OF_REQUESTS, usable_bytes=u * GIB_OF_REQUESTS)
        for n, u in enumerate(usable)
    )
    split = replace(plain.brokers[2], storage_free_bytes=None, log_dirs=dirs)
    snapshot = replace(plain, brokers=tuple(split if b.id == 3 else b for b in plain.brokers))
    goal = LoadGoal(free_range_bytes=20 * GIB_OF_REQUESTS)
    found, decided = (how(snapshot, goal, max_disk_use=Fraction(1)) for how in (as_found, decide_soft_goals))
    assert decided.after == found.after
    assert not decided.plan.warnings


MIB = 1 << 20


def cluster(racks: dict[str, int], sizes: Sequence[int] = (MIB,) * 60) -> ClusterSnapshot:
    """So many brokers in each of three racks; partitions of these sizes, one copy in each rack, dealt out in turn."""
    ids = {rack: [100 * n + i for i in range(count)] for n, (rack, count) in enumerate(sorted(racks.items()), 1)}
    disks = LogDir(path="/d", total_bytes=1000 * MIB, usable_bytes=900 * MIB)
    partitions = tuple(
        Partition(partition=p, replicas=row, replica_bytes=dict.fromkeys(row, size))
        for p, size in enumerate(sizes)
        for row in [tuple(ids[r][p % len(ids[r])] for r in sorted(ids))]
    )
    return make_snapshot(
        (Broker(id=b, rack=r, log_dirs=(disks,)) for r in sorted(ids) for b in ids[r]), {"t": partitions}
    )


def plan(snapshot: ClusterSnapshot, band: str, count_band: str = "") -> None:
    request = RebalanceRequest(
        brokers=BrokerList(ids=tuple(b.id for b in snapshot.brokers)),
        topics=("t",),
        goal=LoadGoal(
            band=parse_percent(band, "--band"),
            count_band=parse_percent(count_band, "--count-band") if count_band else None,
        ),
        words={},
    )
    decide_rebalance(snapshot, request)


def test_the_number_of_brokers_that_would_do_is_named_and_is_the_least() -> None:
    with pytest.raises(InfeasibleError) as refused:
        plan(cluster({"a": 4, "b": 4, "c": 2}), "10%")
    assert refused.value.hint is not None
    assert "or 2 more brokers like these in rack c" in refused.value.hint
    with pytest.raises(InfeasibleError):
        plan(cluster({"a": 4, "b": 4, "c": 3}), "10%")
    plan(cluster({"a": 4, "b": 4, "c": 4}), "10%")


def test_brokers_are_named_only_where_the_counts_come_within_their_band_too() -> None:
    """One partition weighs as much as 15 others: brokers with as many bytes hold 1 partition or 15."""
    few, sizes = {"a": 4, "b": 4, "c": 2}, [15 * MIB, *[MIB] * 45]
    for count_band, named in (("", True), ("100%", True), ("10%", False)):
        with pytest.raises(InfeasibleError) as refused:
            plan(cluster(few, sizes), "10%", count_band)
        assert refused.value.hint is not None
        assert ("more brokers like these in rack c" in refused.value.hint) == named
    with pytest.raises(InfeasibleError):
        plan(cluster({"a": 4, "b": 4, "c": 4}, sizes), "10%", "10%")


def test_a_point_of_a_frontier_that_no_plan_reaches_within_the_ceilings_has_no_cost() -> None:
    """Brokers of equal bytes hold 15 partitions or 1, and none may hold more than 13."""
    snapshot = cluster({"a": 4, "b": 4, "c": 4}, [15 * MIB, *[MIB] * 45])
    base = FrontierBase(
        brokers=BrokerList(ids=tuple(b.id for b in snapshot.brokers)),
        topics=("t",),
        goal=goal_of(Metric.BAND),
        ceilings=Ceilings(max_replicas=13),
        words={},
    )
    bands = (Fraction(1), Fraction(1, 100))
    found = decide_frontier(snapshot, FrontierRequest(base=base, metric=Metric.BAND, bands=bands))
    assert [point.cost is not None for point in found.points] == [True, False]
    free = decide_frontier(
        snapshot, FrontierRequest(base=replace(base, ceilings=NO_CEILINGS), metric=Metric.BAND, bands=bands)
    )
    assert all(point.cost is not None for point in free.points)


@pytest.mark.parametrize("option", ["--broker-set", "--anti-affinity"])
@pytest.mark.parametrize("command", ["drain", "rebuild"])
def test_a_refusal_for_want_of_space_names_the_rule_that_closed_a_broker(option: str, command: str) -> None:
    world: World = ({1: ("a", 500), 2: ("b", 10), 3: ("c", 300)}, [((1,), 50)])
    sets = (parse_broker_set("other: 3"),) if option == "--broker-set" else ()
    rules = () if sets else parse_topic_rules("topics where name = a: brokers where id = 3", option)
    asked = TagConstraints(sets=sets, affinity=rules)
    if command == "drain":
        request = DrainRequest(
            leaving=parse_broker_list("1"), topics=("a",), placement=PlaceBy.STORAGE, constraints=asked, words={}
        )
        told = " ".join(decide_drain(snapshot_of(world), request).reasons)
    else:
        told = " ".join(decide(world, "2,3", constraints=asked).shortages)
    assert "leaves 1 of 2" in told
    assert "broker 2 has the most free space, 10 GiB, 40 GiB short" in told
    assert "racks" not in told


@pytest.mark.parametrize("small", [True, False])
def test_a_partition_that_racks_leave_no_place_keeps_no_other_from_being_levelled(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr(rebuild_bytes, "is_small", lambda task: False)
    brokers: dict[int, tuple[str | None, int]] = {1: ("a", 100), 2: ("b", 100), 3: ("a", 500), 4: ("b", 500)}
    rows: list[tuple[tuple[int, ...], int]] = [((1, 2, 3), 10), *[((1, 2), 40)] * 10]
    decided = decide((brokers, rows), "1,2,3,4", force_rebuild=True)
    assert (decided.unplaced[0], any(decided.unplaced[1:]), len(decided.after[0])) == (1, False, 2)
    assert decided.free is not None
    assert max(decided.free.after.values()) - min(decided.free.after.values()) <= 40 * GIB
    certificate = decided.plan.certificate
    assert certificate.lower_bound <= certificate.objective == 400 * GIB
    assert "nothing has to be copied" not in certificate.argument
