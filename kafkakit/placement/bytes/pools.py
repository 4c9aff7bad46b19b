"""Slots sorted by size: those that move, and those still at home on each broker; kept up to date while searching."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any

from kafkakit.placement.bytes.search_state import Board

Entry = tuple[int, int]
"""(size, slot)"""
NEAR = 48
"""How many slots are looked at on either side of a wanted size."""


class Pools:
    """The board's slots by size; `take` makes a step on the board and keeps the lists right."""

    def __init__(self, board: Board) -> None:
        import numpy as np

        fleet = board.fleet
        slots = np.nonzero(fleet.movable)[0]
        order = np.lexsort((slots, fleet.size[fleet.part[slots]], fleet.home[slots]))
        self.board = board
        self._slots = slots[order]
        self._sizes = fleet.size[fleet.part[self._slots]]
        homes = fleet.home[self._slots]
        self._starts: Any = np.searchsorted(homes, np.arange(len(fleet.brokers) + 1))
        self._lists: dict[int, list[Entry]] = {}
        self.givers: list[int] = np.unique(homes).tolist()
        self.giving = frozenset(self.givers)
        self.receivers: list[int] = np.nonzero(fleet.receiver)[0].tolist()
        self.moved: list[Entry] = sorted((board.size(s), s) for s in board.moved)
        self._arrived: dict[int, list[Entry]] = {}

    def at_home(self, broker: int) -> list[Entry]:
        """The movable slots that are still at home on a broker, smallest first."""
        entries = self._lists.get(broker)
        if entries is None:
            begin, end = self._starts[broker], self._starts[broker + 1]
            every = zip(self._sizes[begin:end].tolist(), self._slots[begin:end].tolist(), strict=True)
            entries = self._lists[broker] = [e for e in every if e[1] not in self.board.moved]
        return entries

    def arrived(self, broker: int) -> list[Entry]:
        """The slots that came to a broker, smallest first."""
        entries = self._arrived.get(broker)
        if entries is None:
            entries = self._arrived[broker] = sorted((self.board.size(s), s) for s in self.board.arrived[broker])
        return entries

    def take(self, step: Sequence[tuple[int, int]]) -> None:
        """Make the moves (slot, destination) of a step."""
        for slot, dest in step:
            board, home = self.board, self.board.home(slot)
            was, source = slot in board.moved, board.broker(slot)
            board.move(slot, dest)
            self._arrived.pop(source, None)
            self._arrived.pop(dest, None)
            if was == (slot in board.moved):
                continue
            entry = (board.size(slot), slot)
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
