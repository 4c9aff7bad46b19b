"""The one reader of batch headers, varints and CRC-32C: what all that walk Kafka's logs and read payloads share.

Headers and varints are read one at a time, without any library, and as columns of many. A header of format 2 has the
fields of `FIELDS`; formats 0 and 1 share its offset, its length and the place of its number. A varint has seven bits a
byte, the lowest first (LEB128); a signed one is zigzag. CRC-32C (Castagnoli) covers batches and binds commit metadata.
It is computed by google-crc32c: executors of Spark may lack it, and then a table does, byte by byte.
"""

from array import array
from collections.abc import Callable, Iterable
from functools import cache
from itertools import repeat
from struct import Struct, error
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

FIELDS = (
    ("base_offset", "q"), ("length", "i"), ("leader_epoch", "i"), ("magic", "B"), ("crc", "I"), ("attributes", "h"),
    ("last_delta", "i"), ("base_ms", "q"), ("max_ms", "q"), ("producer", "q"), ("producer_epoch", "h"),
    ("sequence", "i"), ("count", "i"),
)  # fmt: skip
"""The header of a batch of format 2 as it lies in a log: names, and codes of `struct`, all of them big-endian."""
HEADER = Struct(">" + "".join(code for _, code in FIELDS))
HEADER_BYTES = HEADER.size
MAGIC = 2
PREFIX_BYTES = 12
"""Bytes of a batch before what its length counts: base offset and the length itself."""
LEAST_LENGTH = HEADER_BYTES - PREFIX_BYTES
MIN_OLD_LENGTH = 14
"""The shortest message of formats 0 and 1: checksum, magic, attributes and two empty lengths."""
MAGIC_AT = 16
CRC_AT, CHECKED_FROM = 17, 21
"""Where a batch has its checksum, and the first byte that it covers."""
_length_at = Struct(">i").unpack_from


def batch_length(data: bytes | memoryview, at: int) -> int:
    """The length that a batch or old message at `at` gives: its bytes without `PREFIX_BYTES`."""
    length: int = _length_at(data, at + 8)[0]
    return length


def batch_positions(
    data: bytes | memoryview, at: int, *, least_length: int, most: int | None = None
) -> tuple["Longs", int]:
    """Where up to `most` batches begin from `at` on, and where the last one ends: before what is cut or too short.

    Cost: about 0.1 us a batch.
    """
    import numpy as np

    size = len(data)
    found = array("q")
    append, length_at = found.append, _length_at
    try:
        for _ in repeat(None) if most is None else repeat(None, most):
            (length,) = length_at(data, at + 8)
            end = at + length + 12
            if length < least_length or end > size:
                break
            append(at)
            at = end
    except error:
        pass
    return np.frombuffer(found, np.int64) if found else np.empty(0, np.int64), at


@cache
def header_type() -> "np.dtype[np.void]":
    """A header as numpy's record type."""
    import numpy as np

    return np.dtype([(name, f">{code}") for name, code in FIELDS])


def headers_at(data: bytes | memoryview, positions: "Longs") -> "NDArray[np.void]":
    """The headers at these positions, of which each has a whole header behind it."""
    import numpy as np

    if not positions.size:
        return np.empty(0, header_type())
    every: NDArray[np.void] = np.ndarray((len(data) - HEADER_BYTES + 1,), header_type(), data, strides=(1,))
    found: NDArray[np.void] = every[positions]
    return found


MAX_UVARINT = (1 << 64) - 1
VARINT, VARLONG = 5, 10
"""The bytes of the longest varints of 32 and 64 bits."""
TOO_LONG = 1 << 60
"""Where a varint of too many bytes ends: far behind all bytes."""
_UNSIGNED = (1 << 63) - 1


def uvarint(value: int) -> bytes:
    """The bytes of a number from 0 to 2**64 - 1."""
    return bytes((value,)) if value < 128 else uvarints((value,))


