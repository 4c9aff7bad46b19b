"""Tightening a goal until it is met or a budget is spent, at a fixed deviation or as far as the budget allows.

If a goal cannot be reached, the reason is given in numbers that a person can check, with the nearest goal that can.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import InterruptedRunError
from kafkakit.core.quantities import count_of
from kafkakit.placement.by_size import exact as small
from kafkakit.placement.by_size.attempt import Attempt, attempt, no_moves
from kafkakit.placement.by_size.lp_relaxation import (
    PENALTY,
    BalanceProblem,
    BandGoal,
    DemandGroups,
    LoadLimits,
    LoadWindow,
    RangeGoal,
    demand_groups_of,
    fixed_window,
    shares,
    shares_within,
)
from kafkakit.placement.by_size.proof import (
    MOST_CELLS,
    FewMoves,
    few_moves,
    indices,
    is_whole_racks,
    moves_bound,
    too_large,
)
from kafkakit.placement.by_size.slots import MOST_TESTS, SlotTable
from kafkakit.placement.watch import SearchWatch

_LOOKS = 24  # windows priced while searching the least deviation of the LP relaxation
_EDGE = 64  # the part of what is left by which the first plan keeps off the edge
_STEPS = (_EDGE, _EDGE // 4, _EDGE // 16, 2, 2, 2)
"""Real plans built: close to the LP relaxation's deviation first, then halving what is left."""
_LOOSER = 4  # deviations beyond today's that are tried where today's placement breaks a rule
_DEAR = 200  # a search of a middling cluster for less than this part of the bytes is not worth it
_WORTHWHILE = 1000  # a full search for less than this part of the bytes is not worth seconds
CLOSE = 1000
"""A search ends within this part of the deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudget:
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
    watch: SearchWatch,
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
    budget: SearchBudget | None = None,
    is_thorough: bool = True,
    watch: SearchWatch,
) -> Attempt:
    """The cheapest plan found at this deviation, of those within a budget; small clusters are searched to the end.

    Where it `is_thorough`, larger ones are searched too for few copies, and where no plan was found without. First any
    plan is sought, then a cheaper one, so that whoever asks again with as much work finds one again.
    """
    within = SearchBudget() if budget is None else budget
    found = any_plan(problem, max_deviation, within, watch, by_moves=by_moves, is_thorough=is_thorough)
    found = _from_tighter(problem, max_deviation, found, within, watch, by_moves=by_moves)
    if not found.succeeded or not within.allows(found):
        return found
    number = small.choices(problem.table)
    if number <= small.LARGEST or (is_thorough and (by_moves or _is_dear(found)) and number <= small.LARGEST_BY_MOVES):
        return _improve_plan(problem, max_deviation, found, within, watch, by_moves=by_moves)
    return found


def _is_dear(found: Attempt) -> bool:
    """True where a plan's bytes are well above their bound."""
    return (found.cost - found.window.bound.value) * _DEAR > found.cost


_BANDS = tuple(n * 10_000 for n in (150, 100, 75, 50, 40, 30, 25, 20, 15, 10, 5, 3, 2, 1))


def _from_tighter(
    problem: BalanceProblem,
    max_deviation: int,
    found: Attempt,
    budget: SearchBudget,
    watch: SearchWatch,
    *,
    by_moves: bool,
) -> Attempt:
    """The better of a plan and those for usual tighter bands, so that none of these costs less than a wider one.

    They are made only as far as their bounds leave room for something better, which is seldom.
    """
    if not isinstance(problem.balance, BandGoal) or not found.window.possible or not found.moves:
        return found
    for band in (band for band in _BANDS if band < max_deviation):
        window = problem.window(band)
        if not window.possible or least_fitting(problem, band) > band:
            break
        if found.succeeded and (
            moves_bound(problem.table, window) >= found.moves if by_moves else window.bound.value >= found.cost
        ):
            break
        quick = found.succeeded and by_moves
        other = (
            in_window(problem, window, watch, by_moves=True, most_cells=_QUICK_CELLS)
            if quick
            else _attempt(problem, problem.demand, window, watch)
        )
        if other.succeeded and budget.allows(other):
            better = _choose_better(found, replace(other, window=found.window, few=found.few), by_moves=by_moves)
            found = replace(better, few=found.few)
        if not found.succeeded:
            break
    return found


