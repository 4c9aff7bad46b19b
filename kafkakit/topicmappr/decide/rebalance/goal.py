"""A request's goal as a balance of windows, how tight it must be, and the search for it."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.quantities import format_bytes, format_percent
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import Layout
from kafkakit.placement.by_size.lp_relaxation import PPM, BalanceGoal, BalanceProblem, BandGoal, Limits, RangeGoal
from kafkakit.placement.by_size.tightening import (
    Budget,
    at_deviation,
    least_fitting,
    loosened,
    tightest,
    tightest_relaxed,
)
from kafkakit.placement.problem import Minimize, Watch
from kafkakit.topicmappr.decide.rebalance.request import GIB, RebalanceRequest

_AGAIN = 6  # tries, each farther off, to name a goal that a second run reaches
DEFAULT_THRESHOLD = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Brokers that give (None: every broker), sorted by free bytes and id, and how they were chosen in words.

    `mean` and `harmonic_mean` are of the free bytes before, over brokers with any.
    """

    brokers: tuple[int, ...] | None
    chosen_by: str
    mean: float
    harmonic_mean: float


def choose_sources(free: Mapping[int, int], new: Collection[int], request: RebalanceRequest) -> Sources:
    """Apply the thresholds to free bytes by broker; `new` brokers hold nothing of the selected topics yet."""
    positive = [f for _, f in sorted(free.items()) if f > 0]
    mean = sum(positive) / len(positive) if positive else 0.0
    harmonic = float(len(positive) / sum(Fraction(1, f) for f in positive)) if positive else 0.0
    gigabytes, fraction = _thresholds(request)
    if gigabytes is None and fraction is None:
        return Sources(brokers=None, chosen_by="", mean=mean, harmonic_mean=harmonic)
    if gigabytes:
        chosen = [b for b, f in free.items() if b not in new and f < gigabytes * GIB]
        words = f"(< {gigabytes:.2f}GB storage free)"
    elif fraction:
        chosen = [b for b, f in free.items() if harmonic and (harmonic - f) / harmonic > fraction]
        words = f"(>= {fraction * 100:.2f}% threshold below hmean)"
    else:
        chosen = [b for b in free if b not in new]
        words = ""
    return Sources(
        brokers=tuple(sorted(chosen, key=lambda b: (free[b], b))), chosen_by=words, mean=mean, harmonic_mean=harmonic
    )


def _thresholds(request: RebalanceRequest) -> tuple[float | None, float | None]:
    """(GiB free, part below the harmonic mean); both None where a goal is given and no threshold is."""
    if request.scale:
        return (None, None) if request.goal.given else (0.0, 0.0)
    if request.storage_threshold is None and request.storage_threshold_gb is None:
        return (None, None) if request.goal.given else (0.0, DEFAULT_THRESHOLD)
    fraction = DEFAULT_THRESHOLD if request.storage_threshold is None else request.storage_threshold
    return request.storage_threshold_gb or 0.0, fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The balance, the deviation asked for (None: as tight as the budget buys) and the finest worth seeking."""

    balance: BalanceGoal
    requested: int | None
    finest: int
    budget: Budget
    words: str

    def shown(self, max_deviation: int) -> str:
        """A deviation as the flag that would ask for it."""
        if isinstance(self.balance, BandGoal):
            # Rounded up to four digits of a percent, so that the flag's value is reachable too.
            return f"--band {max_deviation / PPM * 100:.4f}%"
        return f"--free-range {max_deviation}B ({format_bytes(max_deviation)})"

    def notes(self, found: Attempt, max_deviation: int) -> tuple[str, ...]:
        """What the operator should know of the goal that was reached."""
        if self.requested is None:
            return (f"reached: {self.shown(max_deviation)}",)
        if max_deviation > self.requested:
            return (f"{self.words} costs more than the budget allows; reached: {self.shown(max_deviation)}",)
        return ()


def aim_of(layout: Layout, request: RebalanceRequest, sources: Sources, targets: Collection[int]) -> Aim:
    """Turn the request's goal into windows on the loads of these targets."""
    goal = request.goal
    limits = layout.now.limits(layout.table, targets, {})
    budget = Budget(moved_bytes=goal.max_moved_bytes, moves=goal.max_moves)
    if goal.band is not None:
        table = layout.table
        total = int(table.loads(table.home)[limits.even].sum())
        balance = layout.now.band(table, limits, total, within_racks=goal.within_racks)
        words = f"the band of {format_percent(goal.band)}{' within racks' if goal.within_racks else ''}"
        requested = int(goal.band * PPM)
        return Aim(balance=balance, requested=requested, finest=0, budget=budget, words=words)
    if goal.free_range_bytes is not None:
        words = f"a range of free bytes of {format_bytes(goal.free_range_bytes)}"
        return Aim(balance=RangeGoal(limits), requested=goal.free_range_bytes, finest=0, budget=budget, words=words)
    # kafka-kit's finest tolerance is one percent of the mean to either side.
    finest = 0 if goal.given else int(sources.mean * 0.02)
    if request.tolerance:
        limits = _tolerated(layout, limits, sources, Fraction(str(request.tolerance)))
    return Aim(
        balance=RangeGoal(limits),
        requested=None,
        finest=finest,
        budget=budget,
        words="the smallest range of free bytes",
    )


