"""The history of tags in the control store beside them: `<root>/history/{broker,topic}/<name>`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.core.tags import decode_tags
from kafkakit.ports.control import ControlStore
from kafkakit.registry.decide.history import (
    HistoryDocument,
    StoredEntry,
    announced,
    confirmed,
    encode_history,
    known_changes,
    read_history,
    settled,
    with_changes,
    within_limits,
)
from kafkakit.registry.decide.tags import Kind, Tags

MAX_TRIES = 5


class TagHistory:
    """Reads and writes one document for each object that was ever changed; `now_s` is in Unix seconds.

    Raises `TryLaterError` where the store does not answer.
    """

    def __init__(self, store: ControlStore, root: str, now_s: Callable[[], float]) -> None:
        self._store, self._root, self.now_s = store, root.strip("/"), now_s

    def read(self, kind: Kind, name: str) -> "Entering":
        """What a change begins with: it must come before the tags are read."""
        path = self._path(kind, name)
        found = self._store.get(path)
        document = read_history(None if found is None else found.value, path)
        return Entering(self, path, document, None if found is None else found.version)

    def of(self, kind: Kind, name: str) -> HistoryDocument:
        """The document of an object as it is with its present tags; nothing is written."""
        document, tags, version = self._with_tags(kind, name)
        return settled(document.document, tags, version, self.now_s())

    def all(self) -> Iterator[tuple[Kind, str, HistoryDocument]]:
        """Every document, by kind and name."""
        for kind in Kind:
            folder = f"{self._root}/history/{kind}"
            for name, record in self._store.values(folder).items():
                document = read_history(record.value, f"{folder}/{name}")
                if document is not None:
                    yield kind, name, document

    def notice(self, kind: Kind, name: str, old: Tags) -> bool:
        """Enter a change by another program, where there was one; `old` are the tags known before. Tells whether."""
        for _ in range(MAX_TRIES):
            entering, tags, version = self._with_tags(kind, name)
            document = entering.document or settled(None, old, -1, 0)
            now = settled(document, tags, version, self.now_s())
            if now.entries == document.entries:
                return False
            with suppress(ConflictError):
                entering.write(now)
                return True
        return False

    def made(self) -> Iterator[tuple[Kind, str, tuple[StoredEntry, ...]]]:
        """The changes of every object, by kind and name, without those that no program entered yet."""
        for kind, name, document in self.all():
            _, tags, version = self._with_tags(kind, name)
            yield kind, name, known_changes(document, tags, version)

    def adopt(self, kind: Kind, name: str, copied: Sequence[StoredEntry], *, dry_run: bool) -> bool:
        """Enter changes from another store, within the limits; tells whether any were missing, or would be entered."""
        for _ in range(MAX_TRIES):
            entering, tags, version = self._with_tags(kind, name)
            document = settled(entering.document, tags, version, self.now_s())
            now = with_changes(document, copied)
            if within_limits(now, self.now_s()).entries == within_limits(document, self.now_s()).entries:
                return False
            if dry_run:
                return True
            with suppress(ConflictError):
                entering.write(now)
                return True
        raise TryLaterError(f"the tags of {kind} {name} are being changed by another process")

    def compact(self) -> int:
        """Drop what is too old in every document, and documents of which nothing is left; gives how many changed."""
        count = 0
        for kind, name, document in self.all():
            data = encode_history(document, self.now_s())
            if read_history(data, name) == document:
                continue
            path = self._path(kind, name)
            found = self._store.get(path)
            with suppress(ConflictError):
                if found is not None and read_history(found.value, path) == document:
                    self._replace(path, data, found.version)
                    count += 1
        return count

    def put(self, path: str, document: HistoryDocument, expected: int | None) -> int:
        """Write a document within its limits; `ConflictError` where another process wrote it."""
        return self._store.cas(path, encode_history(document, self.now_s()), expected)

    def get(self, path: str) -> tuple[HistoryDocument | None, int | None]:
        """A document and its version."""
        found = self._store.get(path)
        return (None, None) if found is None else (read_history(found.value, path), found.version)

    def _replace(self, path: str, data: bytes, version: int) -> None:
        left = read_history(data, path)
        if left is not None and left.entries:
            self._store.cas(path, data, version)
        else:
            self._store.delete(path, version)

    def _with_tags(self, kind: Kind, name: str) -> "tuple[Entering, Tags | None, int | None]":
        entering = self.read(kind, name)
        path = f"{self._root}/{kind}/{name}"
        found = self._store.get(path)
        return (entering, None, None) if found is None else (entering, decode_tags(found.value, path), found.version)

    def _path(self, kind: Kind, name: str) -> str:
        return f"{self._root}/history/{kind}/{name}"


class Entering:
    """One change that is being entered."""

    def __init__(self, history: TagHistory, path: str, document: HistoryDocument | None, version: int | None) -> None:
        self._history, self._path, self.document, self._version = history, path, document, version
        self._number = 0

    def announce(self, present: Tags | None, version: int | None, after: Tags | None, by: str) -> None:
        """Enter it before it is made; `ConflictError` where the history changed since it was read."""
        now_s = self._history.now_s()
        document = settled(self.document, present, version, now_s)
        document = announced(document, present, after, by, now_s)
        self._number = document.last_number
        self.write(document)

    def confirm(self, tags: Tags | None, version: int | None) -> None:
        """Enter that it was made; where that fails, it shows in the tags later."""
        with suppress(KafkakitError):
            for _ in range(MAX_TRIES):
                with suppress(ConflictError):
                    if self.document is not None:
                        self.write(confirmed(self.document, self._number, tags, version))
                    return
                self.document, self._version = self._history.get(self._path)
                entries = self.document.entries if self.document is not None else ()
                if not any(entry.is_pending and entry.number == self._number for entry in entries):
                    return

    def write(self, document: HistoryDocument) -> None:
        """Write a document over the one that was read; `ConflictError` where that is gone."""
        self._version = self._history.put(self._path, document, self._version)
        self.document = document
