"""Sending metrics to a Datadog agent: DogStatsD lines over UDP, which nobody acknowledges.

https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/
"""

import socket
from collections.abc import Iterable

from kafkakit.errors import UsageError

# The size that agent and clients use for UDP, so that nothing is cut on the way: an Ethernet frame's payload.
DATAGRAM_BYTES = 1432


class DogStatsd:
    """One agent; `address` is `HOST:PORT`. The name is looked up once, at the start."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{address[:60]!r} is no address of an agent", hint="write HOST:PORT, 127.0.0.1:8125 say")
        try:
            family, kind, proto, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise UsageError(f"the agent {address} cannot be found: {error.strerror or error}") from None
        self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)
        self._target = target
        self.dropped = 0

    def send(self, lines: Iterable[str]) -> None:
        """Send lines, many to a datagram; what the agent does not take is dropped and counted in `dropped`."""
        batch: list[bytes] = []
        size = 0
        for line in lines:
            data = line.encode()
            if batch and size + len(data) + 1 > DATAGRAM_BYTES:
                self._send(b"\n".join(batch))
                batch, size = [], 0
            batch.append(data)
            size += len(data) + 1
        if batch:
            self._send(b"\n".join(batch))

    def close(self) -> None:
        """Let go of the socket; closing twice is harmless."""
        self._socket.close()

    def _send(self, datagram: bytes) -> None:
        try:
            self._socket.sendto(datagram, self._target)
        except OSError:
            self.dropped += 1
