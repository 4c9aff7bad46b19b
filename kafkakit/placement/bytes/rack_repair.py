"""Repair of sets that break the rack rule, where a request allows only so many of them."""

from typing import Any

from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.slots import Fleet


def broken_parts(fleet: Fleet, at: Any) -> Any:
    """The partitions whose sets break the rack rule with slots on the brokers `at`, sorted. O(replicas)."""
    return fleet.groups.broken(fleet.part, fleet.pool[at], len(fleet.size))


def unbreak(pools: Pools, at: Any) -> int:
    """Move repeats of a rack elsewhere until few enough sets break the rule, small partitions first.

    Returns how many too many are left. Room is kept, floors are for the repair that follows.
    """
    board, fleet = pools.board, pools.board.fleet
    assert fleet.most_broken is not None
    broken = broken_parts(fleet, at).tolist()
    left = len(broken) - fleet.most_broken
    receivers = Receivers(board)
    for part in sorted(broken, key=lambda p: (int(fleet.size[p]), p)):
        if left <= 0:
            break
        left -= _unbroken(pools, receivers, int(fleet.first[part]), int(fleet.first[part + 1]))
    return max(0, left)


def _unbroken(pools: Pools, receivers: Receivers, first: int, last: int) -> bool:
    """Move later replicas out of repeated racks until the set obeys the rule."""
    board, fleet = pools.board, pools.board.fleet
    for slot in range(first, last):
        racks = [int(fleet.pool[board.broker(s)]) for s in range(first, last)]
        if not fleet.groups.violates(racks):
            return True
        here = racks[slot - first]
        if here < fleet.racks and racks.count(here) > 1 and fleet.movable[slot] and slot not in board.moved:
            dest = receivers.emptiest(slot, fleet.groups.emptiest(racks))
            if dest is not None:
                pools.take(((slot, dest),))
    racks = [int(fleet.pool[board.broker(s)]) for s in range(first, last)]
    return not fleet.groups.violates(racks)
