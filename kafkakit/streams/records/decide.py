"""The records at an offset, batches that are not safe to decompress (bombs), and how both are shown.

A raw read of a log holds what read_committed consumers never see: markers, and records of aborted and open
transactions. What it does not inflate (snappy, lz4) comes from such a consumer. Where a record is not there, the
reason is. In text, rows and JSON fields, bytes are text if they are UTF-8, else hexadecimal digits or base64.

Of bombs there is what a scan found, as findings, rows and data, what is kept of a batch in quarantine, and which
offsets a group is to pass over.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.core.cluster_facts import ItemError, LogSpan, cluster_id_problem
from kafkakit.core.documents import encode_document
from kafkakit.core.errors import ExitCode, InputError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.findings import Finding, Rule, Severity, findings_data, in_order
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.records import Record
from kafkakit.core.text import sanitize, shell_command
from kafkakit.report.report import INDENT, FactList, Part, Report, ResultTable, attributes, findings_sections, records
from kafkakit.streams.model.binary import CHECKED_FROM, CRC_AT
from kafkakit.streams.model.commit import OffsetRanges, amount, topic_id_text, utc_text
from kafkakit.streams.model.guarded_reads import BatchVerdict, VerdictKind
from kafkakit.streams.model.log_batches import (
    Batch,
    Codec,
    LogRecord,
    RecordFault,
    SkippedBatch,
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


class TransactionOutcome(StrEnum):
    """Whether read_committed consumers get a record; UNKNOWN where that could not be read in time."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
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
    fate: TransactionOutcome | None = None

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
class ReadResult:
    """What came of reading from `offset` on; `span` is that of the log."""

    key: TopicPartition
    offset: int
    span: LogSpan
    entries: tuple[LogEntry, ...] = ()

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
        raise UsageError(
            f"{text!r:.200} is not TOPIC/PARTITION@OFFSET",
            hint="write it like payments/3@102",
        )
    return TopicPartition(match[1], int(match[2])), int(match[3])


def entries_of(buffer: bytes, offset: int) -> Iterator[LogEntry | SkippedBatch | WalkEnd | int]:
    """What a raw read holds from the offset on, in order, and after each batch the offset that follows it.

    A batch that cannot be inflated here comes as one entry.
    """
    for batch in batches_of(buffer):
        if not isinstance(batch, Batch):
            yield batch
        elif batch.next_offset > offset:
            yield from _in_batch(buffer, batch, offset)
            yield batch.next_offset


def resolve_entries(
    entries: Iterable[LogEntry], stable: int, committed: Mapping[int, Record], *, is_whole: bool
) -> Iterator[LogEntry]:
    """The entries with what a read_committed consumer gave: what sealed batches hold, and the ends of transactions.

    `stable` is the last stable offset; `is_whole`: the consumer read to the end of what it was to read.
    """
    for entry in entries:
        for one in _open_batch(entry, stable, committed, is_whole=is_whole) if entry.is_sealed else (entry,):
            if not one.batch.is_transactional or one.batch.is_control:
                yield one
            elif one.offset in committed:
                yield replace(one, fate=TransactionOutcome.COMMITTED)
            elif one.last >= stable:
                yield replace(one, fate=TransactionOutcome.OPEN)
            else:
                yield replace(one, fate=TransactionOutcome.ABORTED if is_whole else TransactionOutcome.UNKNOWN)


