"""Bootstrap addresses, and what one of them shows from outside."""

from dataclasses import dataclass

from kafkakit.config.security import Protocol
from kafkakit.core.errors import UsageError


def parse_addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Split into (host, port), in order; raises `UsageError` naming the part that is no address."""
    found: list[tuple[str, int]] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
        bracketed = host.startswith("[") and host.endswith("]")
        name = host[1:-1] if bracketed else host
        if not colon or not name or not 0 < number < 65536 or (":" in name and not bracketed):
            raise UsageError(f"{part[:80]!r} is not an address", hint="write HOST:PORT, or [IPV6]:PORT")
        found.append((name, number))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One bootstrap address from outside.

    `refused` is why no connection was made. `mechanisms` are the logins it takes, empty when it
    requires none. `distrust` is why its certificate is not trusted by our authorities.
    """

    host: str
    port: int
    refused: str | None = None
    speaks_kafka: bool = False
    speaks_tls: bool = False
    mechanisms: tuple[str, ...] = ()
    wants_certificate: bool = False
    distrust: str | None = None

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
