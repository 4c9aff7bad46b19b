"""What coordinators report of consumer groups, as values."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.model import TopicPartition


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
