"""The records of one lane on their way: which segment takes them, how long, and what is sent again.

A lane has its own lock, budget and connections, so that one that cannot write holds up no other. A record is taken back
from a segment that takes no more writes, and sent to the one that does: at least once, so it may be on both. Records of
one lane can change their order around a change of the route, a refusal or a lost connection, and only then.
"""

import threading
from collections import deque
from dataclasses import replace

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
from kafkakit.streams.client.decide.targets import lane_target
from kafkakit.streams.client.delivery import Delivery, WrittenRecord, settle
from kafkakit.streams.client.kept_records import Entry, KeptRecords, Outcome
from kafkakit.streams.client.lane_segments import AGAIN_S, LaneSegments
from kafkakit.streams.client.segment_writer import OpenSegment, SegmentWriter
from kafkakit.streams.model.route import Route

POLL_EVERY = 64
_new = tuple.__new__


class _Visitor(threading.local):
    is_in = False


class LaneWriter:
    """Thread-safe. Answers come from the threads of its segments and of senders, and time limits from `tick`."""

    def __init__(self, lane: str, open_segment: OpenSegment, limits: ProducerLimits, clock: Clock) -> None:
        self.lane = lane
        self._limits, self._clock = limits, clock
        self._kept = KeptRecords(limits, clock)
        self._lock = self._kept.lock
        self._segments = LaneSegments(open_segment, self, limits, clock)
        self._backlog: deque[Entry] = deque()  # those of the kept records that wait for a segment
        self._again: deque[tuple[float, Entry]] = deque()  # those that were refused, with when to try again
        self._visitor = _Visitor()
        self._switch_from_s: float | None = None

    def follow(self, route: Route) -> None:
        """Act on a newer route."""
        with self._lock:
            if self._kept.is_closed:
                return
            self._segments.follow(lane_target(route, self.lane))
            if self._kept.counters.records:
                self._aim()
            settled = self._write_backlog()
        settle(settled)

    def send(self, record: OutgoingRecord, size: int, wait_s: float) -> Delivery:
        """Take a record; waits up to `wait_s` while the lane is full, then raises `BackPressureError`."""
        with self._lock:
            entry = self._kept.take(record, size, wait_s, self.lane, self._segments.reason)
            if self._segments.current is None:
                self._aim()
            self._backlog.append(entry)
            settled = self._write_backlog()
            if entry.number % POLL_EVERY or self._visitor.is_in or (writer := self._segments.current) is None:
                writer = None
            else:
                writer.guests += 1
                writer.guest_polls += 1
        if settled:
            settle(settled)
        if writer is not None:
            self._poll_as_guest(writer)
        return entry

    def check_space(self, size: int) -> None:
        """`BackPressureError` where `send` would have to wait now."""
        with self._lock:
            self._kept.check_space(size, self.lane, self._segments.reason)

    def tick(self) -> None:
        """Apply time limits; to be called some times a second."""
        with self._lock:
            settled = [self._given_up(entry) for entry in self._kept.expired()]
            self._take_up_again(self._clock.monotonic())
            if self._segments.current is None and self._kept:
                self._aim()
            settled += self._write_backlog()
            self._kept.wake()
        settle(settled)

    def wait_until_answered(self, until_s: float) -> int:
        """Wait for what was sent before this call; how many records have no answer at `until_s`."""
        with self._lock:
            return self._kept.wait_until_answered(until_s)

    def close(self) -> int:
        """Give up what has no answer, and drop every connection in its own thread; how many records were given up."""
        with self._lock:
            settled = self._kept.close()
            self._backlog.clear()
            self._again.clear()
            self._segments.close()
        settle(settled)
        return len(settled)

    def settled_epoch(self) -> int:
        """The newest epoch that the lane has moved to: nothing of it can be written to a segment of one before."""
        with self._lock:
            return self._segments.settled_epoch()

    @property
    def is_gone(self) -> bool:
        """True once it is closed and nothing of it can be written any more."""
        with self._lock:
            return self._kept.is_closed and self._segments.are_gone

    def figures(self) -> LaneFigures:
        """The lane now."""
        with self._lock:
            writer = self._segments.current
            producer = writer.producer if writer else None
            return LaneFigures(
                lane=self.lane,
                counters=replace(self._kept.counters),
                waiting_records=len(self._kept),
                waiting_bytes=self._kept.bytes,
                oldest_ms=self._kept.oldest_s * 1000,
                segment=writer.segment.id if writer else 0,
                cluster_id=writer.segment.cluster_id if writer else "",
                problem="" if producer or not self._kept.counters.records else self._segments.reason(),
                connection=producer.figures if producer else None,
            )

    def connected(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`."""
        with self._lock:
            if writer is self._segments.current:
                self._segments.trouble = None
            settled = self._write_backlog()
        settle(settled)

    def not_connected(self, writer: SegmentWriter, error: KafkakitError) -> None:
        """See `WriterEvents`; a place that is not the one the route means fails what waits: waiting repairs nothing."""
        with self._lock:
            if writer is not self._segments.current:
                return
            self._segments.trouble = error
            settled = self._write_backlog()
        settle(settled)

    def broken(self, writer: SegmentWriter, reason: str) -> None:
        """See `WriterEvents`."""
        with self._lock:
            self._segments.replace(writer, reason)

    def is_drained(self, writer: SegmentWriter) -> bool:
        """See `WriterEvents`."""
        return writer.answered == writer.sent

    def answered(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`; all answers that are there, under one lock."""
        answers = writer.producer.answers if writer.producer is not None else None
        if not answers:
            return
        settled: list[Outcome] = []
        try:
            with self._lock:
                while answers:
                    entry, found = answers.popleft()
                    writer.answered += 1
                    if entry.is_over:
                        self._kept.counters.late += isinstance(found, Delivered)
                    elif isinstance(found, Delivered):
                        written = _new(WrittenRecord, (self.lane, *writer.place, *found, entry.attempts))
                        settled.append(self._kept.settled(entry, written))
                    elif entry.writer is writer:
                        settled += self._failed(entry, writer, found)
                if self._switch_from_s is not None and writer is self._segments.current:
                    self._note_switch(settled)
                self._kept.wake()
        finally:  # an interrupt of the application's thread
            settle(settled)

    def ended(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`; what has no answer is taken back and goes to the segment that takes writes now."""
        self.answered(writer)
        with self._lock:
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
                self.answered(writer)
        except Exception as error:  # as in the writer's own thread
            self.broken(writer, f"{type(error).__name__}: {error}")
        finally:
            self._visitor.is_in = False
            with self._lock:
                writer.guests -= 1

    def _aim(self) -> None:
        if self._segments.aim():
            self._switch_from_s = self._clock.monotonic()
            self._take_up_again(float("inf"))

    def _take_up_again(self, until_s: float) -> None:
        due = []
        while self._again and self._again[0][0] <= until_s:
            due.append(self._again.popleft()[1])
        self._backlog.extendleft(reversed(due))

    def _write_backlog(self) -> list[Outcome]:
        writer, backlog = self._segments.current, self._backlog
        settled: list[Outcome] = []
        if writer is None:
            return settled
        producer, segment = writer.producer, writer.segment
        if producer is None:
            trouble = self._segments.trouble
            return settled if trouble is None or isinstance(trouble, TryLaterError) else self._refuse_backlog(trouble)
        while backlog and not writer.is_retired:
            entry = backlog.popleft()
            if entry.is_over:
                continue  # given up meanwhile
            partition = entry.record.partition
            if partition is not None and partition >= segment.partitions:
                text = f"partition {partition} is none of the {segment.partitions} of {segment.topic}"
                settled.append(self._kept.settled(entry, RecordRefusedError(text)))
                continue
            try:
                if not producer.send(entry.record, entry):
                    backlog.appendleft(entry)
                    break
            except OperationFailedError as error:
                backlog.appendleft(entry)
                self._segments.replace(writer, str(error))
                break
            entry.writer = writer
            writer.sent += 1
            entry.attempts += 1
            if entry.attempts > 1:
                self._kept.counters.sent_again += 1
        if settled:
            self._kept.wake()
        return settled

    def _note_switch(self, settled: list[Outcome]) -> None:
        """The first acknowledgement on a new segment ends a switch."""
        if self._switch_from_s is None or not any(isinstance(result, WrittenRecord) for _, result in settled):
            return
        counters = self._kept.counters
        counters.switches += 1
        counters.last_switch_ms = (self._clock.monotonic() - self._switch_from_s) * 1000
        counters.longest_switch_ms = max(counters.longest_switch_ms, counters.last_switch_ms)
        self._switch_from_s = None

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
            self._segments.replace(writer, found.reason)
        return []

    def _refuse_backlog(self, error: KafkakitError) -> list[Outcome]:
        waiting = [entry for entry in self._backlog if not entry.is_over]
        self._backlog.clear()
        settled = [self._kept.settled(entry, error) for entry in waiting]
        self._kept.wake()
        return settled

    def _given_up(self, entry: Entry) -> Outcome:
        reason = entry.reason or self._segments.reason() or "no broker answered"
        text = (
            f"a record of lane {self.lane} is given up after {self._clock.monotonic() - entry.sent_s:.3g} s: {reason}"
        )
        kind = LanePausedError if self._segments.is_paused else NotAcknowledgedError
        return self._kept.settled(entry, kind(text, may_be_written=entry.may_be_written or entry.writer is not None))
