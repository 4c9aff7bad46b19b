"""What a client reads and writes in the control store: the newest route of a stream, its lane rules, its registration.

A thread for each stream keeps the route that it follows for as long as the client lives, and the lane of each record is
chosen by the rules of that route. Another thread keeps the registration of the process's clients of one stream, which a
failover reads. Nothing on the way of a record waits for the store: while it is away, only the registration gets old.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.lease import Holder, VersionedValue
from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.acting import Clock
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.client.decide.client_documents import (
    CLIENT_DOCUMENT,
    ClientDocument,
    ClientEntry,
    ClientRegistration,
    clients_folder,
    merge_entries,
    registrations_of,
)
from kafkakit.streams.client.decide.figures import RouteCondition
from kafkakit.streams.model.route import LaneChooser, Route, decode_route, route_path

WAIT_S = 10.0
"""Each wait begins with a read of the store, which finds out whether it can be reached."""
AGAIN_S = 0.5
CALLED_S = 1.0
"""How long a thread waits for another one that calls a subscriber."""
_LOG = logging.getLogger("kafkakit.streams.client")


class _Subscriber:
    """`epoch` is that of the newest route that its callback took; `caller` is the thread that calls it now."""

    def __init__(self, callback: Callable[[Route], None]) -> None:
        self.callback, self.epoch, self.caller = callback, 0, 0


class RouteFollower:
    """Follows one stream's route. While the store is away, the last route stays in use, and `condition` says so.

    A document with an epoch that is not higher, one that cannot be read, and a deletion change nothing. A subscriber
    that raises is called again after a moment, and is such a problem until it has the route.
    """

    def __init__(self, store: ControlStore, stream: str, clock: Clock) -> None:
        self._store, self._path, self._stream, self._clock = store, route_path(stream), stream, clock
        self._lock, self._reading = threading.Condition(), threading.Lock()
        self._subscribers: list[_Subscriber] = []
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
                hint="streams are looked up in the profile's control_store; list them with: kafkakit streams list",
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
        """Call with the present route now, and with each newer one from a thread of the client, in order of epochs.

        It is called by one thread at a time, and without a lock. What it raises now is raised, and it is not called
        again.
        """
        self.current()
        subscriber = _Subscriber(callback)
        with self._lock:
            self._subscribers.append(subscriber)
        try:
            self._call(subscriber)
        except BaseException:
            self.unsubscribe(callback)
            raise

    def unsubscribe(self, callback: Callable[[Route], None]) -> None:
        """Stop calling it; a call that another thread began goes on."""
        with self._lock:
            self._subscribers = [each for each in self._subscribers if each.callback != callback]

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
        with suppress(Exception):  # the follower's own thread tells again, and says what is wrong
            self._tell()

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
                wait_s = AGAIN_S if self._is_behind() else WAIT_S
                if self._store.await_change(self._path, self._version, wait_s) and not self._stop.is_set():
                    self.refresh()
                self._tell()
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
        self._route = route

    def _is_behind(self) -> bool:
        with self._lock:
            return any(subscriber.epoch < self.epoch for subscriber in self._subscribers)

    def _tell(self) -> None:
        """Each subscriber has the route after this, or is called with it by a thread that hangs; raises after all."""
        with self._lock:
            subscribers = tuple(self._subscribers)
        errors = list[Exception]()
        for subscriber in subscribers:
            try:
                self._call(subscriber)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _call(self, subscriber: _Subscriber) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                if subscriber.caller != me:  # what it calls may read the route
                    self._lock.wait_for(lambda: not subscriber.caller, CALLED_S)
                route = self._route
                if subscriber.caller or route is None or subscriber.epoch >= route.epoch:
                    return
                subscriber.caller = me
            try:
                subscriber.callback(route)
                subscriber.epoch = route.epoch
            finally:
                with self._lock:
                    subscriber.caller = 0
                    self._lock.notify_all()

    def _note(self, problem: str) -> None:
        if problem and not self._problem:
            self._problem_since_s = self._clock.monotonic()
            _LOG.warning("stream %s: epoch %d of the route stays in use: %s", self._stream, self.epoch, problem)
        elif self._problem and not problem:
            _LOG.warning("stream %s: the route can be followed again, epoch %d", self._stream, self.epoch)
        self._problem = problem


class RouteRules:
    """Follows the rules of the route. Rules that cannot be read leave the ones before in use; without any, `live`."""

    def __init__(self, follower: RouteFollower) -> None:
        self._follower = follower
        self._epoch, self._chooser = 0, LaneChooser((), ())

    def __call__(self, record: OutgoingRecord, now_ms: int) -> str:
        """The lane's name."""
        route = self._follower.current()
        if route.epoch > self._epoch:
            self._epoch = route.epoch
            try:
                self._chooser = LaneChooser(route.rules, [lane.name for lane in route.lanes])
            except UsageError as error:
                _LOG.warning("stream %s: the rules of epoch %d are not used: %s", route.stream, route.epoch, error)
        return self._chooser.choose(record, now_ms)


BEAT_S = 5.0
LOOK_S = 0.1
ANNOUNCE_S = 1.0
FORGET_S = 25 * 3600.0
"""Longer than any producer tries a record."""


class RegisteredClient(Protocol):
    """A producer or a consumer."""

    def registration(self) -> ClientEntry | None:
        """What is true of it now; None before it begins, and once it has ended."""
        ...


