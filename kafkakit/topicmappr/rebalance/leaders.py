"""Even leaders on top of a balance of bytes: lists are reordered, no replica changes brokers."""

from collections.abc import Collection, Sequence

from kafkakit.topicmappr.counts.leaders import balance_leaders
from kafkakit.topicmappr.problem import PlannedPartition


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Sequence[tuple[int, ...]],
    targets: Sequence[int],
    stranded: Collection[PlannedPartition],
) -> list[tuple[int, ...]]:
    """The lists with leaders spread evenly; partitions without a live copy in sync stay as they are."""
    apart = {p.key for p in stranded}
    rows = [i for i, p in enumerate(partitions) if p.key not in apart]
    ordered = balance_leaders([partitions[i].current for i in rows], [lists[i] for i in rows], targets)
    after = list(lists)
    for i, row in zip(rows, ordered, strict=True):
        after[i] = row
    return after
