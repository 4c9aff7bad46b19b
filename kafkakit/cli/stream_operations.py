"""What commands that move streams share: the limits of a move as options, and what operations work with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import GROUP_NAME
from kafkakit.cli.option_groups import option
from kafkakit.streams.failover.api import FenceWish, ReadOrder

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession, ProfileSessions
    from kafkakit.streams.failover.api import FailoverRequest, OperationKind
    from kafkakit.streams.failover.api_act import OperationPorts, StreamLease


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """Within which limits a stream is moved."""

    fence: FenceWish = option(
        FenceWish.AUTO,
        "--fence",
        help="What keeps late writers from the old topics: auto (an ACL where one can be used), acl, config "
        "(a size limit), quota (which only delays), none.",
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
        help="How long the ends of old logs must stay the same without a fence or acknowledgements, in place of 125s "
        "or more; below 120s a record may come after the seal.",
    )
    accept_loss: int = option(
        0, "--accept-loss", min=0, metavar="N", help="Continue although up to N offsets were deleted unread."
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

    def template(self, kind: OperationKind, *, is_emergency: bool = False) -> FailoverRequest:
        """The options as a request that names no stream yet; `UsageError` for one that cannot be read."""
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.failover.api import FailoverRequest

        both = sorted({*(self.require_group or ())} & {*(self.ignore_group or ())})
        if both:
            raise UsageError(f"group {both[0]} is given to --require-group and to --ignore-group")
        if "" in (*(self.require_group or ()), *(self.ignore_group or ())):
            raise UsageError("a group has a name", hint="--require-group GROUP, --ignore-group GROUP")

        return FailoverRequest(
            stream="",
            to="",
            is_emergency=is_emergency,
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
            order=self.order,
        )

    def request(
        self, stream: str, to: str, lanes: list[str] | None, kind: OperationKind, partitions: int | None = None
    ) -> FailoverRequest:
        """The options as a request about one stream; raises as `template`."""
        from kafkakit.streams.routes.api import check_stream

        lane_names, found = tuple(sorted(set(lanes or ()))), self.template(kind)
        return replace(found, stream=check_stream(stream), to=to, lanes=lane_names, partitions=partitions)


def operation_ports(cli: CliContext, home: ClusterSession, clusters: ProfileSessions, command: str) -> OperationPorts:
    """The control store of the profile in use with the clusters of others; leases name the `command`."""
    from secrets import token_hex

    from kafkakit import __version__
    from kafkakit.streams.failover.api import lease_of
    from kafkakit.streams.failover.api_act import OperationPorts
    from kafkakit.wiring import open_lease

    def stream_lease(stream: str) -> StreamLease:
        what = f"operations of stream {stream}"
        return open_lease(home.control, home.clock, stream, command, cli.output.say, lease_of(stream), what)

    return OperationPorts(
        store=home.control,
        clock=home.clock,
        open_cluster=clusters,
        open_lease=stream_lease,
        timeout_s=lambda profile: clusters(profile).settings.request_timeout_s,
        reporter=cli.output,
        random_hex=lambda: token_hex(4),
        operator=home.requester,
        version=__version__,
        command=command,
    )
