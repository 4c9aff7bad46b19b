"""The pathway context that travels in a record's header, as tracers of Data Streams Monitoring write it.

`dd-pathway-ctx-base64` is standard base64, with padding, of the binary form: 8 bytes of hash, little endian; then the
start of the pathway and the start of the edge, each in ms of unix time, signed (zigzag), as a varint of at most 9 bytes
of which the ninth carries 8 bits. `dd-pathway-ctx`, the older name, holds the binary form, or base64 of it. Present-day
times take 6 bytes each: 20 in all, 28 characters.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

HEADER = "dd-pathway-ctx-base64"
OLD_HEADER = "dd-pathway-ctx"
MOST_BYTES = 26
"""The largest binary form: a hash and two varints of 9 bytes."""

EARLIEST_MS = 1_420_070_400_000
"""2015-01-01: older times are damage."""

MOST_AHEAD_MS = 86_400_000
"""How far a time may lie ahead of the reader's clock: a day."""

_MOST_TEXT = 36  # characters of base64 that 26 bytes take
_VARINT_BYTES = 9
_MASK = (1 << 64) - 1

Headers = Iterable[tuple[str, bytes | None]]


class PathwayContext(NamedTuple):  # one is made for each record: a frozen dataclass takes three times as long
    """Where a pathway has come to: its hash, when it began, and when its last checkpoint was, in ms of unix time.

    The hash has 64 bits; it is 0 for a pathway that begins. Times are signed and have 64 bits. The rest stays in the
    process: the direction of the last checkpoint, and hash and edge start before the first of those checkpoints in a
    row that have this direction.
    """

    hash: int
    start_ms: int
    edge_ms: int
    direction: str = ""
    opposite_hash: int = 0
    opposite_edge_ms: int = 0


@dataclass(frozen=True, slots=True)
class ContextFault:
    """Why a header holds no pathway context that can be used."""

    reason: str


def encode_binary(context: PathwayContext) -> bytes:
    """The binary form, 10 to 26 bytes."""
    return context.hash.to_bytes(8, "little") + _varint(context.start_ms) + _varint(context.edge_ms)


def encode_header(context: PathwayContext) -> bytes:
    """The value of the header `dd-pathway-ctx-base64`."""
    return b2a_base64(encode_binary(context), newline=False)


def decode_binary(data: bytes) -> PathwayContext | ContextFault:
    """Read the binary form; what follows the two times is left alone, as other readers do. Never raises.

    Times may be any: see `context_of`.
    """
    if len(data) > MOST_BYTES:
        return ContextFault(f"{len(data)} bytes, at most {MOST_BYTES} are read")
    start_ms, at = _read_varint(data, 8)
    edge_ms, at = _read_varint(data, at)
    if at < 0:
        return ContextFault("it ends too early")
    return PathwayContext(int.from_bytes(data[:8], "little"), start_ms, edge_ms)


def decode_header(value: bytes) -> PathwayContext | ContextFault:
    """Read the value of the header `dd-pathway-ctx-base64`; as `decode_binary`."""
    if len(value) > _MOST_TEXT:
        return ContextFault(f"{len(value)} characters, at most {_MOST_TEXT} are read")
    try:
        return decode_binary(a2b_base64(value, strict_mode=True))
    except ValueError:
        return ContextFault("no base64")


def context_of(headers: Headers, now_ms: int) -> PathwayContext | ContextFault | None:
    """The pathway context of a record, None where it has no such header. Never raises.

    The newer header counts, then the older; of several with one name the last. A hash of 0 and times before 2015 or
    more than a day ahead of `now_ms` are faults: a checkpoint begins a new pathway then.
    """
    new: bytes | None = None
    old: bytes | None = None
    for name, value in headers:
        if name == HEADER:
            new = value
        elif name == OLD_HEADER:
            old = value
    if new is not None:
        return _usable(decode_header(new), now_ms)
    if old is None:
        return None
    found = decode_binary(old)
    if isinstance(found, ContextFault) or not found.hash:
        found = decode_header(old)
    return _usable(found, now_ms)


def _usable(found: PathwayContext | ContextFault, now_ms: int) -> PathwayContext | ContextFault:
    if isinstance(found, ContextFault):
        return found
    if not found.hash:
        return ContextFault("its hash is 0")
    latest = now_ms + MOST_AHEAD_MS
    if not (EARLIEST_MS <= found.start_ms <= latest and EARLIEST_MS <= found.edge_ms <= latest):
        return ContextFault("its times are before 2015 or more than a day ahead")
    return found


def _varint(value: int) -> bytes:
    left = (value << 1 ^ value >> 63) & _MASK
    out = bytearray()
    while left > 127 and len(out) < _VARINT_BYTES - 1:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed number at `at` and where it ends: -1 where the bytes end first, or `at` is -1."""
    value = 0
    if at >= 0:
        for i, byte in enumerate(data[at : at + _VARINT_BYTES]):
            is_ninth = i == _VARINT_BYTES - 1
            value |= (byte if is_ninth else byte & 127) << 7 * i
            if byte < 128 or is_ninth:
                return value >> 1 ^ -(value & 1), at + i + 1
    return 0, -1
