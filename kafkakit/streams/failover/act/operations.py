"""Operations of streams for commands and for other tools: planned, begun or continued, and watched.

An operation is open under the lease of its stream. It is watched from outside (route, journal and clusters) without the
right to change any. The audit log of a stream, in the control store, has every command that may change it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kafkakit.core.cluster_facts import AclBinding, AclResourceKind, LogSpan, ResourceKind
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.core.journal_lines import line_data
from kafkakit.core.lease import DEFAULT_TTL_S
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.rpc import Event
from kafkakit.core.text import shell_command
from kafkakit.execution.act.journal_files import AuditLog, SharedStoreLines
from kafkakit.execution.act.leases import HeldClock, RenewableLease
from kafkakit.ports.acting import Clock, Reporter
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.failover.act.letters import OldRecords, read_references
from kafkakit.streams.failover.act.observing import ClientWatch, OperationObserver, measure_pace
from kafkakit.streams.failover.act.run import (
    Effects,
    FailoverParts,
    Journal,
    OnLine,
    OperationJournals,
    OperationRun,
    no_line,
    state_of,
)
from kafkakit.streams.failover.decide.drain_proof import CommitPace, Item, LiveHistory, LiveLook, LiveView
from kafkakit.streams.failover.decide.evidence import Evidence
from kafkakit.streams.failover.decide.history import (
    AuditedCommand,
    ClosingResult,
    EndKind,
    RunEnd,
    audit_root,
    end_by_route,
    event_of,
    home_of,
    left_cluster,
    plan_sha256,
    read_commands,
    routed_at,
)
from kafkakit.streams.failover.decide.operation import (
    Failover,
    FailoverRequest,
    LaneMove,
    Line,
    LineSubject,
    OperationKind,
    OperationRecord,
    Step,
    step_by_route,
)
from kafkakit.streams.failover.decide.plan import (
    FailoverPlan,
    TargetPlace,
    inherited_fences,
    known_segments,
    lanes_read,
    letter_groups,
    make_plan,
    moves_of,
    required_groups,
)
from kafkakit.streams.failover.decide.steps import next_step
from kafkakit.streams.model.route import Route, RouteOperation, Segment, partitions_of
from kafkakit.streams.model.route_edits import begin_operation, refuse_open_operation
from kafkakit.streams.routes.api_act import OpenCluster, RouteStore, own_settings

PutEvents = Callable[[str, Sequence[Event]], object]
"""Sends events about a stream to a service."""


def no_events(stream: str, events: Sequence[Event]) -> None:
    """Events are sent nowhere."""


class StreamLease(RenewableLease, Protocol):
    """The right to run operations of one stream."""

    def acquire(self) -> int:
        """Take it; `TryLaterError` names the process that has it."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPorts:
    """What operations of any stream work with.

    `open_lease` makes a stream's lease, not taken yet, and `timeout_s` is how long requests to a profile may take.
    """

    store: ControlStore
    clock: Clock
    open_cluster: OpenCluster
    open_lease: Callable[[str], StreamLease]
    timeout_s: Callable[[str], float]
    reporter: Reporter
    random_hex: Callable[[], str]
    operator: str
    version: str
    command: str
    put_events: PutEvents = no_events


def run_parts(
    ports: OperationPorts, stream: str, clock: Clock, guard: Callable[[], None], on_line: OnLine = no_line
) -> FailoverParts:
    """What one run works with; `guard` is called before each change, and `clock` keeps the lease while it sleeps."""

    from kafkakit.streams.client.api_act import read_clients

    clients = ClientWatch(lambda: read_clients(ports.store, stream), clock)

    def references(segments: Sequence[Segment]) -> Mapping[int, Sequence[tuple[int, int]]]:
        return read_references(ports.open_cluster, ports.clock, ports.timeout_s, segments)

    return FailoverParts(
        routes=RouteStore(ports.store),
        journals=OperationJournals(ports.store, clock, stream, on_line),
        observer=OperationObserver(ports.open_cluster, clients, clock, references),
        effects=Effects(ports.open_cluster, clock, guard, ports.reporter, ports.store),
        records=OldRecords(ports.open_cluster, clock, guard, ports.timeout_s),
        clock=clock,
        reporter=ports.reporter,
        require_held=guard,
        operator=ports.operator,
        version=ports.version,
    )


