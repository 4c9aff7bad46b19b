"""Records into a stream by its name: the route says which topic of which cluster takes them."""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypedDict, Unpack

from kafkakit.core.deliveries import Headers, OutgoingRecord
from kafkakit.ports.clock import Clock
from kafkakit.ports.stream_producer import StreamProducer
from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.decide.outgoing import (
    ProducerLimits,
    check_record,
    checked_headers,
    complete,
    record_bytes,
    too_large,
)
from kafkakit.streams.client.decide.registration import ClientEntry, ClientKind
from kafkakit.streams.client.decide.send_errors import ProducerClosedError, RecordRefusedError
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.lane_writer import LaneWriter
from kafkakit.streams.client.record_stamps import RecordStamps
from kafkakit.streams.client.route_follower import RouteFollower
from kafkakit.streams.model.route import LIVE, Route, Segment

TICK_S = 0.05
_new = tuple.__new__  # a third of the time that a named tuple takes
SEND_WAIT_S = 60.0
_LOG = logging.getLogger("kafkakit.streams.client")

LaneChoice = Callable[[OutgoingRecord, int], str]
"""The lane of a record at a time in ms of UTC."""
PathwayHeaders = Callable[[OutgoingRecord, str], Headers]
"""What a pathway adds to a record that goes to a lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHooks:
    """What other parts decide of each record; both are called in the thread of `send`."""

    choose_lane: LaneChoice | None = None
    pathway: PathwayHeaders | None = None


class RecordParts(TypedDict, total=False):
    """What a record may have beside value and key: `at_ms` is its time, in ms of UTC."""

    headers: Iterable[tuple[str, bytes | None]]
    at_ms: int | None
    partition: int | None


class Unacknowledged(NamedTuple):
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
        self._follower, self._open, self._clock, self._limits = follower, open_segment, clock, limits
        self._hooks, self._stamps = hooks, RecordStamps(clock, random_bytes)
        self._lock = threading.Lock()
        self._lanes: dict[str, LaneWriter] = {}
        self._used: dict[str, LaneWriter] = {}  # those that the route has
        self._header_errors = 0
        self._stop = threading.Event()
        self._route = follower.current()
        self._ticker = threading.Thread(target=self._tick, name=f"kafkakit-producer-{self.stream}", daemon=True)
        follower.subscribe(self._follow)
        self._ticker.start()

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._route.stream

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        **parts: Unpack[RecordParts],
    ) -> Delivery:
        """Hand over a record; the result tells where it was written.

        Records of a key go to one partition of a segment. `lane` is chosen by the rules unless given. Waits only while
        the lane is full, `wait_s` at most, then raises `BackPressureError`; `RecordRefusedError` for a record that
        Kafka or the stream does not take.
        """
        return self.send_record(self.prepared(value, key, **parts), lane=lane, wait_s=wait_s)

    def prepared(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> OutgoingRecord:
        """A checked record with its id and time of ingestion, not sent yet."""
        own = self._stamps.headers()
        if headers:
            own = complete(checked_headers(headers), own)
        record = _new(OutgoingRecord, (value, key, own, at_ms, partition))
        check_record(record)
        return record

    def send_record(self, record: OutgoingRecord, *, lane: str | None = None, wait_s: float = SEND_WAIT_S) -> Delivery:
        """Send what `prepared` made; raises as `send`."""
        if lane is None:
            choose = self._hooks.choose_lane
            lane = LIVE if choose is None else choose(record, self._stamps.now_ms())
        writer = self._used.get(lane) or self._lane(lane)
        if self._hooks.pathway is not None:
            if wait_s <= 0:  # a record that is handed over again and again is one checkpoint
                writer.check_space(self._size(record))
            record = self._with_pathway(record, lane, self._hooks.pathway)
        return writer.send(record, self._size(record), wait_s)

    def flush(self, timeout_s: float) -> Unacknowledged:
        """Wait for the answers to all that was sent before; what has none when the time ends, by lane."""
        until_s = self._clock.monotonic() + timeout_s
        counts = ((lane.lane, lane.wait_until_answered(until_s)) for lane in self._writers())
        return Unacknowledged(tuple((name, count) for name, count in counts if count))

    def close(self, timeout_s: float = 30.0) -> Unacknowledged:
        """Flush, then give up what has no answer and let go of everything; closing twice is harmless.

        What is given up may be written or not. Connections to a cluster that hangs end in the background.
        """
        if self._stop.is_set():
            return Unacknowledged(())
        self.flush(timeout_s)
        self._stop.set()
        self._follower.unsubscribe(self._follow)
        return Unacknowledged(tuple((lane.lane, count) for lane in self._writers() if (count := lane.close())))

    def metrics(self) -> ProducerMetrics:
        """What was counted since the start, and how each lane that was used is doing."""
        return ProducerMetrics(
            stream=self.stream,
            route=self._follower.condition(),
            lanes=tuple(lane.figures() for lane in self._writers()),
            header_errors=self._header_errors,
        )

    def registration(self) -> ClientEntry | None:
        """See `RegisteredClient`."""
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

    def _writers(self) -> list[LaneWriter]:
        with self._lock:
            return [self._lanes[name] for name in sorted(self._lanes)]

    def _follow(self, route: Route) -> None:
        with self._lock:
            self._route, self._used = route, self._lanes_of(route)
            lanes = list(self._lanes.values())
        for lane in lanes:  # without the lock: what a lane settles may call back
            lane.follow(route)

    def _tick(self) -> None:
        while not self._stop.wait(TICK_S):
            for lane in self._writers():
                lane.tick()

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
