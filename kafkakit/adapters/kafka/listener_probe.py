"""Probes one address: whether a process listens, whether it is Kafka, over TLS, with which login, and if ours is taken.

Clients lose the reason of a connection that fails, so it is found here, on connections of its own. `probe_listener`
uses the SaslHandshake request (Kafka protocol guide, api key 17), which every listener answers before a login, and
sends nothing secret. `explain` also tries our certificate and our login, if all else fits.
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime

from kafkakit.config.security import Mechanism, ProbedListener, Security, misfits, parse_addresses
from kafkakit.core.errors import ConnectRefusedError, UsageError

_SASL_HANDSHAKE = 17
_SASL_AUTHENTICATE = 36
_SASL_AUTHENTICATION_FAILED = 58
_ILLEGAL_SASL_STATE = 34
_LONGEST_ANSWER = 64 * 1024
_REFUSAL_WAIT_S = 0.5
_STEP_S = 5.0
_EXPLAIN_S = 12.0
_VERSION, _UTC_TIME, _LONG = 0xA0, 0x17, 0x80
CHECK_HINT = "check the address and that brokers run; what each address answers: kafkakit doctor"
_HINT = "check each step with: kafkakit doctor"

# Codes of librdkafka and, above zero, of Kafka's protocol, by number, so that this module loads without the library:
# _AUTHENTICATION, _SSL, _TIMED_OUT, _ALL_BROKERS_DOWN, _MSG_TIMED_OUT, _TRANSPORT, SASL_AUTHENTICATION_FAILED
UNREACHED = frozenset({-169, -181, -185, -187, -192, -195, 58})
"""Errors of confluent-kafka that may have their cause in the settings."""


def probe_listener(host: str, port: int, timeout_s: float, ca_file: str | None, check_hostname: bool) -> ProbedListener:
    """Connect up to four times, each within `timeout_s`; never raises for what the network does."""
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            mechanisms = _ask(plain)
    except (OSError, UnicodeError) as error:
        return ProbedListener(host=host, port=port, refused=_reason(error))
    if mechanisms is not None:
        return ProbedListener(host=host, port=port, speaks_kafka=True, mechanisms=mechanisms)
    return _probe_tls(host, port, timeout_s, ca_file, check_hostname)


def certificate_end(host: str, port: int, timeout_s: float, security: Security) -> datetime | None:
    """When the certificate that a listener shows ends, whether it is trusted or not; None where it shows none."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if security.cert_file and security.key_file:
        password = None if security.key_password is None else security.key_password.reveal()
        context.load_cert_chain(security.cert_file, security.key_file, password)
    try:
        with _tls(host, port, timeout_s, context) as stream:
            shown = stream.getpeercert(binary_form=True)
    except OSError:
        return None
    return None if shown is None else not_after(shown)


def not_after(certificate: bytes) -> datetime | None:
    """The end of a certificate (RFC 5280, 4.1: the second time of `validity`); None for what is not one."""
    try:
        _, at, _ = _der(certificate, 0)  # Certificate
        _, at, _ = _der(certificate, at)  # TBSCertificate
        tag, _, end = _der(certificate, at)
        skipped = 4 if tag == _VERSION else 3  # a version may stand before serial number, algorithm and issuer
        for _ in range(skipped):
            _, _, end = _der(certificate, at)
            at = end
        _, at, _ = _der(certificate, at)  # Validity
        _, _, at = _der(certificate, at)
        tag, begin, end = _der(certificate, at)
        text = certificate[begin:end].decode("ascii")
        form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def _der(data: bytes, at: int) -> tuple[int, int, int]:
    """An element's tag, and where its content begins and ends; `IndexError` beyond the data."""
    tag, length, begin = data[at], data[at + 1], at + 2
    if length & _LONG:
        size = length - _LONG
        length = int.from_bytes(data[begin : begin + size])
        begin += size
    if begin + length > len(data):
        raise IndexError
    return tag, begin, begin + length


def explain(bootstrap_servers: str, security: Security) -> ConnectRefusedError | None:
    """Why clients with these settings cannot connect, if the settings are the cause; takes up to some seconds.

    None if one address is found to work.
    """
    end_s = time.monotonic() + _EXPLAIN_S
    try:
        addresses = parse_addresses(bootstrap_servers)
    except UsageError:
        return None
    refusal = None
    for host, port in addresses:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            break
        limit_s = min(_STEP_S, left_s)
        found = probe_listener(host, port, limit_s, security.ca_file, security.check_hostname)
        if not found.speaks_kafka:
            continue
        faults = list(misfits(found, security)) or list(misfits(_try_settings(found, security, limit_s), security))
        if not faults:
            return None
        detail, hint = faults[0]
        refusal = refusal or ConnectRefusedError(f"cannot connect: {detail}", hint=f"{hint}; {_HINT}")
    return refusal


