"""Streams on live clusters: what is found there of a route, topics, quotas, addresses, and pathways.

Topics are planned, created and verified one after the other, or adopted; they are deleted by id, once no group reads
them. Quotas of lanes are client quotas on the client id that the lane's producers have. Addresses of a stream's
clusters are checked against the ids that its route names.

The newest records of topics are read for their pathways. This writes nothing and joins no group. Cost: that of
`streams records`, up to 10,000 records or 64 MiB of one partition at a time; 50,000 small records take a second of
CPU.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeAlias

from kafkakit.core.cluster_facts import (
    PRODUCER_BYTE_RATE,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupType,
    ItemError,
    LogSpan,
    QuotaEntity,
    ResourceKind,
    ShareOffset,
)
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.quantities import count_of, epoch_ms
from kafkakit.core.rights import lacking_rights
from kafkakit.core.text import sanitize
from kafkakit.execution.act.leases import ClusterAccess
from kafkakit.ports.acting import Clock, looks, wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import ClusterClients, GroupAdmin, LogReader
from kafkakit.streams.model.route import (
    GONE,
    FoundTopic,
    Lane,
    Route,
    Segment,
    SegmentState,
    lane_client_id,
    partitions_of,
    segment_problem,
    topic_name,
)
from kafkakit.streams.records.api_act import RecordReader
from kafkakit.streams.routes.decide import (
    LaneShape,
    PlacementScope,
    PlannedTopic,
    ReadingGroup,
    RouteFacts,
    SegmentFacts,
    Spans,
    plan_topics,
    reading_groups,
    records_in,
    unread_by,
    unread_reasons,
)
from kafkakit.streams.routes.pathways import (
    PathwaySample,
    SampleRequest,
    SeenEdges,
    SeenStream,
    TopicSample,
    first_offset,
    seen_edges,
)
from kafkakit.streams.routes.report import ResolvedCluster

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
        found: list[ReadingGroup] = []
        unknown: list[str] = []
        for profile in sorted({segment.cluster for _, segment in route.segments()}):
            segments = [segment for _, segment in route.segments() if segment.cluster == profile]
            try:
                info = self._open(profile).admin.cluster()
                sound, spans = self._look(profile, info.cluster_id, segments, facts)
                if sound:
                    found += self._readers(profile, sound, spans)
                if lacking_rights({"describe"}, info.operations):
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

    def _readers(self, profile: str, segments: Collection[Segment], spans: Spans) -> Iterator[ReadingGroup]:
        if profile not in self._groups:
            self._groups[profile] = tuple(_read_groups(self._open(profile).groups))
        for segment in segments:
            keys = frozenset(partitions_of(segment))
            for group in self._groups[profile]:
                members = sum(not keys.isdisjoint(member.partitions) for member in group.members)
                if members or not keys.isdisjoint(group.commits):
                    yield ReadingGroup(
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


VISIBLE_WITHIN_S = 30.0
POLL_S = 0.2
OF_CLUSTER = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Settings of a topic that belong to its cluster, and are not carried to another one."""
ALREADY_THERE = "TopicAlreadyExistsError"


def plan_on(
    snapshot: ClusterSnapshot,
    log: LogReader,
    stream: str,
    epoch: int,
    shapes: Sequence[LaneShape],
    scope: PlacementScope,
) -> tuple[PlannedTopic, ...]:
    """Plan the topics of new lanes; reads the ends of those logs that exist already."""
    names = {topic_name(stream, shape.lane, epoch) for shape in shapes}
    keys = [TopicPartition(t.name, p.partition) for t in snapshot.topics if t.name in names for p in t.partitions]
    return plan_topics(snapshot, stream, epoch, shapes, scope, log.spans(keys) if keys else {})


