"""`topicmappr rebuild` as a pure function: snapshot and request in, plan and report facts out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkakit.model import ClusterSnapshot, PartitionAssignment, PartitionMap
from kafkakit.topicmappr.affinity import Affinity, apply_affinities, find_affinities
from kafkakit.topicmappr.broker_change import BrokerChange, classify
from kafkakit.topicmappr.diagnose import explain_unplaced
from kafkakit.topicmappr.forced import place_forced
from kafkakit.topicmappr.minimal import movement_bound, place_minimal
from kafkakit.topicmappr.plan import (
    Certificate,
    Move,
    Plan,
    PlanBroker,
    ScopeEntry,
    SolverStatus,
    fingerprint_of,
)
from kafkakit.topicmappr.problem import Minimize, Placement, PlacementProblem, PlannedPartition
from kafkakit.topicmappr.rack_rule import RackRule
from kafkakit.topicmappr.request import RebuildRequest
from kafkakit.topicmappr.scope import Scope, scope_of
from kafkakit.topicmappr.statistics import placement_stats
from kafkakit.topicmappr.stranded import set_stranded_apart, stranded_warning, with_stranded


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A decided rebuild: the plan and what the report says besides.

    `before` and `after` are replica lists in the order of `scope.partitions`; `unplaced` counts wanted
    replicas without a broker and `shortages` says why.
    """

    plan: Plan
    scope: Scope
    change: BrokerChange
    affinities: tuple[Affinity, ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    unplaced: tuple[int, ...]
    shortages: tuple[str, ...]

    def maps(self, *, skip_no_ops: bool) -> PartitionMap:
        """The new map of all partitions, or of the changed ones only."""
        return PartitionMap(
            partitions=tuple(
                PartitionAssignment(topic=p.key.topic, partition=p.key.partition, replicas=new)
                for p, old, new in zip(self.scope.partitions, self.before, self.after, strict=True)
                if not (skip_no_ops and old == new)
            )
        )


def decide_rebuild(snapshot: ClusterSnapshot, request: RebuildRequest) -> Rebuild:
    """Decide where every selected replica goes.

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned; replicas that fit nowhere
    do not raise but are counted in `unplaced`. Cost: see `place_minimal` and `place_forced`.
    """
    scope = scope_of(snapshot, request)
    racks = {b.id: b.rack or None for b in snapshot.brokers}
    live = {b.id: b.rack or None for b in snapshot.brokers if b.is_alive}
    holding = frozenset(b for p in scope.partitions for b in p.current)
    change = classify(holding, request.brokers.resolve(holding, frozenset(live)), live)
    movable, stranded = set_stranded_apart(scope.partitions, frozenset(live))
    problem = PlacementProblem(movable, change.targets, racks, RackRule(request.min_rack_ids), request.minimize)
    affinities: tuple[Affinity, ...] = ()
    refused: tuple[str, ...] = ()
    if request.force_rebuild:
        placement = place_forced(problem)
    else:
        if request.sub_affinity:
            affinities = find_affinities(scope.partitions, change, racks)
        placement, refused = _place_minimal(problem, affinities)
    notes = list(placement.notes)
    if request.force_rebuild and request.sub_affinity:
        notes.append("--force-rebuild disables --sub-affinity")
    shortages = explain_unplaced(problem, placement.unplaced, live)
    warnings = (
        *change.warnings(),
        *refused,
        *(stranded_warning(p) for p in stranded),
        *_unplaced_warnings(problem.partitions, placement),
    )
    placement = with_stranded(placement, movable, scope.partitions)
    problem = replace(problem, partitions=scope.partitions)
    plan = _plan(snapshot, request, scope, problem, placement, tuple(notes), tuple(sorted(warnings)))
    return Rebuild(
        plan=plan,
        scope=scope,
        change=change,
        affinities=affinities,
        before=tuple(p.current for p in scope.partitions),
        after=placement.replicas,
        unplaced=placement.unplaced,
        shortages=shortages,
    )


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


def _plan(
    snapshot: ClusterSnapshot,
    request: RebuildRequest,
    scope: Scope,
    problem: PlacementProblem,
    placement: Placement,
    notes: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Plan:
    moves = tuple(
        _move(p, new, scope.topic_ids.get(p.key.topic))
        for p, new in zip(scope.partitions, placement.replicas, strict=True)
        if new != p.current
    )
    brokers = tuple(PlanBroker(id=b, rack=problem.rack_of(b)) for b in problem.targets)
    entries = tuple(
        ScopeEntry(
            topic=p.key.topic,
            partition=p.key.partition,
            replicas=p.current,
            topic_id=scope.topic_ids.get(p.key.topic),
        )
        for p in scope.partitions
    )
    sizes = [p.size_bytes for p in scope.partitions]
    before = [p.current for p in scope.partitions]
    return Plan(
        cluster_id=snapshot.cluster_id,
        # The snapshot's time, not the clock's: the same snapshot and request give the same bytes.
        created_at=snapshot.taken_at,
        snapshot_taken_at=snapshot.taken_at,
        snapshot_source=snapshot.source,
        fingerprint=fingerprint_of(snapshot.cluster_id, brokers, entries),
        request=request.words,
        certificate=certify(request.minimize, moves, placement),
        before=placement_stats(before, sizes, problem.targets, problem.racks),
        after=placement_stats(placement.replicas, sizes, problem.targets, problem.racks),
        brokers=brokers,
        scope=entries,
        moves=moves,
        reassignment=_map(moves, after=True),
        rollback=_map(moves, after=False),
        notes=notes,
        warnings=warnings,
    )


def _move(p: PlannedPartition, after: tuple[int, ...], topic_id: str | None) -> Move:
    copies = sum(1 for b in after if b not in p.current)
    return Move(
        topic=p.key.topic,
        partition=p.key.partition,
        before=p.current,
        after=after,
        size_bytes=p.size_bytes,
        bytes_moved=None if p.size_bytes is None and copies else copies * (p.size_bytes or 0),
        topic_id=topic_id,
    )


def certify(minimize: Minimize, moves: Sequence[Move], placement: Placement) -> Certificate:
    """Set what the moves cost beside the proven bound."""
    if minimize is Minimize.BYTES:
        unit, objective = "bytes", sum(m.bytes_moved or 0 for m in moves)
    else:
        unit, objective = "replicas", sum(len(m.adding) for m in moves)
    gap = (objective - placement.bound) / objective if objective else 0.0
    status = SolverStatus.OPTIMAL if objective == placement.bound else SolverStatus.FEASIBLE
    return Certificate(
        unit=unit,
        objective=objective,
        lower_bound=placement.bound,
        gap=gap,
        status=status,
        argument=placement.argument,
    )


def _map(moves: Sequence[Move], *, after: bool) -> PartitionMap:
    return PartitionMap(
        partitions=tuple(
            PartitionAssignment(topic=m.topic, partition=m.partition, replicas=m.after if after else m.before)
            for m in moves
        )
    )