def _try_settings(found: ProbedListener, security: Security, limit_s: float) -> ProbedListener:
    """The listener with what it says to our certificate and our login."""
    try:
        stream = _open(found, security, limit_s)
    except ssl.SSLError as error:
        return replace(found, certificate_refused=_alert(error)) if security.cert_file else found
    except OSError:
        return found
    with closing(stream):
        try:
            if isinstance(stream, ssl.SSLSocket) and security.cert_file:
                _hear_refusal(stream)
            mechanisms = _ask(stream, strict=True, mechanism=str(security.sasl_mechanism or Mechanism.PLAIN))
            if mechanisms is None:
                return found
            found = replace(found, mechanisms=mechanisms)
            if str(security.sasl_mechanism) not in mechanisms:
                return found
            return replace(found, login_refused=_log_in(stream, security))
        except ssl.SSLError as error:
            return replace(found, certificate_refused=_alert(error)) if security.cert_file else found
        except (OSError, struct.error, ValueError, KeyError):  # no answer, or one that is not Kafka's
            return found


def _open(found: ProbedListener, security: Security, limit_s: float) -> socket.socket:
    if not found.speaks_tls:
        return socket.create_connection((found.host, found.port), limit_s)
    context = ssl.create_default_context(cafile=security.ca_file)
    context.check_hostname = security.check_hostname
    if security.cert_file and security.key_file:
        password = None if security.key_password is None else security.key_password.reveal()
        context.load_cert_chain(security.cert_file, security.key_file, password)
    return _tls(found.host, found.port, limit_s, context)


def _log_in(stream: socket.socket, security: Security) -> str | None:
    """Why the broker refuses our user name and password, in its own words; None if it does not."""
    for number, (message, receive) in enumerate(_messages(security)):
        stream.sendall(_request(_SASL_AUTHENTICATE, 0, number, struct.pack(">i", len(message)) + message))
        (size,) = struct.unpack(">i", _read(stream, 4))
        answer = _read(stream, size) if 8 <= size <= _LONGEST_ANSWER else b""
        _, code, length = struct.unpack_from(">ihh", answer)
        if code:
            words = answer[8 : 8 + max(length, 0)].decode("utf-8", "replace")
            return " ".join(words.split())[:200] if code == _SASL_AUTHENTICATION_FAILED else None
        at = 8 + max(length, 0)
        (count,) = struct.unpack_from(">i", answer, at)
        receive(answer[at + 4 : at + 4 + count])
    return None


def _messages(security: Security) -> Iterator[tuple[bytes, Callable[[bytes], object]]]:
    """What a login sends, each with what takes in the answer; the second of SCRAM follows from the first answer."""
    user = security.username or ""
    password = "" if security.password is None else security.password.reveal()
    if security.sasl_mechanism is Mechanism.PLAIN:
        yield f"\0{user}\0{password}".encode(), len
        return
    from kafka.net.sasl.scram import ScramClient

    scram = ScramClient(user, password, str(security.sasl_mechanism))
    yield scram.first_message(), scram.process_server_first_message
    yield scram.final_message(), len


def _probe_tls(host: str, port: int, timeout_s: float, ca_file: str | None, check_hostname: bool) -> ProbedListener:
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
            return ProbedListener(host=host, port=port)
    except OSError:
        return ProbedListener(host=host, port=port)
    return ProbedListener(
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


def _request(key: int, version: int, correlation: int, body: bytes) -> bytes:
    name = b"kafkakit-doctor"
    request = struct.pack(f">hhih{len(name)}s", key, version, correlation, len(name), name) + body
    return struct.pack(">i", len(request)) + request


def _ask(stream: socket.socket, *, strict: bool = False, mechanism: str = "PLAIN") -> tuple[str, ...] | None:
    """The login mechanisms of a Kafka listener, () when it requires none, None when this is not Kafka."""
    name = mechanism.encode()
    try:
        stream.sendall(_request(_SASL_HANDSHAKE, 1, 1, struct.pack(f">h{len(name)}s", len(name), name)))
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


def _alert(error: ssl.SSLError) -> str:
    """A TLS alert in words: `certificate expired`, `unknown ca`."""
    words = (error.reason or "").lower().replace("_", " ")
    return words.rpartition("alert ")[2] or _reason(error)


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]
