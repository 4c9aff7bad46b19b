"""How much compressed bytes hold, from what stands in front of their data: snappy, lz4, gzip's factor, frames of zstd.

Nothing is decompressed, and no library is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kafkakit.streams.model.binary import read_uvarint

GZIP_TIMES, SNAPPY_TIMES, LZ4_TIMES = 1032, 22, 255
"""No stream of a codec expands by more: deflate's longest match is 258 bytes in 2 bits, snappy's 64 bytes in 3
bytes, and lz4 extends a match by 255 a byte."""
Packed = bytes | memoryview
"""Compressed bytes; a view of an answer costs no copy."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCKS = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
XERIAL = b"\x82SNAPPY\x00"


def snappy_size(data: Packed) -> int:
    """The bytes that raw snappy, or all blocks of xerial's framing, declare; decoders allocate and give just these.

    Raises `DamagedError` for anything else.
    """
    if data[: len(XERIAL)] != XERIAL:
        return _declared_size(data)
    return sum(_declared_size(block) for block in snappy_blocks(data))


def _declared_size(data: Packed) -> int:
    size, after = read_uvarint(data, 0, len(data))
    if after < 0:
        raise DamagedError("it has no snappy length")
    return size


def snappy_blocks(data: Packed) -> Iterator[Packed]:
    """The raw blocks inside xerial's framing; raises `DamagedError` for one that is cut."""
    at = 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise DamagedError("a snappy block ends too early")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def lz4_size(data: Packed) -> tuple[int, int | None]:
    """The most that an lz4 frame holds, by its blocks, and the content size that it declares, which may lie.

    Raises `DamagedError` for anything but one whole frame.
    """
    flags = data[4] if len(data) > 6 else 0
    block = _LZ4_BLOCKS.get(data[5] >> 4, 0) if flags >> 6 == 1 else 0
    if data[:4] != _LZ4_MAGIC or not block:
        raise DamagedError("it has no lz4 frame")
    declared = int.from_bytes(data[6:14], "little") if flags & 8 else None
    at = 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    checksum = 4 if flags & 16 else 0
    most = 0
    while at + 4 <= len(data):
        header = int.from_bytes(data[at : at + 4], "little")
        size = header & 0x7FFFFFFF
        at += 4
        if not header:
            if at + (4 if flags & 4 else 0) != len(data):
                raise DamagedError("an lz4 frame ends at another place than its batch")
            return most, declared
        if size > block:
            raise DamagedError("an lz4 block is larger than its frame allows")
        most += size if header >> 31 else min(block, LZ4_TIMES * size)
        at += size + checksum
    raise DamagedError("an lz4 frame ends too early")


MAX_BLOCK = 128 * 1024
MOST_TIMES = 1 << 19
"""A frame expands by no more: a block of 4 bytes repeats one byte up to 2 MiB less 1 times."""
_MAGIC = b"\x28\xb5\x2f\xfd"


class DamagedError(ValueError):
    """The bytes are not what their format asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZstdSize:
    """What the headers of zstd frames tell: bytes that the frames take, and how many come out at most.

    `declared` is the sum of the sizes that the frames claim, None where one of them claims none; it may lie.
    """

    length: int
    at_most: int
    declared: int | None


def zstd_size(data: Packed, *, frames: int | None = None, blocks: int | None = None) -> ZstdSize:
    """Walk the frame and block headers (RFC 8878, section 3.1) without decompressing; raises `DamagedError`.

    `frames` ends the walk after that many frames with content, so that bytes may follow. `blocks` ends it after that
    many blocks and frames: what follows counts as the most that so many bytes can hold. Cost: under 1 us a block.
    """
    at = at_most = seen = 0
    left = len(data) if blocks is None else blocks
    declared: int | None = 0
    while at < len(data) and seen != frames:
        if left <= 0:
            return ZstdSize(length=len(data), at_most=at_most + MOST_TIMES * (len(data) - at), declared=declared)
        left -= 1
        if data[at + 1 : at + 4] == b"\x2a\x4d\x18" and data[at] >> 4 == 5:
            at += 8 + int.from_bytes(_bytes(data, at + 4, 4), "little")
            if at > len(data):
                raise DamagedError("a zstd frame ends too early")
            continue
        at, most, claim, left = _frame(data, at, left)
        at_most += most
        declared = None if claim is None or declared is None else declared + claim
        seen += 1
    if not seen:
        raise DamagedError("it has no zstd frame")
    return ZstdSize(length=at, at_most=at_most, declared=declared)


def _bytes(data: Packed, at: int, size: int) -> Packed:
    found = data[at : at + size]
    if len(found) != size:
        raise DamagedError("a zstd frame ends too early")
    return found


def _frame(data: Packed, at: int, left: int) -> tuple[int, int, int | None, int]:
    """Where the frame at `at` ends, the most that it can hold, what it claims to hold, and how many blocks are left."""
    if _bytes(data, at, 4) != _MAGIC:
        raise DamagedError("it has no zstd frame")
    descriptor = _bytes(data, at + 4, 1)[0]
    is_single = bool(descriptor & 0x20)
    at += 5
    window = 0
    if not is_single:
        spec = _bytes(data, at, 1)[0]
        base = 1 << (10 + (spec >> 3))
        window = base + (base >> 3) * (spec & 7)
        at += 1
    at += (0, 1, 2, 4)[descriptor & 3]
    width = (int(is_single), 2, 4, 8)[descriptor >> 6]
    claim = int.from_bytes(_bytes(data, at, width), "little") + (256 if width == 2 else 0) if width else None
    at, most, left = _blocks(data, at + width, min(claim or 0 if is_single else window, MAX_BLOCK), left)
    if descriptor & 4 and left:
        _bytes(data, at, 4)
        at += 4
    return at, most, claim, left


def _blocks(data: Packed, at: int, block_most: int, left: int) -> tuple[int, int, int]:
    """Where the blocks at `at` end, the most that they can hold, and how many more may be walked."""
    most = 0
    while left:
        left -= 1
        header = int.from_bytes(_bytes(data, at, 3), "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3:
            raise DamagedError("a zstd block is of no kind")
        at += 3 + (1 if kind == 1 else size)
        most += block_most if kind == 2 else size
        if at > len(data):
            raise DamagedError("a zstd frame ends too early")
        if header & 1:
            return at, most, left
    return at, most, 0
