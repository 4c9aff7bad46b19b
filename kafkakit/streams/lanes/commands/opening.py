"""The clusters of a stream, and the right to change what is rejected of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.clock import Clock
    from kafkakit.streams.lanes.act.stream_clusters import StreamClusters


def clusters_of(ctx: typer.Context, stack: ExitStack, *, read_only: bool) -> StreamClusters:
    """The clusters that a route names, each by its profile, opened when they are needed."""
    from kafkakit.streams.lanes.act.stream_clusters import StreamClusters

    cli = cli_context(ctx)

    def opened(profile: str) -> ClusterSession:
        return stack.enter_context(open_session(cli, read_only=read_only, settings=cli.load_settings(profile)))

    return StreamClusters(opened)


def claimed(
    ctx: typer.Context, opened: ClusterSession, stack: ExitStack, stream: str, what: str
) -> tuple[Callable[[], None], Clock]:
    """Take the stream's lease for `what`: what to call before each change, and a clock that keeps the lease.

    Raises `TryLaterError` while another process has it.
    """
    from kafkakit.core.lease import DEFAULT_TTL_S
    from kafkakit.execution.act.lease_guard import HeldClock
    from kafkakit.streams.model.route import check_stream
    from kafkakit.wiring import open_lease

    path, say = f"streams/{check_stream(stream)}/lease-{what}", cli_context(ctx).output.say
    words, command = f"{what} of stream {stream}", f"streams dlq {what}"
    lease = open_lease(opened.control, opened.clock, opened.cluster_id, command, say, path, words)
    lease.acquire()
    stack.callback(lease.release)
    return lease.require_held, HeldClock(opened.clock, lease, DEFAULT_TTL_S / 10)
