"""The fleet file, and what was collected of a cluster as the columns of the store's tables.

A cluster's answers as columns of `core.fleet_tables`, linear in what was read; what is unknown is None.

Brokers, topics, partitions, replicas, disks and groups, each table with columns of one length. Settings of brokers and
topics, set and declared in files, are without any secret. Of records of topics that two clusters hold there is what
tells one from another, never their content. Of commits there is the history, that of what was produced, and where
reading continues the next time. Directories of partitions are scanned in tasks; what was found in them becomes columns
too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

import msgspec

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    CommittedOffset,
    ConfigLayer,
    GroupDescription,
    GroupListing,
    ItemError,
    LayeredValue,
    LiveReplica,
    LogSpan,
)
from kafkakit.core.documents import decode_tree
from kafkakit.core.errors import InputError, RefusedError, UsageError
from kafkakit.core.findings import shorten
from kafkakit.core.fleet_tables import TABLES
from kafkakit.core.model import ClusterSnapshot, LogDir, TopicPartition
from kafkakit.core.quantities import count_of, epoch_ms
from kafkakit.core.records import Record
from kafkakit.core.yaml_json import TreeLimits, sound_document
from kafkakit.rules.cluster_facts import INTERNAL_TOPICS
from kafkakit.rules.values import HIDDEN, holds_secret_in_address, is_secret_key, literal_jaas_options, looks_secret
from kafkakit.streams.lag.api import ResumePoint
from kafkakit.streams.model.log_dirs import PartitionFiles
from kafkakit.streams.model.offsets_log.commits import CommitColumns, KeyTable
from kafkakit.streams.model.record_identity import HEADER, decode_record_id, format_record_id

LIMIT_BYTES = 4 << 20
T = TypeVar("T")


class HostLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the hosts of a cluster's brokers, which Kafka does not report; None where unknown."""

    open_files: int | None = None
    max_map_count: int | None = None
    connections: int | None = None


class FleetCluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster of the fleet: reached by a profile, or by addresses and a file of client settings.

    `files` are lint's files and folders that declare its topics; `mirror_of` names the cluster that it is a copy of.
    """

    name: str
    profile: str | None = None
    bootstrap_servers: str | None = None
    command_config: str | None = None
    env: str | None = None
    owner: str | None = None
    mirror_of: str | None = None
    labels: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    host: HostLimits = HostLimits()


class _MatchingClusters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of all clusters whose name matches a shell pattern."""

    clusters: str
    env: str | None = None
    owner: str | None = None
    labels: tuple[str, ...] = ()
    host: HostLimits = HostLimits()


class _FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafkakit: str
    schema: int
    clusters: tuple[FleetCluster, ...]
    matching: tuple[_MatchingClusters, ...] = ()


def read_fleet(data: bytes, source: str) -> tuple[FleetCluster, ...]:
    """The clusters of a fleet file in its order, completed by the patterns that match their names.

    A cluster's own value counts first, then the last pattern that has one; labels add up. Raises `InputError` for a
    file that is none, and for clusters without a name of their own or without a way to reach them.
    """
    document = sound_document(data, source, TreeLimits(size=LIMIT_BYTES, aliased=None))
    found = decode_tree(document, _FleetFile, hint="docs/fleet.md describes the file")
    if found.kafkakit != "fleet" or found.schema != 1:
        raise InputError(source, "is not a fleet file of schema 1", hint="it begins with kafkakit: fleet and schema: 1")
    if not found.clusters:
        raise InputError(source, "names no cluster")
    names = [cluster.name for cluster in found.clusters]
    for cluster in found.clusters:
        if not cluster.name or names.count(cluster.name) > 1:
            raise InputError(source, f"the cluster name {cluster.name!r:.80} is empty or listed twice")
        if (cluster.profile is None) == (cluster.bootstrap_servers is None):
            raise InputError(source, f"cluster {cluster.name} needs either a profile or bootstrap_servers")
    return tuple(_complete_cluster(cluster, found.matching) for cluster in found.clusters)


