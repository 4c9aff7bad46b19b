"""Telling the service manager how a service is: systemd's notification protocol, sd_notify(3)."""

import os
import socket
from contextlib import suppress


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
