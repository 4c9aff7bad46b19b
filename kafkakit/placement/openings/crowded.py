"""Crowded sets: partitions some of whose replicas must leave, and the choice of which.

partition -> (partition, rack): `base` replicas of a rack may stay, more only by one of the partition's slots
          -> broker: cheapest for the leader, dear for a copy out of sync or on a dead broker, else by position
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.placement.counts.trimming import LEVEL_PRICE
from kafkakit.placement.network import FlowNetwork

# Above what evenness can cost a single replica, see `fill.py`; below the leader's.
_STALE = 10**10
_LEADER = -(10**12)


@dataclass(frozen=True, slots=True)
class Crowded:
    """A partition (by index) that keeps `stay` of its `replicas`.

    In each rack `base` replicas may stay, and over all racks `slots` more, at most `extra` in one rack;
    replicas without a rack always may. `stale` are those not alive or not in sync.
    """

    index: int
    replicas: tuple[int, ...]
    stay: int
    base: int
    slots: int
    extra: int
    stale: frozenset[int] = frozenset()


class CrowdedFlow:
    """The part of a network that chooses who stays; arrays are made once and wired for every solve."""

    def __init__(self, rows: Sequence[Crowded], racks: Mapping[int, str | None], place: Mapping[int, int]) -> None:
        """Lay the replicas out as arrays; `place` gives each broker's node, counted from the first."""
        import numpy as np

        self._rows = rows
        items = [
            (n, place[b], racks.get(b) or None, _price(row, position, b))
            for n, row in enumerate(rows)
            for position, b in enumerate(row.replicas)
        ]
        pairs: dict[tuple[int, str], int] = {}
        pair_of = [pairs.setdefault((n, rack), len(pairs)) if rack else -1 for n, _, rack, _ in items]
        self._part, self._broker, self._cost = (np.array([r[k] for r in items], dtype=np.int64) for k in (0, 1, 3))
        self._pair = np.array(pair_of, dtype=np.int64)
        self._pair_row = np.array([n for n, _ in pairs], dtype=np.int64)
        self._facts = {
            name: np.array([getattr(row, name) for row in rows], dtype=np.int64)
            for name in ("stay", "base", "slots", "extra")
        }
        self._block = -1

    def wire(self, network: FlowNetwork, brokers: int) -> None:
        """Add the partitions to a network whose broker nodes start at `brokers`."""
        import numpy as np

        if not self._rows:
            return
        count, facts = len(self._rows), self._facts
        rows = np.arange(count)
        source, slots, pair = network.nodes(count), network.nodes(count), network.nodes(len(self._pair_row))
        pairs = np.arange(len(self._pair_row))
        network.supply(source + rows, facts["stay"])
        network.arcs(source + rows, slots + rows, facts["slots"], 0)
        if len(pairs):
            network.arcs(source + self._pair_row, pair + pairs, facts["base"][self._pair_row], 0)
            network.arcs(slots + self._pair_row, pair + pairs, facts["extra"][self._pair_row], 0)
        tails = np.where(self._pair >= 0, pair + self._pair, source + self._part)
        self._block = network.arcs(tails, brokers + self._broker, 1, self._cost)

    def staying(self, network: FlowNetwork) -> dict[int, tuple[int, ...]]:
        """The replicas that stay, by partition index, after a solve."""
        if not self._rows:
            return {}
        flow: Any = iter(network.flow(self._block).tolist())
        return {row.index: tuple(b for b in row.replicas if next(flow)) for row in self._rows}

    @property
    def place_costs(self) -> int:
        """All that the places of replicas in their lists can add up to in a solve."""
        return sum(min(k, LEVEL_PRICE - 1) for row in self._rows for k in range(len(row.replicas)))

    @property
    def total(self) -> int:
        """How many replicas stay in all."""
        return sum(row.stay for row in self._rows)


def _price(row: Crowded, position: int, broker: int) -> int:
    if broker in row.stale:
        return _STALE
    return _LEADER if position == 0 else min(position, LEVEL_PRICE - 1)
