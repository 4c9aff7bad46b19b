"""Even counts beside even bytes: small slots move until every broker's count is inside its limits too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.pools import NEAR, Entry, Pools, around
from kafkakit.placement.bytes.receiving import Receivers
from kafkakit.placement.bytes.search_state import SearchState
from kafkakit.placement.bytes.slots import CountLimits, SlotTable

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

_TRADES = 24  # large slots taken by one broker in exchange for small ones
_SOME = 2  # fewer small slots for a large one would not change counts
_OFFERS = 12  # large slots of one broker that are looked at
_LOOKS = 400  # slots of one broker that may be refused in a row before it counts as immovable


class _Fewest(Receivers):
    """Receivers by rack, those with the fewest slots first."""

    def __init__(self, state: SearchState, counts: list[int]) -> None:
        self._counts = counts
        super().__init__(state)

    def fill(self, broker: int) -> int:
        """The broker's count."""
        return self._counts[broker]


def even_counts(pools: Pools, limits: CountLimits) -> int:
    """Move the smallest slots from brokers with too many to those with the fewest, inside all byte limits.

    Returns how many slots are left outside the limits. Cost: a heap step for each slot moved.
    """
    state = pools.state
    counts = counts_of(state.table, positions(state))
    receivers = _Fewest(state, counts)
    for broker in sorted(range(len(counts)), key=lambda b: (limits.ceiling[b] - counts[b], b)):
        _spread(pools, limits, counts, receivers, broker)
        for _ in range(_TRADES):
            if counts[broker] <= limits.ceiling[broker] or not _trade_away(pools, limits, counts, broker):
                break
            _spread(pools, limits, counts, receivers, broker)
    for broker in sorted(range(len(counts)), key=lambda b: (counts[b] - limits.floor[b], b)):
        _gather(pools, limits, counts, broker)
        for _ in range(_TRADES):
            if counts[broker] >= limits.floor[broker] or not _trade_for(pools, limits, counts, broker):
                break
            _gather(pools, limits, counts, broker)
    return limits.outside(counts)


def _spread(pools: Pools, limits: CountLimits, counts: list[int], receivers: _Fewest, broker: int) -> None:
    """Send small slots of a broker with too many to those with the fewest."""
    state = pools.state
    refused = 0
    for size, slot in _lightest(pools, broker):
        if counts[broker] <= limits.ceiling[broker] or refused > _LOOKS:
            break
        dest = receivers.emptiest(slot, ()) if state.can_give(broker, size) else None
        if dest is None or dest == broker or counts[dest] >= limits.ceiling[dest]:
            refused += 1
            continue
        _take(pools, counts, slot, broker, dest)


def _trade_away(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> bool:
    """A broker with too many small slots and no load to spare trades some for one large; True when it did."""
    state = pools.state
    most = counts[broker] - limits.ceiling[broker] + 1
    others = sorted(
        range(len(counts)), key=lambda b: (counts[b] - limits.ceiling[b], state.floor[b] - state.load[b], b)
    )
    return any(
        _trade(pools, counts, broker, other, min(most, limits.ceiling[other] - counts[other] + 1))
        for other in others[:NEAR]
        if other != broker
    )


def _trade_for(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> bool:
    """A broker with too few slots and no room for load trades a large one for small ones; True when it did."""
    most = limits.floor[broker] - counts[broker] + 1
    others = sorted(range(len(counts)), key=lambda b: (limits.floor[b] - counts[b], b))
    return any(
        _trade(pools, counts, other, broker, min(most, counts[other] - limits.floor[other] + 1))
        for other in others[:NEAR]
        if other != broker
    )


def _trade(pools: Pools, counts: list[int], heavy: int, light: int, most: int) -> bool:
    """One large slot of `light` for two or more, up to `most`, small ones of `heavy`; loads stay inside."""
    state = pools.state
    if most < _SOME:
        return False
    batch = sum(size for size, _ in pools.at_home(heavy)[:most])
    wanted = min(batch, state.ceiling[heavy] - state.load[heavy])
    for size, slot in around(pools.at_home(light), wanted, _OFFERS):
        if not state.can_give(light, size) or not state.can_take(heavy, size) or not state.fits(slot, heavy):
            continue
        small = _fitting(pools, heavy, light, size, most)
        if len(small) >= _SOME:
            _take(pools, counts, slot, light, heavy)
            for other in small:
                _take(pools, counts, other, heavy, light)
            return True
    return False


def _fitting(pools: Pools, broker: int, dest: int, load: int, most: int) -> list[int]:
    """The smallest slots at home on a broker that may go to `dest`, up to so much load and so many."""
    found: list[int] = []
    for size, slot in pools.at_home(broker)[:_LOOKS]:
        if size > load or len(found) >= most:
            break
        if pools.state.fits(slot, dest):
            found.append(slot)
            load -= size
    return found


def positions(state: SearchState) -> Ints:
    """The broker of every slot now."""
    at = state.table.home.copy()
    for slot, dest in state.moved.items():
        at[slot] = dest
    return at


def counts_of(table: SlotTable, at: Ints) -> list[int]:
    """The number of slots on each broker."""
    import numpy as np

    counts: list[int] = np.bincount(at, minlength=len(table.brokers)).tolist()
    return counts


def surplus_of(table: SlotTable) -> list[int]:
    """How many slots each broker has above the middle of its count limits; negative below it."""
    limits = table.counts
    if limits is None:
        return []
    counts = counts_of(table, table.home)
    return [n - (low + high) // 2 for n, low, high in zip(counts, limits.floor, limits.ceiling, strict=True)]


def _lightest(pools: Pools, broker: int) -> Iterator[Entry]:
    """Arrivals first, since they move anyway, then slots at home; smallest first."""
    yield from list(pools.arrived(broker))
    yield from list(pools.at_home(broker))


def _take(pools: Pools, counts: list[int], slot: int, source: int, dest: int) -> None:
    counts[source] -= 1
    counts[dest] += 1
    pools.take(((slot, dest),))


def _gather(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> None:
    """Bring small slots to a broker with too few, from those that have most above their floor."""
    state = pools.state
    if counts[broker] >= limits.floor[broker]:
        return
    for source in sorted(range(len(counts)), key=lambda b: (limits.floor[b] - counts[b], b)):
        refused = 0
        for size, slot in _lightest(pools, source):
            enough = counts[broker] >= limits.floor[broker] or counts[source] <= limits.floor[source]
            if source == broker or enough or refused > _LOOKS:
                break
            if state.can_take(broker, size) and state.can_give(source, size) and state.fits(slot, broker):
                _take(pools, counts, slot, source, broker)
            else:
                refused += 1
        if counts[broker] >= limits.floor[broker]:
            break
