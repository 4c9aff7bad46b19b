"""The options of `streams failover`, and the session that its commands work in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option
from kafkakit.cli.session import ProfileSessions
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions, MoveLimits, operation_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.streams.failover.act.planning import Planner
    from kafkakit.streams.failover.act.run import RunParts
    from kafkakit.streams.failover.decide.operation import FailoverRequest
    from kafkakit.streams.model.route import Route

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Wait = Annotated[
    str,
    typer.Option(
        "--wait", metavar="DURATION", help="End with 75 when nothing could be done for this long; 0: look once."
    ),
]


Target = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PROFILE",
        help="The profile of the cluster that is to take the writes.",
        autocompletion=complete_profile_names,
    ),
]
LaneNames = Annotated[list[str] | None, typer.Option("--lane", metavar="LANE", help="Move this lane only. Repeatable.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """What is moved, where to, and within which limits."""

    to: Target
    lane: LaneNames = None
    emergency: bool = option(
        False,
        "--emergency",
        help="Send producers to the target at once: the old clusters are not looked at before, and consumers are not "
        "waited for.",
    )
    limits: MoveLimits

    def request(self, stream: str) -> FailoverRequest:
        """The options as a request; `UsageError` for one that cannot be read."""
        from kafkakit.streams.failover.decide.operation import OperationKind

        found = self.limits.request(stream, self.to, self.lane, OperationKind.FAILOVER)
        return replace(found, is_emergency=self.emergency)


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
        from kafkakit.streams.failover.act.audit import CommandAudit

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
        if self.stream not in routes.names():
            routes.existing(self.stream)

    def parts(self) -> RunParts:
        """What a run works with; takes the stream's lease where the command may write, `TryLaterError` names its
        holder, and writes the audit log."""
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.lease_guard import HeldClock
        from kafkakit.streams.failover.act.operations import audited, run_parts

        ports = operation_ports(self.cli, self.home, self.cluster, self._command, self._put_events)
        if not self._command:
            return run_parts(ports, self.stream, ports.clock, _refuse_writes)
        lease = ports.open_lease(self.stream)
        lease.acquire()
        self._stack.callback(lease.release)
        around = self.audit.around(ports.store, ports.clock, self._audited_as, audited(ports), self.cli.output.warn)
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
        from kafkakit.execution.act.lease_reader import read_lease
        from kafkakit.streams.failover.decide.journal import lease_of
        from kafkakit.streams.failover.decide.live import NO_PROCESS

        lease = read_lease(self.home.control, lease_of(self.stream))
        return NO_PROCESS if lease is None or lease.holder is None else str(lease)

    def planner(self, parts: RunParts) -> Planner:
        """What plans and begins operations."""
        from secrets import token_hex

        from kafkakit.streams.failover.act.planning import Planner

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
