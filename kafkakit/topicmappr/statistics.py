"""Counts before and after: per broker, and kafka-kit's degree distribution."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.topicmappr.plan import BrokerLoad, PlacementStats


@dataclass(frozen=True, slots=True)
class Degree:
    """With how many other brokers each broker shares a replica set: minimum, maximum, average."""

    low: int
    high: int
    average: float

    def __str__(self) -> str:
        return f"{self.low:.0f}/{self.high:.0f}/{self.average:.2f}"


def degree_of(replica_lists: Iterable[Sequence[int]]) -> Degree:
    """The degree distribution over brokers that hold a replica; all zero for an empty map."""
    partners: dict[int, set[int]] = defaultdict(set)
    for replicas in set(map(tuple, replica_lists)):
        for broker in replicas:
            partners[broker].update(replicas)
    degrees = [len(others) - 1 for others in partners.values()]
    if not degrees:
        return Degree(0, 0, 0.0)
    return Degree(min(degrees), max(degrees), sum(degrees) / len(degrees))


def placement_stats(
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    brokers: Iterable[int],
    racks: Mapping[int, str | None],
) -> PlacementStats:
    """Replicas, leaders and bytes of each broker that is named in `brokers` or holds a replica.

    The minima and maxima are over `brokers` (the targets). Bytes are None for a broker as soon as the
    size of one of its partitions is unknown.
    """
    replicas: dict[int, int] = dict.fromkeys(brokers, 0)
    measured = list(replicas)
    leaders: dict[int, int] = defaultdict(int)
    stored: dict[int, int | None] = defaultdict(int)
    for row, size in zip(lists, sizes, strict=True):
        if row:
            leaders[row[0]] += 1
        for broker in row:
            replicas[broker] = replicas.get(broker, 0) + 1
            known = stored[broker]
            stored[broker] = None if known is None or size is None else known + size
    counts = [replicas[b] for b in measured]
    leading = [leaders[b] for b in measured]
    return PlacementStats(
        brokers=tuple(
            BrokerLoad(broker=b, rack=racks.get(b), replicas=n, leaders=leaders[b], bytes=stored[b])
            for b, n in sorted(replicas.items())
        ),
        replicas_min=min(counts, default=0),
        replicas_max=max(counts, default=0),
        leaders_min=min(leading, default=0),
        leaders_max=max(leading, default=0),
    )
