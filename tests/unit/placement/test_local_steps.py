"""Free steps; local steps after a first plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.placement.by_size.attempt import even_counts
from kafkakit.placement.by_size.local_steps import (
    FreeMoves,
    Leaders,
    Priced,
    Topics,
    free_fills,
    free_sheds,
    level_counts,
    looks_for,
    priced_fills,
    priced_sheds,
    repair,
    spread_topics,
)
from kafkakit.placement.by_size.slots import CountLimits, Pools, SearchState, SlotTable, counts_of, positions
from tests.clusters.storage_worlds import table_of, tables


def free_moves(table: SlotTable, moved: Mapping[int, int], *, ceiling: Sequence[int], floor: int = 0) -> FreeMoves:
    """The table with slots moved to brokers, both by index."""
    state = SearchState(table, [floor] * len(table.brokers), list(ceiling))
    for slot, dest in moved.items():
        state.move(slot, dest)
    return FreeMoves(state, counts_of(table, positions(state)))


def spread(free: FreeMoves, topic: Sequence[int], leaders: Leaders | None = None) -> Any:
    """Where slots are after spreading topics (a number per partition)."""
    at = positions(free.state)
    spread_topics(free, Topics(free, np.array(topic), at), leaders or Leaders([0] * len(at), ()))
    return positions(free.state).tolist()


def test_a_slot_goes_where_fewer_are() -> None:
    table = table_of([(1,)] * 4, [5, 5, 5, 5], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 1}, ceiling=[20, 20, 20])
    level_counts(free)
    assert sorted(free.counts) == [1, 1, 2]
    assert sorted(counts_of(table, positions(free.state))) == [1, 1, 2]
    assert sorted(free.state.moved) == [0, 1, 2], "other slots move, or fewer"


def test_a_full_broker_takes_nothing_more() -> None:
    table = table_of([(1,)] * 3, [5, 5, 5], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 1}, ceiling=[20, 20, 4])
    level_counts(free)
    assert free.counts == [0, 3, 0]


def test_what_a_floor_needs_stays() -> None:
    table = table_of([(1,), (1,), (1,), (2,)], [5, 5, 5, 1], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 1}, ceiling=[20, 20, 20])
    free.state.floor = [0, 16, 0]
    level_counts(free)
    assert free.counts == [0, 4, 0]


def test_two_small_slots_change_places_with_a_large_one() -> None:
    """Broker 2 holds six small slots and broker 3 one that weighs as much as two of them; no load may change."""
    table = table_of([(1,)] * 7, [2, 2, 2, 2, 2, 2, 4], [None] * 3)
    free = free_moves(table, {**dict.fromkeys(range(6), 1), 6: 2}, ceiling=[0, 12, 4])
    free.state.floor = [0, 12, 4]
    level_counts(free)
    assert free.counts == [0, 5, 2]
    assert free.state.load == [0, 12, 4]


def test_count_limits_hold() -> None:
    table = table_of([(1,)] * 4, [1] * 4, [None] * 3)
    limited = SlotTable(
        **{name: getattr(table, name) for name in SlotTable.__slots__} | {"counts": CountLimits((0,) * 3, (4, 4, 1))}
    )
    free = free_moves(limited, dict.fromkeys(range(4), 1), ceiling=[0, 9, 9])
    level_counts(free)
    assert free.counts == [0, 3, 1]


def test_a_broker_at_its_floor_gets_a_large_slot_so_that_it_may_give_small_ones() -> None:
    """Broker 1 has six slots and may keep five; 2 has as many as it may, and load to spare; 3 is at its floor, too."""
    table = table_of([(1,)] * 6 + [(2,)] * 5 + [(3,)], [1] * 6 + [1, 1, 1, 1, 3] + [1], [None] * 3)
    state = SearchState(table, [6, 0, 1], [10, 10, 10])
    assert even_counts(Pools(state), CountLimits((0, 0, 0), (5, 5, 5))) == 0
    at = positions(state)
    assert max(counts_of(table, at)) <= 5
    assert table.loads(at)[0] >= 6


def test_no_slot_takes_the_place_of_a_copy_that_left() -> None:
    """A copy on a broker that had one of the partition would be no copy: the plan would cost less than it says."""
    table = table_of([(1, 3), (1,)], [5, 5], [None] * 4)
    free = free_moves(table, {0: 1, 1: 3, 2: 1}, ceiling=[99] * 4)
    assert not free.may_go(0, 2)
    assert not free.may_go(0, 0)
    assert not free.may_go(0, 3)
    assert free.may_go(2, 2)


def test_an_exchange_spreads_two_topics() -> None:
    """Both brokers are full; each got two of one topic, and after an exchange one of each."""
    table = table_of([(1,)] * 4, [5, 5, 5, 5], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 2, 3: 2}, ceiling=[0, 10, 10], floor=0)
    free.state.floor = [0, 10, 10]
    at = spread(free, [0, 0, 1, 1])
    assert sorted(at[:2]) == sorted(at[2:]) == [1, 2]
    assert free.counts == [0, 2, 2]


def test_sizes_nearly_alike_are_exchanged_inside_the_limits_only() -> None:
    table = table_of([(1,)] * 4, [5, 5, 6, 6], [None] * 3)
    moved = {0: 1, 1: 1, 2: 2, 3: 2}
    assert spread(free_moves(table, moved, ceiling=[0, 10, 12]), [0, 0, 1, 1]) == [1, 1, 2, 2]
    at = spread(free_moves(table, moved, ceiling=[0, 11, 12]), [0, 0, 1, 1])
    assert sorted(at[:2]) == sorted(at[2:]) == [1, 2]


def test_racks_forbid_an_exchange() -> None:
    """Brokers 2 and 3 are in racks of their own; partitions 0 and 1 have their other copies in 3's rack."""
    table = table_of([(1, 4), (1, 4), (1, 5), (1, 5)], [5] * 4, ["a", "b", "c", "c", "b"])
    free = free_moves(table, {0: 1, 2: 1, 4: 2, 6: 2}, ceiling=[99] * 5)
    assert spread(free, [0, 0, 1, 1]) == [1, 3, 1, 3, 2, 4, 2, 4]


