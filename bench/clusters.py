"""Synthetic clusters for the planning benches: heavy-tailed sizes, skewed placement, racks round robin.

The recipe and its seeds are those behind kafka-kit's measured figures (s, m, l, xl), so that times and moves
can be set side by side.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, Topic

GIB = 1 << 30
TOPIC_SIZES = (8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Shape:
    """Brokers, racks, partitions, seed, how many empty brokers are added, and what topics look like.

    `topic_sizes` are drawn from, `three` is the part of topics with three replicas (the others have two).
    """

    brokers: int
    racks: int
    partitions: int
    seed: int
    new: int
    topic_sizes: tuple[int, ...] = TOPIC_SIZES
    three: float = 0.9


SHAPES = {
    "s": Shape(30, 3, 2_000, 1, 6),
    "m": Shape(100, 3, 20_000, 2, 12),
    "l": Shape(300, 6, 100_000, 3, 30),
    "xl": Shape(600, 6, 200_000, 4, 60),
    # The smaller ones of which every figure of kafka-kit's is recorded.
    "c11": Shape(24, 3, 1_000, 11, 4),
    "c12": Shape(30, 3, 1_500, 12, 6),
    "c13": Shape(36, 6, 2_000, 13, 6),
    # Like Cruise Control's published case (its issue 1592): 215 brokers, 3,500 topics, 2.8 million replicas.
    "cc": Shape(215, 5, 930_000, 5, 0, (16, 32, 64, 128, 256, 512, 768), 1.0),
}


def old_brokers(shape: Shape) -> list[int]:
    """Ids of the brokers that hold replicas."""
    return [1000 + i for i in range(shape.brokers)]


def new_brokers(shape: Shape) -> list[int]:
    """Ids of the empty ones."""
    return [1000 + shape.brokers + i for i in range(shape.new)]


def make_cluster(shape: Shape) -> ClusterSnapshot:
    """The cluster as a snapshot; the same shape gives the same bytes."""
    draw = random.Random(shape.seed)
    racks = [chr(ord("a") + i) for i in range(shape.racks)]
    ids = old_brokers(shape)
    in_rack = {rack: ids[i :: shape.racks] for i, rack in enumerate(racks)}
    weight = {b: draw.gammavariate(4, 1) for b in ids}
    topics: list[Topic] = []
    left = shape.partitions
    while left:
        count = min(left, draw.choice(shape.topic_sizes))
        base = draw.lognormvariate(0, 1.2) * GIB
        factor = 3 if draw.random() < shape.three else 2
        rows = [_partition(draw, n, base, draw.sample(racks, factor), in_rack, weight) for n in range(count)]
        topics.append(Topic(name=f"topic-{len(topics):05d}", partitions=tuple(rows)))
        left -= count
    everyone = [*ids, *new_brokers(shape)]
    used = dict.fromkeys(everyone, 0)
    for topic in topics:
        for p in topic.partitions:
            for b, size in p.replica_bytes.items():
                used[b] += size
    capacity = int(max(used.values()) * 1.25)
    return ClusterSnapshot(
        cluster_id="bench",
        taken_at=datetime(2026, 11, 1, tzinfo=UTC),
        source="bench/clusters.py",
        brokers=tuple(
            Broker(
                id=b,
                rack=racks[_rack(i, shape)],
                log_dirs=(LogDir(path="/data", total_bytes=capacity, usable_bytes=capacity - used[b]),),
            )
            for i, b in enumerate(everyone)
        ),
        topics=tuple(topics),
        sizes_taken=True,
    )


def _rack(index: int, shape: Shape) -> int:
    return index % shape.racks if index < shape.brokers else (index - shape.brokers) % shape.racks


def _partition(
    draw: random.Random,
    number: int,
    base: float,
    racks: Sequence[str],
    in_rack: dict[str, list[int]],
    weight: dict[int, float],
) -> Partition:
    replicas = [draw.choices(in_rack[r], [weight[b] for b in in_rack[r]])[0] for r in racks]
    draw.shuffle(replicas)
    size = int(base * draw.lognormvariate(0, 0.5))
    return Partition(partition=number, replicas=tuple(replicas), replica_bytes=dict.fromkeys(replicas, size))
