"""What a consumer reads, from a route: topics by cluster, each with its lane and segment."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import CommitIdentity, topic_id_bytes
from kafkakit.streams.model.route import DLQ, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The lane and segment that a topic carries, and what identifies it."""

    lane: str
    segment: int
    cluster_id: str
    topic: str
    topic_id: bytes

    def identity(self, partition: int, group: str) -> CommitIdentity:
        """What commits of a partition are bound to."""
        return CommitIdentity(cluster_id=self.cluster_id, topic_id=self.topic_id, partition=partition, group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """What to read at an epoch: sources by topic for each cluster id, the clusters' profiles, and weights of lanes."""

    epoch: int
    sources: Mapping[str, Mapping[str, Source]]
    profiles: Mapping[str, str]
    weights: Mapping[str, int]


def reading_plan(route: Route, lanes: Collection[str] | None) -> ReadingPlan:
    """All segments of the lanes, whatever their state, but held ones and those of paused lanes; None: all but `dlq`.

    `UsageError` for a lane that the route does not have.
    """
    names = [lane.name for lane in route.lanes]
    unknown = sorted(set(lanes or ()) - set(names))
    if unknown:
        raise UsageError(
            f"stream {route.stream} has no lane {', '.join(unknown)}", hint=f"its lanes: {', '.join(names)}"
        )
    wanted = [lane for lane in route.lanes if (lane.name in lanes if lanes is not None else lane.name != DLQ)]
    sources: dict[str, dict[str, Source]] = {}
    for lane in wanted:
        for segment in lane.readable:
            sources.setdefault(segment.cluster_id, {})[segment.topic] = Source(
                lane=lane.name,
                segment=segment.id,
                cluster_id=segment.cluster_id,
                topic=segment.topic,
                topic_id=topic_id_bytes(segment.topic_id),
            )
    return ReadingPlan(
        epoch=route.epoch,
        sources=sources,
        profiles={cluster_id: route.clusters[cluster_id] for cluster_id in sources},
        weights={lane.name: lane.weight for lane in wanted},
    )