def any_plan(
    problem: BalanceProblem,
    max_deviation: int,
    budget: SearchBudget,
    watch: SearchWatch,
    *,
    by_moves: bool,
    is_thorough: bool = False,
) -> Attempt:
    """A plan at this deviation within the budget, found by flows or else, for small clusters, by a search.

    An attempt that fails where none was found; it is `proven` where there is none.
    """
    window = problem.window(max_deviation)
    if not window.possible or least_fitting(problem, max_deviation) > max_deviation:
        return no_moves(problem.table, window)
    most_cells = MOST_CELLS if is_thorough else _QUICK_CELLS
    found = in_window(problem, window, watch, by_moves=by_moves, most_cells=most_cells)
    if not found.window.possible or (found.succeeded and budget.allows(found)):
        return found
    if small.choices(problem.table) > (small.LARGEST_BY_MOVES if is_thorough else small.LARGEST):
        return found
    if budget.moved_bytes is not None and window.bound.value > budget.moved_bytes:
        return found
    by_copies = by_moves if budget.moves is None else budget.moved_bytes is None
    return _search(problem, max_deviation, found, budget, watch, by_moves=by_copies, work=FIRST_WORK, any_will_do=True)


FIRST_WORK = 1.0
"""The work that the search for any plan may take, where flows found none."""


def least_fitting(problem: BalanceProblem, from_deviation: int) -> int:
    """The least deviation, from this one on, at which no partition is larger than what enough brokers may hold."""
    goal = problem.balance
    if not isinstance(goal, BandGoal) or not too_large(problem.table, goal.bounds(from_deviation)[1]):
        return from_deviation
    looser = range(from_deviation, max(from_deviation + 1, problem.today()))
    return from_deviation + bisect_left(looser, True, key=lambda d: not too_large(problem.table, goal.bounds(d)[1]))


def loosen_shares(problem: BalanceProblem, max_deviation: int) -> BalanceProblem:
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


def in_window(
    problem: BalanceProblem, window: LoadWindow, watch: SearchWatch, *, by_moves: bool, most_cells: int = MOST_CELLS
) -> Attempt:
    """A plan that brings the loads into this window, made partition by partition where the first one fails.

    That is done up to so many cells, partitions times racks. The plans of fewest bytes and of fewest copies are both
    judged by what is asked, since each may be the better one: for fewest bytes where the bound leaves room for it.
    """
    table = problem.table
    found = _attempt(problem, problem.demand, window, watch)
    cells = len(table.size) * (table.racks + 1)
    above = found.cost - window.bound.value
    other_way = found.succeeded and (above > 0 if cells <= _FEW_CELLS else above * _WORTHWHILE > found.cost)
    if table.counts is None and (by_moves or (other_way and cells <= most_cells)):
        few = _few_moves(table, window)
        if few is not None:
            # Of a small cluster both ways to bring inside what the flow leaves outside: by few copies, by few bytes.
            for way in (few, replace(few, spares_bytes=True)) if cells <= _FEW_CELLS else (few,):
                found = _choose_better(found, _attempt(problem, problem.demand, window, watch, way), by_moves=by_moves)
            found = replace(found, few=few if by_moves else None)
    if found.succeeded or cells > most_cells:
        return found
    # Groups of partitions promise more than partitions can keep where racks are of very unlike size.
    apart = demand_groups_of(table, apart=True)
    closer = fixed_window(table, apart, window.floor, window.ceiling)
    if not window.slides.any() and not closer.possible:
        return no_moves(table, closer)
    other = _attempt(problem, apart, closer if closer.possible else window, watch)
    other = replace(other, few=found.few, window=window if window.slides.any() else closer)
    return _choose_better(other, found, by_moves=by_moves)


def _few_moves(table: SlotTable, window: LoadWindow, worth: int | None = None) -> FewMoves | None:
    """The flow for few copies; None also where a stop ends it, as the search goes on with what it has."""
    try:
        return few_moves(table, window, worth)
    except InterruptedRunError:
        return None


_FEW_CELLS = 4_000  # up to which a plan of few copies is tried wherever bytes are above their bound


_TEST_WORK = 2e-6  # of one test of a slot against the rules, beside the solver's work
_FEWEST_TESTS = 20_000  # which every plan gets


def _attempt(
    problem: BalanceProblem, demand: DemandGroups, window: LoadWindow, watch: SearchWatch, few: FewMoves | None = None
) -> Attempt:
    """A plan on what work is left; larger clusters are no part of the budget, as a plan of theirs needs its tests."""
    table = problem.table
    if small.choices(table) > small.LARGEST_BY_MOVES:
        return attempt(table, demand, window, few)
    most = int(watch.grant(MOST_TESTS * _TEST_WORK) / _TEST_WORK)
    found = attempt(table, demand, window, few, most_tests=max(_FEWEST_TESTS, most))
    watch.spend(found.tests * _TEST_WORK)
    return found


def _choose_better(one: Attempt, other: Attempt, *, by_moves: bool) -> Attempt:
    """The one that keeps more of the rules and limits, and then costs less by what is asked."""
    return min(
        one,
        other,
        key=lambda each: (
            not each.rule_kept,
            each.outside,
            *((each.moves, each.cost) if by_moves else (each.cost, each.moves)),
        ),
    )


