"""`topicmappr drain` as a pure function: every replica leaves the named brokers, with the fewest copies.

The problem (which replicas leave, which stay, who may take the new copies) and placing are two steps, so that one
problem can be placed by counts or by bytes.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Certificate, PlacementRules, Proof, ProofKind, StorageFacts, certificate
from kafkakit.core.quantities import counted
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import some
from kafkakit.placement.by_size.layout import Disks
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule, racks_to_spread, refuse_both_rules
from kafkakit.placement.openings import Alike, BrokerPool, fill_openings, group_openings, pool_of, replace_replicas
from kafkakit.placement.problem import PlaceBy, PlacementProblem, PlannedPartition, set_stranded_apart, stranded_warning
from kafkakit.placement.rebuild_task import Task, explain_shortage, with_openings
from kafkakit.placement.watch import UNWATCHED, Watch
from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.dirs import with_destinations
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.rebuild_bytes import place_task
from kafkakit.topicmappr.decide.requests import (
    NO_BUDGET,
    Budget,
    PartitionChange,
    Served,
    budget_argument,
    budget_notes,
    pinned_note,
    refuse_unsized,
    serve,
)
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, Scope, TagConstraints, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.storage import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """New brokers by partition index; `cramped` partitions find no room for all their copies, `reasons` why."""

    chosen: dict[int, tuple[int, ...]]
    cramped: tuple[int, ...]
    reasons: tuple[str, ...]
    sizes: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainProblem:
    """`openings` maps a partition's index in the scope to the replicas that stay; the others must leave.

    `stranded` partitions hold a replica on a leaving broker and have no live copy in sync to copy from. `pinned` ones
    stay where they are, `standing` are those of them that a leaving broker keeps.
    """

    scope: Scope
    pool: BrokerPool
    grouping: Grouping
    leaving: frozenset[int]
    receivers: tuple[int, ...]
    openings: Mapping[int, tuple[int, ...]]
    stranded: tuple[PlannedPartition, ...]
    pinned: tuple[TopicPartition, ...] = ()
    standing: tuple[PlannedPartition, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """Empty the brokers `leaving` of the chosen topics; `receiving` may take the replicas (None: all others).

    Brokers in `exclude_receivers` take none. `spread` is the even spread over racks, in place of `min_rack_ids`.
    `placement` says what comes out even among those receivers: counts of replicas, or free bytes. `pinned` are topics
    or topic/partition that stay as they are, `budget` what one run may copy. `words` are the flags as given, for the
    plan's record. Raises `UsageError` for contradictions.
    """

    leaving: BrokerList
    receiving: BrokerList | None = None
    exclude_receivers: BrokerList | None = None
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    spread: bool = False
    placement: PlaceBy = PlaceBy.COUNT
    pinned: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    constraints: TagConstraints = NO_CONSTRAINTS
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        for flag, listed in (("--brokers", self.leaving), ("--to", self.receiving)):
            if listed is not None and (listed.existing or listed.everything):
                raise UsageError(f"{flag}: name the brokers, -1 and -2 mean all of them")
        if self.receiving is not None:
            both = sorted({*self.leaving.ids} & {*self.receiving.ids})
            if both:
                raise UsageError(f"broker {both[0]} is named by both --brokers and --to")
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
        refuse_both_rules(self.min_rack_ids, self.spread)


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


def drain_problem(snapshot: ClusterSnapshot, request: DrainRequest) -> DrainProblem:
    """Find what must leave; raises `UsageError` for unknown brokers and when no broker is left to receive."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    leaving = frozenset(request.leaving.ids)
    unknown = sorted(b for b in leaving if not pool.named(b))
    if unknown:
        raise UsageError(
            f"--brokers: {some(unknown)} not in this cluster", hint=f"its brokers are {some(sorted(pool.racks))}"
        )
    receivers = _receivers(pool, leaving, request.receiving)
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    pinned = tuple(scope.partitions[i].key for i in pinned_indices(scope.partitions, request.pinned, ()))
    held = frozenset(pinned)
    touched = tuple(p for p in scope.partitions if not leaving.isdisjoint(p.current))
    _, stranded = set_stranded_apart(tuple(p for p in touched if p.key not in held), pool.live)
    spread_over = racks_to_spread(pool.open - leaving, pool.racks) if request.spread else ()
    rule = GroupRule(request.min_rack_ids, spread_over, request.constraints.on(snapshot, scope.selection.selected))
    apart = held.union(p.key for p in stranded)
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers, [p.key.topic for p in scope.partitions]),
        leaving=leaving,
        receivers=receivers,
        openings={
            i: tuple(b for b in p.current if b not in leaving)
            for i, p in enumerate(scope.partitions)
            if not leaving.isdisjoint(p.current) and p.key not in apart
        },
        stranded=stranded,
        pinned=pinned,
        standing=tuple(p for p in touched if p.key in held),
    )


def _receivers(pool: BrokerPool, leaving: frozenset[int], listed: BrokerList | None) -> tuple[int, ...]:
    if listed is None:
        receivers = tuple(sorted(pool.open - leaving))
        if not receivers:
            raise UsageError("--brokers leaves no live broker that could take the replicas")
        return receivers
    for broker in listed.ids:
        if broker not in pool.live:
            known = "is not alive" if pool.named(broker) else "is not in this cluster"
            raise UsageError(f"--to: broker {broker} {known}")
        if broker in pool.excluded:
            raise UsageError(f"broker {broker} is named by both --to and {RECEIVERS}")
        if broker in pool.closed:
            raise UsageError(f"--to: every log dir of broker {broker} is cordoned or broken")
    return tuple(sorted(listed.ids))


_WHOLE = 1 << 20


def serve_drain(
    snapshot: ClusterSnapshot, problem: DrainProblem, unfit: Collection[int], budget: Budget, facts: StorageFacts | None
) -> Served:
    """Choose the openings that the budget takes; those of `unfit` partitions find no place and cost nothing.

    First come partitions with a replica on a dead leaving broker, those with the fewest live copies in sync before
    all; then the smallest, so that most partitions are freed for the bytes. Raises as `refuse_unsized`.
    """
    changes = [
        _change(problem, i, problem.scope.partitions[i], len(kept))
        for i, kept in problem.openings.items()
        if i not in unfit
    ]
    refuse_unsized(snapshot, budget, changes, facts)
    return serve(changes, budget)


def _change(problem: DrainProblem, index: int, p: PlannedPartition, kept: int) -> PartitionChange:
    live = problem.pool.live
    rank = _WHOLE
    if any(b in problem.leaving and b not in live for b in p.current):
        rank = sum(1 for b in p.current if b in live and (p.in_sync is None or b in p.in_sync))
    return PartitionChange(index=index, key=p.key, copies=len(p.current) - kept, size_bytes=p.size_bytes, rank=rank)
