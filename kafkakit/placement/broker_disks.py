"""What each broker's disks and log dirs hold and can hold, read off a snapshot.

For planners that place replicas in dirs, log dirs are also arrays: what each holds, and which dir each replica is in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


SHOWN_BROKERS = 3


def takes_copies(dirs: Collection[LogDir | DirStorage]) -> bool:
    """False when every log dir of a broker is cordoned or broken; one that tells of none may take copies."""
    return not dirs or any(not d.cordoned and not d.error for d in dirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirStorage(LogDir):
    """A log dir with the copies known to be in it."""

    replicas: int = 0
    replica_bytes: int = 0

    @property
    def is_open(self) -> bool:
        """True when the dir takes new copies."""
        return not self.cordoned and self.error is None

    @property
    def use(self) -> float | None:
        """The part of the disk that is in use, whatever by, from 0 to 1; None when unknown."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDisks:
    """All brokers' disks, by id; `alike` has the dirs of a broker that report the same total and free bytes."""

    brokers: Mapping[int, BrokerStorage]
    log_dirs: Mapping[int, tuple[DirStorage, ...]]
    alike: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    warnings: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def notes_on(self, brokers: Collection[int]) -> tuple[str, ...]:
        """One note on the dirs of these brokers that may share a disk; none where no dirs are alike."""
        named = [b for b, alike in sorted(self.alike.items()) if b in brokers and alike]
        if not named:
            return ()
        where = f"broker {named[0]}: log dirs {', '.join(self.alike[named[0]])}"
        if len(named) > 1:
            shown = ", ".join(map(str, named[:SHOWN_BROKERS]))
            more = f" and {len(named) - SHOWN_BROKERS} more" if len(named) > SHOWN_BROKERS else ""
            where = f"log dirs of brokers {shown}{more}"
        return (
            f"{where} report the same total and free bytes; if dirs share one disk, its capacity is counted more "
            "than once",
        )

    def warnings_on(self, brokers: Collection[int]) -> tuple[str, ...]:
        """The warnings on these brokers, by id."""
        return tuple(line for b, lines in sorted(self.warnings.items()) if b in brokers for line in lines)


def broker_disks(snapshot: ClusterSnapshot) -> BrokerDisks:
    """Sum up the known copies by broker and log dir; O(replicas), 0.4 s for 600,000.

    Used is the bytes of known copies on the broker; copies of unknown size are told of in a warning. Free and
    capacity are the sums over log dirs, or, where the snapshot says how much is free (`storage_free_bytes`),
    that and used plus free. A broker that gave no answer has no known use.
    """
    held = _count_held(snapshot)
    storage: dict[int, BrokerStorage] = {}
    dirs: dict[int, tuple[DirStorage, ...]] = {}
    alike: dict[int, tuple[str, ...]] = {}
    warnings: dict[int, tuple[str, ...]] = {}
    for broker in snapshot.brokers:
        b = broker.id
        unsized = held.unsized.get(b, 0)
        silent = b in snapshot.unanswered_brokers
        reported = not silent and (b in held.used or (snapshot.sizes_taken and not unsized))
        storage[b] = _storage(broker, held.used.get(b, 0) if reported else None)
        warnings[b] = _warnings(broker)
        if unsized and reported:
            copies = f"{unsized} copies" if unsized > 1 else "1 copy"
            warnings[b] += (f"broker {b}: {copies} of unknown size not counted in its used bytes",)
        if broker.log_dirs:
            dirs[b] = _dirs(broker, held)
            alike[b] = _dirs_alike(broker)
    return BrokerDisks(brokers=storage, log_dirs=dirs, alike=alike, warnings=warnings)


def failed_copies(snapshot: ClusterSnapshot) -> dict[TopicPartition, frozenset[int]]:
    """By partition the live brokers on which its copy is in a log dir that is offline. O(replicas) where one is.

    An offline dir does not list its copies: one that its broker does not list, and that neither leads nor follows in
    sync, was there. Without any leader in the snapshot leaders are not known, and a copy in sync counts as working.
    """
    failed = {b.id: {d.path for d in b.log_dirs if d.error is not None} for b in snapshot.brokers if b.is_alive}
    failed = {b: paths for b, paths in failed.items() if paths}
    found: dict[TopicPartition, frozenset[int]] = {}
    if not failed:
        return found
    knows_leaders = any(p.leader is not None for _, p in snapshot.partitions())
    for topic, p in snapshot.partitions():
        has_leader = p.leader is not None or not knows_leaders
        lost = frozenset(b for b in p.replicas if b in failed and _has_failed(p, b, failed[b], has_leader=has_leader))
        if lost:
            found[TopicPartition(topic, p.partition)] = lost
    return found


def _has_failed(p: Partition, broker: int, failed: Collection[str], *, has_leader: bool) -> bool:
    path = p.replica_dirs.get(broker)
    if path is not None:
        return path in failed
    works = p.isr is not None and broker in p.isr and has_leader
    return broker not in p.replica_bytes and broker not in p.adding and not works


@dataclass(slots=True)
class _HeldCounts:
    """What was counted: bytes and copies of unknown size by broker, bytes and copies by (broker, dir)."""

    used: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    unsized: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    dir_bytes: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    dir_copies: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))


