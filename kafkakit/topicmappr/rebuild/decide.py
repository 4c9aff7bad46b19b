"""`topicmappr rebuild` as a pure function: snapshot and request in, plan and report facts out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkakit.model import ClusterSnapshot, PartitionAssignment, PartitionMap
from kafkakit.topicmappr.assembly import Decision, assemble
from kafkakit.topicmappr.broker_change import BrokerChange, classify
from kafkakit.topicmappr.certificate import Certificate, PlacementRules, certificate
from kafkakit.topicmappr.counts.affinity import Affinity, apply_affinities, find_affinities
from kafkakit.topicmappr.counts.forced import place_forced
from kafkakit.topicmappr.counts.minimal import movement_bound, place_minimal
from kafkakit.topicmappr.diagnose import explain_unplaced
from kafkakit.topicmappr.plan import Plan
from kafkakit.topicmappr.problem import Minimize, Placement, PlacementProblem, PlannedPartition
from kafkakit.topicmappr.rack_rule import RackRule
from kafkakit.topicmappr.rebuild.request import RebuildRequest
from kafkakit.topicmappr.scope import Scope, scope_of
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
    decision = Decision(
        replicas=placement.replicas,
        certificate=certify(request.minimize, scope.partitions, placement),
        targets=problem.targets,
        rules=PlacementRules(min_rack_ids=request.min_rack_ids, receivers=problem.targets),
        notes=tuple(notes),
        warnings=tuple(sorted(warnings)),
    )
    plan = assemble(snapshot, request.words, scope, decision)
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


def certify(minimize: Minimize, partitions: Sequence[PlannedPartition], placement: Placement) -> Certificate:
    """Set what the placement costs beside the proven bound."""
    by_bytes = minimize is Minimize.BYTES
    objective = 0
    for p, new in zip(partitions, placement.replicas, strict=True):
        if new != p.current:
            copies = sum(1 for b in new if b not in p.current)
            objective += copies * (p.size_bytes or 0) if by_bytes else copies
    return certificate("bytes" if by_bytes else "replicas", objective, placement.bound, placement.argument)
