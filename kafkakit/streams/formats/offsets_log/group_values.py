"""What `__consumer_offsets` says of groups: classic ones, those of KIP-848, share and streams groups.

Field orders are those of the schemas of Kafka's group coordinator. Unknown tagged fields and what follows the last
known field are let be; a version that is not listed here is not guessed at.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafkakit.streams.formats.identity import TOPIC_ID_BYTES
from kafkakit.streams.formats.offsets_log.fields import Fields, MalformedError
from kafkakit.streams.formats.offsets_log.keys import KeyType, Undecodable

NEWEST_CLASSIC_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a classic group; `partitions` counts its assignment, None where it is no consumer's."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    session_timeout_ms: int = -1
    rebalance_timeout_ms: int = -1
    partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """GroupMetadataValue v0 to v4; `state_ms` is when the group's state changed last, -1 before v2."""

    version: int
    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    state_ms: int = -1
    members: tuple[ClassicMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The epoch of a newer group (keys 3, 11, 17), or that of its target assignment (6, 12)."""

    epoch: int
    created_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """A member of a KIP-848 or share group (keys 5, 10)."""

    client_id: str
    host: str
    instance_id: str | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    regex: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """What a member has or shall have (keys 7, 8, 13, 14): topic ids with their partitions; epochs -1 in a target."""

    assigned: tuple[tuple[bytes, tuple[int, ...]], ...]
    epoch: int = -1
    previous_epoch: int = -1
    state: int = -1
    revoking: tuple[tuple[bytes, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTopics:
    """The topics that a record lists: subscribed ones (4), those that a regex means (16)."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """A record of a known kind whose value is not needed here (keys 9, 15, 24): its fields changed within a version."""


GroupValue = ClassicGroup | GroupEpoch | NewMember | MemberAssignment | GroupTopics | Unread


def decode_group_value(kind: KeyType, value: bytes) -> GroupValue | Undecodable:
    """Read the value of any key type but those of offsets; never raises."""
    read = _READERS.get(kind)
    if read is None:
        return Unread()
    fields = Fields(value)
    try:
        version = fields.integer(2, "value version")
        newest = NEWEST_CLASSIC_VERSION if kind is KeyType.GROUP_METADATA else 0
        if not 0 <= version <= newest:
            return Undecodable(f"value version {version}")
        return _classic(fields, version) if kind is KeyType.GROUP_METADATA else read(fields)
    except MalformedError as fault:
        return Undecodable(str(fault))


def _classic(fields: Fields, version: int = 0) -> ClassicGroup:
    fields.flexible = version >= 4
    protocol_type = fields.text("protocol type")
    generation = fields.integer(4, "generation")
    protocol = fields.nullable_text("protocol")
    leader = fields.nullable_text("leader")
    state_ms = fields.integer(8, "state time") if version >= 2 else -1
    is_consumer = protocol_type == "consumer"
    return ClassicGroup(
        version=version,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_ms=state_ms,
        members=fields.array(lambda: _classic_member(fields, version, is_consumer), "members"),
    )


def _classic_member(fields: Fields, version: int, is_consumer: bool) -> ClassicMember:
    member_id = fields.text("member id")
    instance_id = fields.nullable_text("instance id") if version >= 3 else None
    client_id = fields.text("client id")
    host = fields.text("host")
    rebalance_timeout_ms = fields.integer(4, "rebalance timeout") if version >= 1 else -1
    session_timeout_ms = fields.integer(4, "session timeout")
    fields.raw("subscription")
    assignment = fields.raw("assignment") or b""
    fields.tagged()
    return ClassicMember(
        member_id=member_id,
        client_id=client_id,
        host=host,
        instance_id=instance_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        partitions=count_assignment(assignment) if is_consumer else None,
    )


def count_assignment(assignment: bytes) -> int | None:
    """How many partitions an assignment of the consumer protocol holds; empty is 0, None for anything else."""
    if not assignment:
        return 0
    fields = Fields(assignment)
    try:
        fields.integer(2, "version")
        return sum(fields.array(lambda: _count_topic(fields), "topics"))
    except MalformedError:
        return None


def _count_topic(fields: Fields) -> int:
    fields.raw("topic", 2)
    return len(fields.array(lambda: fields.integer(4, "partition"), "partitions"))


def _epoch(fields: Fields) -> GroupEpoch:
    fields.flexible = True
    return GroupEpoch(epoch=fields.integer(4, "epoch"))


def _consumer_epoch(fields: Fields) -> GroupEpoch:
    fields.flexible = True
    epoch = fields.integer(4, "epoch")
    created = fields.tagged().get(1, b"")
    return GroupEpoch(epoch=epoch, created_ms=int.from_bytes(created, "big", signed=True) if len(created) == 8 else -1)


def _consumer_member(fields: Fields) -> NewMember:
    fields.flexible = True
    instance_id = fields.nullable_text("instance id")
    rack = fields.nullable_text("rack")
    client_id = fields.text("client id")
    host = fields.text("host")
    topics = fields.array(lambda: fields.text("topic"), "topics")
    regex = fields.nullable_text("regex")
    return NewMember(
        client_id=client_id, host=host, instance_id=instance_id, rack=rack, topics=topics, regex=regex
    )  # fmt: skip


def _share_member(fields: Fields) -> NewMember:
    fields.flexible = True
    rack = fields.nullable_text("rack")
    client_id = fields.text("client id")
    host = fields.text("host")
    return NewMember(
        client_id=client_id, host=host, rack=rack, topics=fields.array(lambda: fields.text("topic"), "topics")
    )  # fmt: skip


def _places(fields: Fields) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    def place() -> tuple[bytes, tuple[int, ...]]:
        topic_id = fields.take(TOPIC_ID_BYTES, "topic id")
        partitions = fields.array(lambda: fields.integer(4, "partition"), "partitions")
        fields.tagged()
        return topic_id, partitions

    return fields.array(place, "topics")


def _target(fields: Fields) -> MemberAssignment:
    fields.flexible = True
    return MemberAssignment(assigned=_places(fields))


def _current(fields: Fields, *, revokes: bool) -> MemberAssignment:
    fields.flexible = True
    return MemberAssignment(
        epoch=fields.integer(4, "member epoch"),
        previous_epoch=fields.integer(4, "previous epoch"),
        state=fields.integer(1, "state"),
        assigned=_places(fields),
        revoking=_places(fields) if revokes else (),
    )


def _topic_metadata(fields: Fields) -> str:
    """One topic of key 4, with the racks of its partitions."""
    fields.take(TOPIC_ID_BYTES, "topic id")
    name = fields.text("topic")
    fields.integer(4, "partition count")

    def racks() -> None:
        fields.integer(4, "partition")
        fields.array(lambda: fields.text("rack"), "racks")
        fields.tagged()

    fields.array(racks, "partition racks")
    fields.tagged()
    return name


def _consumer_topics(fields: Fields) -> GroupTopics:
    fields.flexible = True
    return GroupTopics(topics=fields.array(lambda: _topic_metadata(fields), "topics"))


def _regex_topics(fields: Fields) -> GroupTopics:
    fields.flexible = True
    return GroupTopics(topics=fields.array(lambda: fields.text("topic"), "topics"))


_READERS: dict[KeyType, Callable[[Fields], GroupValue]] = {
    KeyType.GROUP_METADATA: _classic,
    KeyType.CONSUMER_GROUP_METADATA: _consumer_epoch,
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: _consumer_topics,
    KeyType.CONSUMER_GROUP_MEMBER: _consumer_member,
    KeyType.CONSUMER_GROUP_TARGET_METADATA: _epoch,
    KeyType.CONSUMER_GROUP_TARGET_MEMBER: _target,
    KeyType.CONSUMER_GROUP_CURRENT_MEMBER: lambda fields: _current(fields, revokes=True),
    KeyType.SHARE_GROUP_MEMBER: _share_member,
    KeyType.SHARE_GROUP_METADATA: _epoch,
    KeyType.SHARE_GROUP_TARGET_METADATA: _epoch,
    KeyType.SHARE_GROUP_TARGET_MEMBER: _target,
    KeyType.SHARE_GROUP_CURRENT_MEMBER: lambda fields: _current(fields, revokes=False),
    KeyType.CONSUMER_GROUP_REGEX: _regex_topics,
    KeyType.STREAMS_GROUP_METADATA: _epoch,
}
