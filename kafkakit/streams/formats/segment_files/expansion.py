"""How large batches become, from what stands in front of their data: nothing is decompressed.

A content size is what the writer declares. Without one the blocks bound the size: they are walked for all zstd batches
of a chunk at once (RFC 8878, section 3.1), and one by one for the rare others that may be large.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.formats.codec_sizes import GZIP_TIMES, LZ4_TIMES, SNAPPY_TIMES, lz4_size, snappy_size
from kafkakit.streams.formats.segment_files.batch_walk import HEADER_BYTES, BatchChunk, Ints
from kafkakit.streams.formats.zstd_frames import MAX_BLOCK, DamagedError, zstd_size

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_MOST_TIMES = (1, GZIP_TIMES, SNAPPY_TIMES, LZ4_TIMES, 0)
_ROUNDS = 12
_ZSTD_MAGIC = 0xFD2FB528


@dataclass(frozen=True, slots=True)
class Expansion:
    """For each batch of a chunk the bytes that it may become, and the content size it declares, -1 for none.

    `is_bound` is True where the size is the most that it can be, and not what its header declares.
    """

    sizes: Ints
    content_sizes: Ints
    is_bound: NDArray[np.bool_]


def expansions(buffer: memoryview, chunk: BatchChunk, threshold: int) -> Expansion:
    """The sizes of a chunk; those of codecs other than zstd are looked at only where they may exceed `threshold`."""
    codecs = chunk.field("attributes") & 7
    starts, ends = chunk.positions + HEADER_BYTES, chunk.positions + chunk.sizes
    packed = ends - starts
    known = np.minimum(codecs, _ZSTD)
    sizes = packed * np.array(_MOST_TIMES)[known]
    content = np.full(len(packed), -1, np.int64)
    is_bound = codecs != _NONE
    rows = np.flatnonzero((codecs == _ZSTD) & (packed > 0))
    if rows.size:
        sizes[rows], content[rows] = _zstd_sizes(buffer, starts[rows], ends[rows])
        declared = rows[(content[rows] >= 0) & (content[rows] <= sizes[rows])]
        sizes[declared], is_bound[declared] = content[declared], False
    for row in np.flatnonzero(is_bound & (codecs < _ZSTD) & (sizes > threshold)).tolist():
        data = bytes(buffer[int(starts[row]) : int(ends[row])])
        most, claim = _one_size(data, int(codecs[row]), int(sizes[row]))
        sizes[row], is_bound[row] = most, not claim
    return Expansion(sizes, content, is_bound)


def _zstd_sizes(buffer: memoryview, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The most that each frame can hold, 0 for what is no zstd, and its content size or -1."""
    data = np.frombuffer(buffer, np.uint8)

    def number(at: Ints, width: int) -> Ints:
        found = np.zeros(len(at), np.int64)
        for i in range(width):
            found |= data[np.minimum(at + i, len(data) - 1)].astype(np.int64) << (8 * i)
        return found

    descriptor = number(starts + 4, 1)
    is_single = (descriptor >> 5 & 1).astype(bool)
    window = number(starts + 5, 1)
    base = np.left_shift(1, 10 + (window >> 3))
    at = starts + 5 + ~is_single + np.array([0, 1, 2, 4])[descriptor & 3]
    flag = descriptor >> 6
    width = np.where((flag == 0) & is_single, 1, np.array([0, 2, 4, 8])[flag])
    content = np.full(len(at), -1, np.int64)
    for size in np.unique(width[width > 0]).tolist():
        rows = width == size
        content[rows] = number(at[rows], size) + (256 if size == 2 else 0)
    largest = np.minimum(np.where(is_single, np.maximum(content, 0), base + (base >> 3) * (window & 7)), MAX_BLOCK)
    at = at + width
    most = np.zeros(len(at), np.int64)
    active = np.flatnonzero(number(starts, 4) == _ZSTD_MAGIC)
    walked = np.zeros(len(at), bool)
    for _ in range(_ROUNDS):
        header = number(at[active], 3)
        kind, size = header >> 1 & 3, header >> 3
        most[active] += np.where(kind == 2, largest[active], size)
        at[active] += 3 + np.where(kind == 1, 1, size)
        is_last = (header & 1).astype(bool)
        whole = active[is_last & (kind < 3)]
        walked[whole] = at[whole] + 4 * (descriptor[whole] >> 2 & 1) == ends[whole]
        active = active[~is_last & (kind < 3) & (at[active] + 3 <= ends[active])]
        if not active.size:
            break
    for row in np.flatnonzero(~walked).tolist():  # many blocks, several frames, or damaged
        try:
            found = zstd_size(bytes(buffer[int(starts[row]) : int(ends[row])]))
        except DamagedError:
            most[row], content[row] = 0, -1
        else:
            most[row], content[row] = found.at_most, -1 if found.declared is None else found.declared
    return most, content


def _one_size(data: bytes, codec: int, most: int) -> tuple[int, bool]:
    """What a gzip, snappy or lz4 batch becomes at most, and whether that is what its headers declare."""
    if codec == _GZIP:
        declared = int.from_bytes(data[-4:], "little")
        return (declared, True) if most < 1 << 32 and declared <= most else (most, False)
    try:
        bound, claim = lz4_size(data) if codec == _LZ4 else (most, snappy_size(data))
    except DamagedError:
        return most, False
    return (claim, True) if claim is not None and claim <= most else (min(bound, most), False)
