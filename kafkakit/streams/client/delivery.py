"""What `send` gives back: the place where a record was written, once it is known."""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

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
