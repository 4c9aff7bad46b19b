"""Replanning by places and counts: what the plan leads to stays, what lost its place gets a new one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkakit.core.certificate import Certificate, Proof, ProofKind, certificate
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.placement.by_size.layout import counts_now
from kafkakit.placement.by_size.lp_relaxation import RangeGoal
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.minimal import substitute
from kafkakit.placement.openings import fill_openings, group_openings, pool_of
from kafkakit.topicmappr.decide.replan.goal import Kind, PlanGoal
from kafkakit.topicmappr.decide.replan.places import Places
from kafkakit.topicmappr.decide.replan.situation import MoveState, ReplannedPartition
from kafkakit.topicmappr.decide.replan.solved import ReplanProblem, Solved, copies_under_way

Lists = list[tuple[int, ...]]


def solve_counts(snapshot: ClusterSnapshot, plan: Plan, goal: PlanGoal, places: Places) -> Solved:
    """New lists in the order of the rows. Partitions that find no place keep the list they have; `reasons` say why.

    Cost: one small flow; with even counts as goal, at most two more plans on arrays.
    """
    lists: Lists = [row.start for row in places.rows]
    openings: dict[int, tuple[tuple[int, ...], int]] = {}
    for i, row in enumerate(places.rows):
        if i in places.immovable:
            lists[i] = row.start if row.under_way else row.live
            continue
        kept, wanted = places.kept(row)[: places.wanted(row)], places.wanted(row)
        if len(kept) < wanted:
            openings[i] = (kept, wanted)
        elif kept != row.start:
            lists[i] = kept
    rooms, unfit = group_openings(
        openings, Grouping.of(places.rule, places.racks, places.receivers, [row.key.topic for row in places.rows])
    )
    chosen, _ = fill_openings(rooms, _loads(snapshot, goal, places, lists, openings))
    for i, new in chosen.items():
        lists[i] = _filled(places.rows[i], openings[i][0], new)
    for i in unfit:
        lists[i] = places.rows[i].live
    notes: list[str] = []
    holds = not openings
    if goal.kind is Kind.COUNTS and places.receivers and not unfit:
        evened, note, holds_counts = _even(places, goal, lists)
        lists, holds = evened, holds and holds_counts
        notes += [note] * bool(note)
    # What the plan had left alone already is no news.
    news = [
        i for i in sorted(unfit) if places.rows[i].state is not MoveState.STILL or places.lost & {*places.rows[i].live}
    ]
    reasons = tuple(
        f"{places.rows[i].key}: no valid broker is left for {openings[i][1] - len(openings[i][0])} replica(s); "
        f"it stays on {some(places.rows[i].live)}"
        for i in news
    )
    return Solved(
        lists=tuple(lists),
        holds=holds,
        certificate=_certify(plan, goal, places, lists),
        reasons=reasons,
        left_alone=len(news),
        notes=tuple(notes),
    )


def _filled(row: ReplannedPartition, kept: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """New brokers in the places that come free; a copy that is there comes before one that is still to be made."""
    return substitute(row.start, set(kept), new)


def _loads(
    snapshot: ClusterSnapshot,
    goal: PlanGoal,
    places: Places,
    lists: Lists,
    openings: Mapping[int, tuple[tuple[int, ...], int]],
) -> dict[int, int]:
    """What receivers hold already: of the scope for a rebuild, of all topics for the plain requests."""
    held = Counter(b for i, row in enumerate(lists) for b in (openings[i][0] if i in openings else row))
    if not goal.targets_only:
        every = Counter(pool_of(snapshot).replicas)
        every.subtract(b for row in places.rows for b in row.partition.replicas)
        held.update(every)
    return {b: max(0, held[b]) for b in places.receivers}


def _counted(places: Places) -> ReplanProblem:
    """Counts of where copies are live, and the range that the plan's counts keep to."""
    held = Counter(b for row in places.rows for b in row.live)
    immovable = Counter(b for i in places.immovable for b in places.rows[i].start)
    weights = [1] * len(places.rows)
    now = counts_now(held, places.brokers, sum(held.values()) + len(weights))
    table = places.table([row.live for row in places.rows], weights, now)
    limits = now.limits(table, places.targets, {b: immovable[b] for b in places.leaving})
    return ReplanProblem(places, weights, now, RangeGoal(limits))


def _even(places: Places, goal: PlanGoal, lists: Lists) -> tuple[Lists, str, bool]:
    """Bring counts into the goal's range with the fewest deviations; lists, a note where it is not reached, holds?"""
    problem = _counted(places)
    table = problem.table(lists)
    measured = problem.balance.measure(table.loads(table.home))
    if measured <= goal.max_deviation:
        return lists, "", True
    found = problem.repaired(table, goal.max_deviation)
    if found is None:
        return lists, f"counts end in a range of {measured}; the plan had one of {goal.max_deviation}", False
    return places.lists_of(table, found.at), "", False


def _certify(plan: Plan, goal: PlanGoal, places: Places, lists: Lists) -> Certificate:
    unit = plan.certificate.unit if plan.certificate.unit in ("bytes", "replicas") else "replicas"
    pairs = zip(places.rows, lists, strict=True)
    moved = [(row, new) for row, new in pairs if set(new) - set(row.live) and not row.foreign]
    if any(row.size is None for row, _ in moved):
        unit = "replicas"

    def cost(row: ReplannedPartition, copies: int) -> int:
        return copies * ((row.size or 0) if unit == "bytes" else 1)

    objective = sum(cost(row, len(set(new) - set(row.live))) for row, new in moved)
    forced = copies_under_way(places.rows, unit)
    if goal.kind is Kind.COUNTS and unit == "replicas":
        found = _by_prices(places, goal, lists, forced, objective)
        if found is not None:
            return found
    needed = sum(cost(row, max(0, len(new) - len(places.keepable(row)))) for row, new in moved if not row.under_way)
    words = "replicas that are on no broker where they may stay need a copy, whatever the plan"
    if forced:
        words += "; copies that are being made now count on both sides"
    return certificate(unit, objective, needed + forced, words, Proof(kind=ProofKind.COUNTING, load=unit))


def _by_prices(places: Places, goal: PlanGoal, lists: Lists, forced: int, objective: int) -> Certificate | None:
    """The bound on copies that bring the live counts into the goal's range; None where the lists are not in it."""
    problem = _counted(places)
    final = problem.table(lists)
    loads = final.loads(final.home)
    if problem.balance.measure(loads) > goal.max_deviation or (loads > problem.balance.limits.ceiling).any():
        return None
    if any(
        len(new) != len(row.start if row.under_way else row.live) for new, row in zip(lists, places.rows, strict=True)
    ):
        return None
    proven = problem.proven(goal.max_deviation, objective - forced)
    if proven is None:
        return None
    _, window, proof = proven
    words = (
        f"bringing the counts of today into a range of {goal.max_deviation} takes at least {window.bound.value} copies"
        f"{f', and {forced} are being made now' if forced else ''}"
    )
    return certificate("replicas", objective, window.bound.value + forced, words, replace(proof, load="replicas"))
