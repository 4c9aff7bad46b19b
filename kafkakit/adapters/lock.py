"""One writer a cluster on this host: an advisory lock on an open file.

The kernel lets go of it when the process ends in any way, `kill -9` included, so there is nothing stale.
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkakit.core.errors import OperationFailedError, TryLaterError

_TEXT_LIMIT = 1000


class FileLock:
    """Holds `path` locked while the `with` block runs; raises `TryLaterError` at once when another holds it.

    `purpose` says what is locked, `who` what this process is, for the message of the process that finds the lock taken.
    """

    def __init__(self, path: Path, purpose: str, who: str) -> None:
        self._path, self._purpose, self._who = path, purpose, who
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OperationFailedError(f"the lock {self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, _TEXT_LIMIT, 0).decode("utf-8", "replace").strip()
            os.close(fd)
            who = f": {' '.join(holder.split())}" if holder else ""
            raise TryLaterError(
                f"{self._purpose}: another kafkakit process is running{who}",
                hint=f"wait for it to end; lock file {self._path}",
            ) from None
        except OSError as error:
            os.close(fd)
            raise OperationFailedError(f"the lock {self._path} cannot be taken: {error.strerror}") from None
        # For the message above only; the lock is the kernel's, not this text.
        os.ftruncate(fd, 0)
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
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
