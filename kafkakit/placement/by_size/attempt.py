"""One attempt at a goal: the LP relaxation, a real plan built after it, repaired, and made cheaper.

The relaxation gives quotas: how much of a group should leave each rack, and where it should arrive. Leaving replicas
are placed largest first, each on the emptiest receiver that may take it. Then small slots move until every broker's
count is inside its limits as well, and replicas move until every partition finds a leader within the ceilings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.by_size.local_steps import repair, repair_leaders, save, settle, without_leader
from kafkakit.placement.by_size.lp_relaxation import (
    CountedFlow,
    DemandGroups,
    LoadBound,
    LoadWindow,
    demand_groups_of,
    fixed_window,
    relax_counts,
)
from kafkakit.placement.by_size.proof import FewMoves
from kafkakit.placement.by_size.slots import (
    MOST_TESTS,
    NEAR,
    CountLimits,
    Entry,
    Pools,
    Receivers,
    SearchState,
    SlotTable,
    choose,
    counts_of,
    entries_near,
    positions,
)

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


def construct(
    table: SlotTable,
    demand: DemandGroups,
    window: LoadWindow,
    few: FewMoves | None = None,
    *,
    most_tests: int = MOST_TESTS,
) -> SearchState:
    """A first plan: brokers shed what the LP relaxation takes from them, receivers fill up evenly.

    The fewest slots leave; with `few` its slots do.
    """
    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist(), most_tests=most_tests)
    if few is not None:
        fill(state, few.slots, Quotas(table, few.demand, few.bound))
        return state
    leaving = _choose_leaving(table, demand, window)
    fill(state, leaving, Quotas(table, demand, window.bound))
    return state


def _choose_leaving(table: SlotTable, demand: DemandGroups, window: LoadWindow) -> list[int]:
    """The slots that leave each giver, chosen to match what the LP relaxation takes from it."""
    import numpy as np

    bound = window.bound
    rows = np.nonzero(bound.leaving > 0)[0]
    rows = rows[np.argsort(demand.held_broker[rows], kind="stable")]
    givers = np.zeros(len(table.brokers), dtype=bool)
    givers[demand.held_broker[rows]] = True
    slots = np.nonzero(table.movable & givers[table.home])[0]
    size, home = table.size[table.part[slots]], table.home[slots]
    group = demand.group_of[table.part[slots]]
    order = np.lexsort((slots, -size, group, home))
    slots, size, home, group = slots[order], size[order], home[order], group[order]
    key = home * (demand.groups + 1) + group
    chosen: list[int] = []
    held_group = demand.room_group[demand.held_cell]
    start = 0
    while start < len(rows):
        broker = int(demand.held_broker[rows[start]])
        end = start
        while end < len(rows) and demand.held_broker[rows[end]] == broker:
            end += 1
        mine = rows[start:end]
        wanted = np.sort(broker * (demand.groups + 1) + held_group[mine])
        begin = int(np.searchsorted(key, wanted[0], "left"))
        stop = int(np.searchsorted(key, wanted[-1], "right"))
        amount = {int(held_group[r]): int(bound.leaving[r]) for r in mine}
        quotas = []
        need = sum(amount.values())
        for g in sorted(amount):
            k = broker * (demand.groups + 1) + g
            lo, hi = int(np.searchsorted(key, k, "left")), int(np.searchsorted(key, k, "right"))
            quotas.append((lo - begin, hi - begin, amount[g]))
        sizes = size[begin:stop].tolist()
        chosen += [int(slots[begin + i]) for i in choose(sizes, quotas, need)]
        start = end
    return chosen


def broken_parts(table: SlotTable, at: Ints) -> Ints:
    """The partitions whose sets break the rack rule with slots on the brokers `at`, sorted. O(replicas)."""
    return table.groups.broken(table.part, table.pool[at], len(table.size))


def repair_racks(pools: Pools, at: Ints) -> int:
    """Move repeats of a rack elsewhere until few enough sets break the rule, small partitions first.

    Returns how many too many are left. Room is kept, floors are for the repair that follows.
    """
    state, table = pools.state, pools.state.table
    if table.most_broken is None:
        raise ValueError("the table has no rule of racks")
    broken = broken_parts(table, at).tolist()
    left = len(broken) - table.most_broken
    receivers = Receivers(state)
    for part in sorted(broken, key=lambda p: (int(table.size[p]), p)):
        if left <= 0:
            break
        left -= _repair_racks(pools, receivers, int(table.first[part]), int(table.first[part + 1]))
    return max(0, left)


def _repair_racks(pools: Pools, receivers: Receivers, first: int, last: int) -> bool:
    """Move later replicas out of repeated racks until the set obeys the rule."""
    state, table = pools.state, pools.state.table
    for slot in range(first, last):
        racks = [int(table.pool[state.broker(s)]) for s in range(first, last)]
        if not table.groups.violates(racks):
            return True
        here = racks[slot - first]
        if here < table.racks and racks.count(here) > 1 and table.movable[slot] and slot not in state.moved:
            dest = receivers.emptiest(slot, table.groups.emptiest(racks))
            if dest is not None:
                pools.take(((slot, dest),))
    racks = [int(table.pool[state.broker(s)]) for s in range(first, last)]
    return not table.groups.violates(racks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Where every slot goes (`at`, broker indices), what it costs, and what is left outside the window.

    `proven` says that a search showed that nothing cheaper exists (or, where limits are not kept, nothing at all),
    `fewest` that none with fewer copies exists, `rule_kept` that the rules beside the window (rack violations
    allowed, counts) are kept. `few` is the flow of few copies where the plan was made for it, `tests` the work.
    """

    at: Ints
    cost: int
    moves: int
    outside: int
    window: LoadWindow
    proven: bool = False
    fewest: bool = False
    rule_kept: bool = True
    few: FewMoves | None = None
    tests: int = 0

    @property
    def succeeded(self) -> bool:
        """True when all limits and rules are kept."""
        return self.window.possible and not self.outside and self.rule_kept


