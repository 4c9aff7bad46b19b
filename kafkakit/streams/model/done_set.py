"""What a consumer has done of one partition, kept while it works: the mutable side of `OffsetRanges`.

Chunks that are whole are spans that grow and shrink in place; the others are bitmaps.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kafkakit.streams.model.commit import OffsetRanges, Range

_SHIFT = 8
_CHUNK = 1 << _SHIFT
_LAST = _CHUNK - 1
_FULL = (1 << _CHUNK) - 1
_BITS = tuple(1 << n for n in range(_CHUNK))
_ONES = re.compile("1+")


class DoneSet:
    """The offsets of one partition that are done: all below `base`, and any at or above it.

    `base` is the first pending offset, so it is what may be committed. Offsets that are done here and there are bits
    of chunks of 256 offsets, chunks without a hole are spans: a mark costs a dictionary's look-up whatever the order,
    memory is about 170 bytes for each chunk with a hole, and a huge range costs no more than a small one. Not safe for
    several threads at once.
    """

    __slots__ = ("_base", "_count", "_end", "_full", "_partial")

    def __init__(self, base: int, done: OffsetRanges | None = None) -> None:
        if base < 0:
            raise ValueError(f"no offset is {base}")
        self._base = base
        # Bits below base in its own chunk count as done, so that the chunk can become full.
        self._partial: dict[int, int] = {base >> _SHIFT: _BITS[base & _LAST] - 1} if base & _LAST else {}
        self._full = ChunkSpans()
        self._count = 0
        self._end = base
        for start, end in done or ():
            self.mark_range(start, end)

    @property
    def base(self) -> int:
        """The first pending offset; it advances over what has become contiguous when it is asked for."""
        base = self._base
        chunk = base >> _SHIFT
        past = self._full.end_of_span(chunk)
        if past is not None:
            self._full.remove(chunk, past)
            base = past << _SHIFT
            chunk = past
        bits = self._partial.get(chunk)
        if bits is not None:
            base = (chunk << _SHIFT) + (~bits & (bits + 1)).bit_length() - 1
        self._count -= base - self._base
        self._base = base
        return base

    @property
    def end(self) -> int:
        """One past the highest done offset; `base` when nothing above it is done."""
        return max(self._end, self.base)

    @property
    def count(self) -> int:
        """How many offsets above `base` are done."""
        base = self.base
        return self._count if base < self._end else 0

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        bits = self._partial.get(offset >> _SHIFT)
        if offset < self._base or bits is None:
            return offset < self._base or self._full.end_of_span(offset >> _SHIFT) is not None
        return bool(bits & _BITS[offset & _LAST])

    def mark(self, offset: int) -> bool:
        """Note that an offset is done; False when it was already."""
        if offset < self._base:
            return False
        chunk = offset >> _SHIFT
        bits = self._partial.get(chunk)
        if bits is None:
            if self._full.end_of_span(chunk) is not None:
                return False
            bits = 0
        marked = bits | _BITS[offset & _LAST]
        if marked == bits:
            return False
        if marked == _FULL:
            self._partial.pop(chunk, None)
            self._full.add(chunk, chunk + 1)
        else:
            self._partial[chunk] = marked
        self._count += 1
        if offset >= self._end:
            self._end = offset + 1
        return True

    def mark_range(self, start: int, end: int) -> int:
        """Note that all from `start` to `end` (exclusive) are done; how many of them were not.

        Cost: the chunks with holes, or those of the range where they are fewer; never the offsets.
        """
        start = max(start, self._base)
        if start >= end:
            return 0
        added = self._fill(start, end)
        self._count += added
        self._end = max(self._end, end)
        return added

    def reopen(self, start: int, end: int) -> int:
        """Make all from `start` to `end` (exclusive) pending again; how many of them were done.

        A range that begins below `base` takes it back to its start, and what lies between stays done.
        """
        if start < 0 or start >= end:
            return 0
        base = self.base
        if start < base:
            self._count += base - start
            self._fill((start >> _SHIFT) << _SHIFT, base)
            self._base = start
        removed = self._clear(start, end)
        self._count -= removed
        if end >= self._end:
            self._end = self._highest()
        return removed

    def ranges(self) -> OffsetRanges:
        """What is done above `base`. Cost: chunks and ranges."""
        base = self.base
        joined: list[Range] = []
        for start, end in self._pieces():
            if end <= base:
                continue
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((max(start, base), end))
        return OffsetRanges(tuple(joined))

    def pending(self) -> OffsetRanges:
        """What is not done, from `base` up to the highest done offset."""
        return self.ranges().gaps(self.base, self.end)

    def _pieces(self) -> Iterator[Range]:
        """All that is done in order, cut where chunks meet."""
        spans = [(start, end, 0) for start, end in self._full]
        for start, end, bits in sorted(spans + [(chunk, chunk + 1, bits) for chunk, bits in self._partial.items()]):
            if not bits:
                yield start << _SHIFT, end << _SHIFT
                continue
            for ones in _ONES.finditer(f"{bits:b}"[::-1]):
                yield (start << _SHIFT) + ones.start(), (start << _SHIFT) + ones.end()

    def _fill(self, start: int, end: int) -> int:
        first, last = start >> _SHIFT, (end - 1) >> _SHIFT
        head, tail = start & _LAST, ((end - 1) & _LAST) + 1
        if first == last:
            return self._fill_bits(first, _BITS[head] * ((1 << (tail - head)) - 1))
        added = self._fill_bits(first, _FULL ^ (_BITS[head] - 1)) + self._fill_bits(last, (1 << tail) - 1)
        if first + 1 < last:
            known = sum(self._partial.pop(chunk).bit_count() for chunk in self._chunks_between(first + 1, last))
            added += self._full.add(first + 1, last) * _CHUNK - known
        return added

    def _fill_bits(self, chunk: int, mask: int) -> int:
        bits = self._bits(chunk)
        if bits | mask != _FULL:
            self._partial[chunk] = bits | mask
        elif bits != _FULL:
            self._partial.pop(chunk, None)
            self._full.add(chunk, chunk + 1)
        return (mask & ~bits).bit_count()

    def _clear(self, start: int, end: int) -> int:
        first, last = start >> _SHIFT, (end - 1) >> _SHIFT
        head, tail = start & _LAST, ((end - 1) & _LAST) + 1
        if first == last:
            return self._clear_bits(first, _BITS[head] * ((1 << (tail - head)) - 1))
        removed = self._clear_bits(first, _FULL ^ (_BITS[head] - 1)) + self._clear_bits(last, (1 << tail) - 1)
        if first + 1 < last:
            removed += sum(self._partial.pop(chunk).bit_count() for chunk in self._chunks_between(first + 1, last))
            removed += self._full.remove(first + 1, last) * _CHUNK
        return removed

    def _clear_bits(self, chunk: int, mask: int) -> int:
        bits = self._bits(chunk)
        if not bits & mask:
            return 0
        if bits == _FULL:
            self._full.remove(chunk, chunk + 1)
        left = bits & ~mask
        if left:
            self._partial[chunk] = left
        else:
            self._partial.pop(chunk, None)
        return (bits & mask).bit_count()

    def _bits(self, chunk: int) -> int:
        bits = self._partial.get(chunk)
        if bits is not None:
            return bits
        return 0 if self._full.end_of_span(chunk) is None else _FULL

    def _chunks_between(self, first: int, past: int) -> list[int]:
        """The chunks with holes of a range, found the shorter way."""
        if past - first < len(self._partial):
            return [chunk for chunk in range(first, past) if chunk in self._partial]
        return [chunk for chunk in self._partial if first <= chunk < past]

    def _highest(self) -> int:
        """One past the highest offset that a chunk or span holds."""
        end = (self._full.end or 0) << _SHIFT
        top = max(self._partial, default=None)
        if top is not None:
            end = max(end, (top << _SHIFT) + self._partial[top].bit_length())
        return max(end, self._base)


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