def test_leaders_stay_as_even() -> None:
    """Slots 0 and 1 lead, 2 and 3 follow: an exchange would make leaders less even than one and one."""
    table = table_of([(1,)] * 4, [5] * 4, [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 2, 3: 2}, ceiling=[0, 10, 10])
    leaders = Leaders([0, 2, 2], [0, 1])
    assert spread(free, [0, 0, 1, 1], leaders) == [1, 1, 2, 2]
    assert spread(free, [0, 0, 1, 1], Leaders([0, 2, 1], [0, 1])) != [1, 1, 2, 2]


def test_a_slot_alone_leaves_a_crowded_topic_only_for_a_broker_with_fewer() -> None:
    """The first slot may go to broker 3, with fewer slots than its own, though nothing comes back."""
    table = table_of([(1,), (1,), (2,)], [5, 5, 5], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1}, ceiling=[99] * 3)
    at = spread(free, [0, 0, 1])
    assert sorted(at[:2]) == [1, 2]
    assert free.counts == [0, 2, 1]


def test_work_is_limited() -> None:
    table = table_of([(1,)] * 4, [5] * 4, [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 1}, ceiling=[99] * 3)
    free.looks = 0
    level_counts(free)
    assert free.counts == [1, 3, 0]
    assert spread(free, [0] * 4) == [1, 1, 1, 0]
    assert looks_for(100) < looks_for(1000) < looks_for(10**6) == looks_for(10**7)


def test_a_mended_set_stays_mended() -> None:
    """Where only so many sets may break the rule, a rackless broker does not get the copy that repaired one."""
    racks = ["a", "a", None, "b", "c"]
    lists = [(1, 2, 3)]
    for most, allowed in ((None, True), (0, False)):
        table = table_of(lists, [5], [*racks, None], min_rack_ids=2, most_broken=most)
        free = free_moves(table, {2: 3}, ceiling=[99] * 6)
        assert free.may_go(2, 4)
        assert free.may_go(2, 5) is allowed


def test_nothing_moves_where_nothing_is_won() -> None:
    """Counts one apart; two topics of which one would sit as badly after an exchange as the other does before."""
    table = table_of([(1,)] * 3, [5] * 3, [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 2}, ceiling=[0, 99, 99])
    level_counts(free)
    assert (free.counts, free.steps) == ([0, 2, 1], 0)
    table = table_of([(1,), (1,), (1,), (2,), (3,)], [5, 5, 5, 1, 1], [None] * 3)
    free = free_moves(table, {0: 1, 1: 1, 2: 2}, ceiling=[0, 11, 6])
    # Topic 1 has its only slot on broker 3, and would meet another of its own on broker 2.
    assert spread(free, [0, 0, 1, 1, 2]) == [1, 1, 2, 1, 2]
    assert free.steps == 0


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
