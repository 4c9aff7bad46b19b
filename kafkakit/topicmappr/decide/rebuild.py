"""`topicmappr rebuild` and `set-replication` as pure functions: snapshot and request in, plan and report facts out.

`set-replication` is the rebuild of these topics on their own cluster, with a factor. A rebuild is one map as a rule,
two if it is phased, and one a chunk if it is chunked: then only the replicas of a few brokers change in each map.

kafka-kit puts the final map's id into each slot of the window's brokers, which can name a broker twice on the way. Here
a slot of the window gets its final broker if that is free, else one that the partition needs anyway, so that every list
on the way has its full length, no broker twice, and racks that keep the rule wherever the lists before and after do
(the lists of a rack rule are the bases of a matroid, and those can be exchanged step by step).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.findings import Severity, min_isr_above_replicas, min_isr_of
from kafkakit.core.model import ClusterSnapshot, PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.core.plan import Certificate, PlacementRules, Plan, StorageFacts, certificate
from kafkakit.core.selection import BrokerList, select_topics
from kafkakit.core.text import few_of
from kafkakit.placement.forced_placement import place_forced
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import ClosedBrokers, SpreadRule
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.minimal import Affinity, apply_affinities, find_affinities, movement_bound, place_minimal
from kafkakit.placement.openings import group_partitions, pool_of
from kafkakit.placement.problem import (
    BrokerChange,
    Minimize,
    OptimizeFor,
    Placement,
    PlacementProblem,
    PlannedPartition,
    classify,
    classify_unseen,
    set_stranded_apart,
    stranded_warning,
    with_stranded,
)
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide import budget as budgets
from kafkakit.topicmappr.decide.assembly import CeilingTask, PlanDecision, PlannedChange, assemble, within_ceilings
from kafkakit.topicmappr.decide.dirs import fit_dirs, with_destinations
from kafkakit.topicmappr.decide.plain_requests import ReplicationRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.rebuild_bytes import BytesPlacement, evacuate, even_leaders, place_stored
from kafkakit.topicmappr.decide.request_fields import PlanBudget
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.scope import Scope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.storage import FreeChange, explain_unplaced

NO_BROKERS, LEFT = "No additional brokers that meet Constraints", "left as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStep:
    """One map of a series as what it changes against the map before it: new lists by partition index.

    `brokers` are the window of a chunk; a chunk without changes makes no map.
    """

    changes: Mapping[int, tuple[int, ...]]
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A decided rebuild: the plan and what the report shows besides.

    `before` and `after` are replica lists in the order of `scope.partitions`, and `steps` lead from the one to
    the other, a map each; `unplaced` counts wanted replicas without a broker and `shortages` says why. `free` is
    known to placement by storage alone.
    """

    plan: Plan
    scope: Scope
    change: BrokerChange
    affinities: tuple[Affinity, ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    steps: tuple[RebuildStep, ...]
    unplaced: tuple[int, ...]
    shortages: tuple[str, ...]
    free: FreeChange | None = None

    @property
    def left_alone(self) -> int:
        """How many partitions find no broker at all, and stay as they are."""
        rows = zip(self.unplaced, self.before, self.after, strict=True)
        return sum(1 for short, old, new in rows if short and new == old)

    def maps(self, *, skip_no_ops: bool) -> Iterator[PartitionMap]:
        """The map of each step in turn: of all partitions, or of those only that change at all."""
        shown = [
            (i, p.key.topic, p.key.partition)
            for i, p in enumerate(self.scope.partitions)
            if not (skip_no_ops and self.before[i] == self.after[i])
        ]
        for _, lists in walk(self.before, self.steps):
            yield PartitionMap(
                partitions=tuple(
                    PartitionAssignment(topic=topic, partition=number, replicas=lists[i]) for i, topic, number in shown
                )
            )

    def map_count(self) -> int:
        """How many maps there are."""
        return sum(1 for step in self.steps if step.changes or not step.brokers)


def decide_rebuild(
    snapshot: ClusterSnapshot,
    request: RebuildRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> Rebuild:
    """Decide where every selected replica goes; `facts` say where sizes come from (None: from the snapshot).

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned, `OperationFailedError` when all
    replicas of a partition are to give up its leadership or a chunked map would change a list's length; replicas
    that fit nowhere do not raise but are counted in `unplaced`. Cost: see `place_minimal`, `place_forced` and
    `place_stored`, each again while copies find no log dir (`fit_dirs`).
    """
    watch = with_budget(watch)
    return fit_dirs(snapshot, lambda closed: _decide(snapshot, request, facts, watch, closed), watch)


def _decide(
    snapshot: ClusterSnapshot,
    request: RebuildRequest,
    facts: StorageFacts | None,
    watch: SearchWatch,
    closed: ClosedBrokers,
) -> tuple[Rebuild, Sequence[HomelessCopy]]:
    scope = scope_of(snapshot, request.scope)
    evacuated = _evacuated_brokers(snapshot, scope, request)
    world = _observe_brokers(snapshot, scope, request)
    able, stranded = set_stranded_apart(scope.partitions, frozenset(world.live))
    movable = tuple(p for p in able if p.key not in request.untouched) if request.untouched else able
    problem = PlacementProblem(
        movable,
        world.change.targets,
        world.racks,
        SpreadRule(
            request.min_rack_ids, tags=request.constraints.on(snapshot, scope.selection.selected), closed=closed
        ),
        request.minimize,
        standing=_standing_replicas(snapshot, movable, able, world.change, request),
        closed=world.closed,
    )
    stored = _place_stored(snapshot, facts, problem, world.change, request, watch) if request.by_storage else None
    placed = _PlacedSets(placement=stored.placement) if stored else _place(problem, scope, world.change, request)
    shortages = stored.shortages if stored else explain_unplaced(problem, placed.placement.unplaced, world.open)
    above, noted = _above_replicas(snapshot, {*scope.selection.selected}, request.replication)
    warnings = (
        *world.change.warnings(),
        *placed.refused,
        *(stranded_warning(p) for p in stranded),
        *_unplaced_warnings(problem.partitions, placed.placement),
        *(stored.warnings if stored else ()),
        *above,
    )
    left = [p.key for p, row in zip(movable, placed.placement.replicas, strict=True) if not row]
    placement = _balance_leaders(problem, placed.placement, request, evacuated)
    final = replace(placement, replicas=tuple(evacuate(movable, placement.replicas, evacuated)))
    placement, final = (replace(p, replicas=_none_empty(movable, p.replicas)) for p in (placement, final))
    placement, final = (with_stranded(p, movable, scope.partitions) for p in (placement, final))
    still = request.untouched.union(left, (p.key for p in stranded))
    task = CeilingTask(
        scope=scope, lists=final.replicas, targets=problem.targets, staying=still, barred=evacuated,
        is_exact=not (request.force_rebuild or request.by_storage or request.replication or request.sub_affinity)
        and (problem.rule.tags is None or not problem.rule.tags.spreads) and not closed.closes,
    )  # fmt: skip
    final = replace(final, replicas=tuple(within_ceilings(snapshot, task, request.ceilings)))
    before = tuple(p.current for p in scope.partitions)
    steps = _steps(request, world, before, placement.replicas, final.replicas)
    decision = PlanDecision(
        replicas=final.replicas,
        certificate=certify(request.spends, scope.partitions, placement),
        targets=problem.targets,
        tags=problem.rule.tags,
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            receivers=stored.receivers if stored else problem.taking,
            pinned=tuple(sorted((*(p.key for p in stranded), *left))),
        ),
        storage=stored.storage if stored else {},
        storage_facts=stored.sizes.facts if stored else None,
        notes=(
            *placement.notes,
            *world.notes,
            *_request_notes(request),
            *(stored.sizes.notes if stored else ()),
            *noted,
        ),
        warnings=tuple(sorted(warnings)),
    )
    decision = with_destinations(snapshot, scope, decision)
    rebuild = Rebuild(
        plan=assemble(snapshot, request.words, scope, decision),
        scope=scope,
        change=world.change,
        affinities=placed.affinities,
        before=before,
        after=final.replicas,
        steps=steps,
        unplaced=placement.unplaced,
        shortages=shortages,
        free=stored.free if stored else None,
    )
    return rebuild, decision.homeless


@dataclass(frozen=True, slots=True, kw_only=True)
class _RebuildBrokers:
    """The brokers as the request sees them: racks of all, live ones with their racks, what happens to them.

    `open` are the live ones that may receive, `closed` the targets that must not, each with the reason.
    """

    racks: Mapping[int, str | None]
    live: Mapping[int, str | None]
    change: BrokerChange
    open: Mapping[int, str | None]
    closed: Mapping[int, str]
    notes: tuple[str, ...] = ()


def _observe_brokers(snapshot: ClusterSnapshot, scope: Scope, request: RebuildRequest) -> _RebuildBrokers:
    holding = frozenset(b for p in scope.partitions for b in p.current)
    excluded = named_brokers(snapshot, RECEIVERS, request.exclude_receivers, holding)
    if not request.use_meta:
        listed = request.brokers.resolve(holding, frozenset())
        unseen = dict[int, str | None].fromkeys(sorted({*holding, *listed}))
        closed = dict.fromkeys(sorted(excluded.intersection(listed)), "excluded")
        return _RebuildBrokers(
            racks={}, live=unseen, change=classify_unseen(holding, listed), open=unseen, closed=closed
        )
    live = {b.id: b.group for b in snapshot.brokers if b.is_alive}
    change = classify(holding, request.brokers.resolve(holding, frozenset(live), snapshot.leaving), live)
    pool = pool_of(snapshot).without(excluded)
    return _RebuildBrokers(
        racks={b.id: b.group for b in snapshot.brokers},
        live=live,
        change=change,
        open={b: live[b] for b in pool.receiving()},
        closed=pool.shut(change.targets),
        notes=pool.closed_notes(change.targets),
    )


def _standing_replicas(
    snapshot: ClusterSnapshot,
    movable: Sequence[PlannedPartition],
    able: Sequence[PlannedPartition],
    change: BrokerChange,
    request: RebuildRequest,
) -> Mapping[int, int]:
    """Replicas of untouched partitions on the targets; with a ceiling on replicas all that the request leaves."""
    targets = frozenset(change.targets)
    if request.ceilings.max_replicas is not None:
        every = Counter(pool_of(snapshot).replicas)
        every.subtract(b for p in movable for b in p.current)
        return {b: every[b] for b in targets}
    held = (b for p in able if p.key in request.untouched for b in p.current if b in targets)
    return Counter(held) if request.untouched else {}


def _evacuated_brokers(snapshot: ClusterSnapshot, scope: Scope, request: RebuildRequest) -> dict[str, frozenset[int]]:
    """The brokers that must not lead, by topic; the patterns are matched against all topics there are."""
    if not request.leader_evac_topics:
        return {}
    names = {t.name for t in snapshot.topics} | set(scope.selection.selected)
    chosen = select_topics(names, request.leader_evac_topics).selected
    away = frozenset(request.leader_evac_brokers)
    known = {b.id for b in snapshot.brokers} | {b for p in scope.partitions for b in p.current}
    if unknown := sorted(away - known):
        words = f"--leader-evac-brokers: broker {few_of(unknown)} is not in this cluster"
        raise UsageError(words, hint=f"its brokers are {few_of(sorted(known))}")
    return {topic: away for topic in chosen if topic in scope.selection.selected}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedSets:
    placement: Placement
    affinities: tuple[Affinity, ...] = ()
    refused: tuple[str, ...] = ()


def _place(problem: PlacementProblem, scope: Scope, change: BrokerChange, request: RebuildRequest) -> _PlacedSets:
    if request.force_rebuild:
        return _PlacedSets(placement=place_forced(problem))
    stand_ins = replace(change, new=tuple(b for b in change.new if b not in problem.closed))
    affinities = find_affinities(scope.partitions, stand_ins, problem.racks) if request.sub_affinity else ()
    placement, refused = _place_minimal(problem, affinities)
    return _PlacedSets(placement=placement, affinities=affinities, refused=refused)


def _place_stored(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    problem: PlacementProblem,
    change: BrokerChange,
    request: RebuildRequest,
    watch: SearchWatch,
) -> BytesPlacement:
    return place_stored(
        snapshot,
        facts,
        problem,
        change,
        watch,
        optimize=request.optimize,
        factor=request.partition_size_factor,
        forced=request.force_rebuild,
    )


def _balance_leaders(
    problem: PlacementProblem, placement: Placement, request: RebuildRequest, evacuated: Mapping[str, frozenset[int]]
) -> Placement:
    # A forced rebuild has even leaders already, as long as no broker is barred from leading.
    looks_at_leaders = not request.by_storage or request.optimize is OptimizeFor.DISTRIBUTION
    if not request.optimize_leadership or (request.force_rebuild and not evacuated and looks_at_leaders):
        return placement
    lists = even_leaders(problem.partitions, placement.replicas, problem.targets, evacuated)
    return replace(placement, replicas=tuple(lists))


def _steps(
    request: RebuildRequest,
    world: _RebuildBrokers,
    before: tuple[tuple[int, ...], ...],
    balanced: tuple[tuple[int, ...], ...],
    after: tuple[tuple[int, ...], ...],
) -> tuple[RebuildStep, ...]:
    if request.phased:
        return phase_steps(before, balanced, after, frozenset(world.live))
    if request.chunk_step:
        brokers = frozenset(b for row in before for b in row) | frozenset(world.change.targets)
        return chunk_steps(before, after, brokers, request.chunk_step, world.racks, SpreadRule(request.min_rack_ids))
    return single_step(before, after)


def _request_notes(request: RebuildRequest) -> list[str]:
    notes = []
    if request.force_rebuild and request.sub_affinity:
        notes.append("--force-rebuild disables --sub-affinity")
    elif request.by_storage and request.sub_affinity:
        notes.append("--sub-affinity is for placement by count, and is not used")
    if not request.by_storage and (
        request.optimize is not OptimizeFor.DISTRIBUTION or request.partition_size_factor != 1
    ):
        notes.append("--optimize and --partition-size-factor are for --placement storage, and are not used")
    if request.phased or request.chunk_step:
        notes.append("a plan file goes to the final lists at once; the map files go there step by step")
    if not request.use_meta:
        notes.append("racks and the state of brokers were not looked at (--no-use-meta)")
    return notes


def _place_minimal(problem: PlacementProblem, affinities: Sequence[Affinity]) -> tuple[Placement, tuple[str, ...]]:
    if not affinities:
        return place_minimal(problem), ()
    partitions, refused = apply_affinities(
        problem.partitions, affinities, frozenset(problem.targets), problem.racks, problem.rule
    )
    placement = place_minimal(replace(problem, partitions=partitions))
    # Substitutes count as copies: the bound is that of the untouched problem.
    bound, argument = movement_bound(problem, placement.unplaced)
    return replace(placement, bound=bound, argument=argument), refused


def _none_empty(
    partitions: Sequence[PlannedPartition], lists: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    """The lists, with the present one where no replica finds a broker: no plan may lose the last copy."""
    return tuple(row or p.current for p, row in zip(partitions, lists, strict=True))


def _unplaced_warnings(partitions: Sequence[PlannedPartition], placement: Placement) -> list[str]:
    lines = []
    for p, missing, replicas in zip(partitions, placement.unplaced, placement.replicas, strict=True):
        name = f"{p.key.topic} p{p.key.partition}"
        lines += [f"{name}: {NO_BROKERS}"] * bool(missing)
        lines += [f"{name}: no broker may take any of its replicas, {LEFT}"] * (not replicas)
    return lines


def certify(minimize: Minimize, partitions: Sequence[PlannedPartition], placement: Placement) -> Certificate:
    """Set what the placement costs beside the proven bound."""
    by_bytes = minimize is Minimize.BYTES
    objective = 0
    for p, new in zip(partitions, placement.replicas, strict=True):
        if new != p.current:
            copies = sum(1 for b in new if b not in p.current)
            objective += copies * (p.size_bytes or 0) if by_bytes else copies
    unit = "bytes" if by_bytes else "replicas"
    return certificate(unit, objective, placement.bound, placement.argument, placement.proof)


Lists = Sequence[tuple[int, ...]]
Racks = Mapping[int, str | None]


def windows_of(brokers: Iterable[int], step: int) -> list[tuple[int, ...]]:
    """The brokers by id, highest first, `step` at a time."""
    ids = sorted(set(brokers), reverse=True)
    return [tuple(ids[k : k + step]) for k in range(0, len(ids), step)]


def chunk_changes(
    before: Lists, after: Lists, windows: Sequence[Sequence[int]], racks: Racks, rule: SpreadRule
) -> list[dict[int, tuple[int, ...]]]:
    """What each window changes: new lists by partition index; all windows together lead from before to after.

    Every broker of `before` is in a window. Raises `OperationFailedError` where a list changes its length.
    O(changed partitions x replicas squared).
    """
    turn = {broker: k for k, window in enumerate(windows) for broker in window}
    changes: list[dict[int, tuple[int, ...]]] = [{} for _ in windows]
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        if len(old) != len(new):
            raise OperationFailedError(
                "Chunked reassignment cannot be used when reducing or increasing replication factor",
                hint="change the factor in a run of its own, without --chunk-step-size",
            )
        now = old
        for k in sorted({turn[b] for b in old}):
            due = [turn[b] <= k for b in old]
            following = _next_list(now, new, due, racks, rule)
            if following != now:
                changes[k][i] = now = following
    return changes


def _next_list(
    now: tuple[int, ...], final: tuple[int, ...], due: Sequence[bool], racks: Racks, rule: SpreadRule
) -> tuple[int, ...]:
    """The list with the due slots filled by brokers of the final list; the other slots keep theirs."""
    waiting = [b for b, ready in zip(now, due, strict=True) if not ready]
    kept = [b for b, ready in zip(now, due, strict=True) if not ready or b in final]
    wanted = [final[k] for k, ready in enumerate(due) if ready]
    kept += _fitting_brokers(kept, [*wanted, *(b for b in final if b not in wanted)], racks, rule)
    left = [b for b in kept if b not in waiting]
    slots: list[int | None] = [None if ready else b for b, ready in zip(now, due, strict=True)]
    for preferred in (final, now):
        for k, broker in enumerate(preferred):
            if slots[k] is None and broker in left:
                slots[k] = broker
                left.remove(broker)
    return tuple(left.pop(0) if b is None else b for b in slots)


def _fitting_brokers(kept: Sequence[int], final: Sequence[int], racks: Racks, rule: SpreadRule) -> list[int]:
    """Brokers of the final set that make the set full, in the given order; those that keep the rack rule first."""
    size = len(final)
    chosen = list(kept)
    offered = [b for b in final if b not in kept]
    standing = [racks.get(b) for b in kept]
    for broker in offered:
        tried = [racks.get(b) for b in (*chosen, broker)]
        if len(chosen) < size and rule.permits_so_far(standing, tried, size):
            chosen.append(broker)
    chosen += [b for b in offered if b not in chosen][: size - len(chosen)]
    return chosen[len(kept) :]


def single_step(before: Lists, after: Lists) -> tuple[RebuildStep, ...]:
    """One map for everything."""
    return (RebuildStep(changes=_differences(before, after)),)


def phase_steps(before: Lists, balanced: Lists, after: Lists, live: frozenset[int]) -> tuple[RebuildStep, ...]:
    """First all new copies with the old leader still in front, then the final lists.

    Where the old leader would be lost and is alive, the first map keeps it at the front: one replica more for the
    time being. `balanced` are the new lists before leaders are evacuated, which is left to the second map.
    """
    first = [
        (old[0], *new) if old and new and old[0] not in new and old[0] in live else new
        for old, new in zip(before, balanced, strict=True)
    ]
    return RebuildStep(changes=_differences(before, first)), RebuildStep(changes=_differences(first, after))


def chunk_steps(
    before: Lists, after: Lists, brokers: frozenset[int], step: int, racks: Mapping[int, str | None], rule: SpreadRule
) -> tuple[RebuildStep, ...]:
    """One map for each window of `step` brokers, highest ids first."""
    windows = windows_of(brokers, step)
    changes = chunk_changes(before, after, windows, racks, rule)
    return tuple(RebuildStep(changes=c, brokers=w) for c, w in zip(changes, windows, strict=True))


def walk(before: Lists, steps: Sequence[RebuildStep]) -> Iterator[tuple[RebuildStep, list[tuple[int, ...]]]]:
    """Each step that makes a map, with every partition's list after it; the list is reused for the next step."""
    now = list(before)
    for step in steps:
        for i, replicas in step.changes.items():
            now[i] = replicas
        if step.changes or not step.brokers:
            yield step, now


def _differences(before: Lists, after: Lists) -> dict[int, tuple[int, ...]]:
    return {i: new for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


def decide_set_replication(snapshot: ClusterSnapshot, request: ReplicationRequest) -> PlannedChange:
    """Decide who gets the added copies, or whose copy goes.

    Added copies follow the rack rule and even the counts out. Where the factor shrinks the leader stays, rack
    repeats go first, then copies out of sync, then those of the fullest brokers. Copies on brokers that are
    not alive are replaced, or are the first to go. A budget serves the partitions that lack most copies first;
    what needs no copy is always served. See `place_minimal` for the proof and the cost.
    """
    requested = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=request.topics,
        topics_exclude=request.topics_exclude,
        replication=request.replication,
        min_rack_ids=request.min_rack_ids,
        constraints=request.constraints,
        exclude_receivers=request.exclude_receivers,
        ceilings=request.ceilings,
        words=request.words,
    )
    pinned: tuple[TopicPartition, ...] = ()
    if request.pinned:
        partitions = scope_of(snapshot, requested.scope).partitions
        pinned = tuple(partitions[i].key for i in pinned_indices(partitions, request.pinned, ()))
        requested = replace(requested, untouched=frozenset(pinned))
    asked = decide_rebuild(snapshot, requested)
    rebuild, left = _without_short(snapshot, requested, asked)
    requested = replace(requested, untouched=requested.untouched | left)
    served = _serve(snapshot, requested, request.budget)
    if served.later:
        requested = replace(requested, untouched=requested.untouched.union(served.later))
        rebuild, more = _without_short(snapshot, requested, decide_rebuild(snapshot, requested))
        left |= more
    plan = _with_notes(rebuild, request, served, pinned)
    if left:
        told = {w for w in asked.plan.warnings if not w.endswith((NO_BROKERS, LEFT))}
        told.update(f"{key.topic} p{key.partition}: {NO_BROKERS}, {LEFT}" for key in left)
        plan = replace(plan, warnings=tuple(sorted(told.union(plan.warnings))))
    selection = rebuild.scope.selection
    return PlannedChange(
        title=f"Set the replication factor to {request.replication}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=plan,
        reasons=asked.shortages,
        left_alone=len(left),
        later=served.left,
    )


def _without_short(
    snapshot: ClusterSnapshot, requested: RebuildRequest, rebuild: Rebuild
) -> tuple[Rebuild, frozenset[TopicPartition]]:
    """What finds too few brokers stays as it is, and the others are planned beside it; also which stay."""
    left: frozenset[TopicPartition] = frozenset()
    while short := _short_partitions(rebuild):
        left |= short
        rebuild = decide_rebuild(snapshot, replace(requested, untouched=requested.untouched | left))
    return rebuild, left


def _short_partitions(rebuild: Rebuild) -> frozenset[TopicPartition]:
    """The partitions that find too few brokers."""
    return frozenset(p.key for p, n in zip(rebuild.scope.partitions, rebuild.unplaced, strict=True) if n)


def _serve(snapshot: ClusterSnapshot, requested: RebuildRequest, budget: PlanBudget) -> budgets.BudgetSelection:
    """Choose what the budget takes; partitions that need no copy, or find no place for one, are served anyway.

    O(partitions): what fits follows from the racks of the replicas that stay.
    """
    if not budget.given:
        return budgets.BudgetSelection(indices=frozenset())
    scope = scope_of(snapshot, requested.scope)
    world = _observe_brokers(snapshot, scope, requested)
    able, _ = set_stranded_apart(scope.partitions, frozenset(world.live))
    targets = frozenset(world.change.targets)
    kept = ((i, p, tuple(b for b in p.current if b in targets)) for i, p in enumerate(able))
    openings = {i: (row, p.wanted) for i, p, row in kept if p.wanted > len(row) and p.key not in requested.untouched}
    topics = [p.key.topic for p in able]
    rule = SpreadRule(requested.min_rack_ids, tags=requested.constraints.on(snapshot, set(topics)))
    grouping = Grouping.of(rule, world.racks, targets.difference(world.closed), topics)
    units = {i: a.room.units for a in group_partitions(openings, grouping, repairs=False) for i in a.members}
    changes = [
        budgets.PartitionChange(
            index=i, key=able[i].key, copies=n, size_bytes=able[i].size_bytes, rank=len(row) - wanted
        )
        for i, (row, wanted) in openings.items()
        if (n := units[i])
    ]
    budgets.refuse_unsized(snapshot, budget, changes)
    return budgets.serve(changes, budget)


def _with_notes(
    rebuild: Rebuild, request: ReplicationRequest, served: budgets.BudgetSelection, pinned: tuple[TopicPartition, ...]
) -> Plan:
    """The rebuild's plan with what pins and budget kept back in its rules, notes and argument."""
    plan, spared = rebuild.plan, frozenset(pinned)
    if not spared and not served.later:
        return plan
    rules = plan.rules or PlacementRules()
    other = [p.key for p in rebuild.scope.partitions if p.key in spared and len(p.current) != request.replication]
    verb = "keeps" if len(other) == 1 else "keep"
    argument = budgets.budget_argument(plan.certificate.argument, served)
    return replace(
        plan,
        certificate=replace(plan.certificate, argument=f"pinned partitions aside, {argument}" if spared else argument),
        rules=replace(rules, pinned=tuple(sorted(spared.union(rules.pinned))), later=served.later),
        notes=(
            *budgets.budget_notes(request.budget, served),
            *budgets.pinned_note(other, f"{verb} another factor"),
            *plan.notes,
        ),
    )


def _above_replicas(
    snapshot: ClusterSnapshot, topics: Collection[str], replication: int | None
) -> tuple[list[str], list[str]]:
    """Warnings and notes of topics whose `min.insync.replicas` is above their number of replicas.

    As in the audit of a map: what is an error there keeps a plan from being written, and a warning does not.
    """
    usual = snapshot.usual_min_isr
    short = [
        f"{t.name} ({value})"
        for t in snapshot.topics
        if replication and t.name in topics and (value := min_isr_of(t.configs, usual)) > replication
    ]
    severity, words = min_isr_above_replicas(snapshot.kafka_version)
    lines = [f"min.insync.replicas is above {replication} for {few_of(short)}: {words}"] if short else []
    return (lines, []) if severity is Severity.ERROR else ([], lines)
