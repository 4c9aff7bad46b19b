"""Consumer groups in memory, with the contract of `streams.ports.GroupAdmin` (tests/streams_contract.py).

A test arranges with `add_topic`, `add_group`, `seed` and the sets of faults; whatever the code under test
does goes through the port's own methods, and `commits` and `forgotten` remember it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import (
    AnsweredGroups,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    ItemError,
    ShareOffset,
)
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition

DEFAULT_LIMIT = 4096
COORDINATOR = 1
ItemResult = ItemError | None

UNKNOWN_TOPIC = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
NOT_TEXT = ItemError(name="InvalidRequestError", message="the metadata is not valid Unicode text")
UNKNOWN_MEMBER = ItemError(name="UnknownMemberIdError")
TOO_LARGE = ItemError(name="OffsetMetadataTooLargeError")
UNSTABLE = ItemError(name="UnstableOffsetCommitError", retriable=True)
SUBSCRIBED = ItemError(name="GroupSubscribedToTopicError")
NOT_EMPTY = ItemError(name="NonEmptyGroupError")
NO_SUCH_GROUP = ItemError(name="GroupIdNotFoundError")
DOWN = ItemError(name="CoordinatorNotAvailableError", message="the coordinator does not answer", retriable=True)


@dataclass(kw_only=True)
class FakeGroup:
    """What a coordinator holds of a group; `pending` are partitions in an open transaction."""

    type: GroupType = GroupType.CLASSIC
    state: GroupState = GroupState.EMPTY
    members: tuple[GroupMember, ...] = ()
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    pending: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    shares: tuple[ShareOffset, ...] = ()
    had_members: bool = False

    @property
    def live(self) -> bool:
        return bool(self.members)


class FakeGroups:
    """`GroupAdmin` in memory.

    `limit` is the broker's `offset.metadata.max.bytes`. `unreachable` makes every call raise; groups in `lost`
    have a coordinator that does not answer. `on_commit` is called before a commit is judged, so that a test can
    let a member join in between.
    """

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.unreachable = False
        self.lost: set[str] = set()
        self.on_commit: Callable[[str], object] | None = None
        self.commits: list[tuple[str, dict[TopicPartition, CommittedOffset]]] = []
        self.forgotten: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.deleted: list[str] = []
        self.closed = False
        self._groups: dict[str, FakeGroup] = {}
        self._partitions: set[TopicPartition] = set()

    def add_topic(self, name: str, partitions: int = 1) -> None:
        """Make partitions known; offsets of others are refused."""
        self._partitions |= {TopicPartition(name, number) for number in range(partitions)}

    def add_group(
        self,
        group: str,
        *,
        kind: GroupType = GroupType.CLASSIC,
        members: Iterable[GroupMember] = (),
        state: GroupState | None = None,
    ) -> FakeGroup:
        """Add a group; its state is STABLE with members and EMPTY without, unless given."""
        held = tuple(members)
        found = FakeGroup(type=kind, members=held, state=state or (GroupState.STABLE if held else GroupState.EMPTY))
        self._groups[group] = found
        return found

    def seed(self, group: str, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Store a commit as a member made it; the topic becomes known."""
        self._partitions.add(partition)
        held = self._groups.get(group) or self.add_group(group)
        held.offsets[partition] = CommittedOffset(offset=offset, metadata=metadata)

    def join(self, group: str, *partitions: TopicPartition, client_id: str = "app") -> None:
        """Let a member join that holds these partitions."""
        held = self._groups.get(group) or self.add_group(group)
        name = f"{client_id}-{len(held.members)}"
        member = GroupMember(
            member_id=name, client_id=client_id, host="/127.0.0.1", partitions=tuple(sorted(partitions))
        )
        held.members, held.had_members = (*held.members, member), True
        if held.type is GroupType.SHARE:
            held.shares = tuple(ShareOffset(place=place, start=0, lag=0) for place in member.partitions)
        held.state = GroupState.STABLE

    def rebalance(self, group: str) -> None:
        """Let a group with members share out its partitions again, which does not end."""
        self._groups[group].state = GroupState.PREPARING

    def append(self, partition: TopicPartition, count: int) -> None:
        """Let share groups see new records: members accept them at once."""
        for held in self._groups.values():
            held.shares = tuple(
                _delivered(one, held.live, count) if one.place == partition else one for one in held.shares
            )

    def leave(self, group: str) -> None:
        """Let all members of a group leave."""
        self._groups[group].members = ()
        self._groups[group].state = GroupState.EMPTY

    def open_transaction(self, group: str, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Commit inside a transaction that stays open until `end_transaction`."""
        held = self._groups.get(group) or self.add_group(group)
        held.pending[partition] = CommittedOffset(offset=offset, metadata=metadata)

    def end_transaction(self, group: str, *, commit: bool) -> None:
        """End the open transaction of a group."""
        held = self._groups[group]
        if commit:
            held.offsets |= held.pending
        held.pending = {}

    def groups(self) -> tuple[GroupListing, ...]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        if self.lost:
            raise TryLaterError("broker 1 does not answer")
        return tuple(
            GroupListing(group=name, type=held.type, state=held.state) for name, held in sorted(self._groups.items())
        )

    def answered_groups(self) -> AnsweredGroups:
        """See `streams.ports.GroupAdmin`: the broker of lost groups is 1."""
        self._reach()
        found = tuple(
            GroupListing(group=name, type=held.type, state=held.state)
            for name, held in sorted(self._groups.items())
            if name not in self.lost
        )
        return AnsweredGroups(groups=found, silent={1: ItemError(name="NodeNotReadyError")} if self.lost else {})

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        return {name: self._described(name) for name in sorted(set(groups))}

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        if group in self.lost:
            raise TryLaterError(f"the coordinator of group {group} does not answer")
        held = self._groups.get(group, FakeGroup())
        found: dict[TopicPartition, CommittedOffset | ItemError] = dict(held.offsets)
        if stable:
            found |= dict.fromkeys(held.pending, UNSTABLE)
        wanted = set(found) if partitions is None else set(partitions)
        return {key: found[key] for key in sorted(wanted & set(found))}

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        return {
            name: DOWN if name in self.lost else FakeGroups.committed(self, name, partitions, stable=stable)
            for name in sorted(set(groups))
        }

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemResult]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        if self.on_commit is not None:
            self.on_commit(group)
        held = self._groups.get(group, FakeGroup())
        told = {key: self._judged(group, held, key, offset) for key, offset in sorted(offsets.items())}
        written = {key: offsets[key] for key, error in told.items() if error is None}
        if written:
            self._groups[group] = held
            held.offsets |= written
            self.commits.append((group, written))
        return told

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        wanted = sorted(set(partitions))
        if group in self.lost:
            return dict.fromkeys(wanted, DOWN)
        held = self._groups.get(group)
        if held is None or held.type is GroupType.SHARE:
            return dict.fromkeys(wanted, NO_SUCH_GROUP)
        subscribed = {key.topic for member in held.members for key in member.partitions}
        told: dict[TopicPartition, ItemResult] = {
            key: SUBSCRIBED if key.topic in subscribed else None if key in self._partitions else UNKNOWN_TOPIC
            for key in wanted
        }
        gone = tuple(key for key, error in told.items() if error is None)
        for key in gone:
            held.offsets.pop(key, None)
        if gone:
            self.forgotten.append((group, gone))
        return told

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        found: dict[str, tuple[ShareOffset, ...] | ItemError] = {}
        for name in sorted(set(groups)):
            held = self._groups.get(name)
            found[name] = DOWN if name in self.lost else held.shares if held is not None else ()
        return found

    def delete(self, group: str) -> ItemResult:
        """See `streams.ports.GroupAdmin`."""
        self._reach()
        if group in self.lost:
            return DOWN
        held = self._groups.get(group)
        if held is None:
            return NO_SUCH_GROUP
        if held.live:
            return NOT_EMPTY
        del self._groups[group]
        self.deleted.append(group)
        return None

    def close(self) -> None:
        """See `streams.ports.GroupAdmin`."""
        self.closed = True

    def _reach(self) -> None:
        if self.unreachable:
            raise TryLaterError("cannot connect to the fake cluster")

    def _described(self, group: str) -> GroupDescription | ItemError:
        if group in self.lost:
            return DOWN
        held = self._groups.get(group)
        if held is None:
            return GroupDescription(group=group, type=GroupType.UNKNOWN, state=GroupState.DEAD)
        return GroupDescription(
            group=group, type=held.type, state=held.state, members=held.members, coordinator=COORDINATOR,
            had_members=held.had_members or held.live,
        )  # fmt: skip

    def _judged(self, group: str, held: FakeGroup, key: TopicPartition, offset: CommittedOffset) -> ItemResult:
        if group in self.lost:
            return DOWN
        if key not in self._partitions:
            return UNKNOWN_TOPIC
        if any("\ud800" <= char <= "\udfff" for char in offset.metadata):
            return NOT_TEXT
        if utf16_units(offset.metadata) > self.limit:
            return TOO_LARGE
        if held.type is GroupType.SHARE:
            return NO_SUCH_GROUP
        return UNKNOWN_MEMBER if held.live else None


def _delivered(stands: ShareOffset, live: bool, count: int) -> ShareOffset:
    if live:
        return replace(stands, start=(stands.start or 0) + count)
    return replace(stands, lag=(stands.lag or 0) + count)


def utf16_units(text: str) -> int:
    """Length as Kafka's brokers count it: a character outside the basic plane is two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
