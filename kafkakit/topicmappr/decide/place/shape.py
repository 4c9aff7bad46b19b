"""The shape of a new topic: partitions, factor and expected size, as given or as the topics it shall be like."""

from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, Topic
from kafkakit.core.topic_selection import select_topics
from kafkakit.topicmappr.decide.place.request import PlaceRequest


@dataclass(frozen=True, slots=True)
class Shape:
    """Partitions, replicas of each, and the expected bytes of one; None when load is counted in replicas."""

    partitions: int
    replication: int
    partition_bytes: int | None


def shape_of(snapshot: ClusterSnapshot, request: PlaceRequest) -> Shape:
    """Settle the shape; raises `UsageError` when the topics to imitate differ in what was not given."""
    models: list[Topic] = []
    if request.like:
        names = set(select_topics([t.name for t in snapshot.topics], request.like).selected)
        models = [t for t in snapshot.topics if t.name in names]
    partitions = request.partitions or _same("--partitions", {t.name: len(t.partitions) for t in models})
    replication = request.replication or _same(
        "--replication", {t.name: max(len(p.replicas) for p in t.partitions) for t in models if t.partitions}
    )
    size = request.partition_bytes
    if size is None and models:
        known = [b for t in models for p in t.partitions if (b := p.known_bytes) is not None]
        size = max(1, -(-sum(known) // len(known))) if known else None
    return Shape(partitions, replication, size)


def _same(flag: str, found: dict[str, int]) -> int:
    values = sorted(set(found.values()))
    if len(values) != 1 or not values[0]:
        raise UsageError(f"--topics-like: the topics differ ({flag[2:]} {some(values)})", hint=f"give {flag}")
    return values[0]
