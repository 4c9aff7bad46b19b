"""What `send` gives back, and the records of a lane that have no answer yet, within the lane's budget.

A delivery is the place where a record was written, once it is known.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kafkakit.core.records import NotDelivered, OutgoingRecord, SentRecord
from kafkakit.ports.acting import Clock
from kafkakit.ports.streams import Answer
from kafkakit.streams.client.decide.figures import LaneCounters
from kafkakit.streams.client.decide.outgoing import BackPressureError, ProducerClosedError, ProducerLimits

_LOG = logging.getLogger("kafkakit.streams.client")
_lock = threading.Lock()  # one for all: it is held for some assignments, and a lock for each record takes longer


class WrittenRecord(NamedTuple):  # one is made for each record, as with OutgoingRecord
    """Where a record was acknowledged. `attempts` above 1: it may be on an older segment as well."""

    lane: str
    segment: int
    cluster_id: str
    topic: str
    partition: int
    offset: int
    at_ms: int
    attempts: int


Place = tuple[str, int, str, str]
"""The first four parts of a `WrittenRecord`, which the records of a segment share."""
Result = WrittenRecord | BaseException
_NOWHERE: Place = "", 0, "", ""
Found = tuple[int, int, int] | Result
"""With a place: partition, offset and time, of which the result is made when it is asked for."""


class Delivery:
    """A record's acknowledgement: `result(timeout)` waits for it or raises why there is none, `await` does the same.

    Its methods are those of `concurrent.futures.Future`, but it is none, which takes 4 us for each record. It cannot be
    cancelled, as the record may be on its way. Callbacks of `add_done_callback` run in a thread of the producer or in
    that of a later `send`, and must not wait.
    """

    __slots__ = ("__weakref__", "_callbacks", "_result", "attempts", "place")

    def __init__(self) -> None:
        self._result: Found | None = None
        self._callbacks: list[Callable[[Delivery], object]] | None = None
        self.place: Place | None = None
        self.attempts = 0

    def done(self) -> bool:
        """True once it is acknowledged or given up."""
        return self._result is not None

    def result(self, timeout: float | None = None) -> WrittenRecord:
        """The place; raises why there is none, and `TimeoutError` while nothing is known after `timeout` seconds."""
        found = self._waited_for(timeout)
        if isinstance(found, BaseException):
            raise found
        return found

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why there is no place; None where there is one. Waits as `result` does."""
        found = self._waited_for(timeout)
        return found if isinstance(found, BaseException) else None

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call with this delivery once it is done, now if it is; errors are logged."""
        with _lock:
            if self._result is None:
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        self._call(callback)

    def __await__(self) -> Generator[Any, None, WrittenRecord]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not answered.done():
                answered.set_result(None)

        def wake(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish)

        if self._result is None:
            self.add_done_callback(wake)
            try:
                yield from answered
            finally:
                self._forget(wake)
        return self.result(0)

    def _waited_for(self, timeout: float | None) -> Result:
        if self._result is None:
            answered = threading.Event()
            wake: Callable[[object], None] = lambda _: answered.set()  # noqa: E731
            self.add_done_callback(wake)
            answered.wait(timeout)
            self._forget(wake)
        found = self._result
        if found is None:
            raise TimeoutError
        if isinstance(found, (WrittenRecord, BaseException)):
            return found
        return WrittenRecord(*(self.place or _NOWHERE), *found, self.attempts)

    def _forget(self, callback: Callable[["Delivery"], object]) -> None:
        with _lock:
            if self._callbacks:
                self._callbacks = [each for each in self._callbacks if each is not callback]

    def _call(self, callback: Callable[["Delivery"], object]) -> None:
        try:
            callback(self)
        except Exception:
            _LOG.exception("a callback of a delivery")
        except BaseException:  # it must not end a thread of the producer, which others wait for
            _LOG.exception("a callback of a delivery")
            if threading.current_thread() is threading.main_thread():
                raise


CallBacks = tuple[Delivery, list[Callable[[Delivery], object]]]
"""A delivery that has its result, and what is to be called with it."""


def settle(outcomes: Iterable[tuple[Delivery, Result]]) -> None:
    """Give deliveries their results, each once, and call back; not while a lock is held, as callbacks may send."""
    called = list[CallBacks]()
    with _lock:
        for delivery, result in outcomes:
            delivery._result = result
            if delivery._callbacks is not None:
                called.append((delivery, delivery._callbacks))
                delivery._callbacks = None
    call_back(called)


def call_back(called: Iterable[CallBacks]) -> None:
    """Call what waits for deliveries that have their results; not while a lock is held."""
    for delivery, callbacks in called:
        for callback in callbacks:
            delivery._call(callback)


_WAIT_S = 1.0
_FREE_AGAIN = 7 / 8


class PendingDelivery(Delivery):
    """A record that a lane holds until it is acknowledged or given up; the lane's lock guards it."""

    __slots__ = ("is_over", "may_be_written", "number", "reason", "record", "refused_s", "sent_s", "size", "writer")

    def __init__(self, record: SentRecord, size: int, number: int, sent_s: float) -> None:
        self._result = self._callbacks = self.place = None
        self.attempts = 0
        self.record, self.size, self.number, self.sent_s = record, size, number, sent_s
        self.is_over = self.may_be_written = False
        self.refused_s: float | None = None
        self.reason = ""
        self.writer: object | None = None
        """Who has it on its way now."""


