"""From a scope and what is known of disks to the arrays of the balance: loads, hard limits, who may give and take."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.placement.bytes.slots import SlotTable, make_table
from kafkakit.placement.bytes.window import Limits
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.problem import PlannedPartition

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """What the brokers' disks hold and may hold; bytes by broker id.

    `max_use` is the part of a disk that may be full after the plan, `head_room` bytes stay free besides. A broker
    that is beyond that already may stay so, but gets nothing.
    """

    storage: Mapping[int, BrokerStorage]
    log_dirs: Mapping[int, Sequence[DirStorage]]
    max_use: Fraction
    head_room: int = 0

    def room(self, broker: int) -> int:
        """How many bytes the broker may take."""
        disk = self.storage[broker]
        dirs = self.log_dirs.get(broker, ())
        free, capacity = disk.free_bytes or 0, disk.capacity_bytes
        if dirs:
            free = sum(d.usable_bytes or 0 for d in dirs if d.is_open)
        kept = self.head_room
        if capacity is not None:
            kept += capacity - int(capacity * self.max_use)
        return max(0, free - kept)

    def receives(self, broker: int) -> bool:
        """False when every log dir of the broker is cordoned or broken."""
        dirs = self.log_dirs.get(broker, ())
        return not dirs or any(d.is_open for d in dirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The arrays, and the brokers' facts in the order of `table.brokers`; `rule` is the rack rule by names."""

    table: SlotTable
    rule: GroupRule
    room: Ints
    free: Ints
    capacity: Ints

    def limits(self, even: Collection[int]) -> Limits:
        """Hard limits: no broker ends above today's load plus room; `even` are the brokers to be balanced."""
        import numpy as np

        table = self.table
        loads = table.loads(table.home)
        return Limits(
            floor=np.zeros(len(loads), dtype=np.int64),
            ceiling=loads + self.room,
            even=np.array([b in even for b in table.brokers], dtype=bool),
            offset=np.zeros(len(loads), dtype=np.int64),
        )


def lay_out(
    partitions: Sequence[PlannedPartition],
    sizes: Mapping[TopicPartition, int],
    racks: Mapping[int, str | None],
    rule: GroupRule,
    disks: Disks,
    *,
    by_free: bool,
    receivers: Collection[int],
    targets: Collection[int] = (),
    givers: Collection[int] | None = None,
    pinned: Collection[int] = (),
    smallest: int = 0,
    locality_scoped: bool = False,
    most_broken: int | None = None,
) -> Layout:
    """Make the arrays. A broker's load is its used bytes, or, `by_free`, a constant less its free bytes.

    `targets` take part even if they neither hold nor receive anything.

    Brokers outside `disks.storage` (dead ones) load what their copies weigh; a partition without a known size must
    be pinned, and weighs nothing. O(replicas).
    """
    import numpy as np

    lists = [p.current for p in partitions]
    weights = [sizes.get(p.key, 0) for p in partitions]
    held: dict[int, int] = {}
    for row, size in zip(lists, weights, strict=True):
        for b in row:
            held[b] = held.get(b, 0) + size
    brokers = sorted(set(held) | set(receivers) | set(targets))
    known = {b: s for b in brokers if (s := disks.storage.get(b)) is not None and s.free_bytes is not None}
    level = max(((s.free_bytes or 0) + held.get(b, 0) for b, s in known.items()), default=0)
    fixed = {}
    for b, s in known.items():
        load = level - (s.free_bytes or 0) if by_free else (s.used_bytes or 0)
        fixed[b] = load - held.get(b, 0)
    table = make_table(
        lists,
        weights,
        racks,
        rule,
        receivers={b for b in receivers if disks.receives(b)},
        givers=givers,
        pinned=pinned,
        smallest=smallest,
        fixed=fixed,
        locality_scoped=locality_scoped,
        most_broken=most_broken,
    )

    def array(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    return Layout(
        table=table,
        rule=rule,
        room=array([disks.room(b) if b in known else 0 for b in table.brokers]),
        free=array([known[b].free_bytes or 0 if b in known else 0 for b in table.brokers]),
        capacity=array([known[b].capacity_bytes or 0 if b in known else 0 for b in table.brokers]),
    )


def lists_of(table: SlotTable, at: Ints) -> list[tuple[int, ...]]:
    """Replica lists again, each copy in the place of the one it replaces. O(replicas)."""
    import numpy as np

    ids = np.array(table.brokers, dtype=np.int64)[at].tolist()
    first = table.first.tolist()
    return [tuple(ids[a:b]) for a, b in itertools.pairwise(first)]
