"""The record batches of a segment as columns: headers, checksums, and how large they become.

A loop walks the lengths alone, then all headers are read at once. It works on views of bytes, mapped files above all; a
page that holds no header is not touched.

How large batches become is read from what stands in front of their data: nothing is decompressed. A content size is
what the writer declares. Without one the blocks bound the size: they are walked for all zstd batches of a chunk at once
(RFC 8878, section 3.1), and one by one for the rare others that may be large.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.model.binary import (
    CHECKED_FROM,
    HEADER_BYTES,
    LEAST_LENGTH,
    MAGIC,
    MAGIC_AT,
    MIN_OLD_LENGTH,
    PREFIX_BYTES,
    batch_length,
    batch_positions,
    crc32c,
    headers_at,
)
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

CHUNK = 1 << 16
_ZEROS_LOOKED_AT = 1 << 20

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
        positions, end = batch_positions(data, at, least_length=LEAST_LENGTH, most=CHUNK)
        headers = headers_at(data, positions)
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
            at, legacy = end + PREFIX_BYTES + batch_length(data, end), legacy + 1
        elif fault or end == at or end >= size:
            yield WalkResult(end, legacy, fault or _tail_fault(data, end))
            return
        else:
            at = end


def _is_legacy(data: memoryview, at: int) -> bool:
    """True for a whole message of format 0 or 1 that is shorter than a batch's header."""
    if at + PREFIX_BYTES + MIN_OLD_LENGTH > len(data):
        return False
    length = batch_length(data, at)
    fits = MIN_OLD_LENGTH <= length < LEAST_LENGTH and at + PREFIX_BYTES + length <= len(data)
    return fits and data[at + MAGIC_AT] in (0, 1)


def _tail_fault(data: memoryview, at: int) -> str:
    """Why the bytes from `at` on are no torn tail; empty where they are one, or where there are none."""
    rest = data[at:]
    if not np.frombuffer(rest[:_ZEROS_LOOKED_AT], np.uint8).any():
        return ""
    if len(rest) < PREFIX_BYTES:
        return ""
    length = batch_length(rest, 0)
    if length < MIN_OLD_LENGTH:
        return f"a batch length of {length} at position {at}"
    if len(rest) > MAGIC_AT and rest[MAGIC_AT] > MAGIC:
        return f"no batch header at position {at}"
    if length < LEAST_LENGTH and PREFIX_BYTES + length <= len(rest):
        return f"a batch length of {length} at position {at}"
    return ""


def crc_failures(buffer: memoryview, chunk: BatchChunk) -> int:
    """How many batches of a chunk have another checksum than their headers say. Cost: about 0.1 ns a byte."""
    starts, ends = chunk.positions + CHECKED_FROM, chunk.positions + chunk.sizes
    spans = zip(starts.tolist(), ends.tolist(), chunk.field("crc").tolist(), strict=True)
    return sum(crc32c(bytes(buffer[start:end])) != wanted for start, end, wanted in spans)


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
