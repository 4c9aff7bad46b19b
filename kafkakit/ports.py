"""What the outside must offer, as protocols; adapters and in-memory fakes implement them.

Every call that can fail for some items answers per item and never raises for one of them: a value of
None means accepted. A call raises `TryLaterError` when the cluster cannot be reached, and
`OperationFailedError` when it refuses the whole request (missing rights, say).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from kafkakit.model import (
    Broker,
    ClusterSnapshot,
    LogDir,
    Reassignment,
    TopicPartition,
    TopicPartitionReplica,
)


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


class ClusterAdmin(Protocol):
    """Control of one Kafka cluster. Cost: one request each unless said otherwise."""

    def cluster(self) -> ClusterInfo:
        """Read identity, registered brokers (fenced ones too, where told) and the caller's rights."""
        ...

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        """Read brokers, topics (all when None), ISR, configs, reassignments and, if asked, sizes.

        Log dirs are asked of all brokers side by side; one that does not answer within the adapter's
        limit is named in `unanswered_brokers`. Unknown topic names are left out.
        """
        ...

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Read replicas, ISR and leader of the named topics; a topic that does not exist is absent."""
        ...

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        """Read log dirs and copies from each broker side by side; None = all partitions, empty = capacities only."""
        ...

    def reassignments(self) -> tuple[Reassignment, ...]:
        """Read the moves that are running, sorted by topic and partition."""
        ...

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemError | None]:
        """Submit target replica lists; at most 10,000 a call (Kafka accepts no more)."""
        ...

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Cancel running moves; one that is not running counts as done (None)."""
        ...

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Read the values set on each resource itself (no defaults); unknown resources are absent."""
        ...

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """Read the values in force (defaults too), one request a broker; unset keys and silent brokers are absent."""
        ...

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """Apply incremental changes in order; a dead broker's change answers with an error."""
        ...

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Make the first replica leader where it is in the ISR; already leading counts as done (None)."""
        ...

    def move_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ItemError | None]:
        """Ask brokers to hold a copy in the named absolute dir; before the copy exists it is a wish (None)."""
        ...

    def create_topic(
        self,
        name: str,
        assignments: Mapping[int, tuple[int, ...]],
        configs: Mapping[str, str],
    ) -> ItemError | None:
        """Create a topic with the given replica list for each partition number (0 upwards)."""
        ...

    def delete_topic(self, name: str) -> ItemError | None:
        """Delete a topic."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """The bytes of one copy of each partition, and when they were written down."""

    bytes_of: Mapping[TopicPartition, int]
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStorage:
    """The free bytes of each broker's disks together, and when they were written down."""

    bytes_of: Mapping[int, int]
    taken_at: datetime


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


class StorageMetrics(Protocol):
    """Sizes and free bytes that somebody else collected, such as kafka-kit's metricsfetcher.

    Calls raise `TryLaterError` when the place cannot be reached or holds nothing yet, and `InputError` when
    what it holds makes no sense.
    """

    def read(self) -> StorageReading:
        """Read sizes and free bytes, one request each."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The current UTC time, timezone-aware."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; raises whatever a signal handler raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition: at `offset` after the broker acknowledged it, or as it was read."""

    partition: TopicPartition
    offset: int
    value: bytes
    key: bytes | None = None


class Producer(Protocol):
    """Writes records that count only when all in-sync replicas have them (acks=all, no duplicates)."""

    def send(self, partition: TopicPartition, value: bytes | None, key: bytes | None = None) -> None:
        """Queue a record, None for a tombstone; waits while the queue is full.

        Learn of its fate from `acknowledged` and `failed`.
        """
        ...

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged so far."""
        ...

    @property
    def failed(self) -> int:
        """How many records were given up after retries."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the last record failed, or what the client last complained about."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for the queue to empty; returns how many records still have no answer."""
        ...


class Consumer(Protocol):
    """Reads the partitions it was made for, without a group."""

    def poll(self, timeout_s: float, limit: int = 500) -> Sequence[Record]:
        """Up to `limit` records, waiting at most `timeout_s` for the first."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class DataPlane(Protocol):
    """Records in and out of one cluster."""

    def reach(self, timeout_s: float) -> tuple[int, ...]:
        """The ids of the brokers that the client sees; raises `TryLaterError` when it reaches none."""
        ...

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        """The offsets that each partition holds, first to past the last; unknown partitions are absent."""
        ...

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> Producer:
        """A producer; `on_acknowledged` is called from `send` and `flush`, never from another thread."""
        ...

    def consumer(self, partitions: Collection[TopicPartition]) -> Consumer:
        """A consumer that reads the partitions from their first offset."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    """A value of a control store and the version that a `cas` must name to replace it."""

    value: bytes
    version: int


class ControlStore(Protocol):
    """Small documents that several processes read and replace, one at a time; linearisable for each path.

    A path is `name/name/...` (`control.paths.check_path` has the rules); a value has 1 byte to 64 KiB. Versions
    of a path grow with every change, also over a deletion; they are not consecutive. Calls raise `TryLaterError`
    when the store cannot be reached: a write may then have happened or not (read before repeating it).
    """

    def get(self, path: str) -> Versioned | None:
        """Read a path, with everything that was written before the call; None when it holds nothing."""
        ...

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """Replace the value if its version is still `expected` (None: it holds nothing); returns the new version.

        Raises `ConflictError` when it is not: then nothing was written. At most one of several callers that
        expect the same version succeeds.
        """
        ...

    def delete(self, path: str, expected: int) -> None:
        """Remove the value if its version is still `expected`; raises `ConflictError` when it is not."""
        ...

    def children(self, path: str) -> tuple[str, ...]:
        """The names directly below a path (the root is the empty path) that hold a value or lead to one, sorted."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...
