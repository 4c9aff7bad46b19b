"""What any plan must copy at least, and balance goals as limits on loads, which a search tightens.

The bound is the placement problem with partitions that may be split, solved exactly. Partitions with equal racks, whose
new copies may go to the same brokers, are taken together as one divisible demand group. What is left is a small flow:
it goes to racks (at most one copy of it in each, if the rack rule says so); in a rack it stays on the brokers that hold
it for nothing, or goes to any receiver that tags leave to it at a cost of one per unit; and every broker ends between
its floor and its ceiling. Every real plan is such a flow of equal cost, so the least flow is a lower bound; its broker
prices are the proof (see `price_bound`). Spread over tags is left out.

A goal is one number, the largest deviation allowed, which sets the limits on loads: fixed limits, or a window of a
given width that may lie anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kafkakit.placement.by_size.slots import CountLimits, SlotTable, sum_by_index
from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Floats, Ints


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
class LoadBound:
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
    loose = table.fixed + sum_by_index(table.home[~table.movable], size[~table.movable], len(table.brokers))
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
    held = sum_by_index(row.ravel(), size[slots], len(cells))
    cells, held = cells[held > 0], held[held > 0]
    racks = int(rack.max(initial=-1)) + 1
    room = _room_by_rack(table, group_of, groups, rack, racks)
    places = np.nonzero(room)[0]
    return DemandGroups(
        groups=groups,
        group_of=group_of,
        copies=sum_by_index(group, size[slots], groups),
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

    free = _unbound_partitions(table)
    if free.all() and not table.locality_scoped:
        return None
    racks = int(table.rack.max(initial=-1)) + 1
    words = (2 * racks + 63) // 63
    key = np.zeros((len(table.size), words), dtype=np.int64)
    key[free, 2 * racks // 63] = np.int64(1) << (2 * racks % 63)
    bit = np.where(table.movable, table.rack[table.home], racks + table.rack[table.home])
    np.bitwise_or.at(key, (table.part, bit // 63), np.int64(1) << (bit % 63))
    numbers = np.unique(np.column_stack([kinds, key]), axis=0, return_inverse=True)[1].ravel()
    return numbers if int(numbers.max(initial=-1)) < MAX_GROUPS else None


def _unbound_partitions(table: SlotTable) -> Bools:
    """The partitions whose copies may share racks: even spread of more copies than racks is not looked at here."""
    import numpy as np

    return table.groups.may_share(np.diff(table.first))


def _room_by_rack(table: SlotTable, group_of: Ints, groups: int, rack: Ints, racks: int) -> Ints:
    """How much of each group each rack may hold, as a flat (group x rack) array."""
    import numpy as np

    size = table.slot_size
    there = np.zeros(groups * racks, dtype=np.int64)
    np.add.at(there, group_of[table.part] * racks + rack[table.home], np.where(table.movable, size, 0))
    if table.locality_scoped:
        return there
    whole = np.repeat(sum_by_index(group_of, table.size, groups), racks)
    pinned = np.zeros(groups * racks, dtype=bool)
    still = ~table.movable
    pinned[group_of[table.part[still]] * racks + rack[table.home[still]]] = True
    if (rack == 0).all():
        return np.full(groups * racks, int(size.sum()), dtype=np.int64)
    # What stands there already may stay, even where it breaks the rule; nothing may come on top.
    rooms = np.where(pinned, there, np.maximum(whole, there))
    loose = np.zeros(groups, dtype=bool)
    loose[group_of[_unbound_partitions(table)]] = True
    return np.where(np.repeat(loose, racks), np.repeat(sum_by_index(group_of[table.part], size, groups), racks), rooms)


PENALTY = 1 << 20
"""The price of load outside a limit: above any real price, which cannot exceed the network's count of nodes."""


