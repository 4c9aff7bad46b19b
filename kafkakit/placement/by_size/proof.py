"""The bounds of a byte balance, of bytes and of moves, in words and as a proof to add up again; plans of few copies.

A plan of few copies is a flow in which a unit of a large replica is cheap: the LP relaxation of `lp_relaxation` with
another price, partition by partition. A replica of size s that leaves as a whole costs one, so each of its units costs
1 / s. Brokers that hold too much give their largest replicas, as far as racks and tags let these go where load is
wanted. Sizes are taken in units of a millionth of the largest, so the flow only guides a plan; its prices are added up
exactly for the bound (`price_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kafkakit.core.plan import BrokerLimit, Proof, ProofKind
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.placement.by_size.lp_relaxation import (
    PENALTY,
    DemandGroups,
    LoadBound,
    LoadWindow,
    demand_groups_of,
    relax_counts,
)
from kafkakit.placement.by_size.slots import SlotTable, choose, sum_by_index
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.price_bound import LegalSets, price_bound

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


def moves_bound(table: SlotTable, window: LoadWindow) -> int:
    """The larger of what must leave overfull brokers and what must come to underfull ones, in slots.

    A broker that is x above its ceiling gives at least as many of its largest movable slots as add up to x. For
    a window that slides, the bound holds for every place of it: giving falls and getting rises with the place, and
    hard limits stay where they are.
    O(replicas log replicas).
    """
    import numpy as np

    loads = table.loads(table.home)
    slots = np.nonzero(table.movable)[0]
    size, home = table.slot_size[slots], table.home[slots]
    order = np.lexsort((-size, home))
    size, home = size[order], home[order]
    starts = np.searchsorted(home, np.arange(len(loads) + 1))
    largest = -np.sort(-size)
    reach = np.concatenate([[0], np.cumsum(largest)])

    def fewest(excess: int, broker: int) -> int:
        mine = np.cumsum(size[starts[broker] : starts[broker + 1]])
        return int(np.searchsorted(mine, excess)) + 1

    def giving(ceiling: Ints) -> int:
        over = np.nonzero(loads > ceiling)[0]
        return sum(fewest(loads[b] - ceiling[b], int(b)) for b in over)

    def getting(floor: Ints) -> int:
        under = np.nonzero(loads < floor)[0]
        return sum(int(np.searchsorted(reach, floor[b] - loads[b])) for b in under)

    place = window.place
    if place is None:
        return max(giving(window.ceiling), getting(window.floor))

    def both(low: int) -> tuple[int, int]:
        floor, ceiling = place.limits.at(low, place.width)
        return giving(ceiling), getting(floor)

    high = int(loads.max()) + place.width + 1
    low = -high
    while low < high:
        middle = (low + high) // 2
        gives, gets = both(middle)
        if gives > gets:
            low = middle + 1
        else:
            high = middle
    return min(max(both(low)), max(both(low - 1)))


_NAMED = 6


def proof_of(
    table: SlotTable, demand: DemandGroups, window: LoadWindow, *, kind: ProofKind = ProofKind.PRICES
) -> Proof:
    """Limits and prices of every broker; loads are bytes.

    Copies that may not leave, of partitions that may move otherwise, are part of those partitions' sets.
    """
    bound = ~table.movable & ~table.still[table.part]
    fixed_loads = demand.loose - sum_by_index(table.home[bound], table.slot_size[bound], len(table.brokers))
    rows = zip(
        table.brokers,
        fixed_loads.tolist(),
        window.floor.tolist(),
        window.ceiling.tolist(),
        window.prices.tolist(),
        window.slides.tolist(),
        strict=True,
    )
    return Proof(
        kind=kind,
        load="bytes",
        price_unit=window.price_unit,
        slides=bool(window.slides.any()),
        limits=tuple(
            BrokerLimit(broker=b, fixed=fixed, floor=low, ceiling=high, price=price, slides=slides)
            for b, fixed, low, high, price, slides in rows
        ),
    )


def cancels(proof: Proof) -> bool:
    """True when the prices of limits that slide sum to zero, without which a sliding proof proves nothing."""
    return not proof.slides or not sum(limit.price for limit in proof.limits if limit.slides)


def argument_of(table: SlotTable, window: LoadWindow) -> str:
    """Why nothing cheaper exists: who holds how much too much, and who lacks how much."""
    loads = table.loads(table.home)
    over = _side(table, window.prices > 0, loads - window.ceiling)
    under = _side(table, window.prices < 0, window.floor - loads)
    parts = []
    if over:
        parts.append(f"{over[0]} {over[1]} {format_bytes(over[2])} more than the {_limit(window)} allows")
    if under:
        there = "it" if over else f"the {_limit(window)}"
        parts.append(f"{under[0]} {_lack(under[1])} {format_bytes(under[2])} to reach {there}")
    if not parts:
        return "every broker is inside its limits already, so nothing has to move"
    joined = "; ".join(parts)
    tail = ", whatever the window's place" if window.slides.any() and window.price_unit > 1 else ""
    tags = "" if table.tags is None or not table.tags.binds else ", or go to brokers that tag constraints exclude"
    racks = f", and copies cannot leave their racks freely{tags}" if _racks_matter(table, window, over, under) else ""
    apart = not_counted(table.tags.spread_texts if table.tags is not None else ())
    return f"{joined}{racks}: at least {format_bytes(window.bound.value)} must be copied{tail}{apart}"


def not_counted(constraints: Sequence[str]) -> str:
    """What to add to an argument that does not look at these constraints."""
    return f"; the bound does not count {', '.join(constraints)}" if constraints else ""


def _limit(window: LoadWindow) -> str:
    return "window" if window.slides.any() else "band"


def _lack(verb: str) -> str:
    return "lacks" if verb == "holds" else "lack"


def _side(table: SlotTable, chosen: Bools, amounts: Ints) -> tuple[str, str, int] | None:
    """The brokers chosen by their price that are really outside, as text, with verb and load outside."""
    ids = [b for b, there, amount in zip(table.brokers, chosen, amounts, strict=True) if there and amount > 0]
    if not ids:
        return None
    load = int(amounts[chosen & (amounts > 0)].sum())
    return _brokers(ids), "holds" if len(ids) == 1 else "hold", load


def _brokers(ids: Iterable[int]) -> str:
    every = list(ids)
    if len(every) == 1:
        return f"broker {every[0]}"
    shown = ", ".join(map(str, every[:_NAMED]))
    more = f" and {count_of(len(every) - _NAMED, 'more')}" if len(every) > _NAMED else ""
    return f"brokers {shown}{more.replace(' mores', ' more')}"


def _racks_matter(
    table: SlotTable, window: LoadWindow, over: tuple[str, str, int] | None, under: tuple[str, str, int] | None
) -> bool:
    """True when the bound is above what excess and lack alone would give."""
    return window.bound.value > max(over[2] if over else 0, under[2] if under else 0)


_UNITS = 20  # bits of the largest size
_PRICE = 1 << 30  # of a replica of one unit that leaves
_OUTSIDE = 4  # times the price of a unit that moves: of one outside the limits
_SAFE = 1 << 58  # prices times loads of a partition stay below this
MOST_CELLS = 1_500_000
"""Partitions times racks up to which the flow is solved: about 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewMoves:
    """What leaves: whole `slots`, and the flow that they come from, as the demand and bound that `Quotas` reads.

    `prices` over `price_unit` are those of the brokers, in copies a byte. `spares_bytes` where bytes have a price too.
    """

    slots: Sequence[int]
    demand: DemandGroups
    bound: LoadBound
    prices: Ints
    price_unit: int
    spares_bytes: bool = False


