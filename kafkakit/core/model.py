"""Frozen values that every layer shares, and tags: words that operators attach to brokers and topics, `key` to `value`.

Bytes are `int`, times are timezone-aware UTC `datetime`, durations are seconds in names ending in `_s`. A
`ClusterSnapshot` has exactly the shape of the `cluster-snapshot` file (see `documents.py`), so that 200,000 partitions
are decoded in one pass without an intermediate form.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from operator import is_, le
from typing import Any, NamedTuple, TypeVar

from kafkakit.core.errors import InputError

T = TypeVar("T")


class BrokerState(StrEnum):
    """What the cluster says of a broker: `missing` ids appear in replica lists but are not registered.

    A `draining` one is alive, and an operation on record empties it: it takes no new replicas.
    """

    ALIVE = "alive"
    FENCED = "fenced"
    MISSING = "missing"
    DRAINING = "draining"


class TopicPartition(NamedTuple):
    """A partition by name; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicPartitionReplica(NamedTuple):
    """One copy of a partition on one broker."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory of a broker; sizes in bytes, None when the broker did not say."""

    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    cordoned: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker as the cluster lists it; `log_dirs_error` says why its log dirs are unknown."""

    id: int
    rack: str | None = None
    host: str = ""
    port: int = 0
    state: BrokerState = BrokerState.ALIVE
    log_dirs: tuple[LogDir, ...] = ()
    log_dirs_error: str | None = None
    storage_free_bytes: int | None = None

    @property
    def group(self) -> str | None:
        """What the rule of groups looks at, here and in plans: the broker's rack; None where it has none."""
        return self.rack or None

    @property
    def is_alive(self) -> bool:
        """True when the broker is registered and unfenced."""
        return self.state in (BrokerState.ALIVE, BrokerState.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition's replicas in preference order, with what is known of each copy.

    `replica_bytes` and `replica_dirs` are keyed by broker id; a broker that did not answer has no
    key there, which means unknown, never zero. While a move runs, `replicas` is the union Kafka
    shows, and `adding`/`removing` say what changes: the target is `replicas` without `removing`.
    """

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    size_bytes: int | None = None
    replica_bytes: Mapping[int, int] = field(default_factory=dict)
    replica_dirs: Mapping[int, str] = field(default_factory=dict)
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def known_bytes(self) -> int | None:
        """The largest known copy in bytes, or None when no copy's size is known."""
        if self.replica_bytes:
            return max(self.replica_bytes.values())
        return self.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its non-default configuration and its partitions, sorted by number."""

    name: str
    partitions: tuple[Partition, ...]
    topic_id: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A move that the cluster is carrying out; `replicas` is the target order followed by those that leave."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replica list once the move is done."""
        return tuple(b for b in self.replicas if b not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSet:
    """The tags of a cluster, by broker id and by topic name; objects without any are left out."""

    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Everything a planner may look at: brokers sorted by id, topics by name.

    `unanswered_brokers` maps a broker id to why it gave no sizes; the sizes of its replicas are
    absent. `sizes_taken` is False when sizes were not asked for at all. `tags` are None where no store of tags was
    read. `min_isr` has what brokers use for topics without a `min.insync.replicas`, by id; empty if not read.
    `cordoned` has the brokers with a mark of `broker cordon`, by id with its reason: they get no new replica.
    """

    cluster_id: str
    taken_at: datetime
    source: str
    brokers: tuple[Broker, ...]
    topics: tuple[Topic, ...]
    kafka_version: str | None = None
    reassignments: tuple[Reassignment, ...] = ()
    sizes_taken: bool = False
    unanswered_brokers: Mapping[int, str] = field(default_factory=dict)
    tags: TagSet | None = None
    min_isr: Mapping[int, int] = field(default_factory=dict)
    cordoned: Mapping[int, str] = field(default_factory=dict)

    @property
    def usual_min_isr(self) -> int:
        """What topics without a minimum of their own have: the largest that a broker uses, 1 if none was read."""
        return max(self.min_isr.values(), default=1)

    @property
    def leaving(self) -> frozenset[int]:
        """The live brokers that are being emptied, or were, and are to take nothing new."""
        return frozenset(b.id for b in self.brokers if b.state is BrokerState.DRAINING)

    def in_order(self) -> "ClusterSnapshot":
        """The snapshot with its brokers, log dirs, topics, partitions and moves sorted; itself where they are.

        O(partitions) where they are sorted, as in what kafkakit writes.
        """
        brokers = _sort_items([_dirs_in_order(b) for b in self.brokers], lambda b: b.id)
        topics = _sort_items([_partitions_in_order(t) for t in self.topics], lambda t: t.name)
        moves = _sort_items(self.reassignments, lambda r: (r.topic, r.partition))
        rows = (brokers, self.brokers), (topics, self.topics), (moves, self.reassignments)
        if all(len(new) == len(old) and all(map(is_, new, old)) for new, old in rows):
            return self
        return replace(self, brokers=brokers, topics=topics, reassignments=moves)

    def broker_by_id(self) -> dict[int, Broker]:
        """Brokers keyed by id (built on each call, O(brokers))."""
        return {b.id: b for b in self.brokers}

    def partitions(self) -> Iterator[tuple[str, Partition]]:
        """Every (topic name, partition), in file order."""
        for topic in self.topics:
            for partition in topic.partitions:
                yield topic.name, partition


def _dirs_in_order(broker: Broker) -> Broker:
    dirs = _sort_items(broker.log_dirs, lambda d: d.path)
    return broker if dirs is broker.log_dirs else replace(broker, log_dirs=dirs)


def _partitions_in_order(topic: Topic) -> Topic:
    rows = _sort_items(topic.partitions, lambda p: p.partition)
    return topic if rows is topic.partitions else replace(topic, partitions=rows)


def _sort_items(items: Sequence[T], key: Callable[[T], Any]) -> tuple[T, ...]:
    """The items by their keys; the same tuple where they are in this order."""
    keys = list(map(key, items))
    if isinstance(items, tuple) and all(map(le, keys, keys[1:])):
        return items
    return tuple(sorted(items, key=key))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """One entry of Kafka's reassignment JSON."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMap:
    """Kafka's reassignment JSON: `{"version":1,"partitions":[...]}`, sorted by topic and partition."""

    version: int = 1
    partitions: tuple[PartitionAssignment, ...] = ()


OFFSETS_TOPIC = "__consumer_offsets"
TAGS_ROOT = "registry"
BROKER_TAGS = "broker"
TOPIC_TAGS = "topic"


def cluster_tags_root(cluster_id: str) -> str:
    """The path above a cluster's tags in a control store; in kafka-kit's znodes it is another one."""
    return f"clusters/{cluster_id}/{TAGS_ROOT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonMark:
    """A broker that gets no new replica: why, since when and by whom.

    `set_dirs` is the `cordoned.log.dirs` that the broker was given, `found_dirs` what was set on it before (None:
    nothing). Without `set_dirs` the broker was not told: it was down, or its Kafka has no such setting.
    """

    broker: int
    since: datetime
    by: str
    reason: str = ""
    found_dirs: str | None = None
    set_dirs: str | None = None


CORDONED_DIRS = "cordoned.log.dirs"
MAX_REASON = 200
"""Bytes of the reason of a mark."""


def cordons_root(cluster_id: str) -> str:
    """The path above the marks of a cluster in its control store, each under its broker's id."""
    return f"clusters/{cluster_id}/cordons"


def decode_tags(data: bytes, source: str) -> dict[str, str]:
    """The tags of one object, sorted by key, from its record; `InputError` where it holds something else."""
    try:
        found = json.loads(data)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InputError(source, "holds no tags", hint='a JSON object of texts, such as {"team":"a"}')
    return dict(sorted(found.items()))