def least_cost(table: SlotTable, demand: DemandGroups, floor: Ints, ceiling: Ints) -> LoadBound:
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
    return LoadBound(
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
    at_rest = loose + sum_by_index(demand.held_broker, demand.held_load, brokers)
    return np.clip(high - loose, 0, total) + 1, np.maximum(at_rest - high, 0) + 1


_HALVING = 8  # every so many looks the middle is tried instead of the crossing


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """What loads must respect whatever the goal: `floor` and `ceiling` per broker.

    Brokers in `even` belong to the goal: their loads less `offset` are to lie close together (offset makes unlike
    disks comparable: load less offset is minus the free bytes, say).
    """

    floor: Ints
    ceiling: Ints
    even: Bools
    offset: Ints

    def at(self, low: int, width: int) -> tuple[Ints, Ints]:
        """Floors and ceilings with the window [low, low + width] on the even brokers."""
        import numpy as np

        floor = np.where(self.even, np.maximum(self.floor, low + self.offset), self.floor)
        ceiling = np.where(self.even, np.minimum(self.ceiling, low + width + self.offset), self.ceiling)
        return floor, ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """A window of this width that may lie anywhere, within the limits."""

    limits: LoadLimits
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """Limits on every broker's load, what reaching them must cost at least, and the prices that prove it.

    `price_unit` divides `prices`. `slides` marks brokers whose limits hold up to a common shift; there
    `bound.value` is the least over all shifts, and `place` says what may shift. `counted` has counts, too, if solved.
    """

    floor: Ints
    ceiling: Ints
    bound: LoadBound
    prices: Ints
    slides: Bools
    price_unit: int = 1
    place: SlidingWindow | None = None
    counted: CountedFlow | None = None

    @property
    def possible(self) -> bool:
        """False when not even the LP relaxation can keep the limits."""
        return self.bound.outside == 0


def fixed_window(table: SlotTable, demand: DemandGroups, floor: Ints, ceiling: Ints) -> LoadWindow:
    """The window with these very limits."""
    import numpy as np

    bound = least_cost(table, demand, floor, ceiling)
    return LoadWindow(
        floor=floor, ceiling=ceiling, bound=bound, prices=bound.prices, slides=np.zeros(len(floor), dtype=bool)
    )


@dataclass(frozen=True, slots=True)
class _WindowRelaxation:
    """The LP relaxation with the window at one place, and the slope of its weighed cost there."""

    low: int
    bound: LoadBound
    binds: Bools
    slope: int


def sliding_window(table: SlotTable, demand: DemandGroups, limits: LoadLimits, width: int) -> LoadWindow:
    """The cheapest window of this width over the even brokers, within the limits.

    The cost is convex in the window's place, and minus the sum of the prices of the brokers it binds is the
    slope. From both sides tangents are drawn until they meet the cost where they cross; the prices on both
    sides, mixed so that they sum to zero, prove the lowest point for every place. About 10 small flows.
    """
    loads = (table.loads(table.home) - limits.offset)[limits.even]

    def look(low: int) -> _WindowRelaxation:
        floor, ceiling = limits.at(low, width)
        bound = least_cost(table, demand, floor, ceiling)
        binds = _binds(limits, floor, ceiling, bound.prices)
        slope = PENALTY * _clashes(limits, floor, ceiling) - int(bound.prices[binds].sum())
        return _WindowRelaxation(low, bound, binds, slope)

    # What brokers outside the goal may hand over can lift all loads above today's largest.
    stray = int(table.slot_size[table.movable & ~limits.even[table.home]].sum())
    left, right = look(int(loads.min()) - width), look(int(loads.max()) + stray)
    best = min(left, right, key=lambda at: (at.bound.weighed, at.low))
    turn = 0
    while left.slope < 0 < right.slope and right.low - left.low > 1:
        turn += 1
        crossing = (right.bound.weighed - left.bound.weighed + left.slope * left.low - right.slope * right.low) // (
            left.slope - right.slope
        )
        if turn % _HALVING == 0:  # where limits clash tangents may creep byte by byte
            crossing = (left.low + right.low) // 2
        tried = look(min(max(crossing, left.low + 1), right.low - 1))
        best = min(best, tried, key=lambda at: (at.bound.weighed, at.low))
        if tried.slope == 0:  # the lowest point, with prices that cancel; another as low may be a kink
            best = left = right = tried
        elif tried.slope < 0:
            left = tried
        else:
            right = tried
        if tried.bound.weighed <= left.bound.weighed + left.slope * (tried.low - left.low) and tried is not left:
            break
        if tried.bound.weighed <= right.bound.weighed + right.slope * (tried.low - right.low) and tried is not right:
            break
    mixed = left.slope < 0 < right.slope
    prices, unit = _mix_prices(left, right) if mixed else (best.bound.prices, 1)
    # Places are whole numbers and the crossing is not: the mixed prices may prove some bytes less than the best costs.
    bound = replace(best.bound, value=min(best.bound.value, max(0, _crossing(left, right)))) if mixed else best.bound
    floor, ceiling = limits.at(best.low, width)
    return LoadWindow(
        floor=floor,
        ceiling=ceiling,
        bound=bound,
        prices=prices,
        slides=best.binds,
        price_unit=unit,
        place=SlidingWindow(limits=limits, width=width),
    )


