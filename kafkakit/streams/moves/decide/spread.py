"""Streams spread over clusters: the largest use of a stated capacity as small as it can be, then the least load moved.

Solved exactly with CP-SAT where streams times clusters are few, with its bound; else the heaviest stream goes to the
emptiest cluster first (Graham's LPT), and single moves improve on that, against the bound that every plan has.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PPM = 1_000_000
LARGEST = 20_000
"""Choices (streams x clusters) up to which the plan is solved exactly."""
LARGEST_PPM = 1 << 50
"""A use that sums of 64 bits have room for."""
WORK = 8.0
"""CP-SAT's deterministic time for each of the two goals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadItem:
    """A stream with its load; `home` is the cluster where it is and may stay, None where it has to leave."""

    load: int
    home: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadProblem:
    """What is spread: `capacities` of the clusters and what they carry that does not move, in the unit of loads."""

    items: tuple[SpreadItem, ...]
    capacities: tuple[int, ...]
    fixed: tuple[int, ...]

    def use_ppm(self, cluster: int, load: int) -> int:
        """A load as millionths of a cluster's capacity, rounded up."""
        return -(-load * PPM // self.capacities[cluster])

    def bound_ppm(self) -> int:
        """What no plan is below: all capacities evenly used, the largest stream alone, and what does not move."""
        total = sum(self.fixed) + sum(item.load for item in self.items)
        even = -(-total * PPM // sum(self.capacities))
        clusters = range(len(self.capacities))
        alone = (min(self.use_ppm(c, self.fixed[c] + item.load) for c in clusters) for item in self.items)
        return max(even, max(alone, default=0), *(self.use_ppm(c, self.fixed[c]) for c in clusters))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadAnswer:
    """The cluster of each stream, the largest use, what no plan is below, and whether that is proven to be reached."""

    at: tuple[int, ...]
    largest_ppm: int
    bound_ppm: int
    is_proven: bool


def spread(problem: SpreadProblem, within_ppm: int = 0) -> SpreadAnswer:
    """Choose a cluster for each stream; with the least load moved where the largest use may be `within_ppm` higher.

    The same answer for the same problem on every machine. Bytes of memory: about 1 kB a choice.
    """
    bound = problem.bound_ppm()
    limit = bound * (PPM + within_ppm) // PPM
    at = _improved(problem, _first(problem), limit)
    is_small = len(problem.items) * len(problem.capacities) <= LARGEST and _rounded(problem, at) < LARGEST_PPM
    if problem.items and is_small:
        at, bound = _solved(problem, at, bound, within_ppm)
    largest = _largest(problem, at)
    is_proven = largest <= bound * (PPM + within_ppm) // PPM + _slack(problem)
    return SpreadAnswer(at=tuple(at), largest_ppm=largest, bound_ppm=bound, is_proven=is_proven)


def loads_of(problem: SpreadProblem, at: Sequence[int]) -> list[int]:
    """The load of each cluster."""
    loads = list(problem.fixed)
    for item, cluster in zip(problem.items, at, strict=True):
        loads[cluster] += item.load
    return loads


def _largest(problem: SpreadProblem, at: Sequence[int]) -> int:
    return max((problem.use_ppm(c, load) for c, load in enumerate(loads_of(problem, at))), default=0)


def _first(problem: SpreadProblem) -> list[int]:
    """Streams that may stay stay; the others go, the heaviest first, to where the use is then smallest."""
    at = [-1 if item.home is None else item.home for item in problem.items]
    loads = list(problem.fixed)
    for item, cluster in zip(problem.items, at, strict=True):
        if cluster >= 0:
            loads[cluster] += item.load
    leaving = [number for number, cluster in enumerate(at) if cluster < 0]
    for number in sorted(leaving, key=lambda each: (-problem.items[each].load, each)):
        load = problem.items[number].load
        best = min(range(len(loads)), key=lambda c: (problem.use_ppm(c, loads[c] + load), c))
        at[number] = best
        loads[best] += load
    return at


def _improved(problem: SpreadProblem, at: list[int], limit_ppm: int) -> list[int]:
    """Single moves off the fullest cluster, each the one that lowers the larger of both uses most, down to a limit."""
    loads = loads_of(problem, at)
    clusters = range(len(loads))
    placed = sorted((item.load, number, at[number]) for number, item in enumerate(problem.items) if item.load > 0)
    there = [[(load, number) for load, number, c in placed if c == cluster] for cluster in clusters]
    for _ in range(2 * len(at)):
        hot = max(clusters, key=lambda c: (problem.use_ppm(c, loads[c]), -c), default=0)
        now = problem.use_ppm(hot, loads[hot]) if loads else 0
        if now <= limit_ppm:
            break
        found = _best_move(problem, loads, hot, there[hot])
        if found is None or found[0] >= now:
            break
        _, number, cluster = found
        load = problem.items[number].load
        there[hot].remove((load, number))
        insort(there[cluster], (load, number))
        loads[hot] -= load
        loads[cluster] += load
        at[number] = cluster
    return at


def _best_move(
    problem: SpreadProblem, loads: Sequence[int], hot: int, streams: Sequence[tuple[int, int]]
) -> tuple[int, int, int] | None:
    """The smallest larger use after a move of one of `streams`, (load, number) in order; its number and its cluster.

    With the load moved, the use that is left falls and the use elsewhere rises: the best are where both meet.
    """
    others = [c for c in range(len(loads)) if c != hot]
    if not streams or not others:
        return None

    def left(stream: tuple[int, int]) -> int:
        return problem.use_ppm(hot, loads[hot] - stream[0])

    def reached(stream: tuple[int, int]) -> int:
        return min(problem.use_ppm(c, loads[c] + stream[0]) for c in others)

    meet = bisect_left(streams, True, key=lambda each: reached(each) >= left(each))
    best = min([reached(each) for each in streams[meet : meet + 1]] + [left(each) for each in streams[:meet][-1:]])
    first = bisect_left(streams, True, hi=meet, key=lambda each: left(each) <= best)
    end = bisect_left(streams, True, lo=meet, key=lambda each: reached(each) > best)
    number, load = min((number, load) for load, number in streams[first:end])
    return best, number, next(c for c in others if problem.use_ppm(c, loads[c] + load) <= best)


def _solved(problem: SpreadProblem, hint: list[int], bound: int, within_ppm: int) -> tuple[list[int], int]:
    """The smallest largest use, then the least load moved at it; returns the choice and the bound that was proven."""
    from ortools.sat.python import cp_model

    program: Any = cp_model.CpModel()
    clusters = range(len(problem.capacities))
    chosen = [[program.new_bool_var(f"{n}-{c}") for c in clusters] for n in range(len(problem.items))]
    largest = program.new_int_var(bound, max(bound, _rounded(problem, hint)), "largest")
    for row, cluster in zip(chosen, hint, strict=True):
        program.add_exactly_one(row)
        for c in clusters:
            program.add_hint(row[c], c == cluster)
    for c in clusters:
        uses = [problem.use_ppm(c, item.load) * row[c] for item, row in zip(problem.items, chosen, strict=True)]
        program.add(sum(uses) + problem.use_ppm(c, problem.fixed[c]) <= largest)
    program.minimize(largest)
    at, proven = _search(cp_model, program, chosen, hint)
    bound = max(bound, proven - _slack(problem))
    homes = [(n, item.home, item.load) for n, item in enumerate(problem.items) if item.home is not None]
    if not homes:
        return at, bound
    program.add(largest <= max(_rounded(problem, at), bound * (PPM + within_ppm) // PPM))
    # One more each, so that a stream without load stays where it is.
    program.minimize(sum((load + 1) * (1 - chosen[n][home]) for n, home, load in homes))
    return _search(cp_model, program, chosen, at)[0], bound


def _slack(problem: SpreadProblem) -> int:
    """What rounding up for each stream may have added to the use of a cluster."""
    return len(problem.items) + 1


def _rounded(problem: SpreadProblem, at: Sequence[int]) -> int:
    """The largest use as the program counts it: each load rounded up for itself."""
    uses = [problem.use_ppm(c, load) for c, load in enumerate(problem.fixed)]
    for item, cluster in zip(problem.items, at, strict=True):
        uses[cluster] += problem.use_ppm(cluster, item.load)
    return max(uses, default=0)


def _search(cp_model: Any, program: Any, chosen: list[list[Any]], known: list[int]) -> tuple[list[int], int]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = WORK
    solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone, and the command goes on
    status = solver.solve(program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return known, 0
    at = [next(c for c, var in enumerate(row) if solver.value(var)) for row in chosen]
    return at, int(solver.best_objective_bound)
