"""What commands that move streams share: limits of a move and events as options, and what operations work with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.completion import GROUP_NAME
from kafkakit.core.options import option
from kafkakit.streams.failover.api import DeadLetters, FenceChoice, ReadOrder

if TYPE_CHECKING:
    from contextlib import ExitStack

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession, ProfileSessions
    from kafkakit.streams.failover.api import FailoverRequest, OperationKind
    from kafkakit.streams.failover.api_act import OperationPorts, PutEvents, StreamLease

KEY_PREFIX = "KAFKAKIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """Within which limits a stream is moved."""

    fence: FenceChoice = option(
        FenceChoice.AUTO,
        "--fence",
        help="What keeps late writers from the old topics: auto (an ACL if one can be used), acl, config "
        "(a size limit), quota (which only delays), none.",
    )
    require_group: list[str] | None = option(
        None, "--require-group", **GROUP_NAME, help="A group that must read the old topics. Repeatable."
    )
    ignore_group: list[str] | None = option(
        None, "--ignore-group", **GROUP_NAME, help="A group that is not waited for. Repeatable."
    )
    quiet_for: str = option(
        "",
        "--quiet-for",
        metavar="DURATION",
        help="How long the ends of old logs must stay the same without a fence or acknowledgements, in place of 125s "
        "or more; below 120s a record may come after the seal.",
    )
    accept_loss: int = option(
        0, "--accept-loss", min=0, metavar="N", help="Continue even if up to N offsets were deleted unread."
    )
    max_duplicates: int | None = option(
        None,
        "--max-duplicates",
        min=0,
        metavar="N",
        help="Refuse if more records than this may be delivered twice.",
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
    )
    allow_compacted: bool = option(False, "--allow-compacted", help="Also move compacted topics.")
    allow_transactions: bool = option(False, "--allow-transactions", help="Move even if groups commit in transactions.")
    order: ReadOrder = option(
        ReadOrder.RELAXED,
        "--order",
        help="relaxed: consumers read new and old topics side by side; strict: the new ones once the old ones are "
        "retired, so that records of a key stay in order.",
    )
    dead_letters: DeadLetters | None = option(
        None,
        "--dead-letters",
        help="What becomes of dead letters in the old topic of lane dlq, and of rejected records that references lead "
        "to: leave (their topic stays readable until they are deleted, and reclaim keeps it), or copy (to the new "
        "topic of lane dlq). copy if not given for an evacuation, leave for anything else.",
    )

    def template(
        self, kind: OperationKind, *, is_emergency: bool = False, dead_letters: DeadLetters = DeadLetters.LEAVE
    ) -> FailoverRequest:
        """The options as a request that names no stream yet; `UsageError` for one that cannot be read.

        `dead_letters` is for options that do not say.
        """
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_duration
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
            dead_letters=self.dead_letters or dead_letters,
        )

    def request(
        self, stream: str, to: str, lanes: list[str] | None, kind: OperationKind, partitions: int | None = None
    ) -> FailoverRequest:
        """The options as a request about one stream; raises as `template`."""
        from kafkakit.streams.model.route import check_stream

        lane_names, found = tuple(sorted(set(lanes or ()))), self.template(kind)
        return replace(found, stream=check_stream(stream), to=to, lanes=lane_names, partitions=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Events to Datadog for what an operation does."""

    dd_events: bool = option(
        False, "--dd-events", help="Send an event to Datadog for each step, fence, late writer and certificate."
    )
    dd_event_tags: str = option("", "--dd-event-tags", metavar="TAG,...", help="More tags of these events.")
    datadog_site: str = option(
        "datadoghq.com", envvar=["DD_SITE"], metavar="SITE", help="Datadog: the site of the key, or its address."
    )
    api_key_file: Path | None = option(None, metavar="FILE", help="Datadog: the API key; else the variable DD_API_KEY.")

    def open(self, stack: ExitStack, cli: CliContext) -> PutEvents:
        """What takes the events of a stream until `stack` ends; `UsageError` where there is no key."""
        from kafkakit.streams.failover.api_act import no_events

        if not self.dd_events:
            return no_events
        from contextlib import closing

        from kafkakit.execution.act.control_requests import EventQueue
        from kafkakit.wiring import open_datadog_events

        more = tuple(tag for part in self.dd_event_tags.split(",") if (tag := part.strip()))
        api = open_datadog_events(self.datadog_site, self.api_key_file, cli.output.warn, KEY_PREFIX)
        queue = stack.enter_context(closing(EventQueue(api.send_event, (), cli.output.warn)))
        return lambda stream, events: queue.put(events, ("name:kafkakit-failover", f"stream:{stream}", *more))


NO_EVENTS = EventOptions()


def operation_ports(
    cli: CliContext,
    home: ClusterSession,
    clusters: ProfileSessions,
    command: str,
    put_events: PutEvents | None = None,
) -> OperationPorts:
    """The control store of the profile in use with the clusters of others; leases name the `command`."""
    from secrets import token_hex

    from kafkakit import __version__
    from kafkakit.streams.failover.api import lease_of
    from kafkakit.streams.failover.api_act import OperationPorts, no_events
    from kafkakit.wiring import open_lease

    def stream_lease(stream: str) -> StreamLease:
        path, about = lease_of(stream), f"stream {stream}"
        return open_lease(home.control, home.clock, stream, command, cli.output.say, path, about=about)

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
        put_events=put_events or no_events,
    )
