"""The LP relaxation as quotas: how much of a group should leave each rack, and where it should arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.lp_relaxation import Bound, DemandGroups
from kafkakit.placement.bytes.slots import SlotTable

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


class Quotas:
    """What is still to arrive, by group and rack.

    A group with replicas in rack r can get new ones there only in place of those that leave brokers of r (one
    copy of a partition a rack), so what arrives in r comes from r, and only the rest of what leaves r crosses
    over to racks where the group has no replicas.
    """

    def __init__(self, table: SlotTable, demand: DemandGroups, bound: Bound) -> None:
        self._group: Ints = demand.group_of
        self._part, self._home, self._rack = table.part, table.home, table.pool
        self._arriving: dict[int, dict[int, int]] = {}
        self._crossing: dict[tuple[int, int], int] = {}
        self._own: set[tuple[int, int]] = set()
        if demand.racks_bind:
            self._read(demand, bound)

    def _read(self, demand: DemandGroups, bound: Bound) -> None:
        racks = demand.rack
        cells = zip(demand.room_group.tolist(), demand.room_rack.tolist(), bound.arriving.tolist(), strict=True)
        for group, rack, load in cells:
            if load:
                self._arriving.setdefault(group, {})[rack] = load
        groups = demand.room_group[demand.held_cell].tolist()
        homes = racks[demand.held_broker].tolist()
        for group, rack, load in zip(groups, homes, bound.leaving.tolist(), strict=True):
            if load:
                self._crossing[group, rack] = self._crossing.get((group, rack), 0) + load
        self._own = {(g, r) for g, r in zip(groups, homes, strict=True)}
        for key in self._crossing:
            self._crossing[key] -= self._arriving.get(key[0], {}).get(key[1], 0)

    def racks(self, slot: int, size: int) -> Sequence[int]:
        """The racks that should take a slot of this size, as far as quota is left."""
        group, home = int(self._group[self._part[slot]]), int(self._rack[self._home[slot]])
        arriving = self._arriving.get(group, {})
        found = [home] if arriving.get(home, 0) * 2 >= size else []
        if self._crossing.get((group, home), 0) * 2 >= size:
            found += [r for r, load in arriving.items() if load * 2 >= size and (group, r) not in self._own]
        return found

    def use(self, slot: int, size: int, rack: int) -> None:
        """Count a slot that went to this rack."""
        group, home = int(self._group[self._part[slot]]), int(self._rack[self._home[slot]])
        arriving = self._arriving.get(group, {})
        if rack in arriving:
            arriving[rack] -= size
        if rack != home and (group, home) in self._crossing:
            self._crossing[group, home] -= size
