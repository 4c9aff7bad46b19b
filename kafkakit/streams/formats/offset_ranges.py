"""Sets of offsets as sorted half-open ranges: the value that codecs, readings and plans exchange."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Range = tuple[int, int]
MAX_OFFSET = (1 << 63) - 1
"""The highest offset that Kafka's protocol can name."""


@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """Offsets as `(start, end)` pairs, end exclusive, sorted, never empty, never touching one another.

    Make one with `OffsetRanges.of`, which sorts and joins; the constructor trusts its argument. Operations on two
    sets cost the sum of their ranges; membership costs a binary search.
    """

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> "OffsetRanges":
        """The union of any ranges, in any order; empty ones are left out."""
        joined: list[Range] = []
        for start, end in sorted(r for r in ranges if r[0] < r[1]):
            if joined and start <= joined[-1][1]:
                if end > joined[-1][1]:
                    joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return cls(tuple(joined))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.ranges, (offset, 1 << 64)) - 1
        return at >= 0 and self.ranges[at][0] <= offset < self.ranges[at][1]

    @property
    def count(self) -> int:
        """How many offsets the set holds."""
        return sum([end - start for start, end in self.ranges])

    @property
    def first(self) -> int | None:
        """The lowest offset."""
        return self.ranges[0][0] if self.ranges else None

    @property
    def end(self) -> int | None:
        """One past the highest offset."""
        return self.ranges[-1][1] if self.ranges else None

    def union(self, other: "OffsetRanges") -> "OffsetRanges":
        """What either set holds."""
        return OffsetRanges.of((*self.ranges, *other.ranges))

    def minus(self, other: "OffsetRanges") -> "OffsetRanges":
        """What this set holds and the other does not."""
        left: list[Range] = []
        others = other.ranges
        at = 0
        for start, end in self.ranges:
            while at < len(others) and others[at][1] <= start:
                at += 1
            begin, look = start, at
            while look < len(others) and others[look][0] < end:
                if begin < others[look][0]:
                    left.append((begin, others[look][0]))
                begin = max(begin, others[look][1])
                look += 1
            if begin < end:
                left.append((begin, end))
        return OffsetRanges(tuple(left))

    def intersection(self, other: "OffsetRanges") -> "OffsetRanges":
        """What both sets hold."""
        return self.minus(self.minus(other))

    def within(self, start: int, end: int) -> "OffsetRanges":
        """What the set holds of `start` to `end` (exclusive)."""
        cut = ((max(start, a), min(end, b)) for a, b in self.ranges)
        return OffsetRanges(tuple((a, b) for a, b in cut if a < b))

    def gaps(self, start: int, end: int) -> "OffsetRanges":
        """What the set does not hold of `start` to `end` (exclusive)."""
        return OffsetRanges.of([(start, end)]).minus(self)

    def is_subset_of(self, other: "OffsetRanges") -> bool:
        """True when the other set holds every offset of this one."""
        return not self.minus(other)
