"""What commands that move streams share: events as options, and what operations work with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.core.options import option

if TYPE_CHECKING:
    from contextlib import ExitStack

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession, ProfileSessions
    from kafkakit.streams.failover.api_act import OperationPorts, PutEvents, StreamLease

KEY_PREFIX = "KAFKAKIT"


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
