"""Local steps after a first plan: what each costs and leaves missing, and the swaps that shed without room to spare."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.placement.by_size.local_steps import Priced, free_fills, free_sheds, priced_fills, priced_sheds, repair
from kafkakit.placement.by_size.slots import Pools, SearchState, SlotTable
from tests.clusters.storage_worlds import table_of, tables

Options = Callable[[Pools, int, int], Iterator[Priced]]


def pools_of(table: SlotTable, ceiling: Sequence[int], moves: Sequence[tuple[int, int]] = ()) -> Pools:
    state = SearchState(table, [0] * len(ceiling), list(ceiling))
    for slot, dest in moves:
        state.move(slot, dest)
    return Pools(state)


@pytest.mark.parametrize(
    ("theirs", "ceiling", "steps"),
    [
        # Broker 0 holds 9 and 5; broker 1 holds one slot, with room for the difference alone.
        (7, [12, 9], [(0, 16, ((0, 1), (2, 0)))]),
        (8, [12, 9], [(1, 17, ((0, 1), (2, 0)))]),  # a smaller difference helps a little
        (7, [13, 9], []),  # no slot is so near: the difference of 2 is more than the 1 looked for
        (7, [11, 9], [(1, 16, ((0, 1), (2, 0)))]),  # 2 of 3 bytes too many
        (7, [12, 8], []),  # no room for the difference
        (9, [12, 9], []),  # as large as the largest: nothing is gained
        (5, [9, 8], []),  # 3 bytes of room, and differences of 0 and 4
        (5, [9, 9], [(1, 14, ((0, 1), (2, 0)))]),
    ],
)
def test_slots_change_places_where_no_broker_has_room_for_one_more(
    theirs: int, ceiling: list[int], steps: list[Priced]
) -> None:
    pools = pools_of(table_of([[1], [1], [2]], [9, 5, theirs], [None, None]), ceiling)
    excess = pools.state.load[0] - ceiling[0]
    assert list(priced_sheds(pools, 0, excess)) == steps
    repair(pools)
    assert pools.state.moved == dict(steps[0][2] if steps else ())


def test_one_swap_is_offered_for_a_slot_and_a_partner_broker_the_smallest_that_is_enough() -> None:
    pools = pools_of(table_of([[1], [2], [2]], [9, 7, 8], [None, None]), [7, 17])
    assert list(priced_sheds(pools, 0, 2)) == [(0, 16, ((0, 1), (1, 0)))]


def test_a_swap_that_is_not_enough_goes_to_the_limit_of_the_other_broker() -> None:
    pools = pools_of(table_of([[1], [2], [2], [2]], [9, 5, 6, 8], [None, None]), [5, 20])
    assert list(priced_sheds(pools, 0, 4)) == [(3, 17, ((0, 1), (3, 0)))]


def test_the_second_nearest_slot_is_swapped_where_the_nearest_may_not() -> None:
    # Slots 1 and 3 are of one partition, so slot 1 cannot be taken for slot 0 by broker 0, which holds its sibling.
    table = table_of([[1], [2, 1], [2]], [9, 7, 8], [None, None])
    pools = pools_of(table, [14, 17])
    assert pools.state.load == [16, 15]
    assert list(priced_sheds(pools, 0, 2)) == [(1, 17, ((0, 1), (3, 0)))]


def test_a_broker_that_takes_no_copies_swaps_nothing() -> None:
    pools = pools_of(table_of([[1], [1], [2]], [9, 5, 7], [None, None], receivers=[2]), [12, 9])
    assert list(priced_sheds(pools, 0, 2)) == []


def test_a_swap_keeps_one_copy_a_rack() -> None:
    # Broker 1's slot could only go to broker 0, where its partition has a copy on the same rack already.
    lists, sizes, racks = [[1], [1], [3, 2]], [9, 5, 7], ["a", "b", "a"]
    assert list(priced_sheds(pools_of(table_of(lists, sizes, racks), [12, 9, 7]), 0, 2)) == []
    valid = table_of(lists, sizes, ["a", "b", "c"])
    assert list(priced_sheds(pools_of(valid, [12, 9, 7]), 0, 2)) == [(0, 16, ((0, 1), (3, 0)))]


def test_arrivals_change_places_for_nothing() -> None:
    # Slots 0 and 1 left broker 0 for brokers 1 and 2: broker 1 has one byte too many.
    table = table_of([[1], [1]], [6, 5], [None] * 3)
    pools = pools_of(table, [0, 5, 6], [(0, 1), (1, 2)])
    assert list(free_sheds(pools, 1, 1)) == [(0, 0, ((0, 2), (1, 1)))]
    state = pools.state
    state.floor[:] = [0, 0, 6]
    state.ceiling[1] = 6
    assert list(free_fills(pools, 2, 1)) == [(0, 0, ((1, 1), (0, 2)))]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data(), tables(brokers=4, partitions=6))
def test_steps_are_lawful_and_do_what_they_state(data: st.DataObject, table: SlotTable) -> None:
    """Limits of other brokers hold after a step; what is missing and what is paid is what was stated."""
    bounds = st.lists(st.integers(0, 20), min_size=len(table.brokers), max_size=len(table.brokers))
    state = SearchState(table, data.draw(bounds), [60] * len(table.brokers))
    state.ceiling = [low + more for low, more in zip(state.floor, data.draw(bounds), strict=True)]
    for slot in range(len(table.home)):
        dest = data.draw(st.integers(0, len(table.brokers) - 1))
        if table.movable[slot] and data.draw(st.booleans()) and dest != state.home(slot) and state.fits(slot, dest):
            state.move(slot, dest)
    pools = Pools(state)
    for broker in range(len(table.brokers)):
        over, under = state.load[broker] - state.ceiling[broker], state.floor[broker] - state.load[broker]
        for missing, options in ((over, (free_sheds, priced_sheds)), (under, (free_fills, priced_fills))):
            if missing > 0:
                for option in options:
                    check(state, broker, missing, list(option(pools, broker, missing)))


def check(state: SearchState, broker: int, missing: int, steps: Sequence[Priced]) -> None:
    before, cost, loads = dict(state.moved), state.cost(), list(state.load)
    for left, paid, step in steps:
        for slot, dest in step:
            assert state.table.receiver[dest] or dest == state.home(slot)
            state.move(slot, dest)
        gained = abs(state.load[broker] - loads[broker])
        assert left == max(0, missing - gained)
        assert paid >= state.cost() - cost
        for b, load in enumerate(state.load):
            assert b == broker or load <= max(state.ceiling[b], loads[b])
        for slot in {slot for slot, _ in step}:
            state.move(slot, before.get(slot, state.home(slot)))
        assert (state.moved, state.load) == (before, loads)
