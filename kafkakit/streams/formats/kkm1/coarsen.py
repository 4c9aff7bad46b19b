"""Coarsening: which done islands become pending again so that the rest fits, found without trying them one by one.

An island is a run of done offsets between holes. Islands are given up smallest first, those that hold a rejected or
skipped offset last; where it forgets less, the highest islands are given up instead (a bitmap is paid for by the
offset). Sizes are exact, and a binary search finds how many islands may stay.
"""

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

from kafkakit.streams.formats.kkm1.packing import FEW_BYTES
from kafkakit.streams.formats.kkm1.varint import uvarint_size
from kafkakit.streams.formats.offset_ranges import OffsetRanges

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

_MAX_PARAMETER = 63
_SECOND_LOOKS = 24


def coarsen(
    done: OffsetRanges,
    protected: OffsetRanges,
    fits: Callable[["Longs", "Longs", int], bool],
    at_most: int,
) -> OffsetRanges:
    """The islands that stay: at most so many, and such that `fits(starts, ends, forgotten)` holds.

    Cost: sorting the islands once, then a few passes over those that may stay.
    """
    import numpy as np

    if not done:
        return done
    starts, ends = columns(done)
    keep_last = _holding(starts, ends, protected)
    total = int((ends - starts).sum())
    count = min(len(starts), max(at_most, 0))

    def forgotten(chosen: "Longs") -> int:
        return total - int((ends[chosen] - starts[chosen]).sum())

    def may_stay(chosen: "Longs") -> bool:
        return fits(starts[chosen], ends[chosen], forgotten(chosen))

    # Biggest first within protected and others; of equals the lowest, which keeps the span short.
    order = np.lexsort((starts, starts - ends, ~keep_last))[:count]
    biggest = np.sort(order[: most(count, lambda some: may_stay(np.sort(order[:some])))])
    lowest = np.arange(most(count, lambda some: may_stay(np.arange(some))))
    best = min((biggest, lowest), key=lambda chosen: (-int(keep_last[chosen].sum()), forgotten(chosen)))
    # What is left of the space: sizes do not grow evenly, so one of the next may fit where the very next did not.
    for at in order[~np.isin(order, best)][:_SECOND_LOOKS]:
        more = np.sort(np.append(best, at))
        best = more if may_stay(more) else best
    return islands(starts[best], ends[best])


def columns(done: OffsetRanges) -> tuple["Longs", "Longs"]:
    """A set as columns of islands: first offsets, and those past the last."""
    import numpy as np

    flat = np.fromiter(chain.from_iterable(done.ranges), dtype=np.int64, count=2 * len(done.ranges))
    return flat[::2].copy(), flat[1::2].copy()


def islands(starts: "Longs", ends: "Longs") -> OffsetRanges:
    """Columns of islands as a set."""
    return OffsetRanges(tuple(zip(starts.tolist(), ends.tolist(), strict=True)))


def ranges_size(base: int, starts: "Longs", ends: "Longs") -> int:
    """How many bytes a RANGES section with these islands takes, tag and length included; 0 for none."""
    import numpy as np

    if not len(starts):
        return 0
    pending = starts - np.concatenate((np.array([base], dtype=np.int64), ends[:-1]))
    done = ends - starts
    span = int(ends[-1]) - base
    data = _varint_bytes(pending) + _varint_bytes(done)
    if data > FEW_BYTES:  # as `pack_smallest` does it
        rice = 2 + uvarint_size(2 * len(starts)) + (_rice_bits(pending) + _rice_bits(done) + 7) // 8
        data = min(data, rice, (span + 7) // 8)
    inner = uvarint_size(base) + uvarint_size(span) + 1 + data
    return 1 + uvarint_size(inner) + inner


def most(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number for which `fits` holds, as a binary search finds it; 0 where none does."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _holding(starts: "Longs", ends: "Longs", protected: OffsetRanges) -> "NDArray[np.bool_]":
    """Which islands hold a protected offset."""
    import numpy as np

    found = np.zeros(len(starts), dtype=bool)
    for start, end in protected.ranges:
        first = int(np.searchsorted(ends, start, side="right"))
        found[first : int(np.searchsorted(starts, end, side="left"))] = True
    return found


def _varint_bytes(runs: "Longs") -> int:
    total, limit = len(runs), 7
    while limit < 63 and (longer := int((runs >> limit != 0).sum())):
        total += longer
        limit += 7
    return total


def _rice_bits(runs: "Longs") -> int:
    """The bits of the best Rice codes of these runs; the same walk as `rice_parameter`'s."""

    def bits(k: int) -> int:
        return int(((runs - 1) >> k).sum()) + (k + 1) * len(runs)

    k = max(0, (int(runs.sum()) // len(runs)).bit_length() - 1)
    best = bits(k)
    while k and (lower := bits(k - 1)) <= best:
        k, best = k - 1, lower
    while k < _MAX_PARAMETER and (higher := bits(k + 1)) < best:
        k, best = k + 1, higher
    return best
