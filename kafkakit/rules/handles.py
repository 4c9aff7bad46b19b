"""Arithmetic of file handles: how many segments a broker has, and the descriptors and memory maps that they take.

Kafka keeps one descriptor for each `.log`, closed segments included, and one for each `.txnindex` that exists; indexes
are mapped and their files closed, so they cost two maps a segment and no descriptor (`FileRecords`, `AbstractIndex`).
"""

from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import SegmentSettings
from kafkakit.rules.subjects import LintCluster, LintTopic, PartitionFacts

RESERVED_DESCRIPTORS = 1_000
RESERVED_MAPS = 1_000
DEFAULT_MAX_MAP_COUNT = 65_530
MAPS_OF_SEGMENT = 2


def descriptors(segments: int, connections: int = 0, transaction_indexes: int = 0) -> int:
    """How many file descriptors a broker needs."""
    return segments + transaction_indexes + connections + RESERVED_DESCRIPTORS


def maps(segments: int) -> int:
    """How many memory maps a broker needs."""
    return MAPS_OF_SEGMENT * segments + RESERVED_MAPS


def segments_of(settings: SegmentSettings, partition: PartitionFacts | None = None) -> int | None:
    """Segments of one copy of a partition: counted, else the most there can be, else from its size; None if unknown."""
    if partition is None:
        return settings.segment_limit()
    if partition.segments is not None:
        return partition.segments
    limit = settings.segment_limit(partition.bytes_s)
    if limit is None and partition.replica_bytes:
        return 1 + max(partition.replica_bytes.values()) // max(settings.capacity_bytes(), 1)
    return limit


def mean_replicas(topic: LintTopic, cluster: LintCluster) -> float:
    """Replicas of a topic on one broker when they are spread evenly; `InputMissing` where a number is unknown."""
    if topic.partitions is None or topic.replication_factor is None:
        raise InputMissing("partitions and replication factor")
    return topic.partitions * topic.replication_factor / cluster.broker_number
