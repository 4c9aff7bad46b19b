"""`topicmappr rebuild` as a pure function: snapshot and request in, plan and report facts out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.certificate import Certificate, PlacementRules, certificate
from kafkakit.core.model import ClusterSnapshot, PartitionAssignment, PartitionMap
from kafkakit.core.plan import Plan, StorageFacts
from kafkakit.core.topic_selection import select_topics
from kafkakit.placement.forced import place_forced
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.minimal import Affinity, apply_affinities, find_affinities, movement_bound, place_minimal
from kafkakit.placement.problem import (
    UNWATCHED,
    BrokerChange,
    Minimize,
    OptimizeFor,
    Placement,
    PlacementProblem,
    PlannedPartition,
    Watch,
    classify,
    classify_unseen,
    set_stranded_apart,
    stranded_warning,
    with_stranded,
)
from kafkakit.topicmappr.decide.assembly import Decision, assemble
from kafkakit.topicmappr.decide.diagnose import explain_unplaced
from kafkakit.topicmappr.decide.dirs.joining import with_destinations
from kafkakit.topicmappr.decide.rebuild.by_bytes import Stored, place_stored
from kafkakit.topicmappr.decide.rebuild.leaders import evacuate, even_leaders
from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest
from kafkakit.topicmappr.decide.rebuild.series import Step, chunked, phased, single, walk
from kafkakit.topicmappr.decide.scope import Scope, scope_of
from kafkakit.topicmappr.decide.storage_words import FreeChange


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
    steps: tuple[Step, ...]
    unplaced: tuple[int, ...]
    shortages: tuple[str, ...]
    free: FreeChange | None = None

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
    watch: Watch = UNWATCHED,
) -> Rebuild:
    """Decide where every selected replica goes; `facts` say where sizes come from (None: from the snapshot).

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned, `OperationFailedError` when all
    replicas of a partition are to give up its leadership or a chunked map would change a list's length; replicas
    that fit nowhere do not raise but are counted in `unplaced`. Cost: see `place_minimal`, `place_forced` and
    `place_stored`.
    """
    scope = scope_of(snapshot, request.scope)
    evacuated = _evacuated(snapshot, scope, request)
    world = _observed(snapshot, scope, request)
    able, stranded = set_stranded_apart(scope.partitions, frozenset(world.live))
    movable = tuple(p for p in able if p.key not in request.untouched) if request.untouched else able
    problem = PlacementProblem(
        movable,
        world.change.targets,
        world.racks,
        GroupRule(request.min_rack_ids, tags=request.constraints.on(snapshot, scope.selection.selected)),
        request.minimize,
        standing=_standing(able, world.change, request),
        closed=request.closed,
    )
    stored = _place_stored(snapshot, facts, problem, world.change, request, watch) if request.by_storage else None
    placed = _Placed(placement=stored.placement) if stored else _place(problem, scope, world.change, request)
    shortages = stored.shortages if stored else explain_unplaced(problem, placed.placement.unplaced, world.live)
    warnings = (
        *world.change.warnings(),
        *placed.refused,
        *(stranded_warning(p) for p in stranded),
        *_unplaced_warnings(problem.partitions, placed.placement),
        *(stored.warnings if stored else ()),
    )
    placement = _balanced(problem, placed.placement, request, evacuated)
    final = replace(placement, replicas=tuple(evacuate(movable, placement.replicas, evacuated)))
    placement, final = (with_stranded(p, movable, scope.partitions) for p in (placement, final))
    before = tuple(p.current for p in scope.partitions)
    steps = _steps(request, world, before, placement.replicas, final.replicas)
    decision = Decision(
        replicas=final.replicas,
        certificate=certify(request.spends, scope.partitions, placement),
        targets=problem.targets,
        tags=problem.rule.tags,
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            receivers=stored.receivers if stored else problem.taking,
            pinned=tuple(p.key for p in stranded),
        ),
        storage=stored.storage if stored else {},
        storage_facts=stored.sizes.facts if stored else None,
        notes=(*placement.notes, *_request_notes(request), *(stored.sizes.notes if stored else ())),
        warnings=tuple(sorted(warnings)),
    )
    return Rebuild(
        plan=assemble(snapshot, request.words, scope, with_destinations(snapshot, scope, decision)),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """The brokers as the request sees them: racks of all, live ones with their racks, what happens to them."""

    racks: Mapping[int, str | None]
    live: Mapping[int, str | None]
    change: BrokerChange


def _observed(snapshot: ClusterSnapshot, scope: Scope, request: RebuildRequest) -> _World:
    holding = frozenset(b for p in scope.partitions for b in p.current)
    if not request.use_meta:
        listed = request.brokers.resolve(holding, frozenset())
        return _World(
            racks={}, live=dict.fromkeys(sorted({*holding, *listed})), change=classify_unseen(holding, listed)
        )
    live = {b.id: b.group for b in snapshot.brokers if b.is_alive}
    return _World(
        racks={b.id: b.group for b in snapshot.brokers},
        live=live,
        change=classify(holding, request.brokers.resolve(holding, frozenset(live), snapshot.leaving), live),
    )


def _standing(able: Sequence[PlannedPartition], change: BrokerChange, request: RebuildRequest) -> Mapping[int, int]:
    """Replicas of untouched partitions on the targets."""
    targets = frozenset(change.targets)
    held = (b for p in able if p.key in request.untouched for b in p.current if b in targets)
    return Counter(held) if request.untouched else {}


def _evacuated(snapshot: ClusterSnapshot, scope: Scope, request: RebuildRequest) -> dict[str, frozenset[int]]:
    """The brokers that must not lead, by topic; the patterns are matched against all topics there are."""
    if not request.leader_evac_topics:
        return {}
    names = {t.name for t in snapshot.topics} | set(scope.selection.selected)
    chosen = select_topics(names, request.leader_evac_topics).selected
    away = frozenset(request.leader_evac_brokers)
    return {topic: away for topic in chosen if topic in scope.selection.selected}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    placement: Placement
    affinities: tuple[Affinity, ...] = ()
    refused: tuple[str, ...] = ()


def _place(problem: PlacementProblem, scope: Scope, change: BrokerChange, request: RebuildRequest) -> _Placed:
    if request.force_rebuild:
        return _Placed(placement=place_forced(problem))
    affinities = find_affinities(scope.partitions, change, problem.racks) if request.sub_affinity else ()
    placement, refused = _place_minimal(problem, affinities)
    return _Placed(placement=placement, affinities=affinities, refused=refused)


def _place_stored(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    problem: PlacementProblem,
    change: BrokerChange,
    request: RebuildRequest,
    watch: Watch,
) -> Stored:
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


def _balanced(
    problem: PlacementProblem, placement: Placement, request: RebuildRequest, evacuated: Mapping[str, frozenset[int]]
) -> Placement:
    # A forced rebuild by count has even leaders already, as long as no broker is barred from leading.
    if not request.optimize_leadership or (request.force_rebuild and not evacuated and not request.by_storage):
        return placement
    lists = even_leaders(problem.partitions, placement.replicas, problem.targets, evacuated)
    return replace(placement, replicas=tuple(lists))


def _steps(
    request: RebuildRequest,
    world: _World,
    before: tuple[tuple[int, ...], ...],
    balanced: tuple[tuple[int, ...], ...],
    after: tuple[tuple[int, ...], ...],
) -> tuple[Step, ...]:
    if request.phased:
        return phased(before, balanced, after, frozenset(world.live))
    if request.chunk_step:
        brokers = frozenset(b for row in before for b in row) | frozenset(world.change.targets)
        return chunked(before, after, brokers, request.chunk_step, world.racks, GroupRule(request.min_rack_ids))
    return single(before, after)


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


def _unplaced_warnings(partitions: Sequence[PlannedPartition], placement: Placement) -> list[str]:
    lines = []
    for p, missing, replicas in zip(partitions, placement.unplaced, placement.replicas, strict=True):
        name = f"{p.key.topic} p{p.key.partition}"
        lines += [f"{name}: No additional brokers that meet Constraints"] * bool(missing)
        lines += [f"{name}: configured to zero replicas"] * (not replicas)
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
