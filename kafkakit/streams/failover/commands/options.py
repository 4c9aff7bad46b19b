"""The options of `streams failover`, the session that its commands work in, and what rehearsals and live views need."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.session import ProfileSessions
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions, operation_ports
from kafkakit.core.options import not_typed, option, required_option, typed_as
from kafkakit.core.text import shell_command
from kafkakit.streams.failover.decide.operation import FailoverRequest, OperationKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.acting import Clock
    from kafkakit.streams.failover.act.operations import OperationWatcher, Planner
    from kafkakit.streams.failover.act.rehearsal import RehearsalLoad, RehearsalParts
    from kafkakit.streams.failover.act.run import FailoverParts
    from kafkakit.streams.failover.decide.drain_proof import LiveView
    from kafkakit.streams.failover.decide.history import Rehearsal
    from kafkakit.streams.model.route import Route


StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Wait = Annotated[
    str,
    typer.Option(
        "--wait", metavar="DURATION", help="End with 75 when nothing could be done for this long; 0: look once."
    ),
]

LaneNames = Annotated[list[str] | None, typer.Option("--lane", metavar="LANE", help="Move this lane only. Repeatable.")]
BackRequest = Annotated[
    FailoverRequest,
    typed_as(to=not_typed(""), lanes=not_typed(()), is_emergency=not_typed(False), kind=not_typed(OperationKind.BACK)),
]
MoveRequest = Annotated[
    FailoverRequest,
    typed_as(lanes=not_typed(()), is_emergency=not_typed(False), kind=not_typed(OperationKind.MOVE)),
]
RepartitionRequest = Annotated[
    FailoverRequest,
    typed_as(
        to=not_typed(""),
        lanes=required_option(
            "--lane", parse=lambda lane: (lane,), metavar="LANE", help="The lane whose partition count changes."
        ),
        is_emergency=not_typed(False),
        kind=not_typed(OperationKind.REPARTITION),
        partitions=required_option(
            "--partitions", typed=int, parse=int, min=1, max=10_000, metavar="N", help="Number of partitions."
        ),
    ),
]


class FailoverSession:
    """The control store of the profile in use, the clusters of others, and the lease of one stream."""

    def __init__(
        self,
        cli: CliContext,
        home: ClusterSession,
        stack: ExitStack,
        stream: str,
        command: str,
        events: EventOptions = NO_EVENTS,
        audited_as: str = "",
    ) -> None:
        from kafkakit.streams.failover.act.operations import CommandAudit

        self.cli, self.home, self.stream = cli, home, stream
        self._stack, self._command, self._audited_as = stack, command, audited_as or stream
        self.cluster = ProfileSessions(cli, stack, read_only=not command)
        self._put_events = (events if command else NO_EVENTS).open(stack, cli)
        self.audit = CommandAudit(partial(self._put_events, stream))

    @property
    def route(self) -> Route:
        """The stream's route; `UsageError` where there is none."""
        from kafkakit.streams.routes.api_act import RouteStore

        return RouteStore(self.home.control).existing(self.stream).route

    def require_known(self) -> None:
        """Raise `UsageError` for a stream that does not exist and never did."""
        from kafkakit.streams.routes.api_act import RouteStore

        routes = RouteStore(self.home.control)
        if not routes.history(self.stream, 1):
            routes.existing(self.stream)

    def parts(self) -> FailoverParts:
        """What a run works with; takes the stream's lease where the command may write, `TryLaterError` names its
        holder, and writes the audit log."""
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.leases import HeldClock
        from kafkakit.streams.failover.act.operations import audit_fields, run_parts

        ports = operation_ports(self.cli, self.home, self.cluster, self._command, self._put_events)
        if not self._command:
            return run_parts(ports, self.stream, ports.clock, _refuse_writes)
        lease = ports.open_lease(self.stream)
        lease.acquire()
        self._stack.callback(lease.release)
        around = self.audit.around(
            ports.store, ports.clock, self._audited_as, audit_fields(ports), self.cli.output.warn
        )
        self._stack.enter_context(around)
        clock = HeldClock(ports.clock, lease, DEFAULT_TTL_S / 10)
        return run_parts(ports, self.stream, clock, lease.require_held, self.audit.see)

    def after_release(self, work: Callable[[], object]) -> None:
        """Do something once the lease is given back, and before the control store is closed.

        To be called before `parts`, which takes the lease.
        """
        self._stack.callback(work)

    def lease_words(self) -> str:
        """Which process works on the stream, in words."""
        from kafkakit.execution.act.leases import read_lease
        from kafkakit.streams.failover.decide.drain_proof import NO_PROCESS
        from kafkakit.streams.failover.decide.operation import lease_of

        lease = read_lease(self.home.control, lease_of(self.stream))
        return NO_PROCESS if lease is None or lease.holder is None else str(lease)

    def planner(self, parts: FailoverParts) -> Planner:
        """What plans and begins operations."""
        from secrets import token_hex

        from kafkakit.streams.failover.act.operations import Planner

        return Planner(parts, self.cluster, lambda: token_hex(4))


@contextmanager
def open_failover(
    cli: CliContext, stream: str, command: str = "", events: EventOptions = NO_EVENTS, audited_as: str = ""
) -> Iterator[FailoverSession]:
    """A session about one stream; without a `command` nothing can be written.

    A command is in the audit log of the stream, or in that of `audited_as`.
    """
    from kafkakit.cli.session import open_session
    from kafkakit.streams.model.route import check_stream

    with ExitStack() as stack:
        home = stack.enter_context(open_session(cli, read_only=not command))
        yield FailoverSession(cli, home, stack, check_stream(stream), command, events, audited_as)


