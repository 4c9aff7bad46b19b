"""The clusters of a stream as its commands reach them, and what is found there of a route."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError, OperationFailedError
from kafkakit.core.group_facts import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupType,
    ShareOffset,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.rights import lacking
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.ports.groups import GroupAdmin
from kafkakit.streams.model.route import GONE, FoundTopic, Route, Segment, partitions_of, segment_problem
from kafkakit.streams.routes.decide.observed import (
    RouteFacts,
    SegmentFacts,
    SegmentReader,
    Spans,
    records_in,
    unread_by,
)

OpenCluster: TypeAlias = Callable[[str], ClusterClients]
"""The cluster of a profile, `UsageError` for a profile that is not configured; the same one for the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group with its members and everything that it committed."""

    listing: GroupListing
    members: tuple[GroupMember, ...]
    commits: Mapping[TopicPartition, CommittedOffset | ItemError]


class ClusterObserver:
    """Looks at what routes name; keeps the groups of each cluster, which are read once.

    A route costs two requests to each of its clusters and three to each leader; readers cost one request to each
    coordinator and one for each group of the cluster, however many routes are looked at. A cluster that is not reached
    is a fact, and no error.
    """

    def __init__(self, open_cluster: OpenCluster) -> None:
        self._open = open_cluster
        self._groups: dict[str, tuple[_Group, ...]] = {}

    def look_at(self, routes: Iterable[Route]) -> tuple[tuple[Route, RouteFacts], ...]:
        """Several routes, each with what is behind it."""
        return tuple((route, self.look(route)) for route in routes)

    def look(self, route: Route) -> RouteFacts:
        """What is found behind a route, and the groups that read it."""
        facts: dict[int, SegmentFacts] = {}
        found: list[SegmentReader] = []
        unknown: list[str] = []
        for profile in sorted({segment.cluster for _, segment in route.segments()}):
            segments = [segment for _, segment in route.segments() if segment.cluster == profile]
            try:
                info = self._open(profile).admin.cluster()
                sound, spans = self._look(profile, info.cluster_id, segments, facts)
                if sound:
                    found += self._readers(profile, sound, spans)
                if lacking({"describe"}, info.operations):
                    # Brokers leave out groups that may not be seen, and do not say that there are any.
                    unknown.append(f"profile {profile}: no right to list all groups; grant DESCRIBE on the cluster")
            except KafkakitError as error:
                unknown.append(f"profile {profile}: {error.message}")
                for segment in segments:
                    facts.setdefault(segment.id, SegmentFacts(problem=error.message))
        found.sort(key=lambda reader: (reader.segment, reader.group))
        return RouteFacts(segments=facts, readers=tuple(found), unknown=tuple(unknown))

    def _look(
        self, profile: str, cluster_id: str, segments: Collection[Segment], facts: dict[int, SegmentFacts]
    ) -> tuple[tuple[Segment, ...], Spans]:
        """Adds facts of segments; returns those whose topic is what the route names, and their logs."""
        cluster = self._open(profile)
        topics = find_topics(cluster.admin, {segment.topic for segment in segments})
        problems = {s.id: segment_problem(s, cluster_id, topics.get(s.topic)) for s in segments}
        sound = tuple(segment for segment in segments if not problems[segment.id])
        spans = cluster.log.spans([key for segment in sound for key in partitions_of(segment)]) if sound else {}
        for segment in segments:
            is_gone = problems[segment.id] == GONE
            records = 0 if is_gone else records_in(segment, spans)
            facts[segment.id] = SegmentFacts(problem=problems[segment.id], records=records)
        return sound, spans

    def _readers(self, profile: str, segments: Collection[Segment], spans: Spans) -> Iterator[SegmentReader]:
        if profile not in self._groups:
            self._groups[profile] = tuple(_read_groups(self._open(profile).groups))
        for segment in segments:
            keys = frozenset(partitions_of(segment))
            for group in self._groups[profile]:
                members = sum(not keys.isdisjoint(member.partitions) for member in group.members)
                if members or not keys.isdisjoint(group.commits):
                    yield SegmentReader(
                        segment=segment.id,
                        group=group.listing.group,
                        state=group.listing.state,
                        members=members,
                        unread=unread_by(segment, spans, group.commits),
                    )


def _read_groups(groups: GroupAdmin) -> Iterator[_Group]:
    listed = groups.groups()
    described = groups.describe([one.group for one in listed])
    shares = groups.share_offsets([one.group for one in listed if one.type is GroupType.SHARE])
    for one in listed:
        about = described.get(one.group)
        if not isinstance(about, GroupDescription):
            # Whether it has members is not known, so nothing may be concluded from its commits alone.
            raise OperationFailedError(f"group {one.group} is not described: {about}")
        found = shares.get(one.group)
        if isinstance(found, ItemError):
            raise OperationFailedError(f"group {one.group} is not read: {found}")
        commits = groups.committed(one.group) if found is None else _done_by(found)
        yield _Group(listing=one, members=about.members, commits=commits)


def _done_by(offsets: Iterable[ShareOffset]) -> dict[TopicPartition, CommittedOffset | ItemError]:
    """Where a share group stands, as commits: what is done above is not known, and counts as unread."""
    return {each.place: CommittedOffset(offset=each.start or 0) for each in offsets}


def find_topics(admin: ClusterAdmin, names: Collection[str]) -> dict[str, FoundTopic]:
    """Ids and sizes of the topics that exist."""
    found: dict[str, FoundTopic] = {}
    for key, state in admin.partition_states(names).items():
        count = found[key.topic].partitions if key.topic in found else 0
        found[key.topic] = FoundTopic(topic_id=state.topic_id, partitions=count + 1)
    return found