def _open_batch(sealed: LogEntry, stable: int, records: Mapping[int, Record], *, is_whole: bool) -> Iterator[LogEntry]:
    """The records of a sealed batch; the batch itself where the consumer could not give any."""
    held = [records[offset] for offset in sorted(records) if sealed.offset <= offset <= sealed.last]
    for one in held:
        yield LogEntry(
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


def _in_batch(buffer: bytes, batch: Batch, offset: int) -> Iterator[LogEntry]:
    first, last = max(offset, batch.base_offset), batch.next_offset - 1
    if batch.codec in SEALED and batch.count:
        yield LogEntry(offset=first, last=last, batch=batch, instead=f"batch compressed with {batch.codec_name}")
        return
    for record in records_of(buffer, batch):
        if isinstance(record, RecordFault):
            yield LogEntry(offset=first, last=last, batch=batch, instead=f"unreadable: {record.reason}")
            return
        if record.offset >= offset:
            yield _entry(record, batch)
            first = record.offset + 1


def _entry(record: LogRecord, batch: Batch) -> LogEntry:
    entry = LogEntry(offset=record.offset, last=record.offset, batch=batch, at_ms=record.timestamp_ms)
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


RECORD_COLUMNS = (
    "offset",
    "last",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "value_bytes",
    "transaction",
    "instead",
)
FATES = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted: read_committed consumers pass over it",
    TransactionOutcome.OPEN: "open: read_committed consumers wait for its end",
    TransactionOutcome.UNKNOWN: "its end was not read in time",
}


