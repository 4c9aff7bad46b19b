"""What a rebalance chooses where its bytes leave it free: counts, then leaders, then the spread of topics."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.requests import GIB, Goal, RebalanceRequest
from tests.clusters.balance_strategies import EVERYBODY
from tests.clusters.shapes import SHAPES
from tests.invariants.plan import verify_plan
from tests.invariants.soft_goals import choices_left_open, no_worse, same_price, weigh

Rows = Mapping[str, Sequence[tuple[int, tuple[int, ...]]]]


def snapshot_of(topics: Rows, free: Mapping[int, int]) -> ClusterSnapshot:
    """Partitions as (GiB, replicas) by topic, and free GiB by broker."""
    return ClusterSnapshot(
        cluster_id="c1",
        taken_at=datetime(2026, 11, 1, tzinfo=UTC),
        source="test",
        sizes_taken=True,
        brokers=tuple(Broker(id=b, storage_free_bytes=n * GIB) for b, n in sorted(free.items())),
        topics=tuple(
            Topic(
                name=name,
                partitions=tuple(
                    Partition(partition=n, replicas=row, isr=row, size_bytes=size * GIB)
                    for n, (size, row) in enumerate(rows)
                ),
            )
            for name, rows in sorted(topics.items())
        ),
    )


def decide(snapshot: ClusterSnapshot, goal: Goal, **how: Any) -> Rebalance:
    """A plan that passes the independent checker."""
    words = {"command": "topicmappr rebalance"}
    words |= {"optimize-leadership": "true"} if how.get("optimize_leadership") else {}
    request = RebalanceRequest(brokers=EVERYBODY, topics=(".*",), goal=goal, words=words, **how)
    decided = decide_rebalance(snapshot, request)
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return decided


def as_found(snapshot: ClusterSnapshot, goal: Goal, **how: Any) -> Rebalance:
    """The plan without its free choices made."""
    with choices_left_open():
        return decide(snapshot, goal, **how)


def counts(decided: Rebalance) -> list[int]:
    return sorted(load.replicas for load in decided.plan.after.brokers)


def leaders(decided: Rebalance) -> list[int]:
    return sorted(load.leaders for load in decided.plan.after.brokers)


def test_counts_get_more_even_for_free() -> None:
    """A range of 20 GiB costs two copies wherever they go; both to one broker would do."""
    snapshot = snapshot_of(
        {"a": [(10, (1,))] * 4, "b": [(10, (1,))] * 4, "c": [(80, (4,))]}, {1: 60, 2: 100, 3: 100, 4: 100}
    )
    goal = Goal(free_range_bytes=20 * GIB)
    plain, decided = as_found(snapshot, goal), decide(snapshot, goal)
    no_worse(plain, decided)
    assert (counts(plain), counts(decided)) == ([0, 0, 3, 6], [1, 1, 1, 6])
    assert "replicas per receiving broker 0 to 6 -> 1 to 6" in decided.plan.notes[-1]


def test_topics_are_spread_for_free() -> None:
    snapshot = snapshot_of({"a": [(10, (1,))] * 2, "b": [(10, (1,))] * 2, "c": [(10, (1,))]}, {1: 20, 2: 80, 3: 80})
    goal = Goal(free_range_bytes=20 * GIB)
    plain, decided = as_found(snapshot, goal), decide(snapshot, goal)
    no_worse(plain, decided)
    assert counts(plain) == counts(decided)
    assert weigh(decided).topics < weigh(plain).topics
    assert any("pairs of replicas of one topic on one broker 2 -> 1" in note for note in decided.plan.notes)


def test_who_stays_leads_where_the_leader_leaves_and_others_lead_enough() -> None:
    """Broker 1 loses the lead of four partitions; broker 4, which follows in all, gets some of them."""
    snapshot = snapshot_of({"a": [(10, (1, 4))] * 4, "b": [(10, (1, 4))] * 4}, {1: 20, 2: 100, 3: 100, 4: 60})
    goal = Goal(free_range_bytes=20 * GIB)
    plain, decided = as_found(snapshot, goal), decide(snapshot, goal)
    no_worse(plain, decided)
    assert (leaders(plain), leaders(decided)) == ([0, 2, 2, 4], [1, 1, 2, 4])
    for old, new in zip(decided.before, decided.after, strict=True):
        assert old[0] == new[0] or old[0] not in new, "a leader that stays keeps leading"
    assert all(set(m.before) != set(m.after) for m in decided.plan.moves), "a list changes for its leader alone"


def test_all_leaders_are_as_even_as_without_free_choices_where_that_is_asked_for() -> None:
    snapshot = SHAPES["plain"](1)
    goal = Goal(band=Fraction(5, 100))
    plain, decided = (how(snapshot, goal, optimize_leadership=True) for how in (as_found, decide))
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
    for goal in (Goal(band=Fraction(1, 2)), Goal(free_range_bytes=(max(free) - min(free)) // 2)):
        plain, decided = as_found(snapshot, goal, **how), decide(snapshot, goal, **how)
        no_worse(plain, decided)
        if plain.plan.moves and shape == "plain":
            before, after = weigh(plain), weigh(decided)
            assert after.counts < before.counts
            assert after.leaders < before.leaders
            assert after.topics < before.topics


def test_count_limits_and_budgets_hold() -> None:
    snapshot = SHAPES["plain"](2)
    goal = Goal(band=Fraction(20, 100), count_band=Fraction(10, 100))
    plain, decided = as_found(snapshot, goal), decide(snapshot, goal)
    no_worse(plain, decided)
    share = sum(counts(decided)) / len(counts(decided))
    assert all(share * 0.9 - 1 <= n <= share * 1.1 + 1 for n in counts(decided))
    assert weigh(decided).soft < weigh(plain).soft
    goal = Goal(max_moves=20)
    plain, decided = as_found(snapshot, goal), decide(snapshot, goal)
    no_worse(plain, decided)
    assert 0 < sum(copies for copies, _ in weigh(decided).moved.values()) <= 20


def test_the_fewest_copies_stay_the_fewest() -> None:
    snapshot = SHAPES["plain"](2)
    plain, decided = (how(snapshot, Goal(band=Fraction(1, 5)), minimize=Minimize.MOVES) for how in (as_found, decide))
    no_worse(plain, decided)
    assert weigh(decided).soft < weigh(plain).soft


def test_a_plan_stays_as_found_where_log_dirs_have_room_for_no_other() -> None:
    """Broker 3 has room for both copies together, but in no single dir for either."""
    plain = snapshot_of(
        {"a": [(10, (1,))] * 4, "b": [(10, (1,))] * 4, "c": [(80, (4,))]}, {1: 60, 2: 100, 3: 100, 4: 100}
    )
    usable = [9] * 11 + [1]
    dirs = tuple(LogDir(path=f"/d{n}", total_bytes=200 * GIB, usable_bytes=u * GIB) for n, u in enumerate(usable))
    split = replace(plain.brokers[2], storage_free_bytes=None, log_dirs=dirs)
    snapshot = replace(plain, brokers=tuple(split if b.id == 3 else b for b in plain.brokers))
    goal = Goal(free_range_bytes=20 * GIB)
    found, decided = (how(snapshot, goal, max_disk_use=Fraction(1)) for how in (as_found, decide))
    assert decided.after == found.after
    assert not decided.plan.warnings
