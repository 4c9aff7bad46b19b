"""Even leaders on top of a balance of bytes: lists are reordered, no replica changes brokers."""

from collections.abc import Collection, Sequence

from kafkakit.placement.counts.leaders import balance_leaders, candidates_of, choose_leaders, in_front
from kafkakit.placement.problem import PlannedPartition


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
    return _with_rows(lists, rows, ordered)


def even_vacant_leaders(
    partitions: Sequence[PlannedPartition], lists: Sequence[tuple[int, ...]], targets: Sequence[int]
) -> list[tuple[int, ...]]:
    """The lists with leaders as even as those can make them whose leader leaves anyway; no other leader changes.

    `lists` have each new copy in the place of the one it replaces; of equally even orders the one nearest to that.
    """
    rows = [i for i, (p, row) in enumerate(zip(partitions, lists, strict=True)) if row and p.current[0] not in row]
    vacant = [lists[i] for i in rows]
    led = leaders_of(lists, targets)
    for row in vacant:
        if row[0] in led:
            led[row[0]] -= 1
    who = candidates_of(vacant, vacant, targets)
    return _with_rows(lists, rows, in_front(vacant, who, choose_leaders(who, list(led.values())), targets))


def leaders_of(lists: Sequence[tuple[int, ...]], targets: Sequence[int]) -> dict[int, int]:
    """How many lists each target leads, by id in order."""
    led = dict.fromkeys(sorted(targets), 0)
    for row in lists:
        if row and row[0] in led:
            led[row[0]] += 1
    return led


def _with_rows(
    lists: Sequence[tuple[int, ...]], rows: Sequence[int], ordered: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    after = list(lists)
    for i, row in zip(rows, ordered, strict=True):
        after[i] = row
    return after
