"""Whole chunks that are done, as spans that grow and shrink in place; the lower half of a `DoneSet`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class ChunkSpans:
    """A mutable set of integers as half-open spans that never touch one another.

    Every operation costs a binary search, and moving the spans that follow when one is born or dies.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def end(self) -> int | None:
        """One past the highest member."""
        return self._ends[-1] if self._ends else None

    def end_of_span(self, chunk: int) -> int | None:
        """One past the last member of the span that holds this chunk; None when no span does."""
        at = bisect_right(self._ends, chunk)
        return self._ends[at] if at < len(self._ends) and self._starts[at] <= chunk else None

    def add(self, start: int, end: int) -> int:
        """Put in all from `start` to `end` (exclusive), joining spans; how many of them were not there."""
        first, past = bisect_left(self._ends, start), bisect_right(self._starts, end)
        known = sum(
            min(end, e) - max(start, s) for s, e in zip(self._starts[first:past], self._ends[first:past], strict=True)
        )
        low = min(start, self._starts[first]) if first < past else start
        high = max(end, self._ends[past - 1]) if first < past else end
        self._starts[first:past] = [low]
        self._ends[first:past] = [high]
        return end - start - known

    def remove(self, start: int, end: int) -> int:
        """Take out all from `start` to `end` (exclusive), splitting spans; how many of them were there."""
        first, past = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= past:
            return 0
        low, high = self._starts[first], self._ends[past - 1]
        known = sum(
            min(end, e) - max(start, s) for s, e in zip(self._starts[first:past], self._ends[first:past], strict=True)
        )
        left = [(s, e) for s, e in ((low, start), (end, high)) if s < e]
        self._starts[first:past] = [s for s, _ in left]
        self._ends[first:past] = [e for _, e in left]
        return known
