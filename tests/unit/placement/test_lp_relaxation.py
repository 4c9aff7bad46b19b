"""The parts of the byte balance by themselves.

What certificates claim where copies are counted. Split plans of tables so large that careless sums would pass 64 bits.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.plan import SolverStatus
from kafkakit.core.selection import parse_broker_list
from kafkakit.placement.by_size import exact
from kafkakit.placement.by_size.attempt import attempt
from kafkakit.placement.by_size.lp_relaxation import (
    BandGoal,
    LoadBound,
    LoadLimits,
    RangeGoal,
    demand_groups_of,
    fixed_window,
    least_cost,
    relax_counts,
    shares,
    sliding_window,
)
from kafkakit.placement.by_size.proof import moves_bound
from kafkakit.placement.by_size.slots import CountLimits, SearchState, SlotTable, choose, make_table
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.problem import Minimize
from kafkakit.placement.watch import SilentWatch
from kafkakit.topicmappr.decide.rebalance import Rebalance, decide_rebalance
from kafkakit.topicmappr.decide.request_fields import LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest
from tests.cli.test_rebalance import GIB, cluster
from tests.clusters.storage_worlds import ints, no_limits, table_of, tables

RUNS = settings(max_examples=150, deadline=None, derandomize=True)


@RUNS
@given(st.lists(st.integers(0, 30), max_size=9), st.integers(1, 120), st.integers(0, 9))
def test_what_leaves_is_enough_and_hardly_more(sizes: list[int], need: int, cut: int) -> None:
    cut = min(cut, len(sizes))
    sizes = [*sorted(sizes[:cut], reverse=True), *sorted(sizes[cut:], reverse=True)]
    quotas = [(0, cut, need // 2), (cut, len(sizes), need - need // 2)]
    chosen = choose(sizes, quotas, need)
    assert len(set(chosen)) == len(chosen)
    total = sum(sizes[i] for i in chosen)
    sums = {sum(s) for n in range(len(sizes) + 1) for s in combinations(sizes, n)}
    enough = [s for s in sums if s >= need]
    if not enough:
        assert total == sum(sizes), "everything goes where everything is not enough"
        return
    assert total >= need
    # Nothing that was chosen is spare, so the excess is below the smallest item that counts.
    assert all(total - sizes[i] < need for i in chosen if sizes[i])


def test_exact_sums_are_found() -> None:
    assert sorted(choose([50, 30, 20, 10], [(0, 4, 60)], 60)) == [0, 3]
    assert sum([9, 7, 5, 3][i] for i in choose([9, 7, 5, 3], [(0, 4, 12)], 12)) == 12
    assert choose([4, 3], [(0, 2, 100)], 100) in ([0, 1], [1, 0])


@RUNS
@given(
    st.lists(st.integers(0, 1 << 50), min_size=2, max_size=6),
    st.lists(st.integers(1, 1 << 50), min_size=2, max_size=6),
)
def test_a_band_holds_what_it_measures(loads: list[int], capacity: list[int]) -> None:
    count = min(len(loads), len(capacity))
    table = table_of([], [], ["a"] * count)
    limits = no_limits(table)
    wide = limits.ceiling << 20
    there = np.array(loads[:count], dtype=np.int64)
    share = shares(sum(loads[:count]), capacity[:count], [True] * count)
    assert share.sum() == sum(loads[:count])
    whole = sum(capacity[:count])
    assert all(abs(int(s) * whole - sum(loads[:count]) * c) <= whole for s, c in zip(share, capacity, strict=False))
    balance = BandGoal(type(limits)(floor=limits.floor, ceiling=wide, even=limits.even, offset=limits.offset), share)
    tight = balance.measure(there)
    low, high = balance.bounds(tight)
    assert ((low <= there) & (there <= high)).all()
    if tight:
        low, high = balance.bounds(tight - 1)
        assert not ((low <= there) & (there <= high)).all(), "a tighter band holds them too"


def test_shares_go_by_capacity_and_leave_others_out() -> None:
    assert shares(10, [1, 1, 1], [True, True, True]).tolist() == [4, 3, 3]
    assert shares(10, [1, 3, 5], [True, True, False]).tolist() == [3, 7, 0]
    assert shares(7, [0, 0], [True, True]).tolist() == [0, 0]


def test_a_range_measures_the_even_brokers_alone() -> None:
    table = table_of([], [], ["a", "a", "a"])
    limits = no_limits(table)
    some = type(limits)(floor=limits.floor, ceiling=limits.ceiling, even=ints(1, 1, 0) > 0, offset=ints(0, 2, 0))
    assert RangeGoal(some).measure(ints(5, 10, 99)) == 3


@RUNS
@given(tables(), st.data())
def test_the_board_moves_only_as_the_rules_allow(table: SlotTable, data: st.DataObject) -> None:
    names = [None if r >= table.racks else str(r) for r in table.rack]
    state = SearchState(table, [0] * len(names), [1 << 40] * len(names))
    slots = np.nonzero(table.movable)[0].tolist()
    for _ in range(6):
        if not slots:
            return
        slot, dest = data.draw(st.sampled_from(slots)), data.draw(st.integers(0, len(names) - 1))
        if state.broker(slot) != dest and state.fits(slot, dest):
            state.move(slot, dest)
    for part in range(len(table.size)):
        mine = range(int(table.first[part]), int(table.first[part + 1]))
        old, new = [int(table.home[s]) for s in mine], [state.broker(s) for s in mine]
        assert len(set(new)) == len(new)
        before, after = [names[b] for b in old], [names[b] for b in new]
        if table.locality_scoped:
            assert before == after
        elif table.rule.violates(after):
            assert table.rule.violates(before), "a set that newly breaks the rule"
            if table.rule.spread_over:
                assert not table.rule.crowds(before, after)
            elif table.rule.min_groups:
                assert len({r for r in after if r}) >= len({r for r in before if r})
            else:
                assert all(after.count(r) <= max(1, before.count(r)) for r in after if r)
        assert all(table.receiver[b] or b in old for b in new)
    loads = table.loads(np.array([state.broker(s) for s in range(len(table.home))], dtype=np.int64))
    assert state.load == loads.tolist()


@RUNS
@given(tables(), st.data())
def test_lawful_single_moves_fit(table: SlotTable, data: st.DataObject) -> None:
    """From a valid set each move of one copy to a set that the rule allows is offered."""
    names = [None if r >= table.racks else str(r) for r in table.rack]
    state = SearchState(table, [0] * len(names), [1 << 40] * len(names))
    slot = data.draw(st.integers(0, len(table.home) - 1))
    others = [int(table.home[s]) for s in state.siblings(slot)]
    home = int(table.home[slot])
    rule: SpreadRule = table.rule
    if rule.violates([names[b] for b in (*others, home)]):
        return
    for dest in range(len(names)):
        if dest in (*others, home):
            assert dest == home or not state.fits(slot, dest)
            continue
        valid = not rule.violates([names[b] for b in (*others, dest)])
        if table.locality_scoped:
            valid = names[dest] == names[home]
        assert state.fits(slot, dest) == (valid and bool(table.receiver[dest]))


def placements(table: SlotTable) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Every valid placement, slot by slot."""
    names = [None if r >= table.racks else str(r) for r in table.rack]
    options = []
    for part in range(len(table.size)):
        mine = range(int(table.first[part]), int(table.first[part + 1]))
        old = [int(table.home[s]) for s in mine]
        sets = []
        for new in product(
            *(
                [b for b in range(len(names)) if b == h or (table.receiver[b] and table.movable[s])]
                for s, h in zip(mine, old, strict=True)
            )
        ):
            same = all(names[a] == names[b] for a, b in zip(old, new, strict=True))
            if len(set(new)) == len(new) and (
                list(new) == old or (same if table.locality_scoped else not table.rule.violates(names[b] for b in new))
            ):
                sets.append(new)
        options.append(sets)
    return [np.array([b for row in rows for b in row], dtype=np.int64) for rows in product(*options)]


