"""What any plan must copy at least: the placement problem with partitions that may be split, solved exactly.

Partitions with the same racks, whose new copies may go to the same brokers, are taken together as one divisible demand
group. What is left is a small flow: it goes to racks (at most one copy of it in each, where the rack rule says so), in
a rack it stays on the brokers that hold it for nothing or goes to any receiver that tags leave to it at a cost of one
per unit, and every broker ends between its floor and its ceiling. Every real plan is such a flow of the same cost, so
the least flow is a lower bound; its broker prices are the proof (see `price_bound`). Spread over tags is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.slots import SlotTable, summed
from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

MAX_GROUPS = 4000
_FITS = 1 << 61


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandGroups:
    """The table's movable slots as demand; `group_of` is each partition's.

    `held` rows are (cell, broker, load) of what may stay for nothing, `copies` a group's load over all its movable
    replicas. A cell is a group in a rack: `room` rows are (group, rack, load), what the group may place there.
    `loose` is the load that no slot of the table can move, per broker. Groups have a `kind`, and `open` has a row for
    each kind with the brokers that its new copies may go to. Where racks cannot bind (or there are too many kinds of
    rack sets) all of a kind is one group in one rack, which is a weaker but still valid bound.
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
    kind: Ints
    open: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least load that has to be copied, and the broker prices that prove it.

    `outside` is load that the LP relaxation cannot bring inside the limits. Of one cheapest relaxed plan: `ends` are
    brokers' loads, `leaving` what leaves of each held load (rows of `DemandGroups.held_load`), `arriving` what
    each cell gets (rows of `DemandGroups.room_load`).
    """

    value: int
    outside: int
    prices: Ints
    ends: Ints
    leaving: Ints
    arriving: Ints

    @property
    def weighed(self) -> int:
        """Value and penalty together: what the LP relaxation minimises, convex in the limits."""
        return self.value + PENALTY * self.outside


def demand_groups_of(table: SlotTable, *, apart: bool = False) -> DemandGroups:
    """Gather slots into demand, `apart` with a group for each partition. O(replicas), half a second for 600,000."""
    import numpy as np

    # Rackless brokers are places of their own, except where copies stay in their rack: there they are one.
    rack = table.pool if table.locality_scoped else table.rack
    size = table.slot_size
    loose = table.fixed + summed(table.home[~table.movable], size[~table.movable], len(table.brokers))
    kinds, open_to = _kinds(table)
    group_of = _group_numbers(table, kinds)
    racks_bind = group_of is not None
    if apart and racks_bind:
        group_of = np.arange(len(table.size))
    if group_of is None:
        rack = np.zeros_like(rack)
        group_of = kinds
    groups = int(group_of.max(initial=-1)) + 1
    kind = np.zeros(groups, dtype=np.int64)
    kind[group_of] = kinds
    slots = np.nonzero(table.movable)[0]
    group = group_of[table.part[slots]]
    brokers = len(table.brokers)
    cells, row = np.unique(group * brokers + table.home[slots], return_inverse=True)
    held = summed(row.ravel(), size[slots], len(cells))
    cells, held = cells[held > 0], held[held > 0]
    racks = int(rack.max(initial=-1)) + 1
    room = _rooms(table, group_of, groups, rack, racks)
    places = np.nonzero(room)[0]
    return DemandGroups(
        groups=groups,
        group_of=group_of,
        copies=summed(group, size[slots], groups),
        held_cell=np.searchsorted(places, cells // brokers * racks + rack[cells % brokers]),
        held_broker=cells % brokers,
        held_load=held,
        room_group=places // racks,
        room_rack=places % racks,
        room_load=room[places],
        loose=loose,
        rack=rack,
        racks_bind=racks_bind,
        kind=kind,
        open=open_to,
    )


def _kinds(table: SlotTable) -> tuple[Ints, Bools]:
    """The kind of each partition by its tags, and the brokers open to each; one kind where there are too many."""
    import numpy as np

    if table.tags is None or len(table.tags.kinds[1]) > MAX_GROUPS:
        return np.zeros(len(table.size), dtype=np.int64), np.ones((1, len(table.brokers)), dtype=bool)
    of_part, open_to = table.tags.kinds
    return np.array(of_part, dtype=np.int64), np.array(open_to, dtype=bool).reshape(len(open_to), len(table.brokers))


def _group_numbers(table: SlotTable, kinds: Ints) -> Ints | None:
    """A number per partition: equal for equal kinds and sets of (movable racks, fixed racks).

    None when racks cannot bind, or with too many numbers.
    """
    import numpy as np

    free = _unbound(table)
    if free.all() and not table.locality_scoped:
        return None
    racks = int(table.rack.max(initial=-1)) + 1
    words = (2 * racks + 63) // 63
    key = np.zeros((len(table.size), words), dtype=np.int64)
    key[free, 2 * racks // 63] = np.int64(1) << (2 * racks % 63)
    bit = np.where(table.movable, table.rack[table.home], racks + table.rack[table.home])
    np.bitwise_or.at(key, (table.part, bit // 63), np.int64(1) << (bit % 63))
    _, numbers = np.unique(np.column_stack([kinds, key]), axis=0, return_inverse=True)
    numbers = numbers.ravel()
    return numbers if int(numbers.max(initial=-1)) < MAX_GROUPS else None


def _unbound(table: SlotTable) -> Bools:
    """The partitions whose copies may share racks: even spread of more copies than racks is not looked at here."""
    import numpy as np

    return table.groups.may_share(np.diff(table.first))


def _rooms(table: SlotTable, group_of: Ints, groups: int, rack: Ints, racks: int) -> Ints:
    """How much of each group each rack may hold, as a flat (group x rack) array."""
    import numpy as np

    size = table.slot_size
    there = np.zeros(groups * racks, dtype=np.int64)
    np.add.at(there, group_of[table.part] * racks + rack[table.home], np.where(table.movable, size, 0))
    if table.locality_scoped:
        return there
    whole = np.repeat(summed(group_of, table.size, groups), racks)
    pinned = np.zeros(groups * racks, dtype=bool)
    still = ~table.movable
    pinned[group_of[table.part[still]] * racks + rack[table.home[still]]] = True
    if (rack == 0).all():
        return np.full(groups * racks, int(size.sum()), dtype=np.int64)
    # What stands there already may stay, even where it breaks the rule; nothing may come on top.
    rooms = np.where(pinned, there, np.maximum(whole, there))
    loose = np.zeros(groups, dtype=bool)
    loose[group_of[_unbound(table)]] = True
    return np.where(np.repeat(loose, racks), np.repeat(summed(group_of[table.part], size, groups), racks), rooms)


PENALTY = 1 << 20
"""The price of load outside a limit: above any real price, which cannot exceed the network's count of nodes."""


