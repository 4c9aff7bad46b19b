"""Replicas move so that every partition finds a leader within the ceilings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkakit.placement.bytes.even_counts import counts_of, positions
from kafkakit.placement.bytes.layout import lists_of
from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.leader_limits import NO_LEADER, LeaderLimits, leaders_within

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

_ROUNDS = 4


def leaders_at(table: SlotTable, at: Ints) -> Ints:
    """Who leads each partition within the ceilings with slots on the brokers `at`; `NO_LEADER` where no broker can."""
    if table.leaders is None:
        raise ValueError("the table limits no leaders")
    return leaders_within(lists_of(table, at), lists_of(table, table.home), table.brokers, table.leaders)


def without_leader(table: SlotTable, at: Ints) -> int:
    """How many partitions find no leader within the ceilings; 0 where there are none."""
    return 0 if table.leaders is None else int((leaders_at(table, at) == NO_LEADER).sum())


def repair_leaders(pools: Pools) -> int:
    """Bring a replica of each partition that finds no leader to a broker that may lead it; returns how many are left.

    Limits and rules are kept. A flow in each of a few rounds.
    """
    table = pools.state.table
    if table.leaders is None:
        return 0
    left = len(table.size)
    for _ in range(_ROUNDS):
        found = leaders_at(table, positions(pools.state)).tolist()
        lacking = [p for p, b in enumerate(found) if b == NO_LEADER]
        if not lacking or len(lacking) >= left:
            return len(lacking)
        left = len(lacking)
        _bring(pools, table.leaders, found, lacking)
    return without_leader(table, positions(pools.state))


def _bring(pools: Pools, limits: LeaderLimits, found: list[int], lacking: list[int]) -> None:
    state, table = pools.state, pools.state.table
    topic: list[int] = limits.topic.tolist()
    spare: list[int] = limits.most.tolist()
    led: dict[tuple[int, int], int] = {}
    fixed = limits.fixed.tolist()
    for part, b in enumerate(found):
        if b != NO_LEADER and not fixed[part]:
            spare[b] -= 1
            led[topic[part], b] = led.get((topic[part], b), 0) + 1
    counts = counts_of(table, positions(state))
    for part in lacking:
        for dest in sorted(pools.receivers, key=lambda b: (-spare[b], state.load[b] - state.ceiling[b], b)):
            key = topic[part], dest
            full = limits.of_topic is not None and led.get(key, 0) >= limits.topic_most(*key)
            if spare[dest] <= 0:
                break
            if not full and (slot := _slot_for(pools, part, dest, counts)) is not None:
                counts[state.broker(slot)] -= 1
                counts[dest] += 1
                pools.take(((slot, dest),))
                spare[dest] -= 1
                led[key] = led.get(key, 0) + 1
                break


def _slot_for(pools: Pools, part: int, dest: int, counts: list[int]) -> int | None:
    """A replica of the partition that may go there within all limits."""
    state, table = pools.state, pools.state.table
    for slot in range(int(table.first[part]), int(table.first[part + 1])):
        source, size = state.broker(slot), state.size(slot)
        if not table.movable[slot] or source == dest or not state.fits(slot, dest):
            continue
        if not state.can_take(dest, size) or not state.can_give(source, size):
            continue
        limits = table.counts
        if limits is None or (counts[dest] < limits.ceiling[dest] and counts[source] > limits.floor[source]):
            return slot
    return None
