"""Small clusters, searched to the end: most copies placed, then the smallest range of free bytes, then fewest bytes.

An integer program in which every partition chooses its brokers, solved for one aim after the other; at last, and
without proof, brokers inside the range are brought close to the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.placement.rebuild_bytes.task import Row, Task

LARGEST = 1200
"""Choices (partition x broker) up to which a cluster counts as small."""
_WORK = (1.0, 1.0, 0.5, 0.1)
"""CP-SAT's deterministic time for each aim; about as many seconds, and the same on every machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The brokers of each partition (unordered), and whether each aim in turn is proven."""

    sets: tuple[frozenset[int], ...]
    most_placed: bool
    least_range: bool
    least_bytes: bool


def is_small(task: Task) -> bool:
    """True when the integer program is small enough to be solved to the end."""
    return len(task.kept) * len(task.problem.targets) <= LARGEST


def choose_small(task: Task, start: Sequence[Row], range_bound: int) -> Chosen:
    """The best sets of brokers found; `start` is a legal placement to begin with, `range_bound` is proven."""
    model = _Model(task)
    model.aim_range(range_bound)
    best = tuple(frozenset(row) for row in start)
    wanted = sum(map(len, task.rows))
    most = wanted * (len(start) + 1) + sum(1 for row in task.rows if row)
    value = sum(map(len, best)) * (len(start) + 1) + sum(1 for chosen in best if chosen)
    placed_all = value == most
    if not placed_all:
        best, placed_all, value = model.solve(-model.placed, best, -value, _WORK[0])
        value = -value
    model.program.add(model.placed >= value)
    least = task.range_after([tuple(sorted(chosen)) for chosen in best])
    proven = least <= range_bound
    if not proven:
        best, proven, least = model.solve(model.high - model.low, best, least, _WORK[1])
    model.program.add(model.high - model.low <= least)
    cost = model.cost_of(best)
    cheapest = cost == 0
    if not cheapest:
        best, cheapest, cost = model.solve(model.cost, best, cost, _WORK[2])
    model.program.add(model.cost <= cost)
    best, _, _ = model.solve(*model.away_from_mean(best), _WORK[3])
    return Chosen(
        sets=best,
        most_placed=placed_all,
        least_range=placed_all and proven,
        least_bytes=placed_all and proven and cheapest,
    )