def chosen_clusters(profiles: str | None, fleet: Sequence[FleetCluster] | None) -> tuple[FleetCluster, ...]:
    """The clusters to collect: those of a fleet file, of which `profiles` may choose some by name, or profiles alone.

    Raises `UsageError` when neither is given, or a name is not in the file.
    """
    names = list(dict.fromkeys(name.strip() for name in (profiles or "").split(",") if name.strip()))
    if fleet is None:
        if not names:
            raise UsageError("no cluster is named", hint="give --profiles NAME,... or --fleet FILE")
        return tuple(FleetCluster(name=name, profile=name) for name in names)
    by_name = {cluster.name: cluster for cluster in fleet}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(f"the fleet file has no cluster {', '.join(unknown)}")
    return tuple(by_name[name] for name in names) or tuple(fleet)


def _complete_cluster(cluster: FleetCluster, matching: Sequence[_MatchingClusters]) -> FleetCluster:
    fitting = [part for part in matching if fnmatchcase(cluster.name, part.clusters)]
    parts: list[FleetCluster | _MatchingClusters] = [cluster, *reversed(fitting)]
    return msgspec.structs.replace(
        cluster,
        env=_first_value(part.env for part in parts),
        owner=_first_value(part.owner for part in parts),
        labels=tuple(sorted({label for part in parts for label in part.labels})),
        host=HostLimits(
            open_files=_first_value(part.host.open_files for part in parts),
            max_map_count=_first_value(part.host.max_map_count for part in parts),
            connections=_first_value(part.host.connections for part in parts),
        ),
    )


