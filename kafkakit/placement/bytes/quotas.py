"""The split plan as quotas: how much of a group should leave each rack, and where it should arrive."""

from collections.abc import Sequence
from typing import Any

from kafkakit.placement.bytes.lp_relaxation import Bound, Masses
from kafkakit.placement.bytes.slots import Fleet


class Quotas:
    """What is still to arrive, by group and rack.

    A group with replicas in rack r can get new ones there only in place of those that leave brokers of r (one
    copy of a partition a rack), so what arrives in r comes from r, and only the rest of what leaves r crosses
    over to racks where the group has no replicas.
    """

    def __init__(self, fleet: Fleet, masses: Masses, bound: Bound) -> None:
        self._group: Any = masses.group_of
        self._part, self._home, self._rack = fleet.part, fleet.home, fleet.pool
        self._arriving: dict[int, dict[int, int]] = {}
        self._crossing: dict[tuple[int, int], int] = {}
        self._own: set[tuple[int, int]] = set()
        if masses.racks_bind:
            self._read(masses, bound)

    def _read(self, masses: Masses, bound: Bound) -> None:
        racks = masses.rack
        cells = zip(masses.room_group.tolist(), masses.room_rack.tolist(), bound.arriving.tolist(), strict=True)
        for group, rack, load in cells:
            if load:
                self._arriving.setdefault(group, {})[rack] = load
        groups = masses.room_group[masses.held_cell].tolist()
        homes = racks[masses.held_broker].tolist()
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
