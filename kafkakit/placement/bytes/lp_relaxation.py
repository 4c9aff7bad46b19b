"""What any plan must copy at least: the placement problem with partitions that may be split, solved exactly.

Partitions with the same racks are taken together as one divisible mass. What is left is a small flow: a mass
goes to racks (at most one copy of it in each, where the rack rule says so), in a rack it stays on the brokers
that hold it for nothing or goes to any receiver at a cost of one per unit, and every broker ends between its
floor and its ceiling. Every real plan is such a flow of the same cost, so the least flow is a lower bound; its
broker prices are the proof (`certificate.py`).
"""

from dataclasses import dataclass
from typing import Any

from kafkakit.placement.bytes.slots import Fleet, summed
from kafkakit.placement.network import FlowNetwork

Ints = Any
Bools = Any
MAX_GROUPS = 4000
_FITS = 1 << 61


@dataclass(frozen=True, slots=True, kw_only=True)
class Masses:
    """The fleet's movable slots as masses; `group_of` is each partition's.

    `held` rows are (cell, broker, load) of what may stay for nothing, `copies` a group's load over all its movable
    replicas. A cell is a group in a rack: `room` rows are (group, rack, load), what the group may place there.
    `loose` is the load that no slot of the fleet can move, per broker. Where racks cannot bind (or there are too
    many kinds of rack sets) all is one group in one rack, which is a weaker but still valid bound.
    """

    groups: int
    group_of: Ints
    copies: Ints
    held_cell: Ints
    held_broker: Ints
    held_load: Ints
    room_group: Ints
    room_rack: Ints
    room_load: Ints
    loose: Ints
    rack: Ints
    racks_bind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least load that has to be copied, and the broker prices that prove it.

    `outside` is load that no split plan can bring inside the limits. Of one cheapest split plan: `ends` is each
    broker's load, `leaving` what leaves of each held mass (rows of `Masses.held_load`), `arriving` what each cell
    gets anew (rows of `Masses.room_load`).
    """

    value: int
    outside: int
    prices: Ints
    ends: Ints
    leaving: Ints
    arriving: Ints

    @property
    def weighed(self) -> int:
        """Value and penalty together: what the split plan minimises, convex in the limits."""
        return self.value + PENALTY * self.outside


def masses_of(fleet: Fleet) -> Masses:
    """Gather slots into masses. O(replicas), half a second for 600,000."""
    import numpy as np

    # Rackless brokers are places of their own, except where copies stay in their rack: there they are one.
    rack = fleet.pool if fleet.locality_scoped else fleet.rack
    size = fleet.slot_size
    loose = fleet.fixed + summed(fleet.home[~fleet.movable], size[~fleet.movable], len(fleet.brokers))
    group_of = _group_numbers(fleet)
    racks_bind = group_of is not None
    if group_of is None:
        rack = np.zeros_like(rack)
        group_of = np.zeros(len(fleet.size), dtype=np.int64)
    groups = int(group_of.max(initial=-1)) + 1
    slots = np.nonzero(fleet.movable)[0]
    group = group_of[fleet.part[slots]]
    brokers = len(fleet.brokers)
    held = np.zeros(groups * brokers, dtype=np.int64)
    np.add.at(held, group * brokers + fleet.home[slots], size[slots])
    cells = np.nonzero(held)[0]
    racks = int(rack.max(initial=-1)) + 1
    room = _rooms(fleet, group_of, groups, rack, racks)
    places = np.nonzero(room)[0]
    return Masses(
        groups=groups,
        group_of=group_of,
        copies=summed(group, size[slots], groups),
        held_cell=np.searchsorted(places, cells // brokers * racks + rack[cells % brokers]),
        held_broker=cells % brokers,
        held_load=held[cells],
        room_group=places // racks,
        room_rack=places % racks,
        room_load=room[places],
        loose=loose,
        rack=rack,
        racks_bind=racks_bind,
    )


def _group_numbers(fleet: Fleet) -> Ints | None:
    """A number per partition: equal for equal sets of (movable racks, fixed racks); None when racks cannot bind."""
    import numpy as np

    free = _unbound(fleet)
    if free.all() and not fleet.locality_scoped:
        return None
    racks = int(fleet.rack.max(initial=-1)) + 1
    words = (2 * racks + 63) // 63
    key = np.zeros((len(fleet.size), words), dtype=np.int64)
    key[free, 2 * racks // 63] = np.int64(1) << (2 * racks % 63)
    bit = np.where(fleet.movable, fleet.rack[fleet.home], racks + fleet.rack[fleet.home])
    np.bitwise_or.at(key, (fleet.part, bit // 63), np.int64(1) << (bit % 63))
    _, numbers = np.unique(key, axis=0, return_inverse=True)
    numbers = numbers.ravel()
    return numbers if int(numbers.max(initial=-1)) < MAX_GROUPS else None


def _unbound(fleet: Fleet) -> Bools:
    """The partitions whose copies may share racks: even spread of more copies than racks is not looked at here."""
    import numpy as np

    return fleet.groups.may_share(np.diff(fleet.first))


def _rooms(fleet: Fleet, group_of: Ints, groups: int, rack: Ints, racks: int) -> Ints:
    """How much of each group each rack may hold, as a flat (group x rack) array."""
    import numpy as np

    size = fleet.slot_size
    there = np.zeros(groups * racks, dtype=np.int64)
    np.add.at(there, group_of[fleet.part] * racks + rack[fleet.home], np.where(fleet.movable, size, 0))
    if fleet.locality_scoped:
        return there
    whole = np.repeat(summed(group_of, fleet.size, groups), racks)
    pinned = np.zeros(groups * racks, dtype=bool)
    still = ~fleet.movable
    pinned[group_of[fleet.part[still]] * racks + rack[fleet.home[still]]] = True
    if (rack == 0).all():
        return np.full(groups * racks, int(size.sum()), dtype=np.int64)
    # What stands there already may stay, even where it breaks the rule; nothing may come on top.
    rooms = np.where(pinned, there, np.maximum(whole, there))
    loose = np.zeros(groups, dtype=bool)
    loose[group_of[_unbound(fleet)]] = True
    return np.where(np.repeat(loose, racks), np.repeat(summed(group_of[fleet.part], size, groups), racks), rooms)


PENALTY = 1 << 20
"""The price of load outside a limit: above any real price, which cannot exceed the network's count of nodes."""


