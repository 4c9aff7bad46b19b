"""Which broker each copy leaves and where it goes, and the tolerance that describes the result."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.topicmappr.decide.rebalance.decision import Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """One copy that moves from broker to broker; `size` in bytes."""

    key: TopicPartition
    source: int
    destination: int
    size: int


def relocations_of(decided: Rebalance) -> tuple[Relocation, ...]:
    """Every copy that moves, the largest first. O(moves)."""
    racks = {load.broker: load.rack for load in decided.plan.after.brokers}
    found = [
        (-(move.size_bytes or 0), move.topic, move.partition, source, destination)
        for move in decided.plan.moves
        for source, destination in pairs(move.before, move.after, racks)
    ]
    return tuple(
        Relocation(key=TopicPartition(topic, partition), source=source, destination=destination, size=-size)
        for size, topic, partition, source, destination in sorted(found)
    )


def pairs(before: Sequence[int], after: Sequence[int], racks: Mapping[int, str | None]) -> list[tuple[int, int]]:
    """Who takes over from whom: by place in the list, or, where the list was reordered, by rack and then in order."""
    gone = [b for b in before if b not in after]
    come = [b for b in after if b not in before]
    found = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    if all(old in gone and new in come for old, new in found):
        return found
    found = []
    for alike in (True, False):
        taken = {b for pair in found for b in pair}
        for old in (b for b in gone if b not in taken):
            left = [b for b in come if b not in taken and (not alike or racks.get(b) == racks.get(old))]
            if left:
                found.append((old, left[0]))
                taken.add(left[0])
    return found


def smallest_tolerance(
    mean: float, after: Mapping[int, int], sources: Collection[int], destinations: Collection[int]
) -> float:
    """The least whole percent (as a fraction) within which kafka-kit's limits hold for the result.

    Sources may end with at most mean x (1 + it) free, destinations with mean x (1 - it) or more; one percent is
    the finest that kafka-kit tries.
    """
    if mean <= 0:
        return 0.01
    away = [after[b] / mean - 1 for b in sources if b in after]
    away += [1 - after[b] / mean for b in destinations if b in after]
    widest = max(away, default=0.0)
    percent = max(1, int(widest * 100))
    # A whole percent that is met but for the last bit of a division counts as met.
    return (percent if widest * 100 <= percent + 1e-9 else percent + 1) / 100