def attempt(
    table: SlotTable,
    demand: DemandGroups,
    window: LoadWindow,
    few: FewMoves | None = None,
    *,
    most_tests: int = MOST_TESTS,
) -> Attempt:
    """Bring the table into the window, by few copies with `few`. About 2 s for 600,000 replicas with 90,000 moves."""
    if table.counts is not None:
        return _with_counts(table, demand, window, table.counts, most_tests)
    state = construct(table, demand, window, few=few, most_tests=most_tests)
    pools = Pools(state)
    if few is not None and not few.spares_bytes:
        settle(pools)
    repair(pools)
    left = 0
    if table.most_broken is not None:
        left = repair_racks(pools, positions(state))
        repair(pools)
    else:
        save(pools)  # after repairing sets it could put the repeats back
    left += repair_leaders(pools)
    return replace(attempt_of(state, window), rule_kept=not left, few=few)


_SLACK = 100  # the part of a window's width kept free on either side for small slots
_COUNTED_TRIES = ((0, True, True), (1, True, True), (0, True, False), (4, False, False), (1, False, False))
"""Quarters of `_SLACK` that the window loses, whether slots are exchanged before, and whether small ones go first."""
_TRIED_AGAIN = 100_000  # slots up to which more than one plan is made: about 3 s each
_NEAR_ENOUGH = 400  # the part of what the relaxation takes by which a plan may be above it


def _with_counts(
    table: SlotTable, demand: DemandGroups, window: LoadWindow, counts: CountLimits, most_tests: int
) -> Attempt:
    """The best of few plans after the relaxation over loads and counts, and the first that is near enough to it.

    Where none of them keeps all limits, one after the relaxation over loads alone, of which small slots move on.
    """
    slack = (window.ceiling - window.floor) // _SLACK
    flow = relax_counts(table, window.floor, window.ceiling, counts)
    window, solved = replace(window, counted=flow), 0
    best: Attempt | None = None
    tested = 0
    # What is left of a command's budget is for all plans, the full number is for each.
    most = most_tests if most_tests < MOST_TESTS else most_tests * (len(_COUNTED_TRIES) - 2)
    for quarters, exchanges, small_first in _COUNTED_TRIES:
        is_enough = best is not None and len(table.home) > _TRIED_AGAIN and (best.succeeded or not small_first)
        if tested >= most or is_enough:
            break
        low, high = window.floor + slack * quarters // 4, window.ceiling - slack * quarters // 4
        if quarters != solved:
            flow, solved = relax_counts(table, low, high, counts), quarters
        if flow is None:
            continue
        leaving = _leaving_counted(table, flow, exchanges=exchanges)
        given = min(most_tests, most - tested)
        if not small_first:
            state = construct_counted(table, flow, window, counts, leaving, most_tests=given)
        elif len(small := _small_ones(table, leaving)) * 2 > len(leaving):
            state = construct_small_first(table, flow, (low, high), counts, small, most_tests=given)
            state.floor, state.ceiling = window.floor.tolist(), window.ceiling.tolist()
        else:
            continue
        found = _repair_all(state, window, counts)
        tested += found.tests
        best = found if best is None else min(best, found, key=_distance)
        if best.succeeded and (best.cost - flow.value) * _NEAR_ENOUGH <= flow.value:
            break
    if best is None or not best.succeeded:
        inner = fixed_window(table, demand, window.floor + slack, window.ceiling - slack)
        given = max(1, min(most_tests, most - tested))
        state = construct(table, demand, inner if inner.possible else window, most_tests=given)
        found = _repair_all(state, window, counts)
        tested += found.tests
        best = found if best is None else min(best, found, key=_distance)
    return replace(best, tests=tested)


