"""The task as the byte balance sees it: a slot for every copy, openings as slots on brokers that may hold nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.placement.bytes.balance_goal import BalanceProblem, RangeGoal
from kafkakit.placement.bytes.layout import Disks, lay_out
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.window import Limits
from kafkakit.placement.rebuild_bytes.task import Row, Task

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools


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
    def limits(self) -> Limits:
        """The hard limits on loads."""
        return self.problem.balance.limits


def arrays_of(task: Task, rows: Sequence[Row], taken: Mapping[int, int]) -> Arrays:
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
    limits = Limits(
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


def without_repeats(task: Task) -> tuple[Row, ...]:
    """The rows of a forced task, with openings in place of kept copies that repeat a rack against the rule.

    The copy on the broker with the least free bytes goes; the first of the list stays.
    """
    if not task.forced:
        return task.rows
    problem = task.problem
    return tuple(
        _spread(task, row) if len(row) > 1 and problem.rule.violates(map(problem.rack_of, row)) else row
        for row in task.rows
    )


def _spread(task: Task, row: Row) -> Row:
    problem = task.problem
    while problem.rule.violates(map(problem.rack_of, row)):
        racks = [problem.rack_of(b) for b in row]
        crowded = [b for b, r in zip(row, racks, strict=True) if r and racks.count(r) > 1 and b != row[0]]
        leaving = min(crowded, key=lambda b: (task.free[b], b))
        opening = -1 - sum(1 for b in row if b < 0)
        row = tuple(opening if b == leaving else b for b in row)
    return row
