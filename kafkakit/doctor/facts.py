"""What a doctor's visit finds, before anything is judged."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.ports import ClusterInfo
from kafkakit.security import Protocol, Security
from kafkakit.version.facts import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One bootstrap address from outside.

    `refused` says why no connection came about. `mechanisms` are the logins it takes, empty when it
    wants none. `distrust` says why its certificate does not stand up to our authorities.
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
        """The protocol that a client must speak to it."""
        if self.mechanisms:
            return Protocol.SASL_SSL if self.speaks_tls else Protocol.SASL_PLAINTEXT
        return Protocol.SSL if self.speaks_tls else Protocol.PLAINTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """All that was found; a `*_error` says why the fact beside it is missing.

    `extras` maps each extra to the packages of it that are missing.
    """

    versions: Versions
    extras: Mapping[str, tuple[str, ...]]
    java: str | None = None
    java_error: str | None = None
    config_origin: str = ""
    config_error: str | None = None
    bootstrap_servers: str = ""
    security: Security | None = None
    security_error: str | None = None
    pinned_cluster: str | None = None
    listeners: tuple[Listener, ...] = ()
    cluster: ClusterInfo | None = None
    cluster_error: str | None = None
    data_brokers: tuple[int, ...] | None = None
    data_error: str | None = None
    control_store: str = ""
    control_error: str | None = None