def _binds(limits: LoadLimits, floor: Ints, ceiling: Ints, prices: Ints) -> Bools:
    """Brokers whose limit on the side that has a price is the window's."""
    import numpy as np

    by_window = np.where(prices > 0, ceiling < limits.ceiling, floor > limits.floor)
    binds: Bools = limits.even & (by_window | (prices == 0))
    return binds


def _clashes(limits: LoadLimits, floor: Ints, ceiling: Ints) -> int:
    """How many floors of the window lie above hard ceilings, less how many of its ceilings below hard floors."""
    clash = limits.even & (floor > ceiling)
    return int((clash & (floor > limits.floor)).sum()) - int((clash & (ceiling < limits.ceiling)).sum())


def _crossing(left: _WindowRelaxation, right: _WindowRelaxation) -> int:
    """The cost where both tangents cross, rounded up; no place costs less."""
    down, up = -left.slope, right.slope
    at_left, at_right = (look.bound.weighed - look.slope * look.low for look in (left, right))
    return -(-(at_left * up + at_right * down) // (down + up))


def _mix_prices(left: _WindowRelaxation, right: _WindowRelaxation) -> tuple[Ints, int]:
    """Prices that sum to zero: the average of both sides, weighted by the other side's slope."""
    down, up = -left.slope, right.slope
    shared = math.gcd(down, up)
    return left.bound.prices * (up // shared) + right.bound.prices * (down // shared), (down + up) // shared


PPM = 1_000_000
_ENDLESS = 1 << 62


class BalanceGoal(Protocol):
    """Windows by the largest deviation of loads that they allow; 0 is the tightest."""

    @property
    def limits(self) -> LoadLimits:
        """The limits that hold at any deviation."""
        ...

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> LoadWindow:
        """The cheapest window of this deviation."""
        ...

    def fall(self, window: LoadWindow) -> tuple[int, int]:
        """How fast the window's cost falls per step of deviation, as numerator and denominator."""
        ...

    def measure(self, loads: Ints) -> int:
        """The deviation of these loads."""
        ...


@dataclass(frozen=True, slots=True)
class RangeGoal:
    """Windows of a width in bytes that may lie anywhere: the range of free (or used) bytes."""

    limits: LoadLimits

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> LoadWindow:
        """The cheapest place of a window of this width."""
        return sliding_window(table, demand, self.limits, max_deviation)

    def fall(self, window: LoadWindow) -> tuple[int, int]:
        """Every ceiling that has a price rises by one."""
        high = window.prices[window.slides & (window.prices > 0)]
        return int(high.sum()), window.price_unit

    def measure(self, loads: Ints) -> int:
        """Largest less smallest, over the even brokers."""
        inside = (loads - self.limits.offset)[self.limits.even]
        return int(inside.max() - inside.min()) if len(inside) else 0


@dataclass(frozen=True, slots=True)
class BandGoal:
    """A band around each broker's even share, in millionths of the share."""

    limits: LoadLimits
    share: Ints

    def bounds(self, max_deviation: int) -> tuple[Ints, Ints]:
        """Floors and ceilings of a band: share less and plus so many millionths of it, inside the hard limits.

        A share of 0 has no band (there are fewer bytes than brokers).
        """
        import numpy as np

        # In Python's integers: a share of 10 TiB in millionths does not fit 64 bits.
        shares = self.share.tolist()
        low = np.array([-(-s * (PPM - min(max_deviation, PPM)) // PPM) for s in shares], dtype=np.int64)
        high = np.array([min(s + s * max_deviation // PPM, _ENDLESS) for s in shares], dtype=np.int64)
        even, limits = self.limits.even & (self.share > 0), self.limits
        floor = np.where(even, np.maximum(limits.floor, low), limits.floor)
        return floor, np.where(even, np.minimum(limits.ceiling, high), limits.ceiling)

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> LoadWindow:
        """The band's limits and what they cost."""
        return fixed_window(table, demand, *self.bounds(max_deviation))

    def fall(self, window: LoadWindow) -> tuple[int, int]:
        """Every limit that has a price moves by a millionth of its broker's share."""
        priced = zip(window.prices.tolist(), self.share.tolist(), self.limits.even.tolist(), strict=True)
        return sum(abs(price) * share for price, share, even in priced if even), PPM

    def measure(self, loads: Ints) -> int:
        """The narrowest band that holds these loads, rounded up to a millionth."""
        even = self.limits.even & (self.share > 0)
        rows = zip(abs(loads - self.share)[even].tolist(), self.share[even].tolist(), strict=True)
        return max((-(-away * PPM // share) for away, share in rows), default=0)


@dataclass(frozen=True, slots=True)
class BalanceProblem:
    """What is balanced: replica slots, their demand groups, and the goal."""

    table: SlotTable
    demand: DemandGroups
    balance: BalanceGoal

    @classmethod
    def of(cls, table: SlotTable, balance: BalanceGoal) -> BalanceProblem:
        """The problem with demand groups gathered again. O(replicas)."""
        return cls(table, demand_groups_of(table), balance)

    def window(self, max_deviation: int) -> LoadWindow:
        """The cheapest limits with this deviation, and what they cost at least."""
        return self.balance.window(self.table, self.demand, max_deviation)

    def measure(self, at: Ints) -> int:
        """How far apart loads are with slots on the brokers `at`."""
        return self.balance.measure(self.table.loads(at))

    def today(self) -> int:
        """How far apart loads are before any move."""
        return self.measure(self.table.home)


def shares_within(loads: Ints, capacity: Ints | Sequence[int], even: Bools, groups: Ints) -> Ints:
    """Split what the even brokers of each group (a number per broker) hold over that group's, by capacity."""
    import numpy as np

    answer = np.zeros(len(loads), dtype=np.int64)
    for group in np.unique(groups):
        mine = even & (groups == group)
        answer += shares(int(loads[mine].sum()), capacity, mine)
    return answer


def shares(total: int, capacity: Ints | Sequence[int], even: Bools | Sequence[bool]) -> Ints:
    """Split a total over the even brokers by capacity, in exact integers; others get 0.

    Rounded down, the rest goes to the first brokers one by one, so that the shares add up.
    """
    import numpy as np

    weight = [int(c) if e else 0 for c, e in zip(capacity, even, strict=True)]
    whole = sum(weight)
    parts = [total * w // whole if whole else 0 for w in weight]
    rest = total - sum(parts)
    for i, w in enumerate(weight):
        if rest and w:
            parts[i] += 1
            rest -= 1
    return np.array(parts, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFlow:
    """One cheapest plan of the relaxation over loads and counts; slots of nearly one size are parts of one whole.

    `kind` is the class of each slot's size, `leaving` and `arriving` are by class and broker, in slots, `size` is the
    mean of each class; brokers end with `loads` and `counts`, and have a price per unit of load and per slot, in units
    of load. `value` is the load that leaves.
    """

    value: int
    load_prices: Floats
    count_prices: Floats
    kind: Ints
    leaving: Floats
    arriving: Floats
    size: Floats
    loads: Floats
    counts: Floats


_CLASS_CELLS = 16_000
"""Classes times brokers of the relaxation over loads and counts: about a second."""
_MOST_CLASSES, _FEWEST_CLASSES = 128, 16
_COPY = 1e-6
"""What a copy costs, as a part of the largest slot: of plans of one load the one of few copies."""
_NO_WIDTH = 1e-6


def relax_counts(table: SlotTable, floor: Ints, ceiling: Ints, counts: CountLimits) -> CountedFlow | None:
    """The least load that leaves so that loads and counts end within the limits; None where the relaxation knows none.

    Slots fall into classes of size, a few percent wide, which may be divided. What a partition with a replica in each
    rack loses in a rack, it gets there. Tags are left to the plan. On one thread, so always with the same answer.
    """
    import numpy as np

    width = len(table.brokers)
    classes = min(_MOST_CLASSES, max(_FEWEST_CLASSES, _CLASS_CELLS // max(1, width)))
    kind, size = _size_classes(table.slot_size, classes)
    unit = max(1.0, float(size.max(initial=0.0)))
    load, count = table.loads(table.home), np.bincount(table.home, minlength=width)
    program = _CountedProgram(
        table.pool.tolist(),
        np.stack([floor - load, ceiling - load]) / unit,
        np.stack([np.array(counts.floor) - count, np.array(counts.ceiling) - count]).astype(np.float64),
    )
    held, takes = _held_by_class(table, kind, classes), table.receiver.tolist()
    for number in range(classes):
        program.add_class(float(size[number]) / unit, held[:, number], takes)
    if (found := program.solved()) is None:
        return None
    leaving, arriving, load_prices, count_prices = found
    net = arriving - leaving
    return CountedFlow(
        value=round(float((leaving * size[:, None]).sum())),
        load_prices=load_prices,
        count_prices=count_prices * unit,
        kind=kind,
        leaving=leaving,
        arriving=arriving,
        size=size,
        loads=load + (size[:, None] * net).sum(axis=0),
        counts=count + net.sum(axis=0),
    )


class _CountedProgram:
    """The linear program: of each class, what leaves each broker and what arrives; loads and counts in their limits."""

    def __init__(self, pool: Sequence[int], loads: Floats, numbers: Floats) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._best = pywraplp.Solver.OPTIMAL
        self._pool, self._racks = pool, sorted(set(pool))
        self._goal = self._solver.Objective()
        self._loads = [self._solver.Constraint(low, high) for low, high in loads.T.tolist()]
        self._numbers = [self._solver.Constraint(low, high) for low, high in numbers.T.tolist()]
        self._gone: list[list[list[Any]]] = []
        self._come: list[list[Any]] = []

    def add_class(self, weight: float, held: Ints, takes: Sequence[bool]) -> None:
        """Slots of this weight; `held` by broker are those that may go to any rack, and those that stay in theirs."""
        solver, endless = self._solver, self._solver.infinity()
        across = solver.Constraint(0.0, 0.0)
        within = {rack: solver.Constraint(0.0, 0.0) for rack in self._racks}
        for balance in within.values():
            moved = solver.NumVar(0.0, endless, "")
            across.SetCoefficient(moved, -1.0)
            balance.SetCoefficient(moved, 1.0)
        gone: list[list[Any]] = [[], []]
        come: list[Any] = []
        for b, rack in enumerate(self._pool):
            for tied, source in enumerate((across, within[rack])):
                out = solver.NumVar(0.0, float(held[tied, b]), "")
                self._goal.SetCoefficient(out, weight + _COPY)
                self._add(out, b, -weight, -1.0, source, 1.0)
                gone[tied].append(out)
            into = solver.NumVar(0.0, endless if takes[b] else 0.0, "")
            self._add(into, b, weight, 1.0, within[rack], -1.0)
            come.append(into)
        self._gone.append(gone)
        self._come.append(come)

    def _add(self, moved: Any, broker: int, weight: float, number: float, source: Any, sign: float) -> None:
        self._loads[broker].SetCoefficient(moved, weight)
        self._numbers[broker].SetCoefficient(moved, number)
        source.SetCoefficient(moved, sign)

    def solved(self) -> tuple[Floats, Floats, Floats, Floats] | None:
        """What leaves and arrives, class x broker, and the prices of load and of slots; None where none was found."""
        import numpy as np

        self._goal.SetMinimization()
        if self._solver.Solve() != self._best:
            return None
        gone = np.array([[[x.solution_value() for x in row] for row in each] for each in self._gone]).sum(axis=1)
        come = np.array([[x.solution_value() for x in row] for row in self._come])
        loads, numbers = (np.array([-row.dual_value() for row in rows]) for rows in (self._loads, self._numbers))
        return gone, come, loads, numbers


def _size_classes(sizes: Ints, classes: int) -> tuple[Ints, Floats]:
    """The class of each size, all classes as wide by their ratio, and the mean size of each."""
    import numpy as np

    scaled = np.log1p(sizes.astype(np.float64))
    low, high = float(scaled.min(initial=np.inf)), float(scaled.max(initial=0.0))
    kind: Ints = np.minimum(classes - 1, ((scaled - low) * (classes / max(high - low, _NO_WIDTH))).astype(np.int64))
    return kind, np.bincount(kind, sizes, classes) / np.maximum(1, np.bincount(kind, minlength=classes))


def _held_by_class(table: SlotTable, kind: Ints, classes: int) -> Ints:
    """Movable slots by whether they stay in their rack, class and broker.

    Those of a partition with a replica in each rack stay, and with `locality_scoped` all do.
    """
    import numpy as np

    there = np.zeros((len(table.size), int(table.pool.max(initial=-1)) + 1), dtype=bool)
    there[table.part, table.pool[table.home]] = True
    everywhere: Bools = np.asarray(there.all(axis=1))
    stays = table.locality_scoped | everywhere[table.part]
    held: Ints = np.zeros((2, classes, len(table.brokers)), dtype=np.int64)
    free = table.movable
    np.add.at(held, (stays[free].astype(np.int64), kind[free], table.home[free]), 1)
    return held
