"""Tightening a goal until it is met or a budget is spent, at a fixed deviation or as far as the budget allows.

If a goal cannot be reached, the reason is given in numbers that a person can check, with the nearest goal that can.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.errors import InterruptedRunError
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.by_size import exact as small
from kafkakit.placement.by_size.attempt import Attempt, attempt, no_moves
from kafkakit.placement.by_size.lp_relaxation import (
    PENALTY,
    BalanceProblem,
    BandGoal,
    DemandGroups,
    Limits,
    RangeGoal,
    Window,
    demand_groups_of,
    fixed_window,
    shares,
    shares_within,
)
from kafkakit.placement.by_size.proof import MOST_CELLS, FewMoves, few_moves, moves_bound
from kafkakit.placement.by_size.slots import SlotTable, summed
from kafkakit.placement.watch import UNWATCHED, Watch

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


_LOOKS = 24  # windows priced while searching the least deviation of the LP relaxation
_EDGE = 64  # the part of what is left by which the first plan keeps off the edge
_STEPS = (_EDGE, _EDGE // 4, _EDGE // 16, 2, 2, 2)
"""Real plans built: close to the LP relaxation's deviation first, then halving what is left."""
_LOOSER = 4  # deviations beyond today's that are tried where today's placement breaks a rule
_WORTHWHILE = 1000  # a full search for less than this part of the bytes is not worth seconds
CLOSE = 1000
"""A search ends within this part of the deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a plan may spend: bytes copied and replicas copied; None: any amount."""

    moved_bytes: int | None = None
    moves: int | None = None

    def allows(self, found: Attempt) -> bool:
        """True when the attempt keeps the budget."""
        return (self.moved_bytes is None or found.cost <= self.moved_bytes) and (
            self.moves is None or found.moves <= self.moves
        )


