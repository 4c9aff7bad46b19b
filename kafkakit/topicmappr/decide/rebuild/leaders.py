"""Who leads after a rebuild: which replicas may lead each list, and brokers that must lead no more."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.placement import leaders
from kafkakit.placement.problem import PlannedPartition

Row = tuple[int, ...]
Lists = Sequence[Row]


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Lists,
    targets: Sequence[int],
    evacuated: Mapping[str, Collection[int]],
) -> list[Row]:
    """Put the leaders that make the counts most even in front; `evacuated` maps topics to brokers that must not lead.

    kafka-kit sorts each list by ratios of leaders to followers; this is exact, so never less even.
    """
    away = [evacuated.get(p.key.topic, ()) for p in partitions]
    may_lead = [tuple(b for b in row if b not in gone) for row, gone in zip(lists, away, strict=True)]
    return leaders.even_leaders([p.current for p in partitions], lists, targets, may_lead)


def lead_evenly(current: Lists, lists: Lists, targets: Sequence[int], *, forced: bool) -> list[Row]:
    """Lists with leaders chosen among the partitions that change; others keep theirs and count as they are.

    Unless forced, a leader that stays keeps leading, so only partitions that lost theirs choose. O(replicas).
    """
    may_lead = [_may_lead(old, new, forced) for old, new in zip(current, lists, strict=True)]
    return leaders.even_leaders(current, lists, targets, may_lead)


def _may_lead(old: Row, new: Row, forced: bool) -> Row:
    if set(old) == set(new):
        return new[:1]
    return old[:1] if not forced and old[:1] and old[0] in new else new


def evacuate(
    partitions: Sequence[PlannedPartition], lists: Lists, evacuated: Mapping[str, Collection[int]]
) -> list[Row]:
    """Swap each leader that must lead no more with the first replica that may.

    Raises `OperationFailedError` where a list has no other replica.
    """
    return [
        _swapped(p, row, evacuated[p.key.topic]) if p.key.topic in evacuated else row
        for p, row in zip(partitions, lists, strict=True)
    ]


def _swapped(partition: PlannedPartition, row: Row, away: Collection[int]) -> Row:
    if not row or row[0] not in away:
        return row
    for k, broker in enumerate(row):
        if broker not in away:
            return (broker, *row[1:k], row[0], *row[k + 1 :])
    key = partition.key
    raise OperationFailedError(
        "trying to evict all replicas at once",
        hint=f"{key.topic} p{key.partition} would be on {', '.join(map(str, row))} only, and none of these may lead",
    )
