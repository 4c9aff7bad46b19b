"""CRC-32C of many batches at once with numpy: the values of `kkm1/crc32c.py`, about 100 times as fast.

The checksum is linear: that of two halves is the first one's, carried over the length of the second, xor the
second's. So words are joined in pairs, then these, and so on, each round for all batches together.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.formats.segment_files.batch_walk import BatchChunk

Words = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_CHECKED_FROM = 21
"""The first byte of a batch that its checksum covers."""
_STRIPE = 256
_BYTES_AT_ONCE = 8 << 20


def crc_failures(buffer: memoryview, chunk: BatchChunk) -> int:
    """How many batches of a chunk have another checksum than their headers say. Cost: about 2 ns a byte."""
    starts, ends = chunk.positions + _CHECKED_FROM, chunk.positions + chunk.sizes
    wanted = chunk.headers["crc"].astype(np.uint32)
    failures, first = 0, 0
    until = np.cumsum(ends - starts)
    while first < len(starts):
        done = int(until[first - 1]) if first else 0
        last = max(int(np.searchsorted(until, done + _BYTES_AT_ONCE)), first + 1)
        pieces = [buffer[a:b] for a, b in zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True)]
        failures += int((crc32c_of_many(pieces) != wanted[first:last]).sum())
        first = last
    return failures


def crc32c_of_many(pieces: list[memoryview]) -> Words:
    """The checksum of each piece, of 4 bytes or more."""
    counts = np.array([(len(p) + _STRIPE - 1) // _STRIPE for p in pieces], np.int64)
    ends = np.cumsum(counts)
    padded = np.zeros(int(ends[-1]) * _STRIPE, np.uint8)
    view = padded.data
    for piece, end in zip(pieces, (ends * _STRIPE).tolist(), strict=True):
        view[end - len(piece) : end] = piece
    firsts = ends * _STRIPE - np.array([len(p) for p in pieces], np.int64)
    for i in range(4):  # the register begins with ones
        padded[firsts + i] ^= 0xFF
    stripes = _joined(padded.view("<u4").reshape(-1, _STRIPE // 4), 0)
    return _carried(_joined_ragged(stripes, counts, ends), 0) ^ np.uint32(0xFFFFFFFF)


def _joined(words: Words, level: int) -> Words:
    """The rows' values; a row has a power of two of values, each of 4 << level bytes."""
    while words.shape[1] > 1:
        words = _carried(words[:, 0::2], level) ^ words[:, 1::2]
        level += 1
    return words[:, 0]


def _joined_ragged(stripes: Words, counts: NDArray[np.int64], ends: NDArray[np.int64]) -> Words:
    """The pieces' values from those of their stripes: pieces with as many stripes, up to a power of two, together."""
    found = np.zeros(len(counts), np.uint32)
    level = (_STRIPE // 4).bit_length() - 1
    widths = np.left_shift(1, np.ceil(np.log2(counts)).astype(np.int64))
    for width in np.unique(widths).tolist():
        rows = np.flatnonzero(widths == width)
        places = ends[rows, None] - np.arange(width, 0, -1)
        own = places >= (ends - counts)[rows, None]
        found[rows] = _joined(np.where(own, stripes[np.maximum(places, 0)], np.uint32(0)), level)
    return found


def _carried(values: Words, level: int) -> Words:
    """The values after 4 << level further bytes of zeros."""
    low, high = _tables(level)
    found: Words = low[values & np.uint32(0xFFFF)] ^ high[values >> np.uint32(16)]
    return found


@cache
def _tables(level: int) -> tuple[Words, Words]:
    """What each lower and each upper half of a value becomes; 512 KiB a level."""
    if level == 0:
        bits = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
        for _ in range(32):
            bits = (bits >> np.uint32(1)) ^ np.where(bits & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0))
    else:
        before = level - 1
        bits = _carried(_carried(np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32)), before), before)
    return _spanned(bits[:16]), _spanned(bits[16:])


def _spanned(bits: Words) -> Words:
    """All sums (xor) of sixteen values, by the number whose bits choose them."""
    table = np.zeros(1, np.uint32)
    for bit in bits:
        table = np.concatenate([table, table ^ bit])
    return table
