"""The stores and clusters that commands of `kafkakit streams` work on, and the options that choose them.

Commands that make lanes have options for the shapes of their topics and for where those go. Their topics are planned,
confirmed, created and verified in one way.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import BROKER_CHOICE, complete_profile_names
from kafkakit.cli.session import finish
from kafkakit.core.options import option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.run_options import Consent
    from kafkakit.cli.session import ClusterSession
    from kafkakit.config.read.settings import Settings
    from kafkakit.core.model import ClusterSnapshot
    from kafkakit.execution.act.leases import ClusterAccess
    from kafkakit.streams.model.route import Route, Segment
    from kafkakit.streams.routes.act.clusters import ClusterAddress, ClusterObserver
    from kafkakit.streams.routes.act.store import RouteStore
    from kafkakit.streams.routes.decide import LaneShape, PlacementScope, PlannedTopic, RouteFacts
    from kafkakit.streams.routes.pathways import SeenEdges
    from kafkakit.streams.routes.report import ConsumerAccess, SecretReference

    Write = Callable[[Sequence[tuple[str, Segment]]], Route]


class ResolveFormat(StrEnum):
    """Formats of addresses and topics; the last three are settings of a consumer."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    TSV = "tsv"
    LIBRDKAFKA = "librdkafka"
    JAVA = "java"
    SPRING = "spring"


StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.", show_default=False)]
LaneName = Annotated[str, typer.Argument(metavar="LANE", help="The lane.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The cluster that holds the topics; its profile becomes a part of the route."""

    cluster: str | None = option(
        None,
        "--cluster",
        metavar="PROFILE",
        help="Profile of the cluster that holds the topics; the current profile if not given.",
        autocompletion=complete_profile_names,
    )

    def profile(self, cli: CliContext) -> str:
        """The profile's name; `UsageError` without any, since a route names clusters by profiles."""
        from kafkakit.core.errors import UsageError

        name = self.cluster or cli.settings.profile
        if not name:
            raise UsageError(
                "no profile is named, and a route names its clusters by profiles",
                hint="pass --cluster PROFILE or --profile NAME; list them with: kafkakit profile list",
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
        from kafkakit.core.quantities import epoch_ms

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
        from kafkakit.streams.routes.act.clusters import ClusterAddress

        session = self.cluster(profile)
        settings = session.settings
        return ClusterAddress(
            settings.bootstrap_servers, settings.security.protocol.value, lambda: session.admin.cluster().cluster_id
        )

    def access(self, profile: str) -> ConsumerAccess:
        """How a profile reaches its cluster, with references in place of its secrets."""
        from kafkakit.config.keys import KEY_PASSWORD, SASL_PASSWORD
        from kafkakit.streams.routes.report import ConsumerAccess

        settings = self.cluster(profile).settings
        security = settings.security
        return ConsumerAccess(
            profile=profile,
            bootstrap_servers=settings.bootstrap_servers,
            security=replace(security, password=None, key_password=None),
            password=None if security.password is None else _reference(settings, SASL_PASSWORD),
            key_password=None if security.key_password is None else _reference(settings, KEY_PASSWORD),
        )

    def snapshot(self, profile: str, needs_tags: bool) -> ClusterSnapshot:
        """The cluster as planning sees it: brokers that are being emptied marked, tags where they are needed."""
        from kafkakit.broker.api_act import open_records, without_leaving
        from kafkakit.cli.common_options import NO_TAGS
        from kafkakit.wiring import write_file

        session = self.cluster(profile)
        state = session.admin.snapshot(now=session.clock.now(), sizes=False)
        records = open_records(
            self.cli.settings.state_dir, state.cluster_id, write_file, session.clock, lambda: session.control_view
        )
        state = without_leaving(state, records, self.cli.output, self.cli.program, admin=session.admin)
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
            return "list them with: kafkakit streams list"
        return (
            "this profile sets no control_store (kafka, zookeeper, file), so only streams created on this host are "
            "visible"
        )

    def warn(self, warnings: Iterable[str]) -> None:
        """Print each as a warning."""
        for text in warnings:
            self.cli.output.warn(text)

    def warn_of_default_store(self) -> None:
        """Warn where no control store is configured, so that other hosts do not see the route."""
        if not self._has_store:
            self.cli.output.warn(
                "no control_store is configured: the route is kept in files on this host, which clients on other "
                "hosts do not see; set control_store in the profile"
            )

    @property
    def _has_store(self) -> bool:
        from kafkakit.config.keys import Rank

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What the topics are like, and which brokers hold them."""

    partitions: str = option(
        "6", "--partitions", metavar="N|LANE=N,...", help="Partitions of each topic; 12,dlq=3 differs for one lane."
    )
    retention: str = option(
        "",
        "--retention",
        metavar="DURATION|LANE=DURATION,...",
        help="How long topics keep records (7d,dlq=30d; -1: for ever); the cluster's default when not given.",
    )
    quota: str = option(
        "",
        "--quota",
        metavar="RATE|LANE=RATE,...",
        help="What each broker takes from all producers of a lane together, per second (5MB/s); no limit when not "
        "given.",
    )
    topics_config: list[str] | None = option(
        None,
        "--topics-config",
        metavar="[LANE:]KEY=VALUE",
        help="A configuration of the topics, or of one lane's. Repeatable.",
    )
    replication: int | None = option(
        None,
        "--replication",
        min=1,
        max=100,
        metavar="N",
        help="Replicas of each partition; 3, or as many as there are brokers, when not given.",
    )
    brokers: str = option("", "--brokers", **BROKER_CHOICE, help="Brokers that may hold them.")
    spread_by: list[str] | None = option(
        None, "--spread-by", metavar="KEY,...", help="Spread replicas over the values of each tag, beside racks."
    )

    def shapes(self, lanes: tuple[str, ...]) -> tuple[LaneShape, ...]:
        """The shapes of these lanes; `UsageError` for a text that cannot be read."""
        from kafkakit.streams.routes.decide import lane_shapes

        return lane_shapes(lanes, self.partitions, self.retention, self.topics_config or (), self.quota)

    @property
    def scope(self) -> PlacementScope:
        """Where replicas may go."""
        from kafkakit.core.selection import parse_broker_list
        from kafkakit.streams.routes.decide import PlacementScope
        from kafkakit.topicmappr.api import TagConstraints

        keys = [key.strip() for given in self.spread_by or () for key in given.split(",") if key.strip()]
        return PlacementScope(
            replication=self.replication,
            brokers=parse_broker_list(self.brokers) if self.brokers else None,
            constraints=TagConstraints(spread_by=tuple(dict.fromkeys(keys))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNames:
    """The lanes of a new stream."""

    lanes: str = option("live,slow,retry,dlq", "--lanes", metavar="LANE,...", help="The lanes of the stream.")

    @property
    def names(self) -> tuple[str, ...]:
        """The lanes in order; `UsageError` for a bad name, a repeated one, or none that is `live`."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.model.route import LIVE, check_lane

        names = tuple(check_lane(name.strip()) for name in self.lanes.split(",") if name.strip())
        if len(set(names)) < len(names):
            raise UsageError("--lanes names a lane twice")
        if LIVE not in names:
            raise UsageError("--lanes lacks live, which takes the records that no rule sends elsewhere")
        return names


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwayOptions:
    """Which edges between streams are looked for."""

    pathways: bool = option(False, "--pathways", help="Show edges between streams that records prove.")
    service: list[str] | None = option(
        None, "--service", metavar="NAME", help="A service that may read and write streams. Repeatable."
    )
    env: str = option("none", "--env", metavar="NAME", help="The environment of the services, as their tracers say it.")
    records: int = option(
        1000, "--records", metavar="N", min=1, max=1_000_000, help="Read the newest N records of each topic."
    )

    def look(
        self, streams: StreamSession, observed: Sequence[tuple[Route, RouteFacts]]
    ) -> tuple[SeenEdges | None, Sequence[str]]:
        """The edges, None unless they are wanted, and what could not be read."""
        from kafkakit.core.errors import UsageError
        from kafkakit.streams.routes.act.clusters import PathwayObserver

        if not self.pathways:
            if self.service:
                raise UsageError("--service is for --pathways")
            return None, ()
        observer = PathwayObserver(
            streams.cluster,
            streams.home.clock,
            records=self.records,
            wait_s=streams.home.settings.request_timeout_s,
        )
        return observer.look(observed, tuple(dict.fromkeys(self.service or ())), self.env), observer.problems


def create_lanes(
    ctx: typer.Context,
    command: str,
    stream: str,
    lanes: tuple[str, ...],
    shape: TopicShape,
    profile: str,
    streams: StreamSession,
    consent: Consent,
    write: Write,
) -> int:
    """Make topics and quotas of new lanes on a profile's cluster, the route by `write`, and end with the report."""
    from functools import partial

    from kafkakit.core.quantities import count_of
    from kafkakit.report.report import cluster_words, lines_of
    from kafkakit.streams.routes.act.clusters import create_topics, plan_on, set_quotas
    from kafkakit.streams.routes.decide import leftovers, quotas_of
    from kafkakit.streams.routes.report import created_report, plan_sections
    from kafkakit.topicmappr.api import tags_needed

    cli, shapes, scope = cli_context(ctx), shape.shapes(lanes), shape.scope
    epoch = streams.routes.planned_epoch(stream)

    def planned_topics() -> tuple[tuple[PlannedTopic, ...], tuple[str, ...]]:
        snapshot = streams.snapshot(profile, tags_needed(scope))
        planned = plan_on(snapshot, streams.cluster(profile).log, stream, epoch, shapes, scope)
        return planned, leftovers(snapshot, stream, planned)

    if not consent.is_possible(cli):  # what cannot be planned is said first
        cli.output.say("\n".join(lines_of(plan_sections(*planned_topics()))))
    consent.require_possible(cli)  # the lease is taken before the question
    access = streams.claim(profile, command)
    planned, left = planned_topics()
    report = partial(created_report, command, stream, access.cluster_id, profile, planned, left)
    if consent.dry_run:
        return finish(cli, report(None))
    if not consent.yes:  # the report has the table, too
        cli.output.say("\n".join(lines_of(plan_sections(planned, left))))
    place = cluster_words(access.cluster_id, profile)
    if not consent.confirm(cli, f"Create {count_of(len(planned), 'topic')} for stream {stream} on {place}?"):
        return finish(cli, report(None))
    segments = create_topics(access.admin, access.clock, profile, access.cluster_id, planned)
    if rates := quotas_of(shapes):
        set_quotas(access, stream, rates)
    route = write(segments)
    return finish(cli, report(route))


def _reference(settings: Settings, name: str) -> SecretReference:
    """Where a secret comes from, by the one way that the settings have."""
    from kafkakit.streams.routes.report import SecretReference, SecretWay

    for way in (SecretWay.FILE, SecretWay.ENV):
        entry = settings.entries.get(f"{name}_{way}")
        if entry is not None:
            return SecretReference(way=way, place=str(entry.value))
    others = (name, f"{name}_credential", f"{name}_prompt")
    entry = next(settings.entries[key] for key in others if key in settings.entries)
    return SecretReference(way=SecretWay.OTHER, place=entry.origin)
