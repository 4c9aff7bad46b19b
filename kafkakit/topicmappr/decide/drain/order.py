"""Which partitions a drain with a budget serves first."""

from collections.abc import Collection

from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.budget import Budget, PartitionChange, Served, refuse_unsized, serve
from kafkakit.topicmappr.decide.drain.problem import DrainProblem

_WHOLE = 1 << 20


def serve_drain(
    snapshot: ClusterSnapshot, problem: DrainProblem, unfit: Collection[int], budget: Budget, facts: StorageFacts | None
) -> Served:
    """Choose the openings that the budget takes; those of `unfit` partitions find no place and cost nothing.

    First come partitions with a replica on a dead leaving broker, those with the fewest live copies in sync before
    all; then the smallest, so that most partitions are freed for the bytes. Raises as `refuse_unsized`.
    """
    changes = [
        _change(problem, i, problem.scope.partitions[i], len(kept))
        for i, kept in problem.openings.items()
        if i not in unfit
    ]
    refuse_unsized(snapshot, budget, changes, facts)
    return serve(changes, budget)


def _change(problem: DrainProblem, index: int, p: PlannedPartition, kept: int) -> PartitionChange:
    live = problem.pool.live
    rank = _WHOLE
    if any(b in problem.leaving and b not in live for b in p.current):
        rank = sum(1 for b in p.current if b in live and (p.in_sync is None or b in p.in_sync))
    return PartitionChange(index=index, key=p.key, copies=len(p.current) - kept, size_bytes=p.size_bytes, rank=rank)
