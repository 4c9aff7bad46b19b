"""How much is written to streams: end offsets over a window, and what a record takes on disk."""

from collections.abc import Mapping, Sequence

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.model.route import Route, Segment, partitions_of
from kafkakit.streams.moves.decide.loads import LoadUnit, TopicReading, load_of
from kafkakit.streams.routes.api_act import OpenCluster

Spans = Mapping[TopicPartition, LogSpan | ItemError]


def measure(
    open_cluster: OpenCluster, clock: Clock, routes: Sequence[Route], profiles: Mapping[str, str], window_s: float,
    unit: LoadUnit,
) -> dict[tuple[str, str], int]:  # fmt: skip
    """The load of every topic that is written on these clusters (profile by cluster id), by cluster id and topic.

    Raises `TryLaterError` where ends or sizes are not known. Cost: two requests to each leader, one to each broker.
    """
    segments = [lane.active for route in routes for lane in route.lanes if lane.active is not None]
    by_cluster = {c: [s for s in segments if s.cluster_id == c] for c in profiles}
    keys = {c: [key for segment in found for key in partitions_of(segment)] for c, found in by_cluster.items()}
    clusters = {c: open_cluster(profile) for c, profile in profiles.items() if keys[c]}
    first = {c: (clock.monotonic(), cluster.log.spans(keys[c])) for c, cluster in clusters.items()}
    sizes = {c: _sizes(cluster, keys[c]) if unit is LoadUnit.BYTES else {} for c, cluster in clusters.items()}
    clock.sleep(window_s)
    found = {}
    for c, cluster in clusters.items():
        at_s, before = first[c]
        now_s, after = clock.monotonic(), cluster.log.spans(keys[c])
        for segment in by_cluster[c]:
            reading = TopicReading(
                before=_ends(segment, before), after=_ends(segment, after), seconds=now_s - at_s,
                starts=sum(_span(key, after).start for key in partitions_of(segment)),
                size_bytes=_size(segment, sizes[c]) if unit is LoadUnit.BYTES else 0,
            )  # fmt: skip
            found[c, segment.topic] = load_of(reading, unit)
    return found


def _ends(segment: Segment, spans: Spans) -> int:
    return sum(_span(key, spans).end for key in partitions_of(segment))


def _span(key: TopicPartition, spans: Spans) -> LogSpan:
    span = spans.get(key)
    if not isinstance(span, LogSpan):
        raise TryLaterError(f"the end of {key} is not known: {span or 'no answer'}")
    return span


def _sizes(cluster: ClusterClients, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The largest copy of each partition."""
    brokers = [broker.id for broker in cluster.admin.cluster().brokers if broker.is_alive]
    sizes: dict[TopicPartition, int] = {}
    for answer in cluster.admin.log_dirs(brokers, keys).values():
        for key, copy in answer.replicas.items():
            sizes[key] = max(copy.size_bytes, sizes.get(key, 0))
    return sizes


def _size(segment: Segment, sizes: Mapping[TopicPartition, int]) -> int:
    absent = [key for key in partitions_of(segment) if key not in sizes]
    if absent:
        raise TryLaterError(f"the size of {absent[0]} is not known", hint="--by records needs no sizes")
    return sum(sizes[key] for key in partitions_of(segment))
