"""Record batches of a raw log read (format v2), header by header, the records inside them, and when they were written.

A raw read is what a broker sends for a fetch: whole batches, of which the last may be cut. Headers tell offsets, times
and producers without any inflation. Nothing here raises on broken bytes, and every walk ends: a fault is a value with
its reason. Checksums are not verified, brokers do that when they append.

The time of the record at an offset is exact, or between bounds that are told to be proven or not. Fetch from the offset
on: the broker answers with the batch that holds it, and one batch is enough as a rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

from kafkakit.streams.model.binary import (
    HEADER,
    HEADER_BYTES,
    LEAST_LENGTH,
    MAGIC,
    MAGIC_AT,
    MIN_OLD_LENGTH,
    PREFIX_BYTES,
    VARLONG,
    batch_length,
    read_varint,
)
from kafkakit.streams.model.compressed_sizes import DamagedError
from kafkakit.streams.model.inflate import BombError, inflate_gzip, inflate_zstd

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
class SkippedBatch:
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


def batches_of(buffer: bytes, position: int = 0) -> Iterator[Batch | SkippedBatch | WalkEnd]:
    """The batches of a raw read in order; a `WalkEnd` comes last where the buffer does not end with a batch."""
    size = len(buffer)
    while position < size:
        if size - position < PREFIX_BYTES + MIN_OLD_LENGTH:
            yield WalkEnd(position, "cut tail", is_corrupt=False)
            return
        length, magic = batch_length(buffer, position), buffer[position + MAGIC_AT]
        if length < MIN_OLD_LENGTH or (magic == MAGIC and length < LEAST_LENGTH):
            yield WalkEnd(position, f"a batch length of {length}", is_corrupt=True)
            return
        whole = PREFIX_BYTES + length
        if position + whole > size:
            yield WalkEnd(position, "cut tail", is_corrupt=False)
            return
        yield _batch(buffer, position, whole, magic)
        position += whole


def _batch(buffer: bytes, position: int, whole: int, magic: int) -> Batch | SkippedBatch:
    if magic != MAGIC:
        return SkippedBatch(position, whole, f"message format {magic}")
    base, _, leader, _, _, attributes, last_delta, base_ms, max_ms, pid, epoch, sequence, count = HEADER.unpack_from(
        buffer, position
    )
    if not 0 <= base <= MAX_OFFSET or last_delta < 0 or count < 0:
        return SkippedBatch(position, whole, "impossible offsets in a batch header")
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
    delta_ms, at = read_varint(data, start + 1, end, VARLONG)
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


NO_TIME = -1
_COMMIT = b"\0\1"
"""The type in a marker's key, after its version."""


class TimeKind(StrEnum):
    """Where a time comes from: the record itself, the broker's clock for the whole batch, or the batch's header."""

    RECORD = "record"
    APPEND = "append"
    HEADER = "header"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTime:
    """The first data record at or above the offset asked for, and the interval that its time lies in.

    `offset` is the lowest that it can have; `is_offset_exact` says that it has that one. Times are by the clock of
    the producer, or the broker's for `APPEND`; -1 where nothing is known: a record without a time, or a header that
    does not tell. With `HEADER` the low end is not proven, since records may be older than the batch's base time;
    the high end is, unless the record may lie beyond the buffer. A record of a transaction is not for
    `read_committed` consumers unless that was committed; `is_committed` when the buffer holds the marker that says so.
    """

    offset: int
    low_ms: int
    high_ms: int
    kind: TimeKind
    is_low_proven: bool = True
    is_high_proven: bool = True
    is_offset_exact: bool = True
    is_transactional: bool = False
    is_committed: bool = False
    producer_id: int = -1


@dataclass(frozen=True, slots=True)
class NoRecord:
    """The buffer ends before such a record: fetch on from `next_offset`.

    `problem` says what could not be read before it, "" for nothing: with one, the record may be there.
    """

    next_offset: int
    problem: str = ""