class _Model:
    """Variables: partition p on broker b; what is free at least and at most."""

    def __init__(self, task: Task) -> None:
        from ortools.sat.python import cp_model

        self.program: Any = cp_model.CpModel()
        self.task = task
        self.choice: dict[tuple[int, int], Any] = {}
        self.low: Any = 0
        self.high: Any = 0
        self.given: dict[int, Any] = {b: task.free[b] for b in task.problem.targets}
        room: dict[int, Any] = dict(task.room)
        arrives: dict[int, list[Any]] = {b: [] for b in task.problem.targets}
        placed: list[Any] = []
        cost: list[Any] = []
        for p, kept in enumerate(task.kept):
            mine = self._partition(p)
            for b, x in mine.items():
                delta = task.size[p] * (1 - x) if b in kept else -task.reserve[p] * x
                self.given[b] = self.given[b] + delta
                room[b] = room[b] + delta
                if b not in kept:
                    arrives[b].append(x)
                    cost.append(task.size[p] * x)
            placed += self._placed(p, mine)
        for b in task.problem.targets:
            self._fits(b, room[b], arrives[b])
        self.placed: Any = sum(placed)
        self.cost: Any = sum(cost)

    def _partition(self, p: int) -> dict[int, Any]:
        """The partition's choices; replicas that must stay are none."""
        task = self.task
        kept, wanted = task.kept[p], len(task.rows[p])
        fixed = () if task.forced else kept
        mine: dict[int, Any] = {}
        if len(fixed) < wanted:
            for b in task.problem.targets:
                if b not in fixed and (b in task.receivers or b in kept):
                    mine[b] = self.choice[p, b] = self.program.new_bool_var(f"p{p}b{b}")
            self.program.add(sum(mine.values()) <= wanted - len(fixed))
            self._racks(fixed, mine, wanted)
        return mine

    def _placed(self, p: int, mine: dict[int, Any]) -> list[Any]:
        """What the partition adds to the first aim: its copies, and that it has any at all."""
        weight = len(self.task.kept) + 1
        fixed = 0 if self.task.forced else len(self.task.kept[p])
        some: Any = 1 if fixed else 0
        if not fixed and mine:
            some = self.program.new_bool_var("")
            self.program.add(some <= sum(mine.values()))
        return [weight * (fixed + sum(mine.values())), some]

    def _racks(self, fixed: Row, mine: dict[int, Any], wanted: int) -> None:
        problem = self.task.problem
        minimum = problem.rule.min_rack_ids
        by_rack: dict[str, list[Any]] = {}
        for b, x in mine.items():
            if rack := problem.rack_of(b):
                by_rack.setdefault(rack, []).append(x)
        if problem.rule.spread_over:
            self._spread(fixed, mine, by_rack, wanted)
            return
        standing = {rack for b in fixed if (rack := problem.rack_of(b))}
        repeats: Any = self.program.new_bool_var("") if minimum else None
        used: list[Any] = [1] * len(standing)
        for rack, inside in sorted(by_rack.items()):
            most = 0 if rack in standing else 1
            if not minimum:
                self.program.add(sum(inside) <= most)
                continue
            self.program.add(sum(inside) <= most).only_enforce_if(repeats.negated())
            if rack not in standing:
                taken = self.program.new_bool_var("")
                self.program.add(taken <= sum(inside))
                used.append(taken)
        if minimum:
            self.program.add(sum(used) >= minimum).only_enforce_if(repeats)

    def _spread(self, fixed: Row, mine: dict[int, Any], by_rack: dict[str, list[Any]], wanted: int) -> None:
        """Racks differ by one at most, once every copy is placed; where no placing does that, no rack is crowded more.

        What a rack lacks below the fullest, less one, is for the copies that are not placed.
        """
        problem = self.task.problem
        rule, racks = problem.rule, [problem.rack_of(b) for b in fixed]
        broken = rule.violates(racks, wanted - len(fixed))
        top = self.program.new_int_var(0, wanted, "")
        lacks: list[Any] = []
        for rack in rule.spread_over:
            inside = racks.count(rack) + sum(by_rack.get(rack, ()))
            if broken and rack in by_rack:
                self.program.add(inside <= max(rule.share(wanted), racks.count(rack)))
            lack = self.program.new_int_var(0, wanted, "")
            self.program.add(top >= inside)
            self.program.add(lack >= top - 1 - inside)
            lacks.append(lack)
        if not broken:
            self.program.add(sum(lacks) <= wanted - len(fixed) - sum(mine.values()))

    def _fits(self, broker: int, room: Any, arrives: list[Any]) -> None:
        if not arrives:
            return
        if self.task.room[broker] >= 0:
            self.program.add(room >= 0)
            return
        busy = self.program.new_bool_var("")
        for x in arrives:
            self.program.add(x <= busy)
        self.program.add(room >= 0).only_enforce_if(busy)

    def aim_range(self, bound: int) -> None:
        """Tie the ends to what is free; the range is never below what is proven."""
        values = self.given.values()
        reach = sum(abs(f) for f in self.task.free.values()) + sum(
            max(s, r) * max(len(kept), len(row))
            for s, r, kept, row in zip(self.task.size, self.task.reserve, self.task.kept, self.task.rows, strict=True)
        )
        self.low = self.program.new_int_var(-reach, reach, "low")
        self.high = self.program.new_int_var(-reach, reach, "high")
        for given in values:
            self.program.add(given >= self.low)
            self.program.add(given <= self.high)
        self.program.add(self.high - self.low >= bound)

    def cost_of(self, sets: Sequence[frozenset[int]]) -> int:
        """The bytes of all new copies."""
        return sum(s * len(n - set(kept)) for s, n, kept in zip(self.task.size, sets, self.task.kept, strict=True))

    def away_from_mean(self, best: tuple[frozenset[int], ...]) -> tuple[Any, tuple[frozenset[int], ...], int]:
        """How far brokers are from the mean of the best placement, all together: goal, that placement, its value."""
        free = self.task.free_after([tuple(sorted(chosen)) for chosen in best])
        mean = sum(free.values()) // max(1, len(free))
        reach = sum(abs(f) for f in free.values()) + sum(map(abs, self.task.free.values())) + abs(mean)
        away = []
        for given in self.given.values():
            distance = self.program.new_int_var(0, 2 * reach, "")
            self.program.add(distance >= given - mean)
            self.program.add(distance >= mean - given)
            away.append(distance)
        return sum(away), best, sum(abs(f - mean) for f in free.values())

    def solve(
        self, goal: Any, best: tuple[frozenset[int], ...], value: int, work: float
    ) -> tuple[tuple[frozenset[int], ...], bool, int]:
        """Minimise from the best known on, on one thread and with a fixed seed; returns sets, proven, value."""
        from ortools.sat.python import cp_model

        self.program.clear_hints()
        for (p, b), x in self.choice.items():
            self.program.add_hint(x, b in best[p])
        self.program.minimize(goal)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.presolve_inclusion_work_limit = 0  # overflows with large sizes, see storage/small.py
        solver.parameters.max_deterministic_time = work
        solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone
        status = solver.solve(self.program)
        proven = status == cp_model.OPTIMAL
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE) or round(solver.value(goal)) >= value:
            return best, proven, value
        found = [set() if self.task.forced else set(kept) for kept in self.task.kept]
        for (p, b), x in self.choice.items():
            if solver.value(x):
                found[p].add(b)
        return tuple(frozenset(chosen) for chosen in found), proven, round(solver.value(goal))
