"""Reading the log dirs of brokers on this host, headers only, into the tables `segments` and `batches`."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context

from kafkakit.core.errors import UsageError
from kafkakit.fleet.act.snapshot_writer import SnapshotWriter
from kafkakit.fleet.decide.scan_tasks import ScannedBroker, by_broker, scan_tasks, table_columns
from kafkakit.ports.acting import Clock, Reporter
from kafkakit.ports.stores import TableStore
from kafkakit.streams.model.log_dirs import FileReader, PartitionFiles, partitions_below
from kafkakit.streams.model.segment_rows import Row, ScanOptions, read_partition

ROWS_OF_FILE = 200_000
FAULTS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Which folders to read, as whose: `broker` where `meta.properties` does not tell; in how many processes."""

    folders: tuple[str, ...]
    cluster: str
    snapshot_date: str
    broker: int | None = None
    with_crc: bool = False
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of both tables, and the bytes that they stand for."""

    segments: list[Row]
    batches: list[Row]
    size_bytes: int


def scan_segments(
    request: ScanRequest,
    reader: FileReader,
    store: TableStore,
    open_lock: Callable[[str], AbstractContextManager[object]],
    clock: Clock,
    reporter: Reporter,
) -> tuple[ScannedBroker, ...]:
    """Read all folders and write a source `broker-N` of the cluster for each broker found in them.

    Files that are torn, damaged, foreign or gone are rows with a `fault`. Raises `UsageError` for a folder that cannot
    be listed or without partitions, `TryLaterError` while another process writes the same broker, `StoreFailedError`
    when the store takes no more. Memory: the rows of 200,000 segments.
    """
    found: list[PartitionFiles] = []
    for folder in request.folders:
        try:
            found += partitions_below(folder, reader)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be listed: {error.strerror}") from None
    if not found:
        raise UsageError(
            f"no partition was found in {', '.join(request.folders)}", hint="give the log dirs of a broker"
        )
    return tuple(
        _scan_broker(broker, parts, request, reader, store, open_lock, clock, reporter)
        for broker, parts in by_broker(found, request.broker).items()
    )


def _scan_broker(
    broker: int,
    parts: tuple[PartitionFiles, ...],
    request: ScanRequest,
    reader: FileReader,
    store: TableStore,
    open_lock: Callable[[str], AbstractContextManager[object]],
    clock: Clock,
    reporter: Reporter,
) -> ScannedBroker:
    source, started_s = f"broker-{broker}", clock.monotonic()
    writer = SnapshotWriter(store, clock, cluster=request.cluster, snapshot_date=request.snapshot_date, source=source)
    tasks = scan_tasks([replace(part, broker=broker) for part in parts])
    total = sum(part.log_bytes for part in parts)
    options = ScanOptions(with_crc=request.with_crc, seen_at_ms=writer.started_ms)
    rows: dict[str, list[Row]] = {"segments": [], "batches": []}
    faults: list[str] = []
    size_bytes = 0
    with open_lock(source), reporter.progress(f"reading the log dirs of broker {broker}") as bar:
        writer.begin()
        for one in _scanned(tasks, reader, options, request.jobs):
            rows["segments"] += one.segments
            rows["batches"] += one.batches
            faults += [f"{row['path']}: {row['fault']}" for row in one.segments if row.get("fault")]
            size_bytes += one.size_bytes
            bar.update(size_bytes, total)
            _write(writer, rows, ROWS_OF_FILE)
        _write(writer, rows, 1)
        manifest = writer.finish()
    more = [f"{len(faults) - FAULTS_SHOWN} more files with faults"] if len(faults) > FAULTS_SHOWN else []
    return ScannedBroker(
        broker=broker,
        partitions=len(parts),
        rows=manifest.rows,
        size_bytes=size_bytes,
        seconds=clock.monotonic() - started_s,
        faults=(*faults[:FAULTS_SHOWN], *more),
    )


def _write(writer: SnapshotWriter, rows: dict[str, list[Row]], at_least: int) -> None:
    for kind, held in rows.items():
        if len(held) >= at_least:
            writer.add(kind, table_columns(kind, held))
            held.clear()


def _scanned(
    tasks: Sequence[tuple[PartitionFiles, ...]], reader: FileReader, options: ScanOptions, jobs: int
) -> Iterator[_Found]:
    """What the tasks found, in their order, read by so many processes; at most two tasks a process are held."""
    if jobs == 1 or len(tasks) == 1:
        yield from (_scan(task, reader, options) for task in tasks)
        return
    # A fork of a process with threads may hang.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        left = iter(tasks)
        futures = [pool.submit(_scan, task, reader, options) for task in islice(left, 2 * jobs)]
        while futures:
            yield futures.pop(0).result()
            futures += [pool.submit(_scan, task, reader, options) for task in islice(left, 1)]


def _scan(parts: Sequence[PartitionFiles], reader: FileReader, options: ScanOptions) -> _Found:
    found = [rows for part in parts for rows in read_partition(part, reader, options)]
    return _Found(
        [rows.segment for rows in found],
        [batch for rows in found for batch in rows.batches],
        sum(part.log_bytes for part in parts),
    )
