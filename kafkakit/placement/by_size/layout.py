"""From a scope and what is known of disks to the arrays of the balance: loads, hard limits, who may give and take."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.placement.broker_disks import DirStorage, takes_copies
from kafkakit.placement.by_size.lp_relaxation import BandGoal, LoadLimits, shares, shares_within
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.placement.problem import PlannedPartition

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """What the brokers' disks hold and may hold; bytes by broker id.

    `max_use` is the part of a disk that may be full after the plan, `head_room` bytes stay free besides. A broker
    that is beyond that already may stay so, but gets nothing. `shut` brokers get nothing, whatever their dirs say.
    """

    storage: Mapping[int, BrokerStorage]
    log_dirs: Mapping[int, Sequence[DirStorage]]
    max_use: Fraction
    head_room: int = 0
    shut: frozenset[int] = frozenset()

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
        """False when the broker, or every log dir of it, is cordoned or broken."""
        return broker not in self.shut and takes_copies(self.log_dirs.get(broker, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsNow:
    """By broker id: load that is there besides the scope's copies, load now, room for more; capacity and free bytes.

    The `fixed` load comes from where copies are now, whatever lists a table is made of: a map or an older plan is
    judged by the lists it leads to, on disks as they are.
    """

    fixed: Mapping[int, int]
    load: Mapping[int, int]
    room: Mapping[int, int]
    capacity: Mapping[int, int]
    free: Mapping[int, int]

    def limits(self, table: SlotTable, even: Collection[int], caps: Mapping[int, int]) -> LoadLimits:
        """No broker ends above today's load plus room, nor above its entry in `caps`; `even` are to be balanced."""
        import numpy as np

        ceiling = [self.load[b] + self.room[b] for b in table.brokers]
        lowered = [min(high, caps.get(b, high)) for b, high in zip(table.brokers, ceiling, strict=True)]
        count = len(table.brokers)
        return LoadLimits(
            floor=np.zeros(count, dtype=np.int64),
            ceiling=np.array(lowered, dtype=np.int64),
            even=np.array([b in even for b in table.brokers], dtype=bool),
            offset=np.zeros(count, dtype=np.int64),
        )

    def band(self, table: SlotTable, limits: LoadLimits, total: int, *, within_racks: bool = False) -> BandGoal:
        """A band around shares of the total, by capacity where that of every even broker is known.

        `within_racks` the shares are of what the even brokers of the rack hold now.
        """
        capacity = [self.capacity[b] for b in table.brokers]
        known = all(c > 0 for c, even in zip(capacity, limits.even.tolist(), strict=True) if even)
        weight = capacity if known else [1] * len(capacity)
        if within_racks:
            return BandGoal(limits, shares_within(table.loads(table.home), weight, limits.even, table.pool))
        return BandGoal(limits, shares(total, weight, limits.even))


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
        if (s := disks.storage.get(b)) is not None
        and s.free_bytes is not None
        and (by_free or s.used_bytes is not None)
    }
    free = {b: known[b].free_bytes or 0 if b in known else 0 for b in brokers}
    level = max((free[b] + held.get(b, 0) for b in known), default=0)
    load = {b: held.get(b, 0) for b in brokers}
    for b, s in known.items():
        load[b] = level - free[b] if by_free else (s.used_bytes or 0)
    return LoadsNow(
        fixed={b: load[b] - held.get(b, 0) for b in brokers},
        load=load,
        room={b: disks.room(b) if b in known else 0 for b in brokers},
        capacity={b: known[b].capacity_bytes or 0 if b in known else 0 for b in brokers},
        free=free,
    )


def counts_now(held: Mapping[int, int], brokers: Collection[int], most: int) -> LoadsNow:
    """Loads in replicas of the scope alone; every broker has room for `most`."""
    return LoadsNow(
        fixed=dict.fromkeys(brokers, 0),
        load={b: held.get(b, 0) for b in brokers},
        room=dict.fromkeys(brokers, most),
        capacity=dict.fromkeys(brokers, 1),
        free=dict.fromkeys(brokers, 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """The arrays, and what brokers carry besides; `rule` is the rack rule by names."""

    table: SlotTable
    rule: SpreadRule
    now: LoadsNow


def lay_out(
    partitions: Sequence[PlannedPartition],
    sizes: Mapping[TopicPartition, int],
    racks: Mapping[int, str | None],
    rule: SpreadRule,
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
) -> SlotLayout:
    """Make the arrays, with loads as of `bytes_now`; `targets` take part even if they neither hold nor receive.

    A partition without a known size must be pinned, and weighs nothing. O(replicas).
    """
    lists = [p.current for p in partitions]
    weights = [sizes.get(p.key, 0) for p in partitions]
    held = held_by(lists, weights)
    now = bytes_now(held, disks, {*held, *receivers, *targets}, by_free=by_free)
    table = make_table(
        lists,
        weights,
        racks,
        rule,
        receivers={b for b in receivers if disks.receives(b)},
        givers=givers,
        pinned=pinned,
        smallest=smallest,
        fixed=now.fixed,
        locality_scoped=locality_scoped,
        most_broken=most_broken,
        topics=[p.key.topic for p in partitions],
        keys=[p.key for p in partitions],
    )
    return SlotLayout(table=table, rule=rule, now=now)


def lists_of(table: SlotTable, at: Ints) -> list[tuple[int, ...]]:
    """Replica lists again, each copy in the place of the one it replaces. O(replicas)."""
    import numpy as np

    ids = np.array(table.brokers, dtype=np.int64)[at].tolist()
    first = table.first.tolist()
    return [tuple(ids[a:b]) for a, b in itertools.pairwise(first)]
