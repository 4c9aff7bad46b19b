"""The routes of all streams, read a part at a time; those of which workers know a newer epoch come first."""

from collections.abc import Iterable, Mapping

from kafkakit.core.errors import InputError
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.api import WorkerDocument
from kafkakit.streams.model.route import Route
from kafkakit.streams.routes.api_act import RouteStore

NAMES_EVERY_S = 30.0
MOST_READS = 200


class RouteCatalog:
    """Keeps the newest route of each stream. A `refresh` costs at most `MOST_READS`, and a list of names at times."""

    def __init__(self, store: RouteStore, clock: Clock) -> None:
        self.routes: dict[str, Route] = {}
        self.problems: dict[str, str] = {}
        self._store, self._clock = store, clock
        self._names: tuple[str, ...] = ()
        self._next = 0
        self._names_s = float("-inf")

    def refresh(self, workers: Iterable[WorkerDocument]) -> Mapping[str, Route]:
        """Read those that are new or older than what a worker knows, then the next ones of all; returns all.

        `TryLaterError` while the store is away. A document that cannot be read changes nothing and is a problem.
        """
        known = {each.stream: each.epoch for document in workers for each in document.subscriptions}
        due = [s for s, epoch in sorted(known.items()) if s not in self.routes or self.routes[s].epoch < epoch]
        now_s = self._clock.monotonic()
        if now_s - self._names_s >= NAMES_EVERY_S:
            self._names, self._names_s = self._store.names(), now_s
            for name in self.routes.keys() - set(self._names):
                del self.routes[name]
        left = max(0, MOST_READS - len(due))
        turn = self._names[self._next : self._next + left]
        self._next = self._next + left if self._next + left < len(self._names) else 0
        for stream in (*due[:MOST_READS], *turn):
            self._read(stream)
        return self.routes

    def _read(self, stream: str) -> None:
        try:
            found = self._store.read(stream)
        except InputError as error:
            self.problems[stream] = str(error)
            return
        self.problems.pop(stream, None)
        if found is None:
            self.routes.pop(stream, None)
        elif stream not in self.routes or self.routes[stream].epoch < found.route.epoch:
            self.routes[stream] = found.route
