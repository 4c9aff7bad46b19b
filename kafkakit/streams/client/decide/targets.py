"""Where a lane's records go by a route, and whether that place is the one the route means."""

from dataclasses import dataclass

from kafkakit.core.deliveries import TopicIdentity
from kafkakit.core.errors import RefusedError, TryLaterError
from kafkakit.streams.model.commit import NO_TOPIC_ID, topic_id_bytes
from kafkakit.streams.model.route import Route, Segment, SegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTarget:
    """The segment that takes a lane's writes, None while none does, and why not.

    `next_segments` are those that may take them after a change of the route, and are connected to in advance.
    """

    epoch: int
    segment: Segment | None
    next_segments: tuple[Segment, ...] = ()
    reason: str = ""


def lane_target(route: Route, name: str) -> LaneTarget:
    """Where the records of a lane go."""
    lane = route.lane(name)
    if lane is None:
        return LaneTarget(
            epoch=route.epoch, segment=None, reason=f"epoch {route.epoch} of the route has no lane {name}"
        )
    opened = tuple(segment for segment in lane.segments if segment.state is SegmentState.OPENED)
    if lane.is_paused or lane.active is None:
        reason = f"lane {name} is paused in epoch {route.epoch} of the route"
        return LaneTarget(epoch=route.epoch, segment=None, next_segments=opened, reason=reason)
    return LaneTarget(epoch=route.epoch, segment=lane.active, next_segments=opened)


def check_place(segment: Segment, found: TopicIdentity) -> None:
    """`RefusedError` unless cluster and topic are those of the segment; an address and a name alone prove nothing.

    `TryLaterError` for a topic that is not there: brokers learn of a new one at different times.
    """
    if found.cluster_id != segment.cluster_id:
        raise RefusedError(
            f"segment {segment.id} is on cluster {segment.cluster_id}, but the address of profile {segment.cluster} "
            f"answers as cluster {found.cluster_id}",
            hint="check the profile's address",
        )
    if not found.partitions:
        raise TryLaterError(f"cluster {found.cluster_id} has no topic {segment.topic}")
    if _is_other(segment.topic_id, found.topic_id):
        raise RefusedError(
            f"segment {segment.id} is topic {segment.topic} with the id {segment.topic_id}, but the topic of that name "
            f"has the id {found.topic_id}: it was created again",
            hint="link the new topic to the stream",
        )


def _is_other(wanted: str, found: str) -> bool:
    if not wanted or not found:
        return False  # clusters before 2.8 give topics no ids
    ids = topic_id_bytes(wanted), topic_id_bytes(found)
    return ids[0] != ids[1] and NO_TOPIC_ID not in ids
