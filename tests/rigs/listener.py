"""A TCP listener that poses as a broker as far as the login, and records every byte it receives."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# Kafka's keys of requests, with the versions that the listener admits to.
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_VERSIONS = ((_API_VERSIONS, 0, 0), (_HANDSHAKE, 0, 1), (_AUTHENTICATE, 0, 1), (3, 0, 1))


@dataclass
class Recorder:
    """What came in on all connections; `address` is HOST:PORT."""

    address: str
    data: bytearray = field(default_factory=bytearray)
    connections: int = 0

    def has(self, *secrets: str) -> bool:
        return any(secret.encode() in self.data for secret in secrets)


@contextmanager
def recording_listener() -> Iterator[Recorder]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        recorder = Recorder(f"127.0.0.1:{server.getsockname()[1]}")
        threading.Thread(target=_serve, args=(server, recorder), daemon=True).start()
        try:
            yield recorder
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, recorder: Recorder) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            recorder.connections += 1
            threading.Thread(target=_converse, args=(connection, recorder), daemon=True).start()


def _converse(connection: socket.socket, recorder: Recorder) -> None:
    with connection, suppress(OSError, struct.error):
        while received := connection.recv(1 << 16):
            recorder.data += received
            api, version, correlation = struct.unpack(">hhi", received[4:12])
            body = _answer(api, version)
            if body is not None:
                connection.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)


def _answer(api: int, version: int) -> bytes | None:
    """The body of the answer, None for what needs none to get at the password."""
    if api == _API_VERSIONS:
        # A newer version than admitted is answered with error 35 in the oldest form, as brokers do.
        error = 0 if version == 0 else 35
        return struct.pack(">hi", error, len(_VERSIONS)) + b"".join(struct.pack(">hhh", *item) for item in _VERSIONS)
    if api == _HANDSHAKE:
        return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
    return None