def few_moves(table: SlotTable, window: LoadWindow, worth: int | None = None) -> FewMoves | None:
    """Solve the flow for these limits; None where nothing may move or it is too large. Cost: see `MOST_CELLS`.

    A copy less is `worth` so many bytes more; None: any number of them.
    """
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
    byte_price = 0 if worth is None else _PRICE // max(1, worth // unit)
    whole = _PRICE + byte_price
    total, index, places = int(size.sum()), np.arange(count), np.arange(cells)
    room = np.maximum(1, demand.room_load // unit)
    network = FlowNetwork()
    groups, first_cell = network.nodes(demand.groups), network.nodes(cells)
    pool, brokers = network.nodes(racks * len(demand.open)), network.nodes(count)
    sink, lender = network.nodes(1), network.nodes(1)
    network.supply(groups + np.arange(demand.groups), sum_by_index(group, size, demand.groups))
    network.supply(brokers + index, -low)
    network.supply(lender, int(low.sum()))
    network.supply(sink, -total)
    network.arcs(groups + demand.room_group, first_cell + places, room, 0)
    stay = network.arcs(first_cell + cell, brokers + home, size, whole - byte_price - _PRICE // size)
    kinds = demand.kind[demand.room_group] * racks
    enter = network.arcs(first_cell + places, pool + kinds + demand.room_rack, room, whole)
    kind, takers = np.nonzero(demand.open & table.receiver)
    network.arcs(pool + kind * racks + demand.rack[takers], brokers + takers, total, 0)
    network.arcs(brokers + index, sink, high - low, 0)
    network.arcs(brokers + index, sink, total, _OUTSIDE * whole)
    network.arcs(lender, brokers + index, low, _OUTSIDE * whole)
    network.arcs(lender, sink, int(low.sum()), 0)
    network.solve()
    moved = size - network.flow(stay)
    held = demand.room_group[demand.held_cell] * count + demand.held_broker
    leaving = sum_by_index(np.searchsorted(held, group * count + home), moved * unit, len(held))
    potentials = network.potentials()
    prices = potentials[sink] - potentials[brokers : brokers + count]
    shrunk = max(0, (int(table.size.max()) * int(np.abs(prices).max())).bit_length() - _SAFE.bit_length())
    return FewMoves(
        slots=_whole_slots(slots, size, moved, home)
        if worth is None
        else _closed_slots(slots, table.slot_size[slots], moved == size, moved * unit, home),
        demand=demand,
        bound=replace(window.bound, leaving=leaving, arriving=network.flow(enter) * unit),
        prices=prices >> shrunk,
        price_unit=max(1, _PRICE * unit >> shrunk),
        spares_bytes=worth is not None,
    )


def _whole_slots(slots: Ints, size: Ints, moved: Ints, home: Ints) -> list[int]:
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


def _closed_slots(slots: Ints, size: Ints, whole: Bools, moved: Ints, home: Ints) -> list[int]:
    """The slots that leave whole, and of their brokers' others some that weigh as much as the parts that leave."""
    import numpy as np

    chosen: list[int] = slots[whole].tolist()
    others = np.nonzero(~whole)[0]
    others = others[np.lexsort((slots[others], -size[others], home[others]))]
    starts = np.searchsorted(home[others], np.arange(int(home.max()) + 2))
    for begin, end in pairwise(starts.tolist()):
        mine = others[begin:end]
        if rest := int(moved[mine].sum()):
            chosen += slots[mine[choose(size[mine].tolist(), [(0, len(mine), rest)], rest)]].tolist()
    return sorted(chosen)


def moves_proof(table: SlotTable, demand: DemandGroups, window: LoadWindow, few: FewMoves) -> tuple[int, Proof] | None:
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


_COUNTED_CELLS = 20_000_000  # partitions times brokers up to which replicas have prices: about 3 s


def counted_proof(table: SlotTable, demand: DemandGroups, window: LoadWindow) -> tuple[int, Proof] | None:
    """The bytes that prices of load and of replicas prove, and the proof; None where there are none that do.

    Limits that slide, a limit of sets that break the rule, even spread, tags and replicas that stay in their rack have
    no such proof. The prices are those of the relaxation, rounded; the bound adds up whatever they are.
    """
    import numpy as np

    counts = table.counts
    plain = table.tags is None and not table.rule.spreads and not table.locality_scoped and table.most_broken is None
    if counts is None or not plain or window.slides.any() or len(table.size) * len(table.brokers) > _COUNTED_CELLS:
        return None
    flow = window.counted or relax_counts(table, window.floor, window.ceiling, counts)
    if flow is None:
        return None
    highest = max(1.0, float(np.abs(flow.load_prices).max()))
    most = max(1, int(table.size.max(initial=1)), round(float(np.abs(flow.count_prices).max())))
    room = _SAFE.bit_length() - (2 * most * len(table.brokers)).bit_length() - int(highest).bit_length()
    if room < 1:
        return None
    unit = 1 << min(20, room)
    priced = replace(window, prices=np.rint(flow.load_prices * unit).astype(np.int64), price_unit=unit)
    still = np.bincount(table.home[table.still[table.part]], minlength=len(table.brokers))
    rows = zip(table.brokers, still, counts.floor, counts.ceiling, np.rint(flow.count_prices * unit), strict=True)
    limits = tuple(
        BrokerLimit(broker=b, fixed=int(fixed), floor=low, ceiling=high, price=int(price))
        for b, fixed, low, high, price in rows
    )
    proof = replace(proof_of(table, demand, priced), counts=limits)
    sets = replace(_legal_sets(table), copy_cost=table.size)
    try:
        return price_bound(sets, proof, {b: i for i, b in enumerate(table.brokers)}), proof
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


def explain_infeasible(
    table: SlotTable,
    demand: DemandGroups,
    window: LoadWindow,
    racks: Mapping[int, str | None],
    shown: Callable[[int], str] = format_bytes,
) -> str:
    """The set of brokers whose limits cannot all be kept, and by how much they fail, loads in words as `shown`.

    `racks` by broker id. The penal prices of the LP relaxation point at them (a set as in Hall's theorem): too much
    load that cannot leave, or too little that can come.
    """
    full = indices(window.prices >= PENALTY // 2)
    empty = indices(window.prices <= -(PENALTY // 2))
    outside = shown(window.bound.outside)
    ends = window.bound.ends
    lines = []
    if full:
        limit, load = _sum(window.ceiling, full), _sum(ends, full)
        if load > limit:
            lines.append(
                f"{_name_racks(table, full, racks)} may hold {shown(limit)} together, and "
                f"{shown(load)} cannot be put elsewhere"
            )
    if empty:
        limit, load = _sum(window.floor, empty), _sum(ends, empty)
        if load < limit:
            lines.append(
                f"{_name_racks(table, empty, racks)} should hold {shown(limit)} together, and "
                f"no more than {shown(load)} can come to them"
            )
    immovable = [i for i in range(len(table.brokers)) if demand.loose[i] > window.ceiling[i]]
    if immovable and not lines:
        lines.append(
            f"{_name_racks(table, immovable, racks)}: what may not move there is "
            f"{shown(int((demand.loose - window.ceiling)[immovable].sum()))} above the limit already"
        )
    return "; ".join(lines) or f"{outside} stay outside the limits wherever partitions go"


def too_large(table: SlotTable, ceiling: Ints) -> list[int]:
    """The partitions of which a copy is larger than what enough brokers may hold, the largest first.

    A partition whose n replicas may move needs n brokers whose ceiling, less what cannot leave them, is no smaller
    than one copy. O(partitions + brokers log brokers).
    """
    import numpy as np

    loose = table.fixed + sum_by_index(table.home[~table.movable], table.slot_size[~table.movable], len(table.brokers))
    able = table.receiver.copy()
    able[table.home[table.movable]] = True
    space = -np.sort(-(ceiling - loose)[able])
    wanted = sum_by_index(table.part[table.movable], np.ones(int(table.movable.sum()), dtype=np.int64), len(table.size))
    most = np.concatenate([[np.iinfo(np.int64).max], space, np.full(int(wanted.max(initial=0)), -1)])[wanted]
    found = np.nonzero(table.size > most)[0]
    return [int(p) for p in found[np.argsort(-table.size[found], kind="stable")]]


def is_whole_racks(table: SlotTable, chosen: list[int]) -> bool:
    """True when the chosen brokers are all those of some racks."""
    inside = set(chosen)
    racks = {int(table.rack[i]) for i in chosen}
    return all(r < table.racks for r in racks) and not any(
        int(r) in racks and i not in inside for i, r in enumerate(table.rack)
    )


def _sum(values: Ints, chosen: list[int]) -> int:
    return int(values[chosen].sum())


def indices(mask: Bools) -> list[int]:
    """Where a mask is true."""
    return [i for i, inside in enumerate(mask.tolist()) if inside]


def _name_racks(table: SlotTable, chosen: list[int], racks: Mapping[int, str | None]) -> str:
    """Whole racks by name, else brokers by id."""
    if is_whole_racks(table, chosen):
        names = {int(table.rack[i]): racks.get(table.brokers[i]) or "none" for i in chosen}
        named = ", ".join(names[r] for r in sorted(names))
        held = "broker" if len(chosen) == 1 else f"{len(chosen)} brokers"
        return f"the {held} of rack{'s' if len(names) > 1 else ''} {named}"
    ids = [str(table.brokers[i]) for i in chosen]
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids[:6])}{more}"
