"""The latest changes by number, for those who watch; each has its own place in them, so none has a queue."""

from collections import deque
from collections.abc import Sequence

from kafkakit.registry.decide.inventory import Touched
from kafkakit.registry.decide.tags import Kind

MAX_EVENTS = 100_000


class LostPlaceError(Exception):
    """The events after a place are not known any more; the text is for the client."""


class EventLog:
    """Numbers of one run of the service: `run` tells its ids from those of another process."""

    def __init__(self, run: str, *, most: int = MAX_EVENTS) -> None:
        self._run, self._last = run, 0
        self._events: deque[tuple[Kind, str]] = deque(maxlen=most)

    @property
    def last(self) -> int:
        """The number of the latest event; 0 before the first."""
        return self._last

    def add(self, touched: Sequence[Touched]) -> None:
        """Take in what changed; the oldest events go."""
        self._events.extend((each.kind, each.name) for each in touched)
        self._last += len(touched)

    def id_of(self, number: int) -> str:
        """The id of an event, as clients see it."""
        return f"{self._run}-{number}"

    def number_of(self, event_id: str) -> int:
        """The number of an id; raises `LostPlaceError` for one of another process, or of the future."""
        run, _, number = event_id.rpartition("-")
        if run != self._run or not (number.isascii() and number.isdigit() and len(number) < 16):
            raise LostPlaceError("the event id is of another server or another run of it: list again")
        if int(number) > self._last:
            raise LostPlaceError("the event id is none of this server: list again")
        return int(number)

    def after(self, number: int, most: int) -> list[tuple[int, Kind, str]]:
        """Up to `most` events after one, oldest first; `LostPlaceError` where some of them are gone."""
        first = self._last - len(self._events) + 1
        if number + 1 < first:
            raise LostPlaceError("too far behind, the changes since are not kept: list again")
        start = number + 1 - first
        end = min(len(self._events), start + most)
        return [(first + at, *self._events[at]) for at in range(start, end)]
