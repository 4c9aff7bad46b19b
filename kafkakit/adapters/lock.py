"""One writer a cluster on this host: an advisory lock on an open file.

The kernel lets go of it when the process ends in any way, `kill -9` included, so there is nothing stale.
"""

import fcntl
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkakit.core.errors import OperationFailedError, TryLaterError

_TEXT_LIMIT = 1000
_CREATED = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KERNEL_LOCKS = Path("/proc/locks")
_COMMON = ("/run/lock", "/var/tmp", "/tmp")


class FileLock:
    """Holds `path` locked while the `with` block runs; raises `TryLaterError` at once when another holds it.

    A `shared` file is one of all users of the host, in a folder that each may write to: it is never followed as a link,
    and its text is written only by the user who made it. `purpose` says what is locked, `who` what this process is, for
    the message of the process that finds the lock taken.
    """

    def __init__(self, path: Path, purpose: str, who: str, *, shared: bool = False) -> None:
        self._path, self._purpose, self._who, self._shared = path, purpose, who, shared
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = _open_shared(self._path) if self._shared else os.open(self._path, _CREATED, 0o600)
        except OSError as error:
            raise OperationFailedError(f"the lock {self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _holder(fd, _locking_pid(fd) if self._shared else "")
            os.close(fd)
            raise TryLaterError(
                f"{self._purpose}: another kafkakit process is running{who and f': {who}'}",
                hint=f"run the same command again once that one has ended; lock file {self._path}",
            ) from None
        except OSError as error:
            os.close(fd)
            raise OperationFailedError(f"the lock {self._path} cannot be taken: {error.strerror}") from None
        # For the message above only; the lock is the kernel's, not this text.
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        with suppress(OSError):  # another user's file
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{self._who}, since {since}\n".encode(), 0)
        self._fd = fd
        return self

    def fileno(self) -> int:
        """The descriptor of the locked file; a process that inherits it keeps the lock after this one ends."""
        return self._fd

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def common_folder() -> Path:
    """The folder for locks of all users of this host: the first that all may write to, and only owners remove from.

    It is chosen by its mode, not by what this user may do there, so that all users come to the same one.
    """
    for name in _COMMON:
        with suppress(OSError):
            mode = os.lstat(name).st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH:
                return Path(name)
    return Path(_COMMON[-1])


def locked_by(path: Path) -> str:
    """Who holds a lock file that another process made; empty when none does, or when it cannot be told."""
    try:
        fd = os.open(path, os.O_RDONLY | _PLAIN)
    except OSError:
        return ""
    try:
        pid = _locking_pid(fd)
        return _holder(fd, pid) if pid else ""
    finally:
        os.close(fd)


def _locking_pid(fd: int) -> str:
    """The process that has the file locked, by the kernel's list (proc_locks(5)); empty when it is not listed."""
    status = os.fstat(fd)
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        listed = [line.split() for line in _KERNEL_LOCKS.read_text().splitlines()]
    except OSError:
        return ""
    return next((words[4] for words in listed if words[1] == "FLOCK" and words[5] == inode), "")


def _holder(fd: int, pid: str) -> str:
    """The file's text, unless it is of another process than the one that has the lock."""
    text = " ".join(os.pread(fd, _TEXT_LIMIT, 0).decode("utf-8", "replace").split())
    return text if not pid or text.startswith(f"process {pid} ") else f"process {pid}"


def _open_shared(path: Path) -> int:
    """Open the file, to be read at least: that is enough for a lock; make it readable for all when it is not there."""
    try:
        fd = os.open(path, os.O_RDWR | _PLAIN)
    except FileNotFoundError:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask takes away
        except FileExistsError:  # made by another process just now
            fd = os.open(path, os.O_RDONLY | _PLAIN)
    except PermissionError:
        fd = os.open(path, os.O_RDONLY | _PLAIN)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OperationFailedError(f"the lock {path} is not a regular file", hint="remove it")
    return fd
