"""Snapshots made by hand, and larger clusters of known shapes for the byte balance, each from a seed."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic

TAKEN_AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
GIB = 1 << 30


def make_snapshot(
    brokers: Iterable[Broker], topics: Iterable[Topic] | Mapping[str, Iterable[Partition]], **facts: Any
) -> ClusterSnapshot:
    """A cluster of these brokers, and topics or partitions by topic; `facts` are others of the snapshot."""
    if isinstance(topics, Mapping):
        topics = [Topic(name=name, partitions=tuple(rows)) for name, rows in topics.items()]
    known: dict[str, Any] = {"cluster_id": "c1", "taken_at": TAKEN_AT, "source": "test", "sizes_taken": True}
    return ClusterSnapshot(**known | facts, brokers=tuple(brokers), topics=tuple(topics))


def cluster(
    racks: Sequence[str | None],
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int],
    capacity: Sequence[int] | int | None = None,
) -> ClusterSnapshot:
    """One topic; brokers 1, 2, ... on `racks`, with disks of `capacity` bytes (default: half full when even)."""
    held = [0] * len(racks)
    for row, size in zip(lists, sizes, strict=True):
        for b in row:
            held[b - 1] += size
    if capacity is None:
        capacity = max(2 * sum(held) // len(racks), max(held) * 10 // 8)
    disks = [capacity] * len(racks) if isinstance(capacity, int) else capacity
    return make_snapshot(
        (
            Broker(id=n, rack=rack, storage_free_bytes=max(0, disk - used))
            for n, (rack, disk, used) in enumerate(zip(racks, disks, held, strict=True), start=1)
        ),
        {
            "t": [
                Partition(partition=i, replicas=tuple(row), isr=tuple(row), size_bytes=size)
                for i, (row, size) in enumerate(zip(lists, sizes, strict=True))
            ]
        },
    )


def place(
    rng: random.Random, racks: Sequence[str | None], factor: int, weights: Sequence[float], *, minimum: int = 0
) -> list[int]:
    """A replica list on `factor` racks (at least `minimum` where that is given), by weight of the brokers."""
    chosen: list[int] = []
    while len(chosen) < factor:
        used = {racks[b - 1] for b in chosen if racks[b - 1]}
        spread = not minimum or len(used) < minimum
        open_ = [
            b
            for b in range(1, len(racks) + 1)
            if b not in chosen and weights[b - 1] > 0 and not (spread and racks[b - 1] and racks[b - 1] in used)
        ]
        chosen.append(rng.choices(open_, [weights[b - 1] for b in open_])[0])
    return chosen


def _skewed(rng: random.Random, count: int, spread: float = 1.0) -> list[int]:
    return [int(rng.lognormvariate(0, spread) * 10 * GIB) for _ in range(count)]


def plain(seed: int) -> ClusterSnapshot:
    """30 brokers in 3 racks, RF 3, skewed weights."""
    return _random(seed, 30, 3, 3, 1000)


def unlike_disks(seed: int) -> ClusterSnapshot:
    """24 brokers in 3 racks, RF 2, disks of one, two and four units in every rack."""
    rng = random.Random(seed)
    racks = [f"r{i % 3}" for i in range(24)]
    lists = [place(rng, racks, 2, [rng.uniform(0.5, 1.5) for _ in racks]) for _ in range(900)]
    sizes = _skewed(rng, 900)
    unit = int(sum(sizes) * 2 / 24)
    return cluster(racks, lists, sizes, [unit * (2, 3, 5)[(i // 3) % 3] for i in range(24)])


def two_unequal_racks(seed: int) -> ClusterSnapshot:
    """Rack a with 12 brokers and b with 8, RF 2: each rack holds one copy of all, so only free range can level."""
    rng = random.Random(seed)
    racks = ["a"] * 12 + ["b"] * 8
    weights = [rng.uniform(0.3, 2) for _ in racks]
    lists = [place(rng, racks, 2, weights) for _ in range(600)]
    return cluster(racks, lists, _skewed(rng, 600))


def overloaded_rack(seed: int) -> ClusterSnapshot:
    """RF 3 in 4 racks, one of which holds far more than its part."""
    rng = random.Random(seed)
    racks = [f"r{i % 4}" for i in range(32)]
    weights = [6.0 if r == "r0" else 1.0 for r in racks]
    lists = [place(rng, racks, 3, weights) for _ in range(1200)]
    return cluster(racks, lists, _skewed(rng, 1200))


def ten_in_three(seed: int) -> ClusterSnapshot:
    """10 brokers in 3 racks (4, 3, 3), RF 2."""
    return _random(seed, 10, 3, 2, 400)


def one_huge(seed: int) -> ClusterSnapshot:
    """20 brokers in 4 racks, RF 2; one partition is as large as a third of a broker's share."""
    rng = random.Random(seed)
    racks = [f"r{i % 4}" for i in range(20)]
    lists = [place(rng, racks, 2, [rng.uniform(0.5, 1.5) for _ in racks]) for _ in range(500)]
    sizes = _skewed(rng, 500, 0.5)
    sizes[0] = sum(sizes) * 2 // 20 // 3
    return cluster(racks, lists, sizes)


