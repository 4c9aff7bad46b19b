"""The work on one partition: what was read, what is handled, what failed, what was rejected, and what is done.

Pure: the caller gives times (milliseconds of a clock that never goes back) and records, and owns the threads. Records
are opaque; `RecordFields` tells what is needed of them. Not safe for several threads at once. From this work comes the
partition's commit, and from a commit that is found the work begins again.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import UsageError
from kafkakit.streams.client.decide.failures import (
    Answers,
    Dependencies,
    FailingRecords,
    Rejection,
    RejectReason,
    Walk,
    WorkCounts,
)
from kafkakit.streams.client.decide.reading import Chunk, ReadyQueue, UnreadOffsets, handled_in, join_marks, ranges_of
from kafkakit.streams.client.decide.work_rules import FailureEnding, WorkRules
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    MarkState,
    OffsetRanges,
    ReplayWindow,
    RouteMark,
    Watermark,
    Writer,
)
from kafkakit.streams.model.dialects.registry import dialect_named, read_metadata
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.kkm1.encode import Advice, EncodedState, advise, encode_commit

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields(Generic[T]):
    """How to read a record's time (ms), key and size (bytes)."""

    time_ms: Callable[[T], int]
    key: Callable[[T], bytes | None]
    size: Callable[[T], int]


