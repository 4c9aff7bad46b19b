"""The binary layer around the sections: version, flags, and the word that binds a payload to what it is for."""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.inflate import BombError, inflate_zstd
from kafkakit.streams.formats.kkm1.crc32c import crc32c
from kafkakit.streams.formats.kkm1.varint import BadBodyError, Cursor, TooLargeError
from kafkakit.streams.formats.zstd_frames import DamagedError, zstd_size

VERSION = 1
BIND_BYTES = 4
HEADER_BYTES = 1 + BIND_BYTES
MAX_BODY_BYTES = 64 * 1024
_BITS_OF_FLAGS = 15


class Flag(IntEnum):
    """What the low half of the first byte tells, one bit each; RESERVED is zero in version 1."""

    NONE = 0
    ZSTD = 1
    LOSSY = 2
    SPILLED = 4
    RESERVED = 8


class UnknownVersionError(ValueError):
    """A payload of a version that this reader does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A payload taken apart: `signed` is what the bind covers beside the identity, `body` the sections as written
    before any compression, `sections` where each tag's bytes lie in it."""

    flags: int
    bind: int
    signed: bytes
    body: bytes
    sections: dict[int, tuple[int, int]]


def identity_bytes(identity: CommitIdentity) -> bytes:
    """What the checksum begins with: cluster, topic id, partition (big-endian) and group."""
    return b"".join(
        (
            identity.cluster_id.encode("utf-8", "surrogatepass"),
            b"\0",
            identity.topic_id,
            (identity.partition & 0xFFFFFFFF).to_bytes(4, "big"),
            identity.group.encode("utf-8", "surrogatepass"),
            b"\0",
        )
    )


@lru_cache(maxsize=4096)
def _identity_crc(identity: CommitIdentity) -> int:
    return crc32c(identity_bytes(identity))


def bind_of(identity: CommitIdentity, signed: bytes) -> int:
    """The checksum of an identity and what is signed: the first byte and the body as it stands in the payload."""
    return crc32c(signed, _identity_crc(identity))


def seal(identity: CommitIdentity, flags: int, body: bytes) -> bytes:
    """The binary payload: first byte, bind, body."""
    first = bytes((VERSION << 4 | flags,))
    return first + bind_of(identity, first + body).to_bytes(BIND_BYTES, "little") + body


def unseal(raw: bytes) -> Envelope:
    """Take a payload apart; it may be followed by zero bytes.

    Raises `UnknownVersionError`, `BadBodyError` or `TooLargeError` (above `MAX_BODY_BYTES`, before or after
    inflating).
    """
    if not raw:
        raise BadBodyError("it is empty")
    if raw[0] >> 4 != VERSION or raw[0] & Flag.RESERVED:
        raise UnknownVersionError(f"its first byte is {raw[0]:#04x}, which version {VERSION} does not have")
    if len(raw) < HEADER_BYTES:
        raise BadBodyError("it ends too early")
    if len(raw) > MAX_BODY_BYTES + HEADER_BYTES:
        raise TooLargeError(f"it has {len(raw)} bytes")
    flags, wire = raw[0] & _BITS_OF_FLAGS, raw[HEADER_BYTES:]
    body, used = _inflated(wire) if flags & Flag.ZSTD else (wire, len(wire))
    sections, end = split(body)
    used = used if flags & Flag.ZSTD else end
    if wire[used:].strip(b"\0") or body[end:].strip(b"\0"):
        raise BadBodyError("bytes follow its end")
    bind = int.from_bytes(raw[1:HEADER_BYTES], "little")
    return Envelope(flags=flags, bind=bind, signed=raw[:1] + wire[:used], body=body, sections=sections)


def split(body: bytes) -> tuple[dict[int, tuple[int, int]], int]:
    """Where each section lies, by tag, and where they end; raises `BadBodyError` unless tags ascend."""
    cursor = Cursor(body)
    found: dict[int, tuple[int, int]] = {}
    last = 0
    while cursor.left:
        start = cursor.at
        tag = cursor.uvarint()
        if tag == 0:
            return found, start
        if tag <= last:
            raise BadBodyError(f"section {tag} follows section {last}")
        size = cursor.uvarint()
        if size > cursor.left:
            raise BadBodyError(f"section {tag} ends too early")
        found[tag] = (cursor.at, cursor.at + size)
        cursor.at += size
        last = tag
    return found, len(body)


def _inflated(wire: bytes) -> tuple[bytes, int]:
    """The body that one zstd frame holds, and the bytes that the frame takes."""
    try:
        size = zstd_size(wire, frames=1)
        return inflate_zstd(wire[: size.length], MAX_BODY_BYTES), size.length
    except BombError as error:
        raise TooLargeError(str(error)) from error
    except DamagedError as error:
        raise BadBodyError(str(error)) from error