def _distance(found: Attempt) -> tuple[bool, int, int]:
    return not found.rule_kept, found.outside, found.cost


def _repair_all(state: SearchState, window: LoadWindow, counts: CountLimits) -> Attempt:
    """Repair loads, then counts, then leaders."""
    pools = Pools(state)
    repair(pools)
    left = repair_racks(pools, positions(state)) if state.table.most_broken is not None else 0
    state.floor, state.ceiling = window.floor.tolist(), window.ceiling.tolist()
    if over := even_counts(pools, counts):
        repair(pools)
        over = even_counts(pools, counts)
    left += over + repair_leaders(pools)
    return replace(attempt_of(state, window), rule_kept=not left)


def construct_counted(
    table: SlotTable, flow: CountedFlow, window: LoadWindow, counts: CountLimits, leaving: Ints, *, most_tests: int
) -> SearchState:
    """A first plan: of each broker as many slots and as much load leave as the relaxation takes, and go where it says.

    The largest go first, each to the receiver that lacks most load beyond what slots of the mean size would bring.
    """
    import numpy as np

    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist(), most_tests=most_tests)
    sizes = table.slot_size
    number, load = np.array(counts_of(table, table.home)), np.array(state.load, dtype=np.float64)
    np.subtract.at(number, table.home[leaving], 1)
    np.subtract.at(load, table.home[leaving], sizes[leaving])
    rest, most, takers = float(sizes[leaving].sum()), np.array(counts.ceiling), _takers(state)
    order = leaving[np.lexsort((leaving, -sizes[leaving]))].tolist()
    for place, slot in enumerate(order):
        size, mean = state.size(slot), rest / (len(order) - place)
        rest -= size
        able = takers(slot) & (number < most) & (load + size <= window.ceiling)
        wants = np.where(able, flow.loads - load - mean * (flow.counts - number), -np.inf)
        dest = int(wants.argmax()) if able.any() else state.home(slot)
        load[dest] += size
        number[dest] += 1
        if dest != state.home(slot):
            state.move(slot, dest)
    return state


def _takers(state: SearchState) -> Callable[[int], Bools]:
    """Who may take a slot by the rules, whatever loads and counts are."""
    import numpy as np

    pool = state.table.pool
    in_rack = [state.table.receiver & (pool == rack) for rack in range(int(pool.max(initial=-1)) + 1)]
    none = np.zeros_like(state.table.receiver)

    def of(slot: int) -> Bools:
        shut, racks = state.legal(slot)
        able: Bools = np.logical_or.reduce([none, *(in_rack[rack] for rack in racks)])
        able[list(shut)] = False
        return able

    return of


def _small_ones(table: SlotTable, leaving: Ints) -> Ints:
    """The smallest of the slots that leave, which hold a tenth of their load; the largest first."""
    import numpy as np

    sizes = table.slot_size[leaving]
    order = np.lexsort((leaving, -sizes))
    below = np.cumsum(sizes[order][::-1])[::-1] * 10 <= int(sizes.sum())
    small: Ints = leaving[order[below]]
    return small


