"""Topics and brokers as the registry's replies give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.registry.decide.tags import Tags


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaList:
    """The brokers of a partition, the preferred leader first."""

    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """A topic with its tags; `replicas` by partition only where they were asked for."""

    name: str
    partitions: int = 0
    replication: int = 0
    tags: Tags = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[int, ReplicaList] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A live broker with its tags."""

    id: int
    host: str = ""
    port: int = 0
    rack: str = ""
    interbrokerprotocolversion: str = ""
    logmessageformat: str = ""
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPair:
    """An offset in the upstream cluster and the one that stands for it here; 64-bit numbers are texts in JSON."""

    upstreamOffset: int = 0  # noqa: N815 - the name in the reply
    localOffset: int = 0  # noqa: N815
