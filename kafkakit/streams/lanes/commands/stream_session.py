"""One command's route and clusters of a stream, opened on first use."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from kafkakit.cli.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.clock import Clock
    from kafkakit.streams.lanes.act.stream_clusters import StreamClusters
    from kafkakit.streams.lanes.decide.dead_letters import DeadLetter
    from kafkakit.streams.routes.api import Route


class StreamSession:
    """A command on one stream: its route, its clusters, and the right to change what is rejected."""

    def __init__(self, cli: CliContext, stream: str, stack: ExitStack, *, read_only: bool) -> None:
        self._cli, self._stream, self._stack, self._read_only = cli, stream, stack, read_only
        self.opened: ClusterSession = stack.enter_context(open_session(cli, read_only=read_only))

    @cached_property
    def route(self) -> Route:
        """The stream's route as the profile's control store had it first."""
        return self.read_route()

    def read_route(self) -> Route:
        """The stream's route as the profile's control store has it now."""
        from kafkakit.streams.lanes.act.stream_clusters import read_route

        return read_route(self.opened.control, self._stream)

    @cached_property
    def clusters(self) -> StreamClusters:
        """The clusters that the route names, each by its profile."""
        from kafkakit.streams.lanes.act.stream_clusters import StreamClusters

        return StreamClusters(self._opened_for)

    @property
    def wait_s(self) -> float:
        """How long a broker may be silent."""
        return self.opened.settings.request_timeout_s

    def matches(self, where: str) -> Callable[[DeadLetter], bool]:
        """The query of `--where` at this time."""
        from kafkakit.core.durations import epoch_ms
        from kafkakit.streams.lanes.decide.dead_letters import letter_filter

        return letter_filter(where, epoch_ms(self.opened.clock.now()))

    def claim(self, what: str) -> tuple[Callable[[], None], Clock]:
        """Take the stream's lease for `what`: what to call before each change, and a clock that keeps the lease.

        Raises `TryLaterError` while another process has it.
        """
        from kafkakit.core.lease import DEFAULT_TTL_S
        from kafkakit.execution.act.lease_guard import HeldClock
        from kafkakit.streams.routes.api import check_stream
        from kafkakit.wiring import open_lease

        path, opened = f"streams/{check_stream(self._stream)}/lease-{what}", self.opened
        words = f"{what} of stream {self._stream}"
        command = f"streams dlq {what}"
        lease = open_lease(opened.control, opened.clock, opened.cluster_id, command, self._cli.output.say, path, words)
        lease.acquire()
        self._stack.callback(lease.release)
        return lease.require_held, HeldClock(opened.clock, lease, DEFAULT_TTL_S / 10)

    def _opened_for(self, profile: str) -> ClusterSession:
        settings = self._cli.load_settings(profile)
        return self._stack.enter_context(open_session(self._cli, read_only=self._read_only, settings=settings))
