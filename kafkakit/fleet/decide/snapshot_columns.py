"""A cluster's answers as columns of `core.fleet_tables`: brokers, topics, partitions, replicas, disks, groups.

Each function is linear in what it gets and returns columns of one length; what is unknown is None.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    ItemError,
    LiveReplica,
    LogSpan,
)
from kafkakit.core.model import ClusterSnapshot, LogDir, TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.fleet.decide.config_columns import Columns, DeclaredFacts, columns_of
from kafkakit.fleet.decide.fleet_file import FleetCluster
from kafkakit.rules.cluster_facts import INTERNAL_TOPICS

Answers = Mapping[int, BrokerLogDirs]
Spans = Mapping[TopicPartition, LogSpan | ItemError]
T = TypeVar("T")


def cluster_columns(snapshot: ClusterSnapshot, entry: FleetCluster) -> Columns:
    """The table `clusters`: one row."""
    return {
        "cluster_id": [snapshot.cluster_id],
        "labels": [list(entry.labels)],
        "env": [entry.env],
        "kafka_version": [snapshot.kafka_version],
        "mirror_of": [entry.mirror_of],
        "taken_at_ms": [epoch_ms(snapshot.taken_at)],
        "source": ["live"],
    }


def broker_columns(snapshot: ClusterSnapshot, entry: FleetCluster) -> Columns:
    """The table `brokers`; the limits of hosts are those of the fleet file."""
    brokers, host = snapshot.brokers, entry.host
    return {
        "broker": [b.id for b in brokers],
        "rack": [b.rack for b in brokers],
        "host": [b.host or None for b in brokers],
        "is_alive": [b.is_alive for b in brokers],
        "open_files": [host.open_files] * len(brokers),
        "max_map_count": [host.max_map_count] * len(brokers),
        "connections": [host.connections] * len(brokers),
        **_tag_columns([b.id for b in brokers], snapshot.tags.brokers if snapshot.tags else None),
    }


def topic_columns(snapshot: ClusterSnapshot, declared: Mapping[str, DeclaredFacts]) -> Columns:
    """The table `topics`; `replication` is the least number of replicas that its partitions keep."""
    topics = snapshot.topics
    facts = [declared.get(t.name) for t in topics]
    return {
        "topic": [t.name for t in topics],
        "topic_id": [t.topic_id for t in topics],
        "partitions": [len(t.partitions) for t in topics],
        "replication": [min((len(p.replicas) - len(p.removing) for p in t.partitions), default=None) for t in topics],
        "is_internal": [t.name in INTERNAL_TOPICS for t in topics],
        "labels": [list(f.labels) if f else None for f in facts],
        "owner": [f.owner if f else None for f in facts],
        **_tag_columns([t.name for t in topics], snapshot.tags.topics if snapshot.tags else None),
    }


def partition_columns(snapshot: ClusterSnapshot, answers: Answers, spans: Spans) -> Columns:
    """The table `partitions`; the size is that of the largest known copy, offsets those of the leader."""
    sizes: dict[TopicPartition, int] = {}
    for answer in answers.values():
        for key, copy in answer.replicas.items():
            sizes[key] = max(copy.size_bytes, sizes.get(key, 0))
    found = [(TopicPartition(topic, p.partition), p) for topic, p in snapshot.partitions()]
    logs = [_span(spans.get(key)) for key, _ in found]
    return {
        "topic": [key.topic for key, _ in found],
        "partition": [key.partition for key, _ in found],
        "leader": [p.leader for _, p in found],
        "replicas": [p.replicas for _, p in found],
        "isr": [p.isr for _, p in found],
        "size_bytes": [sizes.get(key) for key, _ in found],
        "start_offset": [log.start if log else None for log in logs],
        "end_offset": [log.end if log else None for log in logs],
    }


def replica_columns(answers: Answers) -> Columns:
    """The table `replicas`: each copy found in a log dir, incoming ones of moves between dirs too."""
    rows = [
        (key.topic, key.partition, broker, copy.log_dir, copy.size_bytes, copy.offset_lag, copy.is_future)
        for broker, answer in sorted(answers.items())
        for key, copy in _copies(answer)
    ]
    names = ("topic", "partition", "broker", "log_dir", "size_bytes", "offset_lag", "is_future")
    return columns_of(names, rows)


def log_dir_columns(answers: Answers) -> Columns:
    """The table `log_dirs`."""
    rows = [
        (broker, d.path, d.total_bytes, d.usable_bytes, d.error)
        for broker, answer in sorted(answers.items())
        for d in answer.log_dirs
    ]
    return columns_of(("broker", "path", "total_bytes", "usable_bytes", "error"), rows)


def disk_columns(answers: Answers, snapshot_date: str) -> Columns:
    """The table `disk_daily`: what each disk holds today; the sum of its copies where the broker tells no capacity."""
    rows = [
        (broker, d.path, snapshot_date, _used(d, answer), d.total_bytes)
        for broker, answer in sorted(answers.items())
        for d in answer.log_dirs
        if d.error is None
    ]
    return columns_of(("broker", "path", "day", "used_bytes", "total_bytes"), rows)


def unknown_parts(snapshot: ClusterSnapshot, answers: Answers, spans: Spans) -> tuple[str, ...]:
    """What the answers lack, in sentences for the report."""
    silent = sorted(b.id for b in snapshot.brokers if b.id not in answers or answers[b.id].error)
    no_offsets = sum(not isinstance(span, LogSpan) for span in spans.values())
    notes = []
    if silent:
        notes.append(f"brokers {', '.join(map(str, silent))} gave no sizes")
    if no_offsets:
        notes.append(f"{no_offsets} partitions gave no offsets")
    return tuple(notes)


def _tag_columns(names: Sequence[T], tags: Mapping[T, Mapping[str, str]] | None) -> Columns:
    """Both columns are None where no tags were read, and empty for an object without any."""
    own = [None if tags is None else sorted(tags.get(name, {}).items()) for name in names]
    return {
        "tag_keys": [None if pairs is None else [key for key, _ in pairs] for pairs in own],
        "tag_values": [None if pairs is None else [value for _, value in pairs] for pairs in own],
    }


def _copies(answer: BrokerLogDirs) -> list[tuple[TopicPartition, LiveReplica]]:
    current = [(key, copy) for key, copy in answer.replicas.items() if not copy.is_future]
    return sorted([*current, *answer.futures.items()], key=lambda item: (item[0], item[1].is_future))


def _used(log_dir: LogDir, answer: BrokerLogDirs) -> int:
    if log_dir.total_bytes is not None and log_dir.usable_bytes is not None:
        return log_dir.total_bytes - log_dir.usable_bytes
    return sum(copy.size_bytes for _, copy in _copies(answer) if copy.log_dir == log_dir.path)


def _span(span: LogSpan | ItemError | None) -> LogSpan | None:
    return span if isinstance(span, LogSpan) else None


Commits = Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError]]


def group_columns(groups: Sequence[GroupListing], described: Mapping[str, GroupDescription | ItemError]) -> Columns:
    """The table `groups`; members are None where the coordinator did not answer."""
    rows = []
    for listed in groups:
        found = described.get(listed.group)
        members = len(found.members) if isinstance(found, GroupDescription) else None
        rows.append((listed.group, listed.state.value, listed.type.value, members))
    return columns_of(("group", "state", "protocol", "members"), rows)


def group_offset_columns(commits: Commits, spans: Spans) -> Columns:
    """The table `group_offsets`; the content of commit metadata is not stored, its size is."""
    rows = []
    for group, offsets in sorted(commits.items()):
        for key, commit in sorted(offsets.items()):
            if isinstance(commit, CommittedOffset):
                span = spans.get(key)
                end = span.end if isinstance(span, LogSpan) else None
                size = len(commit.metadata.encode("utf-8", "surrogateescape"))
                rows.append((group, key.topic, key.partition, commit.offset, end, size))
    names = ("group", "topic", "partition", "committed", "end_offset", "metadata_bytes")
    return columns_of(names, rows)
