"""Replanning a balance of bytes: the plan's end on today's sizes, and the fewest changes that reach it."""

from dataclasses import replace

from kafkakit.core.certificate import Certificate, Proof, ProofKind, certificate
from kafkakit.core.errors import InfeasibleError
from kafkakit.placement.by_size.layout import Disks, LoadsNow, bytes_now
from kafkakit.placement.by_size.lp_relaxation import BalanceProblem, RangeGoal, demand_groups_of
from kafkakit.placement.by_size.proof import argument_of
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.by_size.tightening import tightest_relaxed, why_not
from kafkakit.placement.minimal import substitute
from kafkakit.topicmappr.decide.replan.goal import Kind, PlanGoal
from kafkakit.topicmappr.decide.replan.limits import PlanLimits
from kafkakit.topicmappr.decide.replan.places import Places
from kafkakit.topicmappr.decide.replan.situation import MoveState, ReplannedPartition
from kafkakit.topicmappr.decide.replan.solved import ReplanProblem, Solved, copies_under_way
from kafkakit.topicmappr.decide.size_source import Sizes

Lists = list[tuple[int, ...]]


def solve_bytes(places: Places, goal: PlanGoal, sizes: Sizes, plan_limits: PlanLimits | None) -> Solved:
    """New lists in the order of the rows: those of the plan where they keep the goal, else with few deviations.

    First only copies that are still to be made are sent elsewhere, which copies no byte more; where that is not
    enough any replica may move. Raises `InfeasibleError` when nothing brings the loads inside the goal. Cost: at
    most two plans and a bound on arrays.
    """
    start = [_standing(places, row, i) for i, row in enumerate(places.rows)]
    problem = replace(_world(places, goal, sizes, start), limits=plan_limits)
    table = problem.table(start)
    loads, limits = table.loads(table.home), problem.balance.limits
    reached = problem.balance.measure(loads)
    planned = all(row.start == new for row, new in zip(places.rows, start, strict=True))
    inside = reached <= goal.max_deviation and bool((loads <= limits.ceiling).all())
    inside = inside and (plan_limits is None or plan_limits.kept(start))
    lists: Lists = start
    if not inside:
        found = problem.repaired(table, goal.max_deviation)
        if found is None:
            raise _impossible(problem, table, goal)
        lists = [_in_place(row, new) for row, new in zip(places.rows, places.lists_of(table, found.at), strict=True)]
        lists = lists if plan_limits is None else plan_limits.led(table, lists)
    return Solved(
        lists=tuple(lists),
        holds=inside and planned,
        certificate=_certify(problem, goal, lists),
        leads_to=goal.shown(reached),
    )


def _in_place(row: ReplannedPartition, new: tuple[int, ...]) -> tuple[int, ...]:
    """The planned list where it is still the one; else copies that are there keep their places."""
    if set(new) == set(row.start):
        return row.start
    if set(new) == set(row.live):
        return row.live
    return substitute(row.live, set(new), [b for b in new if b not in row.live])


def _standing(places: Places, row: ReplannedPartition, i: int) -> tuple[int, ...]:
    """The planned list, where planned copies that can no longer be made fall back to the copies they replace."""
    if row.under_way:
        return row.start
    if i in places.stranded:
        return row.live
    if not (places.regrouped and not places.rule_allows(row.start, row.live)):
        usable = {*places.receivers, *row.live}
        spare = iter([b for b in row.live if b not in row.start])
        fallen = tuple(b if b in usable else next(spare, b) for b in row.start)
        if fallen == row.start or (len(set(fallen)) == len(fallen) and places.rule_allows(fallen, row.live)):
            return fallen
    return row.live


def _world(places: Places, goal: PlanGoal, sizes: Sizes, start: Lists) -> ReplanProblem:
    weights = [row.size or 0 for row in places.rows]
    held: dict[int, int] = {}
    for row, weight in zip(places.rows, weights, strict=True):
        for b in row.partition.replicas:
            copies = row.partition.replica_bytes
            # A copy that is being made counts as far as it has come; used bytes count it so too.
            held[b] = held.get(b, 0) + (copies.get(b, 0) if copies and b in row.partition.adding else weight)
    disks = Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=goal.max_use, head_room=goal.head_room)
    banded = goal.kind is Kind.BAND
    now = _with_old_room(bytes_now(held, disks, places.brokers, by_free=not banded), places, weights)
    table = places.table(start, weights, now)
    demand = demand_groups_of(table)
    stays = dict(zip(table.brokers, demand.loose.tolist(), strict=True))
    caps = {b: max(0, stays.get(b, 0)) for b in places.leaving}
    limits = now.limits(table, places.targets, caps)
    if not banded:
        return ReplanProblem(places, weights, now, RangeGoal(limits))
    loads = table.loads(table.home)
    leaving = [k for k, b in enumerate(table.brokers) if b in places.leaving]
    total = int(loads[limits.even].sum()) + int((loads - demand.loose)[leaving].sum())
    return ReplanProblem(places, weights, now, now.band(table, limits, total))


def _with_old_room(now: LoadsNow, places: Places, weights: list[int]) -> LoadsNow:
    """A broker that was above its limit may end as full as it was when the plan was made, though copies have left."""
    room = dict(now.room)
    ended: dict[int, int] = {}
    for row, weight in zip(places.rows, weights, strict=True):
        if row.state is MoveState.DONE and row.move is not None:
            for b in row.move.removing:
                ended[b] = ended.get(b, 0) + weight
            for b in row.move.adding:
                ended[b] = ended.get(b, 0) - weight
    for b, less in ended.items():
        if b in room and b in places.receivers:
            room[b] = max(room[b], less)
    return replace(now, room=room)


def _certify(problem: ReplanProblem, goal: PlanGoal, lists: Lists) -> Certificate:
    rows = problem.places.rows
    objective = sum(
        len(set(new) - set(row.live)) * weight
        for row, new, weight in zip(rows, lists, problem.weights, strict=True)
        if not row.foreign
    )
    forced = copies_under_way(rows, "bytes")
    proven = problem.proven(goal.max_deviation, objective - forced)
    if proven is None:
        words = "nothing is proven: moves that are done or run have left a state that the bound does not cover"
        return certificate("bytes", objective, 0, words, Proof(kind=ProofKind.NONE))
    live, window, proof = proven
    words = argument_of(live, window)
    if forced:
        words += "; copies that are being made now count on both sides"
    return certificate("bytes", objective, window.bound.value + forced, words, proof)


def _impossible(case: ReplanProblem, table: SlotTable, goal: PlanGoal) -> InfeasibleError:
    problem = BalanceProblem.of(table, case.balance)
    window = problem.window(goal.max_deviation)
    if window.possible:
        return InfeasibleError(
            f"no way to {goal.words}{f' that keeps {case.limits.words}' if case.limits else ''} was found from the "
            "plan's present state; it is not proven impossible",
            hint="make a new plan with a looser goal, or allow more with --slack",
        )
    reason = why_not(table, problem.demand, window, case.places.racks)
    nearest = tightest_relaxed(problem, problem.today())
    return InfeasibleError(
        f"{goal.words} cannot be reached any more: {reason}",
        hint=f"the nearest that may be: {goal.shown(nearest)}; allow more with --slack, or make a new plan",
    )
