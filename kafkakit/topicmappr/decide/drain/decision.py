"""`topicmappr drain` as a pure function: every replica leaves the named brokers, with the fewest copies."""

from collections import Counter
from dataclasses import replace

from kafkakit.core.certificate import Certificate, PlacementRules, Proof, ProofKind, certificate
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import counted
from kafkakit.placement.bytes.tightening import Unwatched, Watch
from kafkakit.placement.choices import PlaceBy
from kafkakit.placement.openings.broker_pool import replace_replicas
from kafkakit.placement.openings.fill import Alike, fill_openings, group_openings
from kafkakit.placement.problem import PlannedPartition, stranded_warning
from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.budget import Served, budget_argument, budget_notes, pinned_note
from kafkakit.topicmappr.decide.dirs.joining import with_destinations
from kafkakit.topicmappr.decide.drain.by_bytes import fill_by_bytes
from kafkakit.topicmappr.decide.drain.problem import DrainProblem, DrainRequest, drain_problem, serve_drain


def decide_drain(
    snapshot: ClusterSnapshot,
    request: DrainRequest,
    facts: StorageFacts | None = None,
    watch: Watch | None = None,
) -> PlannedChange:
    """Decide who takes the replicas of the leaving brokers.

    Counts over all topics come out as even as can be, or, when placed by storage, free bytes; `facts` say where
    sizes come from. A partition that finds no place is left as it is and named in `reasons`. What a budget has no
    room for waits (see `drain.order` for who goes first). Cost: one small flow, or that of `rebuild_bytes.tightening`.
    """
    problem = drain_problem(snapshot, request)
    partitions = problem.scope.partitions
    rooms, unfit = _rooms(problem)
    served = serve_drain(snapshot, problem, unfit, request.budget, facts)
    if served.later:
        problem = replace(
            problem, openings={i: o for i, o in problem.openings.items() if i in served.indices | {*unfit}}
        )
        rooms, unfit = _rooms(problem)
    loads = {b: problem.pool.replicas.get(b, 0) for b in problem.receivers}
    filled = None
    if request.placement is PlaceBy.STORAGE:
        filled = fill_by_bytes(snapshot, facts, problem, unfit, watch or Unwatched())
        chosen = filled.chosen
    else:
        chosen, _ = fill_openings(rooms, loads)
    lists = replace_replicas(partitions, problem.openings, chosen, problem.pool)
    unmoved = [partitions[i] for i in sorted(unfit)]
    reasons = (*_reasons(problem, unmoved), *(filled.reasons if filled else ()))
    decision = Decision(
        replicas=lists,
        certificate=_certify(problem, [partitions[i] for i in sorted(chosen)], served),
        targets=sorted(problem.pool.live - problem.leaving),
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            spread_over=problem.grouping.rule.spread_over,
            receivers=problem.receivers,
            pinned=problem.pinned,
            later=served.later,
        ),
        storage={b: filled.sizes.brokers[b] for b in problem.receivers} if filled else {},
        storage_facts=filled.sizes.facts if filled else None,
        notes=(*budget_notes(request.budget, served), *_notes(problem), *(filled.sizes.notes if filled else ())),
        warnings=tuple(
            sorted((*reasons, *map(stranded_warning, problem.stranded), *(filled.sizes.warnings if filled else ())))
        ),
    )
    selection = problem.scope.selection
    return PlannedChange(
        title=f"Drain brokers {some(sorted(problem.leaving))}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=assemble(snapshot, request.words, problem.scope, with_destinations(snapshot, problem.scope, decision)),
        reasons=reasons,
        left_alone=len(unmoved) + (len(filled.cramped) if filled else 0),
        later=served.left,
    )


def _rooms(problem: DrainProblem) -> tuple[list[Alike], dict[int, int]]:
    partitions = problem.scope.partitions
    openings = {i: (kept, len(partitions[i].current)) for i, kept in problem.openings.items()}
    return group_openings(openings, problem.grouping)


def _certify(problem: DrainProblem, moved: list[PlannedPartition], served: Served) -> Certificate:
    copies = sum(1 for p in moved for b in p.current if b in problem.leaving)
    if copies:
        words = budget_argument(
            f"{counted(copies, 'replica')} must leave {'broker' if len(problem.leaving) == 1 else 'brokers'} "
            f"{some(sorted(problem.leaving))}; each needs one new copy, whatever the plan",
            served,
        )
    elif served.later:
        words = f"the budget takes none of {counted(served.left.partitions, 'partition')}: nothing is copied"
    else:
        others = " but those of pinned partitions" if problem.standing else ""
        words = f"no replica{others} has to leave these brokers"
    return certificate("replicas", copies, copies, words, Proof(kind=ProofKind.COUNTING))


def _reasons(problem: DrainProblem, unmoved: list[PlannedPartition]) -> tuple[str, ...]:
    """Why partitions find no place, one sentence for each kind of shortage."""
    racks = problem.pool.racks
    offered = problem.grouping.names
    add = f"let a broker in another rack receive, or allow repeats with --min-rack-ids {max(1, len(offered))}"
    if problem.grouping.rule.spreads:
        add = "let more brokers receive in the racks that hold the fewest, or do without --spread"
    kinds: dict[tuple[str, ...], list[PlannedPartition]] = {}
    for p in unmoved:
        kept = [b for b in p.current if b not in problem.leaving]
        kinds.setdefault(tuple(sorted(racks.get(b) or "none" for b in kept)), []).append(p)
    lines = []
    for kept_racks, found in sorted(kinds.items()):
        go = len(found[0].current) - len(kept_racks)
        lines.append(
            f"{some(p.key for p in found)}: {go} replica(s) must leave, those that stay use racks "
            f"{some(kept_racks)}, and the {len(problem.receivers)} receiving brokers have racks {some(offered)}; {add}"
        )
    return tuple(lines)


def _notes(problem: DrainProblem) -> tuple[str, ...]:
    dead = Counter(
        b
        for p in problem.scope.partitions
        for b in p.current
        if b not in problem.pool.live and b not in problem.leaving
    )
    verb = "stays" if len(problem.standing) == 1 else "stay"
    where = sorted(problem.leaving.intersection(b for p in problem.standing for b in p.current))
    keys = [p.key for p in problem.standing]
    notes = [*pinned_note(keys, f"{verb} on {some(where)}, which will not be empty")]
    if dead:
        notes.append(
            f"brokers {some(sorted(dead))} are not alive either and keep {sum(dead.values())} replica(s); "
            "name them in --brokers to drain them too"
        )
    closed = sorted(problem.pool.closed - problem.leaving)
    if closed:
        notes.append(f"brokers {some(closed)} take no new copies: all their log dirs are cordoned or broken")
    return tuple(notes)
