"""Record batches of a raw log read (format v2), header by header, and the records inside them.

A raw read is what a broker sends for a fetch: whole batches, of which the last may be cut. Headers tell offsets,
times and producers without any inflation. Nothing here raises on broken bytes, and every walk ends: a fault is a
value with its reason. Checksums are not verified, brokers do that when they append.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from kafkakit.streams.formats.inflate import BombError, inflate_gzip, inflate_zstd
from kafkakit.streams.formats.zstd_frames import DamagedError

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
MAGIC = 2
PREFIX_BYTES = 12
"""Bytes of a batch before what its length counts: base offset and the length itself."""

MIN_OLD_LENGTH = 14
"""The shortest message of formats 0 and 1: checksum, magic, attributes and two empty lengths."""

MAX_OFFSET = (1 << 62) - 1
MAX_INFLATED = 64 << 20
"""A batch that inflates to more than this is not read; brokers refuse such batches of ordinary producers."""


class Codec(IntEnum):
    """Compression of a batch, by the number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """One whole batch of format v2: where it lies in the buffer, and what its header says.

    `base_ms` is the time of the batch's first record when it was made. Records may be older than it, since their
    times are signed differences to it; `max_ms` is the highest of them, or the broker's time with LogAppendTime.
    """

    position: int
    size: int
    base_offset: int
    attributes: int
    last_offset_delta: int
    base_ms: int
    max_ms: int
    producer_id: int
    producer_epoch: int
    count: int
    leader_epoch: int = -1
    base_sequence: int = -1

    @property
    def end(self) -> int:
        """Where the next batch begins in the buffer."""
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last one, records that compaction took away included."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec | None:
        """The compression; None for a number that Kafka has not given out."""
        number = self.attributes & 7
        return Codec(number) if number <= Codec.ZSTD else None

    @property
    def codec_name(self) -> str:
        """The codec's name as Kafka's configuration writes it."""
        return self.codec.name.lower() if self.codec is not None else f"codec {self.attributes & 7}"

    @property
    def is_log_append_time(self) -> bool:
        """True when the broker stamped all records with `max_ms`."""
        return bool(self.attributes & 8)

    @property
    def is_transactional(self) -> bool:
        """True for records, and markers, of a transaction."""
        return bool(self.attributes & 16)

    @property
    def is_control(self) -> bool:
        """True when the batch holds a transaction marker and no data."""
        return bool(self.attributes & 32)

    @property
    def has_delete_horizon(self) -> bool:
        """True when the cleaner put its delete horizon in the place of the base time."""
        return bool(self.attributes & 64)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A batch that cannot be read but whose end is known; `reason` says why."""

    position: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class WalkEnd:
    """Why a walk stopped at `position` before the buffer's end: a cut tail, or bytes that are no batch."""

    position: int
    reason: str
    is_corrupt: bool


def batches_of(buffer: bytes, position: int = 0) -> Iterator[Batch | Skipped | WalkEnd]:
    """The batches of a raw read in order; a `WalkEnd` comes last where the buffer does not end with a batch."""
    size = len(buffer)
    while position < size:
        if size - position < PREFIX_BYTES + MIN_OLD_LENGTH:
            yield WalkEnd(position, "cut tail", is_corrupt=False)
            return
        length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        magic = buffer[position + 16]
        if length < MIN_OLD_LENGTH or (magic == MAGIC and length < HEADER_BYTES - PREFIX_BYTES):
            yield WalkEnd(position, f"a batch length of {length}", is_corrupt=True)
            return
        whole = PREFIX_BYTES + length
        if position + whole > size:
            yield WalkEnd(position, "cut tail", is_corrupt=False)
            return
        yield _batch(buffer, position, whole, magic)
        position += whole


