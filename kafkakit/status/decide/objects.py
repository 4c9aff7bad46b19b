"""Topics, partitions, brokers and groups as people list and describe them: a state in a word, worst first.

States are those of `judgement.py`, in the same words. What is not known is None, and never a zero.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.cluster_facts import (
    BrokerLogDirs,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    ItemError,
    LayeredValue,
    LiveReplica,
    LogSpan,
    PartitionState,
    ProducerState,
)
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import least_in_sync
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.query import topics_where
from kafkakit.core.query_text import parse_query
from kafkakit.core.selection import parse_patterns, query_of, select_topics
from kafkakit.status.decide.judgement import BrokerStatus, ClusterReading, PartName


class PartitionWord(StrEnum):
    """The state of a partition, worst first."""

    OFFLINE = "offline"
    UNDER_MIN_ISR = "under min ISR"
    AT_MIN_ISR = "at min ISR"
    UNDER_REPLICATED = "under-replicated"
    MOVING = "moving"
    OK = "ok"


_ORDER = {word: place for place, word in enumerate(PartitionWord)}


def partition_word(
    replicas: Sequence[int],
    isr: Collection[int],
    leader: int | None,
    adding: Collection[int],
    minimum: int | None,
    *,
    stops: bool = False,
) -> PartitionWord:
    """The worst that is true of a partition; `minimum` is its topic's `min.insync.replicas`, None if not known.

    `stops` is what `stops_above_replicas` says of the brokers' version. Replicas that a move adds do not count.
    """
    staying = [b for b in replicas if b not in adding]
    if leader is None:
        return PartitionWord.OFFLINE
    needed = None if minimum is None else least_in_sync(minimum, len(staying), stops=stops)
    if needed is not None and len(isr) < needed:
        return PartitionWord.UNDER_MIN_ISR
    if needed is not None and len(isr) == needed < len(staying):
        return PartitionWord.AT_MIN_ISR
    if len(isr) < len(staying):
        return PartitionWord.UNDER_REPLICATED
    return PartitionWord.MOVING if adding else PartitionWord.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition of a list; `bytes` is its largest copy."""

    key: TopicPartition
    word: PartitionWord
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    bytes: int | None = None

    @property
    def is_preferred(self) -> bool:
        """Whether the first of its replicas leads it."""
        return self.leader is not None and self.replicas[:1] == (self.leader,)


def partition_row(
    key: TopicPartition, partition: Partition, minimum: int | None, *, stops: bool = False
) -> PartitionRow:
    """The row of a snapshot's partition."""
    isr = partition.isr or ()
    return PartitionRow(
        key=key,
        word=partition_word(partition.replicas, isr, partition.leader, partition.adding, minimum, stops=stops),
        leader=partition.leader,
        replicas=partition.replicas,
        isr=isr,
        adding=partition.adding,
        bytes=partition.known_bytes,
    )


