"""Planning a failover on live clusters, and beginning or continuing one."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kafkakit.core.acls import AclBinding, AclResourceKind
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.model import TopicPartition
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.failover.act.journals import Journal, state_of
from kafkakit.streams.failover.act.pace import measure_pace
from kafkakit.streams.failover.act.run import OperationRun, RunParts
from kafkakit.streams.failover.decide.backlog import Pace
from kafkakit.streams.failover.decide.fences import inherited
from kafkakit.streams.failover.decide.journal import Word
from kafkakit.streams.failover.decide.operation import FailoverRequest, LaneMove, Operation, OperationKind, Step
from kafkakit.streams.failover.decide.outcome import EndKind, RunEnd
from kafkakit.streams.failover.decide.plan import FailoverPlan, make_plan, moves_of, required_groups
from kafkakit.streams.failover.decide.preconditions import TargetPlace, known_segments
from kafkakit.streams.failover.decide.standing import routed_at, settled, standing
from kafkakit.streams.model.route import Route, RouteOperation, Segment, partitions_of
from kafkakit.streams.model.route_edits import begun, refuse_open_operation
from kafkakit.streams.routes.api_act import OpenCluster, own_settings

USUAL_REPLICATION = 3


class Planner:
    """Plans operations of one stream; writes nothing until `begin`. `random_hex` makes ids unique."""

    def __init__(self, parts: RunParts, open_cluster: OpenCluster, random_hex: Callable[[], str]) -> None:
        self._parts, self._open, self._random_hex = parts, open_cluster, random_hex

    def plan(self, request: FailoverRequest, *, measured: bool = False) -> FailoverPlan:
        """Judge what a failover would need and do now; `RefusedError` while another operation is open.

        With `measured` it takes 6 s more where groups have something to read, and says how long that takes.
        """
        route = self._parts.routes.existing(request.stream).route
        if self._superseded(request, route) is None and not self._is_lost(route):
            refuse_open_operation(route)
        target = self._open(request.to)
        info = target.admin.cluster()
        alive = [broker.id for broker in info.brokers if broker.is_alive]
        try:
            shapes = _known_shapes(route) if request.is_emergency else self._shapes(route)
        except TryLaterError as error:
            hint = "--emergency sends producers elsewhere without it, and drains it once it is back"
            raise TryLaterError(f"an old cluster does not answer: {error.message}", hint=hint) from error
        moves = tuple(
            self._sized(move, request, shapes.get(move.lane, (0, {}))[0], len(alive))
            for move in moves_of(request, route, {lane: configs for lane, (_, configs) in shapes.items()})
        )
        operation = Operation(
            id=f"{route.epoch + 1:06d}-{request.kind}-{self._random_hex()}",
            request=request,
            cluster_id=info.cluster_id,
            moves=moves,
            groups=(),
            from_epoch=route.epoch,
            operator=self._parts.operator,
            started_ms=epoch_ms(self._parts.clock.now()),
        )
        evidence = self._parts.observer.plan_look(operation, route)
        starts = {
            n: tuple(s.start for _, s in sorted(f.whole_spans.items()))
            for n, f in evidence.old.items()
            if f.whole_spans
        }
        operation = replace(operation, groups=required_groups(request, route, evidence), starts=starts)
        place = TargetPlace(
            profile=request.to,
            cluster_id=info.cluster_id,
            brokers=len(alive),
            free_bytes=_free_bytes(target, alive),
            rights=info.operations,
            bindings={move.topic: _bindings(target, move.topic) for move in moves},
        )
        sizes: Mapping[int, int | None] = {}
        if not request.is_emergency:
            sizes = {each.id: _bytes_of(self._open(each.cluster), each) for _, each in operation.old_segments(route)}
        old = known_segments(operation, evidence)
        pace = measure_pace(self._open, self._parts.clock, operation, old) if measured else Pace()
        return make_plan(operation, evidence, place, sizes, pace)

    def begin(self, plan: FailoverPlan, approval: str = "") -> OperationRun:
        """Make the plan the stream's operation; `ConflictError` where the route is not the planned one any more."""
        parts, operation = self._parts, replace(plan.operation, approval=approval)
        before = parts.routes.existing(operation.stream).route
        superseded = self._superseded(operation.request, before)
        is_replaced = superseded is not None or self._is_lost(before)
        journal = parts.journals.begin(operation)
        for fence in inherited(operation, before, state_of(superseded).fences if superseded is not None else ()):
            journal.intent(Word.FENCE, line_data(fence))
        opening = RouteOperation(id=operation.id, kind=operation.request.kind, step=Step.PLANNED)

        def edit(found: Route) -> Route:
            if found.epoch != operation.from_epoch:
                raise ConflictError(f"stream {operation.stream} was changed since the plan")
            return begun(replace(found, operation=None) if is_replaced else found, opening)

        parts.require_held()
        parts.routes.change(
            operation.stream,
            edit,
            by=parts.operator,
            what=f"operation {operation.id}: begin {operation.request.kind} to {operation.request.to}",
            at_ms=epoch_ms(parts.clock.now()),
        )
        if superseded is not None:
            superseded.check(Word.STEP, {"step": Step.SUPERSEDED, "epoch": operation.from_epoch + 1})
        return OperationRun(parts, journal)

    def open_run(self, route: Route) -> OperationRun | None:
        """The run of the operation that the route names; None without one. `RefusedError` for one of another tool."""
        if route.operation is None:
            return None
        if route.operation.kind not in set(OperationKind):
            raise RefusedError(f"stream {route.stream} has an operation {route.operation.kind} open")
        journal = self._parts.journals.open(route.operation.id)
        if journal.state is None:
            raise RefusedError(
                f"operation {route.operation.id} of stream {route.stream} has no journal",
                hint="the control store lost it; kafkakit streams history shows what the operation changed",
            )
        if journal.state.is_aborting:
            raise RefusedError(
                f"operation {route.operation.id} is being aborted", hint="kafkakit streams failover abort continues"
            )
        return OperationRun(self._parts, journal)

    def resume(self, request: FailoverRequest, route: Route) -> OperationRun | None:
        """The open operation with this request, whose limits are taken over; None where none is open.

        Raises `RefusedError` where the open operation has another shape, or is being aborted.
        """
        if self._superseded(request, route) or self._is_lost(route):
            return None
        run = self.open_run(route)
        if run is None:
            return None
        differences = tuple(run.record.request.differences(request))
        if differences:
            error = RefusedError(
                f"operation {run.record.operation.id} is open, and it is not this one",
                hint="kafkakit streams failover resume continues it, abort ends it before producers have moved",
            )
            error.lines = differences
            raise error
        if request != run.record.request:
            self._parts.require_held()
            run.amend(request)
        return run

    def finished(self, request: FailoverRequest, route: Route) -> RunEnd | None:
        """The newest operation where it is this request's and has retired everything; None otherwise.

        How it ended is written down where a crash kept that from happening, so that the same command is told.
        """
        for name in reversed(self._parts.journals.names()):
            try:
                journal = self._parts.journals.open(name)
            except InputError as error:  # a damaged journal of the past keeps no stream where it is
                self._parts.reporter.warn(f"{error}")
                continue
            if journal.state is None or settled(journal.state, route) is Step.ABORTED:
                continue
            if settled(journal.state, route) is Step.RETIRED:
                self._parts.require_held()
                journal.check(Word.STEP, {"step": Step.RETIRED, "epoch": route.epoch})
            record = state_of(journal)
            is_same = not tuple(record.request.differences(request)) and routed_at(record.operation, [route])
            is_done = is_same and record.end in (Step.RETIRED, Step.RECLAIMED)
            return RunEnd(kind=EndKind.DONE, step=Step.RETIRED, record=record) if is_done else None
        return None

    def _superseded(self, request: FailoverRequest, route: Route) -> Journal | None:
        """The journal of the open operation that this request takes over: an emergency leaves the cluster that the open
        one has moved producers to, and drains everything that is left."""
        if not request.is_emergency or route.operation is None:
            return None
        journal = self._parts.journals.open(route.operation.id)
        if journal.state is None or journal.state.request.to == request.to:
            return None
        step = standing(journal.state.operation, route)
        return None if step is None or step.can_abort else journal

    def _is_lost(self, route: Route) -> bool:
        """Whether the open operation has changed nothing but the route's mark, and the store lost its journal."""
        found = route.operation
        if found is None or found.kind not in set(OperationKind) or found.step != Step.PLANNED:
            return False
        return self._parts.journals.record(found.id) is None

    def _shapes(self, route: Route) -> dict[str, tuple[int, dict[str, str]]]:
        """Replicas and settings of the topics that are written now, by lane; those of the cluster's own left out."""
        found = {}
        for lane in route.lanes:
            if lane.active is None:
                continue
            admin, topic = self._open(lane.active.cluster).admin, lane.active.topic
            configs = admin.dynamic_configs(ResourceKind.TOPIC, (topic,)).get(topic, {})
            states = admin.partition_states((topic,)).values()
            replicas = max((len(state.replicas) for state in states), default=0)
            found[lane.name] = (replicas, dict(own_settings(configs)))
        return found

    @staticmethod
    def _sized(move: LaneMove, request: FailoverRequest, replicas: int, alive: int) -> LaneMove:
        return replace(move, replication=request.replication or replicas or min(USUAL_REPLICATION, max(1, alive)))


