"""When the record at an offset was written, out of a raw read: exactly, or between bounds that are told to be proven
or not.

Fetch from the offset on: the broker answers with the batch that holds it, and one batch is enough as a rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.streams.formats.log_batches import Batch, LogRecord, Skipped, WalkEnd, batches_of, records_of

MAX_INFLATED = 8 << 20
"""A batch that inflates to more is judged by its header."""

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
        found = _joined(doubtful, found) if doubtful else found
        if found.is_high_proven:
            return replace(found, is_committed=True) if _was_committed(buffer, found, batches) else found
        doubtful = found
    return doubtful or NoRecord(next_offset, problem)


def _was_committed(buffer: bytes, found: RecordTime, later: Iterator[Batch | Skipped | WalkEnd]) -> bool:
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


def _joined(doubtful: RecordTime, later: RecordTime) -> RecordTime:
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
