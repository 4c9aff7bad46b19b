"""Partitions without a live copy in sync: nothing can be copied from them, so a plan leaves them alone."""

from collections.abc import Sequence
from dataclasses import replace

from kafkakit.placement.problem import Placement, PlannedPartition

Partitions = tuple[PlannedPartition, ...]


def set_stranded_apart(partitions: Partitions, live: frozenset[int]) -> tuple[Partitions, Partitions]:
    """Split into (movable, stranded); stranded ones have replicas, and none of those in sync is on a live broker.

    Where the in-sync set is unknown, any live replica counts. A move of a stranded partition would wait for ever
    (Kafka accepts it and has no leader to copy from), and dropping its dead copies would lose the data.
    """
    stranded = tuple(p for p in partitions if p.current and not _sources(p) & live)
    if not stranded:
        return partitions, ()
    apart = {p.key for p in stranded}
    return tuple(p for p in partitions if p.key not in apart), stranded


def _sources(partition: PlannedPartition) -> frozenset[int]:
    return frozenset(partition.current) if partition.in_sync is None else partition.in_sync


def stranded_warning(partition: PlannedPartition) -> str:
    """The overridable warning about one of them."""
    sources = ", ".join(map(str, sorted(_sources(partition)))) or "none"
    key = partition.key
    return f"{key.topic} p{key.partition}: no live copy in sync (brokers {sources}), left where it is"


def with_stranded(placement: Placement, placed: Sequence[PlannedPartition], every: Partitions) -> Placement:
    """Put the stranded partitions back into a placement of the others, unchanged; `every` gives the order."""
    if len(placed) == len(every):
        return placement
    lists = {p.key: replicas for p, replicas in zip(placed, placement.replicas, strict=True)}
    missing = {p.key: n for p, n in zip(placed, placement.unplaced, strict=True)}
    return replace(
        placement,
        replicas=tuple(lists.get(p.key, p.current) for p in every),
        unplaced=tuple(missing.get(p.key, 0) for p in every),
    )
