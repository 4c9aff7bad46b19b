"""Who may write or read a file that decides where credentials go, by the owner and mode of the file itself."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from kafkakit.core.errors import InputError


def refuse_unsafe(path: Path, status: os.stat_result, *, any_owner: bool = False) -> None:
    """Raise `InputError` for a file that another user than root owns or can write.

    With `any_owner` only the right to write counts: the file was named, and a service may own it.
    """
    mode = f"mode {stat.S_IMODE(status.st_mode):o}"
    if not any_owner and status.st_uid not in (0, os.geteuid()):
        raise InputError(
            str(path),
            f"belongs to another user (uid {status.st_uid}), who could redirect your credentials",
            hint="make a copy of your own and name it with --config",
        )
    # Where every user has a group of the same number, as Debian makes them, that group is the user alone.
    private = {0, os.getegid()} if os.getegid() == os.geteuid() else {0}
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in private):
        raise InputError(
            str(path),
            f"can be written by other users ({mode}), who could redirect your credentials",
            hint=f"chmod go-w {path}",
        )


def warn_if_readable_by_all(path: Path, warn: Callable[[str], None]) -> None:
    """Warn about a secret's file whose mode lets every user of the machine read it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        warn(f"{path} holds a secret and every user can read it (mode {mode & 0o777:o}); chmod 600 it")
