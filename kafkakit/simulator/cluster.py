"""A simulated cluster: brokers with lines and disks, partitions, how quotas and time behave, and its state as arrays.

Every partition's copies are a row of slots in the arrays. Log dirs can be looked at as they are at one moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]


MB = 1_000_000
DAY_S = 86_400
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SimDisk:
    """One log dir: what it holds at the start (all partitions, known or not), in bytes; `total_bytes` None: no limit.

    `growth_bytes_per_s` is what partitions that are not simulated add to it.
    """

    path: str = ""
    total_bytes: int | None = None
    used_bytes: int = 0
    growth_bytes_per_s: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBroker:
    """One broker: bytes per second of its line each way, and what clients and other partitions take of that."""

    id: int
    disks: tuple[SimDisk, ...] = (SimDisk(),)
    line_into: float = 125e6
    line_out: float = 125e6
    background_into: float = 0.0
    background_out: float = 0.0
    alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPartition:
    """One partition with its full copies; the first living one of `replicas` leads unless `leader` names another.

    `isr` None: all. `ingest_bytes_per_s` is what producers write, before the day's curve; retention deletes nothing.
    `dirs` is the place of each copy, by broker; a copy without a dir is in its broker's first.
    """

    key: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int
    ingest_bytes_per_s: float = 0.0
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    min_isr: int = 1
    dirs: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaModel:
    """How brokers keep a replication quota; figures are of real brokers (4.1), see `efficiency_of`.

    The average runs over `window_num` samples of a second. `efficiency` is the share of the setting that is reached in
    the long run; the default is what was seen with large batches. Bytes come in lumps of up to `lump_bytes` a
    partition and `response_bytes` an answer (`replica.fetch.max.bytes`, `replica.fetch.response.max.bytes`).
    """

    window_num: int = 11
    efficiency: float = 0.8
    lump_bytes: int = MB
    response_bytes: int = 10 * MB


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCluster:
    """A cluster at the start of a simulation.

    `day_curve` multiplies every ingest and growth: its entries share a day evenly, and time 0 is the day's start.
    A dead broker leaves the ISR after `session_timeout_s`; a deleted copy frees its space after `deletion_delay_s`;
    the controller ends `finishes_per_s` moves a second. With `wildcard` the throttle lists are `*`: then the bytes of
    in-sync followers are counted too, and recovering ones are limited. `disk_bytes_per_s` is how fast a broker copies
    between its own dirs.
    """

    brokers: tuple[SimBroker, ...]
    partitions: tuple[SimPartition, ...]
    quota: QuotaModel = QuotaModel()
    day_curve: tuple[float, ...] = (1.0,)
    session_timeout_s: int = 9
    deletion_delay_s: int = 60
    finishes_per_s: int = 100
    wildcard: bool = False
    disk_bytes_per_s: float = 200e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SimMove:
    """A request: bring the partition to `target`; `dirs` names log dirs for new copies, by broker."""

    key: TopicPartition
    target: tuple[int, ...]
    dirs: Mapping[int, str] = field(default_factory=dict)


def lump_of(batch_bytes: int) -> int:
    """Bytes of whole batches that a follower gets of a partition in one fetch of `replica.fetch.max.bytes` (1 MiB)."""
    return max(1, FETCH_BYTES // batch_bytes) * batch_bytes


def efficiency_of(window_num: int, backoff_ms: int, batch_bytes: int) -> float:
    """The share of a throttle that copies reach, by broker settings and the size of the batches that are moved.

    Two losses, both measured on brokers of 4.1. A throttled follower sleeps `replica.fetch.backoff.ms` at the edge of
    each of `replication.quota.window.num` samples. And an answer is cut at 1 MiB wherever that falls: the quota counts
    the piece of a batch at its end, the follower throws it away and fetches it again. So batches of 16 kB reach 93 %
    at the defaults (11, 1000), batches of 900 kB 80 %, batches of 600 kB 53 %.
    """
    waited = 0.8 * min(1.0, backoff_ms / 1000) / window_num
    return (1 - waited) * min(1.0, lump_of(batch_bytes) / FETCH_BYTES)


ABSENT = -1


class State:
    """Mutable arrays: `(b,)` by broker, `(d,)` by disk, `(p,)` by partition, `(p, slot)` by copy.

    An empty slot has broker -1. A *tracking* copy has all of its partition's bytes and gets each new one; any other
    has `have` of `log_end` bytes and must fetch the rest. `in_isr` is what the controller holds. What tracking
    copies take in is summed up in `produce_into`, `follow_into`, `follow_out` and `disk_growth`, all before the day's
    curve; partitions that are `under_replicated`, `under_min_isr` or `offline` (no leader) are counted. For all that,
    `untally` rows (each once) before they change, and `tally` them after.
    """

    def __init__(self, cluster: SimCluster, slots: int) -> None:
        import numpy as np

        self.broker_ids = tuple(b.id for b in cluster.brokers)
        self.index_of = {b.id: k for k, b in enumerate(cluster.brokers)}
        self.alive: Bools = np.array([b.alive for b in cluster.brokers], dtype=bool)
        self.line_into: Floats = np.array([b.line_into for b in cluster.brokers], dtype=float)
        self.line_out: Floats = np.array([b.line_out for b in cluster.brokers], dtype=float)
        self.background_into: Floats = np.array([b.background_into for b in cluster.brokers], dtype=float)
        self.background_out: Floats = np.array([b.background_out for b in cluster.brokers], dtype=float)
        self._add_disks(cluster)
        count = len(cluster.partitions)
        self.keys: tuple[TopicPartition, ...] = tuple(p.key for p in cluster.partitions)
        self.row_of = {p.key: row for row, p in enumerate(cluster.partitions)}
        self.log_end: Floats = np.array([p.size_bytes for p in cluster.partitions], dtype=float)
        self.ingest: Floats = np.array([p.ingest_bytes_per_s for p in cluster.partitions], dtype=float)
        self.min_isr: Ints = np.array([p.min_isr for p in cluster.partitions], dtype=np.intp)
        self.factor: Ints = np.array([len(p.replicas) for p in cluster.partitions], dtype=np.intp)
        self.leader: Ints = np.full(count, ABSENT, dtype=np.intp)
        self.broker: Ints = np.full((count, slots), ABSENT, dtype=np.intp)
        self.disk: Ints = np.full((count, slots), ABSENT, dtype=np.intp)
        self.have: Floats = np.zeros((count, slots))
        self.tracking: Bools = np.zeros((count, slots), dtype=bool)
        self.in_isr: Bools = np.zeros((count, slots), dtype=bool)
        self.adding: Bools = np.zeros((count, slots), dtype=bool)
        self.wanted: Bools = np.zeros((count, slots), dtype=bool)
        self.moving: Bools = np.zeros(count, dtype=bool)
        self.order: list[tuple[int, ...]] = [p.replicas for p in cluster.partitions]
        for row, partition in enumerate(cluster.partitions):
            self._add_partition(row, partition)
        brokers = len(self.broker_ids)
        self.produce_into: Floats = np.zeros(brokers)
        self.follow_into: Floats = np.zeros(brokers)
        self.follow_out: Floats = np.zeros(brokers)
        self.disk_growth: Floats = np.zeros(len(self.disk_broker))
        self.under_replicated = self.under_min_isr = self.offline = 0
        self.tally(range(count))

    def _add_disks(self, cluster: SimCluster) -> None:
        import numpy as np

        disks = [(k, d) for k, b in enumerate(cluster.brokers) for d in b.disks]
        self.disk_broker: Ints = np.array([k for k, _ in disks], dtype=np.intp)
        self.disk_path = tuple(d.path for _, d in disks)
        self.disk_total: Floats = np.array(
            [np.inf if d.total_bytes is None else d.total_bytes for _, d in disks], dtype=float
        )
        self.disk_used: Floats = np.array([d.used_bytes for _, d in disks], dtype=float)
        self.disk_other: Floats = np.array([d.growth_bytes_per_s for _, d in disks], dtype=float)
        self.disk_failed: Bools = np.array([d.failed for _, d in disks], dtype=bool)
        self.disks_of: list[list[int]] = [[] for _ in cluster.brokers]
        for number, (k, _) in enumerate(disks):
            self.disks_of[k].append(number)

    def _add_partition(self, row: int, partition: SimPartition) -> None:
        for slot, broker in enumerate(partition.replicas):
            where = self.index_of[broker]
            path = partition.dirs.get(broker)
            disk = self.dir_of(where, path) if path else self.disks_of[where][0]
            working = bool(self.alive[where]) and not self.disk_failed[disk]
            self.broker[row, slot] = where
            self.disk[row, slot] = disk
            self.have[row, slot] = partition.size_bytes
            self.in_isr[row, slot] = working and (partition.isr is None or broker in partition.isr)
            self.tracking[row, slot] = self.in_isr[row, slot]
            self.wanted[row, slot] = True
            if partition.isr is not None and broker not in partition.isr:
                self.have[row, slot] = 0.0
            if self.in_isr[row, slot] and (broker == partition.leader or self.leader[row] == ABSENT):
                self.leader[row] = slot

    def dir_of(self, broker: int, path: str | None) -> int:
        """The number of a log dir; without a path (or with an unknown one) the working one with the fewest copies."""
        numbers = self.disks_of[broker]
        for number in numbers:
            if path and self.disk_path[number] == path:
                return number
        if len(numbers) == 1:
            return numbers[0]
        return min(numbers, key=lambda n: (bool(self.disk_failed[n]), int((self.disk == n).sum()), n))

    def slot_of(self, row: int, broker: int) -> int:
        """The slot of a broker's copy, -1 without one."""
        for slot, where in enumerate(self.broker[row].tolist()):
            if where == broker:
                return slot
        return ABSENT

    def widen(self) -> None:
        """Space for one more copy of every partition."""
        import numpy as np

        for name, empty in (("broker", ABSENT), ("disk", ABSENT), ("have", 0.0)):
            old = getattr(self, name)
            setattr(self, name, np.column_stack([old, np.full(len(old), empty, dtype=old.dtype)]))
        for name in ("tracking", "in_isr", "adding", "wanted"):
            old = getattr(self, name)
            setattr(self, name, np.column_stack([old, np.zeros(len(old), dtype=bool)]))

    def tally(self, rows: "range | list[int] | Ints") -> None:
        """Count what the rows' tracking copies take in."""
        self._count(rows, 1.0)

    def untally(self, rows: "range | list[int] | Ints") -> None:
        """Take what `tally` counted off again."""
        self._count(rows, -1.0)

    def _count(self, rows: "range | list[int] | Ints", sign: float) -> None:
        import numpy as np

        picked = np.asarray(rows, dtype=np.intp)
        in_sync = self.in_isr[picked].sum(axis=1)
        self.under_replicated += int(sign) * int((in_sync < self.factor[picked]).sum())
        self.under_min_isr += int(sign) * int((in_sync < self.min_isr[picked]).sum())
        self.offline += int(sign) * int((self.leader[picked] == ABSENT).sum())
        picked = picked[(self.ingest[picked] > 0) & (self.leader[picked] != ABSENT)]
        if not len(picked):
            return
        ingest = sign * self.ingest[picked]
        tracking = self.tracking[picked]
        led = self.broker[picked, self.leader[picked]]
        np.add.at(self.produce_into, led, ingest)
        np.add.at(self.follow_out, led, ingest * (tracking.sum(axis=1) - 1))
        each = np.broadcast_to(ingest[:, None], tracking.shape)[tracking]
        np.add.at(self.follow_into, self.broker[picked][tracking], each)
        np.add.at(self.follow_into, led, -ingest)
        np.add.at(self.disk_growth, self.disk[picked][tracking], each)

    def elect(self, row: int, order: tuple[int, ...]) -> None:
        """Keep the leader if it lives and is in sync, else take the first in `order` that is; tally is the caller's."""
        now = int(self.leader[row])
        if now != ABSENT and self._may_lead(row, now):
            return
        self.leader[row] = ABSENT
        for broker in order:
            slot = self.slot_of(row, self.index_of[broker])
            if slot != ABSENT and self._may_lead(row, slot):
                self.leader[row] = slot
                return

    def _may_lead(self, row: int, slot: int) -> bool:
        return bool(self.tracking[row, slot] and self.in_isr[row, slot] and self.alive[self.broker[row, slot]])

    def replicas(self, row: int) -> tuple[int, ...]:
        """The list as Kafka shows it: while a move runs, the target first, then what it removes."""
        return self.order[row]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """One log dir; `used_bytes` includes deleted copies whose space is not free yet, `arriving_bytes` is what copies
    in it still have to fetch."""

    broker: int
    path: str
    used_bytes: int
    arriving_bytes: int
    total_bytes: int | None
    failed: bool


def disks_of(state: State, inside: Mapping[int, float]) -> tuple[DiskSeen, ...]:
    """Every log dir, by broker; `inside` is what comes from other dirs of its broker. O(dirs + copies)."""
    import numpy as np

    behind = (state.broker != ABSENT) & ~state.tracking
    missing = (state.log_end[:, None] - state.have)[behind]
    arriving = np.bincount(state.disk[behind], missing, len(state.disk_used))
    for disk, left in inside.items():
        arriving[disk] += left
    return tuple(
        DiskSeen(
            broker=state.broker_ids[broker],
            path=path,
            used_bytes=round(min(used, total)),
            arriving_bytes=round(left),
            total_bytes=None if total == float("inf") else round(total),
            failed=failed,
        )
        for broker, path, used, left, total, failed in zip(
            state.disk_broker.tolist(),
            state.disk_path,
            state.disk_used.tolist(),
            arriving.tolist(),
            state.disk_total.tolist(),
            state.disk_failed.tolist(),
            strict=True,
        )
    )
