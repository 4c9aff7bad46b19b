"""Sending events about ticks."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kafkakit.autothrottle.decide.events import events_of
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.execution.act.event_queue import EventQueue


class EventSender(EventQueue):
    """Sends what ticks changed."""

    def __init__(
        self, send: Callable[[str, str, Sequence[str]], object], tags: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        super().__init__(send, tags, warn)
        self._before: Tick | None = None

    def see(self, tick: Tick) -> None:
        """Queue the events of a tick; returns at once."""
        self.put(events_of(self._before, tick))
        before = self._before
        # What the pacer set itself stays as it is while a run has the rates.
        self._before = tick if before is None or not tick.requested_from else replace(tick, applied=before.applied)
