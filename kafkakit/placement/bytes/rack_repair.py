"""Repair of sets that break the rack rule, where a request allows only so many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.slots import SlotTable

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


def broken_parts(table: SlotTable, at: Ints) -> Ints:
    """The partitions whose sets break the rack rule with slots on the brokers `at`, sorted. O(replicas)."""
    return table.groups.broken(table.part, table.pool[at], len(table.size))


def repair_racks(pools: Pools, at: Ints) -> int:
    """Move repeats of a rack elsewhere until few enough sets break the rule, small partitions first.

    Returns how many too many are left. Room is kept, floors are for the repair that follows.
    """
    state, table = pools.state, pools.state.table
    assert table.most_broken is not None
    broken = broken_parts(table, at).tolist()
    left = len(broken) - table.most_broken
    receivers = Receivers(state)
    for part in sorted(broken, key=lambda p: (int(table.size[p]), p)):
        if left <= 0:
            break
        left -= _repaired(pools, receivers, int(table.first[part]), int(table.first[part + 1]))
    return max(0, left)


def _repaired(pools: Pools, receivers: Receivers, first: int, last: int) -> bool:
    """Move later replicas out of repeated racks until the set obeys the rule."""
    state, table = pools.state, pools.state.table
    for slot in range(first, last):
        racks = [int(table.pool[state.broker(s)]) for s in range(first, last)]
        if not table.groups.violates(racks):
            return True
        here = racks[slot - first]
        if here < table.racks and racks.count(here) > 1 and table.movable[slot] and slot not in state.moved:
            dest = receivers.emptiest(slot, table.groups.emptiest(racks))
            if dest is not None:
                pools.take(((slot, dest),))
    racks = [int(table.pool[state.broker(s)]) for s in range(first, last)]
    return not table.groups.violates(racks)
