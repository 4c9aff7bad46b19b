"""The newest route of a stream, kept by a thread for as long as the client lives."""

import logging
import threading
from collections.abc import Callable

from kafkakit.core.errors import InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.client.decide.figures import RouteCondition
from kafkakit.streams.model.route import Route, decode_route, route_path

WAIT_S = 10.0
"""Each wait begins with a read of the store, which finds out whether it can be reached."""
AGAIN_S = 0.5
_LOG = logging.getLogger("kafkakit.streams.client")


class RouteFollower:
    """Follows one stream's route. While the store is away, the last route stays in use, and `condition` says so.

    A document with an epoch that is not higher, one that cannot be read, and a deletion change nothing.
    """

    def __init__(self, store: ControlStore, stream: str, clock: Clock) -> None:
        self._store, self._path, self._stream, self._clock = store, route_path(stream), stream, clock
        self._lock, self._reading = threading.RLock(), threading.Lock()
        self._subscribers: list[Callable[[Route], None]] = []
        self._route: Route | None = None
        self._version: int | None = None
        self._ignored = 0
        self._document_problem = self._problem = ""
        self._problem_since_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"kafkakit-route-{stream}", daemon=True)

    def start(self) -> None:
        """Read the route once, then follow it; `UsageError` for a stream that is not there, `TryLaterError` while the
        store is away."""
        self.refresh()
        if self._route is None and self._version is not None:
            raise InputError(f"the route of stream {self._stream}", self._document_problem)
        if self._route is None:
            raise UsageError(
                f"there is no stream {self._stream} in the control store",
                hint="kafkakit streams list names them; the profile's control_store says where they are looked for",
            )
        self._thread.start()

    @property
    def epoch(self) -> int:
        """The epoch in use, 0 before `start`."""
        return 0 if self._route is None else self._route.epoch

    def current(self) -> Route:
        """The route to act on; `TryLaterError` before `start`."""
        if self._route is None:
            raise TryLaterError(f"the route of stream {self._stream} was not read yet")
        return self._route

    def subscribe(self, callback: Callable[[Route], None]) -> None:
        """Call with the present route now, and with each newer one from a thread of the client, in order of epochs."""
        with self._lock:
            self._subscribers.append(callback)
            callback(self.current())

    def unsubscribe(self, callback: Callable[[Route], None]) -> None:
        """Stop calling it."""
        with self._lock:
            self._subscribers.remove(callback)

    def condition(self) -> RouteCondition:
        """The epoch in use, and why no newer one would be seen now."""
        problem, since_s = self._problem, self._problem_since_s
        return RouteCondition(
            epoch=self.epoch,
            stale_s=self._clock.monotonic() - since_s if problem else 0.0,
            problem=problem,
            ignored_documents=self._ignored,
        )

    def refresh(self) -> None:
        """Read the route now, in the caller's thread; `TryLaterError` while the store is away."""
        with self._reading:
            self._read()

    def stop(self) -> None:
        """Stop following; the thread ends some seconds later, as it may be waiting for the store."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the thread has ended; the store may be closed then."""
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                if self._store.await_change(self._path, self._version, WAIT_S) and not self._stop.is_set():
                    self.refresh()
                self._note(self._document_problem)
            except Exception as error:  # whatever a store's client raises must not end the thread
                self._note(str(error) if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}")
                self._stop.wait(AGAIN_S)

    def _read(self) -> None:
        found = self._store.get(self._path)
        # A document, a damaged one too, is not read again until it changes.
        version = None if found is None else found.version
        if version is not None and version == self._version:
            return
        self._version = version
        self._document_problem = "the route was deleted"
        if found is None:
            return
        try:
            route = decode_route(found.value, f"the route of stream {self._stream}")
        except KafkakitError as error:
            self._document_problem = str(error)
            return
        if route.stream != self._stream:
            self._document_problem = f"the document is the route of stream {route.stream}"
            return
        self._document_problem = ""
        if self._route is not None and route.epoch <= self._route.epoch:
            self._ignored += 1
            _LOG.warning(
                "stream %s: a route of epoch %d is ignored, %d is in use", self._stream, route.epoch, self._route.epoch
            )
            return
        with self._lock:
            self._route = route
            for callback in tuple(self._subscribers):
                callback(route)

    def _note(self, problem: str) -> None:
        if problem and not self._problem:
            self._problem_since_s = self._clock.monotonic()
            _LOG.warning("stream %s: epoch %d of the route stays in use: %s", self._stream, self.epoch, problem)
        elif self._problem and not problem:
            _LOG.warning("stream %s: the route can be followed again, epoch %d", self._stream, self.epoch)
        self._problem = problem