def _batch(buffer: bytes, position: int, whole: int, magic: int) -> Batch | Skipped:
    if magic != MAGIC:
        return Skipped(position, whole, f"message format {magic}")
    base, _, leader, _, _, attributes, last_delta, base_ms, max_ms, pid, epoch, sequence, count = HEADER.unpack_from(
        buffer, position
    )
    if not 0 <= base <= MAX_OFFSET or last_delta < 0 or count < 0:
        return Skipped(position, whole, "impossible offsets in a batch header")
    return Batch(position, whole, base, attributes, last_delta, base_ms, max_ms, pid, epoch, count, leader, sequence)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; key and value are None where the log holds null. With LogAppendTime the time is the broker's.

    `header_bytes` are its headers as they are stored: see `headers_of`.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    header_bytes: bytes = b"\0"


@dataclass(frozen=True, slots=True)
class RecordFault:
    """Why the rest of a batch, or all of it, cannot be read."""

    reason: str


def records_of(buffer: bytes, batch: Batch, max_inflated: int = MAX_INFLATED) -> Iterator[LogRecord | RecordFault]:
    """The records of a batch; a `RecordFault` comes last where not all of them can be read."""
    section = record_section(buffer, batch, max_inflated)
    if isinstance(section, RecordFault):
        yield section
        return
    data, position, end = section
    for _ in range(batch.count):
        size, start = read_varint(data, position, end)
        if start < 0 or size < 0 or start + size > end:
            yield RecordFault("a record runs over its batch")
            return
        position = start + size
        record = _record(data, start, position, batch)
        yield record
        if isinstance(record, RecordFault):
            return


def record_section(
    buffer: bytes, batch: Batch, max_inflated: int = MAX_INFLATED
) -> tuple[bytes, int, int] | RecordFault:
    """Where a batch's records lie uncompressed: bytes with start and end; the buffer itself where it can be."""
    start = batch.position + HEADER_BYTES
    codec = batch.codec
    if codec is Codec.NONE:
        return buffer, start, batch.end
    if codec is not Codec.ZSTD and codec is not Codec.GZIP:
        return RecordFault(f"compressed with {batch.codec_name}")
    inflate = inflate_zstd if codec is Codec.ZSTD else inflate_gzip
    try:
        plain = inflate(buffer[start : batch.end], max_inflated)
    except BombError:
        return RecordFault(f"inflates to more than {max_inflated} bytes")
    except DamagedError:
        return RecordFault(f"broken {batch.codec_name} data")
    return plain, 0, len(plain)


def _record(data: bytes, start: int, end: int, batch: Batch) -> LogRecord | RecordFault:
    delta_ms, at = read_varint(data, start + 1, end, 10)
    delta, at = read_varint(data, at, end)
    key, at = _bytes_field(data, at, end)
    value, at = _bytes_field(data, at, end)
    if at < 0:
        return RecordFault("a record's fields run over its end")
    offset = batch.base_offset + delta
    if not 0 <= delta <= batch.last_offset_delta:
        return RecordFault("a record's offset lies outside its batch")
    time_ms = batch.max_ms if batch.is_log_append_time else batch.base_ms + delta_ms
    return LogRecord(offset, time_ms, key, value, data[at:end])


def headers_of(record: LogRecord) -> tuple[tuple[bytes, bytes | None], ...] | RecordFault:
    """The headers of a record in their order; a value is None where the log holds null."""
    data = record.header_bytes
    count, at = read_varint(data, 0, len(data))
    found = []
    for _ in range(count):
        name, at = _bytes_field(data, at, len(data))
        value, at = _bytes_field(data, at, len(data))
        if at < 0:
            return RecordFault("a record's headers run over its end")
        found.append((name or b"", value))
    return tuple(found)


def _bytes_field(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at, end)
    if at < 0 or size < 0:
        return None, at
    if at + size > end:
        return None, -1
    return data[at : at + size], at + size


def read_varint(data: bytes, at: int, end: int, max_bytes: int = 5) -> tuple[int, int]:
    """A zigzag varint at `at`, with where it ends: -1 where it runs over `end` or `max_bytes`, or `at` is -1."""
    value = shift = 0
    if at < 0:
        return 0, -1
    for i in range(at, min(end, at + max_bytes)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), i + 1
        shift += 7
    return 0, -1
