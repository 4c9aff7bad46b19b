"""`topicmappr frontier` as a pure function: snapshot and request in, bytes against max_deviation out."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.by_size.lp_relaxation import PPM, BalanceProblem
from kafkakit.placement.by_size.tightening import tightest_relaxed
from kafkakit.placement.problem import UNWATCHED, BrokerChange, Watch
from kafkakit.topicmappr.decide.frontier.request import DEFAULT_BANDS, FrontierRequest, Metric, goal_of
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint, Point, trace
from kafkakit.topicmappr.decide.rebalance.ceilings import refuse_impossible
from kafkakit.topicmappr.decide.rebalance.inputs import BalanceInputs, balance_inputs
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest

MOST_REPLICAS = 300_000
REPORT_POINTS = 8
_PARTS_OF_TODAY = tuple(Fraction(n, 32) for n in (24, 16, 12, 8, 6, 4, 2, 1))


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
    watch: Watch = UNWATCHED,
) -> Frontier:
    """Work out what each point costs. Raises `UsageError` and `TryLaterError` as a rebalance would.

    `InfeasibleError` is raised for ceilings that no placement keeps, whatever the point.
    Cost: one plan for each point on arrays that are made once.
    """
    watch.phase("reading the cluster")
    inputs = _inputs(snapshot, replace(request.base, goal=goal_of(request.metric)), facts)
    refuse_impossible(inputs, request.base)
    problem = BalanceProblem.of(inputs.layout.table, inputs.aim.balance)
    today = problem.today()
    watch.phase("how tight the goal can be")
    tightest = tightest_relaxed(problem, today)
    possible = problem.window(tightest).possible
    wanted = _deviations(request, today)
    points = trace(problem, wanted, inputs.racks, watch)
    notes = [*inputs.sizes.notes, *inputs.notes]
    if len(points) < len(wanted):
        notes.append(f"stopped after {len(points)} of {len(wanted)} points")
    return Frontier(
        cluster_id=snapshot.cluster_id,
        metric=request.metric,
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
    return balance_inputs(snapshot, replace(request, max_rack_violations=None), facts, _check_brokers)


def _check_brokers(change: BrokerChange) -> None:
    wrong = sorted({*change.missing, *change.old_missing, *change.replace})
    if wrong:
        raise UsageError(
            f"a frontier needs live brokers that all keep these topics, unlike broker(s) "
            f"{', '.join(map(str, wrong[:8]))}",
            hint="list every live broker that holds these topics (-1); empty dead ones with topicmappr drain first",
        )


def _deviations(request: FrontierRequest, today: int) -> list[int]:
    if request.metric is Metric.BAND:
        found = {int(band * PPM) for band in request.bands}
    else:
        found = set(request.free_ranges) or {int(today * part) for part in _PARTS_OF_TODAY}
    return sorted(found, reverse=True)


def frontier_points(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None = None,
    *,
    bands: Collection[Fraction] = DEFAULT_BANDS,
    watch: Watch = UNWATCHED,
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
    inputs: BalanceInputs, bands: Collection[Fraction] = DEFAULT_BANDS, watch: Watch = UNWATCHED
) -> tuple[FrontierPoint, ...]:
    """The frontier of a report, on inputs that are there already."""
    problem = BalanceProblem.of(inputs.layout.table, inputs.aim.balance)
    wanted = sorted((int(band * PPM) for band in bands), reverse=True)[:REPORT_POINTS]
    points = trace(problem, wanted, inputs.racks, watch)
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