def tighten(
    trial: Callable[[int], tuple[bool, int]],
    low: int,
    aim: int,
    high: int,
    watch: Watch,
    *,
    steps: Sequence[int],
    close: Callable[[int], int],
    announced: bool = True,
) -> None:
    """Try deviations from `aim` on, between `low`, which no plan goes below, and `high`, which is reached already.

    `trial` makes a plan for a deviation and returns whether it kept to that and the least that any plan so far
    reached. After each the next is tried at one part (`steps`) of what is left above `low`; the search ends when
    the steps are used up, when no more than `close` is left, or when the watch stops it.
    """
    for number, part in enumerate(steps):
        if aim >= high:
            return
        if announced:
            watch.phase(f"plan {number + 1}")
        kept, reached = trial(aim)
        high = min(high, reached)
        low = low if kept else aim
        if watch.stopped() or high - low <= close(high):
            return
        aim = low + max(1, (high - low) // part)


def at_deviation(
    problem: BalanceProblem,
    max_deviation: int,
    *,
    by_moves: bool = False,
    budget: Budget | None = None,
    is_thorough: bool = True,
    watch: Watch = UNWATCHED,
) -> Attempt:
    """The cheapest plan found at this deviation, of those within a budget; small clusters are searched to the end.

    Where it `is_thorough`, larger ones are searched too for few copies, and where no plan was found without.
    """
    window = problem.window(max_deviation)
    if not window.possible or least_fitting(problem, max_deviation) > max_deviation:
        return no_moves(problem.table, window)
    most_cells = MOST_CELLS if is_thorough else _QUICK_CELLS
    found = in_window(problem, window, by_moves=by_moves, most_cells=most_cells)
    if not found.window.possible:
        return found
    number = small.choices(problem.table)
    wanting = not found.succeeded or (budget is not None and not budget.allows(found))
    if number <= small.LARGEST or (is_thorough and number <= small.LARGEST_BY_MOVES and (by_moves or wanting)):
        return _searched(problem, max_deviation, found, by_moves=by_moves, budget=budget, watch=watch)
    return found


def least_fitting(problem: BalanceProblem, from_deviation: int) -> int:
    """The least deviation, from this one on, at which no partition is larger than what enough brokers may hold."""
    goal = problem.balance
    if not isinstance(goal, BandGoal) or not too_large(problem.table, goal.bounds(from_deviation)[1]):
        return from_deviation
    looser = range(from_deviation, max(from_deviation + 1, problem.today()))
    return from_deviation + bisect_left(looser, True, key=lambda d: not too_large(problem.table, goal.bounds(d)[1]))


def loosened(problem: BalanceProblem, max_deviation: int) -> BalanceProblem:
    """The problem with shares that can be reached, where those of a band cannot.

    Brokers that hold a partition larger than their limit keep it, and no share is asked of them; the others share the
    rest. Where racks must hold too much or too little, their brokers share what the LP relaxation leaves to the rack.
    """
    import numpy as np

    table, goal = problem.table, problem.balance
    if not isinstance(goal, BandGoal):
        return problem
    loads = table.loads(table.home)
    while large := too_large(table, goal.bounds(max_deviation)[1]):
        least = np.zeros(len(loads), dtype=np.int64)
        for part in large:
            holders = table.home[int(table.first[part]) : int(table.first[part + 1])]
            least[holders] = np.maximum(least[holders], table.size[part])
        keeps = (least > 0) & (goal.share > 0)
        if not keeps.any() or keeps.sum() == (goal.share > 0).sum():
            return problem
        own = np.minimum(loads, np.maximum(least + problem.demand.loose, goal.bounds(max_deviation)[1]))
        rest = max(0, int(goal.share.sum()) - int(own[keeps].sum()))
        ceiling = np.where(keeps, np.minimum(goal.limits.ceiling, own), goal.limits.ceiling)
        even = (goal.share > 0) & ~keeps
        goal = BandGoal(replace(goal.limits, ceiling=ceiling), shares(rest, goal.share, even))
    window = goal.window(table, problem.demand, max_deviation)
    if not window.possible and table.racks:
        even = goal.share > 0
        goal = BandGoal(goal.limits, shares_within(window.bound.ends, goal.share, even, table.pool))
    return replace(problem, balance=goal)


_QUICK_CELLS = 250_000  # partitions times racks up to which each of several plans is made partition by partition


def in_window(problem: BalanceProblem, window: Window, *, by_moves: bool, most_cells: int = MOST_CELLS) -> Attempt:
    """A plan that brings the loads into this window, made partition by partition where the first one fails.

    That is done up to so many cells, partitions times racks.
    """
    table = problem.table
    few = _few_moves(table, window) if by_moves else None
    found = attempt(table, problem.demand, window, few)
    if found.succeeded or len(table.size) * (table.racks + 1) > most_cells:
        return found
    # Groups of partitions promise more than partitions can keep where racks are of very unlike size.
    apart = demand_groups_of(table, apart=True)
    closer = fixed_window(table, apart, window.floor, window.ceiling)
    if not window.slides.any() and not closer.possible:
        return no_moves(table, closer)
    other = attempt(table, apart, closer if closer.possible else window)
    other = replace(other, few=few, window=window if window.slides.any() else closer)
    return min(other, found, key=lambda each: (not each.rule_kept, each.outside, each.cost))


def _few_moves(table: SlotTable, window: Window) -> FewMoves | None:
    """The flow for few copies; None also where a stop ends it, as the search goes on with what it has."""
    try:
        return few_moves(table, window)
    except InterruptedRunError:
        return None


def _searched(
    problem: BalanceProblem,
    max_deviation: int,
    found: Attempt,
    *,
    by_moves: bool,
    budget: Budget | None,
    watch: Watch,
) -> Attempt:
    """The better of the plan found and the one a full search gives, where there is enough to win."""
    table, limits, window = problem.table, problem.balance.limits, found.window
    fitting = found.succeeded and (budget is None or budget.allows(found))
    if fitting and not by_moves:
        if found.cost == window.bound.value:
            return replace(found, proven=True)
        above = found.cost - window.bound.value
        if above * _WORTHWHILE <= found.cost and small.choices(table) > small.TINY:
            return found
    if fitting and by_moves and found.moves <= moves_bound(table, window):
        return found
    sliding = bool(window.slides.any())
    if not sliding:
        limits = Limits(floor=window.floor, ceiling=window.ceiling, even=limits.even, offset=limits.offset)
    width = max_deviation if sliding else None
    answer = small.cheapest(
        table,
        limits,
        width,
        by_moves=by_moves,
        most_load=None if budget is None else budget.moved_bytes,
        most_moves=None if budget is None else budget.moves,
        work=small.SHORT_WORK if fitting and not by_moves and small.choices(table) > small.TINY else small.WORK,
        watch=watch,
    )
    if answer.at is None:
        return replace(found, proven=answer.proven)
    if fitting and (answer.moves >= found.moves if by_moves else answer.cost >= found.cost) and not answer.proven:
        return found
    if sliding:
        floor, ceiling = limits.at(answer.low, max_deviation)
        window = replace(window, floor=floor, ceiling=ceiling)
    return Attempt(
        at=answer.at,
        cost=answer.cost,
        moves=int((answer.at != table.home).sum()),
        outside=0,
        window=window,
        # Within a budget the cheapest is not the cheapest of all.
        proven=answer.proven and not by_moves and (budget is None or budget.moves is None),
        fewest=answer.proven and by_moves and (budget is None or budget.moved_bytes is None),
        few=found.few,
    )


def tightest(
    problem: BalanceProblem, budget: Budget, watch: Watch, *, finest: int = 0, by_moves: bool = False
) -> tuple[int, Attempt]:
    """The least deviation that the budget allows, and a plan for it; nothing finer than `finest` is sought.

    First the least that the LP relaxation reaches within the budget, then real plans from there outwards. The
    answer is no looser than today's placement, which costs nothing.
    """
    loosest = problem.today()
    watch.phase("how tight the goal can be")
    spent = _most_bytes(problem, budget)
    low = least_fitting(problem, max(finest, tightest_relaxed(problem, loosest, moved_bytes=spent)))
    best = (loosest, no_moves(problem.table, problem.window(loosest)))
    is_small = small.is_small(problem.table)
    if is_small and isinstance(problem.balance, RangeGoal):
        return _narrowest(problem, problem.balance, budget, watch, low, best, by_moves=by_moves)

    def trial(aim: int) -> tuple[bool, int]:
        nonlocal best
        found = (
            _within(problem, aim, budget, watch, by_moves=by_moves)
            if is_small
            else at_deviation(problem, aim, is_thorough=False, watch=watch)
        )
        watch.tried(aim, found)
        reached = problem.measure(found.at)
        reached = max(low, reached) if is_small else max(aim, reached)
        kept = found.succeeded and budget.allows(found)
        may = kept if is_small else budget.allows(found) and found.rule_kept
        if may and (reached < best[0] or not best[1].rule_kept):
            best = (reached, _for_certain(problem, reached, found))
        return kept, best[0]

    if watch.stopped():
        return best
    if is_small:
        halves = (2,) * max(1, loosest).bit_length()
        middle = (low + loosest) // 2
        tighten(trial, low - 1, middle, loosest, watch, steps=halves, close=lambda _: 1, announced=False)
    else:
        # The very edge of what the LP relaxation can do is where real plans struggle most: start a little off it.
        aim = low if spent is not None or low == finest else low + (loosest - low) // _EDGE
        tighten(trial, low, aim, loosest, watch, steps=_STEPS, close=lambda _: loosest // CLOSE)
    for doubled in range(_LOOSER) if not best[1].rule_kept else ():
        # Today's placement breaks a rule beside the limits, and what keeps it may be farther apart.
        trial(max(1, loosest) << doubled)
        if best[1].rule_kept or watch.stopped():
            break
    return best


def _most_bytes(problem: BalanceProblem, budget: Budget) -> int | None:
    """The most bytes that a plan within the budget can copy: so many moves copy no more than the largest copies."""
    if budget.moves is None:
        return budget.moved_bytes
    import numpy as np

    sizes = np.sort(problem.table.slot_size)
    most = int(sizes[max(0, len(sizes) - budget.moves) :].sum())
    return most if budget.moved_bytes is None else min(most, budget.moved_bytes)


def _for_certain(problem: BalanceProblem, max_deviation: int, found: Attempt) -> Attempt:
    """The attempt with the window that it really reached."""
    if not found.outside:
        return found
    return replace(found, window=problem.window(max_deviation), outside=0)


def _narrowest(
    problem: BalanceProblem,
    balance: RangeGoal,
    budget: Budget,
    watch: Watch,
    low: int,
    best: tuple[int, Attempt],
    *,
    by_moves: bool,
) -> tuple[int, Attempt]:
    """The narrowest range of a small cluster, in one integer program."""
    answer = small.tightest(problem.table, balance.limits, budget.moved_bytes, budget.moves, low, watch)
    if answer.at is None or (answer.width >= best[0] and best[1].rule_kept):
        return best
    width = max(low, answer.width)
    found = _within(problem, width, budget, watch, by_moves=by_moves)
    if not found.succeeded or not budget.allows(found):
        found = Attempt(at=answer.at, cost=answer.cost, moves=answer.moves, outside=0, window=found.window)
    watch.tried(width, found)
    return width, found


def _within(problem: BalanceProblem, max_deviation: int, budget: Budget, watch: Watch, *, by_moves: bool) -> Attempt:
    """The cheapest plan of a small cluster, or, where the budget does not allow it, the cheapest within the budget."""
    found = at_deviation(problem, max_deviation, by_moves=by_moves, watch=watch)
    if watch.stopped() or not found.succeeded or budget.allows(found):
        return found
    within = at_deviation(problem, max_deviation, by_moves=by_moves, budget=budget, watch=watch)
    if within.succeeded and budget.allows(within):
        return within
    # The search with both limits ended at its work; what the budget limits may be had without the other.
    return at_deviation(problem, max_deviation, by_moves=not by_moves, watch=watch)


def tightest_relaxed(problem: BalanceProblem, loosest: int, *, moved_bytes: int | None = None) -> int:
    """The least deviation that the LP relaxation reaches with so many bytes (None: any), at most `loosest`."""
    return relaxed_deviations(problem, loosest, moved_bytes, everywhere=False)[0]


def relaxed_deviations(
    problem: BalanceProblem, loosest: int, moved_bytes: int | None, *, everywhere: bool
) -> tuple[int, int]:
    """A deviation that the LP relaxation reaches with so many bytes (None: any), and one that no plan goes below.

    The cost falls with looser goals and is convex, so tangents from the tight side seldom step too far: only where
    limits clash or fall between two bytes. For small clusters, and `everywhere`, that is put right by halving the
    last step. `loosest` is known to be reached.
    """
    tried, at = -1, 0
    for _ in range(_LOOKS):
        window = problem.window(at)
        beyond = _beyond(window, moved_bytes)
        if beyond <= 0 or at >= loosest:
            break
        tried = at
        fall, unit = problem.balance.fall(window)
        at = min(loosest, at + max(1, -(-beyond * unit // fall))) if fall else loosest
    else:
        at = loosest
    is_small = small.is_small(problem.table)
    if is_small or everywhere or at == loosest:
        # Most often the tangents end right at the least.
        probe = at - 1 if is_small else at - max(1, at // CLOSE)
        while at - tried > (1 if is_small else max(1, at // CLOSE)):
            if _beyond(problem.window(probe), moved_bytes) <= 0:
                at = probe
            else:
                tried = probe
            probe = (tried + at) // 2
    return at, tried + 1


def _beyond(window: Window, moved_bytes: int | None) -> int:
    """How much the window's LP relaxation is above the budget, load outside the limits counted at its penalty."""
    if moved_bytes is None or not window.possible:
        return PENALTY * window.bound.outside
    return window.bound.value - moved_bytes


def explain_infeasible(
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
