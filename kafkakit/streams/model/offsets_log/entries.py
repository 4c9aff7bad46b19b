"""Records of `__consumer_offsets`, read in full, one by one: the readable decoder that the fast path is tested against.

A key says which offset a record is of, or what else it is; values are OffsetCommitValue v0 to v4. Primitive fields are
read with bounds: fixed numbers, strings, tagged fields. Source: the schemas of Kafka's group coordinator; the leading
int16 of a key is called version up to 3.9 and api key later.
"""

from dataclasses import dataclass

from kafkakit.streams.model.binary import VARINT, read_uvarint
from kafkakit.streams.model.commit import NO_TOPIC_ID, TOPIC_ID_BYTES


class MalformedError(ValueError):
    """A field does not fit its bytes; never leaves this package, where it becomes an `UndecodableEntry`."""


class Fields:
    """A cursor over the bytes of one key or value; every method raises `MalformedError` rather than read past the end.

    `flexible` chooses between the two encodings of strings: two-byte lengths, or varints that count from one (zero is
    null).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.flexible = False

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self.data) - self.at

    def take(self, size: int, name: str) -> bytes:
        """The next `size` bytes."""
        if size < 0 or size > self.left:
            raise MalformedError(f"{name} runs over the end")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, size: int, name: str) -> int:
        """A signed big-endian number."""
        return int.from_bytes(self.take(size, name), "big", signed=True)

    def uvarint(self, name: str) -> int:
        """An unsigned varint of at most 32 bits."""
        value, after = read_uvarint(self.data, self.at, len(self.data))
        if after < 0:
            raise MalformedError(f"{name} runs over the end" if self.left < VARINT else f"{name} has an endless length")
        self.at = after
        return value

    def raw(self, name: str) -> bytes | None:
        """Bytes with their length, None for null."""
        size = self.uvarint(name) - 1 if self.flexible else self.integer(2, name)
        if size < -1:
            raise MalformedError(f"{name} has a negative length")
        return None if size < 0 else self.take(size, name)

    def text(self, name: str) -> str:
        """A string that may not be null."""
        data = self.raw(name)
        if data is None:
            raise MalformedError(f"{name} is null")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MalformedError(f"{name} is not UTF-8") from None

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields that close a flexible structure; none where it is not flexible."""
        found: dict[int, bytes] = {}
        if self.flexible:
            name = "tagged fields"
            for _ in range(self.uvarint(name)):
                tag = self.uvarint(name)
                found[tag] = self.take(self.uvarint(name), name)
        return found


OFFSET_TYPES = frozenset({0, 1})
GROUP_TYPES = frozenset({*range(2, 18), 24})
"""The key types of groups, their members and assignments; 18 to 23 moved during development and count as unknown."""


@dataclass(frozen=True, slots=True)
class UndecodableEntry:
    """A key or value that cannot be read, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class OpaqueEntry:
    """A record of any key type but those of offsets: counted, not read."""

    type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """A decoded key of an offset."""

    group: str
    topic: str
    partition: int


def decode_key(key: bytes | None) -> LogKey | OpaqueEntry | UndecodableEntry:
    """Read a key of any type; never raises.

    Bytes after the partition are refused: two keys would name one partition.
    """
    if key is None:
        return UndecodableEntry("no key")
    fields = Fields(key)
    try:
        number = fields.integer(2, "key type")
        if number not in OFFSET_TYPES:
            return OpaqueEntry(number)
        group = fields.text("group")
        topic = fields.text("topic")
        partition = fields.integer(4, "partition")
    except MalformedError as fault:
        return UndecodableEntry(str(fault))
    if partition < 0:
        return UndecodableEntry("a negative partition")
    if fields.left:
        return UndecodableEntry("bytes after the partition")
    return LogKey(group=group, topic=topic, partition=partition)


OFFSET_KEY = b"\x00\x01"


def offset_key(key: bytes) -> bytes:
    """A key of an offset as type 1 has it: type 0 has the same fields, and names the same offset."""
    return key if key[:2] == OFFSET_KEY else OFFSET_KEY + key[2:]


NEWEST_VERSION = 4
PLAUSIBLE_MS = range(1_000_000_000_000, 10_000_000_000_000)
"""2001 to 2286: what a commit time must be before an unknown version's fields are trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedValue:
    """What was committed. `metadata` is as stored, a NUL included; `committed_ms` is the coordinator's clock.

    `committed_ms` and `leader_epoch` are -1 and `topic_id` all zero where the record has none.
    """

    offset: int
    committed_ms: int = -1
    leader_epoch: int = -1
    topic_id: bytes = NO_TOPIC_ID
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit(CommittedValue):
    """A committed offset as the value of a record of this version has it."""

    version: int
    expires_ms: int | None = None


def decode_offset_commit(value: bytes) -> OffsetCommit | UndecodableEntry:
    """Read an OffsetCommitValue; never raises.

    A version above 4 is read as 4 and trusted only when every field is plausible and nothing is left over; by
    Kafka's own rule (KIP-915) such a version adds tagged fields alone.
    """
    fields = Fields(value)
    version = -1
    try:
        version = fields.integer(2, "value version")
        if version < 0:
            return UndecodableEntry(f"value version {version}")
        commit = _commit(fields, version)
    except MalformedError as fault:
        return UndecodableEntry(str(fault) if version <= NEWEST_VERSION else f"value version {version}")
    if version > NEWEST_VERSION and (fields.left or commit.committed_ms not in PLAUSIBLE_MS or commit.offset < 0):
        return UndecodableEntry(f"value version {version}")
    return commit if commit.offset >= 0 else UndecodableEntry("a negative offset")


def _commit(fields: Fields, version: int) -> OffsetCommit:
    offset = fields.integer(8, "offset")
    leader_epoch = fields.integer(4, "leader epoch") if version >= 3 else -1
    fields.flexible = version >= 4
    metadata = fields.raw("metadata") or b""
    committed_ms = fields.integer(8, "commit time")
    expires_ms = fields.integer(8, "expiry time") if version == 1 else None
    topic_id = fields.tagged().get(0, NO_TOPIC_ID)
    if len(topic_id) != TOPIC_ID_BYTES:
        raise MalformedError("a topic id that is not 16 bytes long")
    return OffsetCommit(
        version=version,
        offset=offset,
        committed_ms=committed_ms,
        metadata=metadata,
        leader_epoch=leader_epoch,
        expires_ms=expires_ms,
        topic_id=topic_id,
    )


@dataclass(frozen=True, slots=True)
class OffsetsEntry:
    """An offset's record with both halves decoded; `value` is None for a tombstone.

    A tombstone says that this one offset expired or was deleted, or that its topic was.
    """

    key: LogKey
    value: OffsetCommit | None


def decode_entry(key: bytes | None, value: bytes | None) -> OffsetsEntry | OpaqueEntry | UndecodableEntry:
    """Read a record of any type and version; never raises. Costs some microseconds."""
    decoded = decode_key(key)
    if not isinstance(decoded, LogKey):
        return decoded
    found = None if value is None else decode_offset_commit(value)
    return found if isinstance(found, UndecodableEntry) else OffsetsEntry(decoded, found)
