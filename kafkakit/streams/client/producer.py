"""Records into streams by name: the producer of one stream, dual writes to two, and both for asyncio.

The route says which topic of which cluster takes a record; each gets two headers, its id and its time of ingestion. The
producers for asyncio take the same records, have deliveries that are awaited, and no call that holds up the event loop.

Dual writes: each record goes to two streams under one id, so that `reconcile` can compare them. With BOTH, a record
whose delivery succeeded is on both sides; after any failure or crash it may be on one. With PRIMARY_THEN_REPAIR and
SHADOW, a delivery is that of the primary alone. The repair queue is memory: a crash, or a `close` that cannot empty it,
leaves those records on the primary only, and so does each that did not fit into it. `reconcile` and `kafkakit streams
reconcile` find all of these by their ids.
"""

import asyncio
import itertools
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypedDict, Unpack

from kafkakit.core.quantities import epoch_ms
from kafkakit.core.records import Headers, OutgoingRecord
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import StreamProducer
from kafkakit.streams.client.control_store import RouteFollower, RouteRules
from kafkakit.streams.client.decide.client_documents import ClientEntry, ClientKind
from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.decide.outgoing import (
    INGESTED_HEADER,
    BackPressureError,
    DualWriteError,
    ProducerClosedError,
    ProducerLimits,
    RecordRefusedError,
    check_record,
    checked_headers,
    complete,
    record_bytes,
    too_large,
)
from kafkakit.streams.client.delivery import Delivery, settle
from kafkakit.streams.client.lane_writer import LaneWriter
from kafkakit.streams.model.record_identity import HEADER, LENGTH, identity_prefix, session_of
from kafkakit.streams.model.route import LIVE, Route, Segment

TICK_S = 0.05
_new = tuple.__new__  # a third of the time that a named tuple takes
SEND_WAIT_S = 60.0
_LOG = logging.getLogger("kafkakit.streams.client")

