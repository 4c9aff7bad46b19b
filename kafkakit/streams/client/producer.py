"""Records into a stream by its name: the route says which topic of which cluster takes them."""

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkakit.core.deliveries import Headers, OutgoingRecord
from kafkakit.core.durations import epoch_ms
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.decide.outgoing import ProducerLimits, check_record, check_size, complete
from kafkakit.streams.client.decide.registration import ClientEntry, ClientKind
from kafkakit.streams.client.decide.send_errors import ProducerClosedError, RecordRefusedError
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.lane_writer import LaneWriter
from kafkakit.streams.client.route_follower import RouteFollower
from kafkakit.streams.client.segment_writer import OpenSegment
from kafkakit.streams.formats.record_identity import SEQUENCE_BITS, RecordId, session_of
from kafkakit.streams.routes.api import LIVE, Route

TICK_S = 0.05
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
        open_segment: OpenSegment,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        limits: ProducerLimits,
        hooks: RecordHooks,
    ) -> None:
        self._follower, self._open, self._clock, self._limits = follower, open_segment, clock, limits
        self._hooks, self._random = hooks, random_bytes
        self._lock = threading.Lock()
        self._lanes: dict[str, LaneWriter] = {}
        self._session = session_of(random_bytes(6)), itertools.count()
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
        headers: Sequence[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
    ) -> Delivery:
        """Hand over a record; the result tells where it was written.

        Records of a key go to one partition of a segment. `lane` is chosen by the rules unless given. Waits only while
        the lane is full, `wait_s` at most, then raises `BackPressureError`; `RecordRefusedError` for a record that
        Kafka or the stream does not take.
        """
        record = self.prepared(value, key, headers=headers, at_ms=at_ms, partition=partition)
        return self.send_record(record, lane=lane, wait_s=wait_s)

    def prepared(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        at_ms: int | None = None,
        partition: int | None = None,
    ) -> OutgoingRecord:
        """A checked record with its id and time of ingestion, not sent yet."""
        try:
            pairs = tuple((name, content) for name, content in headers) if headers else ()
        except (TypeError, ValueError):
            raise RecordRefusedError("headers are pairs of a name and bytes or None") from None
        record = OutgoingRecord(value=value, key=key, headers=pairs, at_ms=at_ms, partition=partition)
        check_record(record)
        now_ms = epoch_ms(self._clock.now())
        return complete(record, self._identity(now_ms), now_ms)

    def send_record(self, record: OutgoingRecord, *, lane: str | None = None, wait_s: float = SEND_WAIT_S) -> Delivery:
        """Send what `prepared` made; raises as `send`."""
        if lane is None:
            choose = self._hooks.choose_lane
            lane = LIVE if choose is None else choose(record, epoch_ms(self._clock.now()))
        writer = self._lane(lane)
        if self._hooks.pathway is not None:
            if wait_s <= 0:  # a record that is handed over again and again is one checkpoint
                writer.check_space(check_size(record, self._limits.batch_bytes))
            record = self._with_pathway(record, lane, self._hooks.pathway)
        size = check_size(record, self._limits.batch_bytes)
        return writer.send(record, size, wait_s)

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
        found = self._lanes.get(name)
        if found is not None:
            return found
        with self._lock:
            if self._stop.is_set():
                raise ProducerClosedError("the producer is closed")
            route = self._route
            if name not in self._lanes:
                writer = LaneWriter(name, self._open, self._limits, self._clock)
                writer.follow(route)
                self._lanes[name] = writer
            return self._lanes[name]

    def _writers(self) -> list[LaneWriter]:
        with self._lock:
            return [self._lanes[name] for name in sorted(self._lanes)]

    def _follow(self, route: Route) -> None:
        with self._lock:
            self._route = route
            lanes = list(self._lanes.values())
        for lane in lanes:  # without the lock: what a lane settles may call back
            lane.follow(route)

    def _tick(self) -> None:
        while not self._stop.wait(TICK_S):
            for lane in self._writers():
                lane.tick()

    def _identity(self, now_ms: int) -> RecordId:
        session, numbers = self._session
        number = next(numbers)  # atomic
        while number >> SEQUENCE_BITS:
            with self._lock:
                if self._session[1] is numbers:
                    self._session = session_of(self._random(6)), itertools.count()
            session, numbers = self._session
            number = next(numbers)
        return RecordId(at_ms=now_ms, session=session, sequence=number)

    def _with_pathway(self, record: OutgoingRecord, lane: str, pathway: PathwayHeaders) -> OutgoingRecord:
        try:
            more = pathway(record, lane)
            names = {name for name, _ in more}
            found = record._replace(headers=(*(h for h in record.headers if h[0] not in names), *more))
            check_record(found)
        except Exception as error:  # a record is worth more than its trace
            if not self._header_errors:
                _LOG.warning("stream %s: records go without a pathway's headers: %s", self.stream, error)
            self._header_errors += 1
            return record
        return found
