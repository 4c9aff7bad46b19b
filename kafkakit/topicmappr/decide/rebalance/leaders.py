"""Even leaders on top of a balance of bytes: lists are reordered, no replica changes brokers."""

from collections import Counter
from collections.abc import Collection, Sequence

from kafkakit.placement import leaders
from kafkakit.placement.problem import PlannedPartition

Row = tuple[int, ...]


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Sequence[Row],
    targets: Sequence[int],
    stranded: Collection[PlannedPartition],
) -> list[Row]:
    """The lists with leaders spread evenly; partitions without a live copy in sync stay as they are."""
    apart = {p.key for p in stranded}
    may_lead = [() if p.key in apart else row for p, row in zip(partitions, lists, strict=True)]
    return leaders.even_leaders([p.current for p in partitions], lists, targets, may_lead)


def even_vacant_leaders(
    partitions: Sequence[PlannedPartition], lists: Sequence[Row], targets: Sequence[int]
) -> list[Row]:
    """The lists with leaders as even as those can make them whose leader leaves anyway; no other leader changes.

    `lists` have each new copy in the place of the one it replaces; of equally even orders the one nearest to that.
    """
    may_lead = [row if row and p.current[0] not in row else () for p, row in zip(partitions, lists, strict=True)]
    led = leaders_of([row for row, vacant in zip(lists, may_lead, strict=True) if not vacant], targets)
    return leaders.even_leaders(lists, lists, targets, may_lead, list(led.values()))


def leaders_of(lists: Sequence[Row], targets: Sequence[int]) -> dict[int, int]:
    """How many lists each target leads, by id in order."""
    led = Counter(row[0] for row in lists if row)
    return {b: led[b] for b in sorted(targets)}