def in_order(rows: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Worst first, then by topic and number."""
    return sorted(rows, key=lambda row: (_ORDER[row.word], row.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic of a list; `bytes` are those of all copies, `words` count the partitions that are not ok."""

    name: str
    partitions: int
    replication: tuple[int, int]
    min_isr: int | None
    words: Mapping[PartitionWord, int]
    not_preferred: int
    bytes: int | None
    topic_id: str | None = None
    configs: Mapping[str, str] | None = None

    @property
    def worst(self) -> PartitionWord:
        """The worst state of its partitions."""
        return min(self.words, key=_ORDER.__getitem__, default=PartitionWord.OK)

    @property
    def state(self) -> str:
        """The worst state in words with the number of partitions it is true of."""
        worst = self.worst
        return worst.value if worst is PartitionWord.OK else f"{self.words[worst]} {worst.value}"


def topic_row(topic: Topic, minimum: int | None, *, stops: bool = False) -> TopicRow:
    """The row of a snapshot's topic."""
    rows = [partition_row(TopicPartition(topic.name, p.partition), p, minimum, stops=stops) for p in topic.partitions]
    words: dict[PartitionWord, int] = {}
    for row in rows:
        if row.word is not PartitionWord.OK:
            words[row.word] = words.get(row.word, 0) + 1
    sizes = [sum(p.replica_bytes.values()) if p.replica_bytes else p.size_bytes for p in topic.partitions]
    counts = [len(p.replicas) - len(p.adding) for p in topic.partitions]
    return TopicRow(
        name=topic.name,
        partitions=len(rows),
        replication=(min(counts, default=0), max(counts, default=0)),
        min_isr=minimum,
        words=words,
        not_preferred=sum(not row.is_preferred and row.leader is not None for row in rows),
        bytes=None if None in sizes else sum(size for size in sizes if size is not None),
        topic_id=topic.topic_id,
        configs=topic.configs,
    )


class TopicOrder(StrEnum):
    """What topics are sorted by."""

    NAME = "name"
    SIZE = "size"
    PARTITIONS = "partitions"
    STATE = "state"


def sorted_topics(rows: Iterable[TopicRow], order: TopicOrder) -> list[TopicRow]:
    """Largest or worst first, and by name."""
    if order is TopicOrder.SIZE:
        return sorted(rows, key=lambda row: (-(row.bytes or 0), row.name))
    if order is TopicOrder.PARTITIONS:
        return sorted(rows, key=lambda row: (-row.partitions, row.name))
    if order is TopicOrder.STATE:
        return sorted(rows, key=lambda row: (_ORDER[row.worst], row.name))
    return sorted(rows, key=lambda row: row.name)


def chosen_topics(snapshot: ClusterSnapshot, wanted: str, *, internal: bool) -> list[str]:
    """Topics by names, patterns or `where QUERY`; all without one. Those that begin with `__` only if asked for."""
    names = [topic.name for topic in snapshot.topics]
    if not wanted:
        return [name for name in names if internal or not name.startswith("__")]
    if (query := query_of(wanted)) is not None:
        return topics_where(snapshot, parse_query(query))
    return list(select_topics(names, parse_patterns(wanted)).selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """What a command makes of a topic: new partitions with their replica lists, or its end."""

    topic: str
    what: str
    lists: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    done: bool = False


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs; `UsageError` for anything else and for a key that is given twice."""
    found: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"{text[:80]!r} is not KEY=VALUE", hint="for example: --set retention.ms=86400000")
        if key in found:
            raise UsageError(f"{key[:80]} is given twice")
        found[key] = value
    return found


def parse_partition(text: str) -> TopicPartition:
    """`TOPIC/PARTITION`, or Kafka's own `TOPIC-PARTITION`; `UsageError` for anything else."""
    for sign in "/-":
        topic, found, number = text.rpartition(sign)
        if found and topic and number.isascii() and number.isdigit() and len(number) <= 9:
            return TopicPartition(topic, int(number))
    raise UsageError(f"{text[:200]!r} is not TOPIC/PARTITION", hint="for example: orders/3")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """One replica of a described partition; `copy` is None where its broker did not tell."""

    broker: int
    rack: str | None
    is_alive: bool
    in_sync: bool
    is_added: bool
    copy: LiveReplica | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetail:
    """All that is known of one partition; `needed` is how many must be in sync for acks=all."""

    row: PartitionRow
    minimum: int | None
    replicas: tuple[ReplicaFacts, ...]
    span: LogSpan | ItemError | None
    producers: tuple[ProducerState, ...] | None
    throttled: tuple[str, ...] = ()
    needed: int | None = None


def replica_facts(
    row: PartitionRow, brokers: Mapping[int, Broker], copies: Mapping[int, LiveReplica]
) -> tuple[ReplicaFacts, ...]:
    """Each replica in the order of the list."""
    return tuple(
        ReplicaFacts(
            broker=b,
            rack=brokers[b].rack if b in brokers else None,
            is_alive=b in brokers and brokers[b].is_alive,
            in_sync=b in row.isr,
            is_added=b in row.adding,
            copy=copies.get(b),
        )
        for b in row.replicas
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group of a list; `lag` counts records over its commits, None where it was not read or not known."""

    listing: GroupListing
    members: int | None
    lag: int | None
    topics: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOfGroup:
    """Where a group stands in one partition, and who reads it."""

    key: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    reader: str
    error: str = ""


def commit_rows(
    description: GroupDescription | None,
    commits: Mapping[TopicPartition, CommittedOffset | ItemError],
    spans: Mapping[TopicPartition, LogSpan | ItemError],
) -> list[CommitOfGroup]:
    """Every partition that the group has committed for or a member holds, furthest behind first."""
    held = {key: m for m in (description.members if description else ()) for key in m.partitions}
    rows = []
    for key in {*commits, *held}:
        commit, span = commits.get(key), spans.get(key)
        errors = [str(found) for found in (commit, span) if isinstance(found, ItemError)]
        offset = commit.offset if isinstance(commit, CommittedOffset) else None
        end = span.end if isinstance(span, LogSpan) else None
        lag = None if offset is None or not isinstance(span, LogSpan) else max(0, span.end - max(offset, span.start))
        reader = f"{held[key].client_id} {held[key].host}" if key in held else ""
        rows.append(CommitOfGroup(key=key, committed=offset, end=end, lag=lag, reader=reader, error="; ".join(errors)))
    return sorted(rows, key=lambda row: (-(row.lag if row.lag is not None else -1), row.key))


def total_lag(rows: Iterable[CommitOfGroup]) -> int | None:
    """The records of all partitions together; None where none is known."""
    known = [row.lag for row in rows if row.lag is not None]
    return sum(known) if known else None


def state_row(
    key: TopicPartition, state: PartitionState, adding: Collection[int], minimum: int | None, *, stops: bool = False
) -> PartitionRow:
    """The row of a partition as metadata shows it."""
    return PartitionRow(
        key=key,
        word=partition_word(state.replicas, state.isr, state.leader, adding, minimum, stops=stops),
        leader=state.leader,
        replicas=state.replicas,
        isr=state.isr,
        adding=tuple(b for b in state.replicas if b in adding),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail:
    """One topic with its partitions and the groups that have commits on it; None where groups were not read."""

    row: TopicRow
    partitions: tuple[PartitionRow, ...]
    groups: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDetail:
    """What is only read of a broker that is described: its log dirs with their replicas, and what is set on it."""

    dirs: BrokerLogDirs
    settings: Mapping[str, LayeredValue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """One group: its members, and where it stands."""

    group: str
    description: GroupDescription | None
    commits: tuple[CommitOfGroup, ...]
    error: str = ""


def is_read(reading: ClusterReading, row: BrokerStatus, part: PartName) -> bool:
    """Whether nothing in this part of a broker is known to be nothing: it is alive and was asked."""
    return row.state == "alive" and not reading.failure_of(part)
