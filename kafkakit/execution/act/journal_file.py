"""A journal's lines on disk: append one, fsync, and only then act."""

import os
from pathlib import Path
from typing import Protocol

from kafkakit.core.errors import InputError, OperationFailedError

LIMIT_BYTES = 1 << 30


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
            if self.path.stat().st_size > LIMIT_BYTES:
                raise InputError(self.name, f"is larger than {LIMIT_BYTES} bytes", hint="move the file away")
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
