"""Collecting clusters, many side by side or as a Spark job with one task a cluster. Nothing is changed on a cluster.

A cluster that is broken or slow never holds up another. Of a snapshot, tables are written first and the manifest last.
Of each cluster its state is read, and if asked for records of some topics, and the history of commits from
`__consumer_offsets` with how far logs had grown meanwhile. Log dirs of brokers on this host are read by their headers
only, into the tables `segments`, `batches` and `directories`.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from kafkakit.audit.api import SparkChoice
from kafkakit.audit.api_act import DriverJob, DriverPorts, log_tail, run_driver
from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, ItemError, LogSpan
from kafkakit.core.errors import KafkakitError, OperationFailedError, StoreFailedError, TryLaterError, UsageError
from kafkakit.core.fleet_tables import Manifest
from kafkakit.core.model import OFFSETS_TOPIC, ClusterSnapshot, TagSet, TopicPartition
from kafkakit.core.quantities import count_of, epoch_ms, format_span
from kafkakit.core.records import Record
from kafkakit.execution.act.retrier import TagPlaces
from kafkakit.fleet import decide
from kafkakit.fleet.decide import (
    FleetCluster,
    ScannedBroker,
    Spans,
    broker_config_columns,
    by_broker,
    commit_columns,
    declared_columns,
    declared_facts,
    declared_topics,
    moments,
    positions_of,
    produced_columns,
    record_columns,
    resume_points,
    scan_tasks,
    table_columns,
    topic_config_columns,
)
from kafkakit.fleet.report import ClusterOutcome, OutcomeStatus, task_outcome
from kafkakit.fleet.requests import CollectRequest, FleetLimits, ScanRequest
from kafkakit.lint.api import TopicPiece
from kafkakit.ports.acting import Clock, Reporter, pace
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import ClusterClients, DataPlane, GroupAdmin, LogReader
from kafkakit.ports.stores import TableStore
from kafkakit.streams.lag.api import ResumePoint, resume_points_of
from kafkakit.streams.lag.api_act import OffsetsTail
from kafkakit.streams.model.log_dirs import FileReader, PartitionFiles, partitions_below
from kafkakit.streams.model.offsets_log.commits import CommitColumns, KeyTable
from kafkakit.streams.model.segment_rows import Row, ScanOptions, directory_row, read_partition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LOOK_EVERY_S = 0.2
OpenLock = Callable[[str], AbstractContextManager[object]]
"""Keeps other processes from the cluster of this name in the store; `TryLaterError` names the holder."""


class SnapshotWriter:
    """The rows of one cluster, date and source. `is_over` is asked before each write: then nothing is written.

    For one thread at a time. Raises `StoreFailedError` when the store takes no more, `TryLaterError` once it is over.
    """

    def __init__(
        self,
        store: TableStore,
        clock: Clock,
        *,
        cluster: str,
        snapshot_date: str,
        source: str = "",
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._clock, self._is_over = store, clock, is_over
        self.cluster, self._date, self._source = cluster, snapshot_date, source
        self._parts: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.started_ms = epoch_ms(clock.now())

    def before(self) -> Manifest | None:
        """The newest complete manifest of an earlier date."""
        earlier = (day for day in reversed(self._store.dates()) if day < self._date)
        found = (self._store.manifest(day, self.cluster, self._source) for day in earlier)
        return next((manifest for manifest in found if manifest is not None and manifest.is_complete), None)

    def begin(self) -> None:
        """Forget what an earlier run left."""
        self.check()
        self._store.begin(self._date, self.cluster, self._source)

    def add(self, kind: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write rows of one kind; several calls make several files."""
        self.check()
        written = self._store.write(kind, self._date, self.cluster, columns, self._parts[kind], self._source)
        self._parts[kind] += 1
        self.rows[kind] += written

    def finish(self, *, positions: Mapping[str, int] | None = None, error: str = "", cluster_id: str = "") -> Manifest:
        """Write the manifest; with an `error` it says why the snapshot is not to be read."""
        manifest = Manifest(
            cluster=self.cluster,
            snapshot_date=self._date,
            started_ms=self.started_ms,
            ended_ms=epoch_ms(self._clock.now()),
            rows={kind: count for kind, count in self.rows.items() if count and not error},
            error=error,
            source=self._source,
            positions=positions or {},
            cluster_id=cluster_id,
        )
        self._store.finish(manifest)
        return manifest

    def check(self) -> None:
        """Raise where the time for this cluster is over."""
        if self._is_over():
            raise TryLaterError(f"the time for {self.cluster} is over")


