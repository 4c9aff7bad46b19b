"""What one bootstrap address shows from outside."""

from dataclasses import dataclass

from kafkakit.config.security import Protocol


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
