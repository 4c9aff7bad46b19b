"""What a placement by bytes has to do: which copies stay, which need a broker, and what each broker can take.

As arrays for the byte balance, the task has a slot for every copy, and openings are slots on brokers that may hold
nothing. Why copies found no room is said in bytes: what they reserve, and how much less the brokers have that may take
them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.placement.by_size.layout import Disks, lay_out
from kafkakit.placement.by_size.lp_relaxation import BalanceProblem, LoadLimits, RangeGoal
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.openings import group_partitions
from kafkakit.placement.problem import PlacementProblem, PlannedPartition

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools


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
class RebuildTask:
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


def make_task(problem: PlacementProblem, disks: Disks, *, factor: Fraction, forced: bool) -> RebuildTask:
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
    return RebuildTask(
        problem=problem,
        kept=tuple(kept),
        rows=rows,
        size=size,
        reserve=reserve,
        free=free,
        room={b: disks.room(b) + free[b] - before[b] for b in problem.targets},
        receivers=frozenset(b for b in problem.taking if disks.receives(b)),
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


def fill_row(row: Row, chosen: Sequence[int], racks: Mapping[int, str | None]) -> Row:
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


def placeable_copies(task: RebuildTask) -> tuple[int, ...]:
    """How many copies of each partition racks and constraints let have a broker, were every disk empty.

    O(partitions); of copies that stay beside openings only those places are counted that are left beside them.
    """
    problem = task.problem
    grouping = problem.grouping_anew if task.forced else problem.grouping
    found = [len(row) for row in task.rows]
    due = (i for i, row in enumerate(task.rows) if task.forced or any(b < 0 for b in row))
    sets = {i: (() if task.forced else task.kept[i], len(task.rows[i])) for i in due}
    for group in group_partitions(sets, grouping, repairs=False):
        for i in group.members:
            found[i] = min(found[i], len(sets[i][0]) + group.room.units)
    return tuple(found)


def without_hopeless(rows: Sequence[Row], most: Sequence[int]) -> tuple[Row, ...]:
    """The rows without the openings that no plan can fill, so that the others can be placed as if these were not."""
    return tuple(
        row
        if len(row) <= n
        else (*(b for b in row if b >= 0), *[b for b in row if b < 0][: max(0, n - _count_real(row))])
        for row, n in zip(rows, most, strict=True)
    )


def _count_real(row: Row) -> int:
    return sum(1 for b in row if b >= 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """The problem, with a range of free bytes as goal; a broker's load is a constant less its free bytes.

    `placeholders` marks the brokers that openings lie on. `exact` is False when a copy's load differs between its
    old place and its new one, so that free bytes must be checked afterwards. `whole` is False when kept copies were
    turned into openings because of their racks: going back to their place then counts as a move.
    """

    problem: BalanceProblem
    placeholders: Bools
    exact: bool
    whole: bool

    @property
    def table(self) -> SlotTable:
        """The replica slots."""
        return self.problem.table

    @property
    def limits(self) -> LoadLimits:
        """The hard limits on loads."""
        return self.problem.balance.limits


def arrays_of(task: RebuildTask, rows: Sequence[Row], taken: Mapping[int, int]) -> Arrays:
    """Make the arrays of the task with these lists; `taken` are bytes that brokers must leave free besides.

    Where kept copies cannot move, every slot that moves is a new copy and weighs its reserve; else all weigh what
    they hold. O(replicas).
    """
    import numpy as np

    problem = task.problem
    weight = task.size if task.forced else task.reserve
    partitions = [
        p if p.current == row else replace(p, current=row) for p, row in zip(problem.partitions, rows, strict=True)
    ]
    free = dict(task.free)
    for row, kept, size in zip(rows, task.kept, task.size, strict=True):
        if row is not kept:
            for b in kept:  # kept copies that were turned into openings give their bytes back
                if b not in row:
                    free[b] += size
    placeholders = sorted({b for row in rows for b in row if b < 0})
    layout = lay_out(
        partitions,
        {p.key: w for p, w in zip(partitions, weight, strict=True)},
        problem.racks,
        problem.rule,
        Disks(
            storage={b: BrokerStorage(used_bytes=0, free_bytes=f) for b, f in free.items()},
            log_dirs={},
            max_use=Fraction(1),
        ),
        by_free=True,
        receivers=sorted(task.receivers),
        targets=problem.targets,
        givers=None if task.forced else placeholders,
    )
    table = layout.table
    loads = table.loads(table.home)
    is_placeholder = np.array([b < 0 for b in table.brokers], dtype=bool)
    spare = [task.room.get(b, 0) + free.get(b, 0) - task.free.get(b, 0) - taken.get(b, 0) for b in table.brokers]
    limits = LoadLimits(
        floor=np.zeros(len(loads), dtype=np.int64),
        ceiling=np.where(is_placeholder, 0, loads + np.array(spare, dtype=np.int64)),
        even=np.array([b in task.free for b in table.brokers], dtype=bool),
        offset=np.zeros(len(loads), dtype=np.int64),
    )
    whole = all(len(kept) <= sum(1 for b in row if b >= 0) for row, kept in zip(rows, task.kept, strict=True))
    return Arrays(
        problem=BalanceProblem.of(table, RangeGoal(limits)),
        placeholders=is_placeholder,
        exact=task.plain or not task.forced,
        whole=whole,
    )


def without_repeats(task: RebuildTask) -> tuple[Row, ...]:
    """The rows of a forced task, with openings in place of kept copies that repeat a rack against the rule.

    The copy on the broker with the least free bytes goes; the first of the list stays.
    """
    if not task.forced:
        return task.rows
    problem = task.problem
    return tuple(
        _spread_leaders(task, row) if len(row) > 1 and problem.rule.violates(map(problem.rack_of, row)) else row
        for row in task.rows
    )


def _spread_leaders(task: RebuildTask, row: Row) -> Row:
    problem = task.problem
    while problem.rule.violates(map(problem.rack_of, row)):
        racks = [problem.rack_of(b) for b in row]
        crowded = [b for b, r in zip(row, racks, strict=True) if r and racks.count(r) > 1 and b != row[0]]
        leaving = min(crowded, key=lambda b: (task.free[b], b))
        opening = -1 - sum(1 for b in row if b < 0)
        row = tuple(opening if b == leaving else b for b in row)
    return row


_NAMED = 5


def explain_shortage(
    task: RebuildTask, lists: Sequence[Row], missing: Collection[int], factor: Fraction, *, proven: bool
) -> tuple[str, ...]:
    """One reason a topic, its worst partition first; `missing` are the partitions whose room is too small.

    `proven` says that no placement holds more copies.
    """
    room = _room_after(task, lists)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for i in missing:
        by_topic[task.problem.partitions[i].key.topic].append(i)
    lines = []
    for topic, found in sorted(by_topic.items()):
        worst = max(found, key=lambda i: (task.reserve[i], -i))
        more = f" (and {count_of(len(found) - 1, 'more partition')} of it)" if len(found) > 1 else ""
        number = task.problem.partitions[worst].key.partition
        lines.append(f"topic {topic} p{number}{more} {_explain_shortage(task, worst, lists[worst], room)}")
    short = sum(task.reserve[i] * (len(task.rows[i]) - len(lists[i])) for i in missing)
    tail = "no placement fits more copies" if proven else "it is not proven that nothing more fits"
    factored = f" (sizes x {float(factor):g})" if factor != 1 else ""
    lines.append(f"{format_bytes(short)}{factored} of copies do not fit, {tail}")
    return tuple(lines)


def _room_after(task: RebuildTask, lists: Sequence[Row]) -> Mapping[int, int]:
    """How many bytes each receiver can still take, at most."""
    after = task.free_after(lists)
    return {b: max(0, task.room[b] - task.free[b] + after[b]) for b in sorted(task.receivers)}


def _explain_shortage(task: RebuildTask, i: int, row: Row, room: Mapping[int, int]) -> str:
    need = task.reserve[i]
    partition: PlannedPartition = task.problem.partitions[i]
    if words := task.problem.rule.closed.explain(partition.key, need, task.receivers - {*task.kept[i]}):
        return f"finds no place for every copy: {words}; free space there or add a broker"
    others = {b: left for b, left in room.items() if b not in task.kept[i]}
    shut = task.problem.closed_words
    if not others:
        return f"needs {format_bytes(need)} on another broker, and no listed broker takes copies{shut}"
    tags, topic = task.problem.rule.tags, partition.key.topic
    able = others if tags is None else {b: left for b, left in others.items() if tags.may_hold(topic, b)}
    name = f"needs {format_bytes(need)} a copy on {count_of(partition.wanted, 'broker')}"
    if tags is not None and len(able) < len(others):
        name = f"{name} that constraints leave to it ({tags.words(topic, sorted(others), partition.wanted)})"
    if not able:
        return f"{name}; let other brokers receive, or ask for less{shut}"
    best = max(able, key=lambda b: (able[b], -b))
    if able[best] < need:
        return (
            f"{name}; of the others broker {best} has the most free space, {format_bytes(able[best])}, "
            f"{format_bytes(need - able[best])} short; free space there or add a broker{shut}"
        )
    enough = [b for b, left in able.items() if left >= need and b not in row]
    return f"{name}; {_explain_obstacle(task.problem, partition, row, enough)}{shut}"


def _explain_obstacle(problem: PlacementProblem, partition: PlannedPartition, row: Row, enough: Sequence[int]) -> str:
    """What keeps a copy off the brokers that have space for it, beside those of the list."""
    shown = ", ".join(map(str, enough[:_NAMED])) + (", ..." if len(enough) > _NAMED else "")
    tags, held = problem.rule.tags, [problem.rack_of(b) for b in row]
    if not enough:
        return "every broker with that much free space holds one already; free space on others or add a broker"
    if tags is not None and not any(tags.keeps_spread(b, row, [*row, b]) for b in enough):
        words = tags.words(partition.key.topic, problem.taking, partition.wanted)
        return f"beside the others constraints exclude the brokers with that much free space ({shown}): {words}"
    if any(not problem.rule.violates([*held, problem.rack_of(b)]) for b in enough):
        return f"brokers with that much free space ({shown}) would have to make room for it; free space or add a broker"
    racks = ", ".join(sorted({problem.rack_of(b) or "none" for b in enough})[:_NAMED])
    return (
        f"the brokers with that much free space ({shown}) are in racks that the rule excludes ({racks}); "
        "free space in other racks or add a broker there"
    )
