"""Sending events about ticks from one thread, so that no tick waits for the service."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, Full, Queue
from threading import Event as Signal
from threading import Thread

from kafkakit.autothrottle.decide.events import Event, events_of
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.core.errors import KafkakitError

MAX_WAITING = 100
END_S = 5.0
_POLL_S = 0.2


class EventSender:
    """Sends what ticks changed; events that do not fit into the queue are dropped, and every failure is a warning.

    `send` gets title, text and tags, and is called from one thread alone.
    """

    def __init__(
        self, send: Callable[[str, str, Sequence[str]], object], tags: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        self._send, self._tags, self._warn = send, tags, warn
        self._before: Tick | None = None
        self._waiting: Queue[Event] = Queue(MAX_WAITING)
        self._ends = Signal()
        self._thread = Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def see(self, tick: Tick) -> None:
        """Queue the events of a tick; returns at once."""
        try:
            for event in events_of(self._before, tick):
                self._waiting.put_nowait(event)
        except Full:
            self._warn(f"events are dropped: {MAX_WAITING} wait to be sent")
        before = self._before
        # What the pacer set itself stays as it is while a run has the rates.
        self._before = tick if before is None or not tick.requested_from else replace(tick, applied=before.applied)

    def close(self) -> None:
        """Send what waits, for `END_S` at most; closing twice is harmless."""
        self._ends.set()
        self._thread.join(END_S)

    def _work(self) -> None:
        while True:
            try:
                event = self._waiting.get(timeout=_POLL_S)
            except Empty:
                if self._ends.is_set():
                    return
                continue
            try:
                self._send(event.title, event.text, self._tags)
            except KafkakitError as error:
                self._warn(f"an event could not be sent: {error.message}")
