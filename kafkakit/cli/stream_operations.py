"""What operations of streams work with, from the sessions of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession, ProfileSessions
    from kafkakit.streams.failover.api_act import OperationPorts, StreamLease


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
    )
