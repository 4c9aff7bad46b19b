"""The records of one lane on their way: which segment takes them, how long, and what is sent again.

A lane has its own lock, budget and connections, so that one that cannot write holds up no other. Its segments are the
one of the route, those that may come next, and those it leaves. A record is taken back from a segment that takes no
more writes, and sent to the one that does: at least once, so it may be on both. Records of one lane can change their
order around a change of the route, a refusal or a lost connection, and only then.

There is one Kafka producer for one segment, with the thread that connects, serves and drops it. It is used for one
segment and one time: what a fence or a dead cluster did to it ends with it. Closing one may take as long as its cluster
hangs, so only this thread does it, and no other thread waits for it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.records import FailureKind, NotDelivered, SentRecord
from kafkakit.ports.acting import Clock, pause, wait_until
from kafkakit.ports.streams import StreamProducer
from kafkakit.streams.client.decide.figures import LaneFigures
from kafkakit.streams.client.decide.outgoing import (
    LanePausedError,
    LaneTarget,
    NotAcknowledgedError,
    ProducerLimits,
    RecordRefusedError,
    lane_target,
)
from kafkakit.streams.client.delivery import (
    CallBacks,
    Delivery,
    KeptRecords,
    Outcome,
    PendingDelivery,
    Place,
    call_back,
    settle,
)
from kafkakit.streams.model.route import Route, Segment

POLL_EVERY = 256
_NOTHING: Sequence[Outcome] = ()


class _Visitor(threading.local):
    is_in = False


OpenSegment = Callable[[Segment], StreamProducer]


class WriterEvents(Protocol):
    """The lane of a writer; called from the writer's thread."""

    def connected(self, writer: "SegmentWriter") -> None:
        """Records may be sent now."""
        ...

    def not_connected(self, writer: "SegmentWriter", error: KafkakitError) -> None:
        """The place cannot be reached now, or is not the one the route means; it is tried again."""
        ...

    def broken(self, writer: "SegmentWriter", reason: str) -> None:
        """It writes nothing more."""
        ...

    def is_drained(self, writer: "SegmentWriter") -> bool:
        """True where no record waits for an answer of this writer."""
        ...

    def answered(self, writer: "SegmentWriter") -> None:
        """There may be answers to be taken from its producer."""
        ...

    def ended(self, writer: "SegmentWriter") -> None:
        """No answer of this writer is waited for any longer."""
        ...


class SegmentWriter:
    """`producer` is None until the connection is checked."""

    def __init__(
        self, lane: str, segment: Segment, open_segment: OpenSegment, events: WriterEvents, clock: Clock
    ) -> None:
        self.segment = segment
        self.place: Place = lane, segment.id, segment.cluster_id, segment.topic
        self.producer: StreamProducer | None = None
        self.is_retired = False
        """True once it takes no more records."""
        self.sent = self.answered = 0
        self.guests = 0
        """Senders that are in `poll` now; the producer is closed after them."""
        self.is_gone = False
        """True once nothing that was sent through it can be written any more, as far as this process can tell."""
        self.guest_polls = 0
        self._open, self._events, self._clock = open_segment, events, clock
        self._drain_until_s: float | None = None
        self._retired = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafkakit-segment-{segment.id}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def retire(self, drain_s: float) -> None:
        """Take no more records; those on their way have `drain_s` to be acknowledged. The first call decides."""
        if not self.is_retired:
            self._drain_until_s = self._clock.monotonic() + drain_s
            self.is_retired = True
            self._retired.set()

    def _run(self) -> None:
        producer = self._connected()
        if producer is not None:
            self.producer = producer
            try:
                self._events.connected(self)
                self._serve(producer)
            except Exception as error:  # a fault of the library or of ours; a new producer continues
                _LOG.exception("segment %d on %s", self.segment.id, self.segment.cluster)
                self._events.broken(self, f"{type(error).__name__}: {error}")
        try:
            self._events.ended(self)
        except Exception:
            _LOG.exception("segment %d on %s", self.segment.id, self.segment.cluster)
        wait_until(time, float("inf"), lambda: not self.guests, BUSY_S)
        try:
            if producer is not None:
                producer.close()
                self._events.answered(self)
        finally:
            self.is_gone = True

    def _serve(self, producer: StreamProducer) -> None:
        seen = 0
        while not self._is_over():
            # librdkafka's binding lets go of the interpreter's lock after each answer, and a busy sender keeps it for
            # 5 ms each time: while senders poll, this thread does not.
            if self.guest_polls != seen:
                seen = self.guest_polls
                pause(time, BUSY_S)
                continue
            producer.poll(POLL_S)
            self._events.answered(self)

    def _is_over(self) -> bool:
        if self._drain_until_s is None:
            return False
        return self._clock.monotonic() >= self._drain_until_s or self._events.is_drained(self)

    def _connected(self) -> StreamProducer | None:
        while not self._retired.is_set():
            try:
                return self._open(self.segment)
            except KafkakitError as error:
                failure = error
            except Exception as error:  # a library's fault; the lane continues once it is corrected
                failure = TryLaterError(f"{type(error).__name__}: {error}")
            _LOG.warning("segment %d on %s: %s", self.segment.id, self.segment.cluster, failure)
            self._events.not_connected(self, failure)
            self._retired.wait(CONNECT_AGAIN_S if isinstance(failure, TryLaterError) else RECHECK_S)
        return None


