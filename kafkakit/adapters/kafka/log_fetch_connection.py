"""Requests to brokers whose answers are waited for no longer than the caller allows: the base of the log reader.

kafka-python's public calls wait for each answer; its connection manager, used here as in `KafkaSession`, does
not. An answer that comes late is kept in its `PendingRequest`.
"""

import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kafkakit.adapters.kafka.session import Errors, KafkaSession
from kafkakit.core.errors import TryLaterError

PATIENCE_S = 3.0
"""A broker that owes an answer for this long counts as silent: it gets no more requests until it answers."""
REQUEST_LIMIT_S = 30.0
"""After this long a connection is closed: an answer of many megabytes may take a while on a slow line."""
READ_BYTES = 1 << 20


class PendingRequest:
    """A request on its way to one broker; `answer` is the response or the exception, None while there is neither."""

    __slots__ = ("answer", "answered", "broker", "due", "request", "sent")

    def __init__(self, broker: int, request: Any, allowed_s: float = 0.0) -> None:
        self.broker = broker
        self.request = request
        self.sent = time.monotonic()
        self.due = self.sent + allowed_s + PATIENCE_S
        self.answer: Any = None
        self.answered = 0.0

    @property
    def age_s(self) -> float:
        """Seconds since the answer came, 0 while there is none."""
        return time.monotonic() - self.answered if self.answer is not None else 0.0

    @property
    def overdue(self) -> bool:
        """Whether the broker has owed the answer for longer than is usual."""
        return self.answer is None and time.monotonic() > self.due


class FetchConnections(KafkaSession):
    """A session that also sends requests without waiting; its client reads large answers in large pieces."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._answered = threading.Condition()
        self._owed: dict[int, list[PendingRequest]] = {}
        self._prepared: Any = None

    def silent(self, broker: int) -> bool:
        """Whether the broker owes an answer for too long."""
        with self._answered:
            return any(pending.overdue for pending in self._owed.get(broker, ()))

    def send(self, requests: Collection[PendingRequest]) -> None:
        """Send requests, side by side and to each broker in order; `TryLaterError` when no broker can be reached."""
        if not requests:
            return
        manager = self._manager()
        with self._answered:
            for pending in requests:
                self._owed.setdefault(pending.broker, []).append(pending)
        try:
            manager.run(self._sending_all, manager, requests)
        except Exception as error:
            self.close()
            raise TryLaterError(f"the connection to the cluster broke ({error})") from None

    def request(self, what: str, request: Any, *, errors: Errors | None = None, repeat: bool = True) -> Any:
        """See `KafkaSession`; a broker that is known to be silent gets no request."""
        if self._home is not None and self.silent(self._home):
            connections = self._manager()._conns
            answering = [b for b, one in sorted(connections.items()) if one.connected and not self.silent(b)]
            self._home = next(iter(answering), None)
        return super().request(what, request, errors=errors, repeat=repeat)

    def wait(
        self,
        requests: Iterable[PendingRequest],
        limit_s: float,
        enough: Callable[[PendingRequest], bool],
        grace_s: float = 0.0,
    ) -> None:
        """Wait until all requests are answered, `limit_s` has passed, or `grace_s` after one that is `enough`."""
        deadline = time.monotonic() + limit_s
        waiting = list(requests)
        cut = False
        with self._answered:
            while True:
                answered = [pending for pending in waiting if pending.answer is not None]
                waiting = [pending for pending in waiting if pending.answer is None]
                if not cut and any(enough(pending) for pending in answered):
                    deadline, cut = min(deadline, time.monotonic() + grace_s), True
                left = deadline - time.monotonic()
                if not waiting or left <= 0:
                    return
                self._answered.wait(left)

    def close(self) -> None:
        """Drop the client and fail the requests under way."""
        super().close()
        self._prepared = None
        for pending in [pending for owed in self._owed.values() for pending in owed]:
            self._settle(pending, ConnectionError("the connection was closed"))

    def _manager(self) -> Any:
        manager = self._connected()._manager
        if manager is not self._prepared:
            _read_in_large_pieces(manager)
            self._prepared = manager
        return manager

    async def _sending_all(self, manager: Any, requests: Collection[PendingRequest]) -> None:
        for pending in requests:
            limit_ms = (pending.due - pending.sent + max(REQUEST_LIMIT_S, self.request_timeout_s)) * 1000
            try:
                future = manager.send(pending.request, node_id=pending.broker, request_timeout_ms=limit_ms)
            except Exception as error:
                self._settle(pending, error)
                continue
            # Both see the same end of a future: one of them is called, and only once.
            future.add_callback(lambda answer, pending=pending: self._settle(pending, answer))
            future.add_errback(lambda error, pending=pending: self._settle(pending, error))

    def _settle(self, pending: PendingRequest, answer: Any) -> None:
        with self._answered:
            owed = self._owed.get(pending.broker, [])
            if pending in owed:
                owed.remove(pending)
                pending.answer, pending.answered = answer, time.monotonic()
                self._answered.notify_all()


def _read_in_large_pieces(manager: Any) -> None:
    """Make connections read up to 1 MB at once instead of 4 KB.

    Each read releases the interpreter's lock, and a thread that decodes meanwhile keeps it for 5 ms:
    reads of 4 KB would come to less than 1 MB/s.
    """
    build = manager._build_transport

    async def built(*args: Any, **options: Any) -> Any:
        transport = await build(*args, **options)
        transport._sock_recv = lambda: _received(transport._sock)
        return transport

    manager._build_transport = built
    for connection in list(manager._conns.values()):
        if connection.transport is not None:
            connection.transport._sock_recv = lambda transport=connection.transport: _received(transport._sock)


def _received(sock: Any) -> tuple[bytes, Exception | None]:
    from kafka.errors import KafkaConnectionError

    parts: list[bytes] = []
    while True:
        try:
            data = sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b"".join(parts), None
        except (OSError, AttributeError, ValueError) as error:
            return b"".join(parts), KafkaConnectionError(str(error))
        if not data:
            return b"".join(parts), KafkaConnectionError("socket disconnected")
        parts.append(data)
