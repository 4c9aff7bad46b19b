"""Rows of tables `segments` and `batches` for one directory of a partition, whose files a caller lists and opens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.streams.formats.segment_files.batch_walk import BatchChunk, WalkResult, walk_batches
from kafkakit.streams.formats.segment_files.checkpoints import leader_epochs
from kafkakit.streams.formats.segment_files.checksums import crc_failures
from kafkakit.streams.formats.segment_files.expansion import CODECS, expansions
from kafkakit.streams.formats.segment_files.indexes import (
    TXN_ENTRY,
    aborted_transactions,
    offset_index,
    time_index,
)
from kafkakit.streams.formats.segment_files.log_tree import FileReader, PartitionFiles, SeenFile
from kafkakit.streams.formats.segment_files.names import (
    LEADER_EPOCHS,
    DirState,
    SegmentFileName,
    is_foreign,
    segment_file_name,
)
from kafkakit.streams.formats.segment_files.tally import BatchTally, OpenTransactions

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
        yield SegmentRows(_row(found, "", "unreadable", options) | {"fault": found.fault})
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
            "dead_bytes": sum(f.size_bytes for f in files.values()) if _is_dead(found.name.state) else 0,
        }
        if base == bases[-1]:
            row |= {"log_start": found.log_start, "recovery_point": found.recovery_point}
        yield _read_segment(row, files, tally, transactions, content, txn_faults[base], options)
    for file, name in named:
        role = _dead_role(name, file.name, bases)
        if role:
            # A segment's file was written long before it was renamed; a copy of it is as new as the copy.
            since = file.changed_ms if role == "deleted" and found.is_in_use else file.mtime_ms
            yield SegmentRows(
                _row(found, file.name, role, options)
                | {"base_offset": name.base_offset if name else None, "size_bytes": file.size_bytes}
                | {"mtime_ms": since, "is_active": False, "dead_bytes": file.size_bytes}
            )


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


def _read_segment(
    row: Row,
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
        with content.reader.mapped(str(row["path"]), log.size_bytes, may_shrink) as buffer:
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
    return SegmentRows(row, _kept(batches))


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


def _kept(batches: list[Row]) -> list[Row]:
    if len(batches) <= _MAX_SUSPICIOUS:
        return batches
    largest = sorted(batches, key=lambda b: (-int(str(b["decompressed_bytes"])), int(str(b["base_offset"]))))
    return largest[:_MAX_SUSPICIOUS]


def _row(found: PartitionFiles, file: str, role: str, options: ScanOptions) -> Row:
    return {
        "cluster": found.cluster,
        "broker": found.broker,
        "log_dir": found.log_dir,
        "topic": found.name.topic if found.name else None,
        "partition": found.name.partition if found.name else None,
        "path": f"{found.path}/{file}" if file else found.path,
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
    return f"{name} {what}"