def _improve_plan(
    problem: BalanceProblem,
    max_deviation: int,
    found: Attempt,
    budget: SearchBudget,
    watch: SearchWatch,
    *,
    by_moves: bool,
) -> Attempt:
    """The better of a plan that fits the budget and what a search from there gives, where there is enough to win."""
    table, window = problem.table, found.window
    if found.proven or found.fewest:
        return found
    if not by_moves:
        if found.cost == window.bound.value:
            return replace(found, proven=True)
        above = found.cost - window.bound.value
        if above * _WORTHWHILE <= found.cost and small.choices(table) > small.LARGEST:
            return found
    if by_moves and found.moves <= moves_bound(table, window):
        return found
    short = not by_moves and small.choices(table) > small.TINY and not _is_dear(found)
    return _search(
        problem, max_deviation, found, budget, watch, by_moves=by_moves, work=small.SHORT_WORK if short else small.WORK
    )


def _search(
    problem: BalanceProblem,
    max_deviation: int,
    found: Attempt,
    budget: SearchBudget,
    watch: SearchWatch,
    *,
    by_moves: bool,
    work: float,
    any_will_do: bool = False,
) -> Attempt:
    """The plan that an integer program finds from the one that was found; that one where it finds nothing better."""
    table, limits, window = problem.table, problem.balance.limits, found.window
    fitting = found.succeeded and budget.allows(found)
    sliding = bool(window.slides.any())
    if not sliding:
        limits = LoadLimits(floor=window.floor, ceiling=window.ceiling, even=limits.even, offset=limits.offset)
    answer = small.cheapest(
        table,
        limits,
        max_deviation if sliding else None,
        by_moves=by_moves,
        most_load=budget.moved_bytes,
        most_moves=budget.moves,
        work=work,
        # For bytes the search does better from today's placement, and without the bound.
        start=found.at if fitting and by_moves else None,
        least=moves_bound(table, window) if by_moves and not sliding else 0,
        any_will_do=any_will_do,
        watch=watch,
    )
    if answer.at is None:
        return found if found.succeeded else replace(found, proven=answer.proven)
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
        proven=answer.proven and not by_moves and budget.moves is None,
        fewest=answer.proven and by_moves and budget.moved_bytes is None,
        few=found.few,
    )


