"""Reporting the state of a service to the service manager (sd_notify(3)), and how much memory it takes."""

import os
import socket
from contextlib import suppress
from pathlib import Path


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