def create_topics(
    admin: ClusterAdmin, clock: Clock, cluster: str, cluster_id: str, planned: Sequence[PlannedTopic]
) -> tuple[tuple[str, Segment], ...]:
    """Create each planned topic unless it is there, wait until it can be seen as planned, and return the segments.

    A process that ends between two topics leaves empty ones, which the same command adopts. Raises
    `OperationFailedError` for what the cluster refuses, and for a topic that does not come as planned in 30 s.
    """
    made = []
    for each in planned:
        if not each.is_there:
            _create(admin, each)
        made.append((each.shape.lane, _verify_topic(admin, clock, cluster, cluster_id, each)))
    return tuple(made)


def existing_topic(admin: ClusterAdmin, cluster: str, cluster_id: str, topic: str) -> Segment:
    """A topic that is there as a segment without an id; `UsageError` where there is none, or one of Kafka's own."""
    if topic.startswith("__"):
        raise UsageError(f"topic {topic[:80]} is one of Kafka's own")
    found = find_topics(admin, (topic,)).get(topic)
    if found is None:
        raise UsageError(f"there is no topic {topic[:80]} in cluster {cluster_id}")
    if found.topic_id is None:
        raise RefusedError(f"cluster {cluster_id} gives topics no ids", hint="they came with Kafka 2.8")
    settings = own_settings(admin.dynamic_configs(ResourceKind.TOPIC, (topic,)).get(topic, {}))
    return _segment(cluster, cluster_id, topic, found.topic_id, found.partitions, settings)


