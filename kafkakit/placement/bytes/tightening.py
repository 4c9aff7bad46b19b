"""Tightening a goal until it is met or a budget is spent: at a fixed deviation, or as far as the budget allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kafkakit.placement.bytes import exact as small
from kafkakit.placement.bytes.attempt import Attempt, attempt, standing_still
from kafkakit.placement.bytes.balance_goal import BalanceProblem, RangeGoal
from kafkakit.placement.bytes.lp_relaxation import PENALTY
from kafkakit.placement.bytes.window import Limits, Window

_LOOKS = 24  # windows priced while searching the least deviation of the LP relaxation
_EDGE = 64  # the part of what is left by which the first plan keeps off the edge
_STEPS = (_EDGE, _EDGE // 4, _EDGE // 16, 2, 2, 2)
"""Real plans built: close to the LP relaxation's deviation first, then halving what is left."""
_LOOSER = 4  # deviations beyond today's that are tried where today's placement breaks a rule
_WORTHWHILE = 1000  # a full search for less than this part of the bytes is not worth seconds
CLOSE = 1000
"""A search ends within this part of the deviation."""


class Watch(Protocol):
    """What is informed of how the search goes, and may end it early."""

    def phase(self, text: str) -> None:
        """Say what is done now."""
        ...

    def stopped(self) -> bool:
        """True when the search should end with what it has."""
        ...

    def tried(self, max_deviation: int, found: Attempt) -> None:
        """Hear of a plan that was made for this deviation, whether it is used or not."""
        ...


class Unwatched:
    """A watch that shows nothing and stops nothing."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def stopped(self) -> bool:
        """Never."""
        return False

    def tried(self, max_deviation: int, found: Attempt) -> None:
        """Forget it."""


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


def at_deviation(problem: BalanceProblem, max_deviation: int, *, by_moves: bool = False) -> Attempt:
    """The cheapest plan found at this deviation; small clusters are searched to the end."""
    window = problem.window(max_deviation)
    if not window.possible:
        return standing_still(problem.table, window)
    found = attempt(problem.table, problem.demand, window)
    if small.is_small(problem.table):
        return _searched(problem, max_deviation, window, found, by_moves)
    return found


def _searched(problem: BalanceProblem, max_deviation: int, window: Window, found: Attempt, by_moves: bool) -> Attempt:
    """The better of the plan found and the one a full search gives, where there is enough to win."""
    table, limits = problem.table, problem.balance.limits
    if found.succeeded and not by_moves:
        if found.cost == window.bound.value:
            return replace(found, proven=True)
        above = found.cost - window.bound.value
        if above * _WORTHWHILE <= found.cost and small.choices(table) > small.TINY:
            return found
    sliding = bool(window.slides.any())
    if sliding:
        answer = small.cheapest(table, limits, max_deviation, by_moves=by_moves)
    else:
        fixed = Limits(floor=window.floor, ceiling=window.ceiling, even=limits.even, offset=limits.offset)
        answer = small.cheapest(table, fixed, None, by_moves=by_moves)
    if answer.at is None:
        return replace(found, proven=answer.proven)
    if sliding:
        floor, ceiling = limits.at(answer.low, max_deviation)
        window = replace(window, floor=floor, ceiling=ceiling)
    return Attempt(
        at=answer.at,
        cost=answer.cost,
        moves=int((answer.at != table.home).sum()),
        outside=0,
        window=window,
        proven=answer.proven and not by_moves,
        fewest=answer.proven and by_moves,
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
    low = max(finest, tightest_relaxed(problem, loosest, moved_bytes=spent))
    best = (loosest, standing_still(problem.table, problem.window(loosest)))
    is_small = small.is_small(problem.table)
    if is_small and isinstance(problem.balance, RangeGoal):
        return _narrowest(problem, problem.balance, budget, watch, low, best, by_moves=by_moves)

    def trial(aim: int) -> tuple[bool, int]:
        nonlocal best
        found = _within(problem, aim, budget, by_moves=by_moves) if is_small else at_deviation(problem, aim)
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
    answer = small.tightest(problem.table, balance.limits, budget.moved_bytes, budget.moves, low)
    if answer.at is None or (answer.width >= best[0] and best[1].rule_kept):
        return best
    width = max(low, answer.width)
    found = _within(problem, width, budget, by_moves=by_moves)
    if not found.succeeded or not budget.allows(found):
        found = Attempt(at=answer.at, cost=answer.cost, moves=answer.moves, outside=0, window=found.window)
    watch.tried(width, found)
    return width, found


def _within(problem: BalanceProblem, max_deviation: int, budget: Budget, *, by_moves: bool) -> Attempt:
    """The cheapest plan of a small cluster, or, where that makes more copies than the budget allows, the fewest."""
    found = at_deviation(problem, max_deviation, by_moves=by_moves)
    if by_moves or budget.moves is None or not found.succeeded or budget.allows(found):
        return found
    return at_deviation(problem, max_deviation, by_moves=True)


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
