"""A map beside its cluster: the partitions in question, their lists before and after, who is who, and disks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.quantities import format_bytes
from kafkakit.core.topic_selection import select_topics
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.topicmappr.decide.audit.catalogue import Issue
from kafkakit.topicmappr.decide.audit.reading import Entry, MapReading
from kafkakit.topicmappr.decide.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """One partition of the scope; `after` is `before` where the map says nothing that Kafka would take.

    `entry` is what the map says (None: nothing). `before` is the list that a running move leads to.
    """

    topic: Topic
    partition: Partition
    before: tuple[int, ...]
    after: tuple[int, ...]
    entry: Entry | None
    moving: bool

    @property
    def name(self) -> str:
        """The partition's name."""
        return f"{self.topic.name}-{self.partition.partition}"

    @property
    def key(self) -> TopicPartition:
        """The partition as a key."""
        return TopicPartition(self.topic.name, self.partition.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.after if b not in self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCase:
    """The scope's rows by topic and number, entries for partitions that do not exist, and the brokers.

    `live` are alive, `known` registered in any state; `even` should be balanced.
    """

    rows: tuple[AuditedPartition, ...]
    strangers: tuple[Entry, ...]
    racks: Mapping[int, str | None]
    live: Mapping[int, Broker]
    known: frozenset[int]
    even: tuple[int, ...]


def case_of(snapshot: ClusterSnapshot, reading: MapReading, request: AuditRequest) -> AuditCase:
    """Hold map and cluster side by side; raises `UsageError` for topic patterns that match nothing. O(replicas)."""
    named = {entry.key.topic for entry in reading.entries}
    wanted: set[str] = set()
    if request.topics:
        wanted = set(select_topics([t.name for t in snapshot.topics], request.topics).selected)
    entries = {entry.key: entry for entry in reading.entries}
    known = frozenset(b.id for b in snapshot.brokers if b.state.value != "missing")
    targets = {(r.topic, r.partition): r.target for r in snapshot.reassignments}
    rows = []
    for topic in snapshot.topics:
        if topic.name in named or topic.name in wanted:
            for p in sorted(topic.partitions, key=lambda p: p.partition):
                entry = entries.pop(TopicPartition(topic.name, p.partition), None)
                rows.append(_row(topic, p, entry, known, targets.get((topic.name, p.partition))))
    live = {b.id: b for b in snapshot.brokers if b.is_alive}
    return AuditCase(
        rows=tuple(rows),
        strangers=tuple(entries.values()),
        racks={b.id: b.group for b in snapshot.brokers},
        live=live,
        known=known,
        even=_even(rows, live, request),
    )


def _row(
    topic: Topic, p: Partition, entry: Entry | None, known: frozenset[int], target: tuple[int, ...] | None
) -> AuditedPartition:
    before = target or tuple(b for b in p.replicas if b not in p.removing)
    after = before
    if entry is not None and _taken(entry.replicas, before, known):
        after = entry.replicas
    moving = target is not None or bool(p.adding or p.removing)
    return AuditedPartition(topic=topic, partition=p, before=before, after=after, entry=entry, moving=moving)


def _taken(replicas: tuple[int, ...], before: tuple[int, ...], known: frozenset[int]) -> bool:
    """True for a list that Kafka takes: it refuses unknown brokers, unless they are there already."""
    sound = bool(replicas) and len(set(replicas)) == len(replicas)
    return sound and all(b in known or b in before for b in replicas)


def _even(rows: list[AuditedPartition], live: Mapping[int, Broker], request: AuditRequest) -> tuple[int, ...]:
    if request.brokers is not None:
        holding = frozenset(b for row in rows for b in row.before)
        return tuple(b for b in request.brokers.resolve(holding, frozenset(live)) if b in live)
    return tuple(sorted({b for row in rows for b in row.after if b in live}))


def disk_issues(
    case: AuditCase,
    sizes: Mapping[int, int],
    storage: Mapping[int, BrokerStorage],
    log_dirs: Mapping[int, tuple[DirStorage, ...]],
    max_use: Fraction,
) -> Iterator[Issue]:
    """Brokers that get copies and end, or pass, above a limit; `sizes` by index of the case's rows.

    The peak is the worst one: every copy arrives before any leaves, as when a map is applied in one go.
    """
    coming: dict[int, int] = {}
    going: dict[int, int] = {}
    for i, row in enumerate(case.rows):
        size = sizes.get(i)
        if row.after == row.before or size is None:
            continue
        for b in row.adding:
            coming[b] = coming.get(b, 0) + size
        for b in row.before:
            if b not in row.after:
                going[b] = going.get(b, 0) + size
    for b, arriving in sorted(coming.items()):
        disk = storage.get(b)
        if not arriving or disk is None or disk.free_bytes is None or b not in case.live:
            continue
        room = sum(d.usable_bytes or 0 for d in log_dirs.get(b, ()) if d.is_open) if b in log_dirs else disk.free_bytes
        yield from _broker(b, arriving, going.get(b, 0), room, disk, max_use)


def _broker(b: int, arriving: int, leaving: int, room: int, disk: BrokerStorage, max_use: Fraction) -> Iterator[Issue]:
    where, coming = f"broker {b}", f"{format_bytes(arriving)} come"
    free, capacity = disk.free_bytes or 0, disk.capacity_bytes
    end = free - arriving + leaving
    if arriving > room:
        kept = " before others leave" if end >= 0 else ""
        yield Issue("disk-full", where, where, f": {coming}{kept}, and {format_bytes(room)} are free")
        return
    if not capacity:
        return
    least = capacity - int(capacity * max_use)
    limit = f"{float(max_use) * 100:.3g}% of {format_bytes(capacity)}"
    if end < least and end < free:
        yield Issue("disk-over-limit", where, where, f": {format_bytes(end)} stay free, above {limit} in use")
    elif free - arriving < least and end >= least:
        low = format_bytes(free - arriving)
        yield Issue("disk-peak", where, where, f": {coming} before others leave, down to {low} free, above {limit}")
