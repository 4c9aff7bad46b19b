"""Following the commit log of one cluster: a cursor for each partition of the offsets topic, from its start or from
where an earlier run stopped, and then as it grows.

No fault of one partition holds up another one. What is not known at a moment is a fact to be shown, not an error.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.log_reads import Fetched, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.decide.commit_origins import CommitOrigins
from kafkakit.streams.lag.decide.cursors import NO_RESUME, LogCursor, ReadTotals, Resume, ResumePoint
from kafkakit.streams.model.commit import NO_TOPIC_ID
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, CommitRow, KeyTable
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OFFSETS_TOPIC = "__consumer_offsets"
OUT_OF_RANGE = "OffsetOutOfRangeError"
FETCH_BYTES = 16 << 20
PARTITION_BYTES = 2 << 20
STUCK_TRIES = 3


Apply = Callable[[CommitColumns], "NDArray[np.int64]"]


class OffsetsTail:
    """The partitions of one offsets topic. For one thread.

    `apply` gets each chunk's columns and answers with the numbers that tombstones freed, which are then released.
    `only` chooses partitions (all by default): processes may split a topic. `guard` is entered while shared state
    changes. With `every` the columns hold all commits, not the newest of each key alone.
    """

    def __init__(
        self,
        reader: LogReader,
        keys: KeyTable,
        apply: Apply,
        *,
        topic: str = OFFSETS_TOPIC,
        only: Callable[[int], bool] | None = None,
        guard: AbstractContextManager[object] | None = None,
        every: bool = False,
    ) -> None:
        self._guard: AbstractContextManager[object] = guard if guard is not None else nullcontext()
        self._reader, self._keys, self._apply, self._topic = reader, keys, apply, topic
        self._only = only if only is not None else lambda _: True
        self._every = every
        self.topic_id = b""
        self.cursors: dict[int, LogCursor] = {}
        self.totals = ReadTotals()
        self.origins = CommitOrigins()
        self._turn = 0
        self._resume: dict[int, ResumePoint] = {}

    def adopt(self, topic_id: bytes, keys: "NDArray[np.int64]", sources: "NDArray[np.int32]", resume: Resume) -> None:
        """Continue where an earlier run stopped, before the first `locate`: its keys with the partitions that their
        commits came from. A partition whose log no longer holds the place to continue from is read from its start."""
        self.topic_id, self._resume = topic_id, dict(resume)
        self.origins.restore(keys, sources)

    def locate(self) -> None:
        """Find the topic's partitions, and the ends of those not known yet; to be called again every few seconds.

        A topic that does not exist yet has no cursors: no group has committed. One that was recreated is read from its
        start, and all that came from the old one is dropped.
        """
        place = self._reader.places([self._topic]).get(self._topic)
        if place is None:
            return
        with self._guard:
            if self.topic_id not in (b"", place.topic_id):
                self._drop_all()
            self.topic_id = place.topic_id
            for partition in sorted(place.leaders):
                if partition not in self.cursors and self._only(partition):
                    feed = OffsetsFeed(partition, self._keys, every=self._every)
                    self.cursors[partition] = LogCursor(partition=partition, feed=feed, every=self._every)
        self._find_ends([c for c in self.cursors.values() if c.next is None])

    def poll(self, wait_ms: int, now_ms: int) -> int:
        """One fetch from all partitions that are to be read, begun at `now_ms`; returns how many records it brought.

        While the past is read, partitions at their target wait for the others, but for none that has a fault. Raises
        `TryLaterError` when no broker can be reached.
        """
        wanted = [c for c in self.cursors.values() if c.next is not None]
        behind = [c for c in wanted if c.is_behind and c.error is None]
        if not wanted:
            return 0
        for cursor in behind or wanted:
            # An answer may be to a request of an earlier call, and then is about the time from that one on.
            cursor.asked_ms = now_ms if cursor.asked_ms < 0 else min(cursor.asked_ms, now_ms)
        chosen = self._half(behind) if behind else wanted
        found = self._fetch(chosen, 0 if behind else wait_ms)
        count = 0
        for cursor in chosen:
            with self._guard:
                count += self._take(cursor, found.get(self._key(cursor)))
        # Requests are sent outside the guard: readers of figures must not wait for brokers.
        for cursor in chosen:
            if cursor.empty_tries >= STUCK_TRIES:
                count += self._pass_hole(cursor)
        return count

    @property
    def is_caught_up(self) -> bool:
        """True when the past of every partition that can be read was read."""
        return not any(c.is_behind and c.error is None for c in self.cursors.values() if c.next is not None)

    def as_of_ms(self) -> "NDArray[np.int64]":
        """By key number: until when surely all commits have been seen, -1 while unknown."""
        resumed = {partition: point.as_of_ms for partition, point in self._resume.items()}
        return self.origins.by_key({**resumed, **{p: cursor.as_of_ms for p, cursor in self.cursors.items()}})

    def is_whole(self) -> "NDArray[np.bool_]":
        """By key number: whether the last answer of its partition went to the end of the log."""
        return self.origins.by_key({p: int(cursor.is_whole) for p, cursor in self.cursors.items()}) > 0

    def _half(self, behind: list[LogCursor]) -> list[LogCursor]:
        """A half of the partitions in turn; the other half is requested ahead, so that brokers work while we decode."""
        if len(behind) < 2:
            return behind
        self._turn = 1 - self._turn
        self._reader.request_ahead(
            self._offsets(behind), max_bytes=FETCH_BYTES, wait_ms=0, partition_bytes=PARTITION_BYTES
        )
        return behind[self._turn :: 2]

    def _offsets(self, cursors: Collection[LogCursor]) -> dict[TopicPartition, int]:
        return {self._key(c): c.next for c in cursors if c.next is not None}

    def _fetch(self, cursors: Collection[LogCursor], wait_ms: int) -> Mapping[TopicPartition, Fetched]:
        return self._reader.fetch(
            self._offsets(cursors), max_bytes=FETCH_BYTES, wait_ms=wait_ms, partition_bytes=PARTITION_BYTES
        )

    def _key(self, cursor: LogCursor) -> TopicPartition:
        return TopicPartition(self._topic, cursor.partition)

    def _find_ends(self, cursors: list[LogCursor]) -> None:
        if not cursors:
            return
        spans = self._reader.spans([self._key(c) for c in cursors])
        with self._guard:
            for cursor in cursors:
                span = spans.get(self._key(cursor))
                if isinstance(span, LogSpan):
                    self._begin(cursor, span)
                else:
                    cursor.error = span

    def _begin(self, cursor: LogCursor, span: LogSpan) -> None:
        cursor.begin(self._keys, span, self._resume.get(cursor.partition, NO_RESUME))
        self._sweep_if_done(cursor)

    def _take(self, cursor: LogCursor, answer: Fetched | None) -> int:
        """Read one answer; returns the number of records."""
        if answer is None or cursor.next is None:
            return 0
        if answer.error is not None:
            cursor.asked_ms = -1
            self._fail(cursor, answer.error)
            return 0
        if answer.span.end < 0 and not answer.records:
            return 0  # not answered yet
        asked_ms, cursor.asked_ms = cursor.asked_ms, -1
        cursor.error = None
        cursor.end = max(cursor.end, answer.span.end)
        count = self._read(cursor, answer) if answer.records else 0
        if not answer.records:
            cursor.empty_tries += cursor.is_behind
        cursor.is_whole = cursor.next >= max(answer.span.end, cursor.target)
        if cursor.is_whole:
            cursor.as_of_ms = asked_ms
        return count

    def _read(self, cursor: LogCursor, answer: Fetched) -> int:
        at = cursor.next or 0
        columns, facts = cursor.feed.feed(answer.records)
        counts = facts.counts
        self.totals.add(counts)
        cursor.open_transactions = facts.open_transactions
        cursor.open_transaction_count, cursor.held_back = facts.open_transaction_count, facts.held_back
        if len(columns):
            self.origins.note(columns.key, cursor.partition, cursor.began)
            self._release(self._apply(columns))
        if facts.next_offset > at:
            cursor.empty_tries = cursor.stopped_tries = 0
        elif facts.stopped or counts.unreadable_batches:
            # Also a batch whose end is unknown: fetching on would bring the same bytes at once, without an end.
            self._skip_stop(cursor, facts.stopped or counts.first_reason)
        else:
            cursor.empty_tries += cursor.is_behind
        cursor.next = max(at if cursor.next is None else cursor.next, facts.next_offset)
        self._sweep_if_done(cursor)
        return counts.records

    def _pass_hole(self, cursor: LogCursor) -> int:
        """Compaction can take all records below the end: then no answer ever holds one.

        Other partitions may have filled the answer, so only an empty answer to a request of its own proves the hole.
        """
        cursor.empty_tries = 0
        alone = self._fetch([cursor], 0).get(self._key(cursor))
        if alone is None or alone.error is not None or cursor.next is None:
            return 0
        with self._guard:
            if alone.records:
                return self._read(cursor, alone)
            cursor.next = max(cursor.next, alone.span.end)
            self._sweep_if_done(cursor)
        return 0

    def _skip_stop(self, cursor: LogCursor, reason: str) -> None:
        """Bytes that are no batch: after some tries, continue behind all that is there now, and count the loss."""
        cursor.stopped_tries += 1
        if cursor.stopped_tries < STUCK_TRIES:
            return
        self.totals.first_reason = self.totals.first_reason or reason
        self.totals.skipped_offsets += cursor.skip_to_end()

    def _fail(self, cursor: LogCursor, error: ItemError) -> None:
        cursor.error = error
        if error.name == OUT_OF_RANGE:
            # The log was cut at either end since: what it holds now is read again, what it lost is forgotten.
            self._start_over(cursor)

    def _start_over(self, cursor: LogCursor) -> None:
        self.totals.started_over += 1
        self._resume.pop(cursor.partition, None)
        cursor.start_over(self._keys)

    def _release(self, freed: "NDArray[np.int64]") -> None:
        if len(freed):
            self.origins.drop(freed)
            self._keys.release(freed.tolist())

    def _sweep_if_done(self, cursor: LogCursor) -> None:
        """After a second pass over a log: commits that only the first pass saw are in it no longer."""
        if cursor.is_behind or not cursor.is_sweeping:
            return
        cursor.is_sweeping = False
        self._forget(self.origins.earlier(cursor.partition, cursor.began))

    def _drop_all(self) -> None:
        self._resume = {}
        for cursor in self.cursors.values():
            self._start_over(cursor)
        self.cursors.clear()
        self._forget(self.origins.known())

    def _forget(self, keys: "NDArray[np.int64]") -> None:
        if len(keys):
            rows = [CommitRow(key, TOMBSTONE, -1, -1, -1, NO_TOPIC_ID, b"") for key in keys.tolist()]
            self._release(self._apply(CommitColumns.of(rows)))