def construct_small_first(
    table: SlotTable, flow: CountedFlow, limits: tuple[Ints, Ints], counts: CountLimits, small: Ints, *, most_tests: int
) -> SearchState:
    """A first plan where few large slots hold most of the load that leaves, and small ones are most of the slots.

    The small ones go first, each to the receiver that lacks most slots beside the large ones that the relaxation moves.
    Then they stay, and large ones go as without limits on counts, which they hardly change.
    """
    import numpy as np

    state = SearchState(table, limits[0].tolist(), limits[1].tolist(), most_tests=most_tests)
    number, takers = np.array(counts_of(table, table.home)), _takers(state)
    np.subtract.at(number, table.home[small], 1)
    later = (flow.leaving - flow.arriving)[int(flow.kind[small[0]]) + 1 :].sum(axis=0)
    wanted, most = flow.counts + later, np.array(counts.ceiling) + later
    for slot in small.tolist():
        able = takers(slot) & (number < most)
        dest = int(np.where(able, wanted - number, -np.inf).argmax()) if able.any() else state.home(slot)
        number[dest] += 1
        if dest != state.home(slot):
            state.move(slot, dest)
    home = positions(state)
    rest = replace(table, home=home, movable=table.movable & (home == table.home), counts=None)
    demand = demand_groups_of(rest)
    large = positions(construct(rest, demand, fixed_window(rest, demand, *limits)))
    for slot in np.nonzero(large != home)[0].tolist():
        state.move(slot, int(large[slot]))
    return state


def _leaving_counted(table: SlotTable, flow: CountedFlow, *, exchanges: bool) -> Ints:
    """The slots that leave: whole ones of each class, then others until load and count are reached."""
    import numpy as np

    sizes, chosen = table.slot_size, list[int]()
    slots = np.nonzero(table.movable)[0]
    slots = slots[np.lexsort((slots, -sizes[slots], table.home[slots]))]
    starts = np.searchsorted(table.home[slots], np.arange(len(table.brokers) + 1))
    for b, parts in enumerate(flow.leaving.T):
        count = round(float(parts.sum()))
        mine = slots[starts[b] : starts[b + 1]]
        if not count or not len(mine):
            continue
        kind, away = flow.kind[mine], np.abs(sizes[mine] - flow.size[flow.kind[mine]])
        ranked = np.lexsort((mine, away, kind))
        first = np.searchsorted(kind[ranked], np.arange(len(parts)))
        taken = np.zeros(len(mine), dtype=bool)
        taken[ranked] = np.arange(len(mine)) - first[kind[ranked]] < np.floor(parts + 1e-6)[kind[ranked]]
        count -= int(taken.sum())
        load = float((parts * flow.size).sum()) - float(sizes[mine[taken]].sum())
        for i in np.nonzero(~taken)[0].tolist():  # the largest first
            if count <= 0:
                break
            if sizes[mine[i]] <= load:
                taken[i] = True
                load -= float(sizes[mine[i]])
                count -= 1
        smallest = np.nonzero(~taken)[0][::-1]
        taken[smallest[: max(0, count)]] = True
        load = float((parts * flow.size).sum()) - float(sizes[mine[taken]].sum())
        chosen += mine[_exchange_items(sizes[mine], taken, load) if exchanges else taken].tolist()
    return np.array(sorted(chosen), dtype=np.int64)


_EXCHANGES = 4


def _exchange_items(sizes: Ints, taken: Bools, lacking: float) -> Bools:
    """The choice with a few items exchanged for others, each time those two that bring the sum closest to what lacks.

    No two bring it above that. `sizes` fall.
    """
    import numpy as np

    for _ in range(_EXCHANGES):
        inside, outside = np.nonzero(taken)[0], np.nonzero(~taken)[0][::-1]
        if not len(inside) or not len(outside):
            break
        wanted = sizes[inside] + lacking
        below = np.searchsorted(sizes[outside], wanted, side="right") - 1
        gain = np.where(below < 0, 0, sizes[outside[below]] - sizes[inside])
        place = int(gain.argmax())
        if gain[place] <= 0:
            break
        old, new = int(inside[place]), int(outside[below[place]])
        taken[old], taken[new] = False, True
        lacking -= float(gain[place])
    return taken


def attempt_of(state: SearchState, window: LoadWindow) -> Attempt:
    """A snapshot of the search state."""
    table, at = state.table, positions(state)
    _straighten(state, at)
    moves = int((at != table.home).sum())
    outside = state.outside()
    return Attempt(at=at, cost=table.cost(at), moves=moves, outside=outside, window=window, tests=state.tested)


def _straighten(state: SearchState, at: Ints) -> None:
    """Where a slot went to the broker that another slot of its partition left, let that one stay instead."""
    for slot in sorted(state.moved):
        for other in state.siblings(slot):
            if at[slot] != state.home(slot) and at[slot] == state.home(other) and at[other] != at[slot]:
                at[slot], at[other] = at[other], at[slot]


