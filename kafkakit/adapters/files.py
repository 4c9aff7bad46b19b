"""Files on the local disk: documents, read with a limit and written whole or not at all, and brokers' log dirs.

Only here do kafkakit's documents touch the disk. The log dirs of brokers on this host, or copies of them, are only
read: directories, mapped logs, small files.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.core.errors import InputError, OperationFailedError, RefusedError

if TYPE_CHECKING:
    from kafkakit.streams.model.log_dirs import FileReader, SeenFile

STDIN = "-"
_AT_ONCE = 64
_SYNCS_AT_ONCE = 8


def read_input(path: Path | str, limit_bytes: int, *, check: Callable[[os.stat_result], None] | None = None) -> bytes:
    """Read a regular file, or stdin for `-`, whole.

    Raises `InputError` when it is missing, unreadable, no regular file, or larger than `limit_bytes`;
    never holds more than the limit in memory. `check` may raise for the owner and mode of the opened file.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("stdin", "is closed")
        return _require_within(sys.stdin.buffer.read(limit_bytes + 1), limit_bytes, "stdin")
    source = str(path)
    try:
        # Non-blocking, so that a named pipe is refused below instead of waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(source, f"cannot be opened: {error.strerror}") from None
    except ValueError:
        raise InputError(repr(source), "is not a possible file name") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(source, "is not a regular file")
        if check is not None:
            check(status)
        if status.st_size > limit_bytes:
            raise InputError(source, _too_large(limit_bytes))
        with open(descriptor, "rb", closefd=False) as stream:
            return _require_within(stream.read(limit_bytes + 1), limit_bytes, source)
    except OSError as error:
        raise InputError(source, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes, mode: int = 0o644, *, keeps_access: bool = False) -> None:
    """Replace a file as a whole: temporary name in the same folder, fsync, rename, fsync of the folder.

    A folder that is missing is made. After a crash the file has the old content or the new one. The umask takes
    rights from `mode`. A symbolic link is written through; a folder, device or pipe is refused (`InputError`); a full
    or read-only disk is `OperationFailedError`.

    With `keeps_access` a file that exists keeps owner, group, mode and access list, whatever `mode` and the umask say;
    `RefusedError` where this user may not give the new file to them.
    """
    part = _part(path, data, mode, keeps_access=keeps_access)
    try:
        part.sync()
        part.rename()
    except BaseException:
        part.discard()
        raise
    _sync_folder(part.target.parent, path)


def write_files(files: Iterable[tuple[Path, bytes]]) -> None:
    """Replace many files, each as `write_file` does, with fewer waits for the disk.

    Up to `_AT_ONCE` are written before the first is renamed; their fsyncs run side by side, and each folder is synced
    once, after the last rename. When a file fails, those written with it and after it keep their old content.
    """
    from concurrent.futures import ThreadPoolExecutor  # brings in logging, which most commands do not need

    folders: dict[Path, Path] = {}
    remaining = iter(files)
    with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
        while True:
            parts: list[_Part] = []
            try:
                for path, data in islice(remaining, _AT_ONCE):
                    parts.append(_part(path, data, 0o644))
                list(pool.map(_Part.sync, parts))
                for part in parts:
                    part.rename()
                    folders[part.target.parent] = part.path
            except BaseException:
                for part in parts:
                    part.discard()
                raise
            if not parts:
                break
    for folder, path in folders.items():
        _sync_folder(folder, path)


@dataclass(slots=True)
class _Part:
    """A written file under its temporary name, still open; `path` is its name as it was given."""

    path: Path
    target: Path
    name: Path
    descriptor: int

    def sync(self) -> None:
        with _explain_failures(self.path):
            os.fsync(self.descriptor)

    def rename(self) -> None:
        with _explain_failures(self.path):
            os.close(self.descriptor)
            self.descriptor = -1
            os.rename(self.name, self.target)

    def discard(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self.name.unlink(missing_ok=True)


def _part(path: Path, data: bytes, mode: int, *, keeps_access: bool = False) -> _Part:
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InputError(str(path), "is not a regular file and will not be replaced")
    if target.is_symlink():  # which a resolved path is in a circle of links alone
        raise InputError(str(path), "is a symbolic link that leads back to itself")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperationFailedError(f"cannot make the folder {target.parent}: {error.strerror}") from None
    name = target.parent / f".{target.name[:100]}.{secrets.token_hex(6)}.part"
    with _explain_failures(path):
        before = target.stat() if keeps_access and target.exists() else None
        # Opened with its final mode, so that the umask counts as it does for any file.
        descriptor = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode if before is None else 0o600
        )
    part = _Part(path, target, name, descriptor)
    try:
        if before is not None:
            _keep_access(part, before)
        with _explain_failures(path), open(descriptor, "wb", closefd=False) as stream:
            stream.write(data)
    except BaseException:
        part.discard()
        raise
    return part


_ACCESS_LIST = "system.posix_acl_access"


def _keep_access(part: _Part, before: os.stat_result) -> None:
    """Give the new file the owner, the group, the mode and the access list of the old one."""
    own = os.fstat(part.descriptor)
    with _explain_failures(part.path):
        if (own.st_uid, own.st_gid) != (before.st_uid, before.st_gid):
            try:
                os.fchown(part.descriptor, before.st_uid, before.st_gid)
            except PermissionError:
                raise RefusedError(
                    f"{part.path} belongs to user {before.st_uid} and group {before.st_gid}, and would not if it were "
                    "written anew",
                    hint=f"run this as user {before.st_uid} in group {before.st_gid}, or as root",
                ) from None
        os.fchmod(part.descriptor, stat.S_IMODE(before.st_mode))  # behind the change of owner, which takes bits from it
        try:
            access = os.getxattr(part.target, _ACCESS_LIST)
        except (OSError, AttributeError):  # none, or a system without them
            return
        os.setxattr(part.descriptor, _ACCESS_LIST, access)


@contextmanager
def _explain_failures(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperationFailedError(f"cannot write {path}: {error.strerror}") from None


def _sync_folder(folder: Path, path: Path) -> None:
    with _explain_failures(path):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _require_within(data: bytes, limit_bytes: int, source: str) -> bytes:
    if len(data) > limit_bytes:
        raise InputError(source, _too_large(limit_bytes))
    return data


def _too_large(limit_bytes: int) -> str:
    return f"is larger than {limit_bytes:,} bytes"


def _listing(path: str) -> Sequence[SeenFile]:
    from kafkakit.streams.model.log_dirs import seen_files

    with os.scandir(path) as entries:
        return seen_files(entries)


@contextmanager
def _map_file(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
    """The first bytes of a file, fewer where it has become shorter."""
    import mmap

    with Path(path).open("rb") as stream:
        size = min(size, os.fstat(stream.fileno()).st_size)
        if not size:
            yield memoryview(b"")
        elif may_shrink:
            yield memoryview(stream.read(size))
        else:
            with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
                yield buffer


def _content(path: str) -> bytes:
    from kafkakit.streams.model.log_dirs import content_before_zeros

    with Path(path).open("rb") as stream:
        return content_before_zeros(stream)


def local_files() -> FileReader:
    """The files of this host."""
    from kafkakit.streams.model.log_dirs import FileReader

    return FileReader(_listing, _map_file, _content)