def record_at(buffer: bytes, offset: int) -> RecordTime | NoRecord:
    """The first data record at or above `offset` in a raw read; markers and records compacted away are skipped.

    Never raises. Costs the records of one batch up to the offset, and inflating it where it is compressed.
    """
    next_offset, problem = offset, ""
    doubtful: RecordTime | None = None
    batches = batches_of(buffer)
    for batch in batches:
        if not isinstance(batch, Batch):
            if not isinstance(batch, WalkEnd) or batch.is_corrupt:
                problem = batch.reason
            continue
        if batch.base_offset <= offset:
            problem = ""
        if batch.next_offset <= offset:
            continue
        if problem and not doubtful:
            return NoRecord(max(offset, batch.base_offset), problem)
        next_offset = max(next_offset, batch.next_offset)
        if batch.is_control or not batch.count:
            continue
        found = _in_batch(buffer, batch, offset)
        if found is None:
            continue
        found = _join_times(doubtful, found) if doubtful else found
        if found.is_high_proven:
            return replace(found, is_committed=True) if _was_committed(buffer, found, batches) else found
        doubtful = found
    return doubtful or NoRecord(next_offset, problem)


def _was_committed(buffer: bytes, found: RecordTime, later: Iterator[Batch | SkippedBatch | WalkEnd]) -> bool:
    """Whether the next marker of the record's producer commits; what cannot be read may have been that marker."""
    if not found.is_transactional or not found.is_offset_exact:
        return False
    for batch in later:
        if not isinstance(batch, Batch):
            return False
        if batch.is_control and batch.producer_id == found.producer_id:
            marker = next(records_of(buffer, batch), None)
            return isinstance(marker, LogRecord) and marker.key is not None and marker.key[2:4] == _COMMIT
    return False


def _in_batch(buffer: bytes, batch: Batch, offset: int) -> RecordTime | None:
    """None where all records of the batch are below the offset; the high end unproven where they may be."""
    for record in records_of(buffer, batch):
        if not isinstance(record, LogRecord):
            return _by_header(batch, offset)
        if record.offset >= offset:
            return RecordTime(
                offset=record.offset,
                low_ms=max(record.timestamp_ms, NO_TIME),
                high_ms=max(record.timestamp_ms, NO_TIME),
                kind=TimeKind.APPEND if batch.is_log_append_time else TimeKind.RECORD,
                is_transactional=batch.is_transactional,
                producer_id=batch.producer_id,
            )
    return None


def _by_header(batch: Batch, offset: int) -> RecordTime:
    """Of a batch that cannot be read: all of its records are there only if it has as many as offsets."""
    is_whole = batch.count == batch.last_offset_delta + 1
    high = max(batch.max_ms, NO_TIME)
    low = high if batch.is_log_append_time else min(batch.base_ms, high)
    if batch.has_delete_horizon and not batch.is_log_append_time:
        low = NO_TIME  # the place of the base time holds the cleaner's horizon
    return RecordTime(
        offset=max(offset, batch.base_offset),
        low_ms=max(low, NO_TIME),
        high_ms=high,
        kind=TimeKind.APPEND if batch.is_log_append_time else TimeKind.HEADER,
        is_low_proven=batch.is_log_append_time,
        is_high_proven=is_whole or offset <= batch.base_offset,
        is_offset_exact=is_whole,
        is_transactional=batch.is_transactional,
        producer_id=batch.producer_id,
    )


def _join_times(doubtful: RecordTime, later: RecordTime) -> RecordTime:
    """The record is in either of two batches: both their bounds hold."""
    known = doubtful.low_ms >= 0 and later.low_ms >= 0
    return replace(
        later,
        offset=doubtful.offset,
        low_ms=min(doubtful.low_ms, later.low_ms) if known else NO_TIME,
        high_ms=max(doubtful.high_ms, later.high_ms),
        kind=TimeKind.HEADER if TimeKind.HEADER in (doubtful.kind, later.kind) else later.kind,
        is_low_proven=doubtful.is_low_proven and later.is_low_proven,
        is_offset_exact=False,
        is_transactional=doubtful.is_transactional or later.is_transactional,
    )
