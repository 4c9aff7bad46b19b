"""Lines that are written before an effect: journals and audit logs, in a file or in the control store.

A line is appended and synced (fsync), and only then the effect follows. Lines in the control store tell a process on
another host what the one before it has set. A write there expects the version that it saw and fails if there is
another: a process that lost the lead writes nothing. An audit log has a line of JSON before each change and one after
it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from kafkakit.core.errors import (
    ConflictError,
    InputError,
    KafkakitError,
    LeaseLostError,
    OperationFailedError,
    TryLaterError,
)
from kafkakit.core.journal_lines import Grammar, Line, RecordKind, encode_line, line_hash, read_lines
from kafkakit.ports.acting import Clock
from kafkakit.ports.stores import ControlStore

JOURNAL_LIMIT_BYTES = 1 << 30


class LineFile(Protocol):
    """Where journal lines are kept."""

    name: str

    def read(self) -> bytes:
        """All bytes, empty when there is no file yet."""
        ...

    def append(self, line: bytes) -> None:
        """Add one line and return once it is on disk."""
        ...

    def cut(self, size: int) -> None:
        """Drop everything after the first `size` bytes (a torn line)."""
        ...

    def set_aside(self) -> None:
        """Keep a copy of the file as it is, before a damaged end is cut off."""
        ...


class DiskFile:
    """Journal lines in a file of mode 0600; the folder is made with the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def read(self) -> bytes:
        """All bytes; raises `InputError` for a file that cannot be read or is absurdly large."""
        try:
            if self.path.stat().st_size > JOURNAL_LIMIT_BYTES:
                raise InputError(self.name, f"is larger than {JOURNAL_LIMIT_BYTES} bytes", hint="move the file away")
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise InputError(self.name, f"cannot be read: {error.strerror}") from None

    def append(self, line: bytes) -> None:
        """Write, fsync, and fsync the folder when the file is new; raises `OperationFailedError`."""
        try:
            new = not self.path.exists()
            if new:
                _make_folder(self.path.parent)
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _write_all(fd, line)
                os.fsync(fd)
            finally:
                os.close(fd)
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise OperationFailedError(
                f"the journal {self.name} cannot be written: {error.strerror}", hint="nothing is done without a journal"
            ) from None

    def cut(self, size: int) -> None:
        """Truncate and fsync; raises `OperationFailedError`."""
        try:
            if self.path.exists():
                with self.path.open("r+b") as file:
                    file.truncate(size)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise OperationFailedError(f"the journal {self.name} cannot be written: {error.strerror}") from None

    def set_aside(self) -> None:
        """Copy it to `NAME.damaged`; raises `OperationFailedError`."""
        write_whole(_copy_name(self.path), self.read())


def _copy_name(path: Path) -> Path:
    taken = len(list(path.parent.glob(f"{path.name}.damaged*")))
    return path.with_name(f"{path.name}.damaged{taken or ''}")


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file of mode 0600 as a whole, on disk when this returns; raises `OperationFailedError`."""
    part = path.with_name(f".{path.name}.part")
    try:
        _make_folder(path.parent)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OperationFailedError(f"{path} cannot be written: {error.strerror}") from None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _make_folder(folder: Path) -> None:
    """With the folders above it, each of them on disk: a journal in a folder that a power cut takes is none."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in missing:
        _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


W = TypeVar("W", bound=StrEnum)
S = TypeVar("S")


