"""Bounded decompression: a few bytes that would become gigabytes are refused before, or stopped at the limit."""

import zlib

from kafkakit.streams.model.compressed_sizes import (
    MAX_BLOCK,
    SNAPPY_TIMES,
    XERIAL,
    DamagedError,
    lz4_size,
    snappy_blocks,
    snappy_size,
    zstd_size,
)

_MAX_WINDOW = 128 << 20  # what level 22 asks for, and librdkafka allows; memory is only touched by what comes out
_MAX_MEMBERS = 64  # each is found by copying what follows it
_PIECE = 64 << 10
_GZIP = 31  # zlib's word for a gzip header and the largest window


class BombError(ValueError):
    """The bytes would become more than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it would become more than {limit} bytes")
        self.limit = limit


def inflate_zstd(data: bytes, limit: int) -> bytes:
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


def gzip_exceeds(data: bytes, limit: int) -> bool:
    """Whether gzip members hold more than `limit` bytes, found by inflating up to the limit and keeping nothing.

    Raises `DamagedError` for anything that is no gzip. Memory: 64 KiB and zlib's window; about 1 s a GB of `limit`.
    """
    held = 0
    for _ in range(_MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP)
        rest = data
        try:
            while not member.eof:
                piece = member.decompress(rest, _PIECE)
                held += len(piece)
                if held > limit:
                    return True
                rest = member.unconsumed_tail
                if not piece and not rest and not member.eof:
                    raise DamagedError("its gzip data end too early")
        except zlib.error as error:
            raise DamagedError("its gzip data are damaged") from error
        data = member.unused_data
        if not data:
            return False
    raise DamagedError("it has too many gzip members")


def inflate_gzip(data: bytes, limit: int) -> bytes:
    """What gzip members hold; raises `BombError` above `limit` bytes, `DamagedError` for anything that is no gzip.

    The size in a gzip trailer can be forged, so it is not read: decompression stops at the limit.
    """
    out = bytearray()
    for _ in range(_MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP)
        try:
            out += member.decompress(data, limit + 1 - len(out))
        except zlib.error as error:
            raise DamagedError("its gzip data are damaged") from error
        if len(out) > limit:
            raise BombError(limit)
        if not member.eof:
            raise DamagedError("its gzip data end too early")
        data = member.unused_data
        if not data:
            return bytes(out)
    raise DamagedError("it has too many gzip members")


def inflate_lz4(data: bytes, limit: int) -> bytes:
    """What an lz4 frame holds; raises as `inflate_zstd`, from its blocks' headers and before any decompression."""
    most, declared = lz4_size(data)
    if max(most, declared or 0) > limit:
        raise BombError(limit)
    import cramjam

    try:
        return bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError as error:
        raise DamagedError("its lz4 data are damaged") from error


def inflate_snappy(data: bytes, limit: int) -> bytes:
    """What raw snappy, or xerial's framing of it, holds; raises as `inflate_lz4`."""
    if snappy_size(data) > min(limit, SNAPPY_TIMES * len(data)):
        raise BombError(limit)
    import cramjam

    blocks = snappy_blocks(data) if data.startswith(XERIAL) else (data,)
    try:
        return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
    except cramjam.DecompressionError as error:
        raise DamagedError("its snappy data are damaged") from error
