"""Arithmetic of file handles: how many segments a broker has, and the descriptors and memory maps that they take.

Kafka keeps one descriptor for each `.log`, closed segments included, and one for each `.txnindex` that exists; indexes
are mapped and their files closed, so they cost two maps a segment and no descriptor (`FileRecords`, `AbstractIndex`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import SegmentSettings, settings_of
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, LintTopic, PartitionFacts

RESERVED_DESCRIPTORS = 1_000
RESERVED_MAPS = 1_000
DEFAULT_MAX_MAP_COUNT = 65_530
MAPS_OF_SEGMENT = 2


@dataclass(frozen=True, slots=True)
class HandleUse:
    """Segments and replicas of one broker; `is_complete` is False when some partitions could not be counted."""

    segments: int = 0
    replicas: int = 0
    is_complete: bool = True

    @property
    def maps(self) -> int:
        """Memory maps, with those of the JVM."""
        return maps(self.segments)

    def descriptors(self, connections: int = 0, transaction_indexes: int = 0) -> int:
        """Open files and sockets, with the reserve for jars and logs."""
        return descriptors(self.segments, connections, transaction_indexes)


def descriptors(segments: int, connections: int = 0, transaction_indexes: int = 0) -> int:
    """How many file descriptors a broker needs."""
    return segments + transaction_indexes + connections + RESERVED_DESCRIPTORS


def maps(segments: int) -> int:
    """How many memory maps a broker needs."""
    return MAPS_OF_SEGMENT * segments + RESERVED_MAPS


def segments_of(settings: SegmentSettings, partition: PartitionFacts | None = None) -> int | None:
    """Segments of one copy of a partition: counted, else from its size, else the most there can be; None if unlimited.

    The estimate from a size takes full segments and one for each roll by time within retention.
    """
    if partition is None:
        return settings.segment_limit()
    if partition.segments is not None:
        return partition.segments
    limit = settings.segment_limit(partition.bytes_s)
    if limit is None and partition.replica_bytes:
        return 1 + max(partition.replica_bytes.values()) // max(settings.capacity_bytes(), 1)
    return limit


def handles_by_broker(cluster: LintCluster) -> Mapping[int, HandleUse]:
    """Segments of every broker by id, computed once, O(replicas); topics without known replicas are spread evenly."""
    return cluster.derive(_handles_by_broker)


def _handles_by_broker(cluster: LintCluster) -> Mapping[int, HandleUse]:
    segments: dict[int, float] = {b.id: 0.0 for b in cluster.data_brokers if b.id is not None}
    replicas = dict(segments)
    partial: set[int] = set()

    def add(broker: int, number: int | None) -> None:
        replicas[broker] = replicas.get(broker, 0.0) + 1
        segments[broker] = segments.get(broker, 0.0) + (number or 1)
        if number is None:
            partial.add(broker)

    spread = spread_segments = 0.0
    is_spread_known = True
    for topic in cluster.topics:
        settings = settings_of(topic)
        if topic.partition_facts is None:
            copies = _mean_replicas_or_none(topic, cluster)
            number = settings.segment_limit() if copies else None
            spread += copies or 0.0
            spread_segments += (number or 1) * (copies or 0.0)
            is_spread_known = is_spread_known and number is not None
            continue
        for partition in topic.partition_facts:
            number = segments_of(settings, partition)
            for broker in partition.replicas:
                add(broker, number)
    return {
        b: HandleUse(round(n + spread_segments), round(replicas[b] + spread), is_spread_known and b not in partial)
        for b, n in segments.items()
    }


def _mean_replicas_or_none(topic: LintTopic, cluster: LintCluster) -> float | None:
    try:
        return mean_replicas(topic, cluster)
    except InputMissing:
        return None


def mean_replicas(topic: LintTopic, cluster: LintCluster) -> float:
    """Replicas of a topic on one broker when they are spread evenly; `InputMissing` where a number is unknown."""
    if topic.partitions is None or topic.replication_factor is None:
        raise InputMissing("partitions and replication factor")
    return topic.partitions * topic.replication_factor / cluster.broker_number


def exceeded_budget(
    topic: LintTopic, cluster: LintCluster, changed: SegmentSettings, limit_share: float = 1.0
) -> str | None:
    """Why a change of one topic's segments would exceed the handles of a broker; None where no known limit is hit.

    Args:
        topic: the topic as it is; without known replicas an even spread is taken.
        cluster: its cluster, with the limits of its hosts where they are known.
        changed: the settings to come.
        limit_share: the share of a limit that may be used.
    """
    for broker_id, broker in cluster.derive(_limited_brokers).items():
        now = handles_by_broker(cluster)[broker_id]
        added = _added_segments(topic, cluster, changed, broker_id)
        reason = _above(broker.where, now.segments + added, broker.host, limit_share)
        if reason is not None:
            return reason
    return None


def _limited_brokers(cluster: LintCluster) -> Mapping[int, LintBroker]:
    """The brokers with known limits of handles."""
    return {
        b.id: b
        for b in cluster.data_brokers
        if b.id is not None and (b.host.open_files is not None or b.host.max_map_count is not None)
    }


def _added_segments(topic: LintTopic, cluster: LintCluster, changed: SegmentSettings, broker_id: int) -> int:
    before = settings_of(topic)
    if topic.partition_facts is None:
        each = (changed.segment_limit() or 1) - (before.segment_limit() or 1)
        return round(each * mean_replicas(topic, cluster))
    added = 0
    for partition in topic.partition_facts:
        if broker_id in partition.replicas:
            rate = partition.bytes_s
            added += (changed.segment_limit(rate) or 1) - (segments_of(before, partition) or 1)
    return added


def _above(where: str, segments: int, host: HostFacts, share: float) -> str | None:
    if host.max_map_count is not None and maps(segments) > share * host.max_map_count:
        return f"{where} would need {maps(segments)} memory maps of {host.max_map_count}"
    needed = descriptors(segments, host.connections or 0)
    if host.open_files is not None and needed > share * host.open_files:
        return f"{where} would need {needed} file descriptors of {host.open_files}"
    return None
