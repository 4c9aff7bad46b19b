"""What brokers, coordinators and leaders report of a cluster, as values.

Configurations and the rest of the control side; consumer groups; raw reads of a log; who wrote to a partition last, and
which transactions are not complete; access control lists (Kafka's bindings of a resource pattern to what a principal
may do); client quotas (KIP-546), which are limits that each broker keeps for itself, by user, client id or both; sizes
of partitions and free space as a metrics source has them, and one value of one series.

A cluster's id becomes the name of a folder, so its form is checked.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import NamedTuple

from kafkakit.core.model import Broker, LogDir, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """Why one item of a request was refused: Kafka's error name and, where known, its text."""

    name: str
    message: str = ""
    retriable: bool = False

    @property
    def is_denied(self) -> bool:
        """True for a missing right; any other error is none, whether it is retriable or not."""
        return "authorizationfailed" in self.plain_name

    @property
    def is_leaderless(self) -> bool:
        """True for a partition that has no leader now."""
        return self.plain_name.startswith("leadernotavailable")

    @property
    def plain_name(self) -> str:
        """The name however it is spelled: `LEADER_NOT_AVAILABLE` is `LeaderNotAvailableError`."""
        return self.name.replace("_", "").lower()

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


class TopicCount(NamedTuple):
    """The partitions of one topic, counted; `short` have fewer replicas in sync than in their list."""

    partitions: int
    replication: int
    offline: int
    short: int
    not_preferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """All partitions that the caller may see, counted, and each that is not whole.

    `leaders` and `replicas` count by broker. `unwell` have no leader, or fewer replicas in sync than in their list; a
    list contains the copies that a move adds. `not_preferred` are led by another broker than the first of their list.
    `of_topics` counts by topic, sorted.
    """

    topics: int
    partitions: int
    leaders: Mapping[int, int]
    replicas: Mapping[int, int]
    not_preferred: int
    unwell: Mapping[TopicPartition, PartitionState]
    of_topics: Mapping[str, TopicCount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A controller with a vote; `behind_ms` is how long ago it had all that the leader has, None where not told."""

    id: int
    behind_ms: int | None = None
    behind_records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The controllers of a KRaft cluster; `leader` is None while there is none."""

    leader: int | None
    voters: tuple[Voter, ...]

    @property
    def ids(self) -> frozenset[int]:
        """The voters' node ids."""
        return frozenset(voter.id for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataVersion:
    """The feature `metadata.version` as one broker tells it: the level in force, and the newest that it knows."""

    in_force: int
    newest: int


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


class GroupType(StrEnum):
    """The protocol of a group; UNKNOWN for a type that this client does not know."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


class GroupState(StrEnum):
    """What a coordinator says of a group; an offset can be changed from outside while it is EMPTY or DEAD."""

    STABLE = "stable"
    EMPTY = "empty"
    DEAD = "dead"
    PREPARING = "preparing_rebalance"
    COMPLETING = "completing_rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    NOT_READY = "not_ready"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group as the cluster lists it."""

    group: str
    type: GroupType
    state: GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredGroups:
    """The groups of the brokers that answered, sorted by name, and why others did not."""

    groups: tuple[GroupListing, ...] = ()
    silent: Mapping[int, ItemError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member of a group and the partitions it holds, sorted."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group and its members, whichever protocol it speaks; a group that does not exist is DEAD.

    `had_members`: it has members now or had some. The clients of one that never had any assign partitions themselves.
    """

    group: str
    type: GroupType
    state: GroupState
    members: tuple[GroupMember, ...] = ()
    coordinator: int | None = None
    had_members: bool = False


def holders_of(members: Iterable[GroupMember]) -> dict[TopicPartition, GroupMember]:
    """Which member holds each partition."""
    return {key: member for member in members for key in member.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group committed for one partition; `metadata` is exactly as the broker stores it, a NUL included."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """Where a share group stands in one partition: everything below `start` is done.

    `start` is None before its first fetch; `lag` counts records that are not done, None where the broker does not say.
    """

    place: TopicPartition
    start: int | None
    lag: int | None
    error: ItemError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlaces:
    """A topic's id (16 bytes, zeros for none) and the leader of each partition, None where there is none."""

    topic_id: bytes
    leaders: Mapping[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """The ends of a partition's log: first offset, last stable one and high watermark, the latter two exclusive."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Raw record batches of one partition as the broker sent them (the last may be cut), or why there are none.

    `records` starts with the batch that holds the offset asked for, so its first records may lie before it. The
    span is that of the answer; its members are -1 where the broker did not say. Neither records nor a span nor an
    error: the leader has not answered yet, and the next fetch from the same offset takes its answer. A reader of
    committed data gets no records from the stable offset on, and with each answer the transactions in it that were
    `aborted`: producer and first offset. Records of many megabytes may be a view, which is not copied.
    """

    records: bytes
    span: LogSpan
    error: ItemError | None = None
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the leader has said anything; without that, nothing is known of the partition."""
        return self.error is not None or self.span.end >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """An idempotent or transactional producer that a partition's leader remembers; Kafka keeps no client id or host.

    `transaction_start` is the first offset of its open transaction there, None without one. `last_ms` is the timestamp
    of its latest batch, by the producer's own clock, None where it is not known. A producer that wrote nothing for
    `producer.id.expiration.ms` (a day by default) is forgotten, and one that is not idempotent is never there.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int | None
    transaction_start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is not complete.

    `state` is Kafka's: `Ongoing`, or `PrepareCommit`, `PrepareAbort` and `PrepareEpochFence` while markers are written.
    `started_ms` is by the coordinator's clock. `partitions` are those that have no marker yet, those of
    `__consumer_offsets` too.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]


class AclResourceKind(StrEnum):
    """What a binding is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"
    DELEGATION_TOKEN = "delegation_token"
    USER = "user"


class AclPattern(StrEnum):
    """How a binding's name is compared with a resource's; the literal name `*` concerns every resource of the kind."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclOperation(StrEnum):
    """What is permitted or denied; UNKNOWN is one that a newer Kafka has."""

    UNKNOWN = "unknown"
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"
    CREATE_TOKENS = "create_tokens"
    DESCRIBE_TOKENS = "describe_tokens"
    TWO_PHASE_COMMIT = "two_phase_commit"


class AclPermission(StrEnum):
    """A denial outweighs every permission; super users are denied nothing."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AclBinding:
    """One binding; all of its fields together identify it. `principal` is `User:NAME`, `host` an address or `*`."""

    kind: AclResourceKind
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission
    pattern: AclPattern = AclPattern.LITERAL
    host: str = "*"


PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
"""Bytes a second that one broker takes from, or gives to, all clients of an entity together."""
REQUEST_PERCENTAGE = "request_percentage"
"""Share of the time of one broker's network and request threads, where 100 is one thread."""


class QuotaDefault(Enum):
    """In place of a name: every user or client id without a quota of its own."""

    DEFAULT = "default"


QuotaName = str | QuotaDefault | None
"""A name, the default, or None where the entity does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """What a quota is set on: a user, a client id, or a client id of a user; `ValueError` for neither."""

    user: QuotaName = None
    client_id: QuotaName = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None:
            raise ValueError("a quota is set on a user, a client id or both")

    def __str__(self) -> str:
        parts = (("user", self.user), ("client id", self.client_id))
        texts = (
            f"default {kind}" if name is QuotaDefault.DEFAULT else f"{kind} {name}" for kind, name in parts if name
        )
        return ", ".join(texts)


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
QuotaChanges = Mapping[QuotaEntity, Mapping[str, float | None]]
"""New values by key; None removes what is set."""

_CLUSTER_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def cluster_id_problem(cluster_id: str) -> str | None:
    """What is wrong with a cluster id, in words; None when nothing is."""
    return None if _CLUSTER_ID.fullmatch(cluster_id) else f"cluster_id {cluster_id!r:.80} is not a Kafka cluster id"


FROM_BROKERS = "brokers"
FROM_FILE = "file"
FROM_ZOOKEEPER = "zookeeper"
KEPT_IN = (FROM_ZOOKEEPER, FROM_FILE)
"""Where a collector keeps sizes, as the word of each on the command line."""
METRICS_PREFIX = "topicmappr"
"""The parent of kafka-kit's two znodes unless another one is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """The bytes of the largest copy of each partition, and when they were written down.

    `smallest_of` has the smallest copy where it is known to be smaller, `times` those values that are older than
    `taken_at`.
    """

    bytes_of: Mapping[TopicPartition, int]
    taken_at: datetime
    smallest_of: Mapping[TopicPartition, int] = field(default_factory=dict)
    times: Mapping[TopicPartition, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStorage:
    """The free bytes of each broker's disks together, and when they were written down; `times` as above."""

    bytes_of: Mapping[int, int]
    taken_at: datetime
    times: Mapping[int, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReading:
    """Both halves of one look at a `StorageMetrics`; `source` names it for people."""

    source: str
    sizes: PartitionSizes
    free: FreeStorage

    @property
    def taken_at(self) -> datetime:
        """The time of the older half: what counts for its age."""
        return min(self.sizes.taken_at, self.free.taken_at)


class MetricSample(NamedTuple):
    """`value` is NaN where the series has none, and `time` then that of the query."""

    labels: Mapping[str, str]
    value: float
    time: datetime
