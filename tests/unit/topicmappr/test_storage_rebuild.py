"""The parts of a rebuild by storage: openings, trimming, reservations, leaders, and words for what does not fit."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, PartitionAssignment, PartitionMap, Topic
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.problem import OptimizeFor, PlaceBy, PlannedPartition
from kafkakit.placement.rebuild_task import filled
from kafkakit.topicmappr.decide.rebuild import Rebuild, decide_rebuild
from kafkakit.topicmappr.decide.rebuild_bytes import lead_evenly
from kafkakit.topicmappr.decide.requests import RebuildRequest, parse_factor
from kafkakit.topicmappr.decide.storage import GIB
from tests.invariants.plan import verify_plan
from tests.invariants.storage_rebuild import verify_storage_rebuild

World = tuple[dict[int, tuple[str | None, int]], list[tuple[tuple[int, ...], int]]]
EXAMPLE: World = (
    {1001: ("a", 50), 1002: ("b", 100), 1003: ("c", 150), 1004: ("a", 200), 1005: ("b", 250)},
    [((1001, 1002), 10), ((1002, 1003), 20), ((1003, 1001), 5)],
)


def snapshot_of(world: World, **more: Any) -> ClusterSnapshot:
    """Brokers as (rack, GiB free), partitions of topic `a` as (replicas, GiB)."""
    brokers, rows = world
    partitions = tuple(Partition(partition=n, replicas=r, size_bytes=s * GIB) for n, (r, s) in enumerate(rows))
    return ClusterSnapshot(
        cluster_id="c",
        taken_at=datetime(2026, 11, 21, tzinfo=UTC),
        source="test",
        brokers=tuple(Broker(id=b, rack=r, storage_free_bytes=f * GIB) for b, (r, f) in brokers.items()),
        topics=(Topic(name="a", partitions=partitions),),
        **({"sizes_taken": True} | more),
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


def test_a_partition_on_leaving_brokers_without_any_room_is_configured_to_zero() -> None:
    decided = decide(({1: ("a", 50), 2: ("b", 5)}, [((1,), 10)]), "2")
    assert decided.plan.warnings == (
        "a p0: No additional brokers that meet Constraints",
        "a p0: configured to zero replicas",
    )


def test_forced_sets_that_repeat_a_rack_are_spread() -> None:
    world: World = ({1: ("a", 50), 2: ("a", 40), 3: ("b", 60)}, [((1, 2), 10)])
    assert {len(set(row) & {1, 2}) for row in decide(world, "1,2,3", force_rebuild=True).after} == {1}


def test_leaders_are_chosen_among_changed_partitions_only() -> None:
    current = [(1, 2), (1, 2), (1, 2), (9, 1)]
    lists = [(1, 2), (1, 2), (1, 3), (1, 3)]
    assert lead_evenly(current, lists, (1, 2, 3), forced=False) == [(1, 2), (1, 2), (1, 3), (3, 1)]
    assert lead_evenly(current, lists, (1, 2, 3), forced=True) == [(1, 2), (1, 2), (3, 1), (3, 1)]


def test_new_brokers_take_the_places_of_those_that_leave() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "b", 5: "c"}
    assert filled((1, 2, -1), (1, 4, 5), racks) == (1, 4, 5)
    assert filled((-1, 2, 3), (2, 3), racks) == (2, 3)
    assert filled((1, 2, 3), (3, 5, 4), racks) == (5, 4, 3)


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
