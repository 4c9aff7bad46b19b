"""The brokers as a plain request sees them: which live, which may take copies, and what they carry now."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.model import Broker, ClusterSnapshot


@dataclass(frozen=True, slots=True)
class BrokerPool:
    """The brokers of a snapshot; `replicas` and `leaders` count all topics, also those a request leaves out.

    `open` are the live brokers that may take new copies, `closed` the live ones whose every log dir is
    cordoned or broken, `leaving` the live ones that an operation empties: they take copies only where they are named.
    """

    racks: Mapping[int, str | None]
    live: frozenset[int]
    open: frozenset[int]
    closed: frozenset[int]
    replicas: Mapping[int, int]
    leaders: Mapping[int, int]
    leaving: frozenset[int]

    def named(self, broker: int) -> bool:
        """True when the cluster knows the broker, alive or not."""
        return broker in self.racks


def pool_of(snapshot: ClusterSnapshot) -> BrokerPool:
    """Count what every broker carries; preferred leaders are the first replicas. O(replicas)."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for topic in snapshot.topics:
        for partition in topic.partitions:
            replicas.update(partition.replicas)
            leaders.update(partition.replicas[:1])
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    closed = frozenset(b.id for b in snapshot.brokers if b.is_alive and _is_closed(b))
    racks = {b.id: b.group for b in snapshot.brokers}
    leaving = snapshot.leaving
    return BrokerPool(racks, live, live - closed - leaving, closed, replicas, leaders, leaving)


def _is_closed(broker: Broker) -> bool:
    return bool(broker.log_dirs) and all(d.cordoned or d.error for d in broker.log_dirs)