def uvarints(values: Iterable[int]) -> bytes:
    """The bytes of many such numbers, one after another; a fourth of the time of a call for each."""
    out = bytearray()
    for value in values:
        left = value
        while left > 127:
            out.append(left & 127 | 128)
            left >>= 7
        out.append(left)
    return bytes(out)


def uvarint_size(value: int) -> int:
    """How many bytes `uvarint` makes of a number."""
    return max(1, (value.bit_length() + 6) // 7)


def zigzag(value: int) -> int:
    """A signed number as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """What `zigzag` made unsigned."""
    return (value >> 1) ^ -(value & 1)


def read_uvarint(data: bytes | memoryview, at: int, end: int, max_bytes: int = VARINT) -> tuple[int, int]:
    """An unsigned varint at `at`, with where it ends: -1 where it runs over `end` or `max_bytes`, or `at` is -1."""
    value = shift = 0
    if at < 0:
        return 0, -1
    for i in range(at, min(end, at + max_bytes)):
        byte = data[i]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, i + 1
        shift += 7
    return 0, -1


def read_varint(data: bytes | memoryview, at: int, end: int, max_bytes: int = VARINT) -> tuple[int, int]:
    """A zigzag varint, as `read_uvarint` reads an unsigned one."""
    if 0 <= at < end and (byte := data[at]) < 128:  # of most: a call less
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, at = read_uvarint(data, at, end, max_bytes)
    return (value >> 1) ^ -(value & 1), at


def uvarints_at(buffer: "NDArray[np.uint8]", at: "Longs", max_bytes: int = VARINT) -> tuple["Longs", "Longs"]:
    """The unsigned varint at each place, and where it ends: `TOO_LONG` for one of too many bytes.

    Bytes past the end are as the last one: callers compare places with the end of what they read.
    """
    import numpy as np

    byte = buffer.take(at, mode="clip")
    value, after = byte.astype(np.int64), at + 1
    more = np.flatnonzero(byte >= 128)
    if not more.size:
        return value, after
    value &= 127
    for shift in range(7, 7 * max_bytes, 7):
        byte = buffer.take(after[more], mode="clip")
        value[more] |= (byte & 127).astype(np.int64) << shift
        after[more] += 1
        more = more[byte >= 128]
        if not more.size:
            return value, after
    after[more] = TOO_LONG
    return value, after


def varints_at(buffer: "NDArray[np.uint8]", at: "Longs", max_bytes: int = VARINT) -> tuple["Longs", "Longs"]:
    """The zigzag varint at each place, and where it ends, as `uvarints_at` has it."""
    value, after = uvarints_at(buffer, at, max_bytes)
    return (value >> 1 & _UNSIGNED) ^ -(value & 1), after


def _checksum_steps() -> tuple[int, ...]:
    """What the checksum's state becomes after each byte; the polynomial is that of RFC 3720, bits reversed."""
    steps = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
        steps.append(state)
    return tuple(steps)


CHECKSUM_STEPS = _checksum_steps()
"""One byte further: a state becomes `CHECKSUM_STEPS[(state ^ byte) & 255] ^ state >> 8`."""
CHECKSUM_MASK = 0xFFFFFFFF
"""The first state; a checksum is a state inverted."""


def crc32c_by_table(checksum: int, data: bytes) -> int:
    """The checksum of what `checksum` is that of with `data` after it: 0.1 us a byte."""
    state = checksum ^ CHECKSUM_MASK
    for byte in data:
        state = CHECKSUM_STEPS[(state ^ byte) & 255] ^ state >> 8
    return state ^ CHECKSUM_MASK


def _extend() -> Callable[[int, bytes], int]:
    try:
        from google_crc32c import extend
    except ImportError:
        return crc32c_by_table
    found: Callable[[int, bytes], int] = extend
    return found


_extended = _extend()


def crc32c(data: bytes, checksum: int = 0) -> int:
    """The checksum of `data`, or of what `checksum` is that of with `data` after it; crc32c(b"123456789") is
    0xE3069283.

    Cost: 0.1 us, and 0.1 ns a byte.
    """
    return _extended(checksum, data)
