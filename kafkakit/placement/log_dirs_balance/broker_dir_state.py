"""One broker's log dirs, the copies that come and go, and those that may change dirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.model import ClusterSnapshot, Partition, TopicPartition
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.placement.log_dirs import DirTable, dir_table
from kafkakit.placement.log_dirs_balance.rules import DirRules, measured
from kafkakit.placement.problem import PlannedPartition

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

TWO = 2


@dataclass(slots=True, kw_only=True)
class BrokerDirState:
    """The log dirs of one broker, by index in the order of their paths; bytes.

    `used` is what the known copies take now, `leaving` the part of it that the plan takes away, `room` how much
    more may come, `open` whether new copies may come at all. `arrivals` are (bytes, partition index) of copies that
    come to the broker, `standing` (bytes, partition index, dir) of copies that may change dirs, `unsized` counts
    arrivals of unknown size.
    """

    broker: int
    dirs: tuple[DirStorage, ...]
    used: list[int]
    room: list[int]
    open: list[bool]
    leaving: list[int]
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    standing: Sequence[tuple[int, int, int]] = ()
    unsized: int = 0

    @property
    def kept(self) -> list[int]:
        """What each dir holds once the leaving copies are gone."""
        return [u - gone for u, gone in zip(self.used, self.leaving, strict=True)]

    @property
    def capacity(self) -> list[int]:
        """The size of each dir's disk; 0 where it is not told."""
        return [d.total_bytes or 0 for d in self.dirs]


def dir_states_of(
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    pinned: Collection[TopicPartition] = (),
) -> tuple[BrokerDirState, ...]:
    """The brokers with two or more log dirs, by id, with what a plan brings and takes away.

    `after` are the planned lists in the order of `partitions`. Copies that may change dirs are looked up only when
    the rules have a band: O(replicas) then, else O(moved replicas).
    """
    dir_states = {b: _state(b, dirs, rules) for b, dirs in sorted(log_dirs.items()) if len(dirs) >= TWO}
    if not dir_states:
        return ()
    moved = [i for i, (p, new) in enumerate(zip(partitions, after, strict=True)) if new != p.current]
    facts = _facts(snapshot, {partitions[i].key.topic for i in moved})
    for i in moved:
        _add_move(dir_states, partitions[i], i, after[i], facts.get(partitions[i].key))
    if rules.band is not None:
        _add_standing(dir_states, snapshot, partitions, after, log_dirs, frozenset(pinned))
    return tuple(dir_states.values())


def _state(broker: int, dirs: Sequence[DirStorage], rules: DirRules) -> BrokerDirState:
    ordered = tuple(sorted(dirs, key=lambda d: d.path))
    whole = sum(d.total_bytes or 0 for d in ordered if d.error is None)
    return BrokerDirState(
        broker=broker,
        dirs=ordered,
        used=[d.replica_bytes for d in ordered],
        room=[rules.room(d, whole) for d in ordered],
        open=[d.is_open and measured(d) for d in ordered],
        leaving=[0] * len(ordered),
    )


def _facts(snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[TopicPartition, Partition]:
    return {TopicPartition(t.name, p.partition): p for t in snapshot.topics if t.name in topics for p in t.partitions}


def _add_move(
    dir_states: Mapping[int, BrokerDirState],
    p: PlannedPartition,
    index: int,
    new: tuple[int, ...],
    fact: Partition | None,
) -> None:
    for b in new:
        if b not in p.current and (dir_state := dir_states.get(b)) is not None:
            if p.size_bytes is None:
                dir_state.unsized += 1
            else:
                dir_state.arrivals.append((p.size_bytes, index))
    for b in p.current:
        dir_state = dir_states.get(b)
        path = fact.replica_dirs.get(b) if fact is not None else None
        if b not in new and dir_state is not None and path is not None and fact is not None:
            for n, d in enumerate(dir_state.dirs):
                if d.path == path:
                    dir_state.leaving[n] += fact.replica_bytes.get(b, 0 if fact.replica_bytes else fact.size_bytes or 0)


def _add_standing(
    dir_states: Mapping[int, BrokerDirState],
    snapshot: ClusterSnapshot,
    partitions: Sequence[PlannedPartition],
    after: Sequence[tuple[int, ...]],
    log_dirs: Mapping[int, Sequence[DirStorage]],
    pinned: Collection[TopicPartition],
) -> None:
    """Give each dir_state the copies of known size that stay on its broker and are not pinned."""
    import numpy as np

    table = dir_table(snapshot, [p.key for p in partitions], {b: tuple(dirs) for b, dirs in log_dirs.items()})
    lengths = np.fromiter((len(p.current) for p in partitions), dtype=np.int64, count=len(partitions))
    first = np.concatenate([[0], np.cumsum(lengths)])
    stays = (table.slot_dir >= 0) & (table.slot_bytes >= 0)
    for i, (p, new) in enumerate(zip(partitions, after, strict=True)):
        if p.key in pinned:
            stays[first[i] : first[i + 1]] = False
        elif new != p.current:
            for place, b in enumerate(p.current):
                stays[first[i] + place] &= b in new
    slots = np.nonzero(stays)[0]
    slots = slots[np.argsort(table.slot_dir[slots], kind="stable")]
    part = np.repeat(np.arange(len(partitions)), lengths)[slots]
    _hand_out(dir_states, table, slots, part)


def _hand_out(dir_states: Mapping[int, BrokerDirState], table: DirTable, slots: Ints, part: Ints) -> None:
    """Split slots, sorted by dir, over the dir_states of their brokers."""
    import numpy as np

    where, size = table.slot_dir[slots], table.slot_bytes[slots]
    for broker, dir_state in dir_states.items():
        own = table.of_broker(broker)
        begin, end = (int(np.searchsorted(where, edge)) for edge in (own.start, own.stop))
        rows = zip(
            size[begin:end].tolist(), part[begin:end].tolist(), (where[begin:end] - own.start).tolist(), strict=True
        )
        dir_state.standing = [row for row in rows if dir_state.open[row[2]]]
