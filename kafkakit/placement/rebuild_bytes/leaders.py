"""Who leads the partitions that a placement by bytes changes: as even as they can make it, all others untouched."""

from collections.abc import Sequence

from kafkakit.placement.counts.leaders import balance_leaders

Row = tuple[int, ...]


def lead_evenly(current: Sequence[Row], lists: Sequence[Row], targets: Sequence[int], *, forced: bool) -> list[Row]:
    """Lists with leaders chosen among the partitions that change; others keep theirs and count as they are.

    Unless forced, a leader that stays keeps leading, so only partitions that lost theirs choose. O(replicas).
    """
    barred: set[int] = set()
    slot = 0
    for old, new in zip(current, lists, strict=True):
        leader = _settled(old, new, forced)
        if leader is not None:
            barred.update(slot + k for k, b in enumerate(new) if b != leader)
        slot += len(new)
    return list(balance_leaders(current, lists, targets, barred))


def _settled(old: Row, new: Row, forced: bool) -> int | None:
    """The broker that leads whatever happens; None where one is to be chosen."""
    if not new:
        return None
    if set(old) == set(new):
        return new[0]
    return old[0] if not forced and old and old[0] in new else None
