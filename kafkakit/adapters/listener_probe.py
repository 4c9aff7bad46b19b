"""Probes one address from outside: whether a process listens, whether it is Kafka, over TLS, with which login.

Uses the SaslHandshake request (Kafka protocol guide, api key 17), which every listener answers before a
login; nothing secret is sent.
"""

import socket
import ssl
import struct
from contextlib import suppress

from kafkakit.config.security import Listener

_SASL_HANDSHAKE = 17
_ILLEGAL_SASL_STATE = 34
_LONGEST_ANSWER = 64 * 1024
_REFUSAL_WAIT_S = 0.5


def probe_listener(host: str, port: int, timeout_s: float, ca_file: str | None, check_hostname: bool) -> Listener:
    """Connect up to four times, each within `timeout_s`; never raises for what the network does."""
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            mechanisms = _ask(plain)
    except (OSError, UnicodeError) as error:
        return Listener(host=host, port=port, refused=_reason(error))
    if mechanisms is not None:
        return Listener(host=host, port=port, speaks_kafka=True, mechanisms=mechanisms)
    return _probe_tls(host, port, timeout_s, ca_file, check_hostname)


def _probe_tls(host: str, port: int, timeout_s: float, ca_file: str | None, check_hostname: bool) -> Listener:
    lenient = ssl.create_default_context()
    lenient.check_hostname = False
    lenient.verify_mode = ssl.CERT_NONE
    wants_certificate = False
    mechanisms: tuple[str, ...] | None = None
    try:
        with _tls(host, port, timeout_s, lenient) as stream:
            _hear_refusal(stream)
            mechanisms = _ask(stream, strict=True)
    except ssl.SSLError as error:
        text = str(error).upper()
        wants_certificate = "CERTIFICATE" in text or "HANDSHAKE_FAILURE" in text
        if not wants_certificate:
            return Listener(host=host, port=port)
    except OSError:
        return Listener(host=host, port=port)
    return Listener(
        host=host,
        port=port,
        speaks_tls=True,
        speaks_kafka=mechanisms is not None or wants_certificate,
        mechanisms=mechanisms or (),
        wants_certificate=wants_certificate,
        distrust=_distrust(host, port, timeout_s, ca_file, check_hostname),
    )


def _distrust(host: str, port: int, timeout_s: float, ca_file: str | None, check_hostname: bool) -> str | None:
    try:
        context = ssl.create_default_context(cafile=ca_file)
        context.check_hostname = check_hostname
        with _tls(host, port, timeout_s, context):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message or _reason(error)
    except ssl.SSLError as error:
        # A listener that requires a client certificate ends the handshake after we have accepted its own.
        text = str(error).upper()
        return None if "ALERT" in text else _reason(error)
    except OSError as error:
        return _reason(error)


def _hear_refusal(stream: ssl.SSLSocket) -> None:
    """Wait for the alert of a listener that requires a client certificate; TLS 1.3 sends it after the handshake.

    Sending a request at once could lose the alert to a connection reset.
    """
    limit = stream.gettimeout()
    stream.settimeout(_REFUSAL_WAIT_S)
    with suppress(TimeoutError):
        stream.recv(1)
    stream.settimeout(limit)


def _tls(host: str, port: int, timeout_s: float, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((host, port), timeout_s)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _ask(stream: socket.socket, *, strict: bool = False) -> tuple[str, ...] | None:
    """The login mechanisms of a Kafka listener, () when it requires none, None when this is no Kafka."""
    name = b"kafkakit-doctor"
    mechanism = b"PLAIN"
    request = struct.pack(f">hhih{len(name)}sh{len(mechanism)}s", _SASL_HANDSHAKE, 1, 1, len(name), name, 5, mechanism)
    try:
        stream.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _read(stream, 4))
        if not 10 <= size <= _LONGEST_ANSWER:
            return None
        return _mechanisms(_read(stream, size))
    except ssl.SSLError:
        if strict:
            raise
        return None
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _mechanisms(answer: bytes) -> tuple[str, ...] | None:
    correlation, code, count = struct.unpack_from(">ihi", answer)
    if correlation != 1 or not 0 <= count <= 100:
        return None
    if code == _ILLEGAL_SASL_STATE:
        return ()
    names: list[str] = []
    at = 10
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at)
        if not 0 < length <= len(answer) - at - 2:
            return None
        names.append(answer[at + 2 : at + 2 + length].decode("ascii"))
        at += 2 + length
    return tuple(sorted(names))


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
    return data


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]