def cost_of(table: SlotTable, at: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    """(load, number) of new copies, by sets."""
    load = moves = 0
    for part in range(len(table.size)):
        mine = slice(int(table.first[part]), int(table.first[part + 1]))
        new = set(at[mine].tolist()) - set(table.home[mine].tolist())
        load += len(new) * int(table.size[part])
        moves += len(new)
    return load, moves


@RUNS
@given(tables(partitions=3), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=4, max_size=4))
def test_no_placement_is_below_the_bounds(table: SlotTable, ends: list[tuple[int, int]]) -> None:
    count = len(table.brokers)
    floor, ceiling = ints(*(min(e) for e in ends[:count])), ints(*(max(e) for e in ends[:count]))
    window = fixed_window(table, demand_groups_of(table), floor, ceiling)
    fewest = moves_bound(table, window)
    for at in placements(table):
        loads = table.loads(at)
        if ((floor <= loads) & (loads <= ceiling)).all():
            load, moves = cost_of(table, at)
            assert window.possible, "a placement where not even the LP relaxation is possible"
            assert window.bound.value <= load
            assert fewest <= moves


@RUNS
@given(tables(partitions=3), st.integers(0, 12))
def test_no_placement_is_below_the_bounds_of_any_window(table: SlotTable, width: int) -> None:
    window = sliding_window(table, demand_groups_of(table), no_limits(table), width)
    fewest = moves_bound(table, window)
    for at in placements(table):
        loads = table.loads(at)
        if loads.min() >= 0 and loads.max() - loads.min() <= width:
            load, moves = cost_of(table, at)
            assert window.possible
            assert window.bound.value <= load
            assert fewest <= moves