class LineJournal(Generic[W, S]):
    """The lines of one journal; `state` is always what the lines so far mean (`fold`, from `start` on).

    `damage` says what is wrong with a file of which only the beginning is used; the next line is written behind that,
    and the damaged file is kept under another name. `on_line` gets each line that this process wrote, with the state
    after it. Raises `InputError` for a damaged file that is not salvaged, `OperationFailedError` when a line cannot be
    written.
    """

    def __init__(
        self,
        file: LineFile,
        clock: Clock,
        grammar: Grammar[W],
        fold: Callable[[S, Line[W]], S],
        start: S,
        on_line: Callable[[S, Line[W]], None] = lambda *_: None,
    ) -> None:
        self._file, self._clock, self._grammar, self._fold, self._start = file, clock, grammar, fold, start
        self._on_line = on_line
        self.name = file.name
        self.state, self.damage = start, ""
        self._seq, self._prev, self._size, self._is_torn = 0, "", 0, False
        self.reload()

    def reload(self) -> None:
        """Read the file again: after an interrupt, what is on disk counts and not what was being done."""
        data = self._file.read()
        text, self.state = read_lines(data, self.name, self._start, self._fold, self._grammar)
        self.damage = text.damage
        self._seq, self._prev, self._size = len(text.records), text.last_hash, text.whole_bytes
        self._is_torn = self._size != len(data)

    @property
    def is_empty(self) -> bool:
        """True before the first line."""
        return self._seq == 0

    def intent(self, what: W, data: Mapping[str, Any]) -> int:
        """Record what is about to be done; returns the number that the effect refers to."""
        return self._write(RecordKind.INTENT, what, data).seq

    def check(self, what: W, data: Mapping[str, Any]) -> Line[W]:
        """Record something found or decided; returns the line."""
        return self._write(RecordKind.CHECK, what, data)

    def _write(self, kind: RecordKind, what: W, data: Mapping[str, Any], of: int | None = None) -> Line[W]:
        if self.damage:
            self._file.set_aside()
            self.damage = ""
        if self._is_torn:
            self._file.cut(self._size)
            self._is_torn = False
        line = Line(seq=self._seq, time=self._clock.now(), prev=self._prev, kind=kind, what=what, of=of, data=data)
        text = encode_line(line, self._grammar)
        try:
            self._file.append(text)
        except OperationFailedError:
            self._is_torn = True  # a full disk takes part of a line; what is written next must not join it
            raise
        self.state = self._fold(self.state, line)
        self._seq, self._prev, self._size = self._seq + 1, line_hash(text), self._size + len(text)
        self._on_line(self.state, line)
        return line


CHUNK_BYTES = 60_000
STORE_LIMIT_BYTES = 64 << 20
TRIES = 10
MOST_PIECES = 20


class MemoryLines:
    """Lines that are nowhere else yet."""

    def __init__(self, name: str) -> None:
        self.name, self.data = name, b""

    def read(self) -> bytes:
        return self.data

    def append(self, line: bytes) -> None:
        self.data += line

    def cut(self, size: int) -> None:
        self.data = self.data[:size]

    def set_aside(self) -> None:
        """See `LineFile`; there is nothing to keep."""


def pacer_lines(store: ControlStore, cluster_id: str) -> "StoreLines":
    """The journal of the pacers of a cluster (`kafkakit autothrottle`): the throttles that they have set."""
    return StoreLines(store, f"clusters/{cluster_id}/autothrottle/journal")


