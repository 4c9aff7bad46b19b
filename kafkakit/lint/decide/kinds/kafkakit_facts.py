"""The parts of the kit's own format that are observed, not declared: hosts, partitions, groups, audits."""

from dataclasses import replace

from kafkakit.lint.decide.documents.tree import Mapping
from kafkakit.lint.decide.kinds.values import Reader
from kafkakit.lint.decide.pieces import ClusterPiece
from kafkakit.rules.effective import to_int
from kafkakit.rules.subjects import (
    NO_FACTS,
    NO_HOST,
    BatchFacts,
    GroupFacts,
    HostFacts,
    LogDirFacts,
    PartitionFacts,
    RolloutFacts,
    TopicFacts,
)

OBSERVED_OF_CLUSTER = (
    "groups", "features", "metadata_behind_days", "moves_running", "live", "rollout", "peers", "versions_differ_days",
)  # fmt: skip


def with_cluster_facts(reader: Reader, node: Mapping | None, cluster: ClusterPiece) -> ClusterPiece:
    """A cluster with its `observed` part."""
    if node is None:
        return cluster
    reader.known_keys(node, OBSERVED_OF_CLUSTER, "what is observed of a cluster")
    features = reader.mapping(node, "features")
    peers = reader.mapping(node, "peers")
    rollout = reader.mapping(node, "rollout")
    return replace(
        cluster,
        groups=tuple(_group(reader, group) for group in reader.mappings(node, "groups"))
        if node.get("groups") is not None
        else None,
        features=None if features is None else {name: reader.integer(features, name) or 0 for name in features.entries},
        metadata_behind_days=reader.number(node, "metadata_behind_days"),
        moves_running=reader.flag(node, "moves_running"),
        is_live=bool(reader.flag(node, "live")),
        rollout=None if rollout is None else _rollout(reader, rollout),
        peers=None if peers is None else {key: reader.texts(peers, key) for key in peers.entries},
        versions_differ_days=reader.number(node, "versions_differ_days"),
    )


def _rollout(reader: Reader, node: Mapping) -> RolloutFacts:
    return RolloutFacts(
        isr_changes_per_min=reader.number(node, "isr_changes_per_min") or 0.0,
        baseline_mean=reader.number(node, "baseline_mean") or 0.0,
        baseline_deviation=reader.number(node, "baseline_deviation") or 0.0,
        unclean_elections=reader.integer(node, "unclean_elections") or 0,
    )


def _group(reader: Reader, node: Mapping) -> GroupFacts:
    return GroupFacts(
        name=reader.text(node, "name") or "",
        topics=reader.texts(node, "topics"),
        members=reader.integer(node, "members"),
        time_lag_s=reader.numbers(node, "time_lag_s"),
        byte_lag={topic: int(lag) for topic, lag in reader.numbers(node, "byte_lag").items()},
        metadata_p99_bytes=reader.integer(node, "metadata_p99_bytes"),
    )


def host_facts(reader: Reader, node: Mapping | None) -> HostFacts:
    """The `host` part of a broker."""
    if node is None:
        return NO_HOST
    reader.known_keys(node, HostFacts.__dataclass_fields__, "a host")
    return HostFacts(
        open_files=reader.integer(node, "open_files"),
        max_map_count=reader.integer(node, "max_map_count"),
        memory_bytes=reader.integer(node, "memory_bytes"),
        heap_bytes=reader.integer(node, "heap_bytes"),
        connections=reader.integer(node, "connections"),
        write_bytes_s=reader.number(node, "write_bytes_s"),
        platform=reader.text(node, "platform"),
    )


def log_dirs(reader: Reader, node: Mapping) -> tuple[LogDirFacts, ...]:
    """The `log_dirs` of a broker."""
    return tuple(
        LogDirFacts(
            path=reader.text(part, "path") or "",
            total_bytes=reader.integer(part, "total_bytes"),
            usable_bytes=reader.integer(part, "usable_bytes"),
            daily_used_bytes=reader.integers(part, "daily_used_bytes"),
        )
        for part in reader.mappings(node, "log_dirs")
    )


def partition_facts(reader: Reader, node: Mapping | None) -> tuple[PartitionFacts, ...] | None:
    """The partitions that were observed of a topic, None where none are given."""
    if node is None or node.get("partitions") is None:
        return None
    return tuple(_partition(reader, part) for part in reader.mappings(node, "partitions"))


def _partition(reader: Reader, node: Mapping) -> PartitionFacts:
    replica_bytes = {to_int(broker): int(size) for broker, size in reader.numbers(node, "bytes").items()}
    return PartitionFacts(
        partition=reader.integer(node, "partition") or 0,
        replicas=reader.integers(node, "replicas") or (),
        isr=reader.integers(node, "isr"),
        leader=reader.integer(node, "leader", -1),
        replica_bytes={broker: size for broker, size in replica_bytes.items() if broker is not None},
        bytes_s=reader.number(node, "bytes_s"),
        segments=reader.integer(node, "segments"),
    )


OBSERVED_OF_TOPIC = (*TopicFacts.__dataclass_fields__, "partitions", "current")


def topic_facts(reader: Reader, node: Mapping | None) -> TopicFacts:
    """The other facts that were observed of a topic."""
    if node is None:
        return NO_FACTS
    reader.known_keys(node, OBSERVED_OF_TOPIC, "what is observed of a topic")
    return TopicFacts(
        age_s=reader.number(node, "age_s"),
        idle_s=reader.number(node, "idle_s"),
        codec=reader.text(node, "codec"),
        compression_ratio=reader.number(node, "compression_ratio"),
        keyless_records=reader.integer(node, "keyless_records"),
        dirty_unique_keys=reader.integer(node, "dirty_unique_keys"),
        timestamp_skew_s=reader.number(node, "timestamp_skew_s"),
        batches=None
        if node.get("batches") is None
        else tuple(_batch(reader, b) for b in reader.mappings(node, "batches")),
        override_age_s=None if node.get("override_age_s") is None else reader.numbers(node, "override_age_s"),
    )


def _batch(reader: Reader, node: Mapping) -> BatchFacts:
    return BatchFacts(
        partition=reader.integer(node, "partition") or 0,
        offset=reader.integer(node, "offset") or 0,
        compressed_bytes=reader.integer(node, "compressed_bytes") or 0,
        decompressed_bytes=reader.integer(node, "decompressed_bytes") or 0,
        content_size=reader.integer(node, "content_size"),
        codec=reader.text(node, "codec") or "zstd",
    )