def few_large(seed: int) -> ClusterSnapshot:
    """24 brokers in 3 racks, RF 3, about 15 replicas a broker."""
    return _random(seed, 24, 3, 3, 120, spread=0.6)


def many_new(seed: int) -> ClusterSnapshot:
    """40 brokers in 4 racks, RF 3, of which 24 are empty."""
    rng = random.Random(seed)
    racks = [f"r{i % 4}" for i in range(40)]
    weights = [1.0 if i < 16 else 0.0 for i in range(40)]
    lists = [place(rng, racks, 3, weights) for _ in range(1500)]
    return cluster(racks, lists, _skewed(rng, 1500))


def four_copies(seed: int) -> ClusterSnapshot:
    """20 brokers in 3 racks, RF 4, made for --min-rack-ids 2."""
    rng = random.Random(seed)
    racks = [f"r{i % 3}" for i in range(20)]
    weights = [rng.uniform(0.3, 2) for _ in racks]
    lists = [place(rng, racks, 4, weights, minimum=2) for _ in range(500)]
    return cluster(racks, lists, _skewed(rng, 500))


def rackless(seed: int) -> ClusterSnapshot:
    """25 brokers without racks, RF 3."""
    rng = random.Random(seed)
    racks: list[str | None] = [None] * 25
    weights = [rng.uniform(0.2, 2) for _ in racks]
    lists = [place(rng, racks, 3, weights) for _ in range(800)]
    return cluster(racks, lists, _skewed(rng, 800))


def half_rackless(seed: int) -> ClusterSnapshot:
    """24 brokers, every third without a rack, RF 2."""
    rng = random.Random(seed)
    racks = [None if i % 3 == 0 else f"r{i % 4}" for i in range(24)]
    weights = [rng.uniform(0.2, 2) for _ in racks]
    lists = [place(rng, racks, 2, weights) for _ in range(800)]
    return cluster(racks, lists, _skewed(rng, 800))


def broken_sets(seed: int) -> ClusterSnapshot:
    """24 brokers in 3 racks, RF 3, lists made without looking at racks."""
    rng = random.Random(seed)
    racks = [f"r{i % 3}" for i in range(24)]
    weights = [rng.uniform(0.2, 2) for _ in racks]
    lists = [place(rng, [None] * 24, 3, weights) for _ in range(800)]
    return cluster(racks, lists, _skewed(rng, 800))


def large(seed: int) -> ClusterSnapshot:
    """60 brokers in 6 racks, RF 3, 3,000 partitions."""
    return _random(seed, 60, 6, 3, 3000)


def equal_sizes(seed: int) -> ClusterSnapshot:
    """18 brokers in 3 racks, RF 3, all partitions alike."""
    rng = random.Random(seed)
    racks = [f"r{i % 3}" for i in range(18)]
    weights = [rng.uniform(0.2, 2) for _ in racks]
    lists = [place(rng, racks, 3, weights) for _ in range(600)]
    return cluster(racks, lists, [10 * GIB] * 600)


def _random(seed: int, brokers: int, racks: int, factor: int, partitions: int, spread: float = 1.0) -> ClusterSnapshot:
    rng = random.Random(seed)
    names = [f"r{i % racks}" for i in range(brokers)]
    weights = [rng.uniform(0.3, 2) for _ in names]
    lists = [place(rng, names, factor, weights) for _ in range(partitions)]
    return cluster(names, lists, _skewed(rng, partitions, spread))


SHAPES: dict[str, Callable[[int], ClusterSnapshot]] = {
    f.__name__: f
    for f in (
        plain,
        unlike_disks,
        two_unequal_racks,
        overloaded_rack,
        ten_in_three,
        one_huge,
        few_large,
        many_new,
        four_copies,
        rackless,
        half_rackless,
        broken_sets,
        large,
        equal_sizes,
    )
}
