"""The topics of new lanes, what is found behind a route, and the history of a stream.

New topics have a shape, and a place for their replicas; a topic that is there may be adopted. Behind a route are
clusters and topics, records, and the groups that read them.

The history has an entry for each change of the route, written before the route that it leads to. A process that ends
between the two leaves an entry whose epoch no route ever had; the next change takes a higher epoch. So an entry names
the epoch that it replaced, and the entries that came into effect are those on the way back from the route that is
there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from kafkakit.core.cluster_facts import CommittedOffset, GroupState, ItemError, LogSpan
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, RefusedError, UsageError
from kafkakit.core.lease import VALUE_LIMIT_BYTES
from kafkakit.core.model import ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.quantities import count_of, parse_duration, parse_rate
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import shell_command
from kafkakit.streams.model.route import Lane, Route, Segment, partitions_of, problem_of, topic_name

if TYPE_CHECKING:
    from kafkakit.topicmappr.api import TagConstraints

MOST_PARTITIONS = 10_000
USUAL_REPLICATION = 3
RETENTION = "retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShape:
    """What the topic of a lane is to be like; `configs` are sorted by key, `quota_bytes_per_s` is the lane's."""

    lane: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()
    quota_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScope:
    """How many replicas (None: 3, or one on each broker where there are fewer), and which brokers may hold them."""

    replication: int | None = None
    brokers: BrokerList | None = None
    constraints: "TagConstraints | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """The topic of a new lane; `lists` are its replica lists, empty where an empty topic like it is there already.

    `notes` are about the placement.
    """

    shape: LaneShape
    topic: str
    replication: int
    lists: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether the topic exists, and is adopted."""
        return not self.lists


def lane_values(text: str, lanes: Sequence[str], flag: str) -> dict[str, str]:
    """Read `VALUE`, `LANE=VALUE` or several with commas between; a bare one is for all lanes without one of their own.

    Lanes without any value are absent. Raises `UsageError` naming the flag.
    """
    common: str | None = None
    own: dict[str, str] = {}
    for part in (piece.strip() for piece in text.split(",") if piece.strip()):
        lane, equals, value = part.partition("=")
        if not equals:
            if common is not None:
                raise UsageError(f"{flag}: {common!r:.40} and {part!r:.40} are both for all lanes")
            common = part
        elif lane not in lanes:
            raise UsageError(f"{flag}: there is no lane {lane!r:.40}", hint=f"the lanes are {', '.join(lanes)}")
        elif lane in own:
            raise UsageError(f"{flag}: lane {lane} is there twice")
        else:
            own[lane] = value
    values = {lane: own.get(lane, common) for lane in lanes}
    return {lane: value for lane, value in values.items() if value is not None}


def lane_shapes(
    lanes: Sequence[str], partitions: str, retention: str, configs: Sequence[str], quota: str = ""
) -> tuple[LaneShape, ...]:
    """The shapes of lanes from the texts of options; `configs` are `KEY=VALUE` or `LANE:KEY=VALUE`."""
    counts, times = lane_values(partitions, lanes, "--partitions"), lane_values(retention, lanes, "--retention")
    settings: dict[str, dict[str, str]] = {lane: {} for lane in lanes}
    for lane, text in times.items():
        settings[lane][RETENTION] = "-1" if text == "-1" else str(round(parse_duration(text, "--retention") * 1000))
    for lane, key, value in (found for text in configs for found in _read_setting(text, lanes)):
        if settings[lane].setdefault(key, value) != value:
            raise UsageError(f"lane {lane} gets two values of {key}: {settings[lane][key]!r:.40} and {value!r:.40}")
    for lane in lanes:
        if lane not in counts:
            raise UsageError(f"--partitions says nothing of lane {lane}", hint="--partitions 12,dlq=3")
    rates = {lane: parse_rate(text) for lane, text in lane_values(quota, lanes, "--quota").items()}
    return tuple(
        LaneShape(
            lane=lane,
            partitions=_count(counts[lane]),
            configs=tuple(sorted(settings[lane].items())),
            quota_bytes_per_s=rates.get(lane),
        )
        for lane in lanes
    )


def quotas_of(shapes: Sequence[LaneShape]) -> dict[str, int | None]:
    """The quotas by lane, of lanes that have one."""
    return {shape.lane: shape.quota_bytes_per_s for shape in shapes if shape.quota_bytes_per_s is not None}


Spans: TypeAlias = Mapping[TopicPartition, LogSpan | ItemError]


