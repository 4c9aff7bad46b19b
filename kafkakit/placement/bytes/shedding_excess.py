"""Steps that lower the load of a broker above its ceiling."""

from bisect import bisect_left
from collections.abc import Iterator

from kafkakit.placement.bytes.filling_deficits import Priced
from kafkakit.placement.bytes.pools import NEAR, Pools, around, spread


def free_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps without cost: an arrival goes elsewhere, or changes places with a smaller one."""
    state = pools.state
    mine = pools.arrived(broker)
    for size, slot in around(mine, excess):
        for dest in _roomy(pools, broker, size):
            if state.fits(slot, dest):
                yield (max(0, excess - size), 0, ((slot, dest),))
                break
    roomy = [b for b in _roomy(pools, broker, 1) if state.arrived[b]]
    for dest in roomy:
        room = state.ceiling[dest] - state.load[dest]
        theirs = pools.arrived(dest)
        for size, slot in spread(mine):
            at = bisect_left(theirs, (size - min(excess, room), -1))
            for small, other in theirs[at : at + 1] + theirs[max(0, at - 1) : at]:
                gain = size - small
                if 0 < gain <= room and _swappable(pools, slot, other, broker, dest):
                    yield (max(0, excess - gain), 0, ((slot, dest), (other, broker)))


def _swappable(pools: Pools, slot: int, other: int, broker: int, dest: int) -> bool:
    state = pools.state
    return state.part(slot) != state.part(other) and state.fits(slot, dest) and state.fits(other, broker)


def priced_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot leaves in place of one that left, one more leaves, two change places."""
    yield from _larger(pools, broker, excess)
    yield from _more(pools, broker, excess)
    yield from _swaps(pools, broker, excess)


def _larger(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    state = pools.state
    gone_away = [(size, slot) for size, slot in pools.moved if state.home(slot) == broker]
    for small, gone in spread(gone_away):
        dest = state.moved[gone]
        for size, slot in around(pools.at_home(broker), small + excess, 8):
            gain = size - small
            if gain > 0 and state.can_take(dest, gain) and state.fits(slot, dest) and state.fits(gone, broker):
                yield (max(0, excess - gain), gain, ((gone, broker), (slot, dest)))
                break


def _more(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    state = pools.state
    for size, slot in around(pools.at_home(broker), excess):
        for dest in _roomy(pools, broker, size):
            if state.fits(slot, dest):
                yield (max(0, excess - size), size, ((slot, dest),))
                break


def _swaps(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """A slot of this broker and a smaller one of another change places: for brokers without room on their own."""
    state = pools.state
    if not state.table.receiver[broker]:
        return
    for dest in pools.receivers[: NEAR * 4]:
        room = state.ceiling[dest] - state.load[dest]
        theirs = pools.at_home(dest) if dest in pools.giving else []
        if dest == broker or room <= 0 or not theirs:
            continue
        for size, slot in pools.at_home(broker)[-NEAR:]:
            at = bisect_left(theirs, (size - min(excess, room), -1))
            for small, other in theirs[at : at + 2]:
                gain = size - small
                if 0 < gain <= room and _swappable(pools, slot, other, broker, dest):
                    yield (max(0, excess - gain), size + small, ((slot, dest), (other, broker)))
                    break


def _roomy(pools: Pools, broker: int, size: int) -> Iterator[int]:
    """Receivers that can take so much, the roomiest first."""
    state = pools.state
    found = [b for b in pools.receivers if b != broker and state.can_take(b, size)]
    yield from sorted(found, key=lambda b: (state.load[b] - state.ceiling[b], b))[:NEAR]
