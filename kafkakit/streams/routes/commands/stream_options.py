"""The stores and clusters that commands of `kafkakit streams` work on, and the options that choose them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.execution.act.cluster_access import ClusterAccess
    from kafkakit.streams.model.route import Route
    from kafkakit.streams.routes.act.clusters import ClusterObserver
    from kafkakit.streams.routes.act.resolving import ClusterAddress
    from kafkakit.streams.routes.act.store import RouteStore

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
LaneName = Annotated[str, typer.Argument(metavar="LANE", help="The lane.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster that holds the topics; its profile becomes a part of the route."""

    cluster: str | None = option(
        None,
        "--cluster",
        metavar="PROFILE",
        help="Keep the topics on the cluster of this profile; that of the profile in use when not given.",
        autocompletion=complete_profile_names,
    )

    def profile(self, cli: CliContext) -> str:
        """The profile's name; `UsageError` without any, since a route names clusters by profiles."""
        from kafkakit.core.errors import UsageError

        name = self.cluster or cli.settings.profile
        if not name:
            raise UsageError(
                "no profile is named, and a route names its clusters by profiles",
                hint="pass --cluster PROFILE or --profile NAME; kafkakit profile list names them",
            )
        return name


class StreamSession:
    """The routes in the control store of the profile in use, and the clusters of other profiles."""

    def __init__(self, cli: CliContext, home: ClusterSession, stack: ExitStack, *, read_only: bool) -> None:
        self.cli, self.home, self._stack, self._read_only = cli, home, stack, read_only
        self._clusters: dict[str, ClusterSession] = {}
        self._held: dict[str, ClusterAccess] = {}

    @cached_property
    def routes(self) -> RouteStore:
        """Where routes are kept; opened once."""
        from kafkakit.streams.routes.act.store import RouteStore

        return RouteStore(self.home.control)

    @property
    def by(self) -> str:
        """Who makes changes."""
        return self.home.requester

    @property
    def now_ms(self) -> int:
        """The time of the machine's clock."""
        from kafkakit.core.durations import epoch_ms

        return epoch_ms(self.home.clock.now())

    def cluster(self, profile: str) -> ClusterSession:
        """The cluster of a profile; `UsageError` for one that no file has."""
        from kafkakit.cli.session import open_session

        if profile not in self._clusters:
            is_home = profile == self.home.settings.profile
            self._clusters[profile] = (
                self.home
                if is_home
                else self._stack.enter_context(
                    open_session(self.cli, read_only=self._read_only, settings=self.cli.load_settings(profile))
                )
            )
        return self._clusters[profile]

    def claim(self, profile: str, command: str) -> ClusterAccess:
        """The right to change the cluster of a profile until the session ends; a dry run only reads."""
        if profile not in self._held:
            session = self.cluster(profile)
            cluster_id = session.admin.cluster().cluster_id
            self._held[profile] = session.access(cluster_id) if self._read_only else session.claim(command, cluster_id)
        return self._held[profile]

    @cached_property
    def observer(self) -> ClusterObserver:
        """What looks at clusters."""
        from kafkakit.streams.routes.act.clusters import ClusterObserver

        return ClusterObserver(self.cluster)

    def existing(self, stream: str) -> Route:
        """The route of a stream; `UsageError` that names the store for one that is not there."""
        from kafkakit.core.errors import UsageError

        found = self.routes.read(stream)
        if found is None:
            raise UsageError(f"there is no stream {stream} in {self.store_words}", hint=self.store_hint)
        return found.route

    def change(self, stream: str, edit: Callable[[Route], Route], what: str) -> Route:
        """Change a route in the name of this user."""
        return self.routes.change(stream, edit, by=self.by, what=what, at_ms=self.now_ms)

    def change_or_create(
        self, stream: str, before: Route | None, edit: Callable[[Route | None], Route], what: str
    ) -> Route:
        """Change a route, or create it where there was none before."""
        if before is not None:
            return self.change(stream, edit, what)
        return self.routes.create(edit(None), by=self.by, what=what, at_ms=self.now_ms)

    def all(self) -> dict[str, Route | str]:
        """Every route by name; a text says why one cannot be read."""
        from kafkakit.core.errors import InputError

        found: dict[str, Route | str] = {}
        for name in self.routes.streams():
            try:
                read = self.routes.read(name)
            except InputError as error:
                found[name] = error.message
                continue
            if read is not None:
                found[name] = read.route
        return found

    def chosen(self, names: list[str] | None) -> tuple[Route, ...]:
        """The routes of these streams, all that can be read without names; warns of the others."""
        if names:
            return tuple(self.existing(name) for name in dict.fromkeys(names))
        found = self.all()
        for name, route in found.items():
            if isinstance(route, str):
                self.cli.output.warn(f"stream {name}: {route}")
        return tuple(route for route in found.values() if not isinstance(route, str))

    def address(self, profile: str) -> ClusterAddress:
        """How a profile reaches its cluster."""
        from kafkakit.streams.routes.act.resolving import ClusterAddress

        session = self.cluster(profile)
        settings = session.settings
        return ClusterAddress(
            settings.bootstrap_servers, settings.security.protocol.value, lambda: session.admin.cluster().cluster_id
        )

    def snapshot(self, profile: str, needs_tags: bool) -> ClusterSnapshot:
        """The cluster as planning sees it: brokers that are being emptied marked, tags where they are needed."""
        from kafkakit.broker.api_act import open_records, without_leaving
        from kafkakit.cli.tag_options import NO_TAGS
        from kafkakit.wiring import write_file

        session = self.cluster(profile)
        state = session.admin.snapshot(now=session.clock.now(), sizes=False)
        records = open_records(self.cli.settings.state_dir, state.cluster_id, write_file, session.clock)
        state = without_leaving(state, records, self.cli.output, self.cli.program)
        return replace(state, tags=NO_TAGS.read(session)) if needs_tags else state

    @property
    def store_words(self) -> str:
        """The control store, in words."""
        kind = self.home.settings.control_store
        return f"control store {kind} (this host only)" if kind == "file" else f"control store {kind}"

    @property
    def store_hint(self) -> str:
        """What to check where something is not in the store."""
        if self._has_store:
            return "kafkakit streams list names the streams"
        return "routes are kept where control_store of the profile says (kafka, zookeeper, file), and it says nothing"

    def warn(self, warnings: Iterable[str]) -> None:
        """Print each as a warning."""
        for text in warnings:
            self.cli.output.warn(text)

    def warn_of_default_store(self) -> None:
        """Warn where no control store is configured, so that other hosts do not see the route."""
        if not self._has_store:
            self.cli.output.warn(
                "no control_store is configured: the route is kept in files of this host, where clients on other "
                "hosts do not see it; set control_store in the profile"
            )

    @property
    def _has_store(self) -> bool:
        from kafkakit.config.merge import Rank

        entry = self.home.settings.entries.get("control_store")
        return entry is not None and entry.rank is not Rank.DEFAULT


@contextmanager
def open_streams(cli: CliContext, *, read_only: bool) -> Iterator[StreamSession]:
    """A session on the routes of the invocation's control store; every client is closed when it ends.

    With `read_only` the clients of clusters refuse to write; the store is then only read.
    """
    from kafkakit.cli.session import open_session

    with ExitStack() as stack:
        home = stack.enter_context(open_session(cli, read_only=read_only))
        yield StreamSession(cli, home, stack, read_only=read_only)