def _count_held(snapshot: ClusterSnapshot) -> _HeldCounts:
    # A broker that lists its copies has told all: what it does not list, it does not hold (yet).
    listing = {
        b.id
        for b in snapshot.brokers
        if b.log_dirs and b.storage_free_bytes is None and b.id not in snapshot.unanswered_brokers
    }
    held = _HeldCounts()
    used, dir_bytes, dir_copies = held.used, held.dir_bytes, held.dir_copies
    for topic in snapshot.topics:
        for p in topic.partitions:
            copies = p.replica_bytes
            if not copies:
                if p.size_bytes is not None:
                    copies = dict.fromkeys(p.replicas, p.size_bytes)
                else:
                    for b in p.replicas:
                        if b not in listing:
                            held.unsized[b] += 1
            for b, size in copies.items():
                used[b] += size
            for b, path in p.replica_dirs.items():
                dir_bytes[b, path] += copies.get(b, 0)
                dir_copies[b, path] += 1
    return held


def _dirs(broker: Broker, held: _HeldCounts) -> tuple[DirStorage, ...]:
    return tuple(
        DirStorage(
            path=d.path,
            total_bytes=d.total_bytes,
            usable_bytes=d.usable_bytes,
            cordoned=d.cordoned,
            error=d.error,
            replicas=held.dir_copies.get((broker.id, d.path), 0),
            replica_bytes=held.dir_bytes.get((broker.id, d.path), 0),
        )
        for d in broker.log_dirs
    )


def _storage(broker: Broker, used: int | None) -> BrokerStorage:
    if broker.storage_free_bytes is not None:
        free = broker.storage_free_bytes
        return BrokerStorage(used_bytes=used, free_bytes=free, capacity_bytes=None if used is None else used + free)
    # An offline dir tells nothing and takes nothing: the others are what the broker has.
    working = [d for d in broker.log_dirs if d.error is None]
    totals = [d.total_bytes for d in working]
    usable = [d.usable_bytes for d in working]
    return BrokerStorage(used_bytes=used, free_bytes=_sum(usable), capacity_bytes=_sum(totals))


def _sum(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known and len(known) == len(values) else None


def _dirs_alike(broker: Broker) -> tuple[str, ...]:
    """Dirs that report the same disk to the byte may share it; Kafka does not report whether they do."""
    alike: dict[tuple[int, int], list[str]] = defaultdict(list)
    for d in broker.log_dirs:
        if d.error is None and d.total_bytes is not None and d.usable_bytes is not None:
            alike[d.total_bytes, d.usable_bytes].append(d.path)
    return tuple(path for paths in alike.values() if len(paths) > 1 for path in paths)


def _warnings(broker: Broker) -> tuple[str, ...]:
    lines = [
        f"broker {broker.id}: log dir {d.path} is offline ({d.error}), its copies and its disk are not counted"
        for d in broker.log_dirs
        if d.error is not None
    ]
    lines += [
        f"broker {broker.id}: log dir {d.path} is cordoned, its free bytes take no new copy"
        for d in broker.log_dirs
        if d.cordoned and d.error is None
    ]
    return tuple(lines)


UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirTable:
    """Log dirs by index, sorted by broker and path, and the dir of each replica slot.

    `broker`, `path`, `total`, `usable`, `held` (bytes of known copies, also those outside of the slots) and
    `open` (takes new copies) describe dirs; `slot_dir` and `slot_bytes` have one entry per replica of the
    partitions asked for, partition by partition in list order. -1 stands for unknown.
    """

    broker: Ints
    path: tuple[str, ...]
    total: Ints
    usable: Ints
    held: Ints
    open: Bools
    slot_dir: Ints
    slot_bytes: Ints

    def of_broker(self, broker: int) -> range:
        """The dirs of one broker, by index; empty when it told none."""
        import numpy as np

        return range(*(int(np.searchsorted(self.broker, broker, side)) for side in ("left", "right")))


def dir_table(
    snapshot: ClusterSnapshot,
    partitions: Sequence[TopicPartition],
    log_dirs: Mapping[int, tuple[DirStorage, ...]],
) -> DirTable:
    """Build the arrays for these partitions (in this order), with `Sizes.log_dirs`; O(replicas), 0.5 s for 600,000.

    Raises `KeyError` for a partition that the snapshot does not hold.
    """
    import numpy as np

    rows = [(b, d) for b in sorted(log_dirs) for d in sorted(log_dirs[b], key=lambda d: d.path)]
    index = {(b, d.path): n for n, (b, d) in enumerate(rows)}
    facts = _facts(snapshot, {key.topic for key in partitions})
    slot_dir: list[int] = []
    slot_bytes: list[int] = []
    for topic, number in partitions:
        p = facts[topic][number]
        size = UNKNOWN if p.size_bytes is None else p.size_bytes
        for broker in p.replicas:
            slot_dir.append(index.get((broker, p.replica_dirs.get(broker, "")), UNKNOWN))
            slot_bytes.append(p.replica_bytes.get(broker, UNKNOWN if p.replica_bytes else size))
    return DirTable(
        broker=np.array([b for b, _ in rows], dtype=np.int64),
        path=tuple(d.path for _, d in rows),
        total=_known_numbers([d.total_bytes for _, d in rows]),
        usable=_known_numbers([d.usable_bytes for _, d in rows]),
        held=np.array([d.replica_bytes for _, d in rows], dtype=np.int64),
        open=np.array([d.is_open for _, d in rows], dtype=bool),
        slot_dir=np.array(slot_dir, dtype=np.int64),
        slot_bytes=np.array(slot_bytes, dtype=np.int64),
    )


def _facts(snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[str, dict[int, Partition]]:
    return {t.name: {p.partition: p for p in t.partitions} for t in snapshot.topics if t.name in topics}


def _known_numbers(values: Sequence[int | None]) -> Ints:
    import numpy as np

    return np.array([UNKNOWN if v is None else v for v in values], dtype=np.int64)
