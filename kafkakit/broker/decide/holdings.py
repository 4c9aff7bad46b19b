"""What brokers hold and lead now: the facts that verify an operation, and those a broker coming back waits for."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker: its state, and how many replicas, leaderships and copies out of sync it has."""

    broker: int
    rack: str | None
    state: BrokerState
    replicas: int
    leaders: int
    out_of_sync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What some brokers have: each list of partitions is sorted.

    `held` have a replica there, `led` are led from there, `lagging` have a copy there that is not in sync, `due`
    have their first replica there, in sync, and are led from elsewhere. `passing` are led from there although their
    first replica is elsewhere and in sync. `moving` are reassigned just now.
    """

    held: tuple[TopicPartition, ...] = ()
    led: tuple[TopicPartition, ...] = ()
    lagging: tuple[TopicPartition, ...] = ()
    due: tuple[TopicPartition, ...] = ()
    passing: tuple[TopicPartition, ...] = ()
    moving: tuple[TopicPartition, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()

    @property
    def absent(self) -> tuple[int, ...]:
        """Those of the brokers that are not alive."""
        return tuple(b.broker for b in self.brokers if b.state is not BrokerState.ALIVE)


def holdings_of(snapshot: ClusterSnapshot, brokers: Collection[int]) -> Holdings:
    """Collect what the brokers hold; O(replicas) for those that hold something, O(partitions) for the rest."""
    goal = frozenset(brokers)
    held, led, lagging, due, passing, moving = [], [], [], [], [], []
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    under_way = {TopicPartition(r.topic, r.partition) for r in snapshot.reassignments}
    for topic, partition in snapshot.partitions():
        here = goal.intersection(partition.replicas)
        if not here and partition.leader not in goal:
            continue
        key = TopicPartition(topic, partition.partition)
        in_sync = frozenset(partition.isr or ())
        late = here - in_sync
        first = partition.replicas[0] if partition.replicas else None
        held += [key] if here else []
        lagging += [key] if late else []
        led += [key] if partition.leader in goal else []
        due += [key] if first in goal and first in in_sync and partition.leader != first else []
        if partition.leader in goal and first not in goal and first in in_sync:
            passing.append(key)
        moving += [key] if key in under_way else []
        replicas.update(here)
        behind.update(late)
        if partition.leader in goal:
            leaders[partition.leader] += 1
    known = snapshot.broker_by_id()
    return Holdings(
        held=tuple(sorted(held)),
        led=tuple(sorted(led)),
        lagging=tuple(sorted(lagging)),
        due=tuple(sorted(due)),
        passing=tuple(sorted(passing)),
        moving=tuple(sorted(moving)),
        brokers=tuple(
            BrokerFacts(
                broker=b,
                rack=known[b].rack if b in known else None,
                state=known[b].state if b in known else BrokerState.MISSING,
                replicas=replicas[b],
                leaders=leaders[b],
                out_of_sync=behind[b],
            )
            for b in sorted(goal)
        ),
    )
