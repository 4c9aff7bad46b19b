"""How large a made fleet is: its tiers, and how brokers, topics and partitions spread over its clusters."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

RACKS = ("a", "b", "c")
REPLICAS = 3
SIGMA = 1.6
"""Of the lognormal sizes of clusters: the largest 5 % hold about half of all partitions."""
LEAST_TOPICS = 12
CLUSTERS_OF_POOL = 50


class Tier(StrEnum):
    """The sizes of fleets that figures are given for."""

    XS = "XS"
    S = "S"
    M = "M"
    L = "L"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """Totals of a fleet. `hours` of traffic by partition are written, and about `segment_rows` rows of segments."""

    clusters: int
    brokers: int
    topics: int
    partitions: int
    segment_rows: int
    hours: int


SIZES: dict[Tier, FleetSize] = {
    Tier.XS: FleetSize(clusters=3, brokers=9, topics=60, partitions=600, segment_rows=10_000, hours=168),
    Tier.S: FleetSize(clusters=10, brokers=99, topics=1_000, partitions=20_000, segment_rows=500_000, hours=24),
    Tier.M: FleetSize(clusters=100, brokers=1_998, topics=20_000, partitions=500_000, segment_rows=12_000_000, hours=4),
    Tier.L: FleetSize(
        clusters=300, brokers=18_000, topics=100_000, partitions=4_000_000, segment_rows=2_000_000, hours=1
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """One cluster: broker ids are 1 to `brokers`, which is a multiple of the racks. Every third has files of topics."""

    index: int
    name: str
    brokers: int
    topics: int
    partitions: int
    mirror_of: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The label that its peers share, and that of a mirror."""
        peers = f"pool-{self.index // CLUSTERS_OF_POOL}"
        return (peers,) if self.mirror_of is None else (peers, f"mirror:{self.mirror_of}")

    @property
    def is_declared(self) -> bool:
        """True where files declare its topics."""
        return self.index % 3 == 0


def cluster_shapes(size: FleetSize, seed: int, *, skew: bool = False) -> tuple[ClusterShape, ...]:
    """The clusters of a fleet, largest first; with `skew` the first has half of all partitions.

    Clusters 2 and 12, 22, ... are mirrors of those before them, and as large.
    """
    rng = np.random.default_rng([seed, 1])
    weights = np.sort(rng.lognormal(0.0, SIGMA if size.clusters > 3 else 0.2, size.clusters))[::-1]
    if skew and size.clusters > 1:
        weights[0] = weights[1:].sum()
    for mirror in range(2, size.clusters, 10):
        weights[mirror] = weights[mirror - 1]
    shares = weights / weights.sum()
    racks = len(RACKS)
    brokers = racks * _parted(size.brokers // racks, shares, 1)
    topics = _parted(size.topics, shares, min(LEAST_TOPICS, size.topics // size.clusters))
    partitions = np.maximum(_parted(size.partitions, shares, 1), topics)
    shapes = []
    for i in range(size.clusters):
        is_mirror = i % 10 == 2
        like = i - 1 if is_mirror else i
        shapes.append(
            ClusterShape(
                index=i,
                name=f"kafka-{i:04d}",
                brokers=int(brokers[like]),
                topics=int(topics[like]),
                partitions=int(partitions[like]),
                mirror_of=f"kafka-{i - 1:04d}" if is_mirror else None,
            )
        )
    return tuple(shapes)


def _parted(total: int, shares: NDArray[np.float64], least: int) -> NDArray[np.int64]:
    """`total` in parts of about these shares, each at least `least`; the largest takes what rounding leaves."""
    parts = np.maximum(least, np.floor(shares * total)).astype(np.int64)
    excess = int(parts.sum()) - total
    if excess > 0:  # many small clusters were raised to the least: all the others give
        spare = parts - least
        parts -= np.ceil(spare * min(1.0, excess / max(1, int(spare.sum())))).astype(np.int64)
    parts[0] += total - int(parts.sum())
    return parts
