"""The options of `streams failover`, and the session that its commands work in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option
from kafkakit.cli.session import ProfileSessions
from kafkakit.cli.stream_operations import MoveLimits, operation_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.streams.failover.act.planning import Planner
    from kafkakit.streams.failover.act.run import RunParts
    from kafkakit.streams.failover.decide.operation import FailoverRequest
    from kafkakit.streams.routes.api import Route

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

    def __init__(self, cli: CliContext, home: ClusterSession, stack: ExitStack, stream: str, command: str) -> None:
        self.cli, self.home, self.stream = cli, home, stream
        self._stack, self._command = stack, command
        self.cluster = ProfileSessions(cli, stack, read_only=not command)

    @property
    def route(self) -> Route:
        """The stream's route; `UsageError` where there is none."""
        from kafkakit.streams.routes.api_act import RouteStore

        return RouteStore(self.home.control).existing(self.stream).route

    def parts(self) -> RunParts:
        """What a run works with; takes the stream's lease where the command may write, `TryLaterError` names its
        holder."""
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.lease_guard import HeldClock
        from kafkakit.streams.failover.act.operations import run_parts

        ports = operation_ports(self.cli, self.home, self.cluster, self._command)
        if not self._command:
            return run_parts(ports, self.stream, ports.clock, _refuse_writes)
        lease = ports.open_lease(self.stream)
        lease.acquire()
        self._stack.callback(lease.release)
        return run_parts(ports, self.stream, HeldClock(ports.clock, lease, DEFAULT_TTL_S / 10), lease.require_held)

    def planner(self, parts: RunParts) -> Planner:
        """What plans and begins operations."""
        from secrets import token_hex

        from kafkakit.streams.failover.act.planning import Planner

        return Planner(parts, self.cluster, lambda: token_hex(4))


@contextmanager
def open_failover(cli: CliContext, stream: str, command: str = "") -> Iterator[FailoverSession]:
    """A session about one stream; without a `command` nothing can be written."""
    from kafkakit.cli.session import open_session
    from kafkakit.streams.routes.api import check_stream

    with ExitStack() as stack:
        home = stack.enter_context(open_session(cli, read_only=not command))
        yield FailoverSession(cli, home, stack, check_stream(stream), command)


def _refuse_writes() -> None:
    from kafkakit.core.errors import RefusedError

    raise RefusedError("this command changes nothing")
