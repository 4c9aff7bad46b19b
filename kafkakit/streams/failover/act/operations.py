"""Operations of streams for commands and for other tools: what one works with, and one that is open under its lease."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kafkakit.core.errors import KafkakitError
from kafkakit.core.event import Event
from kafkakit.core.lease import DEFAULT_TTL_S
from kafkakit.execution.act.lease_guard import Held, HeldClock
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.ports.reporter import Reporter
from kafkakit.streams.failover.act.audit import CommandAudit
from kafkakit.streams.failover.act.clients import ClientWatch
from kafkakit.streams.failover.act.closing import newest
from kafkakit.streams.failover.act.effects import Effects
from kafkakit.streams.failover.act.journals import OnLine, OperationJournals, no_line
from kafkakit.streams.failover.act.observer import OperationObserver
from kafkakit.streams.failover.act.planning import Planner
from kafkakit.streams.failover.act.run import OperationRun, RunParts
from kafkakit.streams.failover.decide.operation import FailoverRequest, OperationKind, Step
from kafkakit.streams.failover.decide.outcome import RunEnd
from kafkakit.streams.failover.decide.plan import FailoverPlan
from kafkakit.streams.failover.decide.targets import home_of, left_cluster
from kafkakit.streams.lanes.api_act import RejectLedger
from kafkakit.streams.model.commit import topic_id_bytes
from kafkakit.streams.model.route import Segment
from kafkakit.streams.routes.api_act import OpenCluster, RouteStore

PutEvents = Callable[[str, Sequence[Event]], object]
"""Sends events about a stream to a service."""


def no_events(stream: str, events: Sequence[Event]) -> None:
    """Events are sent nowhere."""


class StreamLease(Held, Protocol):
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
) -> RunParts:
    """What one run works with; `guard` is called before each change, and `clock` keeps the lease while it sleeps."""

    from kafkakit.streams.client.api_act import read_clients

    clients = ClientWatch(lambda: read_clients(ports.store, stream), clock)
    return RunParts(
        routes=RouteStore(ports.store),
        journals=OperationJournals(ports.store, clock, stream, on_line),
        observer=OperationObserver(ports.open_cluster, clients, clock, lambda segment: count_rejects(ports, segment)),
        effects=Effects(ports.open_cluster, clock, guard),
        clock=clock,
        reporter=ports.reporter,
        require_held=guard,
        operator=ports.operator,
        version=ports.version,
    )


def audited(ports: OperationPorts) -> dict[str, object]:
    """Who does what, for the audit log."""
    return {"id": ports.random_hex(), "by": ports.operator, "command": ports.command}


def count_rejects(ports: OperationPorts, segment: Segment) -> int:
    """How many records of a topic were rejected by reference alone."""
    cluster, wait_s = ports.open_cluster(segment.cluster), ports.timeout_s(segment.cluster)
    entries, _ = RejectLedger(cluster, ports.clock, wait_s=wait_s).read()
    return sum(entry.topic_id == topic_id_bytes(segment.topic_id) for entry in entries.values())


def plan_operation(ports: OperationPorts, request: FailoverRequest) -> FailoverPlan:
    """What an operation would do and need now; nothing is written, and no lease is taken."""
    parts = run_parts(ports, request.stream, ports.clock, lambda: None)
    return Planner(parts, ports.open_cluster, ports.random_hex).plan(request)


def aimed(parts: RunParts, request: FailoverRequest) -> FailoverRequest:
    """The request with its target, where the stream itself tells it: a return, and a lane that stays on its cluster.

    A return that is open, or that was the last thing done, keeps its target: a command that is repeated does not send
    the stream away again. Raises `RefusedError` for a stream that has not left a cluster.
    """
    if request.kind not in (OperationKind.BACK, OperationKind.REPARTITION):
        return request
    route = parts.routes.existing(request.stream).route
    if request.kind is OperationKind.REPARTITION:
        return replace(request, to=home_of(route, request.lanes))
    last = newest(parts.journals, route)
    if last is not None and last.request.kind is OperationKind.BACK and last.end in (None, Step.RETIRED):
        return replace(request, to=last.request.to)
    history = [each.change.route for each in parts.routes.history(request.stream) if each.in_effect]
    return replace(request, to=left_cluster(route, history, request.lanes))


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
                self._audit.around(ports.store, ports.clock, request.stream, audited(ports), ports.reporter.warn)
            )
            clock = HeldClock(ports.clock, self._lease, DEFAULT_TTL_S / 10)
            parts = run_parts(ports, request.stream, clock, self._lease.require_held, self._audit.see)
            self._begin(Planner(parts, ports.open_cluster, ports.random_hex), parts, approval)
        except BaseException:
            self.close()
            raise

    def _begin(self, planner: Planner, parts: RunParts, approval: str) -> None:
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
