"""The options of `streams failover`, and the session that its commands work in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import GROUP_NAME
from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option
from kafkakit.streams.failover.decide.operation import FenceWish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.streams.failover.act.planning import Planner
    from kafkakit.streams.failover.act.run import RunParts
    from kafkakit.streams.failover.decide.operation import FailoverRequest
    from kafkakit.streams.routes.api import Route, Segment

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
Wait = Annotated[
    str,
    typer.Option(
        "--wait", metavar="DURATION", help="End with 75 when nothing could be done for this long; 0: look once."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """What is moved, where to, and within which limits."""

    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PROFILE",
            help="The profile of the cluster that is to take the writes.",
            autocompletion=complete_profile_names,
        ),
    ]
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="LANE", help="Move this lane only. Repeatable.")
    ] = None
    emergency: bool = option(
        False,
        "--emergency",
        help="Send producers to the target at once: the old clusters are not looked at before, and consumers are not "
        "waited for.",
    )
    fence: FenceWish = option(
        FenceWish.AUTO,
        "--fence",
        help="What keeps late writers from the old topics: auto (an ACL where one can be used), acl, config, none.",
    )
    require_group: Annotated[
        list[str] | None,
        typer.Option("--require-group", **GROUP_NAME, help="A group that must read the old topics. Repeatable."),
    ] = None
    ignore_group: Annotated[
        list[str] | None,
        typer.Option("--ignore-group", **GROUP_NAME, help="A group that is not waited for. Repeatable."),
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

    def request(self, stream: str) -> FailoverRequest:
        """The options as a request; `UsageError` for one that cannot be read."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.streams.failover.decide.operation import FailoverRequest
        from kafkakit.streams.routes.api import check_stream

        return FailoverRequest(
            stream=check_stream(stream),
            to=self.to,
            lanes=tuple(sorted(set(self.lane or ()))),
            is_emergency=self.emergency,
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
        )


class FailoverSession:
    """The control store of the profile in use, the clusters of others, and the lease of one stream."""

    def __init__(self, cli: CliContext, home: ClusterSession, stack: ExitStack, stream: str, command: str) -> None:
        self.cli, self.home, self.stream = cli, home, stream
        self._stack, self._command = stack, command
        self._clusters: dict[str, ClusterSession] = {}

    def cluster(self, profile: str) -> ClusterSession:
        """The cluster of a profile; `UsageError` for one that no file has."""
        from kafkakit.cli.session import open_session

        if profile not in self._clusters:
            settings = self.cli.load_settings(profile)
            opened = open_session(self.cli, read_only=not self._command, settings=settings)
            self._clusters[profile] = self._stack.enter_context(opened)
        return self._clusters[profile]

    @property
    def route(self) -> Route:
        """The stream's route; `UsageError` where there is none."""
        from kafkakit.streams.routes.api_act import RouteStore

        return RouteStore(self.home.control).existing(self.stream).route

    def parts(self) -> RunParts:
        """What a run works with; takes the stream's lease where the command may write, `TryLaterError` names its
        holder."""
        from kafkakit import __version__
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.lease_guard import HeldClock
        from kafkakit.streams.client.api_act import read_clients
        from kafkakit.streams.failover.act.clients import ClientWatch
        from kafkakit.streams.failover.act.effects import Effects
        from kafkakit.streams.failover.act.journals import OperationJournals
        from kafkakit.streams.failover.act.observer import OperationObserver
        from kafkakit.streams.failover.act.run import RunParts
        from kafkakit.streams.failover.decide.journal import lease_of
        from kafkakit.streams.routes.api_act import RouteStore
        from kafkakit.wiring import open_lease

        clock, control, guard = self.home.clock, self.home.control, _refuse_writes
        if self._command:
            say, what = self.cli.output.say, f"operations of stream {self.stream}"
            lease = open_lease(control, clock, self.stream, self._command, say, lease_of(self.stream), what)
            lease.acquire()
            self._stack.callback(lease.release)
            clock, guard = HeldClock(clock, lease, DEFAULT_TTL_S / 10), lease.require_held
        clients = ClientWatch(lambda: read_clients(control, self.stream), clock)
        return RunParts(
            routes=RouteStore(control),
            journals=OperationJournals(control, clock, self.stream),
            observer=OperationObserver(self.cluster, clients, clock, self._count_rejects),
            effects=Effects(self.cluster, clock, guard),
            clock=clock,
            reporter=self.cli.output,
            require_held=guard,
            operator=self.home.requester,
            version=__version__,
        )

    def planner(self, parts: RunParts) -> Planner:
        """What plans and begins operations."""
        from secrets import token_hex

        from kafkakit.streams.failover.act.planning import Planner

        return Planner(parts, self.cluster, lambda: token_hex(4))

    def _count_rejects(self, segment: Segment) -> int:
        from kafkakit.streams.formats.identity import topic_id_bytes
        from kafkakit.streams.lanes.api_act import RejectLedger

        ports = self.cluster(segment.cluster)
        entries, _ = RejectLedger(ports, self.home.clock, wait_s=ports.settings.request_timeout_s).read()
        topic_id = topic_id_bytes(segment.topic_id)
        return sum(entry.topic_id == topic_id for entry in entries.values())


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