@pytest.mark.parametrize("width", [0, 1, 3, 10])
def test_a_sliding_window_finds_the_cheapest_place(width: int) -> None:
    rng = np.random.default_rng(width)
    for _ in range(12):
        racks = [("a", "b", None)[i] for i in rng.integers(0, 3, 4)]
        lists = [sorted(rng.choice(4, 2, replace=False) + 1) for _ in range(5)]
        table = table_of(lists, rng.integers(0, 20, 5).tolist(), racks, min_rack_ids=1)
        demand, limits = demand_groups_of(table), no_limits(table)
        found = sliding_window(table, demand, limits, width)
        scanned = [fixed_window(table, demand, *limits.at(low, width)).bound for low in range(100)]
        if found.possible:
            assert found.bound.value <= min(b.value for b in scanned if b.outside == 0)
        weights = [b.weighed for b in scanned]
        steps = np.diff(weights)
        assert (np.diff(steps) >= 0).all(), "the cost is not convex in the window's place"


RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "a", 4: "b", 5: "c"}


def decided(seed: int, goal: LoadGoal, minimize: Minimize = Minimize.BYTES) -> Rebalance:
    draw = random.Random(seed)
    lists = [draw.sample(range(1, 5), 2) for _ in range(10)]
    snapshot = cluster(lists, [draw.randint(1, 30) for _ in lists], {b: 200 + 60 * b for b in RACKS}, RACKS)
    request = RebalanceRequest(brokers=parse_broker_list("-2"), topics=(".*",), goal=goal, minimize=minimize, words={})
    return decide_rebalance(snapshot, request)


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_of_moves_claims_no_least_bytes_that_others_undercut(seed: int) -> None:
    budget = decided(seed, LoadGoal(max_moves=4))
    cheapest = decided(seed, LoadGoal(free_range_bytes=budget.reached))
    assert budget.plan.certificate.lower_bound <= cheapest.plan.certificate.objective


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_of_bytes_claims_no_fewest_moves_that_others_undercut(seed: int) -> None:
    budget = decided(seed, LoadGoal(max_moved_bytes=60 * GIB), Minimize.MOVES)
    fewest = decided(seed, LoadGoal(free_range_bytes=budget.reached), Minimize.MOVES)
    assert fewest.plan.certificate.status is SolverStatus.OPTIMAL
    assert budget.plan.certificate.lower_bound <= fewest.plan.certificate.objective


