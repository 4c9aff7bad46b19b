"""A rebuild in chunks: a series of maps in which only the replicas of a few brokers at a time change.

kafka-kit puts the final map's id into each slot of the window's brokers, which can name a broker twice on the way.
Here a slot of the window gets its final broker where that is free, else one that the partition needs anyway, so
that every list on the way has its full length, no broker twice, and racks that keep the rule wherever the lists
before and after do (the lists of a rack rule are the bases of a matroid, and those can be exchanged step by step).
"""

from collections.abc import Iterable, Mapping, Sequence

from kafkakit.core.errors import OperationFailedError
from kafkakit.placement.group_rule import GroupRule

Lists = Sequence[tuple[int, ...]]
Racks = Mapping[int, str | None]


def windows_of(brokers: Iterable[int], step: int) -> list[tuple[int, ...]]:
    """The brokers by id, highest first, `step` at a time."""
    ids = sorted(set(brokers), reverse=True)
    return [tuple(ids[k : k + step]) for k in range(0, len(ids), step)]


def chunk_changes(
    before: Lists, after: Lists, windows: Sequence[Sequence[int]], racks: Racks, rule: GroupRule
) -> list[dict[int, tuple[int, ...]]]:
    """What each window changes: new lists by partition index; all windows together lead from before to after.

    Every broker of `before` is in a window. Raises `OperationFailedError` where a list changes its length.
    O(changed partitions x replicas squared).
    """
    turn = {broker: k for k, window in enumerate(windows) for broker in window}
    changes: list[dict[int, tuple[int, ...]]] = [{} for _ in windows]
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        if len(old) != len(new):
            raise OperationFailedError(
                "Chunked reassignment cannot be used when reducing or increasing replication factor",
                hint="change the factor in a run of its own, without --chunk-step-size",
            )
        now = old
        for k in sorted({turn[b] for b in old}):
            due = [turn[b] <= k for b in old]
            following = _next(now, new, due, racks, rule)
            if following != now:
                changes[k][i] = now = following
    return changes


def _next(
    now: tuple[int, ...], final: tuple[int, ...], due: Sequence[bool], racks: Racks, rule: GroupRule
) -> tuple[int, ...]:
    """The list with the due slots filled by brokers of the final list; the other slots keep theirs."""
    waiting = [b for b, ready in zip(now, due, strict=True) if not ready]
    kept = [b for b, ready in zip(now, due, strict=True) if not ready or b in final]
    wanted = [final[k] for k, ready in enumerate(due) if ready]
    kept += _fitting(kept, [*wanted, *(b for b in final if b not in wanted)], racks, rule)
    left = [b for b in kept if b not in waiting]
    slots: list[int | None] = [None if ready else b for b, ready in zip(now, due, strict=True)]
    for preferred in (final, now):
        for k, broker in enumerate(preferred):
            if slots[k] is None and broker in left:
                slots[k] = broker
                left.remove(broker)
    return tuple(left.pop(0) if b is None else b for b in slots)


def _fitting(kept: Sequence[int], final: Sequence[int], racks: Racks, rule: GroupRule) -> list[int]:
    """Brokers of the final set that make the set full, in the given order; those that keep the rack rule first."""
    size = len(final)
    chosen = list(kept)
    offered = [b for b in final if b not in kept]
    standing = [racks.get(b) for b in kept]
    for broker in offered:
        tried = [racks.get(b) for b in (*chosen, broker)]
        if len(chosen) < size and rule.permits_so_far(standing, tried, size):
            chosen.append(broker)
    chosen += [b for b in offered if b not in chosen][: size - len(chosen)]
    return chosen[len(kept) :]