def records_report(found: ReadResult, cluster_id: str, most_bytes: int) -> Report:
    """What was found; keys, values and headers are cut after `most_bytes`. It fails where nothing was found."""
    place = sanitize(f"{found.key.topic}/{found.key.partition}@{found.offset}")
    first, end = found.span.start, found.span.end
    holds = f"the log is empty, the next offset is {end}" if first == end else f"the log holds {first} to {end - 1}"
    sections: list[Part] = [f"{place} on cluster {cluster_id}: {holds}"]
    if found.entries and found.problem:
        sections.append(f"{found.offset} was {found.problem}")
    for entry in found.entries:
        sections += ["", *_entry_sections(entry, most_bytes)]
    return Report(
        is_private=True,
        command="streams records show",
        data={
            "cluster_id": cluster_id,
            **attributes(found.key, "topic partition"),
            "offset": found.offset,
            "log_start": found.span.start,
            "log_stable": found.span.stable,
            "log_end": found.span.end,
            "problem": found.problem or None,
            "records": [_data(entry, most_bytes) for entry in found.entries],
        },
        sections=sections,
        table=ResultTable(RECORD_COLUMNS, tuple(_row(entry, most_bytes) for entry in found.entries)),
        failure=None if found.entries else OperationFailedError(f"{place}: {found.problem}"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """The newest records of a topic, or of one partition of it.

    `count` are those of each partition; `text` stands in the key or the value of those that are shown.
    """

    topic: str
    partition: int | None
    count: int
    text: str = ""

    def shows(self, entry: LogEntry) -> bool:
        """Whether a record is shown; what stands in the place of one is shown without a text only."""
        if not self.text:
            return True
        wanted = self.text.encode()
        return wanted in (entry.key or b"") or wanted in (entry.value or b"")


def parse_tail(place: str, count: int, text: str) -> TailRequest:
    """Read `TOPIC` or `TOPIC/PARTITION`; no name of a topic has a slash."""
    topic, sign, number = place.partition("/")
    if sign and not (number.isascii() and number.isdigit() and int(number) <= MAX_PARTITION):
        raise UsageError(f"{place!r:.200} is neither TOPIC nor TOPIC/PARTITION", hint="for example: payments/3")
    return TailRequest(topic=topic, partition=int(number) if sign else None, count=count, text=text)


TAIL_COLUMNS = ("topic", "partition", *RECORD_COLUMNS)
Tail = Sequence[tuple[TopicPartition, LogEntry]]


def in_time_order(found: Iterable[ReadResult], request: TailRequest) -> list[tuple[TopicPartition, LogEntry]]:
    """The records that are shown, oldest first; of one partition they keep their order."""
    order = []
    for one in found:
        newest = -1
        for entry in one.entries:
            newest = max(newest, entry.at_ms)
            if request.shows(entry):
                order.append((newest, one.key, entry.offset, entry))
    return [(key, entry) for _, key, _, entry in sorted(order, key=lambda each: each[:3])]


def tail_sections(records: Tail, most: int) -> Iterator[Part]:
    """Records for people, each with its place."""
    for key, entry in records:
        first, *rest = _entry_sections(entry, most)
        yield f"{sanitize(key.topic)}/{key.partition} {first}"
        yield from rest


def tail_data(key: TopicPartition, entry: LogEntry, most: int) -> dict[str, object]:
    """One record for programs."""
    return {"topic": key.topic, "partition": key.partition, **_data(entry, most)}


def tail_report(records: Tail, cluster_id: str, most: int) -> Report:
    """The newest records."""
    rows = tuple((key.topic, key.partition, *_row(entry, most)) for key, entry in records)
    return Report(
        is_private=True,
        command="record tail",
        data={"cluster_id": cluster_id, "records": [tail_data(key, entry, most) for key, entry in records]},
        sections=tuple(tail_sections(records, most)) or ("no record",),
        table=ResultTable(TAIL_COLUMNS, rows),
    )


def _entry_sections(entry: LogEntry, most: int) -> Iterator[Part]:
    batch, facts = entry.batch, []
    yield f"offset {entry.offset}" if entry.last == entry.offset else f"offsets {entry.offset} to {entry.last}"
    if entry.instead:
        of = f" of producer {batch.producer_id}, epoch {batch.producer_epoch}" if batch.is_control else ""
        yield f"  {entry.instead}{of}"
    if entry.at_ms >= 0:
        facts.append(("time", f"{utc_text(entry.at_ms)} ({entry.time_type})"))
    if not entry.instead:
        facts += [("key", bytes_text(entry.key, most)), ("value", bytes_text(entry.value, most))]
        facts += [("header", f"{sanitize(name)} = {bytes_text(value, most)}") for name, value in entry.headers]
    if entry.fate is not None:
        words = f"{FATES[entry.fate]} (producer {batch.producer_id}, epoch {batch.producer_epoch})"
        facts.append(("transaction", words))
    yield FactList(facts, 13, INDENT)


def bytes_text(data: bytes | None, most: int) -> str:
    """Bytes for people: UTF-8 as it is, others as hexadecimal digits, with their size; cut after `most`."""
    if data is None:
        return "null"
    text = _decode_text(data, most)
    shown = f"hex {data[:most].hex()}" if text is None else sanitize(text)
    cut = f", the first {most:,} shown" if len(data) > most else ""
    return f"{shown} ({count_of(len(data), 'byte')}{cut})" if data else "empty"


def _decode_text(data: bytes, most: int) -> str | None:
    """The first bytes as text, without a character that the cut splits; None where all of it is no UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return data[:most].decode(errors="ignore")


def bytes_field(data: bytes | None, most: int) -> dict[str, object] | None:
    """Bytes for programs: `text` or `base64`, `bytes` and `truncated`; None for null."""
    if data is None:
        return None
    text = _decode_text(data, most)
    held = {"base64": b64encode(data[:most]).decode()} if text is None else {"text": text}
    return {**held, "bytes": len(data), "truncated": len(data) > most}


def _data(entry: LogEntry, most: int) -> dict[str, object]:
    batch = entry.batch
    return {
        "offset": entry.offset,
        "last_offset": entry.last,
        "instead": entry.instead or None,
        "timestamp_ms": entry.at_ms if entry.at_ms >= 0 else None,
        "timestamp_type": entry.time_type,
        "key": bytes_field(entry.key, most),
        "value": bytes_field(entry.value, most),
        "headers": [{"name": name, "value": bytes_field(value, most)} for name, value in entry.headers],
        "compression": batch.codec_name,
        "transaction": entry.fate,
        "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
        "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
    }


def _row(entry: LogEntry, most: int) -> tuple[object, ...]:
    key, value = (None if data is None else bytes_text(data, most) for data in (entry.key, entry.value))
    size = None if entry.value is None else len(entry.value)
    at_ms = entry.at_ms if entry.at_ms >= 0 else None
    return (entry.offset, entry.last, at_ms, entry.time_type, key, value, size, entry.fate, entry.instead or None)


KIND = "quarantined-batch"
MOST_FOUND = 10_000
"""So many batches are listed; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBatch:
    """A batch that is not safe to decompress."""

    key: TopicPartition
    verdict: BatchVerdict

    @property
    def place(self) -> str:
        """Topic, partition and first offset, as `streams records show` takes them."""
        return f"{self.key.topic}/{self.key.partition}@{self.verdict.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStart:
    """Where a scan begins: an offset, or a record time in ms since 1970, or where each log does; and before `end`."""

    offset: int | None = None
    since_ms: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingResult:
    """What became of reading partitions up to their ends.

    `offsets` is where each reading is to continue. `unread` has the partitions that were not read to their end, with
    the reason.
    """

    offsets: Mapping[TopicPartition, int]
    unread: Mapping[TopicPartition, str]
    batches: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BombScan:
    """What a scan found on a cluster: at most `MOST_FOUND` batches, and `more` that are not listed.

    `size` is how many bytes of batches were looked at, `unread` as in `ReadingResult`.
    """

    cluster_id: str
    limit_bytes: int
    partitions: int
    batches: int
    size: int
    unread: Mapping[TopicPartition, str]
    found: tuple[FoundBatch, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedBatch:
    """What the file beside a batch in quarantine says of it; sizes in bytes, times in ms since 1970.

    `crc` is the checksum in the header, None where the header cannot be read; `sha256` is that of the batch's file.
    """

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    bytes: int
    crc: int | None
    sha256: str
    verdict: str
    reason: str
    codec: str | None
    records: int | None
    producer_id: int | None
    producer_epoch: int | None
    first_ms: int | None
    max_ms: int | None
    at_most_bytes: int
    declared_bytes: int | None
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """A batch in quarantine and the file it is in; `path` is "" where it was only planned."""

    found: FoundBatch
    path: str = ""


def starts_of(
    spans: Mapping[TopicPartition, LogSpan], offset: int | None, at: Mapping[TopicPartition, int | ItemError | None]
) -> dict[TopicPartition, int]:
    """Where reading begins: at an offset, at the first record of a time (`at`), or where the log does.

    Offsets outside of a log count as its ends.
    """
    starts = {}
    for key, span in spans.items():
        found = at.get(key, span.start if offset is None else offset)
        wanted = span.end if found is None or isinstance(found, ItemError) else found
        starts[key] = min(max(wanted, span.start), span.end)
    return starts


def continue_offsets(
    spans: Mapping[TopicPartition, LogSpan], cursors: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a reading continues: at its cursor, or where the log begins for what is new, was cut off or deleted."""
    return {
        key: cursors[key] if span.start <= cursors.get(key, -1) <= span.end else span.start
        for key, span in spans.items()
    }


def failed_reads(answers: Mapping[TopicPartition, object]) -> dict[TopicPartition, str]:
    """The partitions that a leader gave no answer for, with its reason."""
    return {key: str(answer) for key, answer in answers.items() if isinstance(answer, ItemError)}


def provenance(cluster_id: str, topic_id: bytes, found: FoundBatch, raw: bytes, limit_bytes: int) -> QuarantinedBatch:
    """What is written beside the bytes of a batch."""
    verdict, batch = found.verdict, found.verdict.batch
    has_producer = batch is not None and batch.producer_id >= 0
    return QuarantinedBatch(
        cluster_id=cluster_id,
        topic=found.key.topic,
        topic_id=topic_id_text(topic_id),
        partition=found.key.partition,
        first_offset=verdict.start,
        last_offset=verdict.end - 1,
        bytes=len(raw),
        crc=int.from_bytes(raw[CRC_AT:CHECKED_FROM], "big") if batch is not None else None,
        sha256=hashlib.sha256(raw).hexdigest(),
        verdict=verdict.kind,
        reason=verdict.reason,
        codec=batch.codec_name if batch is not None else None,
        records=batch.count if batch is not None else None,
        producer_id=batch.producer_id if batch is not None and has_producer else None,
        producer_epoch=batch.producer_epoch if batch is not None and has_producer else None,
        first_ms=batch.base_ms if batch is not None else None,
        max_ms=batch.max_ms if batch is not None else None,
        at_most_bytes=verdict.at_most_bytes,
        declared_bytes=verdict.declared_bytes,
        limit_bytes=limit_bytes,
    )


def encode_provenance(record: QuarantinedBatch) -> bytes:
    """The file beside a batch, schema `quarantined-batch`."""
    return encode_document(KIND, record)


def folder_names(cluster_id: str, found: FoundBatch) -> tuple[str, str, str]:
    """The folders of a batch below the quarantine, and its file's name without its end.

    The name is that of a Kafka segment, so that Kafka's own tools read the file. Raises `InputError` for a cluster id
    or a topic that is no name of a folder.
    """
    topic = found.key.topic
    if problem := cluster_id_problem(cluster_id):
        raise InputError("the cluster", problem)
    if not topic or not all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in topic):
        raise InputError("the cluster", f"topic {topic!r:.80} is not a name that Kafka allows")
    return cluster_id, f"{topic}-{found.key.partition}", f"{found.verdict.start:020d}"


def offsets_to_mark(kept: Iterable[KeptBatch], span: LogSpan | ItemError) -> OffsetRanges:
    """The offsets of batches in quarantine, as far as the log has not deleted them."""
    first = span.start if isinstance(span, LogSpan) else 0
    return OffsetRanges.of((max(first, one.found.verdict.start), one.found.verdict.end) for one in kept)


BOMB_COLUMNS = (
    "topic", "partition", "offset", "last_offset", "verdict", "codec", "bytes", "at_most_bytes", "declared_bytes",
    "ratio", "records", "producer_id", "producer_epoch", "first_ms", "max_ms", "reason",
)  # fmt: skip
BOMB = Rule("decompression-bomb", Severity.ERROR, "no batch becomes larger than the limit when it is decompressed")
CORRUPT = Rule("corrupt-batch", Severity.ERROR, "a batch is what its format asks for")
UNREAD = Rule("partition-unread", Severity.WARNING, "all partitions can be read to their end")


def batch_words(found: FoundBatch) -> str:
    """One batch in a line without its place."""
    verdict, batch = found.verdict, found.verdict.batch
    last = verdict.end - 1
    where = f"offset {last}" if last == verdict.start else f"offsets {verdict.start} to {last}"
    if batch is None:
        return sanitize(f"{where}: {verdict.reason}")
    size = f"{batch.codec_name} batch of {format_bytes(verdict.size)}"
    if verdict.kind is VerdictKind.CORRUPT:
        what = f"{size} is corrupt: {verdict.reason}"
    else:
        what = f"{size} can hold {format_bytes(verdict.at_most_bytes)}, {verdict.ratio:,.0f} times its size"
        what += f" ({verdict.reason})" if verdict.reason else ""
    producer = f", producer {batch.producer_id} epoch {batch.producer_epoch}" if batch.producer_id >= 0 else ""
    times = f"times {utc_text(batch.base_ms)} to {utc_text(batch.max_ms)}"
    return sanitize(f"{what}; {where}, {amount(batch.count, 'record')}{producer}, {times}")


def found_line(found: FoundBatch) -> str:
    """One batch in a line with its place."""
    return f"{sanitize(found.place)}: {batch_words(found)}"


def scan_report(scan: BombScan, program: str) -> Report:
    """What a scan found. It exits 1 with findings; 75 without one where a partition was not read to its end."""
    findings = _findings(scan, program)
    unread = [f"{sanitize(str(key))}: {sanitize(reason)}" for key, reason in sorted(scan.unread.items())]
    total = len(scan.found) + scan.more
    head = (
        f"cluster {scan.cluster_id}: {count_of(scan.partitions, 'partition')}, {scan.batches:,} batches"
        f" ({format_bytes(scan.size)}) read, limit {amount(scan.limit_bytes, 'byte')}"
    )
    more = [f"and {scan.more} more batches that are not listed"] if scan.more else []
    missing = TryLaterError(
        f"{len(unread)} of {count_of(scan.partitions, 'partition')} not read to the end: {unread[0]}" if unread else "",
        hint="what was read holds no batch over the limit",
    )
    return Report(
        command="streams bombs scan",
        data={
            **attributes(scan, "cluster_id limit_bytes partitions batches"),
            "bytes": scan.size,
            "found": total,
            "listed": records(BOMB_COLUMNS, map(batch_row, scan.found)),
            "unread": [
                {"topic": key.topic, "partition": key.partition, "reason": reason}
                for key, reason in sorted(scan.unread.items())
            ],
            **findings_data(findings),
        },
        sections=(head, "", *findings_sections(findings), *more),
        table=ResultTable(BOMB_COLUMNS, tuple(batch_row(found) for found in scan.found)),
        failure=missing if unread and not total else None,
        code=ExitCode.FAILED if total else ExitCode.DONE,
    )


def batch_row(found: FoundBatch) -> tuple[object, ...]:
    """One batch, under `COLUMNS`."""
    verdict, batch = found.verdict, found.verdict.batch
    first = (*found.key, verdict.start, verdict.end - 1, verdict.kind.value)
    sizes = (verdict.size, verdict.at_most_bytes, verdict.declared_bytes, round(verdict.ratio, 1))
    if batch is None:
        return (*first, None, *sizes, None, None, None, None, None, verdict.reason)
    producer = (batch.producer_id, batch.producer_epoch) if batch.producer_id >= 0 else (None, None)
    times = (batch.base_ms, batch.max_ms)
    return (*first, batch.codec_name, *sizes, batch.count, *producer, *times, verdict.reason or None)


def quarantine_report(
    kept: Sequence[KeptBatch], cluster_id: str, folder: str, edit: Report | None, *, is_planned: bool
) -> Report:
    """Which batches are in quarantine, or would be, and what becomes of the group's commits (`edit`)."""
    words = "would be written below" if is_planned else "are kept below" if len(kept) > 1 else "is kept below"
    lines = [f"cluster {cluster_id}: {count_of(len(kept), 'batch', 'batches')} {words} {sanitize(folder)}"]
    if not kept:
        lines = [f"cluster {cluster_id}: no batch is over the limit, nothing was written"]
    for one in kept:
        lines.append(f"  {found_line(one.found)}")
        if one.path:
            lines.append(f"    {sanitize(one.path)}")
    report = Report(
        command="streams bombs quarantine",
        data={
            "cluster_id": cluster_id,
            "folder": folder,
            "planned": is_planned,
            "batches": [
                {**dict(zip(BOMB_COLUMNS, batch_row(one.found), strict=True)), "path": one.path or None} for one in kept
            ],
            "edit": None if edit is None else edit.data,
        },
        sections=lines,
        table=ResultTable((*BOMB_COLUMNS, "path"), tuple((*batch_row(one.found), one.path or None) for one in kept)),
    )
    if edit is None:
        return report
    return replace(report, sections=(*report.sections, "", *edit.sections), failure=edit.failure)


def _findings(scan: BombScan, program: str) -> tuple[Finding, ...]:
    found = []
    for one in scan.found:
        rule = CORRUPT if one.verdict.kind is VerdictKind.CORRUPT else BOMB
        hint = str(
            shell_command(
                "streams bombs quarantine",
                one.key.topic,
                program=program,
                partition=one.key.partition,
                offsets=str(one.verdict.start),
                limit=str(scan.limit_bytes),
            )
        )
        found.append(rule.finding(sanitize(one.place), batch_words(one), hint))
    for key, reason in sorted(scan.unread.items()):
        found.append(UNREAD.finding(sanitize(str(key)), sanitize(reason), "scan it again when its leader answers"))
    return in_order(found)
