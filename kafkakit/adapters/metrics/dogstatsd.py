"""Sending metrics to a Datadog agent: DogStatsD datagrams over UDP, which are not acknowledged.

https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/
"""

import socket
from collections.abc import Iterable

from kafkakit.core.errors import UsageError


class DogStatsd:
    """One agent; `address` is `HOST:PORT`. The name is looked up once, at the start."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(
                f"{address[:60]!r} is not the address of an agent", hint="write HOST:PORT, 127.0.0.1:8125 say"
            )
        try:
            family, kind, proto, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise UsageError(f"the agent {address} cannot be found: {error.strerror or error}") from None
        self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)
        self._target = target
        self.dropped = 0

    def send(self, datagrams: Iterable[bytes]) -> None:
        """Send them at once; what the machine does not take is dropped and counted in `dropped`."""
        for datagram in datagrams:
            try:
                self._socket.sendto(datagram, self._target)
            except OSError:
                self.dropped += 1

    def close(self) -> None:
        """Let go of the socket; closing twice is harmless."""
        self._socket.close()
