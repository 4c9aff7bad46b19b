"""Sending events from one thread, so that nothing waits for the service that takes them."""

from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue
from threading import Event as Signal
from threading import Thread

from kafkakit.core.errors import KafkakitError
from kafkakit.core.event import Event

MAX_WAITING = 100
END_S = 5.0
_POLL_S = 0.2


class EventQueue:
    """Sends events in their order; those that do not fit are dropped, and every failure is a warning.

    Each event gets `tags` and those that it is queued with. `send` gets title, text and tags, and is called from one
    thread alone.
    """

    def __init__(
        self, send: Callable[[str, str, Sequence[str]], object], tags: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        self._send, self._tags, self._warn = send, tags, warn
        self._waiting: Queue[tuple[Event, Sequence[str]]] = Queue(MAX_WAITING)
        self._ends = Signal()
        self._thread = Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def put(self, events: Sequence[Event], tags: Sequence[str] = ()) -> None:
        """Queue events; returns at once."""
        try:
            for event in events:
                self._waiting.put_nowait((event, tags))
        except Full:
            self._warn(f"events are dropped: {MAX_WAITING} wait to be sent")

    def close(self) -> None:
        """Send what waits, for `END_S` at most; closing twice is harmless."""
        self._ends.set()
        self._thread.join(END_S)

    def _work(self) -> None:
        while True:
            try:
                event, tags = self._waiting.get(timeout=_POLL_S)
            except Empty:
                if self._ends.is_set():
                    return
                continue
            try:
                self._send(event.title, event.text, (*self._tags, *tags))
            except KafkakitError as error:
                self._warn(f"an event could not be sent: {error.message}")
