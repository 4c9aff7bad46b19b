"""The options of `streams failover`, and the session that its commands work in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option
from kafkakit.cli.session import ProfileSessions
from kafkakit.streams.failover.decide.operation import FenceWish, ReadOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.streams.failover.act.planning import Planner
    from kafkakit.streams.failover.act.run import RunParts
    from kafkakit.streams.failover.decide.operation import FailoverRequest, OperationKind
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
class MoveLimits:
    """Within which limits a stream is moved."""

    fence: FenceWish = option(
        FenceWish.AUTO,
        "--fence",
        help="What keeps late writers from the old topics: auto (an ACL where one can be used), acl, config, none.",
    )
    require_group: Annotated[
        list[str] | None,
        typer.Option("--require-group", metavar="GROUP", help="A group that must read the old topics. Repeatable."),
    ] = None
    ignore_group: Annotated[
        list[str] | None,
        typer.Option("--ignore-group", metavar="GROUP", help="A group that is not waited for. Repeatable."),
    ] = None
    quiet_for: str = option(
        "",
        "--quiet-for",
        metavar="DURATION",
        help="How long the ends of old logs must stay the same without a fence or acknowledgements (120s or more).",
    )
    accept_loss: int = option(
        0, "--accept-loss", min=0, metavar="N", help="Go on although up to N records were deleted before being read."
    )
    max_duplicates: int | None = option(
        None,
        "--max-duplicates",
        min=0,
        metavar="N",
        help="Refuse where more records may come a second time.",
        show_default=False,
    )
    replication: int | None = option(
        None,
        "--replication",
        min=1,
        metavar="N",
        help="Replicas of the new topics; as the old ones if not given.",
    )
    open_by_default: bool | None = option(
        None,
        "--open-by-default/--closed-by-default",
        help="State allow.everyone.if.no.acl.found of the old clusters, which brokers do not tell: an ACL on a topic "
        "that has none needs it.",
        show_default=False,
    )
    allow_compacted: bool = option(False, "--allow-compacted", help="Move compacted topics, too.")
    allow_transactions: bool = option(
        False, "--allow-transactions", help="Move although groups commit in transactions."
    )
    order: ReadOrder = option(
        ReadOrder.RELAXED,
        "--order",
        help="relaxed: consumers read new and old topics side by side; strict: the new ones once the old ones are "
        "retired, so that records of a key stay in order.",
    )

    def request(
        self, stream: str, to: str, lanes: list[str] | None, kind: OperationKind, partitions: int | None = None
    ) -> FailoverRequest:
        """The options as a request; `UsageError` for one that cannot be read."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.streams.failover.decide.operation import FailoverRequest
        from kafkakit.streams.routes.api import check_stream

        return FailoverRequest(
            stream=check_stream(stream),
            to=to,
            lanes=tuple(sorted(set(lanes or ()))),
            fence=self.fence,
            groups=tuple(sorted(set(self.require_group or ()))),
            ignored=tuple(sorted(set(self.ignore_group or ()))),
            quiet_s=parse_duration(self.quiet_for, "--quiet-for") if self.quiet_for else None,
            accept_loss=self.accept_loss,
            max_duplicates=self.max_duplicates,
            replication=self.replication,
            is_open_by_default=self.open_by_default,
            allow_compacted=self.allow_compacted,
            allow_transactions=self.allow_transactions,
            kind=kind,
            partitions=partitions,
            order=self.order,
        )


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
        from dataclasses import replace

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
        from kafkakit.cli.stream_operations import operation_ports
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

    raise RefusedError("this command only looks")
