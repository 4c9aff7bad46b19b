"""A drain as a problem: which replicas leave, which stay, and who may take the new copies.

Placing is another step, so that the same problem can be placed by counts or by bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule, racks_to_spread
from kafkakit.placement.openings.broker_pool import BrokerPool, pool_of
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.stranded import set_stranded_apart
from kafkakit.topicmappr.decide.drain.request import DrainRequest
from kafkakit.topicmappr.decide.pins import pinned_indices
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, scope_of


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
    pool = pool_of(snapshot)
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
    rule = GroupRule(request.min_rack_ids, spread_over)
    apart = held.union(p.key for p in stranded)
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers),
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
        if broker in pool.closed:
            raise UsageError(f"--to: every log dir of broker {broker} is cordoned or broken")
    return tuple(sorted(listed.ids))