def least_cost(fleet: Fleet, masses: Masses, floor: Ints, ceiling: Ints) -> Bound:
    """The least load to copy so that every broker ends within [floor, ceiling], with load outside at a penalty.

    `outside` of the answer is the least load that must stay outside the limits; the limits can be kept by split
    plans only if it is 0. About 10 ms for 600 brokers in 6 racks.
    """
    import numpy as np

    count, cells = len(fleet.brokers), len(masses.room_group)
    high = np.maximum(ceiling, 0)
    low = np.clip(floor, 0, high)
    clash = floor - ceiling
    total, loose = int(masses.copies.sum()), masses.loose
    wanted = low - np.minimum(loose, 0)
    network = FlowNetwork()
    group, cell = network.nodes(masses.groups), network.nodes(cells)
    pool, broker = network.nodes(int(masses.rack.max(initial=-1)) + 1), network.nodes(count)
    sink, lender = network.nodes(1), network.nodes(1)
    index, places = np.arange(count), np.arange(cells)
    network.supply(group + np.arange(masses.groups), masses.copies)
    network.supply(broker + index, loose - low)
    network.supply(lender, int(wanted.sum()))
    network.supply(sink, int((low - loose).sum()) - total - int(wanted.sum()))
    network.arcs(group + masses.room_group, cell + places, masses.room_load, 0)
    stay = network.arcs(cell + masses.held_cell, broker + masses.held_broker, masses.held_load, 0)
    enter = network.arcs(cell + places, pool + masses.room_rack, masses.room_load, 1)
    takers = np.nonzero(fleet.receiver)[0]
    come, stay_over = _widths(masses, high, total, brokers=count)
    network.arcs(pool + masses.rack[takers], broker + takers, come[takers], 0)
    inside = network.arcs(broker + index, sink, high - low, 0)
    over = network.arcs(broker + index, sink, stay_over, PENALTY)
    lent = network.arcs(lender, broker + index, wanted, PENALTY)
    network.arcs(lender, sink, int(wanted.sum()), 0)
    network.solve()
    outside = int(network.flow(over).sum() + network.flow(lent).sum())
    potentials = network.potentials()
    return Bound(
        value=int(network.flow(enter).sum()),
        outside=outside + int(np.maximum(clash, 0).sum()),
        prices=potentials[sink] - potentials[broker : broker + count],
        ends=low - network.flow(lent) + network.flow(inside) + network.flow(over),
        leaving=masses.held_load - network.flow(stay),
        arriving=network.flow(enter),
    )


def _widths(masses: Masses, high: Ints, total: int, *, brokers: int) -> tuple[Ints, Ints]:
    """What may come to each broker, and what may end above its ceiling: as good as anything.

    Where that adds up to more than 64 bits (from 16 PiB on 600 brokers), limits that no cheapest plan reaches: it
    brings nothing to a broker above its ceiling, since staying costs no more. One unit more keeps them from binding,
    as these limits have no price.
    """
    import numpy as np

    loose = masses.loose
    if (total + int(np.abs(loose).max(initial=0))) * (brokers + 1) < _FITS:
        return np.full(brokers, total), total + np.maximum(loose, 0)
    at_rest = loose + summed(masses.held_broker, masses.held_load, brokers)
    return np.clip(high - loose, 0, total) + 1, np.maximum(at_rest - high, 0) + 1
