"""The record batches of a segment as columns: headers, checksums, and how large they become.

A loop walks the lengths alone, then all headers are read at once. It works on views of bytes, mapped files above all; a
page that holds no header is not touched.

CRC-32C of many batches at once gives the values of `kkm1/text.py`, about 100 times as fast. The checksum is linear:
that of two halves is the first one's, carried over the length of the second, xor the second's. So words are joined in
pairs, then these, and so on, each round for all batches together.

How large batches become is read from what stands in front of their data: nothing is decompressed. A content size is
what the writer declares. Without one the blocks bound the size: they are walked for all zstd batches of a chunk at once
(RFC 8878, section 3.1), and one by one for the rare others that may be large.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from struct import Struct, error

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.model.compressed_sizes import (
    GZIP_TIMES,
    LZ4_TIMES,
    MAX_BLOCK,
    SNAPPY_TIMES,
    DamagedError,
    lz4_size,
    snappy_size,
    zstd_size,
)

HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("last_delta", ">i4"), ("base_ms", ">i8"), ("max_ms", ">i8"), ("producer", ">i8"),
        ("producer_epoch", ">i2"), ("sequence", ">i4"), ("count", ">i4"),
    ]
)  # fmt: skip
"""The header of a batch of format 2, as it lies in the file."""
HEADER_BYTES = HEADER.itemsize
PREFIX_BYTES = 12
MAGIC = 2
CHUNK = 1 << 16
_LEAST_LENGTH = HEADER_BYTES - PREFIX_BYTES
_LEAST_LEGACY_LENGTH = 14
_ZEROS_LOOKED_AT = 1 << 20
_length_at = Struct(">i").unpack_from

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchChunk:
    """Up to `CHUNK` whole batches of format 2 in order: positions in the file and, for each, its header."""

    positions: Ints
    headers: NDArray[np.void]

    def field(self, name: str) -> Ints:
        """A field of all headers as numbers of this machine."""
        found: Ints = self.headers[name].astype(np.int64)
        return found

    @property
    def sizes(self) -> Ints:
        """Bytes of each batch in the file."""
        return self.field("length") + PREFIX_BYTES


@dataclass(frozen=True, slots=True)
class WalkResult:
    """How a walk ended: bytes of whole batches, batches of formats 0 and 1 among them, and what stopped it.

    The bytes after `valid_bytes` are a torn tail: part of a batch, or zeros. With a `fault` they are neither.
    """

    valid_bytes: int
    legacy_batches: int = 0
    fault: str = ""


def walk_batches(buffer: memoryview, size: int) -> Iterator[BatchChunk | WalkResult]:
    """The batches in the first `size` bytes, a `WalkResult` last; never raises on what the bytes hold.

    Cost: about 0.2 us a batch, and 80 bytes of memory for each batch of a chunk.
    """
    data = buffer[:size]
    at = legacy = 0
    while True:
        positions, end = _positions(data, at, size)
        headers = _headers(data, positions)
        magic = headers["magic"]
        good = (magic == MAGIC) & (headers["last_delta"] >= 0) & (headers["count"] >= 0) & (headers["base_offset"] >= 0)
        fault = ""
        if not good.all():
            bad = np.flatnonzero(~good & (magic != 0) & (magic != 1))
            if bad.size:
                first = int(bad[0])
                end = int(positions[first])
                fault = f"no batch header at position {end}"
                positions, headers, good = positions[:first], headers[:first], good[:first]
            legacy += int((~good).sum())
            positions, headers = positions[good], headers[good]
        if positions.size:
            yield BatchChunk(positions, headers)
        if not fault and _is_legacy(data, end):
            at, legacy = end + PREFIX_BYTES + _length_at(data, end + 8)[0], legacy + 1
        elif fault or end == at or end >= size:
            yield WalkResult(end, legacy, fault or _tail_fault(data, end))
            return
        else:
            at = end


def _positions(data: memoryview, at: int, size: int) -> tuple[Ints, int]:
    """Where up to `CHUNK` batches begin from `at` on, and where the last of them ends."""
    found = array("q")
    append, length_at = found.append, _length_at
    try:
        for _ in repeat(None, CHUNK):
            (length,) = length_at(data, at + 8)
            end = at + length + 12
            if length < _LEAST_LENGTH or end > size:
                break
            append(at)
            at = end
    except error:
        pass
    return np.frombuffer(found, np.int64) if found else np.empty(0, np.int64), at


def _headers(data: memoryview, positions: Ints) -> NDArray[np.void]:
    if not positions.size:
        return np.empty(0, HEADER)
    every: NDArray[np.void] = np.ndarray((len(data) - HEADER_BYTES + 1,), HEADER, data, strides=(1,))
    found: NDArray[np.void] = every[positions]
    return found


def _is_legacy(data: memoryview, at: int) -> bool:
    """True for a whole message of format 0 or 1 that is shorter than a batch's header."""
    if at + PREFIX_BYTES + _LEAST_LEGACY_LENGTH > len(data):
        return False
    length: int = _length_at(data, at + 8)[0]
    fits = _LEAST_LEGACY_LENGTH <= length < _LEAST_LENGTH and at + PREFIX_BYTES + length <= len(data)
    return fits and data[at + 16] in (0, 1)


def _tail_fault(data: memoryview, at: int) -> str:
    """Why the bytes from `at` on are no torn tail; empty where they are one, or where there are none."""
    rest = data[at:]
    if not np.frombuffer(rest[:_ZEROS_LOOKED_AT], np.uint8).any():
        return ""
    if len(rest) < PREFIX_BYTES:
        return ""
    length: int = _length_at(rest, 8)[0]
    if length < _LEAST_LEGACY_LENGTH:
        return f"a batch length of {length} at position {at}"
    if len(rest) > 16 and rest[16] > MAGIC:
        return f"no batch header at position {at}"
    if length < _LEAST_LENGTH and PREFIX_BYTES + length <= len(rest):
        return f"a batch length of {length} at position {at}"
    return ""


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
