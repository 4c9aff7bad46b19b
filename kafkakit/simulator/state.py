"""The arrays of a simulation: brokers, disks, and every partition's copies in a row of slots."""

from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import SimCluster, SimPartition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

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
