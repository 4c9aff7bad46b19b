"""Byte balance of random clusters: rules and budgets are kept, bounds are true, small answers equal exact ones.

The suite tries 500 clusters, always the same. For more, and others each time:
`KAFKAKIT_EXAMPLES=10000 python -m pytest -n auto tests/property/test_balance.py`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, note
from hypothesis import strategies as st

from kafkakit.core.documents import decode_plan, encode_plan, encode_snapshot
from kafkakit.core.errors import InfeasibleError, UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.placement.problem import Minimize
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.requests import Goal, RebalanceRequest
from tests.clusters.balance_strategies import balance_requests, exact_requests, examples, sized_clusters, spread_of
from tests.clusters.exact_balance import (
    Balance,
    balance_of,
    cheapest_in_range,
    cheapest_within,
    free_range,
    inside,
    narrowest,
)
from tests.invariants.plan import verify_plan

REFUSED = ("only allows broker additions", "requires additional brokers", "has a rack")


def decide(snapshot: ClusterSnapshot, request: RebalanceRequest) -> Rebalance | InfeasibleError:
    """The decision, or why there is none; every plan passes the independent checker."""
    try:
        decided = decide_rebalance(snapshot, request)
    except InfeasibleError as error:
        note(f"{error} | {error.hint}")
        return error
    verify_plan(json.loads(encode_plan(decided.plan)), json.loads(encode_snapshot(snapshot)))
    return decided


def loads_after(balance: Balance, decided: Rebalance) -> Mapping[int, int]:
    """Loads by broker, from the replica lists alone."""
    loads = dict(balance.load)
    for size, old, new in zip(balance.sizes, balance.lists, decided.after, strict=True):
        for b in set(new) - set(old):
            loads[b] += size
        for b in set(old) - set(new):
            loads[b] -= size
    return loads


@examples(200)
@given(st.data())
def test_no_plan_breaks_a_rule(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_brokers=8, max_partitions=12))
    request = data.draw(balance_requests(snapshot))
    try:
        decided = decide(snapshot, request)
    except UsageError as error:
        assert any(words in str(error) for words in REFUSED)  # noqa: PT017
        return
    if isinstance(decided, InfeasibleError):
        assert request.goal.band is not None or request.goal.free_range_bytes is not None
        return
    written = encode_plan(decided.plan)
    assert decode_plan(written, "plan") == decided.plan
    assert encode_plan(decide_rebalance(snapshot, request).plan) == written
    givers = None if decided.sources.brokers is None else decided.sources.brokers
    balance = balance_of(snapshot, request, givers)
    loads = loads_after(balance, decided)
    assert inside(loads, balance.hard()), "a disk is fuller than allowed"
    assert all(
        frozenset(new) in balance.legal(i) for i, new in enumerate(decided.after) if len(balance.lists[i]) == len(new)
    )
    for i, (old, new) in enumerate(zip(balance.lists, decided.after, strict=True)):
        assert i not in balance.still or set(old) == set(new)
    verify_goal(balance, request, decided, loads)


def verify_goal(balance: Balance, request: RebalanceRequest, decided: Rebalance, loads: Mapping[int, int]) -> None:
    """Budgets are kept; so is the goal, or the plan says what it reached instead."""
    goal = request.goal
    moved = [
        size * len(set(new) - set(old))
        for size, old, new in zip(balance.sizes, balance.lists, decided.after, strict=True)
    ]
    copies = sum(len(set(n) - set(o)) for o, n in zip(balance.lists, decided.after, strict=True))
    assert goal.max_moved_bytes is None or sum(moved) <= goal.max_moved_bytes
    assert goal.max_moves is None or copies <= goal.max_moves
    if goal.band is not None:
        requested = int(goal.band * 10**6)
        assert inside(loads, balance.band(max(requested, decided.max_deviation)))
    else:
        wanted = goal.free_range_bytes
        assert free_range(balance, loads) <= max(decided.max_deviation, wanted or 0)
        requested = decided.max_deviation if wanted is None else wanted
    budgets = goal.max_moved_bytes is not None or goal.max_moves is not None
    assert decided.max_deviation == requested or (decided.max_deviation > requested and budgets)
    if decided.max_deviation > requested:
        assert any("costs more than the budget allows" in text for text in decided.plan.notes)


@examples(100)
@given(st.data())
def test_a_band_costs_the_least(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters())
    band = Fraction(data.draw(st.sampled_from([0, 1, 5, 10, 20, 35, 50, 80])), 100)
    request = data.draw(exact_requests(Goal(band=band)))
    balance = balance_of(snapshot, request)
    decided = try_to_decide(snapshot, request)
    if decided is None:
        return
    least = cheapest_within(balance, balance.band(int(band * 10**6)))
    agree(decided, least)
    if isinstance(decided, InfeasibleError):
        nearest = re.search(r"--band ([0-9.]+)%", str(decided.hint))
        assert nearest, decided.hint
        parts = Fraction(nearest[1]) / 100
        assert parts > band
        again = try_to_decide(snapshot, replace(request, goal=Goal(band=parts)))
        hold_to_the_nearest(decided, again)


@examples(80)
@given(st.data())
def test_a_free_range_costs_the_least(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters())
    total = spread_of(snapshot)
    width = data.draw(st.one_of(st.integers(0, total), st.integers(0, max(1, total // 10))))
    request = data.draw(exact_requests(Goal(free_range_bytes=width)))
    decided = try_to_decide(snapshot, request)
    if decided is None:
        return
    agree(decided, cheapest_in_range(balance_of(snapshot, request), width))
    if isinstance(decided, InfeasibleError):
        nearest = re.search(r"--free-range ([0-9]+)B", str(decided.hint))
        assert nearest, decided.hint
        assert int(nearest[1]) > width
        again = try_to_decide(snapshot, replace(request, goal=Goal(free_range_bytes=int(nearest[1]))))
        hold_to_the_nearest(decided, again)


@examples(60)
@given(st.data())
def test_the_fewest_moves_are_found(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters())
    band = data.draw(st.sampled_from([None, 5, 20, 50]))
    width = data.draw(st.integers(0, spread_of(snapshot)))
    goal = Goal(free_range_bytes=width) if band is None else Goal(band=Fraction(band, 100))
    request = replace(data.draw(exact_requests(goal)), minimize=Minimize.MOVES)
    decided = try_to_decide(snapshot, request)
    if decided is None:
        return
    balance = balance_of(snapshot, request)
    if band is None:
        agree(decided, cheapest_in_range(balance, width, copies=True))
    else:
        agree(decided, cheapest_within(balance, balance.band(band * 10_000), copies=True))


@examples(60)
@given(st.data())
def test_a_budget_buys_the_smallest_range(data: st.DataObject) -> None:
    snapshot = data.draw(sized_clusters(max_partitions=7, unit=1, full=False))
    by_moves = data.draw(st.booleans())
    moves = data.draw(st.integers(0, 6)) if by_moves else None
    moved_bytes = None if by_moves else data.draw(st.integers(0, spread_of(snapshot)))
    request = data.draw(exact_requests(Goal(max_moved_bytes=moved_bytes, max_moves=moves)))
    decided = try_to_decide(snapshot, request)
    if decided is None:
        return
    assert isinstance(decided, Rebalance), "changing nothing is always allowed"
    balance = balance_of(snapshot, request)
    assert free_range(balance, loads_after(balance, decided)) == narrowest(
        balance, moved_bytes=moved_bytes, moves=moves
    )


def hold_to_the_nearest(refused: InfeasibleError, again: Rebalance | InfeasibleError | None) -> None:
    """A goal named as nearest is within the bound, and is reached where a plan is said to have been found."""
    if isinstance(again, InfeasibleError):
        assert "may be" in str(refused.hint), f"{refused.hint}, but: {again}"
        assert "every placement was searched" in str(again) or "not proven impossible" in str(again)


def try_to_decide(snapshot: ClusterSnapshot, request: RebalanceRequest) -> Rebalance | InfeasibleError | None:
    """None where the brokers do not suit the request."""
    try:
        return decide(snapshot, request)
    except UsageError as error:
        assert any(words in str(error) for words in REFUSED)  # noqa: PT017
        return None


def agree(decided: Rebalance | InfeasibleError, least: int | None) -> None:
    """The plan costs the least there is, its bound is no higher, and nothing is called impossible that is not."""
    if isinstance(decided, InfeasibleError):
        assert least is None, f"there is a plan of {least}"
        return
    assert least is not None, "a plan where there is none"
    assert decided.plan.certificate.lower_bound <= least, "the bound is not true"
    assert decided.plan.certificate.objective == least
