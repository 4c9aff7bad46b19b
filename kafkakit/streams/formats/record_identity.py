"""The header that names a record wherever it is copied to: `kafkakit-id`, 17 bytes, version 1.

    byte 0       version, 1
    bytes 1-6    time, ms of UTC, 48 bits, big endian
    bytes 7-8    0111 (UUID version 7), then bits 41-30 of the session
    bytes 9-12   10 (UUID variant), then bits 29-0 of the session
    bytes 13-16  sequence, 32 bits, big endian

Bytes 1 to 16 are a UUIDv7. A session is one start of a producer, named by 42 random bits; its records are numbered from
0, so that two ids are equal for copies of one record alone, and sort by time, session and number. A record that is sent
again keeps its id. Readers leave other versions and lengths alone.
"""

from dataclasses import dataclass

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
