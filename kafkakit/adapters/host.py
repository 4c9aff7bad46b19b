"""This process and its machine: the clock, who the process is, what is installed, and the service manager.

A process is identified so that another process can check it and see whether it still runs (Linux). What is installed:
package versions and the version of librdkafka. The service manager is told the state of a service (sd_notify(3)); how
much memory the service takes is read here as well.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.core.lease import Holder, Life
    from kafkakit.core.programs import ProcessStat

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COMMAND_LIMIT = 200


def this_holder(command: str) -> Holder:
    """Describe this process; `command` is how it was called, without secrets."""
    return holder_of(os.getpid(), command)


def holder_of(pid: int, command: str) -> Holder:
    """Describe a process of this user on this host."""
    from kafkakit.core.lease import Holder

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
    from kafkakit.core.lease import Life

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
    """One start of one kernel and one pid namespace (containers share the first); empty when unknown.

    Unknown too with the `/proc` of another namespace: it has other processes under our pids.
    """
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""
        return f"{_BOOT_ID.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"[:100]
    except OSError:
        return ""


def _started_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when unknown, 0 for a zombie, which acts no more."""
    stat = process_stat(pid)
    return None if stat is None else 0 if stat.is_over else stat.started_ticks


def process_stat(pid: int) -> ProcessStat | None:
    """What `/proc` tells of a process; None where there is none, or no `/proc`."""
    from kafkakit.core.programs import ProcessStat

    try:
        # The command name is in parentheses and may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return ProcessStat(fields[0], int(fields[2]), int(fields[17]), int(fields[19]))  # 3, 5, 20 and 22 of proc(5)
    except (OSError, IndexError, ValueError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()[:100]
    except (KeyError, OSError):
        return str(os.getuid())


class SystemClock:
    """`ports.Clock` over the system: wall time in UTC, monotonic seconds, real sleep."""

    def now(self) -> datetime:
        """The current UTC time."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
    """Seconds that never go back, from an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Wait; zero or less returns at once."""
        if seconds > 0:
            time.sleep(seconds)


_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of installed packages from their metadata, None where absent; nothing is imported."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def python_version() -> str:
    """The running Python's version."""
    return platform.python_version()


def librdkafka_version() -> str | None:
    """The version of the C library that confluent-kafka loads, None when it cannot be loaded."""
    try:
        from confluent_kafka import libversion
    except ImportError:
        return None
    return str(libversion()[0])


def missing_of_extras(package: str) -> dict[str, tuple[str, ...]]:
    """The extras of an installed package, for users, with their packages that are not installed; {} when unknown."""
    from importlib.metadata import requires

    found: dict[str, list[str]] = {}
    for requirement in requires(package) or ():
        extra = _EXTRA.search(requirement)
        name = _NAME.match(requirement)
        if extra and name and extra[1] != "dev":
            absent = found.setdefault(extra[1], [])
            if package_versions([name[0]])[name[0]] is None:
                absent.append(name[0])
    return {extra: tuple(absent) for extra, absent in sorted(found.items())}


def notify_service(*lines: str) -> bool:
    """Send `KEY=value` lines to the service manager; False where there is none or it does not listen.

    `READY=1`, `STATUS=...`, `WATCHDOG=1` and `STOPPING=1` are the ones of use here.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
        way.sendto("\n".join(lines).encode()[:4096], "\0" + address[1:] if address[0] == "@" else address)
        return True
    return False


def resident_bytes() -> int:
    """The memory that this process takes now, 0 where that is unknown (Linux alone)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
