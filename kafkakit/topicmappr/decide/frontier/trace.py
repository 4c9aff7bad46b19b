"""Cost against deviation: one table, one set of demand, and a plan and a bound for every point asked for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.lp_relaxation import BalanceProblem
from kafkakit.placement.by_size.tightening import at_deviation, why_not
from kafkakit.placement.problem import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One deviation (millionths of the share, or bytes): the bound, and what the best plan found costs.

    `cost`, `moves` and `reached` (how tight the plan's loads are) are None where no plan was found; then
    `impossible` says why, and is empty where that is not proven. `borrowed` is the tighter point whose plan this is.
    """

    max_deviation: int
    bound: int
    cost: int | None = None
    moves: int | None = None
    reached: int | None = None
    impossible: str = ""
    borrowed: int | None = None

    @property
    def gap(self) -> float | None:
        """How far the plan is above the bound, as a part of its cost; None without a plan."""
        if self.cost is None:
            return None
        return (self.cost - self.bound) / self.cost if self.cost else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """What one band costs: bytes moved, the proven bound on them, and partitions moved."""

    band_percent: float
    moved_bytes: int
    bound_bytes: int
    moves: int


@dataclass(frozen=True, slots=True)
class _Look:
    max_deviation: int
    found: Attempt
    reached: int
    bound: int

    @property
    def holds(self) -> bool:
        return self.found.succeeded


def trace(
    problem: BalanceProblem,
    wanted: Collection[int],
    racks: Mapping[int, str | None],
    watch: Watch,
) -> tuple[Point, ...]:
    """Points in the order loosest to tightest; fewer when the watch stops the work.

    A plan counts for every point that its loads keep to, so a looser point is never dearer than a tighter one;
    a bound counts for every tighter point. Cost: one plan for each point (see `at_deviation`).
    """
    looks: list[_Look] = []
    best_bound = 0
    ordered = sorted(set(wanted), reverse=True)
    for n, max_deviation in enumerate(ordered):
        if watch.stopped():
            break
        watch.phase(f"plan {n + 1} of {len(ordered)}")
        found = at_deviation(problem, max_deviation, watch=watch)
        reached = problem.measure(found.at)
        proven = found.proven and found.succeeded
        # Whatever a looser goal cannot do without, a tighter one cannot either.
        best_bound = max(best_bound, found.cost if proven else 0, found.window.bound.value)
        looks.append(_Look(max_deviation, found, reached, best_bound))
    return tuple(_point(look, looks, problem, racks) for look in looks)


def _point(look: _Look, looks: list[_Look], problem: BalanceProblem, racks: Mapping[int, str | None]) -> Point:
    if not look.found.window.possible:
        reason = why_not(problem.table, problem.demand, look.found.window, racks)
        return Point(max_deviation=look.max_deviation, bound=look.found.window.bound.value, impossible=reason)
    point = Point(max_deviation=look.max_deviation, bound=look.bound)
    fitting = [o for o in looks if o.holds and (o is look or o.reached <= look.max_deviation)]
    if not fitting:
        return point
    best = min(fitting, key=lambda o: (o.found.cost, o.found.moves, o is not look, o.max_deviation))
    point = replace(point, cost=best.found.cost, moves=best.found.moves, reached=best.reached)
    return point if best is look else replace(point, borrowed=best.max_deviation)
