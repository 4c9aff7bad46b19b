"""A member of a consumer group on one cluster, a producer into one topic that may not wait, and spans of a tracer."""

import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import (
    BatchLimits,
    ConnectionFigures,
    Headers,
    NotDelivered,
    OutgoingRecord,
    SentRecord,
    TopicIdentity,
)
from kafkakit.streams.model.guarded_reads import BatchVerdict


class ReadRecord(Protocol):
    """A record as the client library hands it over; a call reads one part of it. An empty value may be a tombstone."""

    def offset(self) -> int:
        """Its place in the partition."""
        ...

    def key(self) -> bytes | None:
        """Its key."""
        ...

    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """The type of the time (0: none), and the time in milliseconds."""
        ...

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Its headers, in order."""
        ...

    def __len__(self) -> int:
        """The bytes of the value."""
        ...


@dataclass(slots=True, kw_only=True)
class ReadBatch:
    """What a poll brought of one partition, in the order of the log, with offsets; the read went on to `next_offset`.

    Offsets between that have no record do not exist for this reader. `unreadable` is the client's reason where it
    cannot, or must not, decode what stands at `next_offset`: it does not get past it but by `seek`. `verdict` is what a
    client that judges batches before it decodes them found there.
    """

    partition: TopicPartition
    records: list[ReadRecord]
    offsets: list[int]
    next_offset: int
    unreadable: str = ""
    verdict: BatchVerdict | None = None


class MemberLease(NamedTuple):
    """Until when (monotonic clock) a member may handle a partition, and the epoch that its commits carry."""

    epoch: int = 0
    until_s: float = float("inf")


NO_LEASE = MemberLease()

SHORTEST_SESSION_S, LONGEST_SESSION_S = 1.0, 1800.0
_INSTANCE = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRule:
    """A membership in Kafka's group: one that is silent for `session_s` loses its partitions.

    With `instance` (Kafka's `group.instance.id`, one of its own for each consumer) it keeps them over a restart that
    takes less than `session_s`, as it does not leave the group when it ends.
    """

    session_s: float = 10.0
    instance: str = ""

    def __post_init__(self) -> None:
        if not SHORTEST_SESSION_S <= self.session_s <= LONGEST_SESSION_S:
            raise UsageError(f"session_s is {SHORTEST_SESSION_S:g} to {LONGEST_SESSION_S:g}")
        if self.instance and not _INSTANCE.fullmatch(self.instance):
            raise UsageError("instance is at most 249 letters, digits, `.`, `_` and `-`")


class AssignmentListener(Protocol):
    """Told of changes inside `poll` and `close`, by the thread that calls them."""

    def assigned(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """These partitions were assigned; reading begins at the committed offset, or at the start of the log."""
        ...

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions go to another member when this returns; what is committed before counts."""
        ...

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Other members may have these partitions already: nothing may be committed for them."""
        ...

    def committed(self, results: Mapping[TopicPartition, str]) -> None:
        """The answer to `commit_later`: an error's name for each partition, empty for success."""
        ...


class GroupConsumer(Protocol):
    """One member of a group. All calls but `close` belong to one thread.

    Nothing is committed but by the calls below, always with explicit offsets.
    """

    def subscribe(self, topics: Collection[str], listener: AssignmentListener) -> None:
        """Replace the topics that are read; an empty collection leaves the group."""
        ...

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        """At most `limit` records, as soon as there is one; empty after `timeout_s`.

        Raises `TryLaterError` where the member cannot continue and another one should be made in its place.
        """
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Read no more of these; what the client had read ahead is dropped and read again later.

        A pause ends with the assignment: a partition that goes and comes back is read.
        """
        ...

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Read these again, from where `poll` had come."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read an assigned partition from another offset on."""
        ...

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        """Commit and wait: an error's name for each partition, empty for success; `TIMED_OUT` after `timeout_s`."""
        ...

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit without waiting; the answer comes to the listener in a later `poll`, unless it is not the latest."""
        ...

    def end_offset(self, partition: TopicPartition) -> int | None:
        """The end of the log as the latest answer told it; None while unknown. Costs no request."""
        ...

    def member_id(self) -> str:
        """The id that the group knows this member by; empty before it joined."""
        ...

    def lease(self, partition: TopicPartition) -> MemberLease:
        """The lease of a partition of this member; the group itself fences members of Kafka's protocols."""
        ...

    def close(self, timeout_s: float) -> None:
        """Leave the group and let go of connections; what takes longer than `timeout_s` continues in the background.

        With 0 the listener is told nothing more: another member may use it already.
        """
        ...


TRANSACTION_S = 15.0
"""For how long a transaction of a process that died stays open: readers of committed data wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRule:
    """How a member writes: its transactional id, its client id, and the limits of its records."""

    transactional_id: str
    client_id: str
    limits: BatchLimits


class TransactionalConsumer(GroupConsumer, Protocol):
    """A member of a group that writes records to its cluster and commits, both or neither."""

    def write_and_commit(
        self,
        topic: str,
        records: Sequence[OutgoingRecord],
        commits: Mapping[TopicPartition, CommittedOffset],
        timeout_s: float,
    ) -> str:
        """Write and commit in one transaction and wait for its end; empty for success, else why nothing was done.

        Brokers refuse it for a member that the group has left behind. Where it is not known whether it was done, the
        next `poll` raises `TryLaterError`: another member reads what was committed.
        """
        ...


class AssignedConsumer(Protocol):
    """Reads partitions that the caller chooses, and commits for a group without being its member.

    Brokers take such commits from any process while the group has no members, so the caller fences. All calls but
    `close` belong to one thread; those not described here are as in `GroupConsumer`.
    """

    def listen(self, listener: AssignmentListener) -> None:
        """Tell this listener the answers to `commit_later`."""
        ...

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, too, each from an offset on."""
        ...

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more."""
        ...

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, CommittedOffset | None]:
        """What the group committed, None for nothing; `TryLaterError` where no answer comes in time."""
        ...

    def start_offset(self, partition: TopicPartition, timeout_s: float) -> int:
        """Where the log begins; `TryLaterError` where no answer comes in time."""
        ...

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        """As in `GroupConsumer`."""
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """As in `GroupConsumer`."""
        ...

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """As in `GroupConsumer`."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """As in `GroupConsumer`."""
        ...

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        """As in `GroupConsumer`."""
        ...

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        """As in `GroupConsumer`."""
        ...

    def end_offset(self, partition: TopicPartition) -> int | None:
        """As in `GroupConsumer`."""
        ...

    def close(self, timeout_s: float) -> None:
        """Let go of connections; what takes longer than `timeout_s` continues in the background."""
        ...


Answer = tuple[Any, tuple[int, int, int] | NotDelivered]
"""The token that a record was sent with, and what became of it: parts of `core.records.DeliveredRecord`, or why not."""


class StreamProducer(Protocol):
    """An idempotent producer for one topic: acknowledged is what all in-sync replicas have."""

    answers: deque[Answer]
    """What `poll`, `purge` and `close` brought, each record once; the caller takes them out."""

    def send(self, record: SentRecord, token: object) -> bool:
        """Queue a record; False where the queue is full. Never waits.

        Raises `OperationFailedError` where the producer takes nothing more.
        """
        ...

    def poll(self, timeout_s: float) -> None:
        """Add the answers that came; waits for the first of them."""
        ...

    def purge(self) -> None:
        """Give up every record that has no answer; each is answered as UNANSWERED. Never waits."""
        ...

    def close(self) -> None:
        """Let go of connections. May wait as long as a cluster hangs."""
        ...

    @property
    def last_error(self) -> str | None:
        """What the client last complained about."""
        ...

    @property
    def figures(self) -> ConnectionFigures | None:
        """What the client counts, at most some seconds old."""
        ...


class StreamCluster(Protocol):
    """A way into one cluster."""

    def identify(self, topic: str, timeout_s: float) -> TopicIdentity:
        """Which cluster answers and which topic it has there; two requests.

        Raises `TryLaterError` when no broker answers in time, `OperationFailedError` when it refuses the answer.
        """
        ...

    def identify_all(self, topics: Collection[str], timeout_s: float) -> Mapping[str, TopicIdentity]:
        """What `identify` tells of each of these topics, with as many requests as for one."""
        ...

    def producer(self, topic: str, limits: BatchLimits, client_id: str) -> StreamProducer:
        """A new producer, which brokers see under this client id; it starts to connect and does not wait for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledRecords:
    """What a handler gets at once: a record, or a batch of one partition that begins at `offset`.

    `headers` are those of each record; `tries` is how often their handling failed before.
    """

    stream: str
    lane: str
    group: str
    partition: TopicPartition
    offset: int
    tries: int
    headers: Sequence[Sequence[tuple[str, bytes | None]]]
    is_batch: bool = False


class Spans(Protocol):
    """A tracer. No call raises for what a record holds, and none waits."""

    def created(self, stream: str, record: OutgoingRecord, lane: str) -> Headers:
        """Note that a record is handed over; the headers by which its readers know the trace."""
        ...

    def handling(self, records: HandledRecords) -> AbstractContextManager[object]:
        """A span around the handler, current for what it calls; an error that passes is noted in it."""
        ...
