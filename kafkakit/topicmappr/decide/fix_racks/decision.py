"""`topicmappr fix-racks` as a pure function: every partition obeys the rack rule, with the fewest copies."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kafkakit.core.certificate import Certificate, PlacementRules, Proof, ProofKind, certificate
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.quantities import counted
from kafkakit.placement.openings import fill_openings, replace_replicas
from kafkakit.placement.problem import Minimize, stranded_warning
from kafkakit.topicmappr.decide import budget as budgets
from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.dirs.joining import with_destinations
from kafkakit.topicmappr.decide.fix_racks.problem import FixRacksRequest, RackProblem, rack_problem


def decide_fix_racks(snapshot: ClusterSnapshot, request: FixRacksRequest) -> PlannedChange:
    """Decide which replicas leave crowded racks and where they go: counts over all topics come out even.

    A partition that cannot be repaired is left as it is and named in `reasons`. A budget serves the worst sets first,
    those with the most replicas to move; the rest waits. The number of copies is the
    least there is, by counting; who leaves and where to is one flow.
    """
    problem = rack_problem(snapshot, request)
    partitions = problem.scope.partitions
    served = _serve(snapshot, problem, request)
    if served.later:
        problem = replace(problem, repairs={i: m for i, m in problem.repairs.items() if i in served.indices})
    surplus = problem.surplus()
    inside = Counter(b for row in surplus for b in row.replicas)
    loads = {b: problem.pool.replicas.get(b, 0) - inside[b] for b in {*problem.pool.open, *inside}}
    chosen, staying = fill_openings(problem.rooms(), loads, surplus)
    lists = replace_replicas(partitions, staying, chosen, problem.pool)
    reasons = _reasons(problem)
    decision = Decision(
        replicas=lists,
        certificate=_certify(problem, request, served, lists),
        targets=sorted(problem.pool.live),
        tags=problem.grouping.rule.tags,
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            spread_over=problem.grouping.rule.spread_over,
            receivers=tuple(sorted(problem.pool.open)),
            pinned=problem.pinned,
            later=served.later,
        ),
        notes=(*budgets.budget_notes(request.budget, served), *_notes(problem)),
        warnings=tuple(sorted((*reasons, *map(stranded_warning, problem.stranded)))),
    )
    rule = "even spread over racks" if request.spread else _rule_words(request.min_rack_ids)
    selection = problem.scope.selection
    return PlannedChange(
        title=f"Repair the rack rule: {rule}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=assemble(snapshot, request.words, problem.scope, with_destinations(snapshot, problem.scope, decision)),
        reasons=reasons,
        left_alone=len(problem.beyond_repair),
        later=served.left,
    )


def _serve(snapshot: ClusterSnapshot, problem: RackProblem, request: FixRacksRequest) -> budgets.Served:
    changes = []
    for i, repair in problem.repairs.items():
        p = problem.scope.partitions[i]
        changes.append(
            budgets.PartitionChange(
                index=i, key=p.key, copies=repair.moves, size_bytes=p.size_bytes, rank=-repair.moves
            )
        )
    budgets.refuse_unsized(snapshot, request.budget, changes)
    return budgets.serve(changes, request.budget)


def _rule_words(minimum: int) -> str:
    return f"each set spans {counted(minimum, 'rack')} before one repeats" if minimum else "all racks of a set differ"


def _certify(
    problem: RackProblem, request: FixRacksRequest, served: budgets.Served, lists: Sequence[tuple[int, ...]]
) -> Certificate:
    unit = "bytes" if request.minimize is Minimize.BYTES else "replicas"
    partitions = problem.scope.partitions
    one = {i: (partitions[i].size_bytes or 0) if unit == "bytes" else 1 for i in problem.repairs}
    weight = sum(len(set(lists[i]).difference(partitions[i].current)) * one[i] for i in problem.repairs)
    least = sum(problem.least(i) * one[i] for i in problem.repairs)
    copies = sum(map(problem.least, problem.repairs))
    tags = "or where constraints forbid them " if problem.by_tags else ""
    if problem.repairs:
        words = budgets.budget_argument(
            f"{counted(len(problem.repairs), 'partition')} hold {counted(copies, 'replica')} more in their racks {tags}"
            "than the rule allows, counted set by set; one move repairs one of them at most",
            served,
        )
    elif served.later:
        words = f"the budget takes none of {counted(served.left.partitions, 'partition')}: nothing is copied"
    else:
        spared = problem.beyond_repair or problem.standing
        words = "no partition that can be repaired breaks the rule" if spared else "every set obeys the rule"
        words += ": nothing has to be copied"
    return certificate(unit, weight, least, words, Proof(kind=ProofKind.COUNTING))


def _reasons(problem: RackProblem) -> tuple[str, ...]:
    """Why partitions cannot be repaired, one sentence for each reason."""
    names: dict[str, list[str]] = {}
    for i, lack in sorted(problem.beyond_repair.items()):
        names.setdefault(lack.reason, []).append(str(problem.scope.partitions[i].key))
    return tuple(
        f"{some(found)}: {reason}; "
        f"{'add brokers' if problem.by_tags else 'add brokers in other racks, or allow repeats with --min-rack-ids'}"
        for reason, found in sorted(names.items())
    )


def _notes(problem: RackProblem) -> tuple[str, ...]:
    alone = len(problem.standing) == 1
    fate = "breaks the rule and stays as it is" if alone else "break the rule and stay as they are"
    notes = [*budgets.pinned_note(problem.standing, fate)]
    if loose := problem.grouping.receivers.get(None):
        notes.append(f"brokers {some(loose)} have no rack: they conflict with no other broker and count as no rack")
    if problem.pool.closed:
        closed = some(sorted(problem.pool.closed))
        notes.append(f"brokers {closed} take no new copies: all their log dirs are cordoned or broken")
    return tuple(notes)
