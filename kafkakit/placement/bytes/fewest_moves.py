"""Plans of few copies: a flow in which a unit of a large replica is cheap, and what its prices prove.

The LP relaxation of `lp_relaxation` with another price, partition by partition: a replica of size s that leaves as a
whole costs one, so each of its units costs 1 / s. Brokers that hold too much give their largest replicas, as far as
racks and tags let these go where load is wanted. Sizes are taken in units of a millionth of the largest, so the flow
only guides a plan; its prices are added up exactly for the bound (`price_bound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.certificate import Proof
from kafkakit.placement.bytes.lp_relaxation import Bound, DemandGroups, demand_groups_of
from kafkakit.placement.bytes.proof import proof_of
from kafkakit.placement.bytes.slots import SlotTable, summed
from kafkakit.placement.bytes.window import Window
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.price_bound import LegalSets, price_bound

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

_UNITS = 20  # bits of the largest size
_PRICE = 1 << 30  # of a replica of one unit that leaves
_OUTSIDE = 4 * _PRICE  # of a unit outside the limits
_SAFE = 1 << 58  # prices times loads of a partition stay below this
MOST_CELLS = 1_500_000
"""Partitions times racks up to which the flow is solved: about 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewMoves:
    """What leaves: whole `slots`, and the flow that they come from, as the demand and bound that `Quotas` reads.

    `prices` over `price_unit` are those of the brokers, in copies a byte.
    """

    slots: Sequence[int]
    demand: DemandGroups
    bound: Bound
    prices: Ints
    price_unit: int


def few_moves(table: SlotTable, window: Window) -> FewMoves | None:
    """Solve the flow for these limits; None where nothing may move or it is too large. Cost: see `MOST_CELLS`."""
    import numpy as np

    count = len(table.brokers)
    slots = np.nonzero(table.movable & (table.slot_size > 0))[0]
    if not len(slots) or len(table.size) * (int(table.rack.max(initial=0)) + 1) > MOST_CELLS:
        return None
    demand = demand_groups_of(table, apart=True)
    home, group = table.home[slots], demand.group_of[table.part[slots]]
    unit = max(1, int(table.slot_size[slots].max()) >> _UNITS)
    size = np.maximum(1, table.slot_size[slots] // unit)
    racks, cells = int(demand.rack.max(initial=-1)) + 1, len(demand.room_group)
    cell = np.searchsorted(demand.room_group * racks + demand.room_rack, group * racks + demand.rack[home])
    low = np.maximum(0, window.floor // unit - demand.loose // unit - 1)
    high = np.maximum(low, -(-window.ceiling // unit) - demand.loose // unit + 1)
    total, index, places = int(size.sum()), np.arange(count), np.arange(cells)
    room = np.maximum(1, demand.room_load // unit)
    network = FlowNetwork()
    groups, first_cell = network.nodes(demand.groups), network.nodes(cells)
    pool, brokers = network.nodes(racks * len(demand.open)), network.nodes(count)
    sink, lender = network.nodes(1), network.nodes(1)
    network.supply(groups + np.arange(demand.groups), summed(group, size, demand.groups))
    network.supply(brokers + index, -low)
    network.supply(lender, int(low.sum()))
    network.supply(sink, -total)
    network.arcs(groups + demand.room_group, first_cell + places, room, 0)
    stay = network.arcs(first_cell + cell, brokers + home, size, _PRICE - _PRICE // size)
    kinds = demand.kind[demand.room_group] * racks
    enter = network.arcs(first_cell + places, pool + kinds + demand.room_rack, room, _PRICE)
    kind, takers = np.nonzero(demand.open & table.receiver)
    network.arcs(pool + kind * racks + demand.rack[takers], brokers + takers, total, 0)
    network.arcs(brokers + index, sink, high - low, 0)
    network.arcs(brokers + index, sink, total, _OUTSIDE)
    network.arcs(lender, brokers + index, low, _OUTSIDE)
    network.arcs(lender, sink, int(low.sum()), 0)
    network.solve()
    moved = size - network.flow(stay)
    held = demand.room_group[demand.held_cell] * count + demand.held_broker
    leaving = summed(np.searchsorted(held, group * count + home), moved * unit, len(held))
    potentials = network.potentials()
    prices = potentials[sink] - potentials[brokers : brokers + count]
    shrunk = max(0, (int(table.size.max()) * int(np.abs(prices).max())).bit_length() - _SAFE.bit_length())
    return FewMoves(
        slots=_whole(slots, size, moved, home),
        demand=demand,
        bound=replace(window.bound, leaving=leaving, arriving=network.flow(enter) * unit),
        prices=prices >> shrunk,
        price_unit=max(1, _PRICE * unit >> shrunk),
    )


def _whole(slots: Ints, size: Ints, moved: Ints, home: Ints) -> list[int]:
    """Whole slots in place of parts: of each broker those that leave by more than a half, so that no load is lost."""
    import numpy as np

    left = size - moved
    chosen: list[int] = slots[moved > left].tolist()
    owed: dict[int, int] = {}
    for row in np.nonzero((moved > left) & (left > 0))[0].tolist():
        owed[int(home[row])] = owed.get(int(home[row]), 0) - int(left[row])
    parts = np.nonzero((moved > 0) & (moved <= left))[0]
    for row in parts[np.argsort(-moved[parts], kind="stable")].tolist():
        broker = int(home[row])
        owed[broker] = owed.get(broker, 0) + int(moved[row])
        if 2 * owed[broker] > int(size[row]):
            chosen.append(int(slots[row]))
            owed[broker] -= int(size[row])
    return sorted(chosen)


def moves_proof(table: SlotTable, demand: DemandGroups, window: Window, few: FewMoves) -> tuple[int, Proof] | None:
    """The copies that the flow's prices prove, and the proof; None where they prove nothing.

    Limits that slide, even spread over racks and tags have no such proof.
    """
    if window.slides.any() or table.tags is not None or table.rule.spreads:
        return None
    priced = replace(window, prices=few.prices, price_unit=few.price_unit)
    proof = proof_of(table, demand, priced)
    try:
        return price_bound(_legal_sets(table), proof, {b: i for i, b in enumerate(table.brokers)}), proof
    except OverflowError:
        return None


def _legal_sets(table: SlotTable) -> LegalSets:
    import numpy as np

    loose = ~table.still[table.part]
    gives = np.ones(len(table.brokers), dtype=bool)
    gives[table.home[loose & ~table.movable]] = False
    broken = np.zeros(len(table.size), dtype=bool)
    broken[table.groups.broken(table.part, table.pool[table.home], len(table.size))] = True
    return LegalSets(
        racks=np.where(table.rack < table.racks, table.rack, -1),
        receives=table.receiver,
        keeps=np.ones(len(table.brokers), dtype=bool),
        gives=gives,
        offsets=table.first,
        holders=table.home,
        wanted=np.diff(table.first),
        load=table.size,
        copy_cost=np.ones(len(table.size), dtype=np.int64),
        rule=table.rule,
        pinned=table.still,
        exempt=broken,
        locality_scoped=table.locality_scoped,
    )
