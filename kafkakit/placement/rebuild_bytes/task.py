"""What a placement by bytes has to do: which copies stay, which need a broker, and what each broker can take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.placement.bytes.layout import Disks
from kafkakit.placement.problem import PlacementProblem, PlannedPartition


def trim(
    problem: PlacementProblem, kept: Sequence[tuple[int, ...]], sizes: Sequence[int], free: Mapping[int, int]
) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """Cut lists that are longer than wanted; returns them and the free bytes that the leaving copies make.

    The largest partitions choose first. A copy that repeats a rack leaves before others, then one out of sync,
    then the one on the broker with the least free bytes; never the leader, so a copy in sync stays wherever the
    leader is in sync. O(cut partitions x replicas squared).
    """
    lists, now = list(kept), dict(free)
    due = [i for i, p in enumerate(problem.partitions) if len(kept[i]) > p.wanted]
    for i in sorted(due, key=lambda i: (-sizes[i], i)):
        partition = problem.partitions[i]
        while len(lists[i]) > partition.wanted:
            leaving = min(_candidates(lists[i], partition), key=lambda b: _order(problem, partition, lists[i], b, now))
            lists[i] = tuple(b for b in lists[i] if b != leaving)
            now[leaving] = now.get(leaving, 0) + sizes[i]
    return lists, now


def _candidates(row: tuple[int, ...], partition: PlannedPartition) -> tuple[int, ...]:
    """All but the leader, and but the only copy in sync."""
    leader = partition.current[0] if partition.current[0] in row else row[0]
    others = tuple(b for b in row if b != leader)
    in_sync = [b for b in row if partition.in_sync is not None and b in partition.in_sync]
    if len(in_sync) == 1:
        return tuple(b for b in others if b not in in_sync) or others
    return others


def _order(
    problem: PlacementProblem, partition: PlannedPartition, row: tuple[int, ...], broker: int, free: Mapping[int, int]
) -> tuple[bool, bool, int, int]:
    rack = problem.rack_of(broker)
    repeats = rack is not None and sum(problem.rack_of(b) == rack for b in row) > 1
    in_sync = partition.in_sync is None or broker in partition.in_sync
    return not repeats, in_sync, free.get(broker, 0), broker


Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Partitions by index; brokers by id.

    `kept[i]` are the replicas that may stay, in list order: on targets, or, unless forced, on others too.
    `rows[i]` is the list with an opening (-1, -2, ...) in the place of every copy that needs a broker, so it is as
    long as wanted. `size[i]` is what one copy holds, `reserve[i]` what a new one is counted as. `free` are the bytes
    free on each target before anything arrives, `room` those that new copies may take. When `forced`, kept
    replicas may move.
    """

    problem: PlacementProblem
    kept: tuple[Row, ...]
    rows: tuple[Row, ...]
    size: tuple[int, ...]
    reserve: tuple[int, ...]
    free: Mapping[int, int]
    room: Mapping[int, int]
    receivers: frozenset[int]
    forced: bool

    @property
    def plain(self) -> bool:
        """True when a new copy is counted as what it holds."""
        return self.size == self.reserve

    @property
    def openings(self) -> int:
        """How many copies need a broker."""
        return sum(1 for row in self.rows for b in row if b < 0)

    def free_after(self, lists: Sequence[Row]) -> dict[int, int]:
        """Free bytes of the targets when the partitions end on these lists: kafka-kit's estimate.

        What leaves gives its bytes back, what arrives takes its reserve, what stays changes nothing.
        """
        free = dict(self.free)
        for kept, new, size, reserve in zip(self.kept, lists, self.size, self.reserve, strict=True):
            if kept == new:
                continue
            for b in kept:
                if b not in new:
                    free[b] += size
            for b in new:
                if b not in kept:
                    free[b] -= reserve
        return free

    def range_after(self, lists: Sequence[Row]) -> int:
        """The range of free bytes over the targets."""
        free = self.free_after(lists).values()
        return max(free) - min(free) if free else 0


def make_task(problem: PlacementProblem, disks: Disks, *, factor: Fraction, forced: bool) -> Task:
    """Sort replicas into those that stay and those that need a broker. Every size must be known. O(replicas)."""
    size = tuple(p.size_bytes or 0 for p in problem.partitions)
    reserve = size if factor == 1 else tuple(math.ceil(s * factor) for s in size)
    kept: list[Row] = [
        p.current if stay == p.current else stay for p, stay in zip(problem.partitions, problem.staying(), strict=True)
    ]
    before = {b: disks.storage[b].free_bytes or 0 for b in problem.targets}
    kept, free = trim(problem, kept, size, before)
    rows = tuple(
        stay if len(stay) == p.wanted else with_openings(p.current, stay, p.wanted)
        for p, stay in zip(problem.partitions, kept, strict=True)
    )
    return Task(
        problem=problem,
        kept=tuple(kept),
        rows=rows,
        size=size,
        reserve=reserve,
        free=free,
        room={b: disks.room(b) + free[b] - before[b] for b in problem.targets},
        receivers=frozenset(b for b in problem.targets if disks.receives(b)),
        forced=forced,
    )


def with_openings(current: Row, stay: Row, wanted: int) -> Row:
    """Openings stand where a copy leaves, those of a higher replication factor at the end."""
    missing, row = wanted - len(stay), []
    for b in current:
        if b in stay:
            row.append(b)
        elif missing:
            row.append(-1 - sum(1 for taken in row if taken < 0))
            missing -= 1
    for _ in range(missing):
        row.append(-1 - sum(1 for taken in row if taken < 0))
    return tuple(row)


def filled(row: Row, chosen: Sequence[int], racks: Mapping[int, str | None]) -> Row:
    """The row with the chosen brokers in it: those that stay in their places, new ones where others leave.

    A new broker takes the place of one in its own rack first. Openings that are not filled close up.
    """
    new = sorted(b for b in chosen if b not in row)
    places: list[int | None] = [b if b in chosen else None for b in row]
    for same_rack in (True, False):
        for k, old in enumerate(row):
            if places[k] is None and new and (not same_rack or old >= 0):
                fitting = [b for b in new if racks.get(b) == racks.get(old)] if same_rack else new
                if fitting:
                    places[k] = fitting[0]
                    new.remove(fitting[0])
    return tuple(b for b in places if b is not None)
