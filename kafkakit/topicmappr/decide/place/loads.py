"""What brokers carry now, in the unit that a new topic is placed by: replicas, or whole partitions' worth of bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot

_MOST_LEVELS = 10**12


@dataclass(frozen=True, slots=True)
class BytesHeld:
    """Bytes on each broker; `guessed` partitions have no known size and count with the mean of the others."""

    by_broker: Mapping[int, int]
    guessed: int


def bytes_held(snapshot: ClusterSnapshot, brokers: Sequence[int]) -> BytesHeld:
    """Add up the replicas of every topic; raises `UsageError` when no size is known at all. O(replicas)."""
    held = dict.fromkeys(brokers, 0)
    unsized: list[tuple[int, ...]] = []
    total = count = 0
    for _, partition in snapshot.partitions():
        size = partition.known_bytes
        if size is None:
            unsized.append(partition.replicas)
            continue
        total, count = total + size, count + 1
        for broker in partition.replicas:
            if broker in held:
                held[broker] += partition.replica_bytes.get(broker, size)
    if unsized and not count:
        raise UsageError(
            "no size of any partition is known, so nothing can be filled by bytes",
            hint="take a snapshot with sizes, or leave --partition-bytes out",
        )
    for replicas in unsized:
        for broker in replicas:
            if broker in held:
                held[broker] += total // count
    return BytesHeld(held, len(unsized))


def as_levels(held: Mapping[int, int], partition_bytes: int) -> dict[int, int]:
    """Bytes as whole partitions of the new topic, so that one more copy is one level more.

    Where one partition is less than a million-millionth of a broker, the step is that much.
    """
    step = max(partition_bytes, -(-max(held.values(), default=0) // _MOST_LEVELS))
    return {broker: size // step for broker, size in held.items()}