def _refuse_writes() -> None:
    from kafkakit.core.errors import RefusedError

    raise RefusedError("this command changes nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """Where the shadow moves to, and what is written to it."""

    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PROFILE",
            help="The profile of the cluster that would take the writes.",
            autocompletion=complete_profile_names,
        ),
    ]
    rate: float | None = option(
        None,
        "--rate",
        metavar="N",
        help="Records a second over all lanes; what the stream takes now, measured for 5 s, if not given.",
    )
    record_bytes: int = option(
        1000, "--record-bytes", min=20, max=900_000, metavar="N", help="The size of a record's value."
    )
    load: str = option(
        "5s", "--load", metavar="DURATION", help="How long is written before the failover, and after it."
    )

    def rehearsal(self, session: FailoverSession, stream: str, route: Route, parts: RehearsalParts) -> Rehearsal:
        """What is rehearsed; measures the rate where none is given."""
        from secrets import token_hex

        from kafkakit.core.quantities import epoch_ms, parse_duration
        from kafkakit.streams.failover.act.rehearsal import rate_of
        from kafkakit.streams.failover.decide.history import Rehearsal, lanes_to_rehearse, stated_rate

        sources = {lane.active.cluster for lane in lanes_to_rehearse(route) if lane.active is not None}
        load_s = parse_duration(self.load, "--load")
        per_s = rate_of(route, session.cluster, parts.run) if self.rate is None else stated_rate(self.rate)
        started_ms = epoch_ms(session.home.clock.now())
        return Rehearsal(
            id=f"{started_ms:013d}-{token_hex(4)}",
            stream=stream,
            to=self.to,
            by=session.home.requester,
            started_ms=started_ms,
            per_s=round(per_s, 3),
            record_bytes=self.record_bytes,
            load_s=load_s,
            profiles=tuple(sorted({*sources, self.to})),
        )

    def parts(self, session: FailoverSession, stream: str, run: FailoverParts) -> RehearsalParts:
        """What a rehearsal works with."""
        from kafkakit.streams.failover.act.rehearsal import RehearsalHistory, RehearsalParts, ShadowStream

        shadow = ShadowStream(session.stream, session.home.control, run.clock, session.cluster, run.require_held)
        return RehearsalParts(
            run=run,
            planner=session.planner(run),
            shadow=shadow,
            history=RehearsalHistory(session.home.control, stream),
            open_cluster=session.cluster,
            open_load=lambda rehearsal, lanes: open_load(session, rehearsal, lanes),
        )


def open_load(session: FailoverSession, rehearsal: Rehearsal, lanes: tuple[str, ...]) -> RehearsalLoad:
    """The load, with a client of the profile in use, as an application has one."""
    from kafkakit.streams.client.connect import connect
    from kafkakit.streams.failover.act.rehearsal import RehearsalLoad

    cli = session.cli
    return RehearsalLoad(connect(cli.settings.profile, config=cli.given.config), session.home.clock, rehearsal, lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """How often `status` looks at clusters, and where metrics go."""

    watch: bool = option(
        False, "--watch", "-w", help="Read the clusters, and refresh until no operation of the stream is open."
    )
    interval: str = option("1s", "--interval", metavar="DURATION", help="Time between two refreshes of --watch.")
    count: int | None = option(None, "--count", min=1, metavar="N", help="End --watch after this many refreshes.")
    metrics: Path | None = option(
        None,
        "--metrics",
        metavar="FILE",
        help="With --watch, write Prometheus metrics to this file after each look, as a whole, for "
        "node_exporter's textfile collector.",
    )

    @property
    def interval_s(self) -> float:
        """Seconds between two looks; raises `UsageError`."""
        from kafkakit.core.quantities import parse_duration

        return parse_duration(self.interval, "--interval")

    def refuse_unused(self) -> None:
        """Raise `UsageError` for metrics or a count without looks at the clusters."""
        from kafkakit.core.errors import UsageError

        if not self.watch and (self.metrics is not None or self.count is not None):
            raise UsageError("--metrics and --count require --watch")


def watch_operation(
    cli: CliContext, clock: Clock, stream: str, watcher: OperationWatcher, options: LiveOptions
) -> LiveView:
    """Show an operation until none is open; returns the last look."""
    from kafkakit.execution.act.retrier import Retrier
    from kafkakit.execution.act.status_loop import READ_TIMEOUT_S, watch_until_idle
    from kafkakit.report.report import text_of
    from kafkakit.streams.failover.report import PhaseLines, live_metrics, live_sections, phase_line
    from kafkakit.wiring import write_file

    phases = PhaseLines()

    def after_look(view: LiveView) -> None:
        if options.metrics is not None:
            write_file(options.metrics, live_metrics(view).encode())

    def show(view: LiveView) -> None:
        if phases.is_new(view) or cli.output.animate:
            screen.show(text_of(live_sections(view)), phase_line(view))

    with cli.output.screen() as screen:
        return watch_until_idle(
            watcher.look,
            watcher.look,
            clock,
            Retrier(clock, cli.output, READ_TIMEOUT_S),
            what="reading the stream",
            interval_s=options.interval_s,
            after_look=after_look,
            show=show,
            stopped="the operation is not touched",
            hint=f"look again: {shell_command('streams failover status', stream, watch=True)}",
            count=options.count,
        )
