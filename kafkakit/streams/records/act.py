"""Reading logs: the records at an offset, and batches that are not safe to decompress.

Both write nothing to the cluster and join no group. Records at an offset cost metadata, the ends of the log, and
fetches from its leader; for records of transactions, and for batches compressed with snappy or lz4, a consumer that
reads the same offsets as well.

A scan for unsafe batches covers everything up to now, or what comes. It reads logs header by header up to their ends.
Memory: one answer of each leader, whatever batches hold. Cost: metadata, three requests to each leader for the ends of
logs, and a fetch of everything between. In quarantine each batch is in a file as it was fetched, with a file beside it
that says where it is from.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from kafkakit.core.cluster_facts import FetchedBatches, ItemError, LogSpan, TopicPlaces
from kafkakit.core.errors import (
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
    stopped_run,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.core.records import Record
from kafkakit.core.text import sanitize
from kafkakit.ports.acting import Clock, ProgressBar, Reporter, pause, repeat_every
from kafkakit.ports.data import DataPlane, LogReader
from kafkakit.streams.model.commit import OffsetRanges
from kafkakit.streams.model.guarded_reads import measure_batch, verdicts_of
from kafkakit.streams.model.log_batches import WalkEnd
from kafkakit.streams.records.decide import (
    MOST_FOUND,
    BombScan,
    FoundBatch,
    KeptBatch,
    LogEntry,
    ReadingResult,
    ReadResult,
    ScanStart,
    TailRequest,
    continue_offsets,
    encode_provenance,
    entries_of,
    failed_reads,
    folder_names,
    provenance,
    resolve_entries,
    starts_of,
)

FETCH_BYTES = 1 << 20
WAIT_MS = 500
FOLLOW_S, MOST_AT_ONCE = 0.5, 1_000
MOST_BYTES = 64 << 20
"""Reading stops once the records found have this many bytes."""


class RecordReader:
    """Reads records of one cluster; each wait for it lasts at most `wait_s`."""

    def __init__(self, log: LogReader, data: DataPlane, clock: Clock, *, wait_s: float) -> None:
        self._log, self._data, self._clock, self._wait_s = log, data, clock, wait_s

    def read(self, key: TopicPartition, offset: int, count: int) -> ReadResult:
        """Up to `count` entries of the log from the offset on, none where the log does not hold the offset.

        Raises `UsageError` for a partition that does not exist, `TryLaterError` for a leader that does not answer,
        and `OperationFailedError` for bytes that are no records.
        """
        places = self._log.places([key.topic]).get(key.topic)
        if places is None:
            raise UsageError(f"topic {sanitize(key.topic)} does not exist")
        if key.partition not in places.leaders:
            raise UsageError(f"topic {sanitize(key.topic)} has no partition {key.partition}")
        span = self._log.spans([key])[key]
        if isinstance(span, ItemError):
            raise TryLaterError(f"the ends of {sanitize(str(key))} cannot be read: {span}")
        found = ReadResult(key=key, offset=offset, span=span)
        if not span.start <= offset < span.end:
            return found
        entries = self._raw(key, offset, span.end, count)
        wanted = [e for e in entries if (e.is_sealed or e.batch.is_transactional) and e.last < span.stable]
        committed, is_whole = self._committed(key, wanted[0].offset, wanted[-1].last) if wanted else ({}, True)
        shown = islice(resolve_entries(entries, span.stable, committed, is_whole=is_whole), count)
        return ReadResult(key=key, offset=offset, span=span, entries=tuple(shown))

    def tail(self, request: TailRequest) -> list[ReadResult]:
        """The last entries of each partition that is wanted; raises like `read`."""
        places = self._log.places([request.topic]).get(request.topic)
        if places is None:
            raise UsageError(f"topic {sanitize(request.topic)} does not exist")
        numbers = sorted(places.leaders) if request.partition is None else [request.partition]
        keys = [TopicPartition(request.topic, number) for number in numbers]
        spans = self._log.spans(keys)
        found = []
        for key in keys:
            span = spans.get(key)
            end = span.end if isinstance(span, LogSpan) else 0
            start = span.start if isinstance(span, LogSpan) else 0
            found.append(self.read(key, max(start, end - request.count), request.count))
        return found

    def follow(self, request: TailRequest, found: Sequence[ReadResult], show: Callable[[ReadResult], None]) -> None:
        """Show what is written from now on, until the process is stopped."""
        after = {one.key: max(one.span.end, one.offset) for one in found}
        for _ in repeat_every(self._clock, FOLLOW_S):
            spans = self._log.spans(list(after))
            for key, at in list(after.items()):
                span = spans.get(key)
                if isinstance(span, LogSpan) and span.end > at:
                    read = self.read(key, max(at, span.start), MOST_AT_ONCE)
                    show(read)
                    after[key] = read.entries[-1].last + 1 if read.entries else span.end

    def _raw(self, key: TopicPartition, offset: int, end: int, count: int) -> list[LogEntry]:
        """The entries as the raw log has them; a sealed batch counts as one."""
        entries: list[LogEntry] = []
        at, held, size = offset, 0, 0
        while at < end and held < count and size < MOST_BYTES:
            before, reason = at, "the leader gave no records from there on"
            for entry in entries_of(self._fetched(key, at), at):
                if isinstance(entry, int):
                    at = entry
                elif not isinstance(entry, LogEntry):
                    reason = entry.reason
                    break
                elif held < count and size < MOST_BYTES:
                    entries.append(entry)
                    held, size = held + entry.least_records, size + entry.size
            if at == before:
                raise OperationFailedError(f"{sanitize(str(key))}@{at} cannot be read: {reason}")
        return entries

    def _fetched(self, key: TopicPartition, at: int) -> bytes:
        deadline = self._clock.monotonic() + self._wait_s
        problem = "its leader does not answer"
        while self._clock.monotonic() < deadline:
            answer = self._log.fetch({key: at}, max_bytes=FETCH_BYTES, wait_ms=WAIT_MS)[key]
            if answer.error is not None and not answer.error.retriable:
                raise OperationFailedError(f"{sanitize(str(key))}@{at} cannot be read: {answer.error}")
            if answer.records:
                return answer.records
            problem = str(answer.error or problem)
        raise TryLaterError(f"{sanitize(str(key))}@{at} cannot be read: {problem}")

    def _committed(self, key: TopicPartition, first: int, last: int) -> tuple[dict[int, Record], bool]:
        """What read_committed consumers get of these offsets, and whether all of it was read."""
        found: dict[int, Record] = {}
        deadline = self._clock.monotonic() + self._wait_s
        with closing(self._data.consumer([key], {key: first})) as consumer:
            while self._clock.monotonic() < deadline:
                records = consumer.poll(min(1.0, self._wait_s))
                found |= {record.offset: record for record in records if record.offset <= last}
                if (records and records[-1].offset >= last) or key in consumer.ended():
                    return found, True
        return found, False


AT_ONCE = 64
WALK_FETCH_BYTES = 8 << 20
PARTITION_BYTES = 1 << 20
NAP_S = 0.1
OUT_OF_RANGE = "OffsetOutOfRangeError"
OnFound = Callable[[FoundBatch, bytes], None]
"""Gets each batch that is not safe, with its bytes as they were fetched."""


class BombScanner:
    """Looks for batches of one cluster that may become more than `limit_bytes`; see `LogWalk` for `wait_s`."""

    def __init__(self, log: LogReader, clock: Clock, *, limit_bytes: int, wait_s: float) -> None:
        self._log, self._clock, self._limit_bytes, self._wait_s = log, clock, limit_bytes, wait_s

    def partitions(self, topics: Collection[str], numbers: Collection[int] = ()) -> dict[TopicPartition, bytes]:
        """The partitions of topics, all or those with these numbers, each with its topic's id.

        Raises `UsageError` for what does not exist.
        """
        places = self._log.places(sorted(set(topics)))
        found: dict[TopicPartition, bytes] = {}
        for topic in sorted(set(topics)):
            found |= _choose_partitions(topic, places.get(topic), numbers)
        return found

    def scan(
        self, keys: Collection[TopicPartition], start: ScanStart, bar: ProgressBar, on_found: OnFound | None = None
    ) -> BombScan:
        """Everything from `start` on, up to where the logs end now; `on_found` gets each batch with its bytes, too."""
        spans = self._log.spans(keys)
        at = {} if start.since_ms is None else self._log.offsets_at(dict.fromkeys(keys, start.since_ms))
        unread = failed_reads(spans) | failed_reads(at)
        known = {key: span for key, span in spans.items() if isinstance(span, LogSpan) and key not in unread}
        found: list[FoundBatch] = []
        more = 0

        def note(one: FoundBatch, raw: bytes) -> None:
            nonlocal more
            if on_found is not None:
                on_found(one, raw)
            if len(found) < MOST_FOUND:
                found.append(one)
            else:
                more += 1

        ends = {key: span.end if start.end is None else min(span.end, start.end) for key, span in known.items()}
        walked = self._walk(starts_of(known, start.offset, at), ends, note, bar)
        return BombScan(
            cluster_id=self._log.cluster_id(),
            limit_bytes=self._limit_bytes,
            partitions=len(keys),
            batches=walked.batches,
            size=walked.size,
            unread=unread | dict(walked.unread),
            found=tuple(sorted(found, key=lambda one: (one.key, one.verdict.start))),
            more=more,
        )

    def watch(
        self,
        topics: Collection[str],
        numbers: Collection[int],
        reporter: Reporter,
        line_of: Callable[[FoundBatch], str],
        *,
        every_s: float,
    ) -> None:
        """Look every `every_s` seconds at what came since, partitions that are new included, and report each batch.

        Ends by a signal alone: `InterruptedRunError`, `TerminatedRunError`, or `TryLaterError` at the time limit. While
        the cluster does not answer, a warning is given once.
        """
        spans = self._log.spans(list(self.partitions(topics, numbers)))
        cursors = {key: span.end for key, span in spans.items() if isinstance(span, LogSpan)}
        count = 0
        warned: frozenset[str] = frozenset()

        def note(one: FoundBatch, raw: bytes) -> None:
            nonlocal count
            del raw
            count += 1
            reporter.say(line_of(one))

        try:
            for _ in islice(repeat_every(self._clock, every_s), 1, None):
                cursors, problems = self._look(topics, numbers, cursors, note)
                for problem in sorted(problems - warned):
                    reporter.warn(f"{problem}; trying again")
                if warned and not problems:
                    reporter.warn("all partitions are read again")
                warned = problems
        except KeyboardInterrupt as stop:
            raise stopped_run(stop, f"{count_of(count, 'batch', 'batches')} found, nothing was changed") from None

    def _look(
        self,
        topics: Collection[str],
        numbers: Collection[int],
        cursors: dict[TopicPartition, int],
        note: OnFound,
    ) -> tuple[dict[TopicPartition, int], frozenset[str]]:
        """Read from the cursors to the ends; the new cursors, and what could not be read."""
        try:
            spans = self._log.spans(list(self.partitions(topics, numbers)))
        except (TryLaterError, UsageError) as error:
            return cursors, frozenset([error.message])
        known = {key: span for key, span in spans.items() if isinstance(span, LogSpan)}
        starts = continue_offsets(known, cursors)
        walked = self._walk(starts, {key: span.end for key, span in known.items()}, note, None)
        unread = failed_reads(spans) | dict(walked.unread)
        return cursors | dict(walked.offsets), frozenset(f"{key}: {reason}" for key, reason in unread.items())

    def _walk(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        on_found: OnFound,
        bar: ProgressBar | None,
    ) -> ReadingResult:
        walk = LogWalk(self._log, self._clock, limit_bytes=self._limit_bytes, wait_s=self._wait_s, on_found=on_found)
        return walk.run(starts, ends, bar)


def _choose_partitions(topic: str, found: TopicPlaces | None, numbers: Collection[int]) -> dict[TopicPartition, bytes]:
    if found is None:
        raise UsageError(f"topic {sanitize(topic)} does not exist")
    if unknown := sorted(set(numbers) - set(found.leaders)):
        raise UsageError(f"topic {sanitize(topic)} has no partition {unknown[0]}")
    return {TopicPartition(topic, number): found.topic_id for number in sorted(numbers or found.leaders)}


class LogWalk:
    """One reading of partitions, each from its start to its end, `AT_ONCE` at a time.

    A partition that comes no further for `wait_s` is given up, with the reason; the others are read on.
    """

    def __init__(self, log: LogReader, clock: Clock, *, limit_bytes: int, wait_s: float, on_found: OnFound) -> None:
        self._log, self._clock, self._limit_bytes, self._wait_s = log, clock, limit_bytes, wait_s
        self._on_found = on_found
        self._at: dict[TopicPartition, int] = {}
        self._problems: dict[TopicPartition, str] = {}
        self._unread: dict[TopicPartition, str] = {}
        self._batches = self._size = 0

    def run(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], bar: ProgressBar | None
    ) -> ReadingResult:
        """Read on until each partition is at its end or given up."""
        self._at = dict(starts)
        waiting = deque(sorted(key for key in starts if starts[key] < ends[key]))
        keys = tuple(waiting)
        total = sum(ends[key] - starts[key] for key in keys)
        deadlines: dict[TopicPartition, float] = {}
        while waiting or deadlines:
            while waiting and len(deadlines) < AT_ONCE:
                deadlines[waiting.popleft()] = self._clock.monotonic() + self._wait_s
            before = {key: self._at[key] for key in deadlines}
            self._take(self._fetched(before), ends)
            now = self._clock.monotonic()
            for key, offset in before.items():
                if self._at[key] > offset:
                    deadlines[key] = now + self._wait_s
                elif now >= deadlines[key]:
                    self._unread.setdefault(key, self._problems.get(key, "its leader does not answer"))
                if self._at[key] >= ends[key] or key in self._unread:
                    del deadlines[key]
            if bar is not None:
                bar.update(sum(min(self._at[key], ends[key]) - starts[key] for key in keys), total)
            if all(self._at[key] == offset for key, offset in before.items()) and deadlines:
                pause(self._clock, NAP_S)
        return ReadingResult(offsets=self._at, unread=self._unread, batches=self._batches, size=self._size)

    def _fetched(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, FetchedBatches]:
        try:
            return self._log.fetch(
                offsets, max_bytes=WALK_FETCH_BYTES, wait_ms=WAIT_MS, partition_bytes=PARTITION_BYTES
            )
        except TryLaterError as error:
            self._problems |= dict.fromkeys(offsets, error.message)
            return {}

    def _take(self, answers: Mapping[TopicPartition, FetchedBatches], ends: Mapping[TopicPartition, int]) -> None:
        has_records = any(answer.records for answer in answers.values())
        for key, answer in answers.items():
            if answer.error is not None:
                self._fail(key, answer.error)
            elif answer.records:
                self._read(key, answer.records)
            elif answer.answered and not has_records:
                # No other partition filled the answer, so compaction left nothing up to the end.
                self._at[key] = ends[key]

    def _read(self, key: TopicPartition, records: bytes) -> None:
        before = self._at[key]
        for item in verdicts_of(records, before, self._limit_bytes):
            if isinstance(item, WalkEnd):
                if item.is_corrupt and self._at[key] == before:
                    self._unread[key] = f"{item.reason} after offset {before - 1}, and its end is unknown"
                return
            verdict = measure_batch(records, item, self._limit_bytes)
            self._at[key] = max(before, verdict.end)
            self._batches += 1
            self._size += verdict.size
            if not verdict.is_safe:
                raw = records[item.position : item.position + item.size]
                self._on_found(FoundBatch(key=key, verdict=verdict), raw)

    def _fail(self, key: TopicPartition, error: ItemError) -> None:
        self._problems[key] = str(error)
        if error.name == OUT_OF_RANGE:
            self._follow_start(key)
        elif not error.retriable:
            self._unread[key] = str(error)

    def _follow_start(self, key: TopicPartition) -> None:
        """Continue where the log begins now, if retention was faster than the reading."""
        try:
            span = self._log.spans([key])[key]
        except TryLaterError:
            return
        if isinstance(span, LogSpan) and span.start > self._at[key]:
            self._at[key] = span.start
        elif isinstance(span, LogSpan):
            self._unread[key] = "its log was cut off, or its topic created again, while it was read"


FILE_MODE, FOLDER_MODE = 0o600, 0o700
Write = Callable[[Path, bytes, int], None]
"""Replaces a file as a whole, and returns once it is on disk."""


class Quarantine:
    """A folder of batches: `CLUSTER/TOPIC-PARTITION/OFFSET.log`, and `OFFSET.json` once that is whole.

    It takes batches with offsets in `wanted`. With `is_planned` nothing is written.
    """

    def __init__(
        self,
        folder: Path,
        write: Write,
        *,
        cluster_id: str,
        topic_ids: Mapping[TopicPartition, bytes],
        wanted: OffsetRanges,
        limit_bytes: int,
        is_planned: bool,
    ) -> None:
        self._folder, self._write, self._cluster_id, self._topic_ids = folder, write, cluster_id, topic_ids
        self._wanted, self._limit_bytes, self._is_planned = wanted, limit_bytes, is_planned
        self.kept: list[KeptBatch] = []

    def keep(self, found: FoundBatch, raw: bytes) -> None:
        """Write a batch that has a wanted offset; one that is there already is written again.

        Raises `RefusedError` where another batch is there, `OperationFailedError` where the disk takes no more.
        """
        if not self._wanted.within(found.verdict.start, found.verdict.end):
            return
        if self._is_planned:
            self.kept.append(KeptBatch(found=found))
            return
        *folders, name = folder_names(self._cluster_id, found)
        folder = self._folder.joinpath(*folders)
        batch, beside = folder / f"{name}.log", folder / f"{name}.json"
        document = encode_provenance(
            provenance(self._cluster_id, self._topic_ids[found.key], found, raw, self._limit_bytes)
        )
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            if beside.exists() and batch.read_bytes() != raw:
                raise RefusedError(
                    f"{batch} holds another batch, of an earlier topic of that name",
                    hint="move it away, or name another folder with --out-path",
                )
        except OSError as error:
            raise OperationFailedError(f"cannot write below {self._folder}: {error.strerror}") from None
        self._write(batch, raw, FILE_MODE)
        self._write(beside, document, FILE_MODE)
        self.kept.append(KeptBatch(found=found, path=str(batch)))
