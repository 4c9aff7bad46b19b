"""How much compressed bytes hold, from what stands in front of their data: nothing is decompressed."""

from collections.abc import Iterator

from kafkakit.streams.formats.zstd_frames import DamagedError

GZIP_TIMES, SNAPPY_TIMES, LZ4_TIMES = 1032, 22, 255
"""No stream of a codec expands by more: deflate's longest match is 258 bytes in 2 bits, snappy's 64 bytes in 3
bytes, and lz4 extends a match by 255 a byte."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCKS = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
XERIAL = b"\x82SNAPPY\x00"


def snappy_size(data: bytes) -> int:
    """The bytes that raw snappy, or all blocks of xerial's framing, declare; decoders allocate and give just these.

    Raises `DamagedError` for anything else.
    """
    if not data.startswith(XERIAL):
        return _varint(data)
    return sum(_varint(block) for block in snappy_blocks(data))


def snappy_blocks(data: bytes) -> Iterator[bytes]:
    """The raw blocks inside xerial's framing; raises `DamagedError` for one that is cut."""
    at = 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise DamagedError("a snappy block ends too early")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def lz4_size(data: bytes) -> tuple[int, int | None]:
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


def _varint(data: bytes) -> int:
    value = 0
    for shift, byte in zip(range(0, 35, 7), data[:5], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise DamagedError("it has no snappy length")
