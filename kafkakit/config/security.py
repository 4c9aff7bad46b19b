"""One description of how to reach a secured cluster, translated for both Kafka clients; and bootstrap addresses.

TLS material is named by PEM files; a password is a `Secret`, which prints as `***` wherever it is shown. Option names:
kafka-python's `KafkaAdminClient` settings and librdkafka's CONFIGURATION.md. What an address shows from outside is a
value here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from kafkakit.core.errors import UsageError

MASK = "***"


class Secret:
    """A value that is never shown: `repr`, `str` and `format` give `***`, and it cannot be pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be serialised")


class Protocol(StrEnum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """True when the connection is encrypted."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """True when a user name and a password are sent."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    """The SASL mechanisms that both clients support with a user name and a password."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How to connect: `ca_file` signs the brokers (system store when None), `cert_file` and `key_file` are ours (mTLS).

    Files are paths of PEM files. `check_hostname` False accepts a broker certificate for another name.
    """

    protocol: Protocol = Protocol.PLAINTEXT
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: Secret | None = None
    check_hostname: bool = True
    sasl_mechanism: Mechanism | None = None
    username: str | None = None
    password: Secret | None = None


def problems_of(security: Security) -> tuple[str, ...]:
    """What does not fit together, one sentence each, in a fixed order; empty when all is well."""
    found: list[str] = []
    tls = {"ca_file": security.ca_file, "cert_file": security.cert_file, "key_file": security.key_file}
    given = [name for name, value in tls.items() if value]
    if given and not security.protocol.uses_tls:
        found.append(f"tls.{given[0]} is set, but protocol {security.protocol} does not encrypt; use SSL or SASL_SSL")
    if bool(security.cert_file) != bool(security.key_file):
        missing = "key_file" if security.cert_file else "cert_file"
        found.append(f"mutual TLS needs both tls.cert_file and tls.key_file; tls.{missing} is missing")
    if security.protocol.uses_sasl:
        if security.sasl_mechanism is None:
            found.append(f"protocol {security.protocol} needs sasl.mechanism ({', '.join(Mechanism)})")
        if not security.username:
            found.append(f"protocol {security.protocol} needs sasl.username")
        if security.password is None:
            found.append(f"protocol {security.protocol} needs a password (sasl.password_file, for example)")
    elif security.sasl_mechanism or security.username or security.password:
        found.append(f"sasl is set, but protocol {security.protocol} sends no user name; use SASL_SSL")
    return tuple(found)


def to_kafka_python(security: Security) -> dict[str, object]:
    """Translate to keyword arguments of kafka-python's clients; the password is revealed in the result."""
    settings: dict[str, object] = {"security_protocol": str(security.protocol)}
    if security.protocol.uses_tls:
        settings["ssl_check_hostname"] = security.check_hostname
        settings |= _present_values({"ssl_cafile": security.ca_file, "ssl_certfile": security.cert_file})
        settings |= _present_values({"ssl_keyfile": security.key_file, "ssl_password": _reveal(security.key_password)})
    if security.protocol.uses_sasl:
        settings |= _present_values(
            {
                "sasl_mechanism": _text(security.sasl_mechanism),
                "sasl_plain_username": security.username,
                "sasl_plain_password": _reveal(security.password),
            }
        )
    return settings


def to_confluent(security: Security) -> dict[str, object]:
    """Translate to librdkafka's configuration keys; the password is revealed in the result."""
    settings: dict[str, object] = {"security.protocol": str(security.protocol)}
    if security.protocol.uses_tls:
        settings["ssl.endpoint.identification.algorithm"] = "https" if security.check_hostname else "none"
        settings |= _present_values(
            {"ssl.ca.location": security.ca_file, "ssl.certificate.location": security.cert_file}
        )
        settings |= _present_values(
            {"ssl.key.location": security.key_file, "ssl.key.password": _reveal(security.key_password)}
        )
    if security.protocol.uses_sasl:
        settings |= _present_values(
            {
                "sasl.mechanism": _text(security.sasl_mechanism),
                "sasl.username": security.username,
                "sasl.password": _reveal(security.password),
            }
        )
    return settings


def _present_values(values: dict[str, str | None]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _reveal(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _text(value: Mechanism | None) -> str | None:
    return None if value is None else str(value)


def parse_addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Split into (host, port), in order; raises `UsageError` naming the part that is no address.

    What stands before an @ may be a password, and is not shown.
    """
    found: list[tuple[str, int]] = []
    end = 0
    for piece in text.split(","):
        start, end = end, end + len(piece) + 1
        part = piece.strip()
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
        bracketed = host.startswith("[") and host.endswith("]")
        name = host[1:-1] if bracketed else host
        if not colon or not name or not 0 < number < 65536 or "@" in name or (":" in name and not bracketed):
            login = max(text.rfind("@") - start, 0)  # it may have commas of its own
            shown = f"***{piece[login:].strip()}" if login else part
            raise UsageError(f"{shown[:80]!r} is not an address", hint="write HOST:PORT, or [IPV6]:PORT")
        found.append((name, number))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedListener:
    """One bootstrap address from outside.

    `refused` is why no connection was made. `mechanisms` are the logins it takes, empty when it
    requires none. `distrust` is why its certificate is not trusted by our authorities. With our settings tried:
    `certificate_refused` and `login_refused` are why it does not take our certificate or our password.
    """

    host: str
    port: int
    refused: str | None = None
    speaks_kafka: bool = False
    speaks_tls: bool = False
    mechanisms: tuple[str, ...] = ()
    wants_certificate: bool = False
    distrust: str | None = None
    certificate_refused: str | None = None
    login_refused: str | None = None

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def protocol(self) -> Protocol:
        """The protocol that a client must use."""
        if self.mechanisms:
            return Protocol.SASL_SSL if self.speaks_tls else Protocol.SASL_PLAINTEXT
        return Protocol.SSL if self.speaks_tls else Protocol.PLAINTEXT


def misfits(listener: ProbedListener, security: Security) -> Iterator[tuple[str, str]]:
    """What of the settings does not fit a listener that speaks Kafka: what was found, and what to do."""
    address = listener.address
    # Without our certificate nothing inside mutual TLS can be seen, so only the encryption is compared.
    hidden = listener.wants_certificate and not listener.mechanisms
    if security.protocol.uses_tls != listener.speaks_tls or (not hidden and security.protocol is not listener.protocol):
        found = "an encrypted protocol (SSL or SASL_SSL)" if hidden else str(listener.protocol)
        detail = f"{address} speaks {found}, the settings say {security.protocol}"
        yield detail, f"set security.protocol to {'SSL or SASL_SSL' if hidden else listener.protocol}"
        return
    if listener.mechanisms and str(security.sasl_mechanism) not in listener.mechanisms:
        takes = ", ".join(listener.mechanisms)
        to = takes if len(listener.mechanisms) == 1 else "one of these"
        detail = f"{address} takes {takes}, the settings say {security.sasl_mechanism}"
        yield detail, f"set security.sasl.mechanism to {to}"
    if listener.distrust is not None:
        detail = f"the certificate of {address} is not trusted: {listener.distrust}"
        yield detail, _trust_hint(listener.distrust)
    if listener.wants_certificate and security.cert_file is None:
        detail = f"{address} wants a client certificate, the settings have none"
        yield detail, "set security.tls.cert_file and security.tls.key_file"
    if listener.certificate_refused is not None:
        detail = f"client certificate {security.cert_file} refused by {address}: {listener.certificate_refused}"
        yield detail, "set security.tls.cert_file and security.tls.key_file to a certificate that the broker trusts"
    if listener.login_refused is not None:
        usual = "" if listener.login_refused.startswith("Authentication failed") else listener.login_refused
        detail = f"login refused ({security.sasl_mechanism}, user {security.username}) by {address}"
        hint = "check security.sasl.username and its password; users of SCRAM have one for each mechanism"
        yield f"{detail}: {usual}" if usual else detail, hint


def _trust_hint(distrust: str) -> str:
    if "expired" in distrust or "not yet valid" in distrust:
        return "renew the broker's certificate, or correct the clock of this host"
    if "mismatch" in distrust:
        return "connect by a name of its certificate, or set security.tls.check_hostname to false"
    return "set security.tls.ca_file to the authority that signed it"
