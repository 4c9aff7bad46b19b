"""Bounded decompression: a few bytes that would become gigabytes are refused before, or stopped at the limit."""

import zlib
from collections.abc import Iterator

from kafkakit.streams.model.compressed_sizes import (
    MAX_BLOCK,
    SNAPPY_TIMES,
    XERIAL,
    DamagedError,
    Packed,
    lz4_size,
    snappy_blocks,
    snappy_size,
    zstd_size,
)

_MAX_WINDOW = 128 << 20  # what level 22 asks for, and librdkafka allows; memory is only touched by what comes out
_MAX_MEMBERS = 64
_PART, _PIECE = 16 << 10, 256 << 10
_GZIP = 31  # zlib's word for a gzip header and the largest window


class BombError(ValueError):
    """The bytes would become more than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it would become more than {limit} bytes")
        self.limit = limit


def inflate_zstd(data: Packed, limit: int) -> bytes:
    """What zstd frames hold; raises `BombError` above `limit` bytes, `DamagedError` for anything that is no zstd.

    Refused from the headers alone: a claim above the limit, and blocks that may exceed both it and a single block's
    size. The rest is decompressed up to the limit and not a byte further, so neither work nor memory grows with what
    the data claims.
    """
    size = zstd_size(data)
    if (size.declared or 0) > limit or size.at_most > max(limit, MAX_BLOCK):
        raise BombError(limit)
    import zstandard

    try:  # one frame at once, into memory of just the size that its headers allow
        plain = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompress(
            data, max_output_size=min(size.at_most, limit), allow_extra_data=False
        )
        return bytes(plain)
    except zstandard.ZstdError:
        pass  # several frames, or damage: the stream tells which
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(data, read_across_frames=True)
    out = bytearray()
    try:
        while len(out) <= limit and (piece := reader.read(limit + 1 - len(out))):
            out += piece
    except zstandard.ZstdError as error:
        raise DamagedError("its zstd data are damaged") from error
    if len(out) > limit:
        raise BombError(limit)
    return bytes(out)


def gzip_exceeds(data: Packed, limit: int) -> bool:
    """Whether gzip members hold more than `limit` bytes, found by inflating up to the limit and keeping nothing.

    Raises `DamagedError` for anything that is no gzip. Memory: a piece and zlib's window; about 1 s a GB of `limit`.
    """
    try:
        for _ in _gunzip(data, limit):
            pass
    except BombError:
        return True
    return False


def inflate_gzip(data: Packed, limit: int) -> bytes:
    """What gzip members hold; raises `BombError` above `limit` bytes, `DamagedError` for anything that is no gzip.

    The size in a gzip trailer can be forged, so it is not read: decompression stops at the limit.
    """
    return b"".join(_gunzip(data, limit))


def _gunzip(data: Packed, limit: int) -> Iterator[bytes]:
    """Pieces from small parts of the data: zlib copies what it did not use of each part, and joins what it gave."""
    view, at, held = memoryview(data), 0, 0
    for _ in range(_MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            part = view[at : at + _PART]
            try:
                piece = member.decompress(part, _PIECE)
            except zlib.error as error:
                raise DamagedError("its gzip data are damaged") from error
            used = len(part) - len(member.unconsumed_tail) - len(member.unused_data)
            if not piece and not used and not member.eof:
                raise DamagedError("its gzip data end too early")
            at += used
            held += len(piece)
            if held > limit:
                raise BombError(limit)
            yield piece
        if at == len(view):
            return
    raise DamagedError("it has too many gzip members")


def inflate_lz4(data: Packed, limit: int) -> Packed:
    """What an lz4 frame holds; raises as `inflate_zstd`, from its blocks' headers and before any decompression."""
    most, declared = lz4_size(data)
    if max(most, declared or 0) > limit:
        raise BombError(limit)
    import cramjam

    try:
        return memoryview(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError as error:
        raise DamagedError("its lz4 data are damaged") from error


def inflate_snappy(data: Packed, limit: int) -> Packed:
    """What raw snappy, or xerial's framing of it, holds; raises as `inflate_lz4`."""
    if snappy_size(data) > min(limit, SNAPPY_TIMES * len(data)):
        raise BombError(limit)
    import cramjam

    try:
        if data[: len(XERIAL)] != XERIAL:
            return memoryview(cramjam.snappy.decompress_raw(data))
        return b"".join(cramjam.snappy.decompress_raw(block) for block in snappy_blocks(data))
    except cramjam.DecompressionError as error:
        raise DamagedError("its snappy data are damaged") from error
