"""A drain as it was asked for, and as a problem: which replicas leave, which stay, and who may take the new copies.

Placing is another step, so that the same problem can be placed by counts or by bytes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule, racks_to_spread, refuse_both_rules
from kafkakit.placement.openings import BrokerPool, pool_of
from kafkakit.placement.problem import PlaceBy, PlannedPartition, set_stranded_apart
from kafkakit.topicmappr.decide.budget import NO_BUDGET, Budget, PartitionChange, Served, refuse_unsized, serve
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.rebalance.exclusions import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of


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
