"""The clusters of a stream as its commands reach them, and what is found there of a route."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeAlias

from kafkakit.core.errors import KafkakitError
from kafkakit.core.group_facts import GroupDescription, GroupListing, GroupType
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.streams.routes.decide.observed import (
    FoundTopic,
    RouteFacts,
    SegmentFacts,
    SegmentReader,
    partitions_of,
    records_in,
    segment_problem,
    unread_by,
)
from kafkakit.streams.routes.decide.route import Route, Segment


class StreamCluster(Protocol):
    """The clients of one cluster; each is opened on first use."""

    @property
    def admin(self) -> ClusterAdmin:
        """The control side of the cluster."""
        ...

    @property
    def groups(self) -> GroupAdmin:
        """Its consumer groups."""
        ...

    @property
    def log(self) -> LogReader:
        """Its logs."""
        ...


OpenCluster: TypeAlias = Callable[[str], StreamCluster]
"""The cluster of a profile, `UsageError` for a profile that is not configured; the same one for the same name."""


class ClusterObserver:
    """Looks at what routes name; keeps the groups of each cluster, which are read once.

    A route costs three requests to each of its clusters and three to each leader, and readers one request to each
    coordinator and one for each group of the cluster. A cluster that is not reached is a fact, and no error.
    """

    def __init__(self, open_cluster: OpenCluster) -> None:
        self._open = open_cluster
        self._listed: dict[str, tuple[GroupListing, ...]] = {}

    def look_at(self, routes: Iterable[Route]) -> tuple[tuple[Route, RouteFacts], ...]:
        """Several routes, each with what is behind it and its readers."""
        return tuple((route, self.look(route, readers=True)) for route in routes)

    def look(self, route: Route, *, readers: bool) -> RouteFacts:
        """What is found behind a route; its readers where they are wanted."""
        facts: dict[int, SegmentFacts] = {}
        found: list[SegmentReader] = []
        unknown: list[str] = []
        for profile in sorted({segment.cluster for _, segment in route.segments()}):
            segments = [segment for _, segment in route.segments() if segment.cluster == profile]
            try:
                sound = self._facts(profile, segments, facts)
                if readers and sound:
                    found += self._readers(profile, sound)
            except KafkakitError as error:
                unknown.append(f"profile {profile}: {error.message}")
                for segment in segments:
                    facts.setdefault(segment.id, SegmentFacts(problem=error.message))
        found.sort(key=lambda reader: (reader.segment, reader.group))
        return RouteFacts(segments=facts, readers=tuple(found), unknown=tuple(unknown))

    def _facts(
        self, profile: str, segments: Collection[Segment], facts: dict[int, SegmentFacts]
    ) -> tuple[Segment, ...]:
        """Adds facts of segments; returns those whose topic is what the route names."""
        cluster = self._open(profile)
        cluster_id = cluster.admin.cluster().cluster_id
        topics = find_topics(cluster.admin, {segment.topic for segment in segments})
        problems = {s.id: segment_problem(s, cluster_id, topics.get(s.topic)) for s in segments}
        sound = tuple(segment for segment in segments if not problems[segment.id])
        spans = cluster.log.spans([key for segment in sound for key in partitions_of(segment)]) if sound else {}
        for segment in segments:
            problem = problems[segment.id]
            records = None if problem else records_in(segment, spans)
            gone = problem == "the topic does not exist"
            facts[segment.id] = SegmentFacts(problem=problem, records=0 if gone else records)
        return sound

    def _readers(self, profile: str, segments: Collection[Segment]) -> Iterable[SegmentReader]:
        cluster = self._open(profile)
        if profile not in self._listed:
            self._listed[profile] = cluster.groups.groups()
        places = {segment.id: frozenset(partitions_of(segment)) for segment in segments}
        wanted = sorted(frozenset().union(*places.values()))
        spans = cluster.log.spans(wanted)
        listed = [one for one in self._listed[profile] if one.type is not GroupType.SHARE]
        described = cluster.groups.describe([one.group for one in listed])
        for one in listed:
            committed = cluster.groups.committed(one.group, wanted)
            about = described.get(one.group)
            members = about.members if isinstance(about, GroupDescription) else ()
            for segment in segments:
                keys = places[segment.id]
                holding = sum(not keys.isdisjoint(member.partitions) for member in members)
                own = {key: commit for key, commit in committed.items() if key in keys}
                if own or holding:
                    yield SegmentReader(
                        segment=segment.id,
                        group=one.group,
                        state=one.state,
                        members=holding,
                        unread=unread_by(segment, spans, own),
                    )


def find_topics(admin: ClusterAdmin, names: Collection[str]) -> dict[str, FoundTopic]:
    """Ids and sizes of the topics that exist."""
    found: dict[str, FoundTopic] = {}
    for key, state in admin.partition_states(names).items():
        count = found[key.topic].partitions if key.topic in found else 0
        found[key.topic] = FoundTopic(topic_id=state.topic_id, partitions=count + 1)
    return found
