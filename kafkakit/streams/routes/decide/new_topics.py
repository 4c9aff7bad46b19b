"""The topics of new lanes: their shapes, where their replicas go, and whether a topic that is there can be adopted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.durations import parse_duration
from kafkakit.core.errors import RefusedError, UsageError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.quantities import parse_rate
from kafkakit.streams.model.route import topic_name
from kafkakit.streams.routes.decide.observed import Spans
from kafkakit.topicmappr.api import NO_CONSTRAINTS, PlaceRequest, TagConstraints, answered, decide_place

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
    constraints: TagConstraints = NO_CONSTRAINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """The topic of a new lane; `lists` are its replica lists, empty where an empty topic like it is there already."""

    shape: LaneShape
    topic: str
    replication: int
    lists: tuple[tuple[int, ...], ...] = ()

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
    for lane, key, value in (found for text in configs for found in _setting(text, lanes)):
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
                    hint="delete it, or make it a part of the stream with kafkakit streams link",
                )
            planned.append(wanted)
            continue
        request = PlaceRequest(
            topic=name,
            partitions=shape.partitions,
            replication=replication,
            brokers=scope.brokers,
            constraints=scope.constraints,
            min_rack_ids=racks if racks < replication else 0,
        )
        lists = decide_place(snapshot, answered(request, snapshot)).lists
        planned.append(replace(wanted, lists=lists))
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


def _setting(text: str, lanes: Sequence[str]) -> Iterator[tuple[str, str, str]]:
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