def plan_topics(
    snapshot: ClusterSnapshot,
    stream: str,
    epoch: int,
    shapes: Sequence[LaneShape],
    scope: PlacementScope,
    spans: Spans,
) -> tuple[PlannedTopic, ...]:
    """Place the topics of new lanes, each on what the cluster holds with those before it.

    `spans` are the logs of the topics of these names that are there. Raises `RefusedError` for a topic that is there
    and cannot be adopted, `InfeasibleError` where a partition finds too few brokers.
    """
    from kafkakit.placement.problem import rackless_note
    from kafkakit.topicmappr.api import NO_CONSTRAINTS, PlaceRequest, decide_place, resolve_queries

    planned: list[PlannedTopic] = []
    takers = [broker for broker in snapshot.brokers if broker.is_alive and broker.id not in snapshot.leaving]
    replication = scope.replication or min(USUAL_REPLICATION, len(takers))
    # Racks repeat where there are too few, as Kafka does it; a broker without a rack is one of its own.
    racks = len({broker.rack or broker.id for broker in takers})
    known = {topic.name: topic for topic in snapshot.topics}
    for shape in shapes:
        name = topic_name(stream, shape.lane, epoch)
        wanted = PlannedTopic(shape=shape, topic=name, replication=replication)
        if name in known:
            problem = "; ".join(adoption_problems(known[name], wanted, spans))
            if problem:
                raise RefusedError(
                    f"topic {name} exists already, and {problem}",
                    hint="delete it, or make it a part of the stream: "
                    f"{shell_command('streams link', stream, lane=shape.lane, topic=name)}",
                )
            planned.append(wanted)
            continue
        request = PlaceRequest(
            topic=name,
            partitions=shape.partitions,
            replication=replication,
            brokers=scope.brokers,
            constraints=scope.constraints or NO_CONSTRAINTS,
            min_rack_ids=racks if racks < replication else 0,
        )
        lists = decide_place(snapshot, resolve_queries(request, snapshot)).lists
        notes = rackless_note({b for row in lists for b in row}, {b.id: b.rack for b in snapshot.brokers})
        planned.append(replace(wanted, lists=lists, notes=notes))
        partitions = tuple(Partition(partition=n, replicas=row) for n, row in enumerate(lists))
        snapshot = replace(snapshot, topics=(*snapshot.topics, Topic(name=name, partitions=partitions)))
    return tuple(planned)


def leftovers(snapshot: ClusterSnapshot, stream: str, planned: Sequence[PlannedTopic]) -> tuple[str, ...]:
    """Topics with the names of other epochs of these lanes, which an earlier run may have left."""
    names = {each.topic for each in planned}
    stems = tuple(topic_name(stream, each.shape.lane, 0)[:-1] for each in planned)
    return tuple(
        topic.name
        for topic in snapshot.topics
        if topic.name not in names and any(topic.name.startswith(s) and topic.name[len(s) :].isdigit() for s in stems)
    )


def adoption_problems(topic: Topic, wanted: PlannedTopic, spans: Spans) -> Iterator[str]:
    """Why a topic that is there cannot stand for the one that is wanted; nothing for an empty one like it."""
    if len(topic.partitions) != wanted.shape.partitions:
        yield f"has {len(topic.partitions)} partitions instead of {wanted.shape.partitions}"
    factors = {len(partition.replicas) for partition in topic.partitions}
    if factors != {wanted.replication}:
        yield f"has {', '.join(map(str, sorted(factors)))} replicas instead of {wanted.replication}"
    if dict(topic.configs) != dict(wanted.shape.configs):
        yield "has other configurations"
    ends = [spans.get(TopicPartition(topic.name, p.partition)) for p in topic.partitions]
    if not all(isinstance(span, LogSpan) for span in ends):
        yield "its log cannot be read"
    elif any(isinstance(span, LogSpan) and span.end > 0 for span in ends):
        yield "is not empty"