def _first_value(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.lint.api import TopicPiece


Answers = Mapping[int, BrokerLogDirs]
Spans = Mapping[TopicPartition, LogSpan | ItemError]

Columns = Mapping[str, Sequence[Any]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFacts:
    """Labels and owner of a declared topic."""

    labels: tuple[str, ...]
    owner: str | None


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
        (broker, d.path, snapshot_date, _used_bytes(d, answer), d.total_bytes)
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


def unknown_groups(silent: Mapping[int, ItemError], unread: Sequence[str]) -> tuple[str, ...]:
    """What is not known of groups, in sentences: brokers that listed none, and groups whose commits were not read."""
    notes = []
    if silent:
        named = ", ".join(map(str, sorted(silent)))
        notes.append(f"brokers {named} gave no groups: those that they coordinate are absent")
    if unread:
        notes.append(f"commits of {count_of(len(unread), 'group')} could not be read: {shorten(unread)}")
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


def _used_bytes(log_dir: LogDir, answer: BrokerLogDirs) -> int:
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


def columns_of(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Rows as columns of these names."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return dict(zip(names, columns, strict=True))


def storable_value(key: str, value: str | None, *, is_known: bool) -> str | None:
    """The value of a setting, or None where it is a secret or holds one.

    `is_known` is True for settings that a broker knows: of others those are left out whose name only looks like that
    of a secret.
    """
    if value is None or value == HIDDEN or is_secret_key(key) or (not is_known and looks_secret(key)):
        return None
    return None if holds_secret_in_address(value) or literal_jaas_options(value) else value


SOURCES: Mapping[ConfigLayer, str] = {
    ConfigLayer.STATIC: "static",
    ConfigLayer.DYNAMIC_BROKER: "dynamic-broker",
    ConfigLayer.DYNAMIC_DEFAULT: "dynamic-default",
    ConfigLayer.DEFAULT: "default",
}


def broker_config_columns(configs: Mapping[int, Mapping[str, LayeredValue]]) -> Columns:
    """The table `broker_configs`; `is_sensitive` also where the value was left out because it looks like a secret."""
    rows = []
    for broker, values in sorted(configs.items()):
        for key, given in values.items():
            value = None if given.is_sensitive else storable_value(key, given.value, is_known=True)
            is_secret = given.is_sensitive or (value is None and given.value is not None)
            rows.append((broker, key, value, SOURCES[given.layer], given.is_read_only, is_secret))
    return columns_of(("broker", "key", "value", "source", "is_read_only", "is_sensitive"), rows)


def topic_config_columns(snapshot: ClusterSnapshot) -> Columns:
    """The table `topic_configs`: settings made for a topic itself."""
    rows = []
    for topic in snapshot.topics:
        for key, given in sorted(topic.configs.items()):
            value = storable_value(key, given, is_known=False)
            rows.append((topic.name, key, value, "topic", value is None))
    return columns_of(("topic", "key", "value", "source", "is_sensitive"), rows)


_Row = tuple[str, str, str | None, str | None, int | None, str | None]


def declared_topics(pieces: "Sequence[TopicPiece]", cluster: str) -> "tuple[TopicPiece, ...]":
    """The declared topics among the pieces of files that belong to the cluster: those that name no other one."""
    return tuple(piece for piece in pieces if piece.is_declared and piece.cluster in (None, cluster))


def declared_facts(topics: "Sequence[TopicPiece]") -> dict[str, DeclaredFacts]:
    """Labels and owner by topic; of a topic that is declared twice, those of the last place."""
    return {t.name: DeclaredFacts(labels=tuple(sorted(t.labels)), owner=t.owner) for t in topics}


def declared_columns(topics: "Sequence[TopicPiece]") -> Columns:
    """The table `declared`: a row for each topic, its numbers of partitions and replicas, and each of its settings."""
    rows = [row for topic in topics for row in _rows(topic)]
    names = ("topic", "key", "value", "file", "line", "owner")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _rows(topic: "TopicPiece") -> list[_Row]:
    numbers = {"": None, "partitions": topic.partitions, "replication": topic.replication_factor}
    file, line = (topic.place.path, topic.place.line) if topic.place else (None, None)
    rows: list[_Row] = [
        (topic.name, key, None if number is None else str(number), file, line, topic.owner)
        for key, number in numbers.items()
        if key == "" or number is not None
    ]
    for key, value in sorted(topic.configs.items()):
        place = value.place
        at = (place.path, place.line) if place else (file, line)
        rows.append((topic.name, key, storable_value(key, value.text, is_known=False), *at, topic.owner))
    return rows


KEY_HASH_DIGITS = 16
_NAMES = ("topic", "partition", "offset", "at_ms", "record_id", "key_hash", "value_crc", "size_bytes")


def record_columns(records: Sequence[Record]) -> Mapping[str, Sequence[Any]]:
    """The table `records`; the key's hash is SHA-256, first 16 digits, the value's checksum CRC-32."""
    return columns_of(_NAMES, [_row(record) for record in records])


def _row(record: Record) -> tuple[Any, ...]:
    key = record.key
    return (
        *record.partition,
        record.offset,
        record.at_ms,
        _identity(record),
        None if key is None else sha256(key).hexdigest()[:KEY_HASH_DIGITS],
        crc32(record.value),
        len(record.value) + len(key or b""),
    )


def _identity(record: Record) -> str | None:
    value = next((value for name, value in record.headers if name == HEADER), None)
    found = None if value is None else decode_record_id(value)
    return None if found is None else format_record_id(found)


MOMENTS = 96
LEAST_STEP_MS = 60_000
_KNOWN_TO = "/known-to"


def commit_columns(
    keys: KeyTable, commits: CommitColumns, log_partitions: "NDArray[np.int32]"
) -> Mapping[str, Sequence[Any]]:
    """The table `commits`; `log_partitions` is by row. What the metadata says is not stored."""
    groups = [keys.groups[n] for n in range(keys.groups.capacity)]
    topics = [keys.topics[n] for n in range(keys.topics.capacity)]
    return {
        "group": [groups[n] for n in keys.group_index[commits.key].tolist()],
        "topic": [topics[n] for n in keys.topic_index[commits.key].tolist()],
        "partition": keys.partition[commits.key].tolist(),
        "committed": [offset if offset >= 0 else None for offset in commits.offset.tolist()],
        "at_ms": [ms if ms >= 0 else None for ms in commits.committed_ms.tolist()],
        "log_partition": log_partitions.tolist(),
        "log_offset": commits.at.tolist(),
        "metadata_bytes": [len(metadata) for metadata in commits.metadata],
    }


def moments(begin_ms: int, end_ms: int) -> tuple[int, ...]:
    """The times at which log ends are looked up: 96 at most, evenly spread, a minute apart or more."""
    step_ms = max(LEAST_STEP_MS, -(-(end_ms - begin_ms) // MOMENTS))
    return tuple(range(begin_ms, end_ms, step_ms))


def produced_columns(
    partitions: Sequence[TopicPartition],
    times_ms: Sequence[int],
    looked_up: Sequence[Mapping[TopicPartition, int | ItemError | None]],
    ends: Mapping[TopicPartition, int],
) -> Mapping[str, Sequence[Any]]:
    """The table `produced`: the end of each log at each time, without those that repeat both neighbours.

    `looked_up` is, by time, the first offset from then on; None where there is none, which means that the log had its
    end of now. What is not known gives no row.
    """
    import numpy as np

    unknown = -1
    at = np.full((len(partitions), len(times_ms)), unknown, np.int64)
    for column, answers in enumerate(looked_up):
        found = (answers.get(p, unknown) if p in answers else unknown for p in partitions)
        at[:, column] = [
            ends.get(p, unknown) if offset is None else offset if isinstance(offset, int) else unknown
            for p, offset in zip(partitions, found, strict=True)
        ]
    edge = np.full((len(partitions), 1), -2)
    before, after = np.hstack([edge, at[:, :-1]]), np.hstack([at[:, 1:], edge])
    rows, columns = np.nonzero((at >= 0) & ((at != before) | (at != after)))
    return {
        "topic": [partitions[row].topic for row in rows.tolist()],
        "partition": [partitions[row].partition for row in rows.tolist()],
        "offset": at[rows, columns].tolist(),
        "at_ms": [times_ms[column] for column in columns.tolist()],
    }


def positions_of(points: Mapping[int, ResumePoint], topic: str) -> dict[str, int]:
    """Where reading the topic continues, as positions of a manifest."""
    found: dict[str, int] = {}
    for partition, point in points.items():
        found |= {f"{topic}-{partition}": point.at, f"{topic}-{partition}{_KNOWN_TO}": point.known_to}
    return found


def resume_points(positions: Mapping[str, int], partitions: Sequence[TopicPartition]) -> dict[int, ResumePoint]:
    """The inverse, for the partitions that have a position."""
    names = {p.partition: str(p) for p in partitions if str(p) in positions}
    return {n: ResumePoint(positions[name], positions[name + _KNOWN_TO], -1) for n, name in names.items()}


TASK_BYTES = 2 << 30
TASK_FILES = 2_000
"""Opening a file costs about as much as walking a megabyte of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedBroker:
    """What the log dirs of one broker held."""

    broker: int
    partitions: int
    rows: Mapping[str, int]
    size_bytes: int
    seconds: float
    faults: tuple[str, ...] = ()


def by_broker(found: Sequence[PartitionFiles], broker: int | None) -> dict[int, tuple[PartitionFiles, ...]]:
    """The directories by the broker they belong to, sorted: that of their `meta.properties`, else `broker`.

    Raises `RefusedError` where `meta.properties` names another broker, `UsageError` where none is named anywhere.
    """
    groups: dict[int, list[PartitionFiles]] = {}
    for part in found:
        if broker is not None and part.broker not in (None, broker):
            raise RefusedError(
                f"{part.log_dir} is a log dir of broker {part.broker}, not of broker {broker}",
                hint="leave --broker out to take it from meta.properties",
            )
        own = part.broker if part.broker is not None else broker
        if own is None:
            raise UsageError(f"{part.log_dir} has no meta.properties that names its broker", hint="give --broker N")
        groups.setdefault(own, []).append(part)
    return {number: tuple(parts) for number, parts in sorted(groups.items())}


def scan_tasks(parts: Sequence[PartitionFiles]) -> tuple[tuple[PartitionFiles, ...], ...]:
    """The directories in their order, cut into tasks of about 2 GiB or 2,000 files."""
    tasks: list[list[PartitionFiles]] = []
    size_bytes = files = 0
    for part in parts:
        if not tasks or size_bytes >= TASK_BYTES or files >= TASK_FILES:
            tasks.append([])
            size_bytes = files = 0
        tasks[-1].append(part)
        size_bytes += part.log_bytes
        files += len(part.files)
    return tuple(tuple(task) for task in tasks)


def table_columns(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as the columns of a table; what the table has no column for is left out."""
    return {name: [row.get(name) for row in rows] for name in TABLES[kind].names}
