"""Records in and out of a cluster, logs of partitions read raw, consumer groups and their commits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from kafkakit.core.cluster_facts import (
    AnsweredGroups,
    CommittedOffset,
    FetchedBatches,
    GroupDescription,
    GroupListing,
    ItemError,
    LogSpan,
    ShareOffset,
    TopicPlaces,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.admin import ClusterAdmin

Headers = Sequence[tuple[str, bytes | None]]


class DurableProducer(Protocol):
    """Writes records that count only when all in-sync replicas have them (acks=all, no duplicates)."""

    def send(
        self, partition: TopicPartition, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
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

    def ended(self) -> Collection[TopicPartition]:
        """The partitions of which everything was given out that they held at some time since."""
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

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> DurableProducer:
        """A producer; `on_acknowledged` is called from `send` and `flush`, never from another thread."""
        ...

    def consumer(
        self, partitions: Collection[TopicPartition], offsets: Mapping[TopicPartition, int] | None = None
    ) -> Consumer:
        """A consumer that reads the partitions from these offsets, or their first one; committed records alone."""
        ...


class LogReader(Protocol):
    """Raw reads of partitions, uncommitted data too unless it was opened for committed data.

    Calls raise `TryLaterError` when no broker can be reached. A reader follows leaders by itself: a partition whose
    leader moved answers once with a retriable error.
    """

    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        """Ids and leaders of topics (None: all, internal ones too); a topic that does not exist is absent.

        So is one that this user may not see; but `OperationFailedError` is raised where all that were named are such.
        """
        ...

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        """First, stable and end offsets; three requests to each leader (for 20,000 partitions), side by side.

        A leader that is silent costs the caller 3 s once, and nothing until it answers again.
        """
        ...

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        """The first offset whose record has this time or a later one, as the broker finds it; None: no such record."""
        ...

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, FetchedBatches]:
        """Read from these offsets on: one request to each leader, side by side, back at the latest after `wait_ms`.

        Comes back earlier when a leader has brought records: other leaders' partitions may then be unanswered
        (`FetchedBatches.answered`), and a leader that is slow or gone delays no other. `max_bytes` bounds each leader's
        answer and `partition_bytes` each partition's, but the first whole batch always comes. OFFSET_OUT_OF_RANGE,
        a leader that is gone, a topic that was created again (UNKNOWN_TOPIC_ID, once) are in `FetchedBatches.error`.
        """
        ...

    def request_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        """Send what a `fetch` with these arguments would send, and come back at once.

        A later `fetch` from the same offsets takes the answers; so brokers work while the caller decodes. What cannot
        be requested is reported by that fetch.
        """
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class GroupAdmin(Protocol):
    """Control of the consumer groups of one cluster. Cost: one request to each coordinator concerned."""

    def groups(self) -> tuple[GroupListing, ...]:
        """All groups of all coordinators, sorted by name; raises `TryLaterError` when a broker does not answer."""
        ...

    def answered_groups(self) -> AnsweredGroups:
        """As `groups`, without those that a broker without an answer coordinates; raises where none answers."""
        ...

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """The named groups; groups of the newer protocols are described by their own request, never called dead."""
        ...

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        """What the group committed (None: everything); partitions without a commit are absent.

        With `stable` a partition in an open transaction answers UNSTABLE_OFFSET_COMMIT instead of its older commit.
        """
        ...

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        """What each of many groups committed for these partitions, as `committed` tells it of one; no share groups.

        An error stands for a group that is not read. Cost: one request to each coordinator for up to 500 groups.
        """
        ...

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Commit for a group that has no members; the broker refuses for a live one (UNKNOWN_MEMBER_ID)."""
        ...

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Delete commits; the broker refuses for topics that the group is subscribed to."""
        ...

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        """Where share groups stand, sorted by partition; empty for other groups and for those that have not begun."""
        ...

    def delete(self, group: str) -> ItemError | None:
        """Delete a group with all its commits; the broker refuses for a live one (NonEmptyGroupError)."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class ClusterClients(Protocol):
    """The clients of one cluster; each connects on first use, and who opened them closes them."""

    @property
    def admin(self) -> ClusterAdmin:
        """The control side."""
        ...

    @property
    def groups(self) -> GroupAdmin:
        """The consumer groups."""
        ...

    @property
    def log(self) -> LogReader:
        """Raw reads of logs."""
        ...

    @property
    def data(self) -> DataPlane:
        """Records in and out."""
        ...