def _tolerated(layout: Layout, limits: Limits, sources: Sources, tolerance: Fraction) -> Limits:
    """kafka-kit's limits: sources end with at most mean x (1 + tolerance) free, others with mean x (1 - it) or more."""
    import numpy as np

    loads = layout.table.loads(layout.table.home)
    level = loads + np.array([layout.now.free[b] for b in layout.table.brokers], dtype=np.int64)
    mean = Fraction(sources.mean)
    most, least = math.floor(mean * (1 + tolerance)), math.ceil(mean * (1 - tolerance))
    gives = np.array([sources.brokers is not None and b in sources.brokers for b in layout.table.brokers])
    floor = np.where(gives, np.minimum(loads, level - most), limits.floor)
    ceiling = np.where(gives, limits.ceiling, np.minimum(limits.ceiling, np.maximum(loads, level - least)))
    return Limits(floor=floor, ceiling=ceiling, even=limits.even, offset=limits.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The plan found and the deviation that it was made for; without a plan, the nearest deviation that may be.

    `is_nearest_planned` says that a plan for the nearest was found. `missed` is the attempt at the goal itself where
    the plan is a best effort, `unlimited` a plan that reaches the goal where no plan within the budget does.
    """

    max_deviation: int
    found: Attempt
    is_nearest_planned: bool = True
    missed: Attempt | None = None
    unlimited: Attempt | None = None


def reach_aim(problem: BalanceProblem, aim: Aim, request: RebalanceRequest, watch: Watch) -> Reached:
    """Find the plan: at the deviation asked for, or as tight as the budget buys, or as near as can be on request.

    When the deviation asked for cannot be reached at any price, the answer is an attempt that is outside or
    whose window is not possible, with the nearest deviation that can be.
    """
    by_moves = request.minimize is Minimize.MOVES
    if aim.requested is None:
        return _within_budget(problem, aim, watch, None, finest=aim.finest, by_moves=by_moves)
    watch.phase(f"a plan for {aim.words}")
    found = at_deviation(problem, aim.requested, by_moves=by_moves, watch=watch)
    watch.tried(aim.requested, found)
    if aim.budget.allows(found) if found.succeeded else watch.stopped():
        return Reached(max_deviation=aim.requested, found=found)
    if found.succeeded:
        return _within_budget(problem, aim, watch, found, finest=aim.requested, by_moves=by_moves)
    if request.goal.best_effort:
        return _best_effort(problem, aim, found, watch, by_moves=by_moves)
    nearest = least_fitting(problem, tightest_relaxed(problem, problem.today()))
    if not found.window.possible and nearest > aim.requested:
        return Reached(max_deviation=nearest, found=found, is_nearest_planned=False)
    nearest, _ = tightest(problem, Budget(), watch, finest=aim.requested)
    return Reached(max_deviation=_asked_again(problem, nearest, by_moves=by_moves), found=found)


def _within_budget(
    problem: BalanceProblem, aim: Aim, watch: Watch, unlimited: Attempt | None, *, finest: int, by_moves: bool
) -> Reached:
    nearest, found = tightest(problem, aim.budget, watch, finest=finest, by_moves=by_moves)
    return Reached(max_deviation=nearest, found=found, unlimited=unlimited)


def _best_effort(problem: BalanceProblem, aim: Aim, missed: Attempt, watch: Watch, *, by_moves: bool) -> Reached:
    """As near as was found: with the shares that can be reached, at the deviation asked for or the nearest to it."""
    if aim.requested is None:
        raise ValueError("no deviation was asked for")
    watch.phase("as near as can be")
    loose = loosened(problem, aim.requested)
    found = missed if loose is problem else at_deviation(loose, aim.requested, by_moves=by_moves, watch=watch)
    if not found.succeeded or not aim.budget.allows(found):
        _, found = tightest(loose, aim.budget, watch, finest=aim.requested, by_moves=by_moves)
    return Reached(max_deviation=problem.measure(found.at), found=found, missed=missed)


def _asked_again(problem: BalanceProblem, nearest: int, *, by_moves: bool) -> int:
    """The nearest deviation at which the request finds a plan when it is made again with it.

    A plan that was made for a looser goal can end closer than one made for where it ended, so it is tried.
    """
    loosest = problem.today()
    for step in range(_AGAIN):
        if at_deviation(problem, nearest, by_moves=by_moves, is_thorough=False).succeeded:
            return nearest
        nearest += max(1, (nearest << 2 * step) >> _AGAIN)
        if nearest >= loosest:
            break
    return loosest
