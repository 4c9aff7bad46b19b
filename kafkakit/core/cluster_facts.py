"""What the control side of a cluster reports, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.model import Broker, LogDir, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """Why one item of a request was refused: Kafka's error name and, where known, its text."""

    name: str
    message: str = ""
    retriable: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """The cluster's identity and members; `operations` are the caller's cluster rights, None when not told."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    controller_id: int | None = None
    kafka_version: str | None = None
    operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    """One copy found in a log dir; `is_future` marks the incoming copy of a move between dirs."""

    size_bytes: int
    log_dir: str
    offset_lag: int = 0
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogDirs:
    """One broker's answer about its log dirs, or why there is none (`error`).

    `futures` are the copies on their way to another dir of the broker; `replicas` shows them where they still are.
    """

    broker: int
    log_dirs: tuple[LogDir, ...] = ()
    replicas: Mapping[TopicPartition, LiveReplica] = field(default_factory=dict)
    futures: Mapping[TopicPartition, LiveReplica] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The live state of one partition; while a move runs `replicas` is the union (see `Reassignment`)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    topic_id: str | None = None


class ResourceKind(StrEnum):
    """What a configuration belongs to."""

    TOPIC = "topic"
    BROKER = "broker"


CLUSTER_DEFAULT = ""
"""The name, among those of brokers, under which the dynamic default of all of them is kept."""


class ConfigLayer(StrEnum):
    """Where a broker's value was set; DEFAULT is Kafka's own value."""

    DYNAMIC_BROKER = "dynamic broker"
    DYNAMIC_DEFAULT = "dynamic default"
    STATIC = "static"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class LayeredValue:
    """A value and its layer; `value` is None where the broker hides it, and for a default that is none."""

    value: str | None
    layer: ConfigLayer
    is_read_only: bool = False
    is_sensitive: bool = False


class ConfigOp(StrEnum):
    """How an incremental change treats the value; APPEND and SUBTRACT are for list-typed keys."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One incremental change of one key of one resource; `value` is None for DELETE."""

    kind: ResourceKind
    name: str
    key: str
    op: ConfigOp
    value: str | None = None
