"""Topics of streams on a live cluster: planned, created and verified one after the other, and adopted."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.model.route import Route, Segment, SegmentState, topic_name
from kafkakit.streams.routes.act.clusters import find_topics
from kafkakit.streams.routes.decide.new_topics import LaneShape, PlacementScope, PlannedTopic, plan_topics

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
        made.append((each.shape.lane, _verified(admin, clock, cluster, cluster_id, each)))
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
        for lane, other in route.segments():
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


def _verified(admin: ClusterAdmin, clock: Clock, cluster: str, cluster_id: str, planned: PlannedTopic) -> Segment:
    end = clock.monotonic() + VISIBLE_WITHIN_S
    while True:
        problem, segment = _look(admin, cluster, cluster_id, planned)
        if segment is not None:
            return segment
        if clock.monotonic() >= end:
            raise OperationFailedError(
                f"topic {planned.topic} {problem} after {VISIBLE_WITHIN_S:.0f} s; the route is not written",
                hint="the same command continues",
            )
        clock.sleep(POLL_S)


def _look(admin: ClusterAdmin, cluster: str, cluster_id: str, planned: PlannedTopic) -> tuple[str, Segment | None]:
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
