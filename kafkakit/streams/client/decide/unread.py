"""Which offsets of a partition are still to be read, and what a restored commit says of them."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TypeVar

from kafkakit.streams.client.decide.marks import ranges_of, unread_marks
from kafkakit.streams.model.commit import CommitState, Mark, MarkState, OffsetRanges
from kafkakit.streams.model.done_set import DoneSet

T = TypeVar("T")


def handled_in(state: CommitState) -> OffsetRanges:
    """What a commit says is done for good: rejected records may be durable nowhere else."""
    return state.done.minus(OffsetRanges.of((m.start, m.end) for m in state.marks if m.state is MarkState.REJECTED))


class UnreadOffsets:
    """Below `fresh` only some offsets are still to be read, from `fresh` on all are."""

    __slots__ = ("_marks", "_wanted", "fresh")

    def __init__(self, state: CommitState) -> None:
        self.fresh = state.end
        # What a restart must see again: marks whose records were not read yet.
        self._marks = state.marks
        self._wanted = handled_in(state).gaps(state.base, state.end)

    def mark_at(self, offset: int) -> Mark | None:
        """What the restored commit says of an offset."""
        at = bisect_left(self._marks, offset + 1, key=lambda mark: mark.start) - 1
        return self._marks[at] if at >= 0 and offset < self._marks[at].end else None

    def tries_of(self, offsets: Sequence[int]) -> int | list[int]:
        """How often each of these offsets, in order, had failed by the restored commit; 0 where none had."""
        if not self._marks or offsets[0] >= self._marks[-1].end:
            return 0
        return [0 if (mark := self.mark_at(offset)) is None else mark.count for offset in offsets]

    def marks(self, position: int, base: int) -> Iterator[Mark]:
        """The marks of what was not read again yet."""
        return unread_marks(self._marks, self._wanted, position, base)

    def sift(
        self, offsets: list[int], records: list[T], at: int
    ) -> tuple[list[int], list[T], list[tuple[int, T, Mark]]]:
        """What of a read from `at` on is still to be handled, and what had been rejected; the rest is done or known."""
        kept: list[int] = []
        kept_records: list[T] = []
        rejected: list[tuple[int, T, Mark]] = []
        for offset, record in zip(offsets, records, strict=True):
            if offset < at or (offset < self.fresh and offset not in self._wanted):
                continue
            mark = self.mark_at(offset) if offset < self.fresh else None
            if mark is not None and mark.state is MarkState.REJECTED:
                self._wanted = self._wanted.minus(OffsetRanges(((offset, offset + 1),)))
                rejected.append((offset, record, mark))
                continue
            kept.append(offset)
            kept_records.append(record)
        return kept, kept_records, rejected

    def read(self, start: int, end: int, offsets: list[int], done: DoneSet) -> int:
        """A read went from `start` to `end` and brought records at `offsets`: the others that were expected there do
        not exist, and become done. How many these are."""
        gone, at = 0, start
        if not (offsets and offsets[0] == start and end - start == len(offsets)):
            for low, high in ranges_of(offsets):
                gone += self._gone(at, low, done)
                at = high
            gone += self._gone(at, end, done)
        if start < self.fresh and self._wanted:
            self._wanted = self._wanted.minus(OffsetRanges.of([(start, end)]))
        self.fresh = max(self.fresh, end)
        return gone

    def open_again(self, offsets: OffsetRanges, position: int) -> None:
        """These offsets, which were done, are to be read again."""
        # Marks of what was read are history: they say nothing of the window's second time.
        self._marks = tuple(mark for mark in self._marks if mark.end > position)
        self._wanted = self._wanted.union(offsets)

    def _gone(self, start: int, end: int, done: DoneSet) -> int:
        if start >= end:
            return 0
        ranges = self._wanted.within(start, min(end, self.fresh))
        return sum(done.mark_range(low, high) for low, high in ranges) + done.mark_range(max(start, self.fresh), end)
