"""The records at an offset, out of raw reads of a log: what is there, and why something is not.

A raw read holds what read_committed consumers never see: markers, and records of aborted and open transactions. What
it does not inflate (snappy, lz4) comes from such a consumer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.core.errors import UsageError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.streams.model.log_batches import (
    Batch,
    Codec,
    LogRecord,
    RecordFault,
    Skipped,
    WalkEnd,
    batches_of,
    headers_of,
    records_of,
)

MAX_OFFSET = (1 << 62) - 1
MAX_PARTITION = (1 << 31) - 1
SEALED = (Codec.SNAPPY, Codec.LZ4)
_PLACE = re.compile(r"(.+)/([0-9]{1,10})@([0-9]{1,19})", re.DOTALL)
_MARKERS = {0: "abort marker", 1: "commit marker"}


class Fate(StrEnum):
    """Whether read_committed consumers get a record; UNKNOWN where that could not be read in time."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the log holds from `offset` to `last`: one record, or with `instead` what is there in its place.

    `time_type` is CreateTime or LogAppendTime; `fate` is None outside of transactions.
    """

    offset: int
    last: int
    batch: Batch
    at_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    instead: str = ""
    fate: Fate | None = None

    @property
    def time_type(self) -> str:
        """Whose clock the time is from, in the words of Kafka's settings."""
        return "LogAppendTime" if self.batch.is_log_append_time else "CreateTime"

    @property
    def is_sealed(self) -> bool:
        """True for a whole batch whose records only a consumer inflates."""
        return self.batch.codec in SEALED and bool(self.instead)

    @property
    def least_records(self) -> int:
        """How many records it stands for, at least: in a sealed batch some may lie below the offset."""
        return max(1, self.batch.count - (self.offset - self.batch.base_offset)) if self.is_sealed else 1

    @property
    def size(self) -> int:
        """Bytes of key, value and headers, or of the batch where they are not inflated."""
        named = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + named + (self.batch.size if self.is_sealed else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of reading from `offset` on; `span` is that of the log."""

    key: TopicPartition
    offset: int
    span: LogSpan
    entries: tuple[Entry, ...] = ()

    @property
    def problem(self) -> str:
        """Why the offset itself has no record, "" where it has one."""
        if self.offset < self.span.start:
            return f"deleted: the log starts at {self.span.start}"
        if self.offset >= self.span.end:
            return f"beyond the end: the next record gets offset {self.span.end}"
        if not self.entries:
            return f"compacted away, and no record follows it up to the end of the log at {self.span.end}"
        first = self.entries[0].offset
        return f"compacted away: the next record is at {first}" if first > self.offset else ""


def parse_place(text: str) -> tuple[TopicPartition, int]:
    """Read `TOPIC/PARTITION@OFFSET`; `UsageError` with the form for anything else."""
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > MAX_PARTITION or int(match[3]) > MAX_OFFSET:
        raise UsageError(f"{text!r:.200} names no record", hint="write TOPIC/PARTITION@OFFSET, such as payments/3@102")
    return TopicPartition(match[1], int(match[2])), int(match[3])


def entries_of(buffer: bytes, offset: int) -> Iterator[Entry | Skipped | WalkEnd | int]:
    """What a raw read holds from the offset on, in order, and after each batch the offset that follows it.

    A batch that cannot be inflated here comes as one entry.
    """
    for batch in batches_of(buffer):
        if not isinstance(batch, Batch):
            yield batch
        elif batch.next_offset > offset:
            yield from _in_batch(buffer, batch, offset)
            yield batch.next_offset


def resolved(
    entries: Iterable[Entry], stable: int, committed: Mapping[int, Record], *, is_whole: bool
) -> Iterator[Entry]:
    """The entries with what a read_committed consumer gave: what sealed batches hold, and the ends of transactions.

    `stable` is the last stable offset; `is_whole`: the consumer read to the end of what it was to read.
    """
    for entry in entries:
        for one in _opened(entry, stable, committed, is_whole=is_whole) if entry.is_sealed else (entry,):
            if not one.batch.is_transactional or one.batch.is_control:
                yield one
            elif one.offset in committed:
                yield replace(one, fate=Fate.COMMITTED)
            elif one.last >= stable:
                yield replace(one, fate=Fate.OPEN)
            else:
                yield replace(one, fate=Fate.ABORTED if is_whole else Fate.UNKNOWN)


def _opened(sealed: Entry, stable: int, records: Mapping[int, Record], *, is_whole: bool) -> Iterator[Entry]:
    """The records of a sealed batch; the batch itself where the consumer could not give any."""
    held = [records[offset] for offset in sorted(records) if sealed.offset <= offset <= sealed.last]
    for one in held:
        yield Entry(
            offset=one.offset,
            last=one.offset,
            batch=sealed.batch,
            at_ms=-1 if one.at_ms is None else one.at_ms,
            key=one.key,
            value=None if one.is_null else one.value,
            headers=one.headers,
        )
    if not held and (sealed.batch.is_transactional or sealed.last >= stable or not is_whole):
        yield replace(sealed, instead=f"{sealed.instead}: shown only once read_committed consumers get its records")


def _in_batch(buffer: bytes, batch: Batch, offset: int) -> Iterator[Entry]:
    first, last = max(offset, batch.base_offset), batch.next_offset - 1
    if batch.codec in SEALED and batch.count:
        yield Entry(offset=first, last=last, batch=batch, instead=f"batch compressed with {batch.codec_name}")
        return
    for record in records_of(buffer, batch):
        if isinstance(record, RecordFault):
            yield Entry(offset=first, last=last, batch=batch, instead=f"unreadable: {record.reason}")
            return
        if record.offset >= offset:
            yield _entry(record, batch)
            first = record.offset + 1


def _entry(record: LogRecord, batch: Batch) -> Entry:
    entry = Entry(offset=record.offset, last=record.offset, batch=batch, at_ms=record.timestamp_ms)
    if batch.is_control:
        kind = int.from_bytes((record.key or b"")[2:4], "big") if len(record.key or b"") >= 4 else -1
        return replace(entry, instead=_MARKERS.get(kind, f"control record of type {kind}"))
    headers = headers_of(record)
    named = () if isinstance(headers, RecordFault) else headers
    return replace(
        entry,
        key=record.key,
        value=record.value,
        headers=tuple((name.decode("utf-8", "backslashreplace"), value) for name, value in named),
        instead=f"unreadable: {headers.reason}" if isinstance(headers, RecordFault) else "",
    )