@dataclass(frozen=True, slots=True)
class _Turn:
    """One cluster being read in a thread of its own; `over` is set when its result is no longer wanted."""

    writer: SnapshotWriter
    started_s: float
    over: Event
    lock: ExitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedCluster:
    """Whose snapshot it is, what it lacks, and where the next one continues in logs."""

    cluster_id: str = ""
    notes: tuple[str, ...] = ()
    positions: Mapping[str, int] = field(default_factory=dict)


_Answer = tuple[_Turn, CollectedCluster | BaseException]


class CollectClients(ClusterClients, TagPlaces, Protocol):
    """The clients of one cluster, none of which writes, and where its tags are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectSource:
    """A cluster to collect: how to open its clients, what files declare of it, and where its tags are, if wanted."""

    entry: FleetCluster
    open_clients: Callable[[], AbstractContextManager[CollectClients]]
    read_declared: Callable[[], Sequence[TopicPiece]] = tuple
    read_tags: Callable[[CollectClients], TagSet] | None = None


def collect_fleet(
    sources: Sequence[CollectSource],
    request: CollectRequest,
    limits: FleetLimits,
    store: TableStore,
    open_lock: OpenLock,
    clock: Clock,
    reporter: Reporter,
) -> tuple[ClusterOutcome, ...]:
    """Collect all clusters and say for each what came of it, in the order of `sources`.

    A cluster that fails, or takes longer than its limit, gets a manifest with the error. A thread that hangs in a
    request is left behind and writes nothing more. A cluster that another process is writing is left alone. Raises
    `StoreFailedError` when the store takes no more.
    """
    outcomes: dict[str, ClusterOutcome] = {}
    waiting: deque[CollectSource] = deque()
    for source in sources:
        manifest = None if limits.again else store.manifest(request.snapshot_date, source.entry.name)
        if manifest is not None and manifest.is_complete:
            outcomes[manifest.cluster] = ClusterOutcome(
                cluster=manifest.cluster, status=OutcomeStatus.KEPT, rows=manifest.rows, cluster_id=manifest.cluster_id
            )
        else:
            waiting.append(source)
    running: dict[str, _Turn] = {}
    answers: SimpleQueue[_Answer] = SimpleQueue()
    with reporter.progress(f"collecting {count_of(len(waiting), 'cluster')}") as bar:
        while waiting or running:
            while waiting and len(running) < limits.concurrency:
                source, lock = waiting.popleft(), ExitStack()
                name = source.entry.name
                try:
                    lock.enter_context(open_lock(name))
                except TryLaterError as error:
                    outcomes[name] = ClusterOutcome(cluster=name, status=OutcomeStatus.BUSY, error=error.message)
                    continue
                running[name] = _start(source, request, store, lock, clock, answers)
            late = _late_answers(running.values(), limits.cluster_timeout_s, clock)
            for turn, answer in [*_take_answers(answers), *late]:
                # One that was late may answer after all.
                if running.get(turn.writer.cluster) is turn:
                    del running[turn.writer.cluster]
                    outcomes[turn.writer.cluster] = _outcome_of(turn, answer, clock)
                    bar.update(len(outcomes), len(sources), turn.writer.cluster)
    return tuple(outcomes[source.entry.name] for source in sources)


def _start(
    source: CollectSource,
    request: CollectRequest,
    store: TableStore,
    lock: ExitStack,
    clock: Clock,
    answers: "SimpleQueue[_Answer]",
) -> _Turn:
    name, over = source.entry.name, Event()
    writer = SnapshotWriter(store, clock, cluster=name, snapshot_date=request.snapshot_date, is_over=over.is_set)
    turn = _Turn(writer, clock.monotonic(), over, lock)

    def run() -> None:
        try:
            answers.put((turn, collect_cluster(source, request, writer, clock)))
        except BaseException as error:
            answers.put((turn, error))

    # A request that hangs must not keep the process.
    Thread(target=run, name=f"collect {name}", daemon=True).start()
    return turn


def _take_answers(answers: "SimpleQueue[_Answer]") -> list[_Answer]:
    try:
        return [answers.get(timeout=LOOK_EVERY_S)]
    except Empty:
        return []


def _late_answers(running: Iterable[_Turn], limit_s: float, clock: Clock) -> Iterator[_Answer]:
    for turn in list(running):
        if clock.monotonic() - turn.started_s > limit_s:
            turn.over.set()
            yield turn, TryLaterError(f"not read within {format_span(limit_s)}")


def _outcome_of(turn: _Turn, answer: CollectedCluster | BaseException, clock: Clock) -> ClusterOutcome:
    writer, seconds = turn.writer, clock.monotonic() - turn.started_s
    if isinstance(answer, CollectedCluster):
        rows = writer.finish(positions=answer.positions, cluster_id=answer.cluster_id).rows
        turn.lock.close()
        return ClusterOutcome(
            cluster=writer.cluster, status=OutcomeStatus.COLLECTED, rows=rows, seconds=seconds, notes=answer.notes,
            cluster_id=answer.cluster_id,
        )  # fmt: skip
    if isinstance(answer, StoreFailedError) or not isinstance(answer, Exception):
        raise answer
    error = answer.message if isinstance(answer, KafkakitError) else f"{type(answer).__name__}: {answer}"
    writer.finish(error=error)
    if not turn.over.is_set():
        turn.lock.close()
    return ClusterOutcome(cluster=writer.cluster, status=OutcomeStatus.FAILED, seconds=seconds, error=error)


def collect_with_spark(
    clusters: Sequence[str], words: Sequence[str], folder: Path, choice: SparkChoice, ports: DriverPorts
) -> tuple[ClusterOutcome, ...]:
    """Submit the job, wait for its end and say for each cluster what came of it, in their order.

    Raises `OperationFailedError` when the driver fails, `TryLaterError` while another process runs it from `folder`,
    `UsageError` where no Spark or Java is found.
    """
    request, result = folder / "request.json", folder / "result.json"

    def prepare() -> None:
        result.unlink(missing_ok=True)
        ports.write_file(request, json.dumps({"clusters": list(clusters), "words": list(words)}).encode())

    job = DriverJob(
        run=folder.name,
        folder=str(folder),
        arguments=("--request", str(request), "--result", str(result)),
        whole_package=True,
    )
    code = run_driver(job, choice, ports, prepare=prepare, watch=lambda _: None)
    if code or not result.exists():
        tail = " | ".join(log_tail(str(folder)))
        raise OperationFailedError(f"the Spark job ended with code {code}: {tail}", hint=f"its log is in {folder}")
    return tuple(task_outcome(row) for row in json.loads(result.read_text(encoding="utf-8")))


ROWS_OF_FILE = 500_000
RECORDS_OF_POLL = 10_000
STALLED_S = 60.0


def write_records(
    topics: Collection[str],
    spans: decide.Spans,
    positions: Mapping[str, int],
    since_ms: int,
    log: LogReader,
    data: DataPlane,
    writer: SnapshotWriter,
    clock: Clock,
) -> dict[str, int]:
    """Write what the topics hold up to the ends in `spans`; returns the positions where the next snapshot continues.

    Partitions are read from their position on, without one from `since_ms` on. Raises `TryLaterError` when nothing
    comes for a minute.
    """
    ends = {p: s.end for p, s in spans.items() if p.topic in topics and isinstance(s, LogSpan)}
    begin = {p: positions[str(p)] for p in ends if str(p) in positions}
    for place, found in log.offsets_at({p: since_ms for p in ends if p not in begin}).items():
        begin[place] = found if isinstance(found, int) else ends[place]
    left = {p for p, at in begin.items() if at < ends[p]}
    held: list[Record] = []
    heard_s = clock.monotonic()
    with closing(data.consumer(left, {p: begin[p] for p in left})) as consumer:
        while left:
            writer.check()
            records = consumer.poll(1.0, RECORDS_OF_POLL)
            held += [record for record in records if record.offset < ends[record.partition]]
            left -= {r.partition for r in records if r.offset >= ends[r.partition] - 1}
            left -= set(consumer.ended())
            heard_s = clock.monotonic() if records else heard_s
            if left and clock.monotonic() - heard_s > STALLED_S:
                raise TryLaterError(f"{min(left)} gives no records")
            if len(held) >= ROWS_OF_FILE or not left:
                writer.add("records", record_columns(held))
                held.clear()
    return {str(p): end for p, end in ends.items()}


def collect_cluster(
    source: CollectSource, request: CollectRequest, writer: SnapshotWriter, clock: Clock
) -> CollectedCluster:
    """Read a cluster and write its tables; they count once the caller has finished the writer.

    Raises `KafkakitError` when the cluster cannot be reached or read, a right is missing, its time is over, or the
    store takes no more. Cost: that of a snapshot, three requests to each leader for the ends of its logs, one to a
    coordinator for each group.
    """
    with ExitStack() as stack:
        clients = stack.enter_context(source.open_clients())
        declared = declared_topics(source.read_declared(), source.entry.name)
        snapshot = clients.admin.snapshot(now=clock.now(), sizes=False)
        if source.read_tags is not None:
            snapshot = replace(snapshot, tags=source.read_tags(clients))
        writer.begin()
        alive = [b.id for b in snapshot.brokers if b.is_alive]
        answers = clients.admin.log_dirs(alive)
        _check_all_visible(clients.admin, snapshot, {key.topic for a in answers.values() for key in a.replicas})
        writer.check()
        spans: decide.Spans = clients.log.spans([TopicPartition(t, p.partition) for t, p in snapshot.partitions()])
        spans_ms = epoch_ms(clock.now())
        since_ms = spans_ms - round(request.since_s * 1000)
        writer.add("clusters", decide.cluster_columns(snapshot, source.entry))
        writer.add("brokers", decide.broker_columns(snapshot, source.entry))
        writer.add("broker_configs", broker_config_columns(clients.admin.broker_configs(alive, defaults=True)))
        writer.add("topics", decide.topic_columns(snapshot, declared_facts(declared)))
        writer.add("topic_configs", topic_config_columns(snapshot))
        writer.add("declared", declared_columns(declared))
        writer.add("partitions", decide.partition_columns(snapshot, answers, spans))
        writer.add("replicas", decide.replica_columns(answers))
        writer.add("log_dirs", decide.log_dir_columns(answers))
        writer.add("disk_daily", decide.disk_columns(answers, request.snapshot_date))
        notes = decide.unknown_parts(snapshot, answers, spans)
        if request.groups:
            notes += write_groups(clients.groups, spans, writer)
        positions: dict[str, int] = {}
        before = writer.before() if request.commits or request.records else None
        known = before.positions if before else {}
        if request.commits:
            history = CommitHistory(clients.log, writer, clock)
            positions |= history.read(spans, known, since_ms)
            history.write_produced(spans, before.ended_ms if before and known else since_ms, spans_ms)
            notes += (history.note,) if history.note else ()
        if request.records:
            topics = request.records
            positions |= write_records(topics, spans, known, since_ms, clients.log, clients.data, writer, clock)
            absent = sorted(set(topics) - {t.name for t in snapshot.topics})
            notes += (f"has no topic {', '.join(absent)}",) if absent else ()
    return CollectedCluster(cluster_id=snapshot.cluster_id or "", notes=notes, positions=positions)


def _check_all_visible(admin: ClusterAdmin, snapshot: ClusterSnapshot, on_disk: set[str]) -> None:
    """Metadata silently lacks topics that this user may not see; asked for by name they raise the missing right."""
    hidden = on_disk - {t.name for t in snapshot.topics}
    if hidden:
        admin.partition_states(hidden)


def write_groups(groups: GroupAdmin, spans: decide.Spans, writer: SnapshotWriter) -> tuple[str, ...]:
    """Write groups and their commits; says what a broker that does not answer, or dies meanwhile, leaves unknown."""
    answer = groups.answered_groups()
    listed = answer.groups
    described = groups.describe([g.group for g in listed])
    writer.add("groups", decide.group_columns(listed, described))
    commits: dict[str, Mapping[TopicPartition, CommittedOffset | ItemError]] = {}
    dead: set[int] = set()
    for group in listed:
        writer.check()
        found = described.get(group.group)
        coordinator = found.coordinator if isinstance(found, GroupDescription) else None
        if coordinator in dead:
            continue
        try:
            # An open transaction must not hide the older commit.
            commits[group.group] = groups.committed(group.group, stable=False)
        except TryLaterError:
            # The time for a request is over. Another group of this coordinator would take as long.
            dead |= {coordinator} if coordinator is not None else set()
    writer.add("group_offsets", decide.group_offset_columns(commits, spans))
    return decide.unknown_groups(answer.silent, [g.group for g in listed if g.group not in commits])


MAX_KEYS = 10_000_000
COMMIT_ROWS_OF_FILE = 500_000
TRIES = 20
PAUSE_S = 0.5


class CommitHistory:
    """The commits of one cluster since some time, written as they are read."""

    def __init__(self, log: LogReader, writer: SnapshotWriter, clock: Clock) -> None:
        self._log, self._writer, self._clock = log, writer, clock
        self._keys = KeyTable(max_keys=MAX_KEYS)
        self._tail = OffsetsTail(log, self._keys, self._take, every=True)
        self._held: list[CommitColumns] = []

    def read(self, spans: Spans, positions: Mapping[str, int], since_ms: int) -> dict[str, int]:
        """Write all commits from `positions` on, where there are none from `since_ms` on; returns the next positions.

        The log is read to the end that it has in the beginning, or a little further. Raises `TryLaterError` when a
        partition cannot be read.
        """
        import numpy as np

        own = {p: s for p, s in spans.items() if p.topic == OFFSETS_TOPIC and isinstance(s, LogSpan)}
        resume = resume_points(positions, list(own))
        fresh = [p for p in own if p.partition not in resume]
        for place, found in self._log.offsets_at(dict.fromkeys(fresh, since_ms)).items():
            at = own[place].end if found is None else found
            if isinstance(at, int):
                resume[place.partition] = ResumePoint(at, at, -1)
        self._tail.adopt(b"", np.empty(0, np.int64), np.empty(0, np.int32), resume)
        for number in pace(self._clock, range(TRIES), PAUSE_S):
            if number:
                self._poll(100)
            self._tail.locate()
            while not self._tail.is_caught_up:
                self._poll(0)
            behind = [c for c in self._tail.cursors.values() if c.is_behind]
            if not behind:
                self._write(1)
                return positions_of(resume_points_of(self._tail.cursors.values()), OFFSETS_TOPIC)
        raise TryLaterError(f"{OFFSETS_TOPIC}-{behind[0].partition} cannot be read: {behind[0].error}")

    def write_produced(self, spans: Spans, begin_ms: int, spans_ms: int) -> None:
        """Write how far the logs of the commits' partitions had grown at times since `begin_ms`, and at `spans_ms`."""
        own = {self._keys.key_of(number)[1:] for number in range(self._keys.capacity)}
        ends = {p: s.end for p, s in spans.items() if p in own and isinstance(s, LogSpan)}
        partitions, times = sorted(ends), moments(begin_ms, spans_ms)
        looked_up = []
        for time_ms in times:
            self._writer.check()
            looked_up.append(self._log.offsets_at(dict.fromkeys(partitions, time_ms)))
        columns = produced_columns(partitions, (*times, spans_ms), (*looked_up, ends), ends)
        self._writer.add("produced", columns)

    @property
    def note(self) -> str:
        """What could not be read, in a sentence; empty where all was."""
        totals = self._tail.totals
        lost = totals.undecodable + totals.unreadable_batches + totals.keys_left_out
        return f"{lost} records of {OFFSETS_TOPIC} could not be read ({totals.first_reason})" if lost else ""

    def _poll(self, wait_ms: int) -> None:
        self._writer.check()
        self._tail.poll(wait_ms, epoch_ms(self._clock.now()))
        self._write(COMMIT_ROWS_OF_FILE)

    def _take(self, columns: CommitColumns) -> "NDArray[np.int64]":
        import numpy as np

        self._held.append(columns)
        return np.empty(0, np.int64)

    def _write(self, at_least: int) -> None:
        if sum(map(len, self._held)) < at_least:
            return
        origins = self._tail.origins.partition
        tables = [commit_columns(self._keys, held, origins[held.key]) for held in self._held]
        self._held.clear()
        self._writer.add("commits", {name: [v for t in tables for v in t[name]] for name in tables[0]})