class LaneWriter:
    """Thread-safe. Answers come from the threads of its segments and of senders, and time limits from `tick`."""

    def __init__(self, lane: str, open_segment: OpenSegment, limits: ProducerLimits, clock: Clock) -> None:
        self.lane = lane
        self._limits, self._clock = limits, clock
        self._kept = KeptRecords(limits, clock)
        self._lock = self._kept.lock
        self._segments = LaneSegments(lane, open_segment, self, limits, clock)
        self._backlog: deque[PendingDelivery] = deque()  # those of the kept records that wait for a segment
        self._again: deque[tuple[float, PendingDelivery]] = deque()  # those that were refused, with when to try again
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

    def send(self, record: SentRecord, size: int, wait_s: float, now_s: float) -> Delivery:
        """Take a record; waits up to `wait_s` while the lane is full, then raises `BackPressureError`.

        `now_s` is the monotonic clock.
        """
        kept, segments, settled = self._kept, self._segments, _NOTHING
        guest: SegmentWriter | None = None
        self._lock.acquire()  # as `with`, which takes 100 ns longer
        try:
            if kept.is_closed or kept.bytes + size > kept.limit_bytes or len(kept.entries) >= kept.limit_records:
                kept.make_space(size, wait_s, self.lane, segments.reason)
                now_s = self._clock.monotonic()
            entry = kept.take(record, size, now_s)
            if segments.current is None:
                self._aim()
            writer = segments.current
            producer = None if writer is None or self._backlog or writer.is_retired else writer.producer
            is_done = False
            if writer is not None and producer is not None and record[4] is None:  # its partition
                try:
                    is_done = producer.send(record, entry)
                except Exception as error:
                    settled = self._not_written(entry, writer, error)
                    is_done = bool(settled)
                else:
                    if is_done:
                        entry.writer, entry.attempts = writer, 1
                        writer.sent += 1
            if not is_done:
                self._backlog.append(entry)
                settled = self._write_backlog()
            if not entry.number % POLL_EVERY and not self._visitor.is_in:
                guest = self._segments.current
                if guest is not None:
                    guest.guests += 1
                    guest.guest_polls += 1
        finally:
            self._lock.release()
        if settled:
            settle(settled)
        if guest is not None:
            self._poll_as_guest(guest)
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
        with self._lock:
            self._segments.replace(writer, reason)

    def is_drained(self, writer: SegmentWriter) -> bool:
        return writer.answered == writer.sent

    def answered(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`; all answers that are there, under one lock."""
        answers = writer.producer.answers if writer.producer is not None else None
        if not answers:
            return
        settled, called, kept = list[Outcome](), list[CallBacks](), self._kept
        try:
            with self._lock:
                count, before = len(answers), kept.counters.acknowledged
                failed = kept.answered(answers, count, writer.place, called)
                writer.answered += count
                for entry, found in failed:
                    if not entry.is_over and entry.writer is writer:
                        settled += self._failed(entry, writer, found)
                if writer is self._segments.current and kept.counters.acknowledged > before:
                    self._note_switch()
                kept.wake()
        finally:  # an interrupt of the application's thread
            call_back(called)
            settle(settled)

    def ended(self, writer: SegmentWriter) -> None:
        """See `WriterEvents`; what has no answer is taken back and goes to the segment that takes writes now."""
        try:
            self.answered(writer)
        finally:
            self._take_back(writer)

    def _take_back(self, writer: SegmentWriter) -> None:
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

    def _write_backlog(self) -> Sequence[Outcome]:
        writer, backlog = self._segments.current, self._backlog
        settled: list[Outcome] = []
        if writer is None:
            return settled
        producer = writer.producer
        if producer is None:
            trouble = self._segments.trouble
            return settled if trouble is None or isinstance(trouble, TryLaterError) else self._refuse_backlog(trouble)
        while backlog and not writer.is_retired:
            entry = backlog.popleft()
            if entry.is_over:
                continue  # given up meanwhile
            partition = entry.record[4]
            if partition is not None and partition >= writer.segment.partitions:
                segment = writer.segment
                text = f"partition {partition} is not one of the {segment.partitions} of {segment.topic}"
                settled.append(self._kept.failed(entry, RecordRefusedError(text)))
                continue
            try:
                is_written, refused = producer.send(entry.record, entry), _NOTHING
            except Exception as error:
                is_written, refused = False, self._not_written(entry, writer, error)
            if is_written:
                entry.writer = writer
                writer.sent += 1
                entry.attempts += 1
                self._kept.counters.sent_again += entry.attempts > 1
            elif not refused:
                backlog.appendleft(entry)
                break
            settled += refused
        if settled:
            self._kept.wake()
        return settled

    def _not_written(self, entry: PendingDelivery, writer: SegmentWriter, error: Exception) -> Sequence[Outcome]:
        """A producer did not take a record: it waits for the next one, or is refused where the fault is another."""
        if isinstance(error, OperationFailedError):
            self._segments.replace(writer, str(error))
            return _NOTHING
        # A fault of the library or of ours, for which no other record waits.
        _LOG.error("a record of lane %s", self.lane, exc_info=error)
        refused = RecordRefusedError(f"the record cannot be sent: {type(error).__name__}: {error}")
        return [self._kept.failed(entry, refused)]

    def _note_switch(self) -> None:
        """The first acknowledgement on a new segment ends a switch."""
        if self._switch_from_s is None:
            return
        counters = self._kept.counters
        counters.switches += 1
        counters.last_switch_ms = (self._clock.monotonic() - self._switch_from_s) * 1000
        counters.longest_switch_ms = max(counters.longest_switch_ms, counters.last_switch_ms)
        self._switch_from_s = None

    def _failed(self, entry: PendingDelivery, writer: SegmentWriter, found: NotDelivered) -> list[Outcome]:
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
        settled = [self._kept.failed(entry, error) for entry in waiting]
        self._kept.wake()
        return settled

    def _given_up(self, entry: PendingDelivery) -> Outcome:
        reason = entry.reason or self._segments.reason() or "no broker answered"
        text = (
            f"a record of lane {self.lane} is given up after {self._clock.monotonic() - entry.sent_s:.3g} s: {reason}"
        )
        kind = LanePausedError if self._segments.is_paused else NotAcknowledgedError
        return self._kept.failed(entry, kind(text, may_be_written=entry.may_be_written or entry.writer is not None))


AGAIN_S = 0.25


class LaneSegments:
    """Every call needs the lane's lock. `current` is None while no segment takes writes; `trouble` is why not."""

    def __init__(
        self, lane: str, open_segment: OpenSegment, events: WriterEvents, limits: ProducerLimits, clock: Clock
    ) -> None:
        self._lane = lane
        self.target: LaneTarget | None = None
        self.current: SegmentWriter | None = None
        self.trouble: KafkakitError | None = None
        self._open, self._events, self._limits, self._clock = open_segment, events, limits, clock
        self._standby: dict[int, SegmentWriter] = {}
        self._retiring: list[SegmentWriter] = []
        self._reopen_s = 0.0
        self._last_segment = 0
        self._settled_epoch = 0

    @property
    def is_paused(self) -> bool:
        """True where the route has no segment for the lane."""
        return self.target is not None and self.target.segment is None

    def follow(self, target: LaneTarget) -> None:
        """Take up a newer route; `aim` acts on it."""
        self.settled_epoch()
        self.target, self.trouble, self._reopen_s = target, None, 0.0

    def aim(self) -> bool:
        """Have a writer for the segment of the route and for those that may come next; retire all others.

        True where the lane continues with another segment than before.
        """
        if self.target is None:
            return False
        segment, now_s, switches = self.target.segment, self._clock.monotonic(), False
        if self.current is not None and (segment is None or self.current.segment.id != segment.id):
            self._retire(self.current, self._limits.drain_s)
            self.current = None
        if segment is not None and self.current is None and now_s >= self._reopen_s:
            self.current = self._standby.pop(segment.id, None) or self._started(segment)
            if self.current is None:
                self.trouble = TryLaterError(f"segment {segment.id} is not connected: no thread can be started")
                self._reopen_s = now_s + AGAIN_S
            else:
                switches = self._last_segment not in (0, segment.id)
                self._last_segment = segment.id
        wanted = {following.id: following for following in self.target.next_segments}
        for key in self._standby.keys() - wanted.keys():
            self._retire(self._standby.pop(key), 0)
        for key in wanted.keys() - self._standby.keys():
            if (writer := self._started(wanted[key])) is not None:
                self._standby[key] = writer
        return switches

    def replace(self, writer: SegmentWriter, reason: str) -> None:
        """Continue with a new producer after a moment."""
        if writer is self.current:
            self.trouble = TryLaterError(reason)
            self._retire(writer, 0)
            self.current, self._reopen_s = None, self._clock.monotonic() + AGAIN_S

    def settled_epoch(self) -> int:
        """The newest epoch that was moved to: no writer of a segment which it does not write can write any more."""
        target = self.target
        active = None if target is None or target.segment is None else target.segment.id
        if target is not None and all(each.is_gone or each.segment.id == active for each in self._retiring):
            self._settled_epoch = target.epoch
        return self._settled_epoch

    @property
    def are_gone(self) -> bool:
        """True where no writer that was retired can write any more."""
        return all(each.is_gone for each in self._retiring)

    def close(self) -> None:
        """Drop every connection, in its own thread."""
        self.settled_epoch()
        for writer in (*([self.current] if self.current else ()), *self._standby.values(), *self._retiring):
            self._retire(writer, 0)
        self.current = self.target = None
        self._standby.clear()

    def reason(self) -> str:
        """Why the lane cannot write now; empty where it can, as far as is known."""
        if self.target is not None and self.target.reason:
            return self.target.reason
        if self.trouble is not None:
            return str(self.trouble)
        producer = self.current.producer if self.current else None
        if producer is None:
            return "the connection is not there yet"
        return producer.last_error or ""

    def _started(self, segment: Segment) -> SegmentWriter | None:
        writer = SegmentWriter(self._lane, segment, self._open, self._events, self._clock)
        try:
            writer.start()
        except RuntimeError:  # the process has as many threads as it may have
            return None
        return writer

    def _retire(self, writer: SegmentWriter, drain_s: float) -> None:
        if not writer.is_retired:
            self._retiring = [*(each for each in self._retiring if not each.is_gone), writer]
        writer.retire(drain_s)


POLL_S = 0.05
BUSY_S = 0.005
CONNECT_AGAIN_S = 0.2
RECHECK_S = 5.0
_LOG = logging.getLogger("kafkakit.streams.client")
