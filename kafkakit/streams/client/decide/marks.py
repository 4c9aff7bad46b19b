"""Offsets as ranges, and the marks of a commit."""

from collections.abc import Iterable, Iterator, Sequence

from kafkakit.streams.model.commit import Mark, MarkState, OffsetRanges


def unread_marks(marks: Iterable[Mark], wanted: OffsetRanges, position: int, base: int) -> Iterator[Mark]:
    """The restored marks of offsets that were not read again yet."""
    for mark in marks:
        if mark.state is MarkState.SKIPPED or mark.end <= position:
            continue
        for low, end in wanted.within(max(mark.start, position), mark.end):
            start = low + 1 if mark.state is MarkState.REJECTED and low == base else low
            if start < end:
                yield Mark(start=start, end=end, state=mark.state, count=mark.count, deferred_s=mark.deferred_s)


def joined(marks: Iterable[Mark]) -> Iterator[Mark]:
    """Neighbours in the same state with the same count as one."""
    last: Mark | None = None
    for mark in marks:
        if (
            last is not None
            and last.end == mark.start
            and (last.state, last.count, last.deferred_s)
            == (
                mark.state,
                mark.count,
                mark.deferred_s,
            )
        ):
            last = Mark(start=last.start, end=mark.end, state=mark.state, count=mark.count, deferred_s=mark.deferred_s)
            continue
        if last is not None:
            yield last
        last = mark
    if last is not None:
        yield last


def ranges_of(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sorted offsets as ranges. Cost: one step where they are contiguous."""
    if not offsets:
        return
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        yield offsets[0], offsets[-1] + 1
        return
    start = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield start, last + 1
            start = offset
        last = offset
    yield start, last + 1
