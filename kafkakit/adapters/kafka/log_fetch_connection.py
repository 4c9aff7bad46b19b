"""Requests to brokers that nobody waits for longer than asked: the base of the log reader.

kafka-python's public calls wait for each answer; its connection manager, used here as in `KafkaSession`, does
not. An answer that comes late is kept for whoever holds its letter.
"""

import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kafkakit.adapters.kafka.session import Errors, KafkaSession
from kafkakit.core.errors import TryLaterError

PATIENCE_S = 3.0
"""A broker that owes an answer for this long counts as silent: it gets no more requests until it speaks."""
LETTER_LIMIT_S = 30.0
"""After this long a connection is given up: an answer of many megabytes may take a while on a slow line."""
READ_BYTES = 1 << 20


class Letter:
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


class Courier(KafkaSession):
    """A session that also sends letters; its client reads large answers in large pieces."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._news = threading.Condition()
        self._owed: dict[int, list[Letter]] = {}
        self._carrier: Any = None

    def silent(self, broker: int) -> bool:
        """Whether the broker owes an answer for too long."""
        with self._news:
            return any(letter.overdue for letter in self._owed.get(broker, ()))

    def post(self, letters: Collection[Letter]) -> None:
        """Send letters, side by side and to each broker in order; `TryLaterError` when no broker can be reached."""
        if not letters:
            return
        manager = self._manager()
        with self._news:
            for letter in letters:
                self._owed.setdefault(letter.broker, []).append(letter)
        try:
            manager.run(self._posting, manager, letters)
        except Exception as error:
            self.close()
            raise TryLaterError(f"the connection to the cluster broke ({error})") from None

    def ask(self, what: str, request: Any, *, errors: Errors | None = None, repeat: bool = True) -> Any:
        """See `KafkaSession`; a broker that is known to be silent is not the one asked."""
        if self._home is not None and self.silent(self._home):
            connections = self._manager()._conns
            speaking = [b for b, one in sorted(connections.items()) if one.connected and not self.silent(b)]
            self._home = next(iter(speaking), None)
        return super().ask(what, request, errors=errors, repeat=repeat)

    def wait(
        self, letters: Iterable[Letter], limit_s: float, enough: Callable[[Letter], bool], grace_s: float = 0.0
    ) -> None:
        """Wait until all letters are answered, `limit_s` has passed, or `grace_s` after one that is `enough`."""
        deadline = time.monotonic() + limit_s
        waiting = list(letters)
        cut = False
        with self._news:
            while True:
                answered = [letter for letter in waiting if letter.answer is not None]
                waiting = [letter for letter in waiting if letter.answer is None]
                if not cut and any(enough(letter) for letter in answered):
                    deadline, cut = min(deadline, time.monotonic() + grace_s), True
                left = deadline - time.monotonic()
                if not waiting or left <= 0:
                    return
                self._news.wait(left)

    def close(self) -> None:
        """Drop the client and give up its letters."""
        super().close()
        self._carrier = None
        for letter in [letter for owed in self._owed.values() for letter in owed]:
            self._settle(letter, ConnectionError("the connection was given up"))

    def _manager(self) -> Any:
        manager = self._connected()._manager
        if manager is not self._carrier:
            _read_in_large_pieces(manager)
            self._carrier = manager
        return manager

    async def _posting(self, manager: Any, letters: Collection[Letter]) -> None:
        for letter in letters:
            limit_ms = (letter.due - letter.sent + max(LETTER_LIMIT_S, self.request_timeout_s)) * 1000
            try:
                future = manager.send(letter.request, node_id=letter.broker, request_timeout_ms=limit_ms)
            except Exception as error:
                self._settle(letter, error)
                continue
            # Both see the same end of a future: one of them is called, and only once.
            future.add_callback(lambda answer, letter=letter: self._settle(letter, answer))
            future.add_errback(lambda error, letter=letter: self._settle(letter, error))

    def _settle(self, letter: Letter, answer: Any) -> None:
        with self._news:
            owed = self._owed.get(letter.broker, [])
            if letter in owed:
                owed.remove(letter)
                letter.answer, letter.answered = answer, time.monotonic()
                self._news.notify_all()


def _read_in_large_pieces(manager: Any) -> None:
    """Make connections read up to 1 MB at once instead of 4 KB.

    Each read gives up the interpreter's lock, and a thread that decodes meanwhile keeps it for 5 ms:
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
