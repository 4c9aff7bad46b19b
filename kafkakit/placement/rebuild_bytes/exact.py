"""Small clusters, solved exactly: most copies placed, then the smallest range of free bytes, then fewest bytes.

At last, and without proof, brokers inside the range are brought close to the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkakit.placement.bytes.exact import ExactModel
from kafkakit.placement.rebuild_bytes.arrays import arrays_of
from kafkakit.placement.rebuild_bytes.task import Row, Task
from kafkakit.placement.watch import Watch

LARGEST = 1200
"""Choices (partition x broker) up to which a cluster counts as small."""
_WORK = (1.0, 1.0, 0.5, 0.1)
"""CP-SAT's deterministic time for each goal; about as many seconds, and the same on every machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The brokers of each partition (unordered), and whether each goal in turn is proven."""

    sets: tuple[frozenset[int], ...]
    most_placed: bool
    least_range: bool
    least_bytes: bool


def is_small(task: Task) -> bool:
    """True when the integer program is small enough to be solved to the end."""
    return len(task.kept) * len(task.problem.targets) <= LARGEST


def choose_small(task: Task, start: Sequence[Row], range_bound: int, watch: Watch) -> Chosen:
    """The best sets of brokers found; `start` is a legal placement to begin with, `range_bound` is proven."""
    arrays = arrays_of(task, task.rows, {})
    table = replace(arrays.table, most_broken=0) if task.forced else arrays.table
    index = {b: i for i, b in enumerate(table.brokers)}
    model = ExactModel(
        table, arrays.limits, size=task.size, reserve=task.reserve, slides=True, has_openings=True, watch=watch
    )
    model.program.add(model.width >= range_bound)
    model.best = tuple(frozenset(index[b] for b in row) for row in start)

    def brokers() -> tuple[frozenset[int], ...]:
        return tuple(frozenset(table.brokers[i] for i in chosen) for chosen in model.best)

    weight = len(start) + 1
    most = weight * sum(map(len, task.rows)) + sum(1 for row in task.rows if row)
    placed = weight * sum(map(len, start)) + sum(1 for row in start if row)
    placed_all, _ = model.minimize(-model.placed(), known=-placed, least=-most, work=_WORK[0])
    reached = task.range_after([tuple(sorted(chosen)) for chosen in brokers()])
    narrowest, _ = model.minimize(model.width, known=max(reached, range_bound), least=range_bound, work=_WORK[1])
    cost = sum(s * len(n - {*kept}) for s, n, kept in zip(task.size, brokers(), task.kept, strict=True))
    cheapest, _ = model.minimize(model.cost, known=cost, least=0, work=_WORK[2])
    loads = model.loads_of_best()
    even = [index[b] for b in task.problem.targets]
    mean = sum(loads[b] for b in even) // max(1, len(even))
    away = sum(abs(loads[b] - mean) for b in even)
    model.minimize(model.distance(even, mean), known=away, work=_WORK[3])
    return Chosen(
        sets=brokers(),
        most_placed=placed_all,
        least_range=placed_all and narrowest,
        least_bytes=placed_all and narrowest and cheapest,
    )