SEGMENT_ROWS_OF_FILE = 200_000
SCANNED = ("segments", "batches", "directories")
"""The tables that a scan of log dirs writes."""
FAULTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _ScannedRows:
    """Rows of the tables, and the bytes that they stand for."""

    rows: Mapping[str, list[Row]]
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
    rows: dict[str, list[Row]] = {kind: [] for kind in SCANNED}
    faults: list[str] = []
    size_bytes = 0
    with open_lock(source), reporter.progress(f"reading the log dirs of broker {broker}") as bar:
        writer.begin()
        for one in _scan_tasks(tasks, reader, options, request.jobs):
            for kind in SCANNED:
                rows[kind] += one.rows[kind]
            faults += [f"{row['path']}: {row['fault']}" for row in one.rows["segments"] if row.get("fault")]
            size_bytes += one.size_bytes
            bar.update(size_bytes, total)
            _write(writer, rows, SEGMENT_ROWS_OF_FILE)
        _write(writer, rows, 1)
        manifest = writer.finish()
    more = [f"{len(faults) - FAULTS_SHOWN} more files with faults"] if len(faults) > FAULTS_SHOWN else []
    return ScannedBroker(
        broker=broker,
        partitions=sum(part.name is not None for part in parts),
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


def _scan_tasks(
    tasks: Sequence[tuple[PartitionFiles, ...]], reader: FileReader, options: ScanOptions, jobs: int
) -> Iterator[_ScannedRows]:
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


def _scan(parts: Sequence[PartitionFiles], reader: FileReader, options: ScanOptions) -> _ScannedRows:
    found = [rows for part in parts for rows in read_partition(part, reader, options)]
    rows = {
        "segments": [each.segment for each in found],
        "batches": [batch for each in found for batch in each.batches],
        "directories": [directory_row(part, reader, options) for part in parts],
    }
    return _ScannedRows(rows, sum(part.log_bytes for part in parts))


class Invocation(Protocol):
    """Options and environment of one command, which can be those of another cluster."""

    def for_profile(self, name: str) -> Self:
        """The invocation for the cluster of another profile."""
        ...

    def for_address(self, servers: str, command_config: Path | None, origin: str) -> Self:
        """The invocation for a cluster that no profile names."""
        ...


G = TypeVar("G", bound=Invocation)


def invocation_of(given: G, entry: FleetCluster, folder: Path) -> G:
    """The invocation for one cluster of a fleet file that lies in `folder`."""
    if entry.bootstrap_servers is None:
        return given.for_profile(entry.profile or entry.name)
    config = None if entry.command_config is None else folder / entry.command_config
    return given.for_address(entry.bootstrap_servers, config, f"cluster {entry.name} of the fleet file")