def audit_fields(ports: OperationPorts) -> dict[str, object]:
    """Who does what, for the audit log."""
    return {"id": ports.random_hex(), "by": ports.operator, "command": ports.command}


def plan_operation(ports: OperationPorts, request: FailoverRequest) -> FailoverPlan:
    """What an operation would do and need now; nothing is written, and no lease is taken."""
    parts = run_parts(ports, request.stream, ports.clock, lambda: None)
    return Planner(parts, ports.open_cluster, ports.random_hex).plan(request)


def aim_request(parts: FailoverParts, request: FailoverRequest) -> FailoverRequest:
    """The request with its target, where the stream itself tells it: a return, and a lane that stays on its cluster.

    A return that is open, or that was the last thing done, keeps its target: a command that is repeated does not send
    the stream away again. Raises `RefusedError` for a stream that has not left a cluster.
    """
    if request.kind not in (OperationKind.BACK, OperationKind.REPARTITION):
        return request
    route = parts.routes.existing(request.stream).route
    if request.kind is OperationKind.REPARTITION:
        return replace(request, to=home_of(route, request.lanes))
    last = find_newest(parts.journals, route)
    if last is not None and last.request.kind is OperationKind.BACK and last.end in (None, Step.RETIRED):
        return replace(request, to=last.request.to)
    history = [each.change.route for each in parts.routes.history(request.stream) if each.in_effect]
    return replace(request, to=left_cluster(route, history, request.lanes))


