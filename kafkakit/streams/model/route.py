"""The route of a stream: which topics on which clusters carry each of its lanes, and who must read them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kafkakit.core.model import TopicPartition

LIVE, SLOW, RETRY, DLQ = "live", "slow", "retry", "dlq"
DEFAULT_LANES = (LIVE, SLOW, RETRY, DLQ)
GONE = "the topic does not exist"


class SegmentState(StrEnum):
    """What clients do with a segment; consumers read every segment of a route, whatever its state.

    OPENED is read and not written yet, ACTIVE takes the lane's writes, DRAINING takes none, STRANDED is DRAINING and
    its cluster could not be reached.
    """

    OPENED = "opened"
    ACTIVE = "active"
    DRAINING = "draining"
    STRANDED = "stranded"


class PartitionSeal(NamedTuple):
    """Where a partition ends that is written no more: its high watermark, its last stable offset, and the offset after
    its last record of data. Four numbers in a document, as a route may seal hundreds of partitions."""

    partition: int
    end: int
    stable_end: int
    effective_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One topic of a lane. `id` is unique in the stream and never used again.

    `cluster` is the profile that clients reach the cluster with; what identifies the topic is `cluster_id` and
    `topic_id`, never an address or a name. `seal` has an entry for each partition, in order, once it is certain that
    the segment is written no more; the ends were read at `sealed_at_ms`. `settings` are the topic's own as the route
    learned of it, sorted by key: an emergency takes them for the next topic, without a look at this one.
    One that `is_held` is not read while its lane has a segment before it, so that what was written earlier is handled
    earlier.
    """

    id: int
    cluster: str
    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    state: SegmentState
    seal: tuple[PartitionSeal, ...] = ()
    sealed_at_ms: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of a stream with topics of its own; segments are in the order in which they became active.

    `weight` is the lane's share of a consumer's work beside the others'. Producers of a paused lane wait, its consumers
    read nothing. `quota_bytes_per_s` is what each broker takes from all producers of the lane together, None: all.
    """

    name: str
    segments: tuple[Segment, ...]
    weight: int = 1
    is_paused: bool = False
    quota_bytes_per_s: int | None = None

    @property
    def active(self) -> Segment | None:
        """The segment that is written; None where the lane is paused without one."""
        return next((s for s in self.segments if s.state is SegmentState.ACTIVE), None)

    @property
    def readable(self) -> tuple[Segment, ...]:
        """The segments that are read now: none of a paused lane, and a held one when it comes first."""
        if self.is_paused:
            return ()
        return tuple(segment for number, segment in enumerate(self.segments) if number == 0 or not segment.is_held)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRule:
    """Records for which the query `where` holds go to `lane`; the first rule that matches decides, else `live`."""

    lane: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """A consumer group that must have read a segment before it may be retired."""

    name: str
    ack_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOperation:
    """What is under way with a stream: its id, its kind (`failover`, ...) and the step that it has reached."""

    id: str
    kind: str
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route document. `epoch` grows with every change; clients ignore a document with a lower one.

    While `operation` is there, that operation alone changes the route.
    """

    stream: str
    epoch: int
    next_segment: int
    lanes: tuple[Lane, ...]
    rules: tuple[LaneRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    operation: RouteOperation | None = None

    def lane(self, name: str) -> Lane | None:
        """The lane of this name."""
        return next((lane for lane in self.lanes if lane.name == name), None)

    def segments(self) -> Iterator[tuple[Lane, Segment]]:
        """Every segment with its lane, in the route's order."""
        return ((lane, segment) for lane in self.lanes for segment in lane.segments)

    @property
    def clusters(self) -> dict[str, str]:
        """The profile of each cluster of the route, by cluster id."""
        return {segment.cluster_id: segment.cluster for _, segment in self.segments()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic of a cluster by its name: its id (None where the cluster gives none) and its partitions."""

    topic_id: str | None
    partitions: int


def segment_problem(segment: Segment, cluster_id: str, found: FoundTopic | None) -> str:
    """Why what the profile and the topic's name lead to is not the segment; empty where it is."""
    if cluster_id != segment.cluster_id:
        return f"profile {segment.cluster} reaches cluster {cluster_id}, not {segment.cluster_id}"
    if found is None:
        return GONE
    if found.topic_id != segment.topic_id:
        return f"the topic was created again (its id is {found.topic_id})"
    if found.partitions != segment.partitions:
        return f"the topic has {found.partitions} partitions, the route says {segment.partitions}"
    return ""


def partitions_of(segment: Segment) -> tuple[TopicPartition, ...]:
    """The partitions of a segment's topic."""
    return tuple(TopicPartition(segment.topic, number) for number in range(segment.partitions))
