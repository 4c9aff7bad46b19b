"""Keys of `__consumer_offsets`: which offset a record is of, or what else it is.

Source: the key schemas of Kafka's group coordinator; the leading int16 is called version up to 3.9 and api key later.
"""

from dataclasses import dataclass

from kafkakit.streams.formats.offsets_log.fields import Fields, MalformedError

OFFSET_TYPES = frozenset({0, 1})
GROUP_TYPES = frozenset({*range(2, 18), 24})
"""The key types of groups, their members and assignments; 18 to 23 moved during development and count as unknown."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A key or value that cannot be read, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A record of any key type but those of offsets: counted, not read."""

    type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """A decoded key of an offset."""

    group: str
    topic: str
    partition: int


def decode_key(key: bytes | None) -> LogKey | Opaque | Undecodable:
    """Read a key of any type; never raises.

    Bytes after the partition are refused: two keys would name one partition.
    """
    if key is None:
        return Undecodable("no key")
    fields = Fields(key)
    try:
        number = fields.integer(2, "key type")
        if number not in OFFSET_TYPES:
            return Opaque(number)
        group = fields.text("group")
        topic = fields.text("topic")
        partition = fields.integer(4, "partition")
    except MalformedError as fault:
        return Undecodable(str(fault))
    if partition < 0:
        return Undecodable("a negative partition")
    if fields.left:
        return Undecodable("bytes after the partition")
    return LogKey(group=group, topic=topic, partition=partition)


OFFSET_KEY = b"\x00\x01"


def offset_key(key: bytes) -> bytes:
    """A key of an offset as type 1 has it: type 0 has the same fields, and names the same offset."""
    return key if key[:2] == OFFSET_KEY else OFFSET_KEY + key[2:]
