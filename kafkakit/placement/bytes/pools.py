"""Slots sorted by size: those that move, and those still at home on each broker; kept up to date while searching."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.search_state import SearchState

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

Entry = tuple[int, int]
"""(size, slot)"""
NEAR = 48
"""How many slots are looked at on either side of a wanted size."""


class Pools:
    """The state's slots by size; `take` makes a step on the state and keeps the lists right."""

    def __init__(self, state: SearchState) -> None:
        import numpy as np

        table = state.table
        slots = np.nonzero(table.movable)[0]
        order = np.lexsort((slots, table.size[table.part[slots]], table.home[slots]))
        self.state = state
        self._slots = slots[order]
        self._sizes = table.size[table.part[self._slots]]
        homes = table.home[self._slots]
        self._starts: Ints = np.searchsorted(homes, np.arange(len(table.brokers) + 1))
        self._lists: dict[int, list[Entry]] = {}
        self.givers: list[int] = np.unique(homes).tolist()
        self.giving = frozenset(self.givers)
        self.receivers: list[int] = np.nonzero(table.receiver)[0].tolist()
        self.moved: list[Entry] = sorted((state.size(s), s) for s in state.moved)
        self._arrived: dict[int, list[Entry]] = {}
        self._arrived_from: dict[int, dict[int, list[Entry]]] = {}

    def at_home(self, broker: int) -> list[Entry]:
        """The movable slots that are still at home on a broker, smallest first."""
        entries = self._lists.get(broker)
        if entries is None:
            begin, end = self._starts[broker], self._starts[broker + 1]
            every = zip(self._sizes[begin:end].tolist(), self._slots[begin:end].tolist(), strict=True)
            entries = self._lists[broker] = [e for e in every if e[1] not in self.state.moved]
        return entries

    def arrived(self, broker: int) -> list[Entry]:
        """The slots that came to a broker, smallest first."""
        entries = self._arrived.get(broker)
        if entries is None:
            entries = self._arrived[broker] = sorted((self.state.size(s), s) for s in self.state.arrived[broker])
        return entries

    def arrived_from(self, broker: int) -> dict[int, list[Entry]]:
        """The slots that came to a broker, by the broker that they came from."""
        found = self._arrived_from.get(broker)
        if found is None:
            found = self._arrived_from[broker] = {}
            for entry in self.arrived(broker):
                found.setdefault(self.state.home(entry[1]), []).append(entry)
        return found

    def take(self, step: Sequence[tuple[int, int]]) -> None:
        """Make the moves (slot, destination) of a step."""
        for slot, dest in step:
            state, home = self.state, self.state.home(slot)
            was, source = slot in state.moved, state.broker(slot)
            state.move(slot, dest)
            for broker in (source, dest):
                self._arrived.pop(broker, None)
                self._arrived_from.pop(broker, None)
            if was == (slot in state.moved):
                continue
            entry = (state.size(slot), slot)
            _change(self.moved, entry, add=not was)
            if home in self._lists:
                _change(self._lists[home], entry, add=was)


def _change(entries: list[Entry], entry: Entry, *, add: bool) -> None:
    if add:
        insort(entries, entry)
    else:
        at = bisect_left(entries, entry)
        if at < len(entries) and entries[at] == entry:
            del entries[at]


def around(entries: Sequence[Entry], size: int, near: int = NEAR) -> Iterator[Entry]:
    """Entries near a size: those at or above it first, smallest first, then those below, largest first."""
    at = bisect_left(entries, (size, -1))
    yield from entries[at : at + near]
    yield from reversed(entries[max(0, at - near) : at])


def spread(entries: Sequence[Entry]) -> Sequence[Entry]:
    """At most `NEAR` entries, evenly over all sizes."""
    return entries if len(entries) <= NEAR else [entries[i * len(entries) // NEAR] for i in range(NEAR)]