def tightest(
    problem: BalanceProblem,
    budget: SearchBudget,
    watch: SearchWatch,
    *,
    finest: int = 0,
    by_moves: bool = False,
    is_cheapest: bool = True,
) -> tuple[int, Attempt]:
    """The least deviation that the budget allows, and a plan for it; nothing finer than `finest` is sought.

    First the least that the LP relaxation reaches within the budget, then real plans from there outwards, whatever they
    cost; at last, if the `is_cheapest` is wanted, a cheap one. The answer is no looser than today's placement, which
    costs nothing.
    """
    loosest = problem.today()
    watch.phase("how tight the goal can be")
    spent = _most_bytes(problem, budget)
    low = least_fitting(problem, max(finest, tightest_relaxed(problem, loosest, moved_bytes=spent)))
    best = (loosest, no_moves(problem.table, problem.window(loosest)))
    is_small = small.is_small(problem.table)
    if is_small and isinstance(problem.balance, RangeGoal):
        return _narrowest_range(problem, problem.balance, budget, watch, low, best, by_moves=by_moves)

    def trial(aim: int) -> tuple[bool, int]:
        nonlocal best
        found = any_plan(problem, aim, budget, watch, by_moves=is_small and by_moves)
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
        tighten(trial, low - 1, middle, loosest, watch, steps=halves, close=_close, announced=False)
    else:
        # The very edge of what the LP relaxation can do is where real plans struggle most: start a little off it.
        aim = low if spent is not None or low == finest else low + (loosest - low) // _EDGE
        tighten(trial, low, aim, loosest, watch, steps=_STEPS, close=lambda _: loosest // CLOSE)
    for doubled in range(_LOOSER) if not best[1].rule_kept else ():
        # Today's placement breaks a rule beside the limits, and what keeps it may be farther apart.
        trial(max(1, loosest) << doubled)
        if best[1].rule_kept or watch.stopped():
            break
    if not is_cheapest or watch.stopped():
        return best
    if is_small:
        return _cheapest_there(problem, best, budget, watch, low, by_moves=by_moves)
    if by_moves and best[1].moves:
        other = in_window(problem, problem.window(best[0]), watch, by_moves=True)
        if other.succeeded and budget.allows(other):
            best = (best[0], _choose_better(other, best[1], by_moves=True))
    return best


def _close(reached: int) -> int:
    """What is left of a search of a small cluster that is not worth another trial."""
    return max(1, reached // CLOSE)


def _cheapest_there(
    problem: BalanceProblem,
    best: tuple[int, Attempt],
    budget: SearchBudget,
    watch: SearchWatch,
    low: int,
    *,
    by_moves: bool,
) -> tuple[int, Attempt]:
    """The cheapest plan found that is as tight as this one."""
    reached, found = best
    if not found.succeeded or not found.moves:
        return best
    at_it = replace(found, window=problem.window(reached), proven=False, fewest=False)
    cheaper = _improve_plan(problem, reached, at_it, budget, watch, by_moves=by_moves)
    watch.tried(reached, cheaper)
    return max(low, problem.measure(cheaper.at)), cheaper


def with_fewer_copies(
    problem: BalanceProblem, max_deviation: int, found: Attempt, budget: SearchBudget
) -> tuple[int, Attempt]:
    """The plan with the fewest copies found among those within 0.5 % of the least bytes, and how tight it is.

    It may be looser by a thousandth. The LP relaxation does not tell large replicas from small ones that weigh as much
    together, so a plan after it may copy many small ones; here the flow in which a copy has a price too is followed.
    """
    table, best = problem.table, (max_deviation, found)
    if table.counts is not None or not found.moves:
        return best
    for deviation in (max_deviation, max_deviation + max_deviation // CLOSE):
        window = problem.window(deviation)
        most = max(found.cost, window.bound.value + window.bound.value // _DEAR)
        few = _few_moves(table, window, max(1, found.cost // _WORTHWHILE))
        if few is None:
            break
        other = attempt(table, problem.demand, window, few)
        reached = max(max_deviation, problem.measure(other.at))
        kept = other.rule_kept and window.possible and reached <= max_deviation + max_deviation // CLOSE
        kept = kept and _beyond_limits(problem, other) <= _beyond_limits(problem, found)
        if kept and other.cost <= most and budget.allows(other) and other.moves < best[1].moves:
            best = (reached, _for_certain(problem, reached, replace(other, few=None)))
    return best


def _beyond_limits(problem: BalanceProblem, found: Attempt) -> int:
    """The load beyond the limits that hold whatever the goal."""
    limits, loads = problem.balance.limits, problem.table.loads(found.at)
    return int((loads - limits.ceiling).clip(0).sum() + (limits.floor - loads).clip(0).sum())


def _most_bytes(problem: BalanceProblem, budget: SearchBudget) -> int | None:
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


def _narrowest_range(
    problem: BalanceProblem,
    balance: RangeGoal,
    budget: SearchBudget,
    watch: SearchWatch,
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
    found = Attempt(at=answer.at, cost=answer.cost, moves=answer.moves, outside=0, window=problem.window(width))
    found = _improve_plan(problem, width, found, budget, watch, by_moves=by_moves)
    watch.tried(width, found)
    return width, found


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
        beyond = _excess_over(window, moved_bytes)
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
            if _excess_over(problem.window(probe), moved_bytes) <= 0:
                at = probe
            else:
                tried = probe
            probe = (tried + at) // 2
    return at, tried + 1


def _excess_over(window: LoadWindow, moved_bytes: int | None) -> int:
    """How much the window's LP relaxation is above the budget, load outside the limits counted at its penalty."""
    if moved_bytes is None or not window.possible:
        return PENALTY * window.bound.outside
    return window.bound.value - moved_bytes


def more_brokers(
    problem: BalanceProblem,
    window: LoadWindow,
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
        full = indices(window.prices >= PENALTY // 2) or indices(window.prices > -(PENALTY // 2))
        if len(full) == len(table.brokers) or not is_whole_racks(table, full):
            return None
        for rack in sorted({int(table.rack[i]) for i in full}):
            mine = int((problem.table.rack == rack).sum())
            added[rack] = added.get(rack, 0) + max(1, (mine + added.get(rack, 0)) // 16)
        wider = _with_brokers(problem, goal, added, counted_anew)
        window, table = wider.window(band), wider.table
        if window.possible and attempt(table, wider.demand, window).succeeded:
            return _racks_text(problem.table, racks, added)
        if window.possible:
            return None
    return None


def _racks_text(table: SlotTable, racks: Mapping[int, str | None], added: Mapping[int, int]) -> str:
    names = {int(rack): racks.get(b) or "none" for b, rack in zip(table.brokers, table.rack, strict=True)}
    parts = [f"{n} in rack {names[rack]}" for rack, n in sorted(added.items())]
    more = f"{count_of(sum(added.values()), 'more broker')} like these"
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
            LoadLimits(
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
