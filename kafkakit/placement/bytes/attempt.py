"""One attempt at a goal: the LP relaxation, a real plan built after it, repaired, and made cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.even_counts import counts_of, even_counts, positions, surplus_of
from kafkakit.placement.bytes.fewest_moves import FewMoves
from kafkakit.placement.bytes.leader_repair import repair_leaders, without_leader
from kafkakit.placement.bytes.lp_relaxation import DemandGroups
from kafkakit.placement.bytes.pools import Pools
from kafkakit.placement.bytes.quotas import Quotas
from kafkakit.placement.bytes.receiving import Receivers, fill
from kafkakit.placement.bytes.repair import repair, save
from kafkakit.placement.bytes.search_state import SearchState
from kafkakit.placement.bytes.slots import CountLimits, SlotTable
from kafkakit.placement.bytes.subset_choice import choose
from kafkakit.placement.bytes.window import Window, fixed_window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


def construct(
    table: SlotTable, demand: DemandGroups, window: Window, surplus: Sequence[int] = (), few: FewMoves | None = None
) -> SearchState:
    """A first plan: brokers shed what the LP relaxation takes from them, receivers fill up evenly.

    `surplus` says how many slots each broker should give for the counts' sake; without it the fewest leave. With
    `few` its slots leave.
    """
    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist())
    if few is not None:
        fill(state, few.slots, Quotas(table, few.demand, few.bound))
        return state
    leaving = _leaving(table, demand, window, surplus)
    fill(state, leaving, Quotas(table, demand, window.bound))
    return state


def _leaving(table: SlotTable, demand: DemandGroups, window: Window, surplus: Sequence[int]) -> list[int]:
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
            count = max(0, surplus[broker]) * amount[g] // need if surplus else 0
            quotas.append((lo - begin, hi - begin, amount[g], count))
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
        left -= _repaired(pools, receivers, int(table.first[part]), int(table.first[part + 1]))
    return max(0, left)


def _repaired(pools: Pools, receivers: Receivers, first: int, last: int) -> bool:
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


_SLACK = 100  # the part of a window's width kept free on either side for evening counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Where every slot goes (`at`, broker indices), what it costs, and what is left outside the window.

    `proven` says that a search showed that nothing cheaper exists (or, where limits are not kept, nothing at all),
    `fewest` that none with fewer copies exists, `rule_kept` that the rules beside the window (rack violations
    allowed, counts) are kept. `few` is the flow of few copies where the plan was made for it.
    """

    at: Ints
    cost: int
    moves: int
    outside: int
    window: Window
    proven: bool = False
    fewest: bool = False
    rule_kept: bool = True
    few: FewMoves | None = None

    @property
    def succeeded(self) -> bool:
        """True when all limits and rules are kept."""
        return self.window.possible and not self.outside and self.rule_kept


def attempt(table: SlotTable, demand: DemandGroups, window: Window, few: FewMoves | None = None) -> Attempt:
    """Bring the table into the window, by few copies with `few`. About 2 s for 600,000 replicas with 90,000 moves."""
    if table.counts is not None:
        return _with_counts(table, demand, window, table.counts)
    state = construct(table, demand, window, few=few)
    pools = Pools(state)
    repair(pools)
    left = 0
    if table.most_broken is not None:
        left = repair_racks(pools, positions(state))
        repair(pools)
    else:
        save(pools)  # after repairing sets it could put the repeats back
    left += repair_leaders(pools)
    return replace(attempt_of(state, window), rule_kept=not left, few=few)


def _with_counts(table: SlotTable, demand: DemandGroups, window: Window, counts: CountLimits) -> Attempt:
    """Balance bytes in a slightly narrower window first, so that every broker has slack for small slots."""
    slack = (window.ceiling - window.floor) // _SLACK
    inner = fixed_window(table, demand, window.floor + slack, window.ceiling - slack)
    state = construct(table, demand, inner if inner.possible else window, surplus_of(table))
    pools = Pools(state)
    repair(pools)
    left = repair_racks(pools, positions(state)) if table.most_broken is not None else 0
    state.floor, state.ceiling = window.floor.tolist(), window.ceiling.tolist()
    left += even_counts(pools, counts)
    left += repair_leaders(pools)
    return replace(attempt_of(state, window), rule_kept=not left)


def attempt_of(state: SearchState, window: Window) -> Attempt:
    """The state's state as an attempt."""
    table, at = state.table, positions(state)
    _straighten(state, at)
    moves = int((at != table.home).sum())
    return Attempt(at=at, cost=table.cost(at), moves=moves, outside=state.outside(), window=window)


def _straighten(state: SearchState, at: Ints) -> None:
    """Where a slot went to the broker that another slot of its partition left, let that one stay instead."""
    for slot in sorted(state.moved):
        for other in state.siblings(slot):
            if at[slot] != state.home(slot) and at[slot] == state.home(other) and at[other] != at[slot]:
                at[slot], at[other] = at[other], at[slot]


def standing_still(table: SlotTable, window: Window) -> Attempt:
    """The attempt that moves nothing."""
    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist())
    kept = table.most_broken is None or len(broken_parts(table, table.home)) <= table.most_broken
    if table.counts is not None:
        kept = kept and not table.counts.outside(counts_of(table, table.home))
    kept = kept and not without_leader(table, table.home)
    return replace(attempt_of(state, window), rule_kept=kept)