def _known_shapes(route: Route) -> dict[str, tuple[int, dict[str, str]]]:
    """Settings of the topics that are written now, from the route; 0 replicas stand for as many as is usual."""
    return {lane.name: (0, dict(lane.active.settings)) for lane in route.lanes if lane.active is not None}


def _free_bytes(cluster: ClusterClients, brokers: list[int]) -> int | None:
    """What is free on all log dirs; None where a broker does not say."""
    try:
        answers = cluster.admin.log_dirs(brokers, ())
    except KafkakitError:
        return None
    dirs = [each for answer in answers.values() for each in answer.log_dirs]
    known = [each.usable_bytes for each in dirs if each.usable_bytes is not None]
    return sum(known) if dirs and len(known) == len(dirs) and len(answers) == len(brokers) else None


def _bytes_of(cluster: ClusterClients, segment: Segment) -> int | None:
    """One copy of a topic; None where it is not known."""
    keys = partitions_of(segment)
    try:
        brokers = [broker.id for broker in cluster.admin.cluster().brokers if broker.is_alive]
        answers = cluster.admin.log_dirs(brokers, keys)
    except KafkakitError:
        return None
    sizes: dict[TopicPartition, int] = {}
    for answer in answers.values():
        for key, copy in answer.replicas.items():
            sizes[key] = max(copy.size_bytes, sizes.get(key, 0))
    return sum(sizes.values()) if set(keys) <= set(sizes) else None


def _bindings(cluster: ClusterClients, topic: str) -> tuple[AclBinding, ...] | None:
    try:
        return cluster.admin.describe_acls(AclResourceKind.TOPIC, topic)
    except KafkakitError:
        return None
