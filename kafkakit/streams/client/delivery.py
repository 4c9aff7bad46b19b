"""What `send` gives back, and the records of a lane that have no answer yet, within the lane's budget.

A delivery is the place where a record was written, once it is known.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.acting import Clock
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


Result = WrittenRecord | BaseException


class Delivery:
    """A record's acknowledgement: `result(timeout)` waits for it or raises why there is none, `await` does the same.

    Its methods are those of `concurrent.futures.Future`, but it is none, which takes 4 us for each record. It cannot be
    cancelled, as the record may be on its way. Callbacks of `add_done_callback` run in a thread of the producer or in
    that of a later `send`, and must not wait.
    """

    _result: Result | None = None
    _callbacks: list[Callable[["Delivery"], object]] | None = None

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
        return found

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


def settle(outcomes: Iterable[tuple[Delivery, Result]]) -> None:
    """Give deliveries their results, each once, and call back; not while a lock is held, as callbacks may send."""
    called = []
    with _lock:
        for delivery, result in outcomes:
            delivery._result = result
            if delivery._callbacks is not None:
                called.append((delivery, delivery._callbacks))
                delivery._callbacks = None
    for delivery, callbacks in called:
        for callback in callbacks:
            delivery._call(callback)


_WAIT_S = 1.0
_FREE_AGAIN = 7 / 8


class Entry(Delivery):
    """A record that a lane holds until it is acknowledged or given up; the lane's lock guards it."""

    attempts = 0
    is_over = False
    may_be_written = False
    refused_s: float | None = None
    reason = ""
    writer: object | None = None
    """Who has it on its way now."""

    def __init__(self, record: OutgoingRecord, size: int, number: int, sent_s: float) -> None:
        self.record, self.size, self.number, self.sent_s = record, size, number, sent_s


Outcome = tuple[Entry, Result]


class KeptRecords:
    """In the order of sending, which is that of their time limits. Every call needs `lock` to be held."""

    def __init__(self, limits: ProducerLimits, clock: Clock) -> None:
        self.lock = threading.RLock()
        self.counters = LaneCounters()
        self.bytes = 0
        self.is_closed = False
        self._changed = threading.Condition(self.lock)
        self._limits, self._clock, self._monotonic = limits, clock, clock.monotonic
        self._entries: dict[int, Entry] = {}
        self._sleepers = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    @property
    def oldest_s(self) -> float:
        """For how long the oldest record has no answer; 0 without any."""
        oldest = next(iter(self._entries.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest.sent_s

    def take(self, record: OutgoingRecord, size: int, wait_s: float, lane: str, reason: Callable[[], str]) -> Entry:
        """Keep a record; waits while there is no space for it. `BackPressureError` when `wait_s` ended,
        `ProducerClosedError` after `close`."""
        now_s, limits = self._monotonic(), self._limits
        if len(self._entries) >= limits.lane_records or self.bytes + size > limits.lane_bytes:
            if not self._sleep_while(lambda: self._is_full(size), now_s + wait_s):
                raise self._full(lane, reason)
            now_s = self._clock.monotonic()
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")
        counters = self.counters
        counters.records += 1
        counters.bytes += size
        self.bytes += size
        entry = self._entries[counters.records] = Entry(record, size, counters.records, now_s)
        return entry

    def check_space(self, size: int, lane: str, reason: Callable[[], str]) -> None:
        """`BackPressureError` where a record would have to wait now."""
        if not self.is_closed and self._is_full(size):
            raise self._full(lane, reason)

    def settled(self, entry: Entry, result: Result) -> Outcome:
        """Forget a record; after the lock is let go, `settle` gives its delivery the result."""
        del self._entries[entry.number]
        entry.is_over = True
        self.bytes -= entry.size
        if isinstance(result, BaseException):
            self.counters.failed += 1
        else:
            self.counters.acknowledged += 1
        del entry.record  # the application may keep the delivery
        return entry, result

    def wake(self) -> None:
        """Let those that wait look again, after records were settled: not for the space of some records, as a change
        of threads takes longer than a hundred of them; they look once a second by themselves."""
        if self._sleepers and self.bytes <= self._limits.lane_bytes * _FREE_AGAIN:
            self._changed.notify_all()

    def expired(self) -> list[Entry]:
        """The records whose time is over."""
        before_s, found = self._clock.monotonic() - self._limits.delivery_s, list[Entry]()
        for entry in self._entries.values():
            if entry.sent_s > before_s:
                break
            found.append(entry)
        return found

    def wait_until_answered(self, until_s: float) -> int:
        """Wait for what was taken before this call; how many records have no answer at `until_s`."""
        upto = self.counters.records
        self._sleep_while(lambda: next(iter(self._entries), upto + 1) <= upto, until_s)
        return sum(number <= upto for number in self._entries)

    def close(self) -> list[Outcome]:
        """Take nothing more, and give up what has no answer."""
        self.is_closed = True
        error = ProducerClosedError("the producer was closed before the record was acknowledged")
        outcomes = [self.settled(entry, error) for entry in self]
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
        limits = self._limits
        return len(self._entries) >= limits.lane_records or self.bytes + size > limits.lane_bytes

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