@pytest.mark.parametrize("seed", range(20))
def test_hard_limits_stay_where_a_window_slides(seed: int) -> None:
    """The bound on moves is no larger than what any place of the window asks for, place by place."""
    draw = random.Random(seed)
    lists = [draw.sample(range(5), 2) for _ in range(8)]
    sizes = [draw.randint(1, 9) for _ in lists]
    table = make_table(lists, sizes, dict.fromkeys(range(5)), SpreadRule(0), receivers=range(5))
    demand, loads = demand_groups_of(table), table.loads(table.home)
    zero = np.zeros(5, dtype=np.int64)
    room = np.array([draw.choice([0, 0, 3, 50]) for _ in range(5)])
    limits = LoadLimits(floor=zero, ceiling=loads + room, even=zero == 0, offset=zero)
    width = draw.randint(3, 20)
    window = sliding_window(table, demand, limits, width)
    least = []
    for low in range(-width - 2, int(loads.max()) + 3):
        floor, ceiling = limits.at(low, width)
        least.append(moves_bound(table, replace(window, floor=floor, ceiling=ceiling, slides=zero > 0, place=None)))
    assert moves_bound(table, window) <= min(least)


RACKS_LARGE_FLEETS: dict[int, str | None] = {b: "abcdef"[b % 6] for b in range(600)}


def table_of_large_fleets(unit: int) -> SlotTable:
    """600 brokers and 1,500 partitions; a copy has 1 to 9 units."""
    draw = random.Random(1)
    lists = [draw.sample(range(600), 2) for _ in range(1500)]
    sizes = [draw.randint(1, 9) * unit for _ in lists]
    return make_table(lists, sizes, RACKS_LARGE_FLEETS, SpreadRule(0), receivers=range(600))


def cheapest(table: SlotTable, unit: int) -> LoadBound:
    loads = table.loads(table.home)
    return least_cost(table, demand_groups_of(table), loads * 0 + 20 * unit, loads * 0 + 28 * unit)


@pytest.mark.parametrize("unit", [1 << 40, 1 << 43])  # 15 and 120 PiB in all
def test_the_unit_changes_nothing_but_the_numbers(unit: int) -> None:
    small, large = cheapest(table_of_large_fleets(1), 1), cheapest(table_of_large_fleets(unit), unit)
    assert small.value > 0
    assert (large.value, large.outside) == (small.value * unit, small.outside * unit)


def crowded(seed: int) -> tuple[SlotTable, Any, Any]:
    """Eight brokers in two racks, half of them crowded, 75 partitions of very unlike sizes; with limits of load."""
    draw = random.Random(seed)
    racks: dict[int, str | None] = {b: "ab"[b % 2] for b in range(8)}
    lists = [[2 * min(draw.randrange(4), draw.randrange(4)), 1 + 2 * draw.randrange(4)] for _ in range(75)]
    sizes = [int(draw.paretovariate(0.9) * 1000) for _ in lists]
    table = make_table(lists, sizes, racks, SpreadRule(), receivers=racks)
    share = table.loads(table.home).sum() // 8
    at_most = np.bincount(table.home, minlength=8).sum() // 8 + 1
    counts = CountLimits(floor=(0,) * 8, ceiling=(int(at_most),) * 8)
    width = max(int(share) // 10, *sizes)
    return replace(table, counts=counts), np.full(8, share - width), np.full(8, share + width)


@pytest.mark.parametrize("seed", range(6))
def test_counts_cost_hardly_more_than_they_must(seed: int) -> None:
    table, floor, ceiling = crowded(seed)
    assert table.counts is not None
    flow = relax_counts(table, floor, ceiling, table.counts)
    assert flow is not None
    assert flow.counts.max() <= table.counts.ceiling[0] + 1e-6
    window = fixed_window(table, demand_groups_of(table), floor, ceiling)
    found = attempt(table, demand_groups_of(table), window)
    assert found.succeeded
    limits = replace(no_limits(table), floor=floor, ceiling=ceiling)
    least = exact.cheapest(table, limits, None, watch=SilentWatch())
    assert least.at is not None

    assert found.cost <= least.cost * 1.01