class ClientRegistrar:
    """Writes the document when it changes and every 5 s, and removes it once no client is left; for one stream.

    `refresh` reads the route again. Documents that other processes left behind are removed after 25 to 50 hours
    without a change.
    """

    def __init__(
        self,
        store: ControlStore,
        stream: str,
        holder: Holder,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        refresh: Callable[[], None],
    ) -> None:
        self._store, self._stream, self._holder = store, stream, holder
        self._clock, self._random, self._refresh = clock, random_bytes, refresh
        self._id, self._path = random_bytes(8).hex(), self._any_path()
        self._lock = threading.Lock()
        self._clients: list[RegisteredClient] = []
        self._waiting: list[threading.Event] = []
        self._written: tuple[ClientEntry, ...] = ()
        self._beat = 0
        self._version: int | None = None
        self._is_written = False
        """True from the first attempt on: an answer that was lost does not tell."""
        self._due_s = 0.0
        self._problem = ""
        self._others: dict[str, int] = {}
        self._looked_s = clock.monotonic()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, client: RegisteredClient) -> None:
        """Register a client: returns once that is written and the route was read after it, after 1 s at most.

        A process that changes the route first and reads the registrations then either finds this one, or the client
        sees the change before its first record.
        """
        announced = threading.Event()
        with self._lock:
            self._clients.append(client)
            self._waiting.append(announced)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=f"kafkakit-clients-{self._stream}", daemon=True)
                thread.start()
                self._thread = thread
        self._wake.set()
        announced.wait(ANNOUNCE_S)

    def close(self) -> None:
        """Remove the document, if every client has ended within 1 s; else it shows for how long it is not renewed."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(ANNOUNCE_S)

    def join(self) -> None:
        """Wait until the store is not used any more."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        until_s: float | None = None
        while until_s is None or (self._is_written and not self._problem and self._clock.monotonic() < until_s):
            if until_s is None and self._stop.is_set():
                until_s = self._clock.monotonic() + ANNOUNCE_S
            with self._lock:
                waiting, self._waiting = self._waiting, []
            try:
                self._look(is_new=bool(waiting))
            except Exception as error:  # whatever a store's client raises must not end the thread
                self._due_s = self._clock.monotonic() + ANNOUNCE_S
                if not self._problem:
                    _LOG.warning("stream %s: the registration of this process is not renewed: %s", self._stream, error)
                self._problem = str(error) or type(error).__name__
            for announced in waiting:
                announced.set()
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _look(self, *, is_new: bool) -> None:
        with self._lock:
            clients = tuple(self._clients)
        entries = merge_entries(entry for client in clients if (entry := client.registration()) is not None)
        now_s = self._clock.monotonic()
        is_due = now_s >= self._due_s
        if entries and (is_due or is_new or (entries != self._written and not self._problem)):
            self._write(entries)
            self._due_s = now_s + BEAT_S
        elif not entries and self._is_written and (is_due or not self._problem):
            self._remove()
        if is_new:
            self._refresh()
        if now_s - self._looked_s >= FORGET_S:
            self._looked_s = now_s
            self._forget()

    def _write(self, entries: tuple[ClientEntry, ...]) -> None:
        self._beat += 1
        document = ClientDocument(id=self._id, beat=self._beat, holder=self._holder, entries=entries)
        self._is_written = True
        try:
            self._version = self._store.cas(self._path, CLIENT_DOCUMENT.encode(document), self._version)
        except ConflictError:
            # An earlier write arrived although its answer was lost, or the document was removed, or the name is taken.
            found = self._store.get(self._path)
            if found is not None and not self._is_ours(found):
                self._path, found = self._any_path(), None
            self._version = None if found is None else found.version
            self._version = self._store.cas(self._path, CLIENT_DOCUMENT.encode(document), self._version)
        self._written, self._problem = entries, ""

    def _remove(self) -> None:
        found = self._store.get(self._path)
        if found is not None and self._is_ours(found):
            self._store.delete(self._path, found.version)
        self._version, self._is_written, self._written, self._problem = None, False, (), ""

    def _any_path(self) -> str:
        """A name that is used again: stores keep the version of each path for ever, also of those that are deleted."""
        return f"{clients_folder(self._stream)}/{self._random(2).hex()}"

    def _is_ours(self, found: VersionedValue) -> bool:
        return self._id.encode() in found.value

    def _forget(self) -> None:
        folder = clients_folder(self._stream)
        found = {name: kept.version for name, kept in self._store.values(folder).items() if not self._is_ours(kept)}
        for name, version in found.items():
            if self._others.get(name) == version:
                with suppress(ConflictError):
                    self._store.delete(f"{folder}/{name}", version)
        self._others = found


def read_clients(store: ControlStore, stream: str) -> tuple[ClientRegistration, ...]:
    """The registered clients of a stream, by id; `TryLaterError` while the store is away.

    `InputError` for a document that cannot be read: a client of another version must not be overlooked. Cost: one read
    for each process.
    """
    folder = clients_folder(stream)
    documents = [
        CLIENT_DOCUMENT.stored(found.value, f"{folder}/{name}") for name, found in store.values(folder).items()
    ]
    return tuple(sorted((each for d in documents for each in registrations_of(d)), key=lambda each: each.id))