def own_settings(configs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Settings of a topic that can be carried to another cluster, sorted by key."""
    return tuple(sorted((key, value) for key, value in configs.items() if key not in OF_CLUSTER))


def refuse_shared(segment: Segment, routes: Collection[Route]) -> None:
    """Raise `RefusedError` where the topic belongs to a stream already."""
    for route in routes:
        for lane, other in (*route.segments(), *route.left()):
            if (other.cluster_id, other.topic_id) == (segment.cluster_id, segment.topic_id):
                raise RefusedError(f"topic {segment.topic} is in lane {lane.name} of stream {route.stream} already")


def _create(admin: ClusterAdmin, planned: PlannedTopic) -> None:
    """Create a topic; one whose answer was lost may be there all the same, which a second request finds out.

    Raises `TryLaterError` where the second answer is lost, too.
    """
    replicas, configs = dict(enumerate(planned.lists)), dict(planned.shape.configs)
    try:
        error = admin.create_topic(planned.topic, replicas, configs)
    except TryLaterError:
        error = admin.create_topic(planned.topic, replicas, configs)
        if error is not None and error.name == ALREADY_THERE:
            return  # the verification tells whether it is the planned one
    if error is not None:
        raise OperationFailedError(f"topic {planned.topic} is not created: {error}")


def _verify_topic(admin: ClusterAdmin, clock: Clock, cluster: str, cluster_id: str, planned: PlannedTopic) -> Segment:

    problem = ""
    for _ in looks(clock, VISIBLE_WITHIN_S, POLL_S):
        problem, segment = _read_topic(admin, cluster, cluster_id, planned)
        if segment is not None:
            return segment
    raise OperationFailedError(
        f"topic {planned.topic} {problem} after {VISIBLE_WITHIN_S:.0f} s; the route is not written",
        hint="the same command continues",
    )


def _read_topic(
    admin: ClusterAdmin, cluster: str, cluster_id: str, planned: PlannedTopic
) -> tuple[str, Segment | None]:
    """The topic as a segment, or what it lacks; brokers learn of a new topic one after the other."""
    found = find_topics(admin, (planned.topic,)).get(planned.topic)
    if found is None:
        return "cannot be seen", None
    if found.topic_id is None:
        raise RefusedError(f"cluster {cluster_id} gives topics no ids", hint="they came with Kafka 2.8")
    if found.partitions != planned.shape.partitions:
        return f"has {found.partitions} partitions instead of {planned.shape.partitions}", None
    configs = admin.dynamic_configs(ResourceKind.TOPIC, (planned.topic,)).get(planned.topic)
    if configs != dict(planned.shape.configs):
        return "has other configurations than planned", None
    settings = planned.shape.configs
    return "", _segment(cluster, cluster_id, planned.topic, found.topic_id, found.partitions, settings)


def _segment(
    cluster: str, cluster_id: str, topic: str, topic_id: str, partitions: int, settings: tuple[tuple[str, str], ...]
) -> Segment:
    return Segment(
        id=0,
        cluster=cluster,
        cluster_id=cluster_id,
        topic=topic,
        topic_id=topic_id,
        partitions=partitions,
        state=SegmentState.ACTIVE,
        settings=settings,
    )


OpenAdmin: TypeAlias = Callable[[str], ClusterAdmin]
"""The control side of the cluster of a profile, with the right to change it."""
Results: TypeAlias = tuple[tuple[Segment, str], ...]
"""What becomes of each topic, in words."""
MOST_LINES = 50


def refuse_read(route: Route, observer: ClusterObserver) -> None:
    """Raise `RefusedError` that lists the groups which read a stream, or the clusters whose groups are not known."""
    _refuse(
        f"stream {route.stream} is read",
        reading_groups(route, observer.look(route)),
        "stop the groups and delete their commits (kafkakit streams commits delete GROUP), or pass --force",
    )


def refuse_unread(route: Route, lane: str, observer: ClusterObserver) -> None:
    """Raise `RefusedError` where a lane may hold records that a reader of the stream has not read."""
    found = route.lane(lane)
    if found is not None:
        reasons = unread_reasons(route, found, observer.look(route))
        _refuse(f"lane {lane} may hold unread records", reasons, "wait until they are read, or pass --force")


def kept_topics(route: Route, result: str) -> Results:
    """One result for every topic of a stream."""
    return tuple((segment, result) for _, segment in (*route.segments(), *route.left()))


def delete_topics(open_admin: OpenAdmin, route: Route) -> Results:
    """Delete the topics of a route, each if it has its segment's id, with what came of each."""
    segments = (segment for _, segment in (*route.segments(), *route.left()))
    return tuple((segment, _delete(open_admin(segment.cluster), segment)) for segment in segments)


def _delete(admin: ClusterAdmin, segment: Segment) -> str:
    """Delete the topic of a segment, if it has the segment's id; returns what came of it, in words.

    Kafka deletes by name: a topic that is created again between the look and the request would be deleted.
    """
    live = admin.cluster().cluster_id
    if live != segment.cluster_id:
        return f"kept: profile {segment.cluster} reaches cluster {live}"
    found = find_topics(admin, (segment.topic,)).get(segment.topic)
    if found is None:
        return "does not exist"
    if found.topic_id != segment.topic_id:
        return "kept: it was created again, under another id"
    error = admin.delete_topic(segment.topic)
    if error is not None:
        raise OperationFailedError(f"topic {segment.topic} is not deleted: {error}")
    return "deleted"


def _refuse(what: str, reasons: Iterable[str], hint: str) -> None:
    lines = tuple(reasons)
    if lines:
        error = RefusedError(f"{what}: {count_of(len(lines), 'reason')} above", hint=hint)
        error.lines = lines[:MOST_LINES]
        raise error


Claim: TypeAlias = Callable[[str], ClusterAccess]
"""The right to change the cluster of a profile."""


def set_quotas(access: ClusterAccess, stream: str, rates: Mapping[str, int | None]) -> None:
    """Set the quota of each lane in bytes/s a broker, None removes it, and wait until it can be read.

    Raises as `limit_producers` does.
    """
    limit_producers(access, {lane_client_id(stream, lane): rate for lane, rate in rates.items()}, f"stream {stream}")


def limit_producers(access: ClusterAccess, rates: Mapping[str, int | None], owner: str) -> None:
    """Set the quota of each client id in bytes/s a broker, None removes it, and wait until it can be read.

    Quotas of other keys on the same client ids stay. Raises `TryLaterError` for what the cluster refuses for the
    moment, `OperationFailedError` for what it refuses, and for a quota that is not seen within 30 s.
    """
    wanted = {QuotaEntity(client_id=client_id): rate for client_id, rate in rates.items()}
    answers = access.admin.alter_client_quotas({entity: {PRODUCER_BYTE_RATE: rate} for entity, rate in wanted.items()})
    for entity, error in answers.items():
        if error is not None:
            words = f"the quota of {entity} is not changed: {error}"
            raise (TryLaterError if error.retriable else OperationFailedError)(words)

    def are_seen() -> bool:
        found = access.admin.describe_client_quotas()
        return all(found.get(entity, {}).get(PRODUCER_BYTE_RATE) == rate for entity, rate in wanted.items())

    if not wait_until(access.clock, VISIBLE_WITHIN_S, are_seen, POLL_S):
        raise OperationFailedError(f"the quotas of {owner} cannot be seen after {VISIBLE_WITHIN_S:.0f} s")


def limit_lane(claim: Claim, stream: str, lane: Lane, rate: int | None) -> None:
    """Set, or with None remove, the quota of a lane on every cluster that has a segment of it."""
    for profile, cluster_id in _clusters(lane):
        access = claim(profile)
        if access.cluster_id != cluster_id:
            raise RefusedError(f"profile {profile} reaches cluster {access.cluster_id}, not {cluster_id}")
        set_quotas(access, stream, {lane.name: rate})


def remove_quotas(claim: Claim, stream: str, lanes: tuple[Lane, ...]) -> Iterator[str]:
    """Remove the quotas of lanes that a route does not name any more; yields where one stays, and why."""
    for lane in lanes:
        if lane.quota_bytes_per_s is not None:
            try:
                limit_lane(claim, stream, lane, None)
            except KafkakitError as error:
                yield f"the quota of client id {lane_client_id(stream, lane.name)} stays: {error.message}"


def _clusters(lane: Lane) -> list[tuple[str, str]]:
    return sorted({(segment.cluster, segment.cluster_id) for segment in lane.segments})


class ClusterAddress(NamedTuple):
    """How a profile reaches its cluster; `read_id` connects."""

    bootstrap_servers: str
    security_protocol: str
    read_id: Callable[[], str]


def resolve_clusters(
    lanes: Sequence[Lane], address_of: Callable[[str], ClusterAddress]
) -> tuple[tuple[ResolvedCluster, ...], tuple[str, ...]]:
    """The clusters of lanes by profile, and warnings of those that do not answer.

    Raises `RefusedError` for a profile that reaches another cluster than the route names: clients would, too.
    """
    found: list[ResolvedCluster] = []
    warnings: list[str] = []
    for name, cluster_id in sorted({(s.cluster, s.cluster_id) for lane in lanes for s in lane.segments}):
        address = address_of(name)
        try:
            live: str | None = address.read_id()
        except TryLaterError as error:
            live = None
            warnings.append(f"the address of {name} is not checked: {error.message}")
        if live not in (None, cluster_id):
            raise RefusedError(
                f"profile {name} reaches cluster {live}, and the stream is on cluster {cluster_id}",
                hint="correct the profile's bootstrap_server",
            )
        found.append(
            ResolvedCluster(
                name=name,
                cluster_id=cluster_id,
                bootstrap_servers=address.bootstrap_servers,
                security_protocol=address.security_protocol,
                is_checked=live is not None,
            )
        )
    return tuple(found), tuple(warnings)


class PathwayObserver:
    """Reads the newest records of streams' topics; `problems` are the topics that could not be read, and why."""

    def __init__(self, open_cluster: OpenCluster, clock: Clock, *, records: int, wait_s: float) -> None:
        self._open, self._clock, self._records, self._wait_s = open_cluster, clock, records, wait_s
        self.problems: list[str] = []

    def look(self, observed: Sequence[tuple[Route, RouteFacts]], services: Collection[str], env: str) -> SeenEdges:
        """The edges that the newest records of each topic prove."""
        return seen_edges([self._seen(route, facts) for route, facts in observed], services, env)

    def _seen(self, route: Route, facts: RouteFacts) -> SeenStream:
        hashes: Counter[int] = Counter()
        topics = []
        for _, segment in route.segments():
            topics.append((segment.cluster_id, segment.topic))
            if not facts.segments[segment.id].problem:
                hashes.update(self._hashes(segment.cluster, segment.topic))
        groups = dict.fromkeys(reader.group for reader in facts.readers)
        return SeenStream(name=route.stream, topics=tuple(topics), groups=tuple(groups), hashes=hashes)

    def _hashes(self, profile: str, topic: str) -> dict[int, int]:
        request = SampleRequest(topics=(topic,), records=self._records)
        try:
            cluster = self._open(profile)
            reader = RecordReader(cluster.log, cluster.data, self._clock, wait_s=self._wait_s)
            sample = read_pathways(cluster.log, reader, self._clock, request)
        except KafkakitError as error:
            self.problems.append(f"topic {topic}: {error.message}")
            return {}
        self.problems += [f"topic {topic}: {problem.message}" for problem in sample.problems]
        return {hash_: sums.pathway_s.count for found in sample.topics for hash_, sums in found.pathways.items()}


SLICE = 10_000
"""Each slice is parsed from the start of a fetch on, so short ones parse records again and again."""

MOST_PROBLEMS = 3
"""Reading stops after this many partitions that cannot be read: each may cost a time limit."""


def read_pathways(log: LogReader, reader: RecordReader, clock: Clock, request: SampleRequest) -> PathwaySample:
    """Sum up the pathways of the newest records of each topic, spread evenly over its partitions.

    Raises `UsageError` for a topic that does not exist. A partition that cannot be read is a problem of the sample.
    """
    places = log.places(request.topics)
    for topic in request.topics:
        if topic not in places:
            raise UsageError(f"topic {sanitize(topic)} does not exist")
    keys = {topic: [TopicPartition(topic, p) for p in sorted(places[topic].leaders)] for topic in request.topics}
    every = [key for topic in keys for key in keys[topic]]
    spans, since = log.spans(every), _offsets_since(log, clock, every, request)
    samples = {topic: TopicSample(topic) for topic in keys}
    problems: list[KafkakitError] = []
    for key in every:
        span, share = spans[key], -(-request.records // len(keys[key.topic]))
        try:
            if isinstance(span, ItemError):
                raise TryLaterError(f"the ends of {sanitize(str(key))} cannot be read: {span}")
            begin = first_offset(span, share, since.get(key), has_since=request.since_s is not None)
            _read(reader, key, begin, span, samples[key.topic], epoch_ms(clock.now()))
        except KafkakitError as error:
            problems.append(error)
            if len(problems) >= MOST_PROBLEMS:
                break
    return PathwaySample(topics=tuple(samples.values()), problems=tuple(problems))


def _offsets_since(
    log: LogReader, clock: Clock, keys: list[TopicPartition], request: SampleRequest
) -> dict[TopicPartition, int | ItemError | None]:
    if request.since_s is None:
        return {}
    at_ms = epoch_ms(clock.now() - timedelta(seconds=request.since_s))
    return dict(log.offsets_at(dict.fromkeys(keys, at_ms)))


def _read(
    reader: RecordReader, key: TopicPartition, begin: int, span: LogSpan, sample: TopicSample, now_ms: int
) -> None:
    at = begin
    while at < span.end:
        found = reader.read(key, at, min(SLICE, span.end - at))
        for entry in found.entries:
            sample.add(entry, now_ms)
        if not found.entries:
            return
        at = found.entries[-1].last + 1
