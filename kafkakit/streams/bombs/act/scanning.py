"""Looking for batches that are not safe to decompress: everything up to now, or what comes. Writes nothing.

Cost: metadata, three requests to each leader for the ends of logs, and a fetch of everything between.
"""

from collections.abc import Callable, Collection, Mapping

from kafkakit.core.errors import (
    InterruptedRunError,
    StopRequested,
    TerminatedRunError,
    TerminationRequested,
    TryLaterError,
    UsageError,
)
from kafkakit.core.log_reads import LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.ports.reporter import ProgressBar, Reporter
from kafkakit.streams.bombs.act.walking import LogWalk, OnFound
from kafkakit.streams.bombs.decide import (
    MOST_FOUND,
    BombScan,
    FoundBatch,
    ScanStart,
    Walked,
    continued,
    failed_reads,
    starts_of,
)


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
            found |= _chosen(topic, places.get(topic), numbers)
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
            while True:
                self._clock.sleep(every_s)
                cursors, problems = self._look(topics, numbers, cursors, note)
                for problem in sorted(problems - warned):
                    reporter.warn(f"{problem}; trying again")
                if warned and not problems:
                    reporter.warn("all partitions are read again")
                warned = problems
        except KeyboardInterrupt as stop:
            words = f"; {counted(count, 'batch', 'batches')} found, nothing was changed"
            if isinstance(stop, TerminationRequested):
                raise TerminatedRunError(f"terminated{words}") from None
            if isinstance(stop, StopRequested):
                raise TryLaterError(f"stopped at the time limit{words}") from None
            raise InterruptedRunError(f"interrupted{words}") from None

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
        starts = continued(known, cursors)
        walked = self._walk(starts, {key: span.end for key, span in known.items()}, note, None)
        unread = failed_reads(spans) | dict(walked.unread)
        return cursors | dict(walked.offsets), frozenset(f"{key}: {reason}" for key, reason in unread.items())

    def _walk(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        on_found: OnFound,
        bar: ProgressBar | None,
    ) -> Walked:
        walk = LogWalk(self._log, self._clock, limit_bytes=self._limit_bytes, wait_s=self._wait_s, on_found=on_found)
        return walk.run(starts, ends, bar)


def _chosen(topic: str, found: TopicPlaces | None, numbers: Collection[int]) -> dict[TopicPartition, bytes]:
    if found is None:
        raise UsageError(f"topic {printable(topic)} does not exist")
    if unknown := sorted(set(numbers) - set(found.leaders)):
        raise UsageError(f"topic {printable(topic)} has no partition {unknown[0]}")
    return {TopicPartition(topic, number): found.topic_id for number in sorted(numbers or found.leaders)}
