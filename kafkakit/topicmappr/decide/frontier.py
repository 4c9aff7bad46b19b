"""`topicmappr frontier` as a pure function: snapshot and request in, bytes against max_deviation out.

All points rest on one table and one set of demand; each point asked for has a plan and a bound.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.lp_relaxation import PPM, BalanceProblem
from kafkakit.placement.by_size.proof import explain_infeasible
from kafkakit.placement.by_size.tightening import at_deviation, least_fitting, tightest_relaxed
from kafkakit.placement.problem import BrokerChange
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.rebalance_goal import (
    BalanceInputs,
    balance_inputs,
    describe_too_large,
    refuse_impossible,
)
from kafkakit.topicmappr.decide.requests import (
    DEFAULT_BANDS,
    FrontierRequest,
    Metric,
    RebalanceRequest,
    brokers_hint,
    goal_of,
)

MOST_REPLICAS = 300_000
REPORT_POINTS = 8
_PARTS_OF_TODAY = tuple(Fraction(n, 32) for n in (24, 16, 12, 8, 6, 4, 2, 1))


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
class Frontier:
    """Points from loose to tight. `today` is how far apart loads are now, `tightest` the least that the LP relaxation
    reaches (None when that was not found); both in the metric's unit (millionths of the share, or bytes).
    """

    cluster_id: str
    metric: Metric
    brokers: int
    topics: tuple[str, ...]
    partitions: int
    replicas: int
    storage: StorageFacts
    today: int
    tightest: int | None
    points: tuple[Point, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def decide_frontier(
    snapshot: ClusterSnapshot,
    request: FrontierRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> Frontier:
    """Work out what each point costs. Raises `UsageError` and `TryLaterError` as a rebalance would.

    `InfeasibleError` is raised for ceilings that no placement keeps, whatever the point.
    Cost: one plan for each point on arrays that are made once.
    """
    watch.phase("reading the cluster")
    inputs = _inputs(snapshot, replace(request.base, goal=goal_of(request.tightened)), facts)
    refuse_impossible(inputs, request.base)
    problem = BalanceProblem.of(inputs.layout.table, inputs.aim.balance)
    today = problem.today()
    watch.phase("how tight the goal can be")
    tightest = least_fitting(problem, tightest_relaxed(problem, today))
    possible = problem.window(tightest).possible
    wanted = _deviations(request, today)
    points = trace(problem, wanted, inputs, watch)
    tightest = max([tightest, *(p.max_deviation + 1 for p in points if p.impossible)])
    notes = [*inputs.sizes.notes, *inputs.notes]
    if len(points) < len(wanted):
        notes.append(f"stopped after {len(points)} of {len(wanted)} points")
    return Frontier(
        cluster_id=snapshot.cluster_id,
        metric=request.tightened,
        brokers=len(inputs.change.targets),
        topics=inputs.scope.selection.selected,
        partitions=len(inputs.scope.partitions),
        replicas=len(inputs.layout.table.home),
        storage=inputs.sizes.facts,
        today=today,
        tightest=tightest if possible else None,
        points=points,
        notes=tuple(notes),
        warnings=inputs.warnings,
    )


def _inputs(snapshot: ClusterSnapshot, request: RebalanceRequest, facts: StorageFacts | None) -> BalanceInputs:
    """A frontier states what bytes cost; sets that break the rack rule may stay as they are."""
    request = replace(request, max_rack_violations=None)
    return balance_inputs(snapshot, request, facts, lambda change: _check_brokers(change, request))


def _check_brokers(change: BrokerChange, request: RebalanceRequest) -> None:
    wrong = sorted({*change.missing, *change.old_missing, *change.replace})
    if wrong:
        raise UsageError(
            f"a frontier needs live brokers that all keep these topics, unlike broker(s) "
            f"{', '.join(map(str, wrong[:8]))}",
            hint=brokers_hint(request, change, may_leave=False),
        )


def _deviations(request: FrontierRequest, today: int) -> list[int]:
    if request.tightened is Metric.BAND:
        found = {int(band * PPM) for band in request.bands or DEFAULT_BANDS}
    else:
        found = set(request.free_ranges) or {int(today * part) for part in _PARTS_OF_TODAY}
    return sorted(found, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """What one band costs: bytes moved, the proven bound on them, and partitions moved."""

    band_percent: float
    moved_bytes: int
    bound_bytes: int
    moves: int


def frontier_points(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None = None,
    *,
    bands: Collection[Fraction] = DEFAULT_BANDS,
    watch: SearchWatch = UNWATCHED,
    most_replicas: int | None = MOST_REPLICAS,
) -> tuple[FrontierPoint, ...]:
    """The frontier of a rebalance for its report: at most eight bands, only those with a plan.

    Nothing for more than `most_replicas` replicas (None: however many), since each point is a plan of its own.
    """
    inputs = _inputs(snapshot, _as_band(request), facts)
    if most_replicas is not None and len(inputs.layout.table.home) > most_replicas:
        return ()
    return points_on(inputs, bands, watch)


def points_on(
    inputs: BalanceInputs, bands: Collection[Fraction] = DEFAULT_BANDS, watch: SearchWatch = UNWATCHED
) -> tuple[FrontierPoint, ...]:
    """The frontier of a report, on inputs that are there already."""
    problem = BalanceProblem.of(inputs.layout.table, inputs.aim.balance)
    wanted = sorted((int(band * PPM) for band in bands), reverse=True)[:REPORT_POINTS]
    points = trace(problem, wanted, inputs, watch)
    return tuple(
        FrontierPoint(
            band_percent=p.max_deviation / PPM * 100, moved_bytes=p.cost, bound_bytes=p.bound, moves=p.moves or 0
        )
        for p in points
        if p.cost is not None
    )


def _as_band(request: RebalanceRequest) -> RebalanceRequest:
    """The request with a band as goal; kafka-kit's thresholds and tolerance mean nothing with a band."""
    return replace(
        request, goal=goal_of(Metric.BAND), tolerance=0.0, storage_threshold=None, storage_threshold_gb=None,
        scale=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _FrontierPoint:
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
    inputs: BalanceInputs,
    watch: SearchWatch,
) -> tuple[Point, ...]:
    """Points in the order loosest to tightest; fewer when the watch stops the work.

    A plan counts for every point that its loads keep to, so a looser point is never dearer than a tighter one;
    a bound counts for every tighter point. Cost: one plan for each point (see `at_deviation`).
    """
    looks: list[_FrontierPoint] = []
    best_bound = 0
    within = with_budget(watch)
    ordered = sorted(set(wanted), reverse=True)
    for n, max_deviation in enumerate(ordered):
        if watch.stopped():
            break
        watch.phase(f"plan {n + 1} of {len(ordered)}")
        found = at_deviation(problem, max_deviation, watch=within.part(len(ordered) - n))
        reached = problem.measure(found.at)
        proven = found.proven and found.succeeded
        # Whatever a looser goal cannot do without, a tighter one cannot either.
        best_bound = max(best_bound, found.cost if proven else 0, found.window.bound.value)
        looks.append(_FrontierPoint(max_deviation, found, reached, best_bound))
    return tuple(_point(look, looks, problem, inputs) for look in looks)


def _point(look: _FrontierPoint, looks: list[_FrontierPoint], problem: BalanceProblem, inputs: BalanceInputs) -> Point:
    if reason := _why_impossible(look.found, problem, inputs):
        return Point(max_deviation=look.max_deviation, bound=look.found.window.bound.value, impossible=reason)
    point = Point(max_deviation=look.max_deviation, bound=look.bound)
    fitting = [o for o in looks if o.holds and (o is look or o.reached <= look.max_deviation)]
    if not fitting:
        return point
    best = min(fitting, key=lambda o: (o.found.cost, o.found.moves, o is not look, o.max_deviation))
    point = replace(point, cost=best.found.cost, moves=best.found.moves, reached=best.reached)
    return point if best is look else replace(point, borrowed=best.max_deviation)


def _why_impossible(found: Attempt, problem: BalanceProblem, inputs: BalanceInputs) -> str:
    """The proof that no plan reaches a point, as a rebalance gives it; empty where there is none."""
    if large := describe_too_large(inputs, found.window):
        return large
    if not found.window.possible:
        return explain_infeasible(problem.table, problem.demand, found.window, inputs.racks)
    return "no placement is inside the limits (exhaustive search)" if found.proven and not found.succeeded else ""