Outcome = tuple[PendingDelivery, Result]
_NO_RECORD: SentRecord = OutgoingRecord(value=None)


class KeptRecords:
    """In the order of sending, which is that of their time limits. Every call needs `lock` to be held."""

    def __init__(self, limits: ProducerLimits, clock: Clock) -> None:
        self.lock = threading.RLock()
        self.counters = LaneCounters()
        self.bytes = 0
        self.is_closed = False
        self._changed = threading.Condition(self.lock)
        self.limit_bytes, self.limit_records = limits.lane_bytes, limits.lane_records
        self._limits, self._clock = limits, clock
        self.entries: dict[int, PendingDelivery] = {}
        self._sleepers = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[PendingDelivery]:
        return iter(tuple(self.entries.values()))

    @property
    def oldest_s(self) -> float:
        """For how long the oldest record has no answer; 0 without any."""
        oldest = next(iter(self.entries.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest.sent_s

    def take(self, record: SentRecord, size: int, now_s: float) -> PendingDelivery:
        """Keep a record that `make_space` found space for."""
        counters = self.counters
        number = counters.records = counters.records + 1
        counters.bytes += size
        self.bytes += size
        entry = self.entries[number] = PendingDelivery(record, size, number, now_s)
        return entry

    def make_space(self, size: int, wait_s: float, lane: str, reason: Callable[[], str]) -> None:
        """Wait while there is no space for a record. `BackPressureError` when `wait_s` ended, `ProducerClosedError`
        after `close`."""
        if self._is_full(size) and not self._sleep_while(lambda: self._is_full(size), self._clock.monotonic() + wait_s):
            raise self._full(lane, reason)
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")

    def check_space(self, size: int, lane: str, reason: Callable[[], str]) -> None:
        """`BackPressureError` where a record would have to wait now."""
        if not self.is_closed and self._is_full(size):
            raise self._full(lane, reason)

    def failed(self, entry: PendingDelivery, error: BaseException) -> Outcome:
        """Forget a record; after the lock is let go, `settle` gives its delivery the error."""
        del self.entries[entry.number]
        entry.is_over = True
        self.bytes -= entry.size
        self.counters.failed += 1
        entry.record = _NO_RECORD  # the application may keep the delivery
        return entry, error

    def answered(
        self, answers: deque[Answer], count: int, place: Place, called: list[CallBacks]
    ) -> list[tuple[PendingDelivery, NotDelivered]]:
        """Take so many answers out: records that are written get their results, and those of them for which something
        waits go to `called`, to `call_back` after the lock is let go. The others are returned."""
        entries, counters, failed = self.entries, self.counters, list[tuple[PendingDelivery, NotDelivered]]()
        with _lock:
            for _ in range(count):
                entry, found = answers.popleft()
                if isinstance(found, NotDelivered):
                    failed.append((entry, found))
                elif entry.is_over:
                    counters.late += 1
                else:
                    del entries[entry.number]
                    entry.is_over, entry.place, entry.record, entry._result = True, place, _NO_RECORD, found
                    self.bytes -= entry.size
                    counters.acknowledged += 1
                    if entry._callbacks is not None:
                        called.append((entry, entry._callbacks))
                        entry._callbacks = None
        return failed

    def wake(self) -> None:
        """Let those that wait look again, after records were settled: not for the space of some records, as a change
        of threads takes longer than a hundred of them; they look once a second by themselves."""
        if self._sleepers and self.bytes <= self._limits.lane_bytes * _FREE_AGAIN:
            self._changed.notify_all()

    def expired(self) -> list[PendingDelivery]:
        """The records whose time is over."""
        before_s, found = self._clock.monotonic() - self._limits.delivery_s, list[PendingDelivery]()
        for entry in self.entries.values():
            if entry.sent_s > before_s:
                break
            found.append(entry)
        return found

    def wait_until_answered(self, until_s: float) -> int:
        """Wait for what was taken before this call; how many records have no answer at `until_s`."""
        upto = self.counters.records
        self._sleep_while(lambda: next(iter(self.entries), upto + 1) <= upto, until_s)
        return sum(number <= upto for number in self.entries)

    def close(self) -> list[Outcome]:
        """Take nothing more, and give up what has no answer."""
        self.is_closed = True
        error = ProducerClosedError("the producer was closed before the record was acknowledged")
        outcomes = [self.failed(entry, error) for entry in self]
        self._changed.notify_all()
        return outcomes

    def _full(self, lane: str, reason: Callable[[], str]) -> BackPressureError:
        why = reason()
        return BackPressureError(
            f"lane {lane} holds {len(self):,} records and {self.bytes:,} bytes without an answer"
            f"{f' ({why})' if why else ''}",
            hint="send less, or raise lane_records and lane_bytes",
        )

    def _is_full(self, size: int) -> bool:
        return len(self.entries) >= self.limit_records or self.bytes + size > self.limit_bytes

    def _sleep_while(self, holds: Callable[[], bool], until_s: float) -> bool:
        """Wait, with the lock let go; True once the condition does not hold, or all is closed."""
        self._sleepers += 1
        try:
            while not self.is_closed and holds():
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _WAIT_S))
            return True
        finally:
            self._sleepers -= 1
