"""Writes record batches of format 2 and the files of a partition, byte by byte as a broker does."""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct

import numpy as np
import zstandard

from kafkakit.streams.model.kkm1.text import crc32c
from kafkakit.streams.model.segment_batches import HEADER, HEADER_BYTES, MAGIC, PREFIX_BYTES
from kafkakit.streams.model.segment_rows import OFFSET_ENTRY, TIME_ENTRY

CODECS = ("none", "gzip", "zstd")
_CODES = {"none": 0, "gzip": 1, "zstd": 4}
TRANSACTIONAL = 16
_COVERED = 21
"""The checksum covers a batch from here on."""
_INDEX_EVERY = 4096
_CRC = Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch before it is written: its records are `values` without keys, `step_ms` apart from `first_ms` on."""

    base_offset: int
    first_ms: int
    values: Sequence[bytes]
    step_ms: int = 1_000
    codec: str = "none"
    epoch: int = 0
    producer: int = -1
    attributes: int = 0

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.base_offset + len(self.values) - 1

    @property
    def max_ms(self) -> int:
        """The time of its last record."""
        return self.first_ms + self.step_ms * (len(self.values) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFile:
    """A file to be written below a log dir."""

    path: str
    data: bytes
    mtime_ms: int


def batch_bytes(batch: Batch) -> bytes:
    """The batch as it lies in a segment, with its checksum; 50 ns a byte."""
    records = b"".join(_record(i, batch.step_ms * i, value) for i, value in enumerate(batch.values))
    packed = _packed(records, batch.codec)
    header = np.zeros(1, HEADER)
    header["base_offset"] = batch.base_offset
    header["length"] = HEADER_BYTES + len(packed) - PREFIX_BYTES
    header["leader_epoch"] = batch.epoch
    header["magic"] = MAGIC
    header["attributes"] = _CODES[batch.codec] | batch.attributes
    header["last_delta"] = len(batch.values) - 1
    header["base_ms"], header["max_ms"] = batch.first_ms, batch.max_ms
    header["producer"] = batch.producer
    header["producer_epoch"] = -1 if batch.producer < 0 else 0
    header["sequence"] = -1 if batch.producer < 0 else 0
    header["count"] = len(batch.values)
    written = header.tobytes() + packed
    return written[: _COVERED - 4] + _CRC.pack(crc32c(written[_COVERED:])) + written[_COVERED:]


def segment_files(folder: str, batches: Sequence[Batch], *, is_active: bool = False) -> tuple[MadeFile, ...]:
    """The log of some batches and its two indexes; those of an active segment end in zeros, as a broker's do."""
    base, data = batches[0].base_offset, [batch_bytes(b) for b in batches]
    offsets, times = np.zeros(len(batches), OFFSET_ENTRY), np.zeros(len(batches), TIME_ENTRY)
    entries = position = since = newest = 0
    for batch, one in zip(batches, data, strict=True):
        if since > _INDEX_EVERY and batch.max_ms > newest:
            offsets[entries] = (batch.last_offset - base, position)
            times[entries] = (batch.max_ms, batch.last_offset - base)
            entries, since, newest = entries + 1, 0, batch.max_ms
        position, since = position + len(one), since + len(one)
    if not is_active and batches[-1].max_ms > newest:  # a broker ends the time index of a segment that it rolls
        times[entries] = (batches[-1].max_ms, batches[-1].last_offset - base)
    padding = bytes(OFFSET_ENTRY.itemsize * TIME_ENTRY.itemsize) if is_active else b""
    ended = entries + (not is_active and batches[-1].max_ms > newest)
    name, mtime_ms = f"{folder}/{base:020d}", batches[-1].max_ms + 500
    return (
        MadeFile(path=f"{name}.log", data=b"".join(data), mtime_ms=mtime_ms),
        MadeFile(path=f"{name}.index", data=offsets[:entries].tobytes() + padding, mtime_ms=mtime_ms),
        MadeFile(path=f"{name}.timeindex", data=times[:ended].tobytes() + padding, mtime_ms=mtime_ms),
    )


def repeated(batch: Batch, count: int, sparse_bytes: int = 0) -> Iterator[tuple[int, bytes]]:
    """One batch `count` times with rising offsets, which no checksum covers: positions and bytes; about 1 GB/s.

    With `sparse_bytes` the batches are that long and only their headers are given: what lies between may be a hole, and
    their checksums are wrong.
    """
    written = batch_bytes(batch)
    length = sparse_bytes or len(written)
    if sparse_bytes:
        written = written[:8] + _CRC.pack(sparse_bytes - PREFIX_BYTES) + written[PREFIX_BYTES:HEADER_BYTES]
    one = np.frombuffer(written, np.uint8)
    step = 1 if sparse_bytes else max(1, (4 << 20) // len(one))
    for first in range(0, count, step):
        number = np.arange(first, min(count, first + step), dtype=np.int64)
        block = np.tile(one, (len(number), 1))
        bases = batch.base_offset + number * len(batch.values)
        block[:, :8] = bases.astype(">i8").view(np.uint8).reshape(-1, 8)
        yield first * length, block.tobytes()


def checkpoint(entries: Sequence[tuple[object, ...]]) -> bytes:
    """A checkpoint file of version 0."""
    return "".join(f"{line}\n" for line in ("0", len(entries), *(" ".join(map(str, e)) for e in entries))).encode()


def with_flipped_crc(file: MadeFile) -> MadeFile:
    """The log with another checksum in its first batch."""
    at = _COVERED - 4
    return replace(file, data=file.data[:at] + bytes([file.data[at] ^ 1]) + file.data[at + 1 :])


def _record(offset: int, delta_ms: int, value: bytes) -> bytes:
    body = b"\0" + _varint(delta_ms) + _varint(offset) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    number, found = value << 1 if value >= 0 else (-value << 1) - 1, bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _packed(records: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(records, mtime=0)
    if codec == "zstd":  # without the size, as Java's writer
        return zstandard.ZstdCompressor(write_content_size=False).compress(records)
    return records
