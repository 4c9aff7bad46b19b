"""Who leaves when the replication factor shrinks and bytes are balanced: copies on the fullest brokers."""

from collections.abc import Mapping, Sequence

from kafkakit.placement.problem import PlacementProblem, PlannedPartition


def trim(
    problem: PlacementProblem, kept: Sequence[tuple[int, ...]], sizes: Sequence[int], free: Mapping[int, int]
) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """Cut lists that are longer than wanted; returns them and the free bytes that the leaving copies make.

    The largest partitions choose first. A copy that repeats a rack leaves before others, then one out of sync,
    then the one on the broker with the least free bytes; never the leader, so a copy in sync stays wherever the
    leader is in sync. O(cut partitions x replicas squared).
    """
    lists, now = list(kept), dict(free)
    due = [i for i, p in enumerate(problem.partitions) if len(kept[i]) > p.wanted]
    for i in sorted(due, key=lambda i: (-sizes[i], i)):
        partition = problem.partitions[i]
        while len(lists[i]) > partition.wanted:
            leaving = min(_candidates(lists[i], partition), key=lambda b: _order(problem, partition, lists[i], b, now))
            lists[i] = tuple(b for b in lists[i] if b != leaving)
            now[leaving] = now.get(leaving, 0) + sizes[i]
    return lists, now


def _candidates(row: tuple[int, ...], partition: PlannedPartition) -> tuple[int, ...]:
    """All but the leader, and but the only copy in sync."""
    leader = partition.current[0] if partition.current[0] in row else row[0]
    others = tuple(b for b in row if b != leader)
    in_sync = [b for b in row if partition.in_sync is not None and b in partition.in_sync]
    if len(in_sync) == 1:
        return tuple(b for b in others if b not in in_sync) or others
    return others


def _order(
    problem: PlacementProblem, partition: PlannedPartition, row: tuple[int, ...], broker: int, free: Mapping[int, int]
) -> tuple[bool, bool, int, int]:
    rack = problem.rack_of(broker)
    repeats = rack is not None and sum(problem.rack_of(b) == rack for b in row) > 1
    in_sync = partition.in_sync is None or broker in partition.in_sync
    return not repeats, in_sync, free.get(broker, 0), broker
