"""Who leads after a rebuild: even leaders on request, and brokers that must lead no more."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.placement.counts.leaders import balance_leaders
from kafkakit.placement.problem import PlannedPartition

Lists = Sequence[tuple[int, ...]]


def even_leaders(
    partitions: Sequence[PlannedPartition],
    lists: Lists,
    targets: Sequence[int],
    evacuated: Mapping[str, Collection[int]],
) -> Lists:
    """Put the leaders that make the counts most even in front; `evacuated` maps topics to brokers that must not lead.

    kafka-kit sorts each list by ratios of leaders to followers; this is exact, so never less even.
    """
    barred: set[int] = set()
    slot = 0
    for p, row in zip(partitions, lists, strict=True):
        away = evacuated.get(p.key.topic)
        if away:
            barred.update(slot + k for k, broker in enumerate(row) if broker in away)
        slot += len(row)
    return balance_leaders([p.current for p in partitions], lists, targets, barred)


def evacuate(
    partitions: Sequence[PlannedPartition], lists: Lists, evacuated: Mapping[str, Collection[int]]
) -> list[tuple[int, ...]]:
    """Swap each leader that must lead no more with the first replica that may.

    Raises `OperationFailedError` where a list has nobody else.
    """
    return [
        _swapped(p, row, evacuated[p.key.topic]) if p.key.topic in evacuated else row
        for p, row in zip(partitions, lists, strict=True)
    ]


def _swapped(partition: PlannedPartition, row: tuple[int, ...], away: Collection[int]) -> tuple[int, ...]:
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
