"""Mending sets that break the rack rule, where a request allows only so many of them."""

from typing import Any

from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.slots import Fleet


def broken_parts(fleet: Fleet, at: Any) -> Any:
    """The partitions whose sets break the rack rule with slots on the brokers `at`, sorted. O(replicas)."""
    import numpy as np

    pool = fleet.pool[at]
    if fleet.rule.spread_over:
        # Only racks that hold something have a number; the others keep a column of nothing.
        spread = [int(r) for r in fleet.rule.spread_over]
        held = np.zeros((len(fleet.size), fleet.racks + 1), dtype=np.int64)
        np.add.at(held, (fleet.part, pool), 1)
        counts = np.stack([held[:, r] if r >= 0 else np.zeros(len(held), dtype=np.int64) for r in spread], axis=1)
        return np.nonzero(counts.max(axis=1) - counts.min(axis=1) > 1)[0]
    real = pool < fleet.racks
    part, pool = fleet.part[real], pool[real]
    order = np.lexsort((pool, part))
    part, pool = part[order], pool[order]
    again = np.zeros(len(part), dtype=bool)
    again[1:] = (part[1:] == part[:-1]) & (pool[1:] == pool[:-1])
    repeating = np.unique(part[again])
    if not fleet.rule.min_rack_ids:
        return repeating
    distinct = np.bincount(part[~again], minlength=len(fleet.size))
    return repeating[distinct[repeating] < fleet.rule.min_rack_ids]


def unbreak(pools: Pools, at: Any) -> int:
    """Move repeats of a rack elsewhere until few enough sets break the rule, small partitions first.

    Returns how many too many are left. Room is kept, floors are for the mending that follows.
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
        if not fleet.rule.violates([str(r) if r < fleet.racks else None for r in racks]):
            return True
        here = racks[slot - first]
        if here < fleet.racks and racks.count(here) > 1 and fleet.movable[slot] and slot not in board.moved:
            dest = receivers.emptiest(slot, _emptiest_racks(fleet, racks))
            if dest is not None:
                pools.take(((slot, dest),))
    racks = [int(fleet.pool[board.broker(s)]) for s in range(first, last)]
    return not fleet.rule.violates([str(r) if r < fleet.racks else None for r in racks])


def _emptiest_racks(fleet: Fleet, racks: list[int]) -> list[int]:
    """The racks of an even spread that hold the fewest replicas of a set."""
    counts = {r: racks.count(r) for r in map(int, fleet.rule.spread_over)}
    return [r for r, n in counts.items() if n == min(counts.values())]
