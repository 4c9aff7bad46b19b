"""What the service knows of a cluster, in the form in which one process hands it to another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafkakit.core.model import ClusterSnapshot, Topic

VERSION_KEYS = ("inter.broker.protocol.version", "log.message.format.version")
TagTable = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Tags by kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A live broker; the versions are empty where the release has no such setting."""

    id: int
    host: str = ""
    port: int = 0
    rack: str = ""
    protocol_version: str = ""
    message_format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic: replica lists by partition, and the configuration that is set on itself."""

    name: str
    replicas: tuple[tuple[int, tuple[int, ...]], ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    is_under_replicated: bool = False
    is_reassigning: bool = False

    @property
    def replication(self) -> int:
        """The longest replica list."""
        return max((len(row) for _, row in self.replicas), default=0)

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that hold a replica."""
        return frozenset(broker for _, row in self.replicas for broker in row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One reading of a cluster and its tags; `began_s` is on the monotonic clock of the host.

    `unreadable` are the paths of records that hold no tags.
    """

    cluster_id: str
    began_s: float
    began_at: datetime
    brokers: tuple[BrokerFacts, ...]
    topics: Mapping[str, TopicFacts]
    tags: TagTable
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a reading found since the one before; `failure` says why there is nothing new."""

    cluster_id: str = ""
    began_s: float = 0.0
    began_at: datetime | None = None
    brokers: tuple[BrokerFacts, ...] | None = None
    topics: tuple[TopicFacts, ...] = ()
    gone: tuple[str, ...] = ()
    tags: TagTable = field(default_factory=dict)
    tags_gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    failure: str = ""


def topic_facts(topic: Topic, *, is_reassigning: bool) -> TopicFacts:
    """A topic of a snapshot; O(replicas)."""
    return TopicFacts(
        name=topic.name,
        replicas=tuple((p.partition, p.replicas) for p in topic.partitions),
        configs=topic.configs,
        is_under_replicated=any(p.isr is not None and len(p.isr) < len(p.replicas) for p in topic.partitions),
        is_reassigning=is_reassigning,
    )


def broker_facts(snapshot: ClusterSnapshot, settings: Mapping[int, Mapping[str, str]]) -> tuple[BrokerFacts, ...]:
    """The live brokers of a snapshot, by id."""
    return tuple(
        BrokerFacts(
            id=broker.id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack or "",
            protocol_version=settings.get(broker.id, {}).get(VERSION_KEYS[0], ""),
            message_format=settings.get(broker.id, {}).get(VERSION_KEYS[1], ""),
        )
        for broker in snapshot.brokers
        if broker.is_alive
    )


def change_between(earlier: Facts | None, now: Facts) -> Change:
    """What of a reading differs from the one before; everything where there is none. O(topics)."""
    topics = earlier.topics if earlier else {}
    tags = earlier.tags if earlier else {}
    return Change(
        cluster_id=now.cluster_id,
        began_s=now.began_s,
        began_at=now.began_at,
        brokers=None if earlier and earlier.brokers == now.brokers else now.brokers,
        topics=tuple(facts for name, facts in now.topics.items() if topics.get(name) != facts),
        gone=tuple(sorted(topics.keys() - now.topics.keys())),
        tags={
            kind: {name: own for name, own in table.items() if tags.get(kind, {}).get(name) != own}
            for kind, table in now.tags.items()
        },
        unreadable=now.unreadable,
        tags_gone={kind: tuple(sorted(tags.get(kind, {}).keys() - table.keys())) for kind, table in now.tags.items()},
    )
