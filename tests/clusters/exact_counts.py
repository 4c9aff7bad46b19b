"""Exact answers by CP-SAT and by enumeration, for comparison with the flow planners on small clusters."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ortools.sat.python import cp_model

from kafkakit.placement.problem import Minimize, PlannedPartition
from kafkakit.topicmappr.decide.requests import RebuildRequest
from tests.invariants.plan import breaks_rack_rule


def most_placeable(
    kept: Sequence[int], targets: Sequence[int], racks: Mapping[int, str | None], minimum: int, wanted: int
) -> int:
    """The largest set size up to `wanted` that extends `kept` without newly breaking the rack rule, by enumeration."""
    others = [b for b in targets if b not in kept]
    for extra in range(wanted - len(kept), 0, -1):
        if any(_fits(kept, new, racks, minimum) for new in combinations(others, extra)):
            return len(kept) + extra
    return len(kept)


def _fits(kept: Sequence[int], new: Sequence[int], racks: Mapping[int, str | None], minimum: int) -> bool:
    used = [racks[b] for b in kept if racks[b]]
    fresh = [racks[b] for b in new if racks[b]]
    repeats = len(fresh) - len(set(fresh) - set(used))
    return not repeats or (minimum > 0 and not breaks_rack_rule([*kept, *new], racks, minimum))


def exact_forced(
    partitions: Sequence[PlannedPartition],
    targets: Sequence[int],
    racks: Mapping[int, str | None],
    request: RebuildRequest,
    *,
    keep: bool = False,
) -> tuple[int, int]:
    """(least sum of squared counts, least cost of new copies at those counts), proven by CP-SAT.

    With `keep` every replica on a target stays.
    """
    model = cp_model.CpModel()
    x = {(i, b): model.new_bool_var(f"x{i}_{b}") for i in range(len(partitions)) for b in targets}
    for i, p in enumerate(partitions):
        model.add(sum(x[i, b] for b in targets) == p.wanted)
        kept = [b for b in p.current if b in targets] if keep else []
        for b in kept:
            model.add(x[i, b] == 1)
        _rack_rule(model, x, i, targets, racks, request.min_rack_ids, kept)
    squares = []
    for b in targets:
        load = model.new_int_var(0, len(partitions), f"load{b}")
        model.add(load == sum(x[i, b] for i in range(len(partitions))))
        square = model.new_int_var(0, len(partitions) ** 2, f"square{b}")
        model.add_multiplication_equality(square, [load, load])
        squares.append(square)
    model.minimize(sum(squares))
    least = _solve(model)
    model.add(sum(squares) == least)
    weight = [1 if request.minimize is Minimize.MOVES else p.size_bytes or 0 for p in partitions]
    model.minimize(sum(weight[i] * var for (i, b), var in x.items() if b not in partitions[i].current))
    return least, _solve(model)


def _rack_rule(
    model: cp_model.CpModel,
    x: Mapping[tuple[int, int], cp_model.IntVar],
    i: int,
    targets: Sequence[int],
    racks: Mapping[int, str | None],
    minimum: int,
    kept: Sequence[int],
) -> None:
    names = sorted({r for b in targets if (r := racks[b])})
    inside = {r: [x[i, b] for b in targets if racks[b] == r] for r in names}
    standing = {r: sum(1 for b in kept if racks[b] == r) for r in names}
    one_each = model.new_bool_var(f"one{i}")
    for r in names:
        model.add(sum(inside[r]) <= max(1, standing[r])).only_enforce_if(one_each)
    if minimum == 0:
        model.add(one_each == 1)
        return
    used = []
    for r in names:
        flag = model.new_bool_var(f"used{i}{r}")
        model.add(sum(inside[r]) >= 1).only_enforce_if(flag)
        used.append(flag)
    model.add(sum(used) >= minimum).only_enforce_if(~one_each)


def _solve(model: cp_model.CpModel) -> int:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(round(solver.best_objective_bound))  # noqa: RUF046
