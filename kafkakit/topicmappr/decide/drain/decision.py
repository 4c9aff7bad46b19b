"""`topicmappr drain` as a pure function: every replica leaves the named brokers, with the fewest copies."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.certificate import Certificate, PlacementRules, Proof, ProofKind, certificate
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import counted
from kafkakit.placement.by_size.layout import Disks
from kafkakit.placement.openings import Alike, fill_openings, group_openings, replace_replicas
from kafkakit.placement.problem import UNWATCHED, PlaceBy, PlacementProblem, PlannedPartition, Watch, stranded_warning
from kafkakit.placement.rebuild_task import Task, explain_shortage, with_openings
from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.budget import Served, budget_argument, budget_notes, pinned_note
from kafkakit.topicmappr.decide.dirs.joining import with_destinations
from kafkakit.topicmappr.decide.drain.problem import DrainProblem, DrainRequest, drain_problem, serve_drain
from kafkakit.topicmappr.decide.rebuild.by_bytes import place_task
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """New brokers by partition index; `cramped` partitions find no room for all their copies, `reasons` why."""

    chosen: dict[int, tuple[int, ...]]
    cramped: tuple[int, ...]
    reasons: tuple[str, ...]
    sizes: Sizes


def fill_by_bytes(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    drain: DrainProblem,
    unfit: Collection[int],
    watch: Watch,
) -> Filled:
    """Choose receivers for all openings but those of `unfit` partitions, which no rack rule lets be filled.

    As many copies as fit, then the smallest range of free bytes. A partition that finds room for some of its
    copies only is left alone. Raises what `storage_of` raises where sizes or disks are unknown.
    """
    rows = [i for i in sorted(drain.openings) if i not in unfit]
    partitions = tuple(drain.scope.partitions[i] for i in rows)
    sizes = storage_of(snapshot, facts, brokers=drain.receivers, partitions=[p.key for p in partitions])
    disks = Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=Fraction(1))
    size = tuple(p.size_bytes or 0 for p in partitions)
    task = Task(
        problem=PlacementProblem(partitions, drain.receivers, drain.pool.racks, drain.grouping.rule),
        kept=tuple(drain.openings[i] for i in rows),
        rows=tuple(
            with_openings(p.current, drain.openings[i], p.wanted) for i, p in zip(rows, partitions, strict=True)
        ),
        size=size,
        reserve=size,
        free={b: sizes.brokers[b].free_bytes or 0 for b in drain.receivers},
        room={b: disks.room(b) for b in drain.receivers},
        receivers=frozenset(drain.receivers),
        forced=False,
    )
    lists, _, searched = place_task(task, watch)
    short = [k for k, (row, new) in enumerate(zip(task.rows, lists, strict=True)) if len(new) < len(row)]
    proven = searched is not None and searched.most_placed
    lacking = frozenset(short)
    return Filled(
        chosen={
            i: tuple(b for b in lists[k] if b not in drain.openings[i]) for k, i in enumerate(rows) if k not in lacking
        },
        cramped=tuple(rows[k] for k in short),
        reasons=explain_shortage(task, lists, short, Fraction(1), proven=proven) if short else (),
        sizes=sizes,
    )


def decide_drain(
    snapshot: ClusterSnapshot,
    request: DrainRequest,
    facts: StorageFacts | None = None,
    watch: Watch = UNWATCHED,
) -> PlannedChange:
    """Decide who takes the replicas of the leaving brokers.

    Counts over all topics come out as even as can be, or, when placed by storage, free bytes; `facts` say where
    sizes come from. A partition that finds no place is left as it is and named in `reasons`. What a budget has no
    room for waits (`serve` says which changes go first). Cost: one small flow, or that of `rebuild_bytes.tightening`.
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
        filled = fill_by_bytes(snapshot, facts, problem, unfit, watch)
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
        tags=problem.grouping.rule.tags,
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
    tags = problem.grouping.rule.tags
    if tags is not None:
        add = "let more brokers receive, or ask for less"
    kinds: dict[tuple[str, ...], list[PlannedPartition]] = {}
    for p in unmoved:
        kept = [b for b in p.current if b not in problem.leaving]
        kinds.setdefault(tuple(sorted(racks.get(b) or "none" for b in kept)), []).append(p)
    lines = []
    for kept_racks, found in sorted(kinds.items()):
        go = len(found[0].current) - len(kept_racks)
        by_tags = ""
        if tags is not None:
            by_tags = f" ({tags.words(found[0].key.topic, problem.receivers, len(found[0].current))})"
        lines.append(
            f"{some(p.key for p in found)}: {go} replica(s) must leave, those that stay use racks "
            f"{some(kept_racks)}, and the {len(problem.receivers)} receiving brokers have racks {some(offered)}"
            f"{by_tags}; {add}"
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
