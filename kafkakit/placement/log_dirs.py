"""Log dirs as arrays, for planners that place replicas in dirs: what each holds, and which dir each replica is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.model import ClusterSnapshot, Partition, TopicPartition
from kafkakit.placement.broker_disks import DirStorage

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

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
        total=_known([d.total_bytes for _, d in rows]),
        usable=_known([d.usable_bytes for _, d in rows]),
        held=np.array([d.replica_bytes for _, d in rows], dtype=np.int64),
        open=np.array([d.is_open for _, d in rows], dtype=bool),
        slot_dir=np.array(slot_dir, dtype=np.int64),
        slot_bytes=np.array(slot_bytes, dtype=np.int64),
    )


def _facts(snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[str, dict[int, Partition]]:
    return {t.name: {p.partition: p for p in t.partitions} for t in snapshot.topics if t.name in topics}


def _known(values: Sequence[int | None]) -> Ints:
    import numpy as np

    return np.array([UNKNOWN if v is None else v for v in values], dtype=np.int64)
