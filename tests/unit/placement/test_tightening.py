"""The search for larger clusters: against packing by most free bytes first, and copies that make way for others."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.placement.by_size.layout import Disks, bytes_now, counts_now
from kafkakit.placement.by_size.slots import Pools, SearchState, make_table
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.problem import PlacementProblem, PlannedPartition
from kafkakit.placement.rebuild_search import RangeNarrowing, finish, is_small, open_slots, search
from kafkakit.placement.rebuild_task import RebuildTask, Row, make_task
from kafkakit.placement.watch import COMMAND_WORK, BudgetedWatch, SilentWatch, with_budget

BROKERS = range(1, 13)
RACKS: dict[int, str | None] = {b: "abc"[b % 3] for b in BROKERS}


def task_of(targets: range, *, forced: bool, factor: Fraction = Fraction(1)) -> RebuildTask:
    """300 partitions of uneven sizes, crowded on the first brokers of each rack."""
    partitions = []
    for n in range(300):
        size = 100 + (n * n * 7919) % 9_000
        replicas = tuple(1 + rack + 3 * ((n * (rack + 3) // 5) % 4 // (1 + n % 2)) for rack in range(2 + n % 2))
        partitions.append(PlannedPartition(TopicPartition("t", n), replicas, len(replicas), size))
    problem = PlacementProblem(tuple(partitions), tuple(targets), RACKS, SpreadRule())
    used = dict.fromkeys(BROKERS, 0)
    for p in partitions:
        for b in p.current:
            used[b] += p.size_bytes or 0
    storage = {b: BrokerStorage(used_bytes=used[b], free_bytes=1_000_000 - used[b]) for b in BROKERS}
    task = make_task(problem, Disks(storage=storage, log_dirs={}, max_use=Fraction(1)), factor=factor, forced=forced)
    assert not is_small(task)
    return task


def most_free_first(task: RebuildTask) -> tuple[list[Row], int]:
    """Partitions by size, every open copy to the broker with the most free bytes; and the bytes it copies."""
    stay = [() if task.forced else kept for kept in task.kept]
    free = task.free_after(stay)
    lists, cost = [], 0
    for n in sorted(range(len(stay)), key=lambda n: -task.size[n]):
        row = list(stay[n])
        while len(row) < len(task.rows[n]):
            racks = {RACKS[b] for b in row}
            row.append(max((b for b in free if RACKS[b] not in racks), key=lambda b: (free[b], -b)))
            free[row[-1]] -= task.reserve[n]
            cost += task.size[n] * (row[-1] not in task.kept[n])
        lists.append((n, tuple(row)))
    return [row for _, row in sorted(lists)], cost


def test_replacing_brokers_is_as_even_as_most_free_first() -> None:
    task = task_of(range(3, 13), forced=False)
    packed, _ = most_free_first(task)
    found = search(task, SilentWatch())
    assert found.unplaced == 0
    assert found.range <= task.range_after(packed)
    assert found.range_bound is not None
    assert found.range_bound <= found.range <= found.range_bound * 1.01
    assert all(set(kept) <= set(row) for kept, row in zip(task.kept, found.lists, strict=True))


def test_a_forced_rebuild_is_as_even_and_copies_far_less() -> None:
    task = task_of(range(1, 13), forced=True)
    packed, cost = most_free_first(task)
    found = search(task, SilentWatch())
    assert found.unplaced == 0
    assert found.range <= task.range_after(packed)
    assert found.cost < cost // 2
    assert not any(SpreadRule().violates(RACKS[b] for b in row) for row in found.lists)


def test_a_forced_rebuild_with_larger_reservations_fills_nobody() -> None:
    task = task_of(range(1, 13), forced=True, factor=Fraction(3))
    found = search(task, SilentWatch())
    assert found.unplaced == 0
    assert min(task.free_after(found.lists).values()) >= 0


def test_an_arrived_copy_makes_way_for_one_that_fits_nowhere_else() -> None:
    # Partition 0 stands on broker 2 too, so only broker 1 may take its copy; partition 1 came there first.
    table = make_table(
        [(2, -1), (-1,)], [9, 4], {1: "a", 2: "b"}, SpreadRule(), receivers={1, 2}, givers={-1}, fixed={1: 0, 2: 1}
    )
    state = SearchState(table, [0, 0, 0], [0, 10, 20])
    stubs = np.array([True, False, False])
    assert finish(state, open_slots(state, stubs)) == []
    assert state.load == [0, 9, 14]


def test_what_fits_nowhere_is_returned() -> None:
    table = make_table([(2, -1)], [9], {1: "a", 2: "b"}, SpreadRule(), receivers={1, 2}, givers={-1})
    state = SearchState(table, [0, 0, 0], [0, 8, 20])
    assert finish(state, open_slots(state, np.array([True, False, False]))) == [1]


def test_levelling_ends_within_the_smallest_difference() -> None:
    sizes = [6, 5, 3]
    table = make_table(
        [(-1,)] * 3, sizes, {1: "a", 2: "b"}, SpreadRule(), receivers={1, 2}, givers={-1}, fixed={1: 2, 2: 0}
    )
    state = SearchState(table, [0, 0, 0], [0, 99, 99])
    for slot, dest in ((0, 1), (1, 1), (2, 2)):
        state.move(slot, dest)
    assert state.load == [0, 13, 3]
    RangeNarrowing(Pools(state), [False, True, True], 0).run()
    assert state.load == [0, 8, 8]


def test_levelling_takes_a_copy_from_home_where_no_arrival_can_do_it() -> None:
    table = make_table([(1,), (1,), (1,)], [2, 4, 9], {1: "a", 2: "b"}, SpreadRule(), receivers={1, 2})
    state = SearchState(table, [0, 0], [99, 99])
    RangeNarrowing(Pools(state), [True, True], 0).run()
    assert sorted(state.load) == [6, 9]


def levelled(lists: list[list[int]], sizes: list[int], at: list[int], ceiling: list[int], close: int = 0) -> list[int]:
    """Loads of brokers 1, 2, ... once the range is narrowed; slots start on placeholders and came to brokers `at`."""
    ids = range(1, len(ceiling) + 1)
    table = make_table(lists, sizes, {}, SpreadRule(), receivers=ids, fixed=dict.fromkeys(ids, 0))
    spare = len(table.brokers) - len(ceiling)
    state = SearchState(table, [0] * len(table.brokers), [0] * spare + ceiling)
    for slot, broker in enumerate(at):
        state.move(slot, table.brokers.index(broker))
    RangeNarrowing(Pools(state), [b > 0 for b in table.brokers], close).run()
    return state.load[spare:]


def test_levelling_exchanges_two_arrivals_where_one_alone_is_too_much() -> None:
    lists, sizes, at = [[-1]] * 3, [9, 8, 7], [1, 1, 2]
    assert levelled(lists, sizes, at, [99, 99]) == [9, 15]
    assert levelled(lists, sizes, at, [99, 10]) == [15, 9]
    assert levelled(lists, sizes, at, [99, 8]) == [16, 8]
    assert levelled(lists, sizes, at, [99, 99], close=10) == [17, 7]
    assert levelled(lists, sizes, at, [99, 99], close=9) == [9, 15]


def test_levelling_keeps_slots_of_one_partition_apart() -> None:
    # Sending a slot of 3 over, or exchanging that of 9 for one of 3, would put both copies on one broker.
    assert levelled([[-1, -2], [-1]], [3, 9], [1, 2, 1], [99, 99]) == [12, 3]
    assert levelled([[-1], [-1], [-1]], [3, 3, 9], [1, 2, 1], [99, 99]) == [9, 6]


@pytest.mark.parametrize(("by_free", "loads"), [(False, [40, 30, 5]), (True, [40, 0, 5])])
def test_loads_of_disks_by_used_and_by_free_bytes(by_free: bool, loads: list[int]) -> None:
    storage = {
        1: BrokerStorage(used_bytes=40, free_bytes=60 - 30 * by_free, capacity_bytes=100),
        2: BrokerStorage(used_bytes=30, free_bytes=70, capacity_bytes=100),
    }
    disks = Disks(storage=storage, log_dirs={}, max_use=Fraction(1))
    now = bytes_now({1: 10, 3: 5}, disks, [1, 2, 3], by_free=by_free)
    assert list(now.load.values()) == loads
    assert [now.fixed[b] for b in (1, 2, 3)] == [loads[0] - 10, loads[1], 0]
    assert (now.room[2], now.room[3], now.capacity[3]) == (70, 0, 0)


@pytest.mark.parametrize(("capacity", "share"), [((100, 300), [10, 30]), ((100, 0), [20, 20])])
def test_a_band_is_around_equal_shares_where_a_capacity_is_unknown(capacity: tuple[int, int], share: list[int]) -> None:
    table = make_table([[1], [2]], [30, 10], {}, SpreadRule(), receivers=[1, 2])
    now = replace(counts_now({}, [1, 2], 9), capacity=dict(enumerate(capacity, 1)))
    assert now.band(table, now.limits(table, [1, 2], {}), 40).share.tolist() == share


def test_work_is_granted_until_it_is_used_up() -> None:
    watch = with_budget(SilentWatch())
    assert with_budget(watch) is watch
    assert watch.grant(99) == COMMAND_WORK
    watch.spend(COMMAND_WORK - 0.5)
    half = watch.part(2)
    assert half.grant(99) == pytest.approx(0.25)
    assert half.grant(0.1) == 0.1
    half.spend(0.2)
    assert half.grant(99) == pytest.approx(0.05)
    assert watch.grant(99) == pytest.approx(0.3)
    watch.spend(9)
    assert (watch.grant(0.1), half.grant(0.01), BudgetedWatch(watch, 5).grant(1)) == (0, 0, 0)