def no_moves(table: SlotTable, window: LoadWindow) -> Attempt:
    """The attempt that moves nothing."""
    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist())
    kept = table.most_broken is None or len(broken_parts(table, table.home)) <= table.most_broken
    if table.counts is not None:
        kept = kept and not table.counts.outside(counts_of(table, table.home))
    kept = kept and not without_leader(table, table.home)
    return replace(attempt_of(state, window), rule_kept=kept)


class Quotas:
    """What is still to arrive, by group and rack.

    A group with replicas in rack r can get new ones there only in place of those that leave brokers of r (one
    copy of a partition a rack), so what arrives in r comes from r, and only the rest of what leaves r crosses
    over to racks where the group has no replicas.
    """

    def __init__(self, table: SlotTable, demand: DemandGroups, bound: LoadBound) -> None:
        self._group: Ints = demand.group_of
        self._part, self._home, self._rack = table.part, table.home, table.pool
        self._arriving: dict[int, dict[int, int]] = {}
        self._crossing: dict[tuple[int, int], int] = {}
        self._own: set[tuple[int, int]] = set()
        if demand.racks_bind:
            self._read(demand, bound)

    def _read(self, demand: DemandGroups, bound: LoadBound) -> None:
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


def fill(state: SearchState, slots: Sequence[int], quotas: Quotas) -> list[int]:
    """Send the slots off, the largest first; returns those that found no receiver (they stay at home)."""
    receivers = Receivers(state)
    rack: list[int] = state.table.pool.tolist()
    left = []
    for slot in sorted(slots, key=lambda s: (-state.size(s), s)):
        size = state.size(slot)
        dest = receivers.emptiest(slot, quotas.racks(slot, size))
        if dest is None:
            left.append(slot)
        else:
            state.move(slot, dest)
            quotas.use(slot, size, rack[dest])
    return left


_TRADES = 24  # large slots taken by one broker in exchange for small ones
_SOME = 2  # fewer small slots for a large one would not change counts
_OFFERS = 12  # large slots of one broker that are looked at
_LOOKS = 400  # slots of one broker that may be refused in a row before it counts as immovable


class _FewestReceivers(Receivers):
    """Receivers by rack, those with the fewest slots first."""

    def __init__(self, state: SearchState, counts: list[int]) -> None:
        self._counts = counts
        super().__init__(state)

    def fill(self, broker: int) -> int:
        """The broker's count."""
        return self._counts[broker]


def even_counts(pools: Pools, limits: CountLimits) -> int:
    """Move the smallest slots from brokers with too many to those with the fewest, inside all byte limits.

    Returns how many slots are left outside the limits. Cost: a heap step for each slot moved.
    """
    state = pools.state
    counts = counts_of(state.table, positions(state))
    receivers = _FewestReceivers(state, counts)
    for broker in sorted(range(len(counts)), key=lambda b: (limits.ceiling[b] - counts[b], b)):
        _spread_small(pools, limits, counts, receivers, broker)
        for _ in range(_TRADES):
            if counts[broker] <= limits.ceiling[broker]:
                break
            is_traded = _trade_away(pools, limits, counts, broker)
            if not is_traded and not _take_load(pools, limits, counts, receivers, broker):
                break
            _spread_small(pools, limits, counts, receivers, broker)
    for broker in sorted(range(len(counts)), key=lambda b: (counts[b] - limits.floor[b], b)):
        _gather(pools, limits, counts, broker)
        for _ in range(_TRADES):
            if counts[broker] >= limits.floor[broker] or not _trade_for(pools, limits, counts, broker):
                break
            _gather(pools, limits, counts, broker)
    return limits.outside(counts)


def _spread_small(
    pools: Pools,
    limits: CountLimits,
    counts: list[int],
    receivers: _FewestReceivers,
    broker: int,
    entries: Sequence[Entry] | None = None,
) -> None:
    """Send small slots of a broker with too many, or these `entries`, to those with the fewest."""
    state = pools.state
    refused = 0
    for size, slot in _lightest_entries(pools, broker) if entries is None else entries:
        if counts[broker] <= limits.ceiling[broker] or refused > _LOOKS:
            break
        dest = receivers.emptiest(slot, ()) if state.can_give(broker, size) else None
        if dest is None or dest == broker or counts[dest] >= limits.ceiling[dest]:
            refused += 1
            continue
        _take(pools, counts, slot, broker, dest)