def _read_setting(text: str, lanes: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    left, equals, value = text.partition("=")
    lane, colon, key = left.rpartition(":")
    if not equals or not key.strip() or (colon and lane not in lanes):
        raise UsageError(f"--topics-config: {text!r:.60} is not KEY=VALUE or LANE:KEY=VALUE")
    for each in (lane,) if colon else lanes:
        yield each, key.strip(), value.strip()


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_PARTITIONS):
        raise UsageError(f"--partitions: {text!r:.40} is not between 1 and {MOST_PARTITIONS}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """A segment's topic as it is found.

    `problem` says why it is not what the route names; `records` counts offsets between the ends of its logs, None
    where they are not known.
    """

    problem: str = ""
    records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingGroup:
    """A group that holds partitions of a segment or committed for them; `unread` is None where it is not known."""

    segment: int
    group: str
    state: GroupState
    members: int
    unread: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """What is found behind a route: facts by segment id, and readers sorted by segment and group.

    `unknown` says, for each cluster whose groups could not be read, why.
    """

    segments: Mapping[int, SegmentFacts]
    readers: tuple[ReadingGroup, ...] = ()
    unknown: tuple[str, ...] = ()

    def readers_of(self, segment: Segment) -> tuple[ReadingGroup, ...]:
        """The groups that read a segment."""
        return tuple(reader for reader in self.readers if reader.segment == segment.id)


def records_in(segment: Segment, spans: Spans) -> int | None:
    """How many offsets the logs of a segment hold; None where one is not known."""
    found = [spans.get(key) for key in partitions_of(segment)]
    known = [span.end - span.start for span in found if isinstance(span, LogSpan)]
    return sum(known) if len(known) == len(found) else None


def unread_by(
    segment: Segment, spans: Spans, committed: Mapping[TopicPartition, CommittedOffset | ItemError]
) -> int | None:
    """How many offsets of a segment a group has not committed yet; None where a log or a commit is not known.

    Of a partition without a commit everything counts as unread.
    """
    total = 0
    for key in partitions_of(segment):
        span, commit = spans.get(key), committed.get(key)
        if not isinstance(span, LogSpan) or isinstance(commit, ItemError):
            return None
        total += max(0, span.end - (span.start if commit is None else max(span.start, commit.offset)))
    return total


def unread_reasons(route: Route, lane: Lane, facts: RouteFacts) -> Iterator[str]:
    """Why a lane may hold records that are still to be read; nothing where every reader of the stream has read it.

    Readers are the groups that read any segment of the stream, and those that the route requires. A segment that is
    not there any more holds nothing; one that cannot be looked at may.
    """
    groups = {reader.group for reader in facts.readers} | {rule.name for rule in route.groups}
    yield from facts.unknown
    for segment in lane.segments:
        found = facts.segments[segment.id]
        if found.records is None and found.problem:
            yield f"{segment.topic}: {found.problem}"
        elif found.records is None:
            yield f"{segment.topic}: its logs could not be read"
        elif found.records:
            unread = {reader.group: reader.unread for reader in facts.readers_of(segment)}
            if not groups:
                yield f"{segment.topic}: {count_of(found.records, 'record')}, and no group reads the stream"
            for group in sorted(groups):
                count = unread.get(group, found.records)
                if count is None or count:
                    left = "all records" if count is None else count_of(count, "record")
                    yield f"{segment.topic}: group {group} has not read {left}"


def reading_groups(route: Route, facts: RouteFacts) -> Iterator[str]:
    """The groups that keep a stream's topics from being deleted, in words, one a line."""
    yield from facts.unknown
    topics = {segment.id: segment.topic for _, segment in route.segments()}
    for reader in facts.readers:
        members = count_of(reader.members, "member") if reader.members else "committed for it"
        yield f"{topics[reader.segment]}: group {reader.group} ({members})"


CHANGE_KIND = "stream-route-change"
BY_LIMIT, WHAT_LIMIT = 200, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """One entry of a stream's history: the route after a change, who made it, when and why.

    `from_epoch` is the epoch that was replaced, 0 for a new stream. With `is_deletion` there is no route afterwards,
    and `route` is the last one under the epoch of the deletion.
    """

    at_ms: int
    by: str
    what: str
    route: Route
    from_epoch: int = 0
    is_deletion: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChange:
    """An entry of a history; one that is not `in_effect` was cut before its route was written, or is being written."""

    change: RouteChange
    in_effect: bool


def encode_change(change: RouteChange) -> bytes:
    """The document of an entry; raises `UsageError` for a route that is not valid, or too large to be kept."""
    problem = problem_of(change.route)
    if problem:
        raise UsageError(f"stream {change.route.stream}: {problem}")
    data = encode_document(CHANGE_KIND, change)
    if len(data) > VALUE_LIMIT_BYTES:
        raise UsageError(
            f"stream {change.route.stream}: the entry of its history has {len(data):,} bytes, "
            f"at most {VALUE_LIMIT_BYTES:,}"
        )
    return data


def decode_change(data: bytes, source: str) -> RouteChange:
    """The entry in a document; `InputError` where it is another one, or not valid."""
    change = decode_document(data, CHANGE_KIND, RouteChange, source)
    problem = problem_of(change.route)
    if problem:
        raise InputError(source, problem)
    return change


def in_effect(changes: Iterable[RouteChange], epoch: int | None) -> frozenset[int]:
    """The epochs that came into effect, of a route that has `epoch` now; None: the stream is deleted.

    Entries that are not among them never came, or are being written at this moment.
    """
    known = {change.route.epoch: change for change in changes}
    deletions = sorted(e for e, change in known.items() if change.is_deletion)
    at = epoch if epoch is not None else max(deletions, default=0)
    came: set[int] = set()
    while at in known and at not in came:
        came.add(at)
        earlier = known[at].from_epoch
        at = earlier if earlier else max((e for e in deletions if e < at), default=0)
    return frozenset(came)
