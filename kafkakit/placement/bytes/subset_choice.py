"""Which replicas leave a broker: a subset whose sizes add up to what must go, and hardly more."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

Quota = tuple[int, int, int, int]
"""(begin, end, load, count): items begin..end, sorted by falling size, should give about that load.

With a count above 0 about so many of them, of about equal size; with 0 as few as possible.
"""


def choose(sizes: Sequence[int], quotas: Sequence[Quota], need: int) -> list[int]:
    """Positions of items that add up to at least `need`, with the least excess found; few items, large ones first.

    The quotas together cover what may leave. If everything together is less than `need`, all of it is chosen.
    O(chosen x log(items)).
    """
    chosen: list[int] = []
    for begin, end, load, count in quotas:
        chosen += _nearest(sizes, begin, end, load, count)
    rest = need - sum(sizes[i] for i in chosen)
    if rest > 0:
        chosen = _closed(sizes, chosen, [i for b, e, _, _ in quotas for i in range(b, e)], rest)
        rest = need - sum(sizes[i] for i in chosen)
    return _without_spare(sizes, chosen, -rest)


def _nearest(sizes: Sequence[int], begin: int, end: int, load: int, count: int) -> list[int]:
    """Items that add up to nearly `load`: a first choice, then one exchange that brings the sum closest."""
    taken = _run(sizes, begin, end, load, count) if count else []
    taken = taken or _largest_first(sizes, begin, end, load)
    rest = load - sum(sizes[i] for i in taken)
    inside = set(taken)
    free = [i for i in range(end - 1, begin - 1, -1) if i not in inside]
    weights = [sizes[i] for i in free]
    best, exchange = abs(rest), None
    for n, old in [(-1, 0), *((n, sizes[i]) for n, i in enumerate(taken))]:
        at = bisect_left(weights, old + rest)
        for near in (at - 1, at):
            if 0 <= near < len(free) and abs(rest + old - weights[near]) < best:
                best, exchange = abs(rest + old - weights[near]), (n, near)
    if exchange is not None:
        n, near = exchange
        if n >= 0:
            taken[n] = free[near]
        else:
            taken.append(free[near])
    return taken


def _run(sizes: Sequence[int], begin: int, end: int, load: int, count: int) -> list[int]:
    """The run of `count` neighbours by size that weighs at most `load` and next to it; empty if even the last does not.

    Sums of such runs fall from left to right, so halving finds it.
    """
    count = min(count, end - begin)
    sums = list(accumulate(sizes[begin:end], initial=0))
    if sums[count] <= load:  # even the largest so many are too light: more than `count` are needed
        return []
    at = bisect_left(range(end - begin - count + 1), -load, key=lambda i: sums[i] - sums[i + count])
    return [begin + at + k for k in range(count)] if at <= end - begin - count else []


def _largest_first(sizes: Sequence[int], begin: int, end: int, load: int) -> list[int]:
    """Take the largest item that still fits, again and again, never above `load`."""
    taken = []
    at = begin
    while load > 0 and at < end:
        at = bisect_left(sizes, -load, at, end, key=lambda size: -size)
        if at < end:
            taken.append(at)
            load -= sizes[at]
            at += 1
    return taken


def _without_spare(sizes: Sequence[int], chosen: list[int], spare: int) -> list[int]:
    """Drop the largest chosen items that are not needed, then exchange one for a smaller that still does."""
    kept = []
    for i in sorted(chosen, key=lambda i: (-sizes[i], i)):
        if 0 < sizes[i] <= spare:
            spare -= sizes[i]
        else:
            kept.append(i)
    return kept


def _closed(sizes: Sequence[int], chosen: list[int], every: list[int], rest: int) -> list[int]:
    """Add one item, or exchange a chosen one for a larger, so that the rest is met with the least excess."""
    inside = set(chosen)
    free = sorted((i for i in every if i not in inside), key=lambda i: (sizes[i], i))
    weights = [sizes[i] for i in free]
    while rest > 0 and free:
        best: tuple[int, int, int, int] | None = None  # excess, extra items, position in free, chosen index or -1
        at = bisect_left(weights, rest)
        if at < len(free):
            best = (weights[at] - rest, 1, at, -1)
        for n, i in enumerate(chosen):
            at = bisect_left(weights, sizes[i] + rest)
            if at < len(free):
                option = (weights[at] - sizes[i] - rest, 0, at, n)
                best = option if best is None or option < best else best
        if best is None:  # even the largest is too small: take it and continue
            rest -= weights.pop()
            chosen.append(free.pop())
            continue
        _, _, at, n = best
        if n >= 0:
            chosen[n] = free[at]
        else:
            chosen.append(free[at])
        break
    return chosen
