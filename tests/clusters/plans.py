"""Plans for tests, made by hand from any cluster: say which partitions get which lists."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from kafkakit.core.model import Broker, PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.core.plan import (
    BrokerLoad,
    Certificate,
    Move,
    PlacementStats,
    Plan,
    PlanBroker,
    ScopeEntry,
    SolverStatus,
    fingerprint_of,
)
from kafkakit.ports.admin import ClusterAdmin

MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
NO_STATS = PlacementStats(
    brokers=(BrokerLoad(broker=0, rack=None, replicas=0, leaders=0),),
    replicas_min=0,
    replicas_max=0,
    leaders_min=0,
    leaders_max=0,
)


def make_plan(
    admin: ClusterAdmin,
    targets: Mapping[tuple[str, int], Collection[int]],
    *,
    topics: Collection[str] | None = None,
    brokers: Collection[int] | None = None,
) -> Plan:
    """A plan that brings the partitions to the given lists; the scope is all of `topics` (default: those moved)."""
    names = set(topics) if topics is not None else {t for t, _ in targets}
    snapshot = admin.snapshot(now=MADE_AT, topics=names, sizes=True)
    scope = tuple(
        ScopeEntry(topic=t.name, partition=p.partition, replicas=p.replicas, topic_id=t.topic_id)
        for t in snapshot.topics
        for p in t.partitions
    )
    sizes = {TopicPartition(t, p.partition): p.known_bytes for t, p in snapshot.partitions()}
    moves = []
    for entry in scope:
        after = tuple(targets.get((entry.topic, entry.partition), entry.replicas))
        if after != entry.replicas:
            size = sizes[TopicPartition(entry.topic, entry.partition)]
            new = len(set(after) - set(entry.replicas))
            moves.append(
                Move(
                    topic=entry.topic,
                    partition=entry.partition,
                    before=entry.replicas,
                    after=after,
                    size_bytes=size,
                    bytes_moved=None if size is None else size * new,
                    topic_id=entry.topic_id,
                )
            )
    return plan_of(snapshot.cluster_id, _plan_brokers(snapshot.brokers, brokers), scope, tuple(moves))


def plan_of(
    cluster_id: str, brokers: tuple[PlanBroker, ...], scope: tuple[ScopeEntry, ...], moves: tuple[Move, ...]
) -> Plan:
    """A consistent plan around the given parts."""
    copies = sum(len(m.adding) for m in moves)
    return Plan(
        cluster_id=cluster_id,
        created_at=MADE_AT,
        snapshot_taken_at=MADE_AT,
        snapshot_source="test",
        fingerprint=fingerprint_of(cluster_id, brokers, scope),
        request={},
        certificate=Certificate(
            unit="replicas",
            objective=copies,
            lower_bound=copies,
            gap=0.0,
            status=SolverStatus.OPTIMAL,
            argument="made by hand",
        ),
        before=NO_STATS,
        after=NO_STATS,
        brokers=brokers,
        scope=scope,
        moves=moves,
        reassignment=PartitionMap(
            partitions=tuple(PartitionAssignment(topic=m.topic, partition=m.partition, replicas=m.after) for m in moves)
        ),
        rollback=PartitionMap(
            partitions=tuple(
                PartitionAssignment(topic=m.topic, partition=m.partition, replicas=m.before) for m in moves
            )
        ),
    )


def _plan_brokers(known: tuple[Broker, ...], wanted: Collection[int] | None) -> tuple[PlanBroker, ...]:
    return tuple(PlanBroker(id=b.id, rack=b.rack) for b in known if wanted is None or b.id in wanted)
