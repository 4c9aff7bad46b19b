"""Keys of `__consumer_offsets`: what kind of record it is, and of which group.

Source: the key schemas of Kafka's group coordinator; the leading int16 is called version up to 3.9 and api key later.
"""

from dataclasses import dataclass
from enum import IntEnum

from kafkakit.streams.formats.offsets_log.fields import Fields, MalformedError


class KeyType(IntEnum):
    """The leading number of a key. Streams' numbers moved during development, so 18 to 23 are counted, not read."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER = 5
    CONSUMER_GROUP_TARGET_METADATA = 6
    CONSUMER_GROUP_TARGET_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER = 8
    SHARE_GROUP_PARTITION_METADATA = 9
    SHARE_GROUP_MEMBER = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_METADATA = 12
    SHARE_GROUP_TARGET_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER = 14
    SHARE_GROUP_STATE_METADATA = 15
    CONSUMER_GROUP_REGEX = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_18 = 18
    STREAMS_19 = 19
    STREAMS_20 = 20
    STREAMS_21 = 21
    STREAMS_22 = 22
    STREAMS_23 = 23
    STREAMS_GROUP_RESOLVED_TOPICS = 24


OFFSET_TYPES = frozenset({KeyType.LEGACY_OFFSET_COMMIT, KeyType.OFFSET_COMMIT})
MEMBER_TYPES = frozenset(
    {
        KeyType.CONSUMER_GROUP_MEMBER,
        KeyType.CONSUMER_GROUP_TARGET_MEMBER,
        KeyType.CONSUMER_GROUP_CURRENT_MEMBER,
        KeyType.SHARE_GROUP_MEMBER,
        KeyType.SHARE_GROUP_TARGET_MEMBER,
        KeyType.SHARE_GROUP_CURRENT_MEMBER,
    }
)
READ_TYPES = frozenset(KeyType) - frozenset(range(KeyType.STREAMS_18, KeyType.STREAMS_GROUP_RESOLVED_TOPICS))
"""The key types that are decoded; all others are `Opaque`."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A key or value that cannot be read, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A record of a key type that is known not to be read, or not known at all; counted, never guessed at."""

    type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """A decoded key; `topic` and `partition` belong to offsets, `member` to records of one member."""

    type: KeyType
    group: str
    topic: str = ""
    partition: int = -1
    member: str = ""
    regex: str = ""


def decode_key(key: bytes | None) -> LogKey | Opaque | Undecodable:
    """Read a key of any type; never raises.

    Bytes after the last field may be a later schema's and are let be; not so in keys of offsets, where two keys
    would name one partition.
    """
    if key is None:
        return Undecodable("no key")
    fields = Fields(key)
    try:
        number = fields.integer(2, "key type")
        if number not in READ_TYPES:
            return Opaque(number)
        kind = KeyType(number)
        group = fields.text("group")
        if kind in OFFSET_TYPES:
            topic = fields.text("topic")
            partition = fields.integer(4, "partition")
            if partition < 0:
                return Undecodable("a negative partition")
            if fields.left:
                return Undecodable("bytes after the partition")
            return LogKey(type=kind, group=group, topic=topic, partition=partition)
        if kind in MEMBER_TYPES:
            return LogKey(type=kind, group=group, member=fields.text("member"))
        if kind is KeyType.CONSUMER_GROUP_REGEX:
            return LogKey(type=kind, group=group, regex=fields.text("regex"))
    except MalformedError as fault:
        return Undecodable(str(fault))
    return LogKey(type=kind, group=group)


OFFSET_KEY = b"\x00\x01"


def offset_key(key: bytes) -> bytes:
    """A key of an offset as type 1 has it: type 0 has the same fields, and names the same offset."""
    return key if key[:2] == OFFSET_KEY else OFFSET_KEY + key[2:]
