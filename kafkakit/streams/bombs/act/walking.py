"""Reading logs header by header up to their ends. Memory: one answer of each leader, whatever batches hold."""

from collections import deque
from collections.abc import Callable, Mapping

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError
from kafkakit.core.log_reads import Fetched, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.ports.reporter import ProgressBar
from kafkakit.streams.bombs.decide import FoundBatch, Walked
from kafkakit.streams.model.guarded_reads import measured, verdicts_of
from kafkakit.streams.model.log_batches import WalkEnd

AT_ONCE = 64
FETCH_BYTES = 8 << 20
PARTITION_BYTES = 1 << 20
WAIT_MS = 500
NAP_S = 0.1
OUT_OF_RANGE = "OffsetOutOfRangeError"
OnFound = Callable[[FoundBatch, bytes], None]
"""Gets each batch that is not safe, with its bytes as they were fetched."""


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
    ) -> Walked:
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
                self._clock.sleep(NAP_S)
        return Walked(offsets=self._at, unread=self._unread, batches=self._batches, size=self._size)

    def _fetched(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Fetched]:
        try:
            return self._log.fetch(offsets, max_bytes=FETCH_BYTES, wait_ms=WAIT_MS, partition_bytes=PARTITION_BYTES)
        except TryLaterError as error:
            self._problems |= dict.fromkeys(offsets, error.message)
            return {}

    def _take(self, answers: Mapping[TopicPartition, Fetched], ends: Mapping[TopicPartition, int]) -> None:
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
                    self._unread[key] = f"{item.reason} after offset {before - 1}, and where it ends is unknown"
                return
            verdict = measured(records, item, self._limit_bytes)
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
