"""What identifies this process, so that another process can check it, and whether a process still runs (Linux)."""

import getpass
import os
import socket
from pathlib import Path

from kafkakit.core.lease import Holder, Life

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_THREADS_FIELD, _START_FIELD = 17, 19  # fields 20 and 22 of proc(5), counted after the command name
_COMMAND_LIMIT = 200


def this_holder(command: str) -> Holder:
    """Describe this process; `command` is how it was called, without secrets."""
    return holder_of(os.getpid(), command)


def holder_of(pid: int, command: str) -> Holder:
    """Describe a process of this user on this host."""
    return Holder(
        host=socket.gethostname()[:100],
        user=_user(),
        command=command[:_COMMAND_LIMIT],
        pid=pid,
        started_ticks=_started_ticks(pid) or 0,
        machine=_machine(),
    )


def life_of(holder: Holder) -> Life:
    """Whether the holder's process runs, only where that is certain: `UNKNOWN` for every other host.

    Certain means: it was seen by this very kernel since its last start, in our own pid namespace. It is gone when
    its pid is free, or belongs to a process that began at another time.
    """
    if not holder.machine or not holder.started_ticks or holder.machine != _machine():
        return Life.UNKNOWN
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return Life.GONE
    except OSError:
        pass  # a process of another user
    started = _started_ticks(holder.pid)
    if started is None:
        return Life.UNKNOWN
    return Life.ALIVE if started == holder.started_ticks else Life.GONE


def _machine() -> str:
    """One start of one kernel and one pid namespace (containers share the first); empty when unknown."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"[:100]
    except OSError:
        return ""


def _started_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when unknown, 0 for a zombie, which acts no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        ended = fields[0] in "ZX" and int(fields[_THREADS_FIELD]) <= 1
        return 0 if ended else int(fields[_START_FIELD])
    except (OSError, IndexError, ValueError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()[:100]
    except (KeyError, OSError):
        return str(os.getuid())