LaneChoice = Callable[[OutgoingRecord, int], str]
"""The lane of a record at a time in ms of UTC."""
PathwayHeaders = Callable[[OutgoingRecord, str], Headers]
"""What a pathway adds to a record that goes to a lane."""
Serializer = Callable[[Any, Any], bytes | None]
"""Makes bytes of a key or value and of a `SerializationContext`, as those of confluent-kafka."""
MakeContext = Callable[[str, str, list[tuple[str, bytes | None]]], object]
"""Makes a `SerializationContext` of a topic's name, `key` or `value`, and headers, which a serializer may add to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHooks:
    """What other parts decide of each record; all are called in the thread of `send`.

    Serializers are called as confluent-kafka calls them, for None as well; the topic in their context is the stream.
    What they raise, `send` raises.
    """

    choose_lane: LaneChoice | None = None
    pathway: PathwayHeaders | None = None
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None


class RecordParts(TypedDict, total=False):
    """What a record may have beside value and key: `at_ms` is its time, in ms of UTC."""

    headers: Iterable[tuple[str, bytes | None]]
    at_ms: int | None
    partition: int | None


class UnacknowledgedRecords(NamedTuple):
    """How many records have no acknowledgement, by lane; lanes without any are left out."""

    lanes: tuple[tuple[str, int], ...]

    @property
    def records(self) -> int:
        """All of them."""
        return sum(count for _, count in self.lanes)

    def __bool__(self) -> bool:
        return self.records > 0


class Producer:
    """Writes to one stream; thread-safe. `close` it, or use it in a `with` block.

    It follows the route: from the moment that a change is seen, records go to the new segment, and those on their way
    to the old one are sent again unless they are acknowledged there in time. Every acknowledged record is written at
    least once; how many may be there twice is in `metrics()`.
    """

    def __init__(
        self,
        follower: RouteFollower,
        open_segment: Callable[[str, Segment], StreamProducer],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: ProducerLimits,
        hooks: RecordHooks,
    ) -> None:
        self._follower, self._open, self._limits = follower, open_segment, limits
        self._clock, self._monotonic = clock, clock.monotonic
        self._hooks, self._stamps = hooks, RecordStamps(clock, random_bytes)
        self._lock = threading.Lock()
        self._lanes: dict[str, LaneWriter] = {}
        self._used: dict[str, LaneWriter] = {}  # those that the route has
        self._header_errors = 0
        self._stop = threading.Event()
        self._route = follower.current()
        self._has_hooks = self._chooses(self._route)
        self._ticker = threading.Thread(target=self._tick, name=f"kafkakit-producer-{self.stream}", daemon=True)
        follower.subscribe(self._follow)
        try:
            self._ticker.start()
        except BaseException:
            follower.unsubscribe(self._follow)
            raise

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._route.stream

    def send(
        self,
        value: object,
        key: object = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        headers: Iterable[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Hand over a record; the result tells where it was written.

        Key and value are bytes or None, unless `RecordHooks` has serializers. Records of a key go to one partition of a
        segment. `lane` is chosen by the rules unless given. Waits only while the lane is full, `wait_s` at most, then
        raises `BackPressureError`; `RecordRefusedError` for a record that Kafka or the stream does not take.
        """
        if headers or self._has_hooks or type(value) is not bytes or (type(key) is not bytes and key is not None):
            record = self.prepared(value, key, headers=headers, at_ms=at_ms, partition=partition)
            return self.send_record(record, lane=lane, wait_s=wait_s)
        # The same for what nearly all records are, without a call for each step: a record takes 6 us in all.
        if at_ms is not None or partition is not None:
            check_record(OutgoingRecord(value, key, (), at_ms, partition))
        now_s = self._monotonic()
        own = self._stamps.headers(now_s)
        size = OWN_BYTES + len(value) + (len(key) if key else 0)
        if size > self._limits.batch_bytes:
            raise too_large(size, self._limits.batch_bytes)
        name = LIVE if lane is None else lane
        writer = self._used.get(name) or self._lane(name)
        return writer.send((value, key, own, at_ms, partition), size, wait_s, now_s)

    def prepared(
        self,
        value: object,
        key: object = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> OutgoingRecord:
        """A checked record with its id and time of ingestion, not sent yet."""
        own = self._stamps.headers(self._monotonic())
        if headers:
            own = complete(checked_headers(headers), own)
        record = _new(OutgoingRecord, (value, key, own, at_ms, partition))
        check_record(record)
        return record

    def send_record(self, record: OutgoingRecord, *, lane: str | None = None, wait_s: float = SEND_WAIT_S) -> Delivery:
        """Send what `prepared` made; raises as `send`."""
        now_s = self._monotonic()
        if lane is None:
            choose = self._hooks.choose_lane
            lane = LIVE if choose is None else choose(record, self._stamps.now_ms(now_s))
        writer = self._used.get(lane) or self._lane(lane)
        if self._hooks.pathway is not None:
            if wait_s <= 0:  # a record that is handed over again and again is one checkpoint
                writer.check_space(self._size(record))
            record = self._with_pathway(record, lane, self._hooks.pathway)
        return writer.send(record, self._size(record), wait_s, now_s)

    def outgoing(self, value: object, key: object, lane: str, parts: RecordParts) -> tuple[OutgoingRecord, int]:
        """A record as `send` would write it to a lane, with its size, for a writer of its own; raises as `prepared`."""
        record = self.prepared(value, key, **parts)
        if self._hooks.pathway is not None:
            record = self._with_pathway(record, lane, self._hooks.pathway)
        return record, self._size(record)

    def flush(self, timeout_s: float) -> UnacknowledgedRecords:
        """Wait for the answers to all that was sent before; what has none when the time ends, by lane."""
        until_s = self._clock.monotonic() + timeout_s
        counts = ((lane.lane, lane.wait_until_answered(until_s)) for lane in self._writers())
        return UnacknowledgedRecords(tuple((name, count) for name, count in counts if count))

    def close(self, timeout_s: float = 30.0) -> UnacknowledgedRecords:
        """Flush, then give up what has no answer and let go of everything; closing twice is harmless.

        What is given up may be written or not. Connections to a cluster that hangs end in the background.
        """
        if self._stop.is_set():
            return UnacknowledgedRecords(())
        self.flush(timeout_s)
        self._stop.set()
        self._follower.unsubscribe(self._follow)
        return UnacknowledgedRecords(tuple((lane.lane, count) for lane in self._writers() if (count := lane.close())))

    def metrics(self) -> ProducerMetrics:
        """What was counted since the start, and how each lane that was used is doing."""
        return ProducerMetrics(
            stream=self.stream,
            route=self._follower.condition(),
            lanes=tuple(lane.figures() for lane in self._writers()),
            header_errors=self._header_errors,
        )

    def registration(self) -> ClientEntry | None:
        epoch, lanes = self._route.epoch, self._writers()
        if self._stop.is_set() and all(lane.is_gone for lane in lanes):
            return None
        return ClientEntry(
            kind=ClientKind.PRODUCER,
            epoch=min([epoch, *(lane.settled_epoch() for lane in lanes)]),
            delivery_timeout_ms=int(self._limits.delivery_s * 1_000),
        )

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lane(self, name: str) -> LaneWriter:
        route = self._route
        if route.lane(name) is None:
            names = ", ".join(lane.name for lane in route.lanes)
            raise RecordRefusedError(f"stream {self.stream} has no lane {str(name)[:80]!r}", hint=f"it has {names}")
        with self._lock:
            if self._stop.is_set():
                raise ProducerClosedError("the producer is closed")
            route = self._route
            if name not in self._lanes:
                writer = LaneWriter(name, partial(self._open, name), self._limits, self._clock)
                writer.follow(route)
                self._lanes[name] = writer
            self._used = self._lanes_of(route)
            return self._lanes[name]

    def _lanes_of(self, route: Route) -> dict[str, LaneWriter]:
        return {name: writer for name, writer in self._lanes.items() if route.lane(name) is not None}

    def _chooses(self, route: Route) -> bool:
        """Whether a record must be shown to a hook: rules of a route that has none choose `live`."""
        hooks = self._hooks
        is_plain = hooks.choose_lane is None or (isinstance(hooks.choose_lane, RouteRules) and not route.rules)
        others = (hooks.pathway, hooks.key_serializer, hooks.value_serializer)
        return not is_plain or any(each is not None for each in others)

    def _writers(self) -> list[LaneWriter]:
        with self._lock:
            return [self._lanes[name] for name in sorted(self._lanes)]

    def _follow(self, route: Route) -> None:
        with self._lock:
            self._route, self._used, self._has_hooks = route, self._lanes_of(route), self._chooses(route)
            lanes = list(self._lanes.values())
        for lane in lanes:  # without the lock: what a lane settles may call back
            lane.follow(route)

    def _tick(self) -> None:
        is_failing = False
        while not self._stop.wait(TICK_S):
            was_failing, is_failing = is_failing, False
            for lane in self._writers():
                try:
                    lane.tick()
                except Exception:  # a fault of ours must not end what gives records up in time
                    is_failing = True
                    if not was_failing:
                        _LOG.exception("stream %s: lane %s", self.stream, lane.lane)

    def _size(self, record: OutgoingRecord) -> int:
        size = record_bytes(record)
        if size > self._limits.batch_bytes:
            raise too_large(size, self._limits.batch_bytes)
        return size

    def _with_pathway(self, record: OutgoingRecord, lane: str, pathway: PathwayHeaders) -> OutgoingRecord:
        try:
            more = pathway(record, lane)
            names = {name for name, _ in more}
            headers = checked_headers((*(h for h in record.headers if h[0] not in names), *more))
        except Exception as error:  # a record is worth more than its trace
            if not self._header_errors:
                _LOG.warning("stream %s: records go without a pathway's headers: %s", self.stream, error)
            self._header_errors += 1
            return record
        return record._replace(headers=headers)


class SerializingProducer(Producer):
    """A producer of keys and values that its serializers make bytes of; without one, bytes are taken as they are."""

    def __init__(
        self,
        follower: RouteFollower,
        open_segment: Callable[[str, Segment], StreamProducer],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: ProducerLimits,
        hooks: RecordHooks,
        make_context: MakeContext,
    ) -> None:
        self._make_context = make_context
        super().__init__(follower, open_segment, clock, random_bytes, limits, hooks)

    def prepared(
        self,
        value: object,
        key: object = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> OutgoingRecord:
        """See `Producer`; the key is serialized first, and serializers may add headers. Raises what they raise."""
        own, hooks = [*checked_headers(headers)], self._hooks
        if hooks.key_serializer is not None:
            key = hooks.key_serializer(key, self._make_context(self.stream, "key", own))
        if hooks.value_serializer is not None:
            value = hooks.value_serializer(value, self._make_context(self.stream, "value", own))
        return super().prepared(value, key, headers=own, at_ms=at_ms, partition=partition)


MakeOutput = Callable[[object, object, RecordParts], tuple[OutgoingRecord, int]]


class RecordOutputs:
    """What a transform writes for one record; it counts once the transform returns, and not if it raises."""

    def __init__(self, make: MakeOutput) -> None:
        self.records: list[OutgoingRecord] = []
        self.size = 0
        self._make = make

    def send(self, value: object, key: object = None, **parts: Unpack[RecordParts]) -> None:
        """Add a record; takes and raises what `Producer.send` does, but for the lane."""
        record, size = self._make(value, key, parts)
        self.records.append(record)
        self.size += size


STAMP_S = 0.001
"""For how long records get the same time, whose making takes a microsecond."""
_sequence = struct.Struct(">I").pack
OWN_BYTES = record_bytes(OutgoingRecord(value=None, headers=((HEADER, bytes(LENGTH)), (INGESTED_HEADER, bytes(13)))))
"""The most that a record without value, key and other headers takes until 2286, when its time has a digit more."""


@dataclass(frozen=True, slots=True)
class _Moment:
    until_s: float
    at_ms: int
    headers: Iterator[Headers]
    numbers: Iterator[int]


class RecordStamps:
    """Thread-safe. Records are numbered from 0 in a session; one that has used its numbers is followed by another."""

    def __init__(self, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._clock, self._random = clock, random_bytes
        self._lock = threading.Lock()
        self._session = session_of(random_bytes(6)), itertools.count()
        self._moment = self._made(clock.monotonic())

    def now_ms(self, now_s: float) -> int:
        """The time in ms of UTC at a time of the monotonic clock, a millisecond old at most."""
        if now_s >= self._moment.until_s:
            self._moment = self._made(now_s)
        return self._moment.at_ms

    def headers(self, now_s: float) -> Headers:
        """Those of the next record at a time of the monotonic clock."""
        moment = self._moment
        if now_s >= moment.until_s:
            moment = self._moment = self._made(now_s)
        while True:
            try:
                return next(moment.headers)
            except struct.error:
                moment = self._next_session(moment, now_s)

    def _next_session(self, moment: _Moment, now_s: float) -> _Moment:
        with self._lock:
            if self._session[1] is moment.numbers:
                self._session = session_of(self._random(6)), itertools.count()
            self._moment = self._made(now_s)
            return self._moment

    def _made(self, now_s: float) -> _Moment:
        at_ms = max(0, epoch_ms(self._clock.now()))  # ids have no space for times before 1970
        session, numbers = self._session
        # No step of this runs Python code, so that threads get numbers of their own.
        ids = map(identity_prefix(at_ms, session).__add__, map(_sequence, numbers))
        headers = zip(zip(repeat(HEADER), ids, strict=False), repeat((INGESTED_HEADER, b"%d" % at_ms)), strict=False)
        return _Moment(now_s + STAMP_S, at_ms, headers, numbers)


REPAIR_BATCH = 500
REPAIR_AGAIN_S = 1.0
JOIN_S = 5.0


class DualPolicy(StrEnum):
    """When a delivery succeeds: BOTH once both sides have the record, the others once the primary has it.

    PRIMARY_THEN_REPAIR then writes it to the secondary, in the order of acknowledgement, until that succeeds. SHADOW
    sends to both at once and only counts what fails on the secondary.
    """

    BOTH = "both"
    PRIMARY_THEN_REPAIR = "primary-then-repair"
    SHADOW = "shadow"


@dataclass(slots=True, kw_only=True)
class DualFigures:
    """The secondary's side: records acknowledged there, failed there, waiting for repair, and dropped by the queue."""

    written: int = 0
    failed: int = 0
    repair_waiting: int = 0
    repair_dropped: int = 0


class DualProducer:
    """Two producers as one, with the primary's lanes and time limits. Closes both."""

    def __init__(
        self, primary: Producer, secondary: Producer, policy: DualPolicy, clock: Clock, repair_bytes: int = 64 << 20
    ) -> None:
        self.primary, self.secondary, self._policy, self._clock = primary, secondary, policy, clock
        self.prepared = primary.prepared
        self._repair_limit, self._repair_bytes = repair_bytes, 0
        self._changed = threading.Condition()
        self._repairs: deque[tuple[OutgoingRecord, str]] = deque()
        self._figures = DualFigures()
        self._is_closed = False
        self._repairer = threading.Thread(target=self._repair, name="kafkakit-repair", daemon=True)
        if policy is DualPolicy.PRIMARY_THEN_REPAIR:
            self._repairer.start()

    def send(
        self,
        value: object,
        key: object = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        **parts: Unpack[RecordParts],
    ) -> Delivery:
        """Hand over a record; raises as `Producer.send` for the primary, and with BOTH for the secondary."""
        return self.send_record(self.prepared(value, key, **parts), lane=lane, wait_s=wait_s)

    def send_record(self, record: OutgoingRecord, *, lane: str | None = None, wait_s: float = SEND_WAIT_S) -> Delivery:
        """Send what `prepared` made; raises as `send`."""
        first = self.primary.send_record(record, lane=lane, wait_s=wait_s)
        if self._policy is DualPolicy.PRIMARY_THEN_REPAIR:
            first.add_done_callback(partial(self._queue_repair, record))
            return first
        second = self._sent_to_secondary(record, lane, wait_s if self._policy is DualPolicy.BOTH else 0)
        return _wait_for_both(first, second) if self._policy is DualPolicy.BOTH else first

    def flush(self, timeout_s: float) -> UnacknowledgedRecords:
        """Wait for both sides and the repairs; what is missing, with the secondary's lanes as `secondary/LANE`."""
        until_s = self._clock.monotonic() + timeout_s
        first = self.primary.flush(timeout_s)
        with self._changed:
            while self._repairs and (left_s := until_s - self._clock.monotonic()) > 0:
                self._changed.wait(left_s)
            waiting = len(self._repairs)
        return _add_lanes(first, self.secondary.flush(max(0.0, until_s - self._clock.monotonic())), waiting)

    def close(self, timeout_s: float = 30.0) -> UnacknowledgedRecords:
        """Flush, then give up what has no answer; records in the repair queue stay on the primary alone."""
        self.flush(timeout_s)
        with self._changed:
            self._is_closed, waiting = True, len(self._repairs)
            self._changed.notify_all()
        first, second = self.primary.close(0), self.secondary.close(0)
        if self._repairer.is_alive():
            self._repairer.join(JOIN_S)
        return _add_lanes(first, second, waiting)

    def metrics(self) -> ProducerMetrics:
        """The primary's."""
        return self.primary.metrics()

    def figures(self) -> DualFigures:
        """The secondary's side; `secondary.metrics()` has the rest."""
        with self._changed:
            found = self._figures
            return DualFigures(
                written=found.written,
                failed=found.failed,
                repair_waiting=len(self._repairs),
                repair_dropped=found.repair_dropped,
            )

    def __enter__(self) -> "DualProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sent_to_secondary(self, record: OutgoingRecord, lane: str | None, wait_s: float) -> Delivery:
        try:
            delivery = self.secondary.send_record(record, lane=lane, wait_s=wait_s)
        except Exception as error:  # the record is on the primary: what fails here is counted, and tried again
            delivery = Delivery()
            settle([(delivery, error)])
        delivery.add_done_callback(self._count)
        return delivery

    def _count(self, delivery: Delivery) -> None:
        with self._changed:
            has_failed = delivery.exception() is not None
            self._figures.failed += has_failed
            self._figures.written += not has_failed

    def _queue_repair(self, record: OutgoingRecord, first: Delivery) -> None:
        if first.exception() is not None:
            return
        size = record_bytes(record)
        with self._changed:
            if self._is_closed or self._repair_bytes + size > self._repair_limit:
                self._figures.repair_dropped += 1
                return
            self._repairs.append((record, first.result().lane))
            self._repair_bytes += size
            self._changed.notify_all()

    def _repair(self) -> None:
        while True:
            with self._changed:
                while not self._repairs and not self._is_closed:
                    self._changed.wait(1.0)
                if self._is_closed:
                    return
                batch = [self._repairs[at] for at in range(min(len(self._repairs), REPAIR_BATCH))]
            deliveries = [self._sent_to_secondary(record, lane, SEND_WAIT_S) for record, lane in batch]
            failures = [at for at, delivery in enumerate(deliveries) if delivery.exception() is not None]
            # What follows a record that failed is written again after it, so that the last record of a key stays last.
            done = failures[0] if failures else len(batch)
            with self._changed:
                for _ in range(done):
                    record, _lane = self._repairs.popleft()
                    self._repair_bytes -= record_bytes(record)
                self._changed.notify_all()
                if failures and not self._is_closed:
                    self._changed.wait(REPAIR_AGAIN_S)


def _wait_for_both(first: Delivery, second: Delivery) -> Delivery:
    """Done when both are, with the primary's place."""
    joined = Delivery()
    lock, left = threading.Lock(), [2]

    def count_down(_: object) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        errors = first.exception(), second.exception()
        settle([(joined, first.result() if errors == (None, None) else DualWriteError(*errors))])

    first.add_done_callback(count_down)
    second.add_done_callback(count_down)
    return joined


def _add_lanes(first: UnacknowledgedRecords, second: UnacknowledgedRecords, repairs: int) -> UnacknowledgedRecords:
    lanes = [*first.lanes, *((f"secondary/{lane}", count) for lane, count in second.lanes)]
    return UnacknowledgedRecords((*lanes, *((("secondary/repairs", repairs),) if repairs else ())))


_AGAIN_S = (0.001, 0.05)


class AsyncProducer:
    """Wraps a producer; for one event loop or several. `async with` closes it."""

    def __init__(self, producer: Producer | DualProducer) -> None:
        self._producer = producer

    async def send(
        self,
        value: object,
        key: object = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        **parts: Unpack[RecordParts],
    ) -> Delivery:
        """Hand over a record; `await` the result for its acknowledgement. Raises as `Producer.send`."""
        record = self._producer.prepared(value, key, **parts)
        until_s, pause_s = time.monotonic() + wait_s, _AGAIN_S[0]
        while True:
            try:
                return self._producer.send_record(record, lane=lane, wait_s=0)
            except BackPressureError:
                if time.monotonic() >= until_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _AGAIN_S[1])

    async def flush(self, timeout_s: float) -> UnacknowledgedRecords:
        """Wait for the answers to all that was sent before."""
        return await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float = 30.0) -> UnacknowledgedRecords:
        """Flush, then give up what has no answer."""
        return await asyncio.to_thread(self._producer.close, timeout_s)

    def metrics(self) -> ProducerMetrics:
        """What was counted since the start; of a dual producer the primary's."""
        return self._producer.metrics()

    async def __aenter__(self) -> "AsyncProducer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
