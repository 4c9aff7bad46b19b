"""First contact with a cluster: which address answers, and why none does."""

import logging
import re
import socket
import time
from typing import Any

from kafkakit.config.security import Security, to_kafka_python
from kafkakit.core.errors import TryLaterError

REFUSED_LIMIT_S = 2.0
ROUND_PAUSE_S = 0.25
CHECK_HINT = "check address, protocol, credentials"
TLS_HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "here the dates and names of the broker's certificate, and security.tls.ca_file",
    "_ALERT_": "here security.tls.cert_file and key_file, which the broker refuses",
    "EOF occurred in violation of protocol": "here security.tls.cert_file and key_file, if the broker wants them",
}
_NOISE = re.compile(r" \((?:_ssl\.c:\d+|backoff [\d.]+ secs)\)")


class _LastWords(logging.Handler):
    """Takes kafka-python's log lines off the terminal and keeps the last reason of a failed connection."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.endswith("net.manager") and record.args and "failed" in record.msg:
            text = re.sub(r"\s+", " ", record.getMessage())
            if "Unable to bootstrap" in text:  # the sum of what went before, and says less
                return
            self.reason = re.sub(r"^.*?failed: (?:\[Error \d+\] )?", "", _NOISE.sub("", text))[:160]


def connect(bootstrap_servers: str, security: Security, request_timeout_s: float, bootstrap_timeout_s: float) -> Any:
    """Make a kafka-python admin client through the first address that works.

    Addresses are tried one by one, each with a part of the time, so that one that hangs does not use up
    all of it; when every one is refused the wait ends after 2 s. Raises `TryLaterError` with the reason.
    """
    from kafka.errors import KafkaError

    words = _listen()
    start = time.monotonic()
    servers = [s.strip() for s in bootstrap_servers.split(",") if s.strip()]
    limit_s = min(bootstrap_timeout_s, REFUSED_LIMIT_S)
    words.reason = ""
    reason = "no address given"
    while servers:
        for server in servers:
            left = bootstrap_timeout_s - (time.monotonic() - start)
            if left <= 0:
                break
            refused = _refuses(server, min(left, REFUSED_LIMIT_S))
            if refused:
                reason = f"{server}: {refused}"
                continue
            try:
                return _new_client(server, security, request_timeout_s, min(left, max(2.0, bootstrap_timeout_s / 3)))
            except (KafkaError, OSError, ValueError) as error:
                reason = f"{server}: {words.reason or described(error)}"
                if security.protocol.uses_sasl and "socket disconnected" in reason:
                    reason = f"{server}: the broker ended the login, as it does for a wrong user name or password"
                if not isinstance(error, KafkaError) or "SaslAuthenticationFailed" in reason:
                    raise TryLaterError(f"cannot connect to {reason}", hint=CHECK_HINT) from None
                if _tls_hint(reason) is None:  # waiting repairs no certificate
                    limit_s = bootstrap_timeout_s
        if time.monotonic() - start + ROUND_PAUSE_S > limit_s:
            break
        time.sleep(ROUND_PAUSE_S)
    raise TryLaterError(f"cannot connect to {bootstrap_servers}: {reason}", hint=_tls_hint(reason) or CHECK_HINT)


def _tls_hint(reason: str) -> str | None:
    return next((f"{CHECK_HINT}; {hint}" for sign, hint in TLS_HINTS.items() if sign in reason), None)


def _new_client(server: str, security: Security, request_timeout_s: float, timeout_s: float) -> Any:
    from kafka.admin import KafkaAdminClient

    options: dict[str, Any] = to_kafka_python(security)
    client = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        client.__init__(
            bootstrap_servers=[server],
            client_id="kafkakit",
            bootstrap_timeout_ms=int(timeout_s * 1000),
            request_timeout_ms=int(request_timeout_s * 1000),
            max_in_flight_requests_per_connection=64,
            metadata_max_age_ms=2000,
            reconnect_backoff_max_ms=1000,
            **options,
        )
    except BaseException:
        # A client that could not connect leaves its thread running, and only this object can stop it.
        if hasattr(client, "_net"):
            client._client.close()
            client._net.stop()
        raise
    return client


def described(error: Exception | None) -> str:
    """An exception in one short line."""
    return re.sub(r"\s+", " ", str(error) or type(error).__name__)[:160]


def _listen() -> _LastWords:
    logger = logging.getLogger("kafka")
    for handler in logger.handlers:
        if isinstance(handler, _LastWords):
            return handler
    words = _LastWords()
    logger.addHandler(words)
    logger.propagate = False
    return words


def _refuses(server: str, timeout_s: float) -> str | None:
    """Say why nothing listens there; asking costs a refused address no time-out."""
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = server, "9092"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
