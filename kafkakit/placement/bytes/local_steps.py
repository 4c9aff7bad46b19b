"""Local steps after a first plan: a slot moves, or two change places, so that a broker comes inside its limits.

Shedding brings a broker below its ceiling, filling brings one above its floor. Steps without cost take slots that
move anyway; the others copy more. Every step states what is still missing after it and what it adds to the cost.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from kafkakit.placement.bytes.pools import NEAR, Entry, Pools, around, spread

Step = tuple[tuple[int, int], ...]
"""(slot, destination) moves that belong together."""
Priced = tuple[int, int, Step]
"""Load still missing afterwards, added cost, the step."""


def free_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps without cost: an arrival goes elsewhere, or changes places with a smaller one."""
    state = pools.state
    yield from _sent_away(pools, broker, pools.arrived(broker), excess, is_free=True)
    for dest in [b for b in _roomy(pools, broker, 1) if state.arrived[b]]:
        room = state.ceiling[dest] - state.load[dest]
        yield from _exchanges(pools, broker, dest, excess, room, sign=-1)


def priced_sheds(pools: Pools, broker: int, excess: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot leaves in place of one that left, one more leaves, two change places."""
    state = pools.state
    gone = [(size, slot) for size, slot in pools.moved if state.home(slot) == broker]
    yield from _replacements(pools, gone, excess, broker)
    yield from _sent_away(pools, broker, pools.at_home(broker), excess, is_free=False)
    yield from _swaps(pools, broker, excess)


def free_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps without cost: a slot that moves anyway comes here, or changes places with one that came."""
    state = pools.state
    for size, slot in around(pools.moved, lack):
        source = state.moved[slot]
        if source == broker or not state.can_take(broker, size) or not state.can_give(source, size):
            continue
        if state.fits(slot, broker):
            yield (max(0, lack - size), 0, ((slot, broker),))
    room = state.ceiling[broker] - state.load[broker]
    for source in _sparing(pools, broker):
        spare = min(state.load[source] - state.floor[source], room)
        yield from _exchanges(pools, broker, source, lack, spare, sign=1)


def priced_fills(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """Steps that cost: a larger slot in place of an arrival, another slot of a giver, one more slot, a swap."""
    yield from _compensated(pools, broker, lack)
    yield from _replacements(pools, pools.arrived(broker), lack, None)
    yield from _redirections(pools, broker, lack)
    yield from _additions(pools, broker, lack)


def _sent_away(pools: Pools, broker: int, entries: Sequence[Entry], excess: int, *, is_free: bool) -> Iterator[Priced]:
    """One of the entries goes to the roomiest broker that may take it."""
    for size, slot in around(entries, excess):
        for dest in _roomy(pools, broker, size):
            if pools.state.fits(slot, dest):
                yield (max(0, excess - size), 0 if is_free else size, ((slot, dest),))
                break


def _exchanges(pools: Pools, broker: int, other: int, missing: int, limit: int, *, sign: int) -> Iterator[Priced]:
    """An arrival of the broker and one of another change places; `sign` is 1 to gain load and -1 to lose it.

    The smallest gain that is enough, else the largest below the limit.
    """
    theirs = pools.arrived(other)
    for size, slot in spread(pools.arrived(broker)):
        at = bisect_left(theirs, (size + sign * min(missing, limit), -1))
        for partner, back in theirs[at : at + 1] + theirs[max(0, at - 1) : at]:
            gain = sign * (partner - size)
            if 0 < gain <= limit and _swappable(pools, slot, back, broker, other):
                yield (max(0, missing - gain), 0, ((slot, other), (back, broker)))


def _replacements(pools: Pools, moved: Sequence[Entry], missing: int, shedding: int | None) -> Iterator[Priced]:
    """A moved slot goes home, and a larger slot of that home goes where it was.

    Only a shedding home may end below its floor: filling comes after, and plans come out closer than without.
    """
    state = pools.state
    for small, back in spread(moved):
        home, dest = state.home(back), state.broker(back)
        for size, slot in around(pools.at_home(home), small + missing, 8):
            gain = size - small
            if gain <= 0 or not state.can_take(dest, gain) or not (home == shedding or state.can_give(home, gain)):
                continue
            if state.fits(slot, dest) and state.fits(back, home):
                yield (max(0, missing - gain), gain, ((back, home), (slot, dest)))
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


def _swappable(pools: Pools, slot: int, other: int, broker: int, dest: int) -> bool:
    state = pools.state
    return state.fits(slot, dest) and state.fits(other, broker)


def _roomy(pools: Pools, broker: int, size: int) -> list[int]:
    """Receivers that can take so much, the roomiest first."""
    state = pools.state
    found = [b for b in pools.receivers if b != broker and state.can_take(b, size)]
    return sorted(found, key=lambda b: (state.load[b] - state.ceiling[b], b))[:NEAR]


def _sparing(pools: Pools, broker: int) -> list[int]:
    """Other brokers with arrivals and load above their floors, those that can spare most first."""
    return _above_floor(pools, broker, (b for b, slots in enumerate(pools.state.arrived) if slots))


def _above_floor(pools: Pools, broker: int, among: Iterable[int]) -> list[int]:
    state = pools.state
    found = [(state.floor[b] - state.load[b], b) for b in among if b != broker and state.load[b] > state.floor[b]]
    return [b for _, b in sorted(found)[:NEAR]]


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
    sparing = [(state.load[b] - state.floor[b], pools.arrived_from(b)) for b in _sparing(pools, broker)]
    found = 0
    for home in sorted({home for _, entries in sparing for home in entries}):
        if found >= _ENOUGH:
            break
        going = sorted(e for spare, entries in sparing for e in entries.get(home, ()) if e[0] <= spare)
        if not going:
            continue
        for size, slot in around(pools.at_home(home), lack):
            if not state.can_take(broker, size) or not state.fits(slot, broker):
                continue
            room = state.ceiling[home] - state.load[home]
            at = bisect_left(going, (size + room + 1, -1)) - 1
            if at >= 0 and state.fits(going[at][1], home):
                back, other = going[at]
                if state.can_give(home, size - back):
                    yield (max(0, lack - size), max(0, size - back), ((other, home), (slot, broker)))
                    found += 1
                    break


def _additions(pools: Pools, broker: int, lack: int) -> Iterator[Priced]:
    """One more slot of a giver comes here."""
    state = pools.state
    for home in _above_floor(pools, broker, pools.givers):
        for size, slot in around(pools.at_home(home), lack, 16):
            if state.can_take(broker, size) and state.can_give(home, size) and state.fits(slot, broker):
                yield (max(0, lack - size), size, ((slot, broker),))
                break
