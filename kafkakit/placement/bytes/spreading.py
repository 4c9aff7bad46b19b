"""Free steps after a plan is found: moved slots go elsewhere, so that counts and topics are spread more evenly.

No step adds a move or takes one away, so bytes and copies stay what they are; loads stay inside the state's limits.
Work is limited by counts of looks, never by the clock, so that the same input gives the same free.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.local_steps import Step
from kafkakit.placement.bytes.pools import Entry
from kafkakit.placement.bytes.search_state import SearchState

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

MOST_LOOKS = 150_000
"""Looks at most for one goal, 0.3 s: one for each place weighed, some more for each that is tried."""
_FEWEST_LOOKS = 8_000
_LOOKS_PER_MOVE = 16
_TRIED = 8  # looks that asking the rules about a place is worth
_ROUNDS = 4
_SLOTS = 6  # slots of one broker that are tried for one place
_PLACES = 16  # brokers that are tried for one slot


def looks_for(moves: int) -> int:
    """How many looks one goal is worth in a plan with so many moves."""
    return min(MOST_LOOKS, _FEWEST_LOOKS + _LOOKS_PER_MOVE * moves)


class FreeMoves:
    """The moved slots by broker and size, and what is counted while they change places."""

    def __init__(self, state: SearchState, counts: Sequence[int]) -> None:
        self.state = state
        self.counts = list(counts)
        self.looks = looks_for(len(state.moved))
        self.steps = 0
        self.receivers: list[int] = [b for b, takes in enumerate(state.table.receiver.tolist()) if takes]
        self.pool: list[int] = state.table.pool.tolist()
        self.arrived: list[list[Entry]] = [sorted((state.size(s), s) for s in row) for row in state.arrived]

    def may_go(self, slot: int, dest: int) -> bool:
        """True when the rules let the slot go there, and it would be a move as much as before."""
        state = self.state
        self.looks -= _TRIED
        if dest == state.home(slot) or any(dest == state.home(s) for s in state.siblings(slot)):
            return False  # a copy that is there already would not move
        return state.fits(slot, dest)

    def move(self, slot: int, dest: int) -> None:
        """Send a moved slot elsewhere."""
        entry, source = (self.state.size(slot), slot), self.state.broker(slot)
        entries = self.arrived[source]
        del entries[bisect_left(entries, entry)]
        insort(self.arrived[dest], entry)
        self.counts[source] -= 1
        self.counts[dest] += 1
        self.state.move(slot, dest)

    def take(self, step: Step) -> None:
        """Make the moves of one step."""
        for slot, dest in step:
            self.move(slot, dest)
        self.steps += 1

    def shift(self, source: int, dest: int) -> tuple[int, int]:
        """The least and the most load that may go from one broker to the other in all."""
        state = self.state
        least = max(state.load[source] - state.ceiling[source], state.floor[dest] - state.load[dest])
        return least, min(state.load[source] - state.floor[source], state.ceiling[dest] - state.load[dest])


def level_counts(free: FreeMoves) -> None:
    """Even the receivers' counts: one slot goes to a broker with fewer, or two in exchange for one as large."""
    for _ in range(_ROUNDS):
        before = free.steps
        order = sorted(free.receivers, key=lambda b: (free.counts[b], b))
        for source in (b for b in reversed(order) if free.arrived[b]):
            for dest in order:
                if free.counts[source] - free.counts[dest] < 2 or free.looks <= 0:
                    break
                _hand_over(free, source, dest)
        if free.steps == before or free.looks <= 0:
            return


def _hand_over(free: FreeMoves, source: int, dest: int) -> bool:
    """One slot fewer on the source and one more on the destination, if limits and rules let that be."""
    free.looks -= 1
    limits = free.state.table.counts
    if limits is not None and (
        free.counts[source] <= limits.floor[source] or free.counts[dest] >= limits.ceiling[dest]
    ):
        return False
    least, most = free.shift(source, dest)
    entries = free.arrived[source]
    first = bisect_left(entries, (least, -1))
    for size, slot in entries[first : first + _SLOTS]:
        if size > most:
            break
        if free.may_go(slot, dest):
            free.take(((slot, dest),))
            return True
    return _two_for_one(free, source, dest, least, most)


def _two_for_one(free: FreeMoves, source: int, dest: int, least: int, most: int) -> bool:
    mine = free.arrived[source]
    for small, slot in list(mine[:_SLOTS]):
        for large, back in list(free.arrived[dest][-_SLOTS:]):
            free.looks -= 1
            wanted = large - small
            for _, other in _between(mine, wanted + least, wanted + most, wanted):
                if free.state.part(other) in (free.state.part(slot), free.state.part(back)) or other == slot:
                    continue
                if free.state.part(slot) == free.state.part(back):
                    break
                if free.may_go(slot, dest) and free.may_go(other, dest) and free.may_go(back, source):
                    free.take(((slot, dest), (other, dest), (back, source)))
                    return True
                break
    return False


