"""What brokers carry besides the copies that a plan may place, so that one set of disks serves several placements.

A table's `fixed` load must come from where copies are now, whatever lists the table is made of: a map or an older
plan is judged by the lists it leads to, on disks as they are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.placement.bytes.layout import Disks
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.window import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsNow:
    """By broker id: load that is there besides the scope's copies, load now, room for more, and capacity in bytes."""

    fixed: Mapping[int, int]
    load: Mapping[int, int]
    room: Mapping[int, int]
    capacity: Mapping[int, int]

    def limits(self, table: SlotTable, even: Collection[int], caps: Mapping[int, int]) -> Limits:
        """No broker ends above today's load plus room, nor above its entry in `caps`; `even` are to be balanced."""
        import numpy as np

        ceiling = [self.load[b] + self.room[b] for b in table.brokers]
        lowered = [min(high, caps.get(b, high)) for b, high in zip(table.brokers, ceiling, strict=True)]
        count = len(table.brokers)
        return Limits(
            floor=np.zeros(count, dtype=np.int64),
            ceiling=np.array(lowered, dtype=np.int64),
            even=np.array([b in even for b in table.brokers], dtype=bool),
            offset=np.zeros(count, dtype=np.int64),
        )


def held_by(lists: Sequence[Sequence[int]], weights: Sequence[int]) -> dict[int, int]:
    """The load of the lists' copies on each broker. O(replicas)."""
    held: dict[int, int] = {}
    for row, weight in zip(lists, weights, strict=True):
        for broker in row:
            held[broker] = held.get(broker, 0) + weight
    return held


def bytes_now(held: Mapping[int, int], disks: Disks, brokers: Collection[int], *, by_free: bool) -> LoadsNow:
    """Loads in bytes: used ones, or, `by_free`, a constant less the free ones; `held` is what the scope has there.

    Brokers whose disks are not known (dead ones) load what they hold of the scope, and have no room.
    """
    known = {
        b: s
        for b in brokers
        if (s := disks.storage.get(b)) is not None and s.free_bytes is not None and s.used_bytes is not None
    }
    level = max(((s.free_bytes or 0) + held.get(b, 0) for b, s in known.items()), default=0)
    load = {b: held.get(b, 0) for b in brokers}
    for b, s in known.items():
        load[b] = level - (s.free_bytes or 0) if by_free else (s.used_bytes or 0)
    return LoadsNow(
        fixed={b: load[b] - held.get(b, 0) for b in brokers},
        load=load,
        room={b: disks.room(b) if b in known else 0 for b in brokers},
        capacity={b: known[b].capacity_bytes or 0 if b in known else 0 for b in brokers},
    )


def counts_now(held: Mapping[int, int], brokers: Collection[int], most: int) -> LoadsNow:
    """Loads in replicas of the scope alone; every broker has room for `most`."""
    return LoadsNow(
        fixed=dict.fromkeys(brokers, 0),
        load={b: held.get(b, 0) for b in brokers},
        room=dict.fromkeys(brokers, most),
        capacity=dict.fromkeys(brokers, 1),
    )
