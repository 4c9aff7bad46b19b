"""Rows of tables `segments`, `batches` and `directories` for one directory, whose files a caller lists and opens.

Counts over the batches of a segment are made chunk by chunk. Offset, time and transaction indexes are read, and whether
their entries fit the batches of their segment.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.model.binary import HEADER_BYTES
from kafkakit.streams.model.log_dirs import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    DirState,
    FileReader,
    PartitionFiles,
    SeenFile,
    SegmentFileName,
    is_foreign,
    leader_epochs,
    readable_name,
    segment_file_name,
    topic_id,
)
from kafkakit.streams.model.segment_batches import (
    CODECS,
    BatchChunk,
    Ints,
    WalkResult,
    crc_failures,
    expansions,
    walk_batches,
)

Row = dict[str, object]
SUSPICIOUS_BYTES = 8 << 20
_SAMPLE_SHIFT = np.uint64(54)
"""One batch of 1,024 is in the sample."""
_MAX_SUSPICIOUS = 1_000
"""Rows of a segment whose batches are all suspicious; the largest are kept."""

MOST_BYTES = (1 << 31) - 1
"""Of a segment, by Kafka: positions in it are int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What is read beside headers: checksums need all bytes; `with_batches` makes rows of table `batches`."""

    with_crc: bool = False
    with_batches: bool = True
    suspicious_bytes: int = SUSPICIOUS_BYTES
    seen_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """The row of a segment, and those of its batches."""

    segment: Row
    batches: Sequence[Row] = ()


def read_partition(found: PartitionFiles, reader: FileReader, options: ScanOptions) -> Iterator[SegmentRows]:
    """The segments of a directory in the order of their offsets, then what else uses its disk.

    A file that vanished, cannot be read or is damaged has the reason in `fault`; nothing is raised. A log file's bytes
    are taken as listed, so that one that grows is read up to there.
    """
    if found.fault or found.name is None:
        if found.fault:
            yield SegmentRows(_row(found, "", "unreadable", options) | {"fault": readable_name(found.fault)})
        return
    named = [(file, segment_file_name(file.name)) for file in found.files]
    live = {(n.base_offset, n.kind): file for file, n in named if n is not None and not n.mark}
    bases = sorted(base for base, kind in live if kind == "log")
    content = _Contents(reader, found.path, found.is_in_use)
    epochs = leader_epochs(content.read(LEADER_EPOCHS)) if any(f.name == LEADER_EPOCHS for f in found.files) else ()
    aborted, txn_faults = [], {}
    for base in bases:
        file = live.get((base, "txnindex"))
        entries, txn_faults[base] = aborted_transactions(content.read(file.name) if file else b"")
        aborted.append(entries)
    transactions = OpenTransactions()
    every = np.concatenate([np.empty(0, TXN_ENTRY), *aborted])
    for base, own in zip(bases, aborted, strict=True):
        tally = BatchTally(every, epochs)
        files = {kind: live[base, kind] for kind in ("log", "index", "timeindex", "txnindex") if (base, kind) in live}
        row = _row(found, files["log"].name, _role(found.name.state), options) | {
            "base_offset": base,
            "size_bytes": files["log"].size_bytes,
            "mtime_ms": files["log"].mtime_ms,
            "is_active": base == bases[-1],
            "txn_entries": len(own),
            "dead_bytes": sum(f.held_bytes for f in files.values()) if _is_dead(found.name.state) else 0,
        }
        if base == bases[-1]:
            row |= {"log_start": found.log_start, "recovery_point": found.recovery_point}
        path = f"{found.path}/{files['log'].name}"
        yield _read_segment(row, path, files, tally, transactions, content, txn_faults[base], options)
    for file, name in named:
        role = _dead_role(name, file.name, bases)
        if role:
            # A segment's file was written long before it was renamed; a copy of it is as new as the copy.
            since = file.changed_ms if role == "deleted" and found.is_in_use else file.mtime_ms
            yield SegmentRows(
                _row(found, file.name, role, options)
                | {"base_offset": name.base_offset if name else None, "size_bytes": file.size_bytes}
                | {"mtime_ms": since, "is_active": False, "dead_bytes": file.held_bytes}
            )


def directory_row(found: PartitionFiles, reader: FileReader, options: ScanOptions) -> Row:
    """The row of table `directories`: of which partition it is by its name and files, and the disk that it uses."""
    metadata = b""
    if any(file.name == PARTITION_METADATA for file in found.files):
        with suppress(OSError):
            metadata = reader.content(f"{found.path}/{PARTITION_METADATA}")
    row = _row(found, "", "", options)
    row["role"] = "unreadable" if found.fault else found.name.state.value if found.name else "foreign"
    facts = {"topic_id": topic_id(metadata), "held_bytes": found.log_bytes, "oldest_ms": found.oldest_ms}
    return row | facts | {"cleaned_to": found.cleaned_to}


@dataclass(slots=True)
class _Contents:
    """Small files of a directory; one that cannot be read is empty, and the first reason is kept."""

    reader: FileReader
    folder: str
    is_in_use: bool
    fault: str = ""

    def read(self, name: str) -> bytes:
        try:
            return self.reader.content(f"{self.folder}/{name}")
        except OSError as error:
            self.fault = self.fault or _reason(name, error)
            return b""


@dataclass(slots=True)
class OpenTransactions:
    """The transactions that have begun and not ended, by producer id: the time of their first batch, -1 for none.

    One is handed from segment to segment of a partition, oldest first.
    """

    since_ms: dict[int, int] = field(default_factory=dict)

    def take(self, producers: Ints, is_control: NDArray[np.bool_], times: Ints) -> None:
        """The transactional batches of a chunk, in order."""
        order = np.argsort(producers, kind="stable")
        pids, control = producers[order], is_control[order]
        first = np.flatnonzero(np.r_[True, pids[1:] != pids[:-1]])
        place = np.arange(len(pids))
        markers = np.maximum.reduceat(np.where(control, place, -1), first)
        sizes = np.diff(np.r_[first, len(pids)])
        is_later = ~control & (place > np.repeat(markers, sizes))
        begins = np.minimum.reduceat(np.where(is_later, place, len(pids)), first)
        for pid, marker, begin in zip(pids[first].tolist(), markers.tolist(), begins.tolist(), strict=True):
            if marker >= 0:
                self.since_ms.pop(pid, None)
            if begin < len(pids):
                self.since_ms.setdefault(pid, int(times[order[begin]]))

    @property
    def oldest_ms(self) -> int | None:
        """The earliest time that is known; None where no transaction is open."""
        return min((t for t in self.since_ms.values() if t >= 0), default=None)


@dataclass(slots=True)
class BatchTally:
    """The columns of table `segments` that come from batches alone; see `kafkakit.core.fleet_tables`.

    `epochs` are the entries of the partition's leader epoch checkpoint. `smallest_ratio_bound` is the greatest of what
    compressed batches expand by at least: their records, 7 bytes each, over their bytes.
    """

    aborted: NDArray[np.void]
    epochs: tuple[tuple[int, int], ...] = ()
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_batch_max_ms: int | None = None
    min_ms: int | None = None
    max_ms: int | None = None
    missing_times: int = 0
    append_time_batches: int = 0
    codecs: Ints = field(default_factory=lambda: np.zeros(8, np.int64))
    single_record_batches: int = 0
    tiny_batches: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    aborted_records: int = 0
    offset_gaps: int = 0
    missing_records: int = 0
    overlaps: int = 0
    epoch_regressions: int = 0
    epoch_faults: int = 0
    first_epoch: int | None = None
    last_epoch: int | None = None
    smallest_ratio_bound: float | None = None
    producers: set[int] = field(default_factory=set)

    def take(self, chunk: BatchChunk, ends: Ints, transactions: OpenTransactions) -> None:
        """Count a chunk, of which `ends` are the last offsets; vectorised, about 0.2 us a batch."""
        bases, counts, attributes = chunk.field("base_offset"), chunk.field("count"), chunk.field("attributes")
        sizes, pids = chunk.sizes, chunk.field("producer")
        control = (attributes & _CONTROL) != 0
        transactional = (attributes & _TRANSACTIONAL) != 0
        if self.first_offset is None:
            self.first_offset = int(bases[0])
            self.first_batch_max_ms = _time(int(chunk.headers["max_ms"][0]))
        self.batches += len(bases)
        self.records += int(counts.sum())
        self._take_offsets(bases, ends)
        self.missing_records += int((ends - bases + 1 - counts).sum())
        self._take_times(chunk, attributes, counts)
        self._take_epochs(chunk.field("leader_epoch"), bases)
        codecs = attributes & 7
        self.codecs += np.bincount(codecs, minlength=8)
        self.single_record_batches += int(((counts == 1) & ~control).sum())
        self.tiny_batches += int(((sizes < TINY_BYTES) & ~control).sum())
        self.control_batches += int(control.sum())
        self.transactional_batches += int(transactional.sum())
        packed = codecs > 0
        if packed.any():
            ratio = float((counts[packed] * LEAST_RECORD_BYTES / np.maximum(sizes[packed] - HEADER_BYTES, 1)).max())
            self.smallest_ratio_bound = max(ratio, self.smallest_ratio_bound or 0.0)
        self.producers.update(np.unique(pids[pids >= 0]).tolist())
        if transactional.any():
            rows = np.flatnonzero(transactional)
            transactions.take(pids[rows], control[rows], chunk.field("max_ms")[rows])
            self._take_aborted(bases, np.where(control | ~transactional, -2, pids), counts)

    def columns(self) -> dict[str, object]:
        """The columns by name."""
        names = (n for n in self.__slots__ if n not in ("aborted", "epochs", "codecs", "producers"))
        found: dict[str, object] = {name: getattr(self, name) for name in names}
        found |= {f"{codec}_batches": int(self.codecs[i]) for i, codec in enumerate(CODECS)}
        return found | {"producers": len(self.producers)}

    def _take_offsets(self, bases: Ints, ends: Ints) -> None:
        before = np.r_[int(bases[0]) - 1 if self.last_offset is None else self.last_offset, ends[:-1]]
        highest = np.maximum.accumulate(before)
        self.offset_gaps += int((bases > highest + 1).sum())
        self.overlaps += int((bases <= highest).sum())
        self.last_offset = int(max(highest[-1], ends[-1]))

    def _take_times(self, chunk: BatchChunk, attributes: Ints, counts: Ints) -> None:
        highest, append_time = chunk.field("max_ms"), (attributes & _APPEND_TIME) != 0
        lowest = np.where(append_time | ((attributes & _DELETE_HORIZON) != 0), highest, chunk.field("base_ms"))
        self.missing_times += int(((highest < 0) & (counts > 0)).sum())
        self.append_time_batches += int(append_time.sum())
        lowest = np.minimum(lowest, highest)[lowest >= 0]
        lowest = lowest[lowest >= 0]
        if lowest.size:
            self.min_ms = min(int(lowest.min()), self.min_ms if self.min_ms is not None else 1 << 62)
        greatest = _time(int(highest.max()))
        if greatest is not None:
            self.max_ms = max(greatest, self.max_ms or 0)

    def _take_epochs(self, epochs: Ints, bases: Ints) -> None:
        before = np.maximum.accumulate(np.r_[-1 if self.last_epoch is None else self.last_epoch, epochs])
        self.epoch_regressions += int((epochs < before[:-1]).sum())
        self.first_epoch = int(epochs[0]) if self.first_epoch is None else self.first_epoch
        self.last_epoch = int(before[-1])
        if self.epochs:
            known, starts = np.array(self.epochs, np.int64).T
            at = np.searchsorted(starts, bases, "right") - 1
            self.epoch_faults += int(((at >= 0) & (epochs >= 0) & (known[at] != epochs)).sum())

    def _take_aborted(self, bases: Ints, pids: Ints, counts: Ints) -> None:
        for entry in self.aborted:
            low, high = np.searchsorted(bases, [int(entry["first"]), int(entry["last"]) + 1])
            if low < high:
                own = pids[low:high] == int(entry["producer"])
                self.aborted_records += int(counts[low:high][own].sum())


def _read_segment(
    row: Row,
    path: str,
    files: Mapping[str, SeenFile],
    tally: BatchTally,
    transactions: OpenTransactions,
    content: _Contents,
    faults: int,
    options: ScanOptions,
) -> SegmentRows:
    log, base = files["log"], int(str(row["base_offset"]))
    offsets = offset_index(content.read(files["index"].name) if "index" in files else b"", base)
    times = time_index(content.read(files["timeindex"].name) if "timeindex" in files else b"", base)
    crc = 0 if options.with_crc else None
    batches: list[Row] = []
    result = WalkResult(0)
    fault = ""
    try:
        # A broker cuts the last log when it follows another leader; those before it are deleted whole.
        may_shrink = content.is_in_use and bool(row["is_active"]) and log.size_bytes <= MOST_BYTES
        with content.reader.mapped(path, log.size_bytes, may_shrink) as buffer:
            for part in walk_batches(buffer, log.size_bytes):
                if isinstance(part, WalkResult):
                    result = part
                    continue
                ends = part.field("base_offset") + part.field("last_delta")
                tally.take(part, ends, transactions)
                offsets.take(part, ends)
                times.take(part, ends)
                if crc is not None:
                    crc += crc_failures(buffer, part)
                if options.with_batches:
                    batches += _batch_rows(row, buffer, part, options.suspicious_bytes)
    except OSError as error:
        fault = _reason(log.name, error)
    offsets.finish()
    times.finish()
    fault = fault or result.fault or content.fault
    content.fault = ""
    row |= tally.columns() | {
        "valid_bytes": result.valid_bytes,
        "torn_bytes": log.size_bytes - result.valid_bytes,
        "legacy_batches": result.legacy_batches,
        "crc_failures": crc,
        "index_entries": offsets.entries if "index" in files else None,
        "index_faults": offsets.faults + faults,
        "time_index_entries": times.entries if "timeindex" in files else None,
        "time_index_faults": times.faults,
        "open_txn_since_ms": transactions.oldest_ms,
        "fault": fault or None,
    }
    return SegmentRows(row, _keep_largest(batches))


def _batch_rows(row: Row, buffer: memoryview, chunk: BatchChunk, suspicious_bytes: int) -> list[Row]:
    """The batches that may become large, and a sample of the others by their offsets: the same in every run."""
    attributes = chunk.field("attributes")
    found = expansions(buffer, chunk, suspicious_bytes)
    bases = chunk.field("base_offset")
    mixed = (bases.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> _SAMPLE_SHIFT
    chosen = (found.sizes > suspicious_bytes) & (attributes & 7 > 0) | (mixed == 0)
    chosen &= attributes & 32 == 0
    packed = chunk.sizes - chunk.headers.dtype.itemsize
    rows = np.flatnonzero(chosen)
    columns = {
        "base_offset": bases, "records": chunk.field("count"), "compressed_bytes": packed,
        "content_size": found.content_sizes, "decompressed_bytes": found.sizes, "is_bound": found.is_bound,
        "producer_id": chunk.field("producer"),
    }  # fmt: skip
    values: list[NDArray[np.generic]] = [column[rows] for column in columns.values()]
    made = []
    for codec, *cells in zip((attributes[rows] & 7).tolist(), *(v.tolist() for v in values), strict=True):
        batch: Row = dict(zip(columns, cells, strict=True))
        batch["codec"] = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
        batch["content_size"] = None if batch["content_size"] == -1 else batch["content_size"]
        made.append(batch | {name: row[name] for name in ("cluster", "topic", "partition", "path")})
    return made


def _keep_largest(batches: list[Row]) -> list[Row]:
    if len(batches) <= _MAX_SUSPICIOUS:
        return batches
    largest = sorted(batches, key=lambda b: (-int(str(b["decompressed_bytes"])), int(str(b["base_offset"]))))
    return largest[:_MAX_SUSPICIOUS]


def _row(found: PartitionFiles, file: str, role: str, options: ScanOptions) -> Row:
    return {
        "cluster": found.cluster,
        "broker": found.broker,
        "log_dir": readable_name(found.log_dir),
        "topic": found.name.topic if found.name else None,
        "partition": found.name.partition if found.name else None,
        "path": readable_name(f"{found.path}/{file}" if file else found.path),
        "role": role,
        "seen_at_ms": options.seen_at_ms,
    }


def _role(state: DirState) -> str:
    return "log" if state is DirState.LIVE else state.value


def _is_dead(state: DirState) -> bool:
    return state in (DirState.DELETE, DirState.STRAY)


def _dead_role(name: SegmentFileName | None, file: str, bases: Sequence[int]) -> str:
    """What uses the disk beside segments: deleted, swap and cleaned files, orphans of a log, foreign files."""
    if name is None:
        return "foreign" if is_foreign(file) else ""
    if name.mark:
        return name.mark
    if name.kind == "snapshot":
        return "orphan" if bases and name.base_offset < bases[0] else ""
    return "orphan" if name.kind != "log" and name.base_offset not in bases else ""


def _reason(name: str, error: OSError) -> str:
    what = "vanished while it was read" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return f"{readable_name(name)} {what}"


TINY_BYTES = 1024
LEAST_RECORD_BYTES = 7
"""The shortest record: its length, attributes, two deltas, two lengths and the number of headers, a byte each."""
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 8, 16, 32, 64


def _time(value: int) -> int | None:
    return value if value >= 0 else None


OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("time", ">i8"), ("offset", ">i4")])
TXN_ENTRY = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)  # fmt: skip


@dataclass(slots=True)
class IndexCheck:
    """The entries of one index, by column, and how many of them are faulty so far.

    `take` compares those that fall into a chunk of batches; `finish` counts what no chunk had.
    """

    entries: int
    faults: int
    _keys: Ints
    _values: Ints
    _at: int = 0

    def _falling_into(self, end: int) -> tuple[Ints, Ints]:
        start, self._at = self._at, int(np.searchsorted(self._keys, end))
        return self._keys[start : self._at], self._values[start : self._at]

    def finish(self) -> None:
        """Count the entries behind the last batch."""
        self.faults += len(self._keys) - self._at
        self._at = len(self._keys)


class OffsetIndexCheck(IndexCheck):
    """An `.index`: positions, and the last offset of what was appended there, which may be several batches."""

    def take(self, chunk: BatchChunk, ends: Ints) -> None:
        """Compare with batches, of which `ends` are the last offsets."""
        positions, offsets = self._falling_into(int(chunk.positions[-1]) + 1)
        at = np.searchsorted(chunk.positions, positions)
        self.faults += int(((chunk.positions[at] != positions) | (offsets < ends[at])).sum())


class TimeIndexCheck(IndexCheck):
    """A `.timeindex`: offsets, and the highest time up to there, which a batch with that offset has."""

    def take(self, chunk: BatchChunk, ends: Ints) -> None:
        """Compare with batches, of which `ends` are the last offsets."""
        offsets, times = self._falling_into(int(ends.max()) + 1)
        at = np.minimum(np.searchsorted(ends, offsets), len(ends) - 1)
        self.faults += int((chunk.field("max_ms")[at] < times).sum())


def offset_index(data: bytes, base_offset: int) -> OffsetIndexCheck:
    """The entries of an `.index` up to its padding; those that do not ascend count as faults."""
    rows, faults = _entries(data, OFFSET_ENTRY)
    keys, values, bad = _keep_ascending(
        rows["position"].astype(np.int64), rows["offset"].astype(np.int64) + base_offset
    )
    return OffsetIndexCheck(len(rows), faults + bad, keys, values)


def time_index(data: bytes, base_offset: int) -> TimeIndexCheck:
    """The entries of a `.timeindex` up to its padding; those that do not ascend count as faults."""
    rows, faults = _entries(data, TIME_ENTRY)
    keys, values, bad = _keep_ascending(rows["offset"].astype(np.int64) + base_offset, rows["time"].astype(np.int64))
    return TimeIndexCheck(len(rows), faults + bad, keys, values)


def aborted_transactions(data: bytes) -> tuple[NDArray[np.void], int]:
    """The entries of a `.txnindex`, and how many are faulty: of an unknown version, or cut."""
    whole = len(data) // TXN_ENTRY.itemsize
    rows: NDArray[np.void] = np.frombuffer(data, TXN_ENTRY, whole)
    good = (rows["version"] == 0) & (rows["first"] <= rows["last"])
    return rows[good], int((~good).sum()) + (len(data) != whole * TXN_ENTRY.itemsize)


def _entries(data: bytes, entry: np.dtype[np.void]) -> tuple[NDArray[np.void], int]:
    """The entries before the padding of zeros, and a fault where it has none and ends inside an entry."""
    whole = len(data) // entry.itemsize
    rows: NDArray[np.void] = np.frombuffer(data, entry, whole)
    other = "position" if entry is OFFSET_ENTRY else "time"
    is_end = rows["offset"] == 0
    is_end[:1] &= rows[other][:1] == 0
    ends = np.flatnonzero(is_end)
    if ends.size:
        return rows[: ends[0]], 0
    return rows, int(len(data) != whole * entry.itemsize)


def _keep_ascending(keys: Ints, values: Ints) -> tuple[Ints, Ints, int]:
    """The entries without those that are not above all before them, and how many these are."""
    if len(keys) < 2:
        return keys, values, 0
    good = np.ones(len(keys), bool)
    for column in (keys, values):
        good[1:] &= column[1:] > np.maximum.accumulate(column)[:-1]
    return keys[good], values[good], int((~good).sum())
