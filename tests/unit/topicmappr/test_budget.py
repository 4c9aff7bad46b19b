"""Who is served first under a budget, what is left, and what is said of it."""

import json
from datetime import UTC, datetime

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.drain import DrainRequest, decide_drain
from kafkakit.topicmappr.decide.explain import explain
from kafkakit.topicmappr.decide.fix_racks import FixRacksRequest, decide_fix_racks
from kafkakit.topicmappr.decide.leaders import LeadersRequest, Passing, decide_leaders, first_passings
from kafkakit.topicmappr.decide.rebuild import ReplicationRequest, decide_set_replication
from kafkakit.topicmappr.decide.requests import (
    NO_BUDGET,
    Budget,
    LeftForLater,
    PartitionChange,
    Served,
    budget_notes,
    serve,
)
from tests.invariants.plan import verify_plan

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
    return ClusterSnapshot(
        cluster_id="c1",
        taken_at=datetime(2026, 11, 21, tzinfo=UTC),
        source="test",
        brokers=brokers,
        topics=(Topic(name="t", partitions=partitions),),
        sizes_taken=any(size is not None for size in sizes),
    )


def moved(change: PlannedChange, snapshot: ClusterSnapshot) -> list[int]:
    """The partitions that the plan moves, checked."""
    verify_plan(json.loads(encode_plan(change.plan)), json.loads(encode_snapshot(snapshot)))
    return [m.partition for m in change.plan.moves]


def drain(budget: Budget = NO_BUDGET, pins: tuple[str, ...] = (), **words: str) -> DrainRequest:
    said = {"command": "topicmappr drain", "brokers": "1", **{k.replace("_", "-"): v for k, v in words.items()}}
    said |= {"pin": ",".join(pins)} if pins else {}
    return DrainRequest(leaving=BrokerList(ids=(1,)), topics=(".*",), budget=budget, pinned=pins, words=said)