class StoreLines:
    """Implements `LineFile`: pieces of 60 kB below `root/GENERATION/N`; the newest generation with a piece 0 counts."""

    def __init__(self, store: ControlStore, root: str) -> None:
        self._store, self._root = store, root
        self.name = f"control document {self._root}"
        self._generation = 0
        self._tail = -1
        self._tail_version: int | None = None
        self._tail_bytes = b""

    def read(self) -> bytes:
        """All bytes; one request a piece. Raises `TryLaterError`, and `OperationFailedError` without a piece."""
        self._generation, self._tail, self._tail_version, self._tail_bytes = 0, -1, None, b""
        for generation in reversed(self._numbers(self._root)):
            numbers = self._numbers(f"{self._root}/{generation}")
            if numbers[:1] != [0]:
                continue  # cut while it was written
            if numbers != list(range(len(numbers))) or len(numbers) * CHUNK_BYTES > STORE_LIMIT_BYTES:
                raise OperationFailedError(f"{self.name} is damaged", hint="remove it, and the throttles by hand")
            data = b""
            for number in numbers:
                found = self._store.get(self._piece(generation, number))
                if found is None:
                    raise TryLaterError(f"{self.name} changed while it was read")
                self._tail, self._tail_version, self._tail_bytes = number, found.version, found.value
                data += found.value
            self._generation = generation
            return data
        return b""

    def append(self, line: bytes) -> None:
        """Write behind the last byte; raises `LeaseLostError` when another process wrote since `read`."""
        while line:
            free = CHUNK_BYTES - len(self._tail_bytes)
            if self._tail < 0 or free <= 0:
                self._tail, self._tail_version, self._tail_bytes, free = self._tail + 1, None, b"", CHUNK_BYTES
            path = self._piece(self._generation, self._tail)
            try:
                version = self._store.cas(path, self._tail_bytes + line[:free], self._tail_version)
            except ConflictError:
                raise LeaseLostError(f"{self.name} was written by another process") from None
            except TryLaterError as error:
                raise OperationFailedError(f"{self.name} cannot be written: {error.message}") from None
            self._tail_version, self._tail_bytes, line = version, self._tail_bytes + line[:free], line[free:]

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes."""
        self.replace(self.read()[:size])

    def replace(self, data: bytes) -> None:
        """Other content in place of all; a process that is killed meanwhile leaves the old content or the new one."""
        old = self._numbers(self._root)
        new = max(old, default=0) + 1
        pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        try:
            for number in reversed(range(len(pieces))):
                self._store.cas(self._piece(new, number), pieces[number], None)
        except ConflictError:
            raise LeaseLostError(f"{self.name} was written by another process") from None
        for generation in old:
            self._forget(generation)
        self.read()

    def set_aside(self) -> None:
        """See `LineFile`; a damaged journal in the store is an error of its own, nothing is kept."""

    def _forget(self, generation: int) -> None:
        for number in reversed(self._numbers(f"{self._root}/{generation}")):
            path = self._piece(generation, number)
            found = self._store.get(path)
            if found is not None:
                with suppress(ConflictError):
                    self._store.delete(path, found.version)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(n) for n in self._store.children(folder) if n.isascii() and n.isdigit())

    def _piece(self, generation: int, number: int) -> str:
        return f"{self._root}/{generation}/{number}"


class SharedStoreLines(StoreLines):
    """Lines of several processes at once: each comes whole behind those that are there.

    Of more than `MOST_PIECES` pieces the newer half is kept.
    """

    def append(self, line: bytes) -> None:
        """Write behind the last line of any process; raises `TryLaterError` after `TRIES` other writers in a row."""
        for _ in range(TRIES):
            data = self.read()
            if self._tail >= MOST_PIECES:
                with suppress(LeaseLostError):  # another process does it
                    self.replace(data[len(data) // 2 :].partition(b"\n")[2])
                continue
            is_in_tail = self._tail >= 0 and len(self._tail_bytes) + len(line) <= CHUNK_BYTES
            number = self._tail if is_in_tail else self._tail + 1
            before, version = (self._tail_bytes, self._tail_version) if is_in_tail else (b"", None)
            with suppress(ConflictError):
                self._store.cas(self._piece(self._generation, number), before + line, version)
                return
        raise TryLaterError(f"{self.name} is written by other processes again and again")


class AuditLog:
    """Appends lines to a file, which may be rotated at any time; safe for several threads.

    Raises `OperationFailedError` where a line cannot be written: then nothing is to be changed.
    """

    def __init__(self, file: LineFile, clock: Clock) -> None:
        self._file, self._clock, self._lock = file, clock, Lock()

    def record(self, what: Mapping[str, object]) -> None:
        """One line, durable when this returns."""
        line = json.dumps({"time": self._clock.now().isoformat(), **what}, separators=(",", ":"), default=str)
        with self._lock:
            self._file.append(f"{line}\n".encode())

    @contextmanager
    def around(
        self, what: Mapping[str, object], warn: Callable[[str], None] | None = None
    ) -> Iterator[dict[str, object]]:
        """A line before the block, which makes a change, and one after it with the outcome and what the block added.

        With `warn` an outcome that cannot be written is a warning, so that a change that was made is no failure.
        """
        self.record({**what, "outcome": "begun"})
        more: dict[str, object] = {}
        try:
            yield more
        except (Exception, KeyboardInterrupt) as error:
            words = str(error) or type(error).__name__
            self._end({**what, **more, "outcome": "failed", "error": words[:500]}, warn)
            raise
        self._end({**what, "outcome": "done", **more}, warn)

    def _end(self, what: Mapping[str, object], warn: Callable[[str], None] | None) -> None:
        try:
            self.record(what)
        except KafkakitError as error:
            if warn is None:
                raise
            warn(f"the audit log has no outcome of this command: {error.message}")