def _between(entries: Sequence[Entry], least: int, most: int, wanted: int) -> Iterator[Entry]:
    """A few entries of sizes between two, nearest the wanted one."""
    low, high = bisect_left(entries, (least, -1)), bisect_right(entries, (most + 1, -1))
    at = min(max(low, bisect_left(entries, (wanted, -1)) - _SLOTS // 2), max(low, high - _SLOTS))
    yield from entries[at : min(high, at + _SLOTS)]


class Topics:
    """How many slots of each topic every broker holds; `topic` numbers the topic of each partition."""

    def __init__(self, free: FreeMoves, topic: Ints, at: Ints) -> None:
        import numpy as np

        table = free.state.table
        self._numbers: list[int] = topic.tolist()
        self._part = free.state.part
        of_slot = topic[table.part]
        order = np.argsort(of_slot, kind="stable")
        self._at = at[order]
        self._starts = np.searchsorted(of_slot[order], np.arange(int(topic.max(initial=-1)) + 2))
        self._rows: dict[int, list[int]] = {}
        self._brokers = len(table.brokers)

    def topic(self, slot: int) -> int:
        """The number of a slot's topic."""
        return self._numbers[self._part(slot)]

    def row(self, topic: int) -> list[int]:
        """The topic's slots by broker. Counted when it is first asked for: nothing of the topic moved until then."""
        import numpy as np

        found = self._rows.get(topic)
        if found is None:
            held = self._at[self._starts[topic] : self._starts[topic + 1]]
            found = self._rows[topic] = np.bincount(held, minlength=self._brokers).tolist()
        return found

    def move(self, slot: int, source: int, dest: int) -> None:
        """Count a slot on another broker."""
        row = self.row(self.topic(slot))
        row[source] -= 1
        row[dest] += 1


class Leaders:
    """The leaders of each broker, and the slots of changed partitions that lead."""

    def __init__(self, counts: Sequence[int], leading: Sequence[int]) -> None:
        self.counts = list(counts)
        self._leading = frozenset(leading)

    def keep(self, slot: int, dest: int, other: int | None, source: int) -> bool:
        """True when leaders stay as even if the slot and the other (if any) change places."""
        there, back = slot in self._leading, other in self._leading
        return there == back or (
            self.counts[dest] < self.counts[source] if there else self.counts[source] < self.counts[dest]
        )

    def move(self, slot: int, source: int, dest: int) -> None:
        """Count a slot on another broker."""
        if slot in self._leading:
            self.counts[source] -= 1
            self.counts[dest] += 1


def spread_topics(free: FreeMoves, topics: Topics, leaders: Leaders) -> None:
    """Take slots off brokers with many of their topic: elsewhere alone, or in exchange for one nearly as large.

    Counts and leaders get no less even.
    """
    state = free.state
    for _ in range(_ROUNDS):
        before = free.steps
        crowded = [(topics.row(topics.topic(s))[b], s) for s, b in state.moved.items()]
        for _, slot in sorted((-many, s) for many, s in crowded if many > 1):
            if free.looks <= 0:
                return
            _relieve(free, topics, leaders, slot)
        if free.steps == before:
            return


def _relieve(free: FreeMoves, topics: Topics, leaders: Leaders, slot: int) -> None:
    """Send one slot where its topic has at least two fewer."""
    state = free.state
    source, row = state.broker(slot), topics.row(topics.topic(slot))
    taken, racks = state.legal(slot)
    allowed, pool, most = set(racks), free.pool, row[source] - 1
    free.looks -= _TRIED
    places = [b for b in free.receivers if row[b] < most and pool[b] in allowed and b not in taken]
    # From another place each time, so that not all slots crowd onto the first brokers.
    start = slot % len(places) if places else 0
    for dest in [*places[start:], *places[:start]][:_PLACES]:
        free.looks -= 1
        step = _exchange(free, topics, leaders, slot, dest)
        if step:
            for moved, to in step:
                topics.move(moved, state.broker(moved), to)
                leaders.move(moved, state.broker(moved), to)
            free.take(step)
            return


def _exchange(free: FreeMoves, topics: Topics, leaders: Leaders, slot: int, dest: int) -> Step:
    """What sends the slot there, alone or for a slot of another topic, and spreads topics; or nothing."""
    state = free.state
    source, size, mine = state.broker(slot), state.size(slot), topics.row(topics.topic(slot))
    least, most = free.shift(source, dest)
    alone = state.table.counts is None and free.counts[dest] < free.counts[source] and least <= size <= most
    allowed: bool | None = None
    if alone and leaders.keep(slot, dest, None, source):
        allowed = free.may_go(slot, dest)
        if allowed:
            return ((slot, dest),)
    gain = mine[source] - mine[dest] - 1
    for _, other in _between(free.arrived[dest], size - most, size - least, size):
        free.looks -= 1
        theirs = topics.row(topics.topic(other))
        better = theirs is not mine and gain + theirs[dest] - theirs[source] - 1 > 0
        if not better or not leaders.keep(slot, dest, other, source):
            continue
        allowed = free.may_go(slot, dest) if allowed is None else allowed
        if not allowed:
            break
        if free.may_go(other, source):
            return ((slot, dest), (other, source))
    return ()
