"""The header that names a record wherever it is copied to, and the two sides of a dual write compared by it.

`kafkakit-id` has 17 bytes in version 1:

    byte 0       version, 1
    bytes 1-6    time, ms of UTC, 48 bits, big endian
    bytes 7-8    0111 (UUID version 7), then bits 41-30 of the session
    bytes 9-12   10 (UUID variant), then bits 29-0 of the session
    bytes 13-16  sequence, 32 bits, big endian

Bytes 1 to 16 are a UUIDv7. A session is one start of a producer, named by 42 random bits; its records are numbered from
0, so that two ids are equal for copies of one record alone, and sort by time, session and number. A record that is sent
again keeps its id. Readers leave other versions and lengths alone.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from kafkakit.core.errors import UsageError
from kafkakit.core.records import Headers

HEADER = "kafkakit-id"
VERSION = 1
LENGTH = 17
TIME_BITS, SESSION_BITS, SEQUENCE_BITS = 48, 42, 32
_LOW_BITS = 30
_LOW = (1 << _LOW_BITS) - 1
_SEQUENCE = (1 << SEQUENCE_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RecordId:
    """The identity of a record; `at_ms` is when it was made, in ms of UTC.

    `ValueError` for a part that its bits do not hold. A session that has used all its sequence numbers ends.
    """

    at_ms: int
    session: int
    sequence: int

    def __post_init__(self) -> None:
        parts = (("at_ms", TIME_BITS), ("session", SESSION_BITS), ("sequence", SEQUENCE_BITS))
        for name, bits in parts:
            if not 0 <= getattr(self, name) < 1 << bits:
                raise ValueError(f"{name} {getattr(self, name)} is not a number of {bits} bits")


def session_of(random: bytes) -> int:
    """A session's number from 6 random bytes or more."""
    if len(random) < 6:
        raise ValueError(f"{len(random)} random bytes, 6 are needed")
    return int.from_bytes(random[:6], "big") >> (48 - SESSION_BITS)


def encode_record_id(identity: RecordId) -> bytes:
    """The header's value."""
    return identity_prefix(identity.at_ms, identity.session) + identity.sequence.to_bytes(4, "big")


def identity_prefix(at_ms: int, session: int) -> bytes:
    """All of the header's value but the sequence, its last four bytes."""
    number = at_ms << 48 | 7 << 44 | session >> _LOW_BITS << 32 | 2 << _LOW_BITS | session & _LOW
    return bytes((VERSION,)) + number.to_bytes(12, "big")


def decode_record_id(value: bytes) -> RecordId | None:
    """The identity that a header's value holds; None for a value that is not of this version."""
    if len(value) != LENGTH or value[0] != VERSION:
        return None
    number = int.from_bytes(value[1:], "big")
    if number >> 76 & 0xF != 7 or number >> 62 & 3 != 2:
        return None
    session = (number >> 64 & 0xFFF) << _LOW_BITS | number >> SEQUENCE_BITS & _LOW
    return RecordId(at_ms=number >> 80, session=session, sequence=number & _SEQUENCE)


def format_record_id(identity: RecordId) -> str:
    """The identity as the text of a UUID, as tables and reports hold it; texts sort as identities do."""
    digits = encode_record_id(identity)[1:].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


EXAMPLES = 10


class SeenRecord(NamedTuple):
    """One record of a side: the value of its id's header, and a hash of its key."""

    identity: bytes
    key_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCount:
    """What one side holds of the range: records, different ids, and records that are there again."""

    records: int
    identities: int
    duplicates: int
    without_identity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How the secondary differs from the primary; examples are ids as UUIDs, at most 10 of each, in order of time."""

    primary: SideCount
    secondary: SideCount
    missing: int
    extra: int
    other_key: int
    examples_missing: tuple[str, ...]
    examples_extra: tuple[str, ...]
    examples_other_key: tuple[str, ...]

    @property
    def both(self) -> int:
        """How many ids are on both sides."""
        return self.primary.identities - self.missing

    @property
    def is_equal(self) -> bool:
        """True where each record of either side is on the other; duplicates are no difference."""
        return not (self.missing or self.extra or self.other_key)


def seen_record(headers: Headers, key: bytes | None) -> SeenRecord | None:
    """A record as it is compared; None for one without an id that can be read."""
    value = next((value for name, value in headers if name == HEADER), None)
    if value is None or decode_record_id(value) is None:
        return None
    return SeenRecord(value, -1 if key is None else crc32(key))


def reconcile(
    primary: Iterable[SeenRecord | None], secondary: Iterable[SeenRecord | None], from_ms: int, to_ms: int
) -> Reconciliation:
    """Compare the records whose ids were made from `from_ms` to before `to_ms`; about 300 bytes of memory a record.

    Read both sides some time beyond the range: a record is written after its id is made. `UsageError` for no range.
    """
    if from_ms >= to_ms:
        raise UsageError(f"the range of {from_ms} to {to_ms} ms is empty")
    first, here = _side(primary, from_ms, to_ms)
    second, there = _side(secondary, from_ms, to_ms)
    missing, extra = here.keys() - there.keys(), there.keys() - here.keys()
    other = {identity for identity in here.keys() & there.keys() if here[identity] != there[identity]}
    return Reconciliation(
        primary=first,
        secondary=second,
        missing=len(missing),
        extra=len(extra),
        other_key=len(other),
        examples_missing=_examples(missing),
        examples_extra=_examples(extra),
        examples_other_key=_examples(other),
    )


def _side(records: Iterable[SeenRecord | None], from_ms: int, to_ms: int) -> tuple[SideCount, dict[bytes, int]]:
    keys: dict[bytes, int] = {}
    counts: Counter[str] = Counter()
    for record in records:
        identity = None if record is None else decode_record_id(record.identity)
        if record is None or identity is None:
            counts["without"] += 1
        elif from_ms <= identity.at_ms < to_ms:
            counts["records"] += 1
            keys.setdefault(record.identity, record.key_hash)
    count = SideCount(
        records=counts["records"],
        identities=len(keys),
        duplicates=counts["records"] - len(keys),
        without_identity=counts["without"],
    )
    return count, keys


def _examples(identities: set[bytes]) -> tuple[str, ...]:
    found = (decode_record_id(value) for value in sorted(identities)[:EXAMPLES])
    return tuple(format_record_id(identity) for identity in found if identity is not None)
