"""A control store in a folder: for the processes of one host.

Each path is a folder that holds one file: a line with the version, then the value. A write happens under an
exclusive lock of the whole store and replaces the file by rename, so a reader, who needs no lock, sees the old
document or the new one. A deleted document leaves its version behind, so that versions never begin again.

One host only: on a network file system neither the lock nor the moment at which a rename is seen can be relied
on from several hosts. Use ZooKeeper or Kafka there.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError
from kafkakit.core.lease import VALUE_LIMIT_BYTES, VersionedValue, check_folder, check_path, check_value, conflict
from kafkakit.ports.acting import repeat_every

# No part of a path may hold an @.
_VALUE_FILE = "@value"
_LOCK_FILE = "@lock"
_LOCK_LIMIT_S = 10.0
_POLL_S = 0.01
_WATCH_S = 0.1
_HEADER_LIMIT_BYTES = 24


class FileControl:
    """Implements `ports.ControlStore` below `root`, which is made with the first write.

    `write_file(path, data, mode)` must replace a file as a whole and return once it is on disk.
    """

    def __init__(self, root: Path, write_file: Callable[[Path, bytes, int], None]) -> None:
        self._root, self._write_file = root, write_file

    def get(self, path: str) -> VersionedValue | None:
        """Read one file; `InputError` when it is damaged."""
        version, value = self._read(check_path(path))
        return VersionedValue(value=value, version=version) if value else None

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """Replace one file under the store's lock; waits up to 10 s for the lock, then `TryLaterError`."""
        return self._replace(path, check_value(value), expected)

    def delete(self, path: str, expected: int) -> None:
        """Keep the version and drop the value."""
        self._replace(path, b"", expected)

    def children(self, path: str) -> tuple[str, ...]:
        """Walks the folders below."""
        folder = self._root.joinpath(*check_folder(path))
        return tuple(sorted(name for name in _folders(folder) if self._leads_to_a_value(folder / name)))

    def values(self, path: str) -> Mapping[str, VersionedValue]:
        """Reads one file for each folder below."""
        parts = check_folder(path)
        found = {name: self._read((*parts, name)) for name in sorted(_folders(self._root.joinpath(*parts)))}
        return {name: VersionedValue(value=value, version=version) for name, (version, value) in found.items() if value}

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        """Looks at the file ten times a second."""
        return any(_version(self.get(path)) != known for _ in repeat_every(time, _WATCH_S, timeout_s))

    def close(self) -> None:
        """Nothing is held open."""

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        parts = check_path(path)
        with self._locked():
            version, present = self._read(parts)
            found = version if present else None
            if found != expected:
                raise conflict(path, expected, found)
            file = self._file(parts)
            with _explain_failures(str(file)):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _sync_folders(self._root, file.parent)
            self._write_file(file, b"%d\n%b" % (version + 1, value), 0o600)
            return version + 1

    def _read(self, parts: tuple[str, ...]) -> tuple[int, bytes]:
        """Version and value; the value is empty when there is none, the version 0 when there never was one."""
        file = self._file(parts)
        try:
            with file.open("rb") as stream:
                data = stream.read(VALUE_LIMIT_BYTES + _HEADER_LIMIT_BYTES + 1)
        except FileNotFoundError:
            return 0, b""
        except OSError as error:
            raise OperationFailedError(f"{file} cannot be read: {error.strerror}") from None
        header, newline, value = data.partition(b"\n")
        if not newline or not header.isdigit() or len(header) >= _HEADER_LIMIT_BYTES or len(value) > VALUE_LIMIT_BYTES:
            raise InputError(str(file), "is not a control store document", hint="move the file away")
        return int(header), value

    def _leads_to_a_value(self, folder: Path) -> bool:
        parts = folder.relative_to(self._root).parts
        return bool(self._read(parts)[1]) or any(self._leads_to_a_value(folder / name) for name in _folders(folder))

    def _file(self, parts: tuple[str, ...]) -> Path:
        return self._root.joinpath(*parts, _VALUE_FILE)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._root / _LOCK_FILE
        with _explain_failures(str(lock)):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait_for(descriptor, str(lock))
            yield
        finally:
            os.close(descriptor)


def _version(found: VersionedValue | None) -> int | None:
    return found.version if found else None


def _wait_for(descriptor: int, name: str) -> None:
    for _ in repeat_every(time, _POLL_S, _LOCK_LIMIT_S):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            raise OperationFailedError(f"{name} cannot be locked: {error.strerror}") from None
        return
    raise TryLaterError(
        f"the control store is busy: {name} has been locked for {_LOCK_LIMIT_S:g} s",
        hint="look for a stopped kafkakit process",
    )


def _folders(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OperationFailedError(f"{folder} cannot be read: {error.strerror}") from None


def _sync_folders(root: Path, folder: Path) -> None:
    """Bring the names of new folders to disk, from the innermost to the root and the folder above it."""
    for place in (folder, *folder.parents):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if place == root.parent:
            return


@contextlib.contextmanager
def _explain_failures(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperationFailedError(f"the control store cannot use {name}: {error.strerror}") from None