def least_cost(table: SlotTable, demand: DemandGroups, floor: Ints, ceiling: Ints) -> Bound:
    """The least load to copy so that every broker ends within [floor, ceiling], with load outside at a penalty.

    `outside` of the answer is the least load that must stay outside the limits; the limits can be kept by split
    plans only if it is 0. About 10 ms for 600 brokers in 6 racks.
    """
    import numpy as np

    count, cells = len(table.brokers), len(demand.room_group)
    high = np.maximum(ceiling, 0)
    low = np.clip(floor, 0, high)
    clash = floor - ceiling
    total, loose = int(demand.copies.sum()), demand.loose
    wanted = low - np.minimum(loose, 0)
    network = FlowNetwork()
    group, cell = network.nodes(demand.groups), network.nodes(cells)
    racks = int(demand.rack.max(initial=-1)) + 1
    pool, broker = network.nodes(racks * len(demand.open)), network.nodes(count)
    sink, lender = network.nodes(1), network.nodes(1)
    index, places = np.arange(count), np.arange(cells)
    network.supply(group + np.arange(demand.groups), demand.copies)
    network.supply(broker + index, loose - low)
    network.supply(lender, int(wanted.sum()))
    network.supply(sink, int((low - loose).sum()) - total - int(wanted.sum()))
    network.arcs(group + demand.room_group, cell + places, demand.room_load, 0)
    stay = network.arcs(cell + demand.held_cell, broker + demand.held_broker, demand.held_load, 0)
    first = demand.kind[demand.room_group] * racks
    enter = network.arcs(cell + places, pool + first + demand.room_rack, demand.room_load, 1)
    kind, takers = np.nonzero(demand.open & table.receiver)
    come, stay_over = _widths(demand, high, total, brokers=count)
    network.arcs(pool + kind * racks + demand.rack[takers], broker + takers, come[takers], 0)
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
        leaving=demand.held_load - network.flow(stay),
        arriving=network.flow(enter),
    )


def _widths(demand: DemandGroups, high: Ints, total: int, *, brokers: int) -> tuple[Ints, Ints]:
    """What may come to each broker, and what may end above its ceiling: as good as anything.

    Where that adds up to more than 64 bits (from 16 PiB on 600 brokers), limits that no cheapest plan reaches: it
    brings nothing to a broker above its ceiling, since staying costs no more. One unit more keeps them from binding,
    as these limits have no price.
    """
    import numpy as np

    loose = demand.loose
    if (total + int(np.abs(loose).max(initial=0))) * (brokers + 1) < _FITS:
        return np.full(brokers, total), total + np.maximum(loose, 0)
    at_rest = loose + summed(demand.held_broker, demand.held_load, brokers)
    return np.clip(high - loose, 0, total) + 1, np.maximum(at_rest - high, 0) + 1
