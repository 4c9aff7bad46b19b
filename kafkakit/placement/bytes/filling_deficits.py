"""Steps that raise the load of a broker below its floor."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kafkakit.placement.bytes.pools import NEAR, Entry, Pools, around, spread

Step = tuple[tuple[int, int], ...]
"""(slot, destination) moves that belong together."""
Priced = tuple[int, int, Step]
"""Load still missing afterwards, added cost, the step."""


def free_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps without cost: a slot that moves anyway comes here, or changes places with one that came."""
    yield from _transfers(pools, broker, lack)
    yield from _exchanges(pools, broker, lack)


def priced_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot in place of an arrival, another slot of a giver, one more slot, a swap."""
    yield from _compensated(pools, broker, lack)
    yield from _replacements(pools, broker, lack)
    yield from _redirections(pools, broker, lack)
    yield from _additions(pools, broker, lack)


def _transfers(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    state = pools.state
    for size, slot in around(pools.moved, lack):
        source = state.moved[slot]
        if source == broker or not state.can_take(broker, size) or not state.can_give(source, size):
            continue
        if state.fits(slot, broker):
            yield (max(0, lack - size), 0, ((slot, broker),))


def _exchanges(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    state = pools.state
    room = state.ceiling[broker] - state.load[broker]
    mine = spread(pools.arrived(broker))
    for source in _sparing(pools, broker):
        spare = min(state.load[source] - state.floor[source], room)
        theirs = pools.arrived(source)
        for small, slot in mine:
            # The smallest gain that is enough, else the largest that can be spared.
            at = bisect_left(theirs, (small + min(lack, spare), -1))
            for size, other in theirs[at : at + 1] + theirs[max(0, at - 1) : at]:
                gain = size - small
                if 0 < gain <= spare and _swappable(pools, slot, other, broker, source):
                    yield (max(0, lack - gain), 0, ((slot, source), (other, broker)))


def _sparing(pools: Pools, broker: int) -> list[int]:
    """Other brokers with arrivals and load above their floors, those that can spare most first."""
    state = pools.state
    found = [
        (state.floor[b] - state.load[b], b)
        for b, slots in enumerate(state.arrived)
        if slots and b != broker and state.load[b] > state.floor[b]
    ]
    return [b for _, b in sorted(found)[:NEAR]]


def _swappable(pools: Pools, mine: int, other: int, broker: int, source: int) -> bool:
    state = pools.state
    return state.part(mine) != state.part(other) and state.fits(mine, source) and state.fits(other, broker)


def _replacements(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """An arrival goes home, and a larger slot of that home comes in its place."""
    state = pools.state
    for small, mine in spread(pools.arrived(broker)):
        home = state.home(mine)
        for size, slot in around(pools.at_home(home), small + lack, 8):
            gain = size - small
            if gain <= 0 or not state.can_take(broker, gain) or not state.can_give(home, gain):
                continue
            if state.fits(slot, broker) and state.fits(mine, home):
                yield (max(0, lack - gain), gain, ((mine, home), (slot, broker)))
                break


def _compensated(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Two exchanges at one home: a broker with slack gets a smaller slot of it, this one as much larger a slot."""
    state = pools.state
    slack: dict[int, list[int]] = {}
    for dest in _sparing(pools, broker):
        for _, slot in spread(pools.arrived(dest)):
            slack.setdefault(state.home(slot), []).append(slot)
    found = 0
    for own, mine in spread(pools.arrived(broker)):
        home = state.home(mine)
        entries = pools.at_home(home)
        for theirs in slack.get(home, ())[:_PAIRS]:
            dest, size = state.moved[theirs], state.size(theirs)
            less = min(lack, state.load[dest] - state.floor[dest])
            smaller = _first_legal(pools, entries, size - less, dest)
            if smaller is None or smaller[0] >= size:
                continue
            down = size - smaller[0]
            bigger = _first_legal(pools, entries, own + down, broker)
            if bigger is None:
                continue
            gain = bigger[0] - own
            if not state.can_take(broker, gain) or not state.can_give(home, gain - down):
                continue
            parts = {state.part(s) for s in (mine, theirs, smaller[1], bigger[1])}
            if len(parts) == _APART and state.fits(mine, home) and state.fits(theirs, home):
                step = ((mine, home), (theirs, home), (smaller[1], dest), (bigger[1], broker))
                yield (max(0, lack - gain), gain - down, step)
                found += 1
        if found >= _ENOUGH:
            break


_PAIRS = 6  # exchanges tried against one slot
_ENOUGH = 12  # good steps to choose from
_APART = 4  # all four slots must be of different partitions


def _first_legal(pools: Pools, entries: Sequence[Entry], size: int, dest: int) -> Entry | None:
    """The smallest slot of at least this size that may go to `dest`, among the next few."""
    at = bisect_left(entries, (size, -1))
    return next((entry for entry in entries[at : at + NEAR] if pools.state.fits(entry[1], dest)), None)


def _redirections(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """A slot that went elsewhere goes home, and another of that home, about as large, comes here instead."""
    state = pools.state
    going: dict[int, list[Entry]] = {}
    for dest in _sparing(pools, broker):
        for entry in pools.arrived(dest):
            if not state.can_give(dest, entry[0]):
                break
            going.setdefault(state.home(entry[1]), []).append(entry)
    found = 0
    for home in sorted(going):
        if found >= _ENOUGH:
            break
        going[home].sort()
        for size, slot in around(pools.at_home(home), lack):
            if not state.can_take(broker, size) or not state.fits(slot, broker):
                continue
            room = state.ceiling[home] - state.load[home]
            at = bisect_left(going[home], (size + room + 1, -1)) - 1
            if at >= 0 and state.fits(going[home][at][1], home):
                back, other = going[home][at]
                if state.can_give(home, size - back):
                    yield (max(0, lack - size), max(0, size - back), ((other, home), (slot, broker)))
                    found += 1
                    break


def _additions(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    state = pools.state
    spare = sorted(
        (b for b in pools.givers if b != broker and state.load[b] > state.floor[b]),
        key=lambda b: (state.floor[b] - state.load[b], b),
    )
    for home in spare[:NEAR]:
        for size, slot in around(pools.at_home(home), lack, 16):
            if state.can_take(broker, size) and state.can_give(home, size) and state.fits(slot, broker):
                yield (max(0, lack - size), size, ((slot, broker),))
                break
