"""The registration of a process's clients of one stream in the control store, kept by a thread; and how it is read.

Nothing on the way of a record waits for it: while the store is away, only the registration gets old.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kafkakit.core.errors import ConflictError
from kafkakit.core.lease import Holder
from kafkakit.core.versioned import Versioned
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.client.decide.registration import (
    CLIENT_DOCUMENT,
    ClientDocument,
    ClientEntry,
    ClientRegistration,
    clients_folder,
    merged,
    registrations_of,
)

BEAT_S = 5.0
LOOK_S = 0.1
ANNOUNCE_S = 1.0
FORGET_S = 25 * 3600.0
"""Longer than any producer tries a record."""
_LOG = logging.getLogger("kafkakit.streams.client")


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
                self._thread = threading.Thread(target=self._run, name=f"kafkakit-clients-{self._stream}", daemon=True)
                self._thread.start()
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
        entries = merged(entry for client in clients if (entry := client.registration()) is not None)
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

    def _is_ours(self, found: Versioned) -> bool:
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