class PartitionWork(Generic[T]):
    """One partition of a group member, from its restored commit on."""

    def __init__(
        self,
        state: CommitState,
        rules: WorkRules,
        fields: RecordFields[T],
        dependencies: Dependencies,
        answers: Answers,
    ) -> None:
        self.counts = WorkCounts()
        self.position = state.base
        self.replay: ReplayWindow | None = state.replay
        self._requests = {0 if state.replay is None else state.replay.request_id}
        self.newest_done_ms = state.watermark.newest_done_ms if state.watermark else -1
        self.commit_fill = 0.0
        self.must_pause = False
        self.buffered_records = 0
        self.buffered_bytes = 0
        self._rules = rules
        self._fields = fields
        self._dependencies = dependencies
        self._answers = answers
        self._ready: ReadyQueue[T] = ReadyQueue(rules.mode, fields.key, fields.size)
        self._unread = UnreadOffsets(state)
        self._failing: FailingRecords[T] = FailingRecords(
            rules, dependencies, answers, self.counts, self._unread.had_sign
        )
        self._out: list[Chunk[T]] = []
        self._steps: deque[Chunk[T]] = deque()
        self._done = DoneSet(state.base, handled_in(state))

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
            len(self._failing.rejected),
            len(self._failing.held),
            self.position,
        )

    @property
    def pending_failures(self) -> int:
        """Records that failed and wait."""
        return len(self._failing.held)

    @property
    def parked(self) -> int:
        """Those of them that are out of tries and wait until another record is handled."""
        return self._failing.held.parked

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
        return self.position < self._unread.fresh or not (self.must_pause or self.span >= limits.span)

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
        start, self.position = self.position, next_offset
        if offsets and offsets[0] < max(start, self._unread.fresh):
            offsets, records, rejected = self._unread.sift(offsets, records, start)
            for offset, record, mark in rejected:
                self._restore_rejected(offset, record, mark.count)
        self.counts.gone += self._unread.read(start, next_offset, offsets, self._done)
        size = sum(map(self._fields.size, records))
        self.buffered_records += len(offsets)
        self.buffered_bytes += size
        self._ready.add(offsets, records, size)

    def has_work(self, now_ms: int) -> bool:
        """True when `take` may give out records."""
        return bool(self._steps) or self._ready.has_work or self._failing.is_due(now_ms)

    def next_due_ms(self) -> int | None:
        """When a record that failed may be tried again, too early at worst; None while none waits."""
        return self._failing.held.next_due_ms(self._dependencies, self._answers)

    def take(self, limit: int, now_ms: int) -> Chunk[T] | None:
        """Records for a worker, to be ended with `finish`: one that failed before and is due, or up to `limit` others.

        The former are alone in their chunk, so that a slow failure holds up nothing else. The next step of a walk comes
        before all else: only a moment may lie between it and the failure before it.
        """
        while (record := self._failing.reject_hopeless(now_ms)) is not None:
            self._ready.release(record)
        held = None if self._steps else self._failing.take(now_ms)
        chunk = self._steps.popleft() if self._steps else None
        if chunk is None:
            chunk = self._ready.take(limit) if held is None else self._ready.again(held)
        if chunk is not None:
            if held is None:
                chunk.tries = self._tries_of(chunk.offsets)
            self._out.append(chunk)
        return chunk

    def _tries_of(self, offsets: list[int]) -> int | Sequence[int]:
        tries, behind = self._unread.tries_of(offsets), self._failing.behind
        if behind and any(offset in behind for offset in offsets):
            counts = [tries] * len(offsets) if isinstance(tries, int) else tries
            tries = [
                behind[offset].tries if offset in behind else count
                for offset, count in zip(offsets, counts, strict=True)
            ]
        return tries

    def settle(self, chunk: Chunk[T], now_ms: int) -> None:
        """Count what a worker has handled of a chunk so far.

        Where records have an order, a failure waits for the chunk's end: what was skipped must come back with it.
        """
        self._settle(chunk, chunk.handled if chunk.key_of is None else min((chunk.handled, *chunk.failures)), now_ms)

    def _settle(self, chunk: Chunk[T], end: int, now_ms: int) -> None:
        start = chunk.settled
        if start >= end:
            return
        chunk.settled = end
        not_done = sorted(i for i in {*chunk.failures, *chunk.skipped} if start <= i < end)
        at = start
        for i in (*not_done, end):
            self._succeeded(chunk, at, i)
            at = i + 1
            if i < end and i in chunk.failures:
                self._failed(chunk, i, now_ms)

    def settle_all(self, now_ms: int) -> None:
        """Count what all workers have handled so far, before a commit."""
        for chunk in self._out:
            self.settle(chunk, now_ms)

    def finish(self, chunk: Chunk[T], now_ms: int) -> None:
        """A worker is through with a chunk, handled or not; what it did not come to waits again."""
        self._settle(chunk, chunk.handled, now_ms)
        self._out.remove(chunk)
        if chunk.walk is not None:
            if not chunk.handled:
                self._ready.put_back(chunk.offsets[0], chunk.records[0])
                self._end_walk(chunk.walk, now_ms)
            return
        if chunk.is_again and not chunk.handled:
            self._failing.not_tried(chunk.offsets[0], now_ms)
            return
        found = [self._failing.held.get(chunk.offsets[i]) for i in chunk.failures]
        self._ready.give_back(chunk, [i for i, held in zip(chunk.failures, found, strict=True) if held is not None])
        for held in found:
            if held is not None and held.is_parked and self._failing.may_be_passed(held):
                self._walk_on(Walk(front=held), now_ms)

    def _walk_on(self, walk: Walk[T], now_ms: int) -> None:
        """The next record behind those of a walk is tried next; without one the walk is over."""
        step = self._ready.take_behind(walk.front.record, walk)
        if step is None:
            self._end_walk(walk, now_ms)
            return
        walk.front.is_out = True
        self._steps.append(step)

    def _end_walk(self, walk: Walk[T], now_ms: int) -> None:
        """A walk handled nothing: all wait as before, in their order."""
        for held in reversed(walk.passed):
            self._ready.put_back(held.offset, held.record)
        if walk.front.is_out:
            self._failing.park(walk.front, now_ms, walk.passed[-1] if walk.passed else None)

    def abandon(self) -> None:
        """The partition was taken away: records of other partitions may try the dependencies in its place."""
        for chunk in self._out:
            if chunk.dependency is not None:
                self._dependencies.given_up(chunk.dependency)

    def relieve(self) -> bool:
        """Move the failing record at `base` away if it alone holds the partition up; True where it was moved."""
        rule, span = self._rules.moves, self.span
        if not span or self._held_up < rule.nearly_full or self._done.count < rule.acked_share * span:
            return False
        record = self._failing.move_at(self._done.base)
        if record is None:
            return False
        self._ready.release(record)
        return True

    @property
    def _held_up(self) -> float:
        """How full the partition is of what no handler comes to; a backlog is no fault of a record that failed."""
        limits = self._rules.limits
        found = max(self.span / limits.span, self.commit_fill)
        if self._out or self._steps or self._ready.has_work:
            return found
        return max(found, self.buffered_records / limits.records, self.buffered_bytes / limits.size_bytes)

    def unwritten_rejections(self) -> list[Rejection[T]]:
        """Rejected records that are to be written elsewhere; each is given out once."""
        return self._failing.rejected.take_unwritten()

    def rejection_is_durable(self, offset: int) -> None:
        """A rejected record is durable elsewhere, so its offset is done."""
        rejection = self._failing.rejected.durable(offset)
        if rejection is not None:
            self._done.mark(offset)
            self._let_go([rejection.record])

    @property
    def undurable(self) -> int:
        """Rejected records that are durable nowhere else yet."""
        return len(self._failing.rejected)

    def open_again(self, window: ReplayWindow) -> bool:
        """Make the done offsets of a window pending, so that they are handled again; True where `position` went back.

        What was not read yet, or failed, or is at a worker stays as it is. A request that this work, or the commit that
        it began with, has taken up before is done already; 0 is the id of none.
        """
        if window.request_id and window.request_id in self._requests:
            return False
        self._requests.add(window.request_id)
        end = min(window.end, self._unread.fresh)
        done = OffsetRanges.of([(0, self._done.base), *self._done.ranges()]).within(window.start, end)
        for start, stop in done:
            self.counts.replayed += self._done.reopen(start, stop)
        self._unread.open_again(done)
        self.replay = window
        if done.first is None or done.first >= self.position:
            return False
        self.position = done.first
        return True

    def state(self) -> CommitState:
        """What may be committed now, less the route, writer and watermark."""
        done = self._done.ranges()
        base = self._done.base
        current = [*self._failing.marks(base), *self._unread.marks(self._done, self._failing.offsets())]
        marks = list(join_marks(sorted(current, key=lambda mark: mark.start)))
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
        record = self._failing.record_at(base)
        if record is None:
            record = self._ready.find(base)
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

    def _succeeded(self, chunk: Chunk[T], start: int, end: int) -> None:
        if start >= end:
            return
        signs = 0
        if chunk.is_again:
            signs = self._failing.succeeded(chunk.offsets[0], chunk.dependency)
        elif self._failing.behind:
            for offset in chunk.offsets[start:end]:
                self._failing.behind.pop(offset, None)
        if chunk.walk is not None:
            self._failing.passed(chunk.walk)
            self._ready.release(chunk.records[0])
        for low, high in ranges_of(chunk.offsets[start:end]):
            self._done.mark_range(low, high)
        if end - start == len(chunk.records):
            self.buffered_records -= end
            self.buffered_bytes -= chunk.size
        else:
            self._let_go(chunk.records[start:end])
        self._answers.succeeded(end - start, signs)
        self.counts.handled += end - start
        self.newest_done_ms = max(self.newest_done_ms, self._fields.time_ms(chunk.records[end - 1]))

    def _failed(self, chunk: Chunk[T], index: int, now_ms: int) -> None:
        offset, tries = chunk.offsets[index], chunk.tries if isinstance(chunk.tries, int) else chunk.tries[index]
        record, failure = chunk.records[index], chunk.failures[index]
        if chunk.walk is None:
            self._failing.failed(offset, record, tries, failure, chunk.dependency, now_ms)
        elif failure.ending is FailureEnding.WAIT:
            self._ready.put_back(offset, record)
            self._end_walk(chunk.walk, now_ms)
        elif self._failing.failed_behind(chunk.walk, offset, record, tries, failure):
            self._walk_on(chunk.walk, now_ms)
        else:
            self._end_walk(chunk.walk, now_ms)

    def _restore_rejected(self, offset: int, record: T, tries: int) -> None:
        self.buffered_records += 1
        self.buffered_bytes += self._fields.size(record)
        rejection = Rejection(offset=offset, record=record, reason=RejectReason.RESTORED, tries=tries)
        self._failing.rejected.add(rejection)

    def _let_go(self, records: Sequence[T]) -> None:
        self.buffered_records -= len(records)
        self.buffered_bytes -= sum(map(self._fields.size, records))


