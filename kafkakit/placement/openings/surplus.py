"""Sets with more replicas than may stay: the part of the flow that chooses which of them do.

partition -> (partition, group): `base` replicas of a group may stay, more only by a slot of its own, or at a price
          -> broker: at the price of that replica
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


@dataclass(frozen=True, slots=True)
class Surplus:
    """A partition (by index) that keeps `stay` of its `replicas`; `prices` say what it costs to keep each.

    Replicas with equal `groups` share a group, -1 is none and always may stay. In each group `base` replicas may
    stay, and over all groups `slots` more, at most `extra` in one.
    """

    index: int
    replicas: tuple[int, ...]
    prices: tuple[int, ...]
    groups: tuple[int, ...]
    stay: int
    base: int = 1
    slots: int = 0
    extra: int = 0


class SurplusFlow:
    """The part of a network that chooses who stays; arrays are made once and wired for every solve."""

    def __init__(self, rows: Sequence[Surplus], place: Mapping[int, int], repeat_price: int | None) -> None:
        """Lay the replicas out; `place` gives each broker's node, counted from the first.

        With a `repeat_price` every replica beyond its group's base pays it, and slots are not counted.
        """
        import numpy as np

        def column(values: Sequence[int]) -> "Ints":
            return np.array(values, dtype=np.int64)

        self._rows, self._repeat_price = rows, repeat_price
        self._part = column([n for n, row in enumerate(rows) for _ in row.replicas])
        self._broker = column([place[b] for row in rows for b in row.replicas])
        self._price = column([price for row in rows for price in row.prices])
        group = column([g for row in rows for g in row.groups])
        self._grouped = group >= 0
        most = int(group.max(initial=0)) + 1
        cells = self._part[self._grouped] * most + group[self._grouped]
        unique, self._cell, self._size = np.unique(cells, return_inverse=True, return_counts=True)
        self._cell_row = unique // most
        self._stay, self._base, self._slots, self._extra = (
            column([getattr(row, name) for row in rows]) for name in ("stay", "base", "slots", "extra")
        )
        self._block = -1

    def wire(self, network: FlowNetwork, brokers: int) -> None:
        """Add the partitions to a network whose broker nodes start at `brokers`."""
        import numpy as np

        if not self._rows:
            return
        count, cells = len(self._rows), len(self._cell_row)
        index, cell_index = np.arange(count), np.arange(cells)
        source = network.nodes(count)
        priced = self._repeat_price is not None
        slots = source if priced else network.nodes(count)
        cell = network.nodes(cells)
        network.supply(source + index, self._stay)
        if not priced:
            network.arcs(source + index, slots + index, self._slots, 0)
        network.arcs(source + self._cell_row, cell + cell_index, self._base[self._cell_row], 0)
        again = np.nonzero(self._size > 1)[0] if priced else cell_index
        most = self._size if priced else self._extra[self._cell_row]
        network.arcs(slots + self._cell_row[again], cell + again, most[again], self._repeat_price or 0)
        tails = source + self._part
        tails[self._grouped] = cell + self._cell
        self._block = network.arcs(tails, brokers + self._broker, 1, self._price)

    def staying(self, network: FlowNetwork) -> dict[int, tuple[int, ...]]:
        """The replicas that stay, by partition index, after a solve."""
        if not self._rows:
            return {}
        flow = iter(network.flow(self._block).tolist())
        return {row.index: tuple(b for b in row.replicas if next(flow)) for row in self._rows}

    @property
    def total(self) -> int:
        """How many replicas stay in all."""
        return sum(row.stay for row in self._rows)
