"""What streams need from outside, as protocols: groups with their commits, and logs read raw.

The conventions of `kafkakit.ports` hold: answers are per item, and calls raise only when nothing can be had.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kafkakit.model import TopicPartition
from kafkakit.ports import ItemError


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
class GroupMember:
    """One member of a group and the partitions it holds, sorted."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group and its members, whichever protocol it speaks; a group that does not exist is DEAD."""

    group: str
    type: GroupType
    state: GroupState
    members: tuple[GroupMember, ...] = ()
    coordinator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a group committed for one partition; `metadata` is exactly as the broker stores it, a NUL included."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class GroupAdmin(Protocol):
    """Control of the consumer groups of one cluster. Cost: one request to each coordinator concerned."""

    def groups(self) -> tuple[GroupListing, ...]:
        """All groups of all coordinators, sorted by name; raises `TryLaterError` when a broker does not answer."""
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

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Commit for a group that has no members; the broker refuses for a live one (UNKNOWN_MEMBER_ID)."""
        ...

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Delete commits; the broker refuses for topics that the group is subscribed to."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


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
class Fetched:
    """Raw record batches of one partition as the broker sent them (the last may be cut), or why there are none.

    `records` starts with the batch that holds the offset asked for, so its first records may lie before it. The
    span is that of the answer; its members are -1 where the broker did not say. Neither records nor a span nor an
    error: the leader has not answered yet, and the next fetch from the same offset takes its answer.
    """

    records: bytes
    span: LogSpan
    error: ItemError | None = None

    @property
    def answered(self) -> bool:
        """Whether the leader has said anything; without that, nothing is known of the partition."""
        return self.error is not None or self.span.end >= 0


class LogReader(Protocol):
    """Raw reads of partitions, uncommitted data too. Calls raise `TryLaterError` when no broker can be reached.

    A reader follows leaders by itself: a partition whose leader moved answers once with a retriable error.
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

        A leader that is silent costs the caller 3 s once, and nothing until it speaks again.
        """
        ...

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        """The first offset whose record has this time or a later one, as the broker finds it; None: no such record."""
        ...

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, Fetched]:
        """Read from these offsets on: one request to each leader, side by side, back at the latest after `wait_ms`.

        Comes back earlier when a leader has brought records: other leaders' partitions may then be unanswered
        (`Fetched.answered`), and a leader that is slow or gone holds up nobody. `max_bytes` bounds each leader's
        answer and `partition_bytes` each partition's, but the first whole batch always comes. OFFSET_OUT_OF_RANGE,
        a leader that is gone, a topic that was created again (UNKNOWN_TOPIC_ID, once) stand in `Fetched.error`.
        """
        ...

    def ask_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        """Send what a `fetch` with these arguments would send, and come back at once.

        A later `fetch` from the same offsets takes the answers; so brokers work while the caller decodes. What cannot
        be asked is left to that fetch to tell.
        """
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...