MIN_LIMIT_CHARS = 64
"""No payload says anything in less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRule:
    """How long commit metadata may be, less one for a NUL that clients append, and in which alphabets, `b` then `w`."""

    limit_chars: int = 4095
    alphabets: tuple[str, ...] = ("b",)

    def __post_init__(self) -> None:
        if self.limit_chars < MIN_LIMIT_CHARS or self.alphabets not in (("b",), ("b", "w"), ("w",)):
            raise UsageError(
                f"{self} is not a valid commit policy", hint=f"{MIN_LIMIT_CHARS} characters or more; b, w or both"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommit:
    """A commit to make: what it says to the next owner is `encoded.written`."""

    offset: int
    encoded: EncodedState
    advice: Advice

    @property
    def committed(self) -> CommittedOffset:
        """The offset with its metadata."""
        return CommittedOffset(offset=self.offset, metadata=self.encoded.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredCommit:
    """What the work begins with. `problem` says why metadata were not used: records are then handled again.

    `is_newer` for metadata of a newer version of this client, over which only an operator's decision may commit.
    """

    state: CommitState
    problem: str = ""
    is_newer: bool = False


def restore_commit(commit: CommittedOffset, identity: CommitIdentity) -> RestoredCommit:
    """What a commit means for this partition and group; never raises.

    Only metadata that are proven to be written for this very commit are used; all else is handled again from the
    committed offset on, which no reader can get wrong.
    """
    if commit.offset < 0:
        return RestoredCommit(state=CommitState(base=0), problem=f"the committed offset is {commit.offset}")
    empty = CommitState(base=commit.offset)
    reading = read_metadata(commit.metadata, commit.offset, identity)
    dialect = dialect_named(reading.dialect)
    if reading.is_proven:
        return RestoredCommit(state=replace(reading.state, spill=None))
    if not dialect.has_payload:
        return RestoredCommit(state=empty)
    return RestoredCommit(
        state=empty,
        problem=reading.reason or f"metadata of {dialect.reader} are not bound to this commit",
        is_newer=reading.problem is not None and reading.problem in dialect.newer_problems,
    )


def next_commit(
    work: PartitionWork[T],
    identity: CommitIdentity,
    rule: CommitRule,
    *,
    route: RouteMark | None,
    writer: Writer | None,
) -> NextCommit:
    """What to commit now; tells the work how full the metadata are, so that it pauses and closes holes in time."""
    oldest_ms = work.oldest_ms()
    newest_ms = work.newest_done_ms
    watermark = None
    if oldest_ms is not None or newest_ms >= 0:
        # The record after the newest done one was not read: it is about as old as that.
        oldest_ms = newest_ms if oldest_ms is None else oldest_ms
        watermark = Watermark(oldest_ms=oldest_ms, newest_done_ms=newest_ms if newest_ms >= 0 else oldest_ms)
    state = replace(work.state(), watermark=watermark, route=route, writer=writer)
    encoded = encode_commit(state, identity, limit_chars=rule.limit_chars, alphabets=rule.alphabets)
    advice = advise(encoded, rule.alphabets)
    work.commit_fill = 1.0 if advice.should_close_holes else encoded.fill
    # Without a hole nothing that is under way would make the metadata shorter.
    work.must_pause = advice.should_pause and bool(state.done)
    return NextCommit(offset=state.base, encoded=encoded, advice=advice)
