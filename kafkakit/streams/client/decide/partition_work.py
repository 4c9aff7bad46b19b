"""The work on one partition: what was read, what is handled, what failed, what was rejected, and what is done.

Pure: the caller gives times (milliseconds of a clock that never goes back) and records, and owns the threads. Records
are opaque; `RecordFields` tells what is needed of them. Not safe for several threads at once.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkakit.streams.client.decide.failures import Ending, Failure, Rejection, RejectReason
from kafkakit.streams.client.decide.held import HeldRecord, HeldRecords
from kafkakit.streams.client.decide.marks import joined, ranges_of, unread_marks
from kafkakit.streams.client.decide.moves import Dependencies, MoveBudget
from kafkakit.streams.client.decide.ready import Chunk, ReadyQueue
from kafkakit.streams.client.decide.rejections import Rejections
from kafkakit.streams.client.decide.rules import WorkRules
from kafkakit.streams.formats.commit import CommitState, Mark, MarkState, ReplayWindow
from kafkakit.streams.formats.done_set import DoneSet
from kafkakit.streams.formats.offset_ranges import OffsetRanges

T = TypeVar("T")
OUT_OF_TRIES = ""
"""Records that used up their tries wait for this "dependency" while they may not be rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields(Generic[T]):
    """How to read a record's time (ms), key and size (bytes)."""

    time_ms: Callable[[T], int]
    key: Callable[[T], bytes | None]
    size: Callable[[T], int]


@dataclass(slots=True)
class WorkCounts:
    """What happened on a partition since it was assigned; `gone` are offsets without a record to handle."""

    handled: int = 0
    failures: int = 0
    retries: int = 0
    rejected: int = 0
    deferred: int = 0
    gone: int = 0
    replayed: int = 0


