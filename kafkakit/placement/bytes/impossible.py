"""Why a goal cannot be reached, in numbers that a person can check, and what is the nearest that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.bytes.attempt import attempt
from kafkakit.placement.bytes.balance_goal import BalanceProblem, BandGoal, shares
from kafkakit.placement.bytes.lp_relaxation import PENALTY, DemandGroups
from kafkakit.placement.bytes.slots import SlotTable, summed
from kafkakit.placement.bytes.window import Limits, Window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints


def why_not(
    table: SlotTable,
    demand: DemandGroups,
    window: Window,
    racks: Mapping[int, str | None],
    shown: Callable[[int], str] = format_bytes,
) -> str:
    """The set of brokers whose limits cannot all be kept, and by how much they fail, loads in words as `shown`.

    `racks` by broker id. The penal prices of the LP relaxation point at them (a set as in Hall's theorem): too much
    load that cannot leave, or too little that can come.
    """
    full = _set(window.prices >= PENALTY // 2)
    empty = _set(window.prices <= -(PENALTY // 2))
    outside = shown(window.bound.outside)
    ends = window.bound.ends
    lines = []
    if full:
        limit, load = _sum(window.ceiling, full), _sum(ends, full)
        if load > limit:
            lines.append(
                f"{_named(table, full, racks)} may hold {shown(limit)} together, and "
                f"{shown(load)} cannot be put elsewhere"
            )
    if empty:
        limit, load = _sum(window.floor, empty), _sum(ends, empty)
        if load < limit:
            lines.append(
                f"{_named(table, empty, racks)} should hold {shown(limit)} together, and "
                f"no more than {shown(load)} can come to them"
            )
    immovable = [i for i in range(len(table.brokers)) if demand.loose[i] > window.ceiling[i]]
    if immovable and not lines:
        lines.append(
            f"{_named(table, immovable, racks)}: what may not move there is "
            f"{shown(int((demand.loose - window.ceiling)[immovable].sum()))} above the limit already"
        )
    return "; ".join(lines) or f"{outside} stay outside the limits wherever partitions go"


def too_large(table: SlotTable, ceiling: Ints) -> list[int]:
    """The partitions of which a copy is larger than what enough brokers may hold, the largest first.

    A partition whose n replicas may move needs n brokers whose ceiling, less what cannot leave them, is no smaller
    than one copy. O(partitions + brokers log brokers).
    """
    import numpy as np

    loose = table.fixed + summed(table.home[~table.movable], table.slot_size[~table.movable], len(table.brokers))
    able = table.receiver.copy()
    able[table.home[table.movable]] = True
    space = -np.sort(-(ceiling - loose)[able])
    wanted = summed(table.part[table.movable], np.ones(int(table.movable.sum()), dtype=np.int64), len(table.size))
    most = np.concatenate([[np.iinfo(np.int64).max], space, np.full(int(wanted.max(initial=0)), -1)])[wanted]
    found = np.nonzero(table.size > most)[0]
    return [int(p) for p in found[np.argsort(-table.size[found], kind="stable")]]


def more_brokers(
    problem: BalanceProblem,
    window: Window,
    racks: Mapping[int, str | None],
    band: int,
    counted_anew: Callable[[SlotTable], SlotTable],
) -> str | None:
    """How many more brokers, in which racks, bring a band within reach, in words; a plan with them was made.

    `counted_anew` limits the counts of a table with more brokers as those of the problem are.
    None where limits are not a band around equal shares, where the brokers that are too full are not whole racks, or
    where no such number was found. Cost: at most 40 LP relaxations.
    """
    table, goal = problem.table, problem.balance
    if (
        not isinstance(goal, BandGoal)
        or table.tags is not None
        or len(table.home) > _TRIED
        or table.leaders is not None
    ):
        return None
    share = goal.share[goal.share > 0]
    if not len(share) or int(share.max() - share.min()) > 1:
        return None
    added: dict[int, int] = {}
    for _ in range(_TRIES):
        full = _set(window.prices >= PENALTY // 2) or _set(window.prices > -(PENALTY // 2))
        if len(full) == len(table.brokers) or not _whole_racks(table, full):
            return None
        for rack in sorted({int(table.rack[i]) for i in full}):
            mine = int((problem.table.rack == rack).sum())
            added[rack] = added.get(rack, 0) + max(1, (mine + added.get(rack, 0)) // 16)
        wider = _with_brokers(problem, goal, added, counted_anew)
        window, table = wider.window(band), wider.table
        if window.possible and attempt(table, wider.demand, window).succeeded:
            return _words(problem.table, racks, added)
        if window.possible:
            return None
    return None


def _words(table: SlotTable, racks: Mapping[int, str | None], added: Mapping[int, int]) -> str:
    names = {int(rack): racks.get(b) or "none" for b, rack in zip(table.brokers, table.rack, strict=True)}
    parts = [f"{n} in rack {names[rack]}" for rack, n in sorted(added.items())]
    more = f"{counted(sum(added.values()), 'more broker')} like these"
    return f"{more}: {' and '.join(parts)}" if len(parts) > 1 else f"{more} in rack {names[min(added)]}"


def _with_brokers(
    problem: BalanceProblem,
    goal: BandGoal,
    added: Mapping[int, int],
    counted_anew: Callable[[SlotTable], SlotTable],
) -> BalanceProblem:
    """The problem with empty brokers in these racks, and equal shares anew."""
    import numpy as np

    table, limits = problem.table, goal.limits
    racks = np.array([rack for rack, n in sorted(added.items()) for _ in range(n)], dtype=np.int64)
    count = len(racks)
    ids = range(max(table.brokers) + 1, max(table.brokers) + 1 + count)
    zeros, true = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    wider = replace(
        table,
        brokers=(*table.brokers, *ids),
        rack=np.concatenate([table.rack, racks]),
        receiver=np.concatenate([table.receiver, true]),
        fixed=np.concatenate([table.fixed, zeros]),
        counts=None,
    )
    even = np.concatenate([limits.even & (goal.share > 0), true])
    total = int(goal.share.sum())
    return BalanceProblem.of(
        wider if table.counts is None else counted_anew(wider),
        BandGoal(
            Limits(
                floor=np.concatenate([limits.floor, zeros]),
                ceiling=np.concatenate([limits.ceiling, zeros + total]),
                even=even,
                offset=np.concatenate([limits.offset, zeros]),
            ),
            shares(total, even.astype(np.int64), even),
        ),
    )


_TRIES = 40  # numbers of brokers tried
_TRIED = 300_000  # replicas up to which they are


def _whole_racks(table: SlotTable, chosen: list[int]) -> bool:
    inside = set(chosen)
    racks = {int(table.rack[i]) for i in chosen}
    return all(r < table.racks for r in racks) and not any(
        int(r) in racks and i not in inside for i, r in enumerate(table.rack)
    )


def _sum(values: Ints, chosen: list[int]) -> int:
    return int(values[chosen].sum())


def _set(mask: Bools) -> list[int]:
    return [i for i, inside in enumerate(mask.tolist()) if inside]


def _named(table: SlotTable, chosen: list[int], racks: Mapping[int, str | None]) -> str:
    """Whole racks by name, else brokers by id."""
    if _whole_racks(table, chosen):
        names = {int(table.rack[i]): racks.get(table.brokers[i]) or "none" for i in chosen}
        named = ", ".join(names[r] for r in sorted(names))
        held = "broker" if len(chosen) == 1 else f"{len(chosen)} brokers"
        return f"the {held} of rack{'s' if len(names) > 1 else ''} {named}"
    ids = [str(table.brokers[i]) for i in chosen]
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids[:6])}{more}"
