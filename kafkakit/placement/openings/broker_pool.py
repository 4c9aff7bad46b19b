"""The brokers as a plain request sees them, live or able to take copies, and the new replica lists on them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.model import Broker, ClusterSnapshot
from kafkakit.placement.leaders import pass_leaders
from kafkakit.placement.problem import PlannedPartition


@dataclass(frozen=True, slots=True)
class BrokerPool:
    """The brokers of a snapshot; `replicas` and `leaders` count all topics, also those a request leaves out.

    `open` are the live brokers that may take new copies, `closed` the live ones whose every log dir is
    cordoned or broken, `leaving` the live ones that an operation empties: they take copies only where they are named.
    `excluded` are not open since a request says so.
    """

    racks: Mapping[int, str | None]
    live: frozenset[int]
    open: frozenset[int]
    closed: frozenset[int]
    replicas: Mapping[int, int]
    leaders: Mapping[int, int]
    leaving: frozenset[int]
    excluded: frozenset[int] = frozenset()

    def without(self, excluded: frozenset[int]) -> "BrokerPool":
        """The pool if these brokers take no copies."""
        return replace(self, open=self.open - excluded, excluded=excluded)

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


Row = tuple[int, ...]


def replace_replicas(
    partitions: Sequence[PlannedPartition], kept: Mapping[int, Row], chosen: Mapping[int, Row], pool: BrokerPool
) -> list[Row]:
    """All lists, those of partition i with `chosen[i]` in place of what is not in `kept[i]`; the others stay.

    Staying replicas keep their places and new ones take those that come free. A leadership passes on only when its
    broker leaves: to a staying replica that lives and is in sync, so that it need not wait for the copy, or where
    none is, to a live or a new one. Among those the counts of leaders come out as even as can be, all other
    leaderships fixed.
    """
    passing = [i for i in sorted(chosen) if partitions[i].current[0] not in kept[i]]
    led = Counter(pool.leaders)
    led.subtract(partitions[i].current[0] for i in passing)
    candidates = [_candidates(partitions[i], kept[i], chosen[i], pool) for i in passing]
    leaders = dict(zip(passing, pass_leaders(candidates, led), strict=True))
    lists = [p.current for p in partitions]
    for i, new in chosen.items():
        supply = iter(new)
        places = [b if b in kept[i] else next(supply) for b in lists[i]]
        if i in leaders:
            # The new leader and the copy in the leader's old place are swapped, so that no other copy moves.
            at = places.index(leaders[i])
            places[0], places[at] = places[at], places[0]
        lists[i] = tuple(places)
    return lists


def _candidates(partition: PlannedPartition, kept: Row, new: Row, pool: BrokerPool) -> Row:
    alive = tuple(b for b in kept if b in pool.live)
    in_sync = partition.in_sync
    ready = alive if in_sync is None else tuple(b for b in alive if b in in_sync)
    return ready or alive or new
