"""Byte balance: bring every broker inside its limits with the fewest bytes, guided by the LP relaxation."""

from collections.abc import Sequence

from kafkakit.placement.bytes.lp_relaxation import DemandGroups
from kafkakit.placement.bytes.quotas import Quotas
from kafkakit.placement.bytes.receiving import fill
from kafkakit.placement.bytes.search_state import SearchState
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.subset_choice import choose
from kafkakit.placement.bytes.window import Window


def construct(table: SlotTable, demand: DemandGroups, window: Window, surplus: Sequence[int] = ()) -> SearchState:
    """A first plan: brokers shed what the LP relaxation takes from them, receivers fill up evenly.

    `surplus` says how many slots each broker should give for the counts' sake; without it the fewest leave.
    """
    state = SearchState(table, window.floor.tolist(), window.ceiling.tolist())
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