def _trade_away(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> bool:
    """A broker with too many small slots and no load to spare trades some for one large; True when it did."""
    state = pools.state
    most = counts[broker] - limits.ceiling[broker] + 1
    others = sorted(
        range(len(counts)), key=lambda b: (counts[b] - limits.ceiling[b], state.floor[b] - state.load[b], b)
    )
    return any(
        _trade(pools, counts, broker, other, min(most, limits.ceiling[other] - counts[other] + 1))
        for other in others[:NEAR]
        if other != broker
    )


def _take_load(pools: Pools, limits: CountLimits, counts: list[int], receivers: _FewestReceivers, broker: int) -> bool:
    """A broker with too many slots gets a large one of a broker that can spare it, so that it may give small ones."""
    state, small = pools.state, pools.unmoved_slots(broker)[: counts[broker] - limits.ceiling[broker] + 1]
    wanted, least = sum(size for size, _ in small), sum(size for size, _ in small[:_SOME])
    others = sorted(range(len(counts)), key=lambda b: (state.floor[b] - state.load[b], b))
    for other in others[: NEAR * 2]:
        if other == broker or counts[other] <= limits.floor[other]:
            continue
        for size, slot in entries_near(pools.unmoved_slots(other), wanted, _OFFERS):
            is_worth_it = size >= least and state.can_give(other, size) and state.can_take(broker, size)
            if is_worth_it and state.fits(slot, broker):
                _take(pools, counts, slot, other, broker)
                _spread_small(pools, limits, counts, receivers, broker, small)
                return True
    return False


def _trade_for(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> bool:
    """A broker with too few slots and no room for load trades a large one for small ones; True when it did."""
    most = limits.floor[broker] - counts[broker] + 1
    others = sorted(range(len(counts)), key=lambda b: (limits.floor[b] - counts[b], b))
    return any(
        _trade(pools, counts, other, broker, min(most, counts[other] - limits.floor[other] + 1))
        for other in others[:NEAR]
        if other != broker
    )


def _trade(pools: Pools, counts: list[int], heavy: int, light: int, most: int) -> bool:
    """One large slot of `light` for two or more, up to `most`, small ones of `heavy`; loads stay inside."""
    state = pools.state
    if most < _SOME:
        return False
    batch = sum(size for size, _ in pools.unmoved_slots(heavy)[:most])
    wanted = min(batch, state.ceiling[heavy] - state.load[heavy])
    for size, slot in entries_near(pools.unmoved_slots(light), wanted, _OFFERS):
        if not state.can_give(light, size) or not state.can_take(heavy, size) or not state.fits(slot, heavy):
            continue
        small = _fitting_slots(pools, heavy, light, size, most)
        if len(small) >= _SOME:
            _take(pools, counts, slot, light, heavy)
            for other in small:
                _take(pools, counts, other, heavy, light)
            return True
    return False


def _fitting_slots(pools: Pools, broker: int, dest: int, load: int, most: int) -> list[int]:
    """The smallest slots at home on a broker that may go to `dest`, up to so much load and so many."""
    found: list[int] = []
    for size, slot in pools.unmoved_slots(broker)[:_LOOKS]:
        if size > load or len(found) >= most:
            break
        if pools.state.fits(slot, dest):
            found.append(slot)
            load -= size
    return found


def _lightest_entries(pools: Pools, broker: int) -> Iterator[Entry]:
    """Arrivals first, since they move anyway, then slots at home; smallest first."""
    yield from list(pools.arrived(broker))
    yield from list(pools.unmoved_slots(broker))


def _take(pools: Pools, counts: list[int], slot: int, source: int, dest: int) -> None:
    counts[source] -= 1
    counts[dest] += 1
    pools.take(((slot, dest),))


def _gather(pools: Pools, limits: CountLimits, counts: list[int], broker: int) -> None:
    """Bring small slots to a broker with too few, from those that have most above their floor."""
    state = pools.state
    if counts[broker] >= limits.floor[broker]:
        return
    for source in sorted(range(len(counts)), key=lambda b: (limits.floor[b] - counts[b], b)):
        refused = 0
        for size, slot in _lightest_entries(pools, source):
            enough = counts[broker] >= limits.floor[broker] or counts[source] <= limits.floor[source]
            if source == broker or enough or refused > _LOOKS:
                break
            if state.can_take(broker, size) and state.can_give(source, size) and state.fits(slot, broker):
                _take(pools, counts, slot, source, broker)
            else:
                refused += 1
        if counts[broker] >= limits.floor[broker]:
            break
