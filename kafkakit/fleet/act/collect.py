"""Reading one cluster, records of some topics too, and writing its snapshot. Nothing is changed on the cluster."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Protocol

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import ClusterSnapshot, TagSet, TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.records import Record
from kafkakit.execution.act.retrier import TagPlaces
from kafkakit.fleet.act.commit_reads import CommitHistory
from kafkakit.fleet.act.snapshot_writer import SnapshotWriter
from kafkakit.fleet.decide import snapshot_columns as columns
from kafkakit.fleet.decide.config_columns import (
    broker_config_columns,
    declared_columns,
    declared_facts,
    declared_topics,
    topic_config_columns,
)
from kafkakit.fleet.decide.fleet_file import FleetCluster
from kafkakit.fleet.decide.record_columns import record_columns
from kafkakit.lint.api import TopicPiece
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import ClusterClients, DataPlane, GroupAdmin, LogReader

ROWS_OF_FILE = 500_000
RECORDS_OF_POLL = 10_000
STALLED_S = 60.0


def write_records(
    topics: Collection[str],
    spans: columns.Spans,
    positions: Mapping[str, int],
    since_ms: int,
    log: LogReader,
    data: DataPlane,
    writer: SnapshotWriter,
    clock: Clock,
) -> dict[str, int]:
    """Write what the topics hold up to the ends in `spans`; returns the positions where the next snapshot continues.

    Partitions are read from their position on, without one from `since_ms` on. Raises `TryLaterError` when nothing
    comes for a minute.
    """
    ends = {p: s.end for p, s in spans.items() if p.topic in topics and isinstance(s, LogSpan)}
    begin = {p: positions[str(p)] for p in ends if str(p) in positions}
    for place, found in log.offsets_at({p: since_ms for p in ends if p not in begin}).items():
        begin[place] = found if isinstance(found, int) else ends[place]
    left = {p for p, at in begin.items() if at < ends[p]}
    held: list[Record] = []
    heard_s = clock.monotonic()
    with closing(data.consumer(left, {p: begin[p] for p in left})) as consumer:
        while left:
            writer.check()
            records = consumer.poll(1.0, RECORDS_OF_POLL)
            held += [record for record in records if record.offset < ends[record.partition]]
            left -= {r.partition for r in records if r.offset >= ends[r.partition] - 1}
            left -= set(consumer.ended())
            heard_s = clock.monotonic() if records else heard_s
            if left and clock.monotonic() - heard_s > STALLED_S:
                raise TryLaterError(f"{min(left)} gives no records")
            if len(held) >= ROWS_OF_FILE or not left:
                writer.add("records", record_columns(held))
                held.clear()
    return {str(p): end for p, end in ends.items()}


class CollectClients(ClusterClients, TagPlaces, Protocol):
    """The clients of one cluster, none of which writes, and where its tags are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectSource:
    """A cluster to collect: how to open its clients, what files declare of it, and where its tags are, if wanted."""

    entry: FleetCluster
    open_clients: Callable[[], AbstractContextManager[CollectClients]]
    read_declared: Callable[[], Sequence[TopicPiece]] = tuple
    read_tags: Callable[[CollectClients], TagSet] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """What to collect of each cluster for which date; `since_s` bounds how far back logs are read the first time."""

    snapshot_date: str
    groups: bool = True
    commits: bool = False
    records: tuple[str, ...] = ()
    since_s: float = 7 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a snapshot lacks, and where the next one continues in logs."""

    notes: tuple[str, ...] = ()
    positions: Mapping[str, int] = field(default_factory=dict)


def collect_cluster(source: CollectSource, request: CollectRequest, writer: SnapshotWriter, clock: Clock) -> Collected:
    """Read a cluster and write its tables; they count once the caller has finished the writer.

    Raises `KafkakitError` when the cluster cannot be reached or read, a right is missing, its time is over, or the
    store takes no more. Cost: that of a snapshot, three requests to each leader for the ends of its logs, one to a
    coordinator for each group.
    """
    with ExitStack() as stack:
        clients = stack.enter_context(source.open_clients())
        declared = declared_topics(source.read_declared(), source.entry.name)
        snapshot = clients.admin.snapshot(now=clock.now(), sizes=False)
        if source.read_tags is not None:
            snapshot = replace(snapshot, tags=source.read_tags(clients))
        writer.begin()
        alive = [b.id for b in snapshot.brokers if b.is_alive]
        answers = clients.admin.log_dirs(alive)
        _check_all_visible(clients.admin, snapshot, {key.topic for a in answers.values() for key in a.replicas})
        writer.check()
        spans: columns.Spans = clients.log.spans([TopicPartition(t, p.partition) for t, p in snapshot.partitions()])
        spans_ms = epoch_ms(clock.now())
        since_ms = spans_ms - round(request.since_s * 1000)
        writer.add("clusters", columns.cluster_columns(snapshot, source.entry))
        writer.add("brokers", columns.broker_columns(snapshot, source.entry))
        writer.add("broker_configs", broker_config_columns(clients.admin.broker_configs(alive, defaults=True)))
        writer.add("topics", columns.topic_columns(snapshot, declared_facts(declared)))
        writer.add("topic_configs", topic_config_columns(snapshot))
        writer.add("declared", declared_columns(declared))
        writer.add("partitions", columns.partition_columns(snapshot, answers, spans))
        writer.add("replicas", columns.replica_columns(answers))
        writer.add("log_dirs", columns.log_dir_columns(answers))
        writer.add("disk_daily", columns.disk_columns(answers, request.snapshot_date))
        if request.groups:
            _write_groups(clients.groups, spans, writer)
        notes = columns.unknown_parts(snapshot, answers, spans)
        positions: dict[str, int] = {}
        before = writer.before() if request.commits or request.records else None
        known = before.positions if before else {}
        if request.commits:
            history = CommitHistory(clients.log, writer, clock)
            positions |= history.read(spans, known, since_ms)
            history.write_produced(spans, before.ended_ms if before and known else since_ms, spans_ms)
            notes += (history.note,) if history.note else ()
        if request.records:
            topics = request.records
            positions |= write_records(topics, spans, known, since_ms, clients.log, clients.data, writer, clock)
            absent = sorted(set(topics) - {t.name for t in snapshot.topics})
            notes += (f"has no topic {', '.join(absent)}",) if absent else ()
    return Collected(notes=notes, positions=positions)


def _check_all_visible(admin: ClusterAdmin, snapshot: ClusterSnapshot, on_disk: set[str]) -> None:
    """Metadata silently lacks topics that this user may not see; asked for by name they raise the missing right."""
    hidden = on_disk - {t.name for t in snapshot.topics}
    if hidden:
        admin.partition_states(hidden)


def _write_groups(groups: GroupAdmin, spans: columns.Spans, writer: SnapshotWriter) -> None:
    listed = groups.groups()
    writer.add("groups", columns.group_columns(listed, groups.describe([g.group for g in listed])))
    commits = {}
    for group in listed:
        writer.check()
        # An open transaction must not hide the older commit.
        commits[group.group] = groups.committed(group.group, stable=False)
    writer.add("group_offsets", columns.group_offset_columns(commits, spans))
