"""What clients, workers and the Assigner write for each other into the control store.

A process has one document for each stream below `streams/STREAM/clients`, with one entry for its producers and one for
the consumers of each group, so that a failover knows when it has moved. Clocks of two hosts are never compared: a
process that reads documents sees `beat` grow, or not.

A worker is a process that handles records of streams. It has a slot, a short name below `assigner/workers`, where it
writes its own document a few times a second, each time by compare-and-set: a worker whose document another process
removed is one no more. The Assigner writes what a worker may read below `assigner/grants`, under the name of its slot.

Epochs of grants only grow, over all partitions and all Assigners: the upper bits are the fencing token of the
Assigner's lease, the lower ones count what it wrote. So a commit with a higher epoch is always that of the later owner.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.lease import Holder
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import CommitIdentity, topic_id_bytes
from kafkakit.streams.model.route import check_stream

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Text = Annotated[str, Meta(max_length=500)]


class ClientKind(StrEnum):
    """What a client does with the records of a stream."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClientEntry:
    """The producers of a process (`group` empty), or its consumers of a group.

    `epoch` is the newest one that all of them have finished moving to. A producer has when nothing that it sends can
    be written any more to a segment that this epoch does not write; a consumer when it reads every segment of this
    epoch. Records are tried for `delivery_timeout_ms`, 0 for a consumer. `lanes` are those that consumers read, none
    for all but `dlq`, and from a process that does not tell.
    """

    kind: ClientKind
    epoch: _Count
    group: _Text = ""
    delivery_timeout_ms: _Count = 0
    lanes: tuple[_Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDocument:
    """One process and one stream, under a random id; `beat` grows with each writing, every 5 s and with each change."""

    id: _Text
    beat: _Count
    holder: Holder
    entries: tuple[ClientEntry, ...]


CLIENT_DOCUMENT = DocumentKind("stream-client", ClientDocument)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRegistration:
    """One entry of a document. `id` is unique in the stream, and the same for as long as the process has the entry."""

    id: str
    kind: ClientKind
    group: str
    epoch: int
    delivery_timeout_ms: int
    beat: int
    holder: Holder
    lanes: tuple[str, ...] = ()


def clients_folder(stream: str) -> str:
    """Where the documents of a stream's clients are kept."""
    return f"streams/{check_stream(stream)}/clients"


def merge_entries(entries: Iterable[ClientEntry]) -> tuple[ClientEntry, ...]:
    """One entry for each kind and group, sorted: the lowest epoch, the longest time of tries, and all lanes."""
    found: dict[tuple[ClientKind, str], ClientEntry] = {}
    for each in entries:
        other = found.get((each.kind, each.group), each)
        found[each.kind, each.group] = ClientEntry(
            kind=each.kind,
            group=each.group,
            epoch=min(each.epoch, other.epoch),
            delivery_timeout_ms=max(each.delivery_timeout_ms, other.delivery_timeout_ms),
            lanes=tuple(sorted({*each.lanes, *other.lanes})) if each.lanes and other.lanes else (),
        )
    return tuple(found[key] for key in sorted(found))


def registrations_of(document: ClientDocument) -> tuple[ClientRegistration, ...]:
    """The entries of a document, each by itself."""
    return tuple(
        ClientRegistration(
            id=f"{document.id} {each.kind}{f' {each.group}' if each.group else ''}",
            kind=each.kind,
            group=each.group,
            epoch=each.epoch,
            delivery_timeout_ms=each.delivery_timeout_ms,
            beat=document.beat,
            holder=document.holder,
            lanes=each.lanes,
        )
        for each in document.entries
    )


WORKERS_FOLDER, GRANTS_FOLDER = "assigner/workers", "assigner/grants"
ROUND_BITS = 24
_Share = Annotated[float, Meta(ge=0, le=1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subscription:
    """A group of a stream that a worker handles: these lanes, none for all but `dlq`.

    `epoch` is the route's that it knows. With `is_grouped` it reads as a member of Kafka's group instead, since no
    Assigner answered.
    """

    stream: _Text
    group: _Text
    lanes: tuple[_Text, ...] = ()
    epoch: _Count = 0
    is_grouped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReading:
    """What a worker measured: the part of one core's time in use, memory, and records handled a second."""

    cpu: _Share = 0.0
    memory_bytes: _Count = 0
    records_per_s: _Share = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDocument:
    """One worker. `id` is random, `beat` grows with each writing, and a worker that is silent for `ttl_s` is dead.

    `capacity` is in units of its own choice, the same for all workers; `zone` is empty where unknown. `round` is the
    newest one whose grant it keeps to: it reads no partition any more that is not in it. `answering` and `silent` are
    ids of clusters that answered its members lately, or did not.
    """

    id: _Text
    beat: _Count
    ttl_s: Annotated[float, Meta(gt=0, le=600)]
    holder: Holder
    capacity: Annotated[int, Meta(ge=1, le=1_000_000)]
    zone: _Text = ""
    round: _Count = 0
    is_leaving: bool = False
    subscriptions: tuple[Subscription, ...] = ()
    answering: tuple[_Text, ...] = ()
    silent: tuple[_Text, ...] = ()
    reading: WorkerReading = WorkerReading()


WORKER_DOCUMENT = DocumentKind("stream-worker", WorkerDocument)


class GrantedPartition(NamedTuple):
    """A partition and its epoch; two numbers in a document, as a worker may have a thousand."""

    partition: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedTopic:
    """Partitions of one topic for one group; the ids identify the topic, never its name."""

    stream: _Text
    group: _Text
    cluster_id: _Text
    topic: _Text
    topic_id: _Text
    partitions: tuple[GrantedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantDocument:
    """What a worker may read. `round` grows with each writing; `token` is that of the Assigner's lease."""

    worker: _Text
    token: _Count
    round: _Count
    topics: tuple[GrantedTopic, ...] = ()

    def leases(self) -> Iterator["tuple[PartitionKey, int]"]:
        """Each partition with its epoch."""
        for each in self.topics:
            for found in each.partitions:
                yield PartitionKey(each.stream, each.group, each.cluster_id, each.topic, found.partition), found.epoch


class PartitionKey(NamedTuple):
    """One partition as one group reads it: what has an owner."""

    stream: str
    group: str
    cluster_id: str
    topic: str
    partition: int


GRANT_DOCUMENT = DocumentKind("stream-grant", GrantDocument)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLease:
    """The right to read a partition: commits are bound to `identity`, and carry `epoch`."""

    partition: TopicPartition
    identity: CommitIdentity
    epoch: int


def leases_on(document: GrantDocument | None, stream: str, group: str, cluster_id: str) -> dict[
    TopicPartition, PartitionLease
]:  # fmt: skip
    """What a document grants a group on one cluster."""
    found = {}
    for each in () if document is None else document.topics:
        if (each.stream, each.group, each.cluster_id) == (stream, group, cluster_id):
            for partition, epoch in each.partitions:
                key = TopicPartition(each.topic, partition)
                topic_id = topic_id_bytes(each.topic_id)
                identity = CommitIdentity(cluster_id=cluster_id, topic_id=topic_id, partition=partition, group=group)
                found[key] = PartitionLease(partition=key, identity=identity, epoch=epoch)
    return found


def epoch_of(token: int, count: int) -> int:
    """The epoch of what an Assigner with this token writes as its `count`th; below that of every later token."""
    if not 0 <= count < 1 << ROUND_BITS:
        raise OverflowError(f"{count} epochs under one token: the next would belong to a later token")
    return (token << ROUND_BITS) + count


def worker_path(slot: str) -> str:
    """Where a worker's document is kept."""
    return f"{WORKERS_FOLDER}/{slot}"


def grant_path(slot: str) -> str:
    """Where a worker's grant is kept."""
    return f"{GRANTS_FOLDER}/{slot}"