class Planner:
    """Plans operations of one stream; writes nothing until `begin`. `random_hex` makes ids unique."""

    def __init__(self, parts: FailoverParts, open_cluster: OpenCluster, random_hex: Callable[[], str]) -> None:
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
        operation = Failover(
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
        groups = required_groups(request, route, evidence)
        operation = replace(
            operation,
            groups=groups,
            starts=starts,
            letter_groups=letter_groups(request, route, evidence),
            lanes=lanes_read(request, route, evidence, groups),
        )
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
        pace = measure_pace(self._open, self._parts.clock, operation, old) if measured else CommitPace()
        return make_plan(operation, evidence, place, sizes, pace)

    def begin(self, plan: FailoverPlan, approval: str = "") -> OperationRun:
        """Make the plan the stream's operation; `ConflictError` where the route is not the planned one any more."""
        parts, operation = self._parts, replace(plan.operation, approval=approval)
        before = parts.routes.existing(operation.stream).route
        superseded = self._superseded(operation.request, before)
        is_replaced = superseded is not None or self._is_lost(before)
        journal = parts.journals.begin(operation)
        for fence in inherited_fences(operation, before, state_of(superseded).fences if superseded is not None else ()):
            journal.intent(LineSubject.FENCE, line_data(fence))
        opening = RouteOperation(id=operation.id, kind=operation.request.kind, step=Step.PLANNED)

        def edit(found: Route) -> Route:
            if found.epoch != operation.from_epoch:
                raise ConflictError(f"stream {operation.stream} was changed since the plan")
            return begin_operation(replace(found, operation=None) if is_replaced else found, opening)

        parts.require_held()
        parts.routes.change(
            operation.stream,
            edit,
            by=parts.operator,
            what=f"operation {operation.id}: begin {operation.request.kind} to {operation.request.to}",
            at_ms=epoch_ms(parts.clock.now()),
        )
        if superseded is not None:
            superseded.check(LineSubject.STEP, {"step": Step.SUPERSEDED, "epoch": operation.from_epoch + 1})
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
                hint="the control store lost it; what the operation changed: "
                f"{shell_command('streams history', route.stream)}",
            )
        if journal.state.is_aborting:
            raise RefusedError(
                f"operation {route.operation.id} is being aborted",
                hint=f"to continue that: {shell_command('streams failover abort', route.stream)}",
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
                hint="continue it, or end it before producers have moved:\n"
                f"{shell_command('streams failover resume', route.stream)}\n"
                f"{shell_command('streams failover abort', route.stream)}",
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
            if journal.state is None or end_by_route(journal.state, route) is Step.ABORTED:
                continue
            if end_by_route(journal.state, route) is Step.RETIRED:
                self._parts.require_held()
                journal.check(LineSubject.STEP, {"step": Step.RETIRED, "epoch": route.epoch})
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
        step = step_by_route(journal.state.operation, route)
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


class StreamOperation:
    """The operation of one request while this process holds its stream's lease.

    `end` is there where the request was done before, `refused` where its plan is refused, else `advance` works on it.
    """

    def __init__(self, ports: OperationPorts, request: FailoverRequest, approval: str = "") -> None:
        """Continue the open operation of the request, or plan and begin it.

        Raises `TryLaterError` while another process has the lease, `RefusedError` while another operation is open.
        """
        self.request = request
        self.end: RunEnd | None = None
        self.refused: FailoverPlan | None = None
        self._run: OperationRun | None = None
        self._lease, self._stack = ports.open_lease(request.stream), ExitStack()
        self._audit = CommandAudit(partial(ports.put_events, request.stream))
        self._lease.acquire()
        self._stack.callback(self._lease.release)
        try:
            self._stack.enter_context(
                self._audit.around(ports.store, ports.clock, request.stream, audit_fields(ports), ports.reporter.warn)
            )
            clock = HeldClock(ports.clock, self._lease, DEFAULT_TTL_S / 10)
            parts = run_parts(ports, request.stream, clock, self._lease.require_held, self._audit.see)
            self._begin(Planner(parts, ports.open_cluster, ports.random_hex), parts, approval)
        except BaseException:
            self.close()
            raise

    def _begin(self, planner: Planner, parts: FailoverParts, approval: str) -> None:
        route = parts.routes.existing(self.request.stream).route
        self._run = planner.resume(self.request, route)
        self.end = None if self._run else planner.finished(self.request, route)
        if self._run is None and self.end is None:
            plan = planner.plan(self.request)
            if plan.refused:
                self.refused = plan
            else:
                self._run = planner.begin(plan, approval)

    def advance(self, until: Step = Step.RETIRED, wait_s: float = 0.0) -> RunEnd:
        """Continue as far as that is possible now, or until nothing was possible for `wait_s`.

        What is quiet and what is fenced is remembered from one call to the next.
        """
        if self.end is not None:
            return self.end
        if self._run is None:
            raise RuntimeError("the plan was refused, so there is nothing to continue")
        end = self._run.run(until, wait_s)
        self._audit.note(end)
        return end

    def keep(self, wait_s: float) -> None:
        """Keep the lease while something else is done; a lease that is lost shows in the next `advance`."""
        with suppress(KafkakitError):
            self._lease.keep(wait_s)

    def close(self) -> None:
        """Give the lease back; an operation that is open stays so."""
        self._stack.close()


USUAL_REPLICATION = 3


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


def find_newest(journals: OperationJournals, route: Route) -> OperationRecord | None:
    """The operation that the route names, or the newest that was ever begun."""
    if route.operation is not None:
        return journals.record(route.operation.id)
    found = (journals.record(name) for name in reversed(journals.names()))
    return next((record for record in found if record is not None and record.reached_ms), None)


class OperationWatcher:
    """One watcher of one stream. It decides as a run would and does nothing of it; the window is its own.

    A look costs what a look of a run costs, and a request to each cluster of the route for the ends of its logs.
    `holder` tells which process has the stream's lease.
    """

    def __init__(self, stream: str, parts: FailoverParts, open_cluster: OpenCluster, holder: Callable[[], str]) -> None:
        self._stream, self._parts, self._open, self._holder = stream, parts, open_cluster, holder
        self._history = LiveHistory()

    def look(self) -> LiveView:
        """One look; raises `TryLaterError` while the control store is away."""
        parts = self._parts
        route = parts.routes.existing(self._stream).route
        record = find_newest(parts.journals, route) if route.operation is not None else None
        step = None if record is None else step_by_route(record.operation, route)
        evidence, action = None, None
        if record is not None and step is not None:
            evidence = parts.observer.look(record, route, retiring=True)
            action = next_step(record, evidence, Step.RETIRED)
        ends, problems = self._ends(route, evidence)
        return self._history.view(
            LiveLook(
                at_s=parts.clock.monotonic(),
                at_ms=epoch_ms(parts.clock.now()),
                route=route,
                record=record,
                step=step,
                evidence=evidence,
                ends=ends,
                problems=problems,
                action=action,
                holder=self._holder(),
            )
        )

    def _ends(self, route: Route, evidence: Evidence | None) -> tuple[dict[int, int], dict[int, str]]:
        """The ends of all segments; a cluster that this look has found away is not asked again."""
        ends, problems, by_cluster = dict[int, int](), dict[int, str](), dict[str, list[Segment]]()
        away: dict[str, str] = {}
        for _, segment in route.segments():
            facts = None if evidence is None else evidence.old.get(segment.id)
            if facts is not None and facts.problem:
                problems[segment.id] = facts.problem
                if not facts.is_reachable:
                    away[segment.cluster] = facts.problem
            elif facts is not None and facts.whole_spans is not None:
                ends[segment.id] = sum(span.end for span in facts.whole_spans.values())
            else:
                by_cluster.setdefault(segment.cluster, []).append(segment)
        for cluster, segments in by_cluster.items():
            if cluster in away:
                problems |= dict.fromkeys((segment.id for segment in segments), away[cluster])
                continue
            try:
                spans = self._open(cluster).log.spans([key for each in segments for key in partitions_of(each)])
            except KafkakitError as error:
                problems |= dict.fromkeys((segment.id for segment in segments), error.message)
                continue
            for segment in segments:
                found = [span for key in partitions_of(segment) if isinstance(span := spans.get(key), LogSpan)]
                if len(found) == segment.partitions:
                    ends[segment.id] = sum(span.end for span in found)
                else:
                    problems[segment.id] = "not every leader answers"
        return ends, problems


class CommandAudit:
    """What one command does to a stream: for the audit log, and for a service of events, which `put` sends to."""

    def __init__(self, put: Callable[[Sequence[Event]], object] = lambda _: None) -> None:
        self._put = put
        self._more: dict[str, object] = {}

    @contextmanager
    def around(
        self, store: ControlStore, clock: Clock, stream: str, what: dict[str, object], warn: Callable[[str], None]
    ) -> Iterator[None]:
        """A line before the command and one after it; raises where the first cannot be written: nothing is done then.

        `what` has a random `id`, `by` and `command`.
        """
        log = AuditLog(SharedStoreLines(store, audit_root(stream)), clock)
        with log.around(what, warn) as self._more:
            yield

    def see(self, record: OperationRecord | None, line: Line) -> None:
        """Take a line that the command wrote into a journal."""
        if record is None:
            return
        self._about(record)
        if line.what is LineSubject.STEP:
            self._more["step"] = str(line.data["step"])
        event = event_of(record, line)
        if event is not None:
            self._put((event,))

    def note(self, end: RunEnd) -> None:
        """Take the end of a run."""
        self._about(end.record)
        self._more |= {"step": end.step, "result": end.kind, "reason": end.reason}

    def note_closing(self, closing: ClosingResult) -> None:
        """Take what became of the topics of an operation."""
        self._about(closing.record)
        if closing.is_late:
            self._more |= {"result": EndKind.LATE, "reason": EndKind.LATE}
        elif closing.kept:
            self._more |= {"result": EndKind.WAITING, "reason": Item.LETTERS}

    def note_not_begun(self, refused_by: str) -> None:
        """Take that nothing was begun: by a precondition that was refused, or by the operator's answer."""
        self._more |= {"result": "refused", "reason": refused_by} if refused_by else {"result": "not confirmed"}

    def _about(self, record: OperationRecord) -> None:
        self._more |= {"operation": record.operation.id, "plan_sha256": plan_sha256(record.operation)}


def commands_of(store: ControlStore, stream: str) -> tuple[tuple[AuditedCommand, ...], int]:
    """The commands in the audit log of a stream, oldest first, and how many lines cannot be read."""
    return read_commands(SharedStoreLines(store, audit_root(stream)).read())
