"""The health check of the image: whether what the container runs still gets round to its work. It needs no Kafka.

It asks every address on which process 1 listens for /livez: one that answers 200 is well. A command without an address
(`reassign apply`, a plan) is well while it runs. Exit 0 or 1.
"""

import http.client
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT_S = 4.0


def listened_ports(process: Path) -> Iterator[int]:
    """The TCP ports on which a process listens, from /proc."""
    own = set()
    for link in (process / "fd").iterdir():
        try:
            own.update(re.findall(r"^socket:\[(\d+)\]$", str(link.readlink())))
        except OSError:  # closed meanwhile
            continue
    for name in ("tcp", "tcp6"):
        try:
            lines = (process / "net" / name).read_text().splitlines()[1:]
        except OSError:  # without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in own:
                yield int(fields[1].rpartition(":")[2], 16)


def is_alive(port: int) -> bool:
    """Whether /livez answers 200 there, with TLS or without it; whose certificate it is does not matter here."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    for connection in (
        http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S),
        http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT_S, context=unverified),
    ):
        try:
            connection.request("GET", "/livez")
            if connection.getresponse().status == 200:
                return True
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return False


def main(process: str = "/proc/1") -> int:
    """0 if it is well."""
    ports = sorted(set(listened_ports(Path(process))))
    return 0 if not ports or any(is_alive(port) for port in ports) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
