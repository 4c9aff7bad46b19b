"""The records of one lane on their way: which segment takes them, how long, and what is sent again.

A lane has its own lock, budget and connections, so that one that cannot write holds up no other. A record is taken back
from a segment that takes no more writes, and sent to the one that does: at least once, so it may be on both. Records of
one lane can change their order around a change of the route, a refusal or a lost connection, and only then.
"""

import threading
from collections import deque
from dataclasses import replace
from functools import partial

from kafkakit.core.deliveries import Delivered, FailureKind, NotDelivered, OutgoingRecord
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.figures import LaneFigures
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.send_errors import (
    LanePausedError,
    NotAcknowledgedError,
    RecordRefusedError,
)
from kafkakit.streams.client.decide.targets import LaneTarget, lane_target
from kafkakit.streams.client.delivery import Delivery, Entry, WrittenRecord
from kafkakit.streams.client.kept_records import KeptRecords, Outcome, settle
from kafkakit.streams.client.segment_writer import OpenSegment, SegmentWriter
from kafkakit.streams.routes.api import Route, Segment

AGAIN_S = 0.25
POLL_EVERY = 64


class _Visitor(threading.local):
    is_in = False


class LaneWriter:
    """Thread-safe. Answers come from the threads of its segments, and time limits from `tick`."""

    def __init__(self, lane: str, open_segment: OpenSegment, limits: ProducerLimits, clock: Clock) -> None:
        self.lane = lane
        self._open, self._limits, self._clock = open_segment, limits, clock
        self._kept = KeptRecords(limits, clock)
        self._changed = self._kept.changed
        self._backlog: deque[Entry] = deque()  # those of the kept records that wait for a segment
        self._again: deque[tuple[float, Entry]] = deque()  # those that were refused, with when to try again
        self._last_segment = 0
        self._visitor = _Visitor()
        self._target: LaneTarget | None = None
        self._current: SegmentWriter | None = None
        self._standby: dict[int, SegmentWriter] = {}
        self._retiring: list[SegmentWriter] = []
        self._reopen_s = 0.0
        self._trouble: KafkakitError | None = None
        self._switch_from_s: float | None = None
        self._settled_epoch = 0

    def follow(self, route: Route) -> None:
        """Act on a newer route."""
        with self._changed:
            self._note_settled()
            self._target, self._trouble, self._reopen_s = lane_target(route, self.lane), None, 0.0
            if self._kept.taken:
                self._aim()
            settled = self._write_backlog()
        settle(settled)

    def send(self, record: OutgoingRecord, size: int, wait_s: float) -> Delivery:
        """Take a record; waits up to `wait_s` while the lane is full, then raises `BackPressureError`."""
        with self._changed:
            entry = self._kept.take(record, size, wait_s, self.lane, self._reason)
            if self._current is None:
                self._aim()
            self._backlog.append(entry)
            settled = self._write_backlog()
            writer = self._current if self._kept.taken % POLL_EVERY == 0 and not self._visitor.is_in else None
            if writer is not None:
                writer.guests += 1
        settle(settled)
        if writer is not None:
            self._poll_as_guest(writer)
        return entry.delivery

    def check_space(self, size: int) -> None:
        """`BackPressureError` where `send` would have to wait now."""
        with self._changed:
            self._kept.check_space(size, self.lane, self._reason)

    def tick(self) -> None:
        """Apply time limits; to be called some times a second."""
        with self._changed:
            settled = [self._given_up(entry) for entry in self._kept.expired()]
            self._take_up_again(self._clock.monotonic())
            if self._current is None and self._kept:
                self._aim()
            settled += self._write_backlog()
        settle(settled)

    def wait_until_answered(self, until_s: float) -> int:
        """Wait for what was sent before this call; how many records have no answer at `until_s`."""
        with self._changed:
            return self._kept.wait_until_answered(until_s)

    def close(self) -> int:
        """Give up what has no answer, and drop every connection in its own thread; how many records were given up."""
        with self._changed:
            settled = self._kept.close()
            self._backlog.clear()
            self._again.clear()
            for writer in self._writers():
                self._retire(writer, 0)
            self._current = None
            self._standby.clear()
        settle(settled)
        return len(settled)

    def settled_epoch(self) -> int:
        """The newest epoch that the lane has moved to: nothing of it can be written to a segment of one before."""
        with self._changed:
            self._note_settled()
            return self._settled_epoch

    @property
    def is_gone(self) -> bool:
        """True once it is closed and nothing of it can be written any more."""
        with self._changed:
            return self._kept.is_closed and all(each.is_gone for each in self._retiring)

    def figures(self) -> LaneFigures:
        """The lane now."""
        with self._changed:
            writer = self._current
            is_ready = writer is not None and writer.producer is not None
            return LaneFigures(
                lane=self.lane,
                counters=replace(self._kept.counters),
                waiting_records=len(self._kept),
                waiting_bytes=self._kept.bytes,
                oldest_ms=self._kept.oldest_s * 1000,
                segment=writer.segment.id if writer else 0,
                cluster_id=writer.segment.cluster_id if writer else "",
                problem="" if is_ready or not self._kept.taken else self._reason(),
                connection=writer.producer.figures if writer and writer.producer else None,
            )

    def connected(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`."""
        with self._changed:
            if writer is self._current:
                self._trouble = None
            settled = self._write_backlog()
        settle(settled)

    def not_connected(self, writer: SegmentWriter, error: KafkakitError) -> None:
        """See `WriterEvents`; a place that is not the one the route means fails what waits, as time mends nothing."""
        with self._changed:
            if writer is not self._current:
                return
            self._trouble = error
            settled = [] if isinstance(error, TryLaterError) else self._refuse_backlog()
        settle(settled)

    def broken(self, writer: SegmentWriter, reason: str) -> None:
        """See `WriterEvents`."""
        with self._changed:
            self._replace(writer, reason)

    def is_drained(self, writer: SegmentWriter) -> bool:
        """See `WriterEvents`."""
        return writer.unanswered == 0

    def ended(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`; what has no answer is taken back and goes to the segment that takes writes now."""
        with self._changed:
            taken = [entry for entry in self._kept if entry.writer is writer]
            for entry in taken:
                entry.writer, entry.may_be_written = None, True
            self._backlog.extendleft(reversed(taken))
            settled = self._write_backlog()
        settle(settled)

    def _poll_as_guest(self, writer: SegmentWriter) -> None:
        """Take answers in the thread of a sender; once at a time, as callbacks may send."""
        self._visitor.is_in = True
        try:
            if writer.producer is not None and not writer.is_retired:
                writer.producer.poll(0)
        except Exception as error:  # as in the writer's own thread
            self.broken(writer, f"{type(error).__name__}: {error}")
        finally:
            self._visitor.is_in = False
            with self._changed:
                writer.guests -= 1

    def _aim(self) -> None:
        """Have a writer for the segment of the route and for those that may come next; retire all others."""
        target, now_s = self._target, self._clock.monotonic()
        if target is None or self._kept.is_closed:
            return
        segment = target.segment
        if self._current is not None and (segment is None or self._current.segment.id != segment.id):
            self._retire(self._current, self._limits.drain_s)
            self._current = None
        if segment is not None and self._current is None and now_s >= self._reopen_s:
            self._current = self._standby.pop(segment.id, None) or self._started(segment)
            if self._last_segment not in (0, segment.id):
                self._switch_from_s = now_s
                self._take_up_again(float("inf"))
            self._last_segment = segment.id
        wanted = {following.id: following for following in target.next_segments}
        for key in self._standby.keys() - wanted.keys():
            self._retire(self._standby.pop(key), 0)
        for key in wanted.keys() - self._standby.keys():
            self._standby[key] = self._started(wanted[key])

    def _take_up_again(self, until_s: float) -> None:
        due = []
        while self._again and self._again[0][0] <= until_s:
            due.append(self._again.popleft()[1])
        self._backlog.extendleft(reversed(due))

    def _started(self, segment: Segment) -> SegmentWriter:
        writer = SegmentWriter(segment, self._open, self, self._clock)
        writer.start()
        return writer

    def _note_settled(self) -> None:
        target = self._target
        active = None if target is None or target.segment is None else target.segment.id
        if target is not None and all(each.is_gone or each.segment.id == active for each in self._retiring):
            self._settled_epoch = target.epoch

    def _retire(self, writer: SegmentWriter, drain_s: float) -> None:
        if not writer.is_retired:
            self._retiring = [*(each for each in self._retiring if not each.is_gone), writer]
        writer.retire(drain_s)

    def _writers(self) -> list[SegmentWriter]:
        return [*([self._current] if self._current else ()), *self._standby.values(), *self._retiring]

    def _write_backlog(self) -> list[Outcome]:
        writer, settled = self._current, list[Outcome]()
        if writer is not None and isinstance(self._trouble, KafkakitError) and writer.producer is None:
            return [] if isinstance(self._trouble, TryLaterError) else self._refuse_backlog()
        while self._backlog and writer is not None and writer.producer is not None and not writer.is_retired:
            entry = self._backlog.popleft()
            if entry not in self._kept:
                continue  # given up meanwhile
            partition = entry.record.partition
            if partition is not None and partition >= writer.segment.partitions:
                text = f"partition {partition} is none of the {writer.segment.partitions} of {writer.segment.topic}"
                settled.append(self._kept.settled(entry, RecordRefusedError(text)))
                continue
            try:
                if not writer.producer.send(entry.record, partial(self._answered, entry, writer)):
                    self._backlog.appendleft(entry)
                    break
            except OperationFailedError as error:
                self._backlog.appendleft(entry)
                self._replace(writer, str(error))
                break
            entry.writer = writer
            writer.unanswered += 1
            writer.sent += 1
            entry.attempts += 1
            self._kept.counters.sent_again += entry.attempts > 1
        return settled

    def _answered(self, entry: Entry, writer: SegmentWriter, found: Delivered | NotDelivered) -> None:
        settled: list[Outcome] = []
        with self._changed:
            writer.unanswered -= 1
            if entry not in self._kept:
                self._kept.counters.late += isinstance(found, Delivered)
            elif isinstance(found, Delivered):
                settled.append(self._acknowledged(entry, writer, found))
            elif entry.writer is writer:
                settled += self._failed(entry, writer, found)
        settle(settled)

    def _acknowledged(self, entry: Entry, writer: SegmentWriter, found: Delivered) -> Outcome:
        counters, segment = self._kept.counters, writer.segment
        if self._switch_from_s is not None and writer is self._current:
            counters.switches += 1
            counters.last_switch_ms = (self._clock.monotonic() - self._switch_from_s) * 1000
            counters.longest_switch_ms = max(counters.longest_switch_ms, counters.last_switch_ms)
            self._switch_from_s = None
        written = WrittenRecord(
            lane=self.lane,
            segment=segment.id,
            cluster_id=segment.cluster_id,
            topic=segment.topic,
            partition=found.partition,
            offset=found.offset,
            at_ms=found.at_ms,
            attempts=entry.attempts,
        )
        return self._kept.settled(entry, written)

    def _failed(self, entry: Entry, writer: SegmentWriter, found: NotDelivered) -> list[Outcome]:
        now_s = self._clock.monotonic()
        entry.writer, entry.reason = None, found.reason
        if found.kind is FailureKind.REFUSED:
            entry.refused_s = now_s if entry.refused_s is None else entry.refused_s
            if now_s - entry.refused_s >= self._limits.refused_s:
                return [self._given_up(entry)]
        else:
            entry.may_be_written = True
        self._again.append((now_s + AGAIN_S, entry))
        if found.kind is FailureKind.FATAL:
            self._replace(writer, found.reason)
        return []

    def _replace(self, writer: SegmentWriter, reason: str) -> None:
        """Go on with a new producer after a moment."""
        if writer is self._current:
            self._trouble = TryLaterError(reason)
            self._retire(writer, 0)
            self._current, self._reopen_s = None, self._clock.monotonic() + AGAIN_S

    def _refuse_backlog(self) -> list[Outcome]:
        error, waiting = self._trouble, [entry for entry in self._backlog if entry in self._kept]
        self._backlog.clear()
        return [self._kept.settled(entry, error) for entry in waiting] if error is not None else []

    def _given_up(self, entry: Entry) -> Outcome:
        reason = entry.reason or self._reason() or "no broker answered"
        text = (
            f"a record of lane {self.lane} is given up after {self._clock.monotonic() - entry.sent_s:.3g} s: {reason}"
        )
        is_paused = self._target is not None and self._target.segment is None
        kind = LanePausedError if is_paused else NotAcknowledgedError
        return self._kept.settled(entry, kind(text, may_be_written=entry.may_be_written or entry.writer is not None))

    def _reason(self) -> str:
        if self._target is not None and self._target.reason:
            return self._target.reason
        if self._trouble is not None:
            return str(self._trouble)
        producer = self._current.producer if self._current else None
        if producer is None:
            return "the connection is not there yet"
        return producer.last_error or ""