def test_without_a_budget_everything_is_served() -> None:
    assert serve([partition_change(0, 3, None), partition_change(1, 1, 10)], NO_BUDGET) == Served(
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
    order = [min(serve(changes, Budget(max_moves=n)).indices - serve(changes, Budget(max_moves=n - 1)).indices)
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
        Budget(max_moved_bytes=9),
    )
    assert served.indices == {1, 2}
    assert served.later == (TopicPartition("t", 0), TopicPartition("t", 3))
    assert served.left == LeftForLater(partitions=2, copies=3, bytes=29, beyond=1)


def test_both_limits_hold_at_once() -> None:
    changes = [partition_change(n, 1, 10) for n in range(5)]
    assert len(serve(changes, Budget(max_moves=4, max_moved_bytes=25)).indices) == 2
    assert len(serve(changes, Budget(max_moves=1, max_moved_bytes=25)).indices) == 1
    assert serve(changes, Budget(max_moves=0)).left.beyond == 5


def test_bytes_left_are_unknown_when_one_is() -> None:
    assert serve([partition_change(0, 1, None), partition_change(1, 1, 7)], Budget(max_moves=0)).left.bytes is None


def test_the_notes_say_what_is_left_and_how_to_go_on() -> None:
    budget = Budget(max_moves=1, max_moved_bytes=2048)
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
        Budget(max_moves=-1)


def test_a_drain_serves_dead_brokers_first_then_the_smallest() -> None:
    snapshot = world([[1, 3], [1, 3, 5], [1, 4]], [1, 900, 20], dead=(1,), isr=[[3], [3], [4]])
    whole = decide_drain(snapshot, drain())
    assert moved(whole, snapshot) == [0, 1, 2]
    # All lost a copy; those with one live copy left come before the one whose third is out of sync but there.
    both = world([[1, 3, 5], [1, 3]], [1, 900], dead=(1,), isr=[[3, 5], [3]])
    assert moved(decide_drain(both, drain(Budget(max_moves=1), max_moves="1")), both) == [1]
    alive = world([[1, 3], [1, 3], [1, 4]], [30, 10, 20])
    assert moved(decide_drain(alive, drain(Budget(max_moves=2), max_moves="2")), alive) == [1, 2]
    assert moved(decide_drain(alive, drain(Budget(max_moved_bytes=35), max_moved_bytes="35B")), alive) == [1, 2]


def test_a_mixed_drain_serves_the_dead_broker_first() -> None:
    snapshot = world([[1, 3], [2, 3]], [1, 900], dead=(2,), isr=[[1, 3], [3]])
    words = {"command": "topicmappr drain", "brokers": "1,2", "max-moves": "1"}
    request = DrainRequest(leaving=BrokerList(ids=(1, 2)), topics=(".*",), budget=Budget(max_moves=1), words=words)
    assert moved(decide_drain(snapshot, request), snapshot) == [1]


def test_the_certificate_of_a_part_says_that_it_is_one() -> None:
    snapshot = world([[1, 3], [1, 3]], [1, 2])
    part = decide_drain(snapshot, drain(Budget(max_moves=1), max_moves="1")).plan
    assert (part.certificate.objective, part.certificate.lower_bound) == (1, 1)
    assert part.certificate.argument.startswith("of what the budget takes, 1 replica must leave broker 1")
    assert part.certificate.argument.endswith("1 partition is left for later")
    assert part.rules is not None
    assert part.rules.later == (TopicPartition("t", 1),)
    none = decide_drain(snapshot, drain(Budget(max_moves=0), max_moves="0")).plan
    assert none.certificate.argument == "the budget takes none of 2 partitions: nothing is copied"


def test_a_pinned_partition_stays_on_a_drained_broker_and_is_told() -> None:
    snapshot = world([[1, 3], [1, 3], [2, 4]], [1, 2, 3])
    change = decide_drain(snapshot, drain(pins=("t/1", "t/2")))
    assert moved(change, snapshot) == [0]
    assert change.plan.notes[0] == "1 pinned partition stays on 1, which will not be empty: t-1"
    every = decide_drain(snapshot, drain(pins=("t",)))
    assert moved(every, snapshot) == []
    assert every.plan.certificate.argument == "no replica but those of pinned partitions has to leave these brokers"
    with pytest.raises(UsageError, match="--pin: there is no partition t/9"):
        decide_drain(snapshot, drain(pins=("t/9",)))


def test_bytes_need_sizes_of_what_is_copied_alone() -> None:
    budget = Budget(max_moved_bytes=10)
    with pytest.raises(UsageError, match="--max-moved-bytes: the snapshot was taken without sizes, and t-0 need"):
        decide_drain(world([[1, 3], [2, 3]], [None, None]), drain(budget, max_moved_bytes="10B"))
    with pytest.raises(TryLaterError, match="--max-moved-bytes: no size is known for t-0"):
        decide_drain(world([[1, 3], [2, 3]], [None, 4]), drain(budget, max_moved_bytes="10B"))
    snapshot = world([[1, 3], [2, 3]], [4, None])
    assert moved(decide_drain(snapshot, drain(budget, max_moved_bytes="10B")), snapshot) == [0]


def test_fix_racks_mends_the_worst_set_first() -> None:
    snapshot = world([[1, 2, 3], [1, 2, 7], [1, 2, 7]], [1, 1, 900], racks="aabbcca")
    words = {"command": "topicmappr fix-racks", "max-moves": "2"}
    change = decide_fix_racks(snapshot, FixRacksRequest(topics=(".*",), budget=Budget(max_moves=2), words=words))
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
    request = ReplicationRequest(replication=3, topics=(".*",), budget=Budget(max_moves=2), words=words)
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
    request = ReplicationRequest(replication=2, topics=(".*",), budget=Budget(max_moves=1), words=words)
    (move,) = decide_set_replication(snapshot, request).plan.moves
    assert move.partition == 1
    assert move.adding == (5,)  # the others hold copies of partitions that are left alone


def test_leaders_take_what_evens_most_and_finish_in_further_runs() -> None:
    lists = [[1, 3], [1, 3], [1, 3], [1, 4], [1, 4], [1, 5]]
    snapshot = world(lists, [1] * 6, racks="abcdef")
    words = {"command": "topicmappr leaders", "max-moves": "1"}
    request = LeadersRequest(
        topics=(".*",), brokers=BrokerList(ids=(1, 3, 4, 5)), budget=Budget(max_moves=1), words=words
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
    passings = [Passing(0, 1, 2), Passing(1, 1, 3), Passing(2, -1, 1), Passing(3, 4, 3), Passing(4, 1, 3)]
    led = {1: 9, 2: 5, 3: 1, 4: 8}
    assert first_passings(passings, led, 1) == {2}
    assert first_passings(passings, led, 2) == {2, 1}
    assert first_passings(passings, led, 3) == {2, 1, 4}
    assert first_passings(passings, led, 4) == {2, 1, 4, 3}
    assert first_passings(passings, led, 9) == {0, 1, 2, 3, 4}


def test_a_broker_that_got_leaderships_gives_earlier() -> None:
    passings = [Passing(0, 1, 2), Passing(1, 1, 2), Passing(2, 1, 2), Passing(3, 2, 3), Passing(4, 4, 3)]
    led = {1: 10, 2: 5, 3: 5, 4: 7}
    assert first_passings(passings, led, 2) == {0, 1}
    assert first_passings(passings, led, 3) == {0, 1, 3}


def test_explain_says_what_waits() -> None:
    snapshot = world([[1, 3], [1, 3]], [1, 2])
    plan = decide_drain(snapshot, drain(Budget(max_moves=1), max_moves="1")).plan
    found = explain(plan, TopicPartition("t", 1))
    assert found.whole == (
        "the budget of this plan did not cover it: the same command continues with it in another run",
    )
    assert {reason.kind for reason in found.others} == {"later"}
