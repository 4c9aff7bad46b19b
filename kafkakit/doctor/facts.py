"""What `kafkakit doctor` finds, before anything is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.config.security import Listener, Security
from kafkakit.core.cluster_facts import ClusterInfo
from kafkakit.core.programs import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """All that was found; a `*_error` is why the fact beside it is missing.

    `extras` maps each extra to the packages of it that are missing, `brokers` each broker to what it answered.
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
    idle_throttles: str = ""
    cluster_error: str | None = None
    brokers: Mapping[int, Listener] = field(default_factory=dict)
    topic_operations: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    data_brokers: tuple[int, ...] | None = None
    data_error: str | None = None
    control_store: str = ""
    control_error: str | None = None