class PartitionWork(Generic[T]):
    """One partition of a group member, from its restored commit on."""

    def __init__(
        self,
        state: CommitState,
        rules: WorkRules,
        fields: RecordFields[T],
        dependencies: Dependencies,
        budget: MoveBudget,
    ) -> None:
        self.counts = WorkCounts()
        self.position = state.base
        self.replay: ReplayWindow | None = state.replay
        self.newest_done_ms = state.watermark.newest_done_ms if state.watermark else -1
        self.commit_fill = 0.0
        self.must_pause = False
        self.buffered_records = 0
        self.buffered_bytes = 0
        self._rules = rules
        self._fields = fields
        self._dependencies = dependencies
        self._budget = budget
        self._ready: ReadyQueue[T] = ReadyQueue(rules.mode, fields.key)
        self._held: HeldRecords[T] = HeldRecords()
        self._out: list[Chunk[T]] = []
        self._rejected: Rejections[T] = Rejections()
        # What a restart must see again: marks whose records were not read yet.
        self._marks = state.marks
        undurable = OffsetRanges.of((m.start, m.end) for m in state.marks if m.state is MarkState.REJECTED)
        self._done = DoneSet(state.base, state.done.minus(undurable))
        # Below `_fresh` only the offsets in `_wanted` are still to be read; from `_fresh` on, all are.
        self._fresh = state.end
        self._wanted = state.done.minus(undurable).gaps(state.base, state.end)

    @property
    def base(self) -> int:
        """The first offset that is not done: what may be committed."""
        return self._done.base

    @property
    def span(self) -> int:
        """Offsets from the first that is not done to the newest done one."""
        return self._done.end - self._done.base

    @property
    def in_flight(self) -> int:
        """Records that workers have and that are not settled."""
        return sum(len(chunk.offsets) - chunk.settled for chunk in self._out)

    @property
    def signature(self) -> tuple[int, ...]:
        """What differs whenever a commit would differ."""
        done, counts = self._done, self.counts
        return (
            done.base,
            done.count,
            counts.failures,
            counts.rejected,
            len(self._rejected),
            len(self._held),
            self.position,
        )

    @property
    def pending_failures(self) -> int:
        """Records that failed and wait."""
        return len(self._held)

    @property
    def fullness(self) -> float:
        """The part of its limits that the partition takes, the highest of them; 1 and more is full."""
        limits = self._rules.limits
        return max(
            self.buffered_records / limits.records,
            self.buffered_bytes / limits.size_bytes,
            self.span / limits.span,
            self.commit_fill,
        )

    @property
    def wants_records(self) -> bool:
        """False while the partition should not be fetched. What is read again adds nothing to the commit."""
        limits = self._rules.limits
        if self.buffered_records >= limits.records or self.buffered_bytes >= limits.size_bytes:
            return False
        return self.position < self._fresh or not (self.must_pause or self.span >= limits.span)

    @property
    def is_drained(self) -> bool:
        """True when a partition that was full should be fetched again: at half of its limits, for pauses cost."""
        limits = self._rules.limits
        return (
            self.wants_records
            and self.buffered_records <= limits.records // 2
            and self.buffered_bytes <= limits.size_bytes // 2
        )

    def offer(self, offsets: list[int], records: list[T], next_offset: int) -> None:
        """Records in the order of their offsets, read from `position` on; the read went on to `next_offset`.

        Offsets between that have no record (markers, compaction, filtered by the caller) are done. Records that are
        done already, or held, are dropped.
        """
        next_offset = max(next_offset, offsets[-1] + 1 if offsets else 0)
        if next_offset <= self.position:
            return
        start = at = self.position
        self.position = next_offset
        if offsets and offsets[0] < max(at, self._fresh):
            offsets, records = self._still_wanted(offsets, records, at)
        if not (offsets and offsets[0] == at and next_offset - at == len(offsets)):
            for low, high in ranges_of(offsets):
                self._gone(at, low)
                at = high
            self._gone(at, next_offset)
        if start < self._fresh and self._wanted:
            self._wanted = self._wanted.minus(OffsetRanges.of([(start, next_offset)]))
        self._fresh = max(self._fresh, next_offset)
        self.buffered_records += len(offsets)
        self.buffered_bytes += sum(map(self._fields.size, records))
        self._ready.add(offsets, records)

    def reread(self, offset: int) -> None:
        """The next read begins here: below `position` for a replay, above it where a batch is left out."""
        self.position = offset

    def has_work(self, now_ms: int) -> bool:
        """True when `take` may give out records."""
        if self._ready.has_work:
            return True
        due_ms = self._held.next_due_ms(self._dependencies)
        return due_ms is not None and due_ms <= now_ms

    def take(self, limit: int, now_ms: int) -> Chunk[T] | None:
        """Records for a worker, to be ended with `finish`: one that failed before and is due, or up to `limit` others.

        The former are alone in their chunk, so that a slow failure holds up nothing else.
        """
        held = self._held.take(now_ms, self._dependencies)
        if held is not None:
            self.counts.retries += 1
            keys = None if self._rules.mode == "unordered" else [self._ready.key_of(held.record)]
            chunk = Chunk(
                offsets=[held.offset],
                records=[held.record],
                keys=keys,
                tries=held.tries,
                is_again=True,
                dependency=held.dependency,
            )
        else:
            fresh = self._ready.take(limit)
            if fresh is None:
                return None
            chunk = fresh
        self._out.append(chunk)
        return chunk

    def settle(self, chunk: Chunk[T], now_ms: int) -> None:
        """Count what a worker has handled of a chunk so far.

        Where records have an order, a failure waits for the chunk's end: what was skipped must come back with it.
        """
        self._settle(chunk, chunk.handled if chunk.keys is None else min((chunk.handled, *chunk.failures)), now_ms)

    def _settle(self, chunk: Chunk[T], end: int, now_ms: int) -> None:
        start = chunk.settled
        if start >= end:
            return
        chunk.settled = end
        failed = sorted(i for i in chunk.failures if start <= i < end)
        not_done = sorted({*failed, *(i for i in chunk.skipped if start <= i < end)})
        at = start
        for i in (*not_done, end):
            self._succeeded(chunk, at, i)
            at = i + 1
        for i in failed:
            self._failed(chunk, i, now_ms)

    def settle_all(self, now_ms: int) -> None:
        """Count what all workers have handled so far, before a commit."""
        for chunk in self._out:
            self.settle(chunk, now_ms)

    def finish(self, chunk: Chunk[T], now_ms: int) -> None:
        """A worker is through with a chunk, handled or not; what it did not come to waits again."""
        self._settle(chunk, chunk.handled, now_ms)
        self._out.remove(chunk)
        if chunk.is_again and not chunk.handled:
            held = self._held.get(chunk.offsets[0])
            if held is not None:
                self._wait_again(held, now_ms)
            return
        self._ready.give_back(chunk, [i for i in chunk.failures if self._held.get(chunk.offsets[i]) is not None])

    def abandon(self) -> None:
        """The partition was taken away: records of other partitions may try the dependencies in its place."""
        for chunk in self._out:
            if chunk.dependency is not None:
                self._dependencies.given_up(chunk.dependency)

    def relieve(self, now_ms: int) -> int:
        """Move the oldest failing record away while it alone holds the partition up; how many were moved."""
        rule, moved = self._rules.moves, 0
        while self.fullness >= rule.nearly_full and self.span:
            if self._done.count < rule.acked_share * self.span:
                break
            oldest = next((held for held in self._held if not held.is_out), None)
            if oldest is None or oldest.tries < 1 or not self._budget.take():
                break
            self._reject(oldest.offset, oldest.record, RejectReason.HEAD_OF_LINE, oldest.tries, oldest.failure)
            self._ready.release(oldest.record)
            moved += 1
        return moved

    def unwritten_rejections(self) -> list[Rejection[T]]:
        """Rejected records that are to be written elsewhere; each is given out once."""
        return self._rejected.take_unwritten()

    def rejection_is_durable(self, offset: int) -> None:
        """A rejected record is durable elsewhere, so its offset is done."""
        rejection = self._rejected.durable(offset)
        if rejection is not None:
            self._done.mark(offset)
            self._let_go([rejection.record])

    @property
    def undurable(self) -> int:
        """Rejected records that are durable nowhere else yet."""
        return len(self._rejected)

    def open_again(self, window: ReplayWindow) -> bool:
        """Make the done offsets of a window pending, so that they are handled again; True where `position` went back.

        What was not read yet, or failed, or is at a worker stays as it is.
        """
        end = min(window.end, self._fresh)
        # Marks of what was read are history: they say nothing of the window's second time.
        self._marks = tuple(mark for mark in self._marks if mark.end > self.position)
        done = OffsetRanges.of([(0, self._done.base), *self._done.ranges()]).within(window.start, end)
        for start, stop in done:
            self.counts.replayed += self._done.reopen(start, stop)
        self._wanted = self._wanted.union(done)
        self.replay = window
        if done.first is None or done.first >= self.position:
            return False
        self.position = done.first
        return True

    def state(self) -> CommitState:
        """What may be committed now, less the route, writer and watermark."""
        done = self._done.ranges()
        base = self._done.base
        marks = self._current_marks(base)
        rejected = OffsetRanges.of((m.start, m.end) for m in marks if m.state is MarkState.REJECTED)
        window = self.replay
        if window is not None and window.end <= base:
            self.replay = window = None
        return CommitState(
            base=base, done=done.union(rejected) if rejected else done, marks=tuple(marks), replay=window
        )

    def oldest_ms(self) -> int | None:
        """The time of the record at `base`; None where it was not read."""
        base = self._done.base
        held = self._held.get(base)
        record: T | None = held.record if held is not None else self._ready.find(base)
        if record is None:
            record = self._rejected.record_at(base)
        for chunk in self._out if record is None else ():
            at = bisect_left(chunk.offsets, base)
            if at < len(chunk.offsets) and chunk.offsets[at] == base:
                record = chunk.records[at]
        return None if record is None else self._fields.time_ms(record)

    def done_beyond(self, written: CommitState) -> int:
        """Offsets that are done here and pending in a commit: at most so many are handled again after a crash.

        Records at workers count too, since their handling may have had its effect.
        """
        mine = OffsetRanges.of([(0, self._done.base), *self._done.ranges()])
        theirs = OffsetRanges.of([(0, written.base), *written.done])
        return mine.minus(theirs).count + self.in_flight

    def _still_wanted(self, offsets: list[int], records: list[T], at: int) -> tuple[list[int], list[T]]:
        """What of a read below `_fresh` is still to be handled; the rest is done, or known already."""
        kept: list[int] = []
        kept_records: list[T] = []
        for offset, record in zip(offsets, records, strict=True):
            if offset < at or (offset < self._fresh and offset not in self._wanted):
                continue
            mark = self._mark_at(offset) if offset < self._fresh else None
            if mark is not None and mark.state is MarkState.REJECTED:
                self._add(record)
                self._wanted = self._wanted.minus(OffsetRanges(((offset, offset + 1),)))
                self._rejected.add(
                    Rejection(offset=offset, record=record, reason=RejectReason.RESTORED, tries=mark.count)
                )
                continue
            kept.append(offset)
            kept_records.append(record)
        return kept, kept_records

    def _mark_at(self, offset: int) -> Mark | None:
        at = bisect_left(self._marks, offset + 1, key=lambda mark: mark.start) - 1
        return self._marks[at] if at >= 0 and offset < self._marks[at].end else None

    def _gone(self, start: int, end: int) -> None:
        """No record comes from `start` to `end`: what was still expected there is done."""
        if start >= end:
            return
        for low, high in self._wanted.within(start, min(end, self._fresh)):
            self.counts.gone += self._done.mark_range(low, high)
        self.counts.gone += self._done.mark_range(max(start, self._fresh), end)

    def _succeeded(self, chunk: Chunk[T], start: int, end: int) -> None:
        if start >= end:
            return
        for low, high in ranges_of(chunk.offsets[start:end]):
            self._done.mark_range(low, high)
        self._let_go(chunk.records[start:end])
        self._budget.succeeded(end - start)
        self.counts.handled += end - start
        self.newest_done_ms = max(self.newest_done_ms, self._fields.time_ms(chunk.records[end - 1]))
        if chunk.is_again:
            self._held.drop(chunk.offsets[0])
            if chunk.dependency is not None:
                self._dependencies.answered(chunk.dependency)

    def _failed(self, chunk: Chunk[T], index: int, now_ms: int) -> None:
        offset, record, failure = chunk.offsets[index], chunk.records[index], chunk.failures[index]
        self.counts.failures += 1
        tries = chunk.tries
        if not chunk.is_again and self._marks and (mark := self._mark_at(offset)) is not None:
            tries = mark.count
        if failure.ending is Ending.REJECT:
            self._answered_otherwise(chunk.dependency, now_ms)
            self._reject(offset, record, RejectReason.HANDLER, tries + 1, failure)
            return
        if failure.ending is Ending.DEFER:
            self.counts.deferred += 1
            self._defer(chunk, offset, record, tries, failure, failure.dependency, now_ms)
            return
        self._budget.failed()
        tries += 1
        limit = self._rules.retry.max_tries
        if limit and tries >= limit:
            if self._budget.take():
                self._answered_otherwise(chunk.dependency, now_ms)
                self._reject(offset, record, RejectReason.MAX_TRIES, tries, failure)
            else:
                self.counts.deferred += 1
                self._defer(chunk, offset, record, tries, failure, OUT_OF_TRIES, now_ms)
            return
        self._answered_otherwise(chunk.dependency, now_ms)
        delay = self._rules.retry.delay_ms(tries) if failure.after_ms is None else failure.after_ms
        self._held.wait_until(HeldRecord(offset=offset, record=record, tries=tries, failure=failure), now_ms + delay)

    def _defer(
        self, chunk: Chunk[T], offset: int, record: T, tries: int, failure: Failure, name: str, now_ms: int
    ) -> None:
        self._dependencies.failed(name, now_ms, was_probe=chunk.dependency == name)
        if chunk.dependency != name:
            self._answered_otherwise(chunk.dependency, now_ms)
        self._held.wait_for(HeldRecord(offset=offset, record=record, tries=tries, failure=failure), name)

    def _answered_otherwise(self, dependency: str | None, now_ms: int) -> None:
        """The record that was to find out whether a dependency is up failed for another reason: still unknown."""
        if dependency is not None:
            self._dependencies.failed(dependency, now_ms, was_probe=True)

    def _wait_again(self, held: HeldRecord[T], now_ms: int) -> None:
        if held.dependency is not None:
            self._dependencies.given_up(held.dependency)
            self._held.wait_for(held, held.dependency)
        else:
            self._held.wait_until(held, now_ms)

    def _reject(self, offset: int, record: T, reason: RejectReason, tries: int, failure: Failure) -> None:
        self._held.drop(offset)
        self.counts.rejected += 1
        self._rejected.add(
            Rejection(offset=offset, record=record, reason=reason, tries=tries, error=failure.error, text=failure.text)
        )

    def _add(self, record: T) -> None:
        self.buffered_records += 1
        self.buffered_bytes += self._fields.size(record)

    def _let_go(self, records: Sequence[T]) -> None:
        self.buffered_records -= len(records)
        self.buffered_bytes -= sum(map(self._fields.size, records))

    def _current_marks(self, base: int) -> list[Mark]:
        single = [
            Mark(
                start=held.offset,
                end=held.offset + 1,
                state=MarkState.RETRYING if held.dependency is None else MarkState.DEFERRED,
                count=held.tries,
            )
            for held in self._held
        ]
        single += self._rejected.marks(base)
        single += unread_marks(self._marks, self._wanted, self.position, base)
        return list(joined(sorted(single, key=lambda mark: mark.start)))
