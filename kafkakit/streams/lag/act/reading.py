"""What a monitor reads of one cluster: the commit log, the ends of logs, single records, and the settings of topics.

* The commit log has a cursor for each partition of the offsets topic, from its start or from where an earlier run
  stopped, and then as it grows. No fault of one partition holds up another one. What is not known at a moment is a
  fact to be shown, not an error.
* Ends of the logs that groups read are sampled a part at a time, so that commits never wait long.
* The record at which a lagging group stands is read for its time, and logs that end with no record are found. Reads
  are bounded: so many partitions a step, so many bytes each. A record is read again when it is too old to count for a
  table, and rows that were never read come first.
* What members own without a commit is read from the coordinators, with the ends of those logs.
* Of topics are read the settings that bear on their lag.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import (
    FetchedBatches,
    GroupDescription,
    GroupType,
    ItemError,
    LogSpan,
    ResourceKind,
    TopicPlaces,
)
from kafkakit.core.errors import KafkakitError, OperationFailedError
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.core.text import few_of
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.streams.lag.decide.measure.book import LagBook, MeasuredRecord
from kafkakit.streams.lag.decide.measure.ends import BROKER_KEYS, TopicLogSettings, facts_of
from kafkakit.streams.lag.decide.measure.owned_partitions import GroupKey, OwnedPartitions, left_by_all, owned_by
from kafkakit.streams.lag.decide.measure.table import positions
from kafkakit.streams.lag.decide.saved_state import NO_RESUME, CommitOrigins, LogCursor, ReadTotals, Resume, ResumePoint
from kafkakit.streams.model.log_batches import NoRecord, RecordTime, record_at
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, CommitRow, KeyTable
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


OUT_OF_RANGE = "OffsetOutOfRangeError"
FETCH_BYTES = 16 << 20
LOG_PARTITION_BYTES = 2 << 20
STUCK_TRIES = 3

Apply = Callable[[CommitColumns], "NDArray[np.int64]"]


class OffsetsTail:
    """The partitions of one offsets topic. For one thread.

    `apply` gets each chunk's columns and answers with the numbers that tombstones freed, which are then released.
    `only` chooses partitions (all by default): processes may split a topic. `guard` is entered while shared state
    changes. With `every` the columns hold all commits, not the newest of each key alone. `sample_ms` is as for
    `OffsetsFeed`.
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
        sample_ms: int = 0,
    ) -> None:
        self._guard: AbstractContextManager[object] = guard if guard is not None else nullcontext()
        self._reader, self._keys, self._apply, self._topic = reader, keys, apply, topic
        self._only = only if only is not None else lambda _: True
        self._every, self._sample_ms = every, sample_ms
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
                    feed = OffsetsFeed(partition, self._keys, every=self._every, sample_ms=self._sample_ms)
                    self.cursors[partition] = LogCursor(
                        partition=partition, feed=feed, every=self._every, sample_ms=self._sample_ms
                    )
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
            self._offsets(behind), max_bytes=FETCH_BYTES, wait_ms=0, partition_bytes=LOG_PARTITION_BYTES
        )
        return behind[self._turn :: 2]

    def _offsets(self, cursors: Collection[LogCursor]) -> dict[TopicPartition, int]:
        return {self._key(c): c.next for c in cursors if c.next is not None}

    def _fetch(self, cursors: Collection[LogCursor], wait_ms: int) -> Mapping[TopicPartition, FetchedBatches]:
        return self._reader.fetch(
            self._offsets(cursors), max_bytes=FETCH_BYTES, wait_ms=wait_ms, partition_bytes=LOG_PARTITION_BYTES
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

    def _take(self, cursor: LogCursor, answer: FetchedBatches | None) -> int:
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

    def _read(self, cursor: LogCursor, answer: FetchedBatches) -> int:
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
            rows = [CommitRow(key=key, at=-1, offset=TOMBSTONE) for key in keys.tolist()]
            self._release(self._apply(CommitColumns.of(rows)))


CHUNK = 2_000
TOPICS_PER_REQUEST = 2_000


GROUPS_AT_ONCE = 500


def read_owned(
    open_groups: Callable[[], GroupAdmin],
    open_reader: Callable[[], LogReader],
    known: Collection[str],
    lacking: Callable[[Sequence[GroupKey]], Sequence[GroupKey]],
    now_ms: int,
) -> OwnedPartitions:
    """What members own without a commit, and the ends of those logs; of all groups that brokers list, and of the
    `known` ones, which they may hide."""
    described: dict[str, GroupDescription | ItemError] = {}
    listed: dict[str, GroupType] = {}
    problems: list[str] = []
    with closing(open_groups()) as admin:
        try:
            listed = {listing.group: listing.type for listing in admin.groups()}
        except KafkakitError as error:  # one broker that is away must not hide what others know
            problems.append(error.message)
        names = sorted(name for name in {*listed, *known} if listed.get(name) is not GroupType.SHARE)
        for first in range(0, len(names), GROUPS_AT_ONCE):
            described |= admin.describe(names[first : first + GROUPS_AT_ONCE])
    keys = tuple(lacking(owned_by(described.values())))
    spans: Mapping[TopicPartition, LogSpan | ItemError] = {}
    if keys:
        with closing(open_reader()) as reader:
            spans = reader.spans(sorted({key for _, key in keys}))
    refused = [(name, answer) for name, answer in sorted(described.items()) if isinstance(answer, ItemError)]
    if refused:
        problems.append(f"members of {few_of(name for name, _ in refused)}: {refused[0][1]}")
    return OwnedPartitions(
        as_of_ms=now_ms, keys=keys, spans=spans, problem="; ".join(problems), left=left_by_all(described.values())
    )


class EndSampler:
    """Rounds over all partitions that groups have committed to: topic ids first, then ends in chunks.

    `now_ms` is the monitor's wall clock, read before and after each request; `guard` is entered while shared state
    changes. After a round, `as_of_ms` is when it began, `topics` are those that exist, `missing` those that do not
    although groups have commits for them, and `errors` counts the partitions without an answer by Kafka's name for
    the reason. Until `known_ms` the end of every partition was known, as of the last round.
    """

    def __init__(
        self, reader: LogReader, book: LagBook, now_ms: "Callable[[], int]", guard: AbstractContextManager[object]
    ) -> None:
        self._guard = guard
        self._reader, self._book, self._ends, self._now_ms = reader, book, book.ends, now_ms
        self._places: dict[int, TopicPartition] = {}
        self._todo: list[int] = []
        self._errors: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.missing: tuple[str, ...] = ()
        self.topics: tuple[str, ...] = ()
        self.rounds = 0
        self.as_of_ms = self.known_ms = -1
        self._began_ms = -1
        self._slots = self._ends.topics.topic_of[:0]
        self._unknown_since: dict[int, int] = {}

    @property
    def is_idle(self) -> bool:
        """True between two rounds."""
        return not self._todo

    @property
    def chunks(self) -> int:
        """How many requests the latest round was."""
        return -(-len(self._slots) // CHUNK)

    def begin(self) -> None:
        """Begin a round: see which topics there are, and drop the samples of those recreated or gone."""
        import numpy as np

        book, table = self._book, self._ends.topics
        with self._guard:
            book.refresh_slots()
            slots = np.unique(book.slot[book.rows()])
            slots = slots[slots >= 0]
            numbers = np.unique(table.topic_of[slots]).tolist() if len(slots) else []
            names = [table.names[n] for n in numbers]
        found: dict[str, TopicPlaces] = {}
        for at in range(0, len(names), TOPICS_PER_REQUEST):
            # A request is refused when none of its topics may be described; others have their figures.
            with suppress(OperationFailedError):
                found.update(self._reader.places(names[at : at + TOPICS_PER_REQUEST]))
        seen_ms = self._now_ms()
        gone = [number for number, name in zip(numbers, names, strict=True) if name not in found]
        with self._guard:
            for name, place in sorted(found.items()):
                self._ends.see_topic(name, place.topic_id, seen_ms)
            is_gone = np.isin(table.topic_of[slots], gone) if len(slots) else np.zeros(0, bool)
            self._ends.forget(slots[is_gone])
        self.topics = tuple(sorted(found))
        self.missing = tuple(table.names[n] for n in gone)
        self._slots = slots[~is_gone]
        self._todo = self._slots[::-1].tolist()
        self._errors = Counter()
        self._began_ms = seen_ms
        if not self._todo:
            self._end()

    def step(self) -> int:
        """Sample one chunk; returns how many partitions it covered, 0 when the round is over."""
        if not self._todo:
            return 0
        chunk, self._todo = self._todo[-CHUNK:], self._todo[:-CHUNK]
        keys = {self._place(slot): slot for slot in chunk}
        before_ms = self._now_ms()
        spans = self._reader.spans(keys)
        after_ms = max(before_ms, self._now_ms())
        answered = [(keys[key], span) for key, span in spans.items() if isinstance(span, LogSpan)]
        self._errors.update(span.name for span in spans.values() if not isinstance(span, LogSpan))
        with self._guard:
            self._record(answered, before_ms, after_ms)
        if not self._todo:
            self._end()
        return len(chunk)

    def drop(self) -> None:
        """Forget all samples and the round at hand, for times that a clock which went back has made useless."""
        with self._guard:
            self._ends.forget(list(range(self._ends.topics.slot_count)))
        self._todo = []
        self._unknown_since = {}
        self.as_of_ms = self.known_ms = -1

    def _record(self, answered: list[tuple[int, LogSpan]], before_ms: int, after_ms: int) -> None:
        import numpy as np

        count = len(answered)
        self._ends.record(
            np.fromiter((slot for slot, _ in answered), np.int64, count),
            before_ms=np.full(count, before_ms, np.int64),
            after_ms=np.full(count, after_ms, np.int64),
            end=np.fromiter((span.end for _, span in answered), np.int64, count),
            stable=np.fromiter((span.stable for _, span in answered), np.int64, count),
            start=np.fromiter((span.start for _, span in answered), np.int64, count),
        )

    def _end(self) -> None:
        with self._guard:
            self._book.note_round()
            self._note_known()
        self.errors, self.rounds, self.as_of_ms = self._errors, self.rounds + 1, self._began_ms

    def _note_known(self) -> None:
        """The oldest of the newest samples; a partition that never had one counts from when it was first asked for."""
        known = self._ends.after_ms[self._slots]
        never = self._slots[known < 0].tolist()
        self._unknown_since = {slot: self._unknown_since.get(slot, self._began_ms) for slot in never}
        oldest = int(known[known >= 0].min(initial=self._began_ms))
        self.known_ms = min([oldest, *self._unknown_since.values()])

    def _place(self, slot: int) -> TopicPartition:
        place = self._places.get(slot)
        if place is None:
            table = self._ends.topics
            place = TopicPartition(table.names[int(table.topic_of[slot])], int(table.partition_of[slot]))
            self._places[slot] = place
        return place


AT_ONCE = 200
METADATA_AT_ONCE = 500
PARTITION_BYTES = 32 << 10
ANSWER_BYTES = 8 << 20
ALONE_AT_ONCE = 10
ALONE_BYTES = 1 << 20
QUIET_MS = 2_000
"""Where markers or holes are looked for: the group has not moved for so long."""


class LagRecordReader:
    """Reads records for the rows of a book that lag. `now_ms` is the monitor's clock; `guard` is entered while shared
    state changes. `reads` and `failures` count partitions, `noted` are the rows that the last step read for."""

    def __init__(
        self,
        reader: LogReader,
        book: LagBook,
        now_ms: Callable[[], int],
        guard: AbstractContextManager[object],
        *,
        ttl_ms: int,
    ) -> None:
        self._reader, self._book, self._now_ms, self._guard, self._ttl_ms = reader, book, now_ms, guard, ttl_ms
        self._alone: list[tuple[TopicPartition, int, list[int]]] = []
        self._tried_ms: dict[int, int] = {}
        self.reads = 0
        self.failures = 0
        self.noted: list[int] = []

    def step(self) -> int:
        """Read for some rows; returns how many partitions were read, 0 when nothing needs a read."""
        self.noted = []
        alone, self._alone = self._alone[:ALONE_AT_ONCE], self._alone[ALONE_AT_ONCE:]
        for place, offset, rows in alone:
            self._fetch({place: (offset, rows)}, is_alone=True)
        wanted = self._wanted()
        if wanted:
            self._fetch(wanted, is_alone=False)
        return len(alone) + len(wanted)

    def _wanted(self) -> dict[TopicPartition, tuple[int, list[int]]]:
        """For each partition one offset, with the rows that stand there; others in it have their turn later."""
        import numpy as np

        book, ends, now_ms = self._book, self._book.ends, self._now_ms()
        with self._guard:
            rows = book.rows()
            if not len(rows) or not len(ends.end):
                return {}
            # Reading metadata costs some time; a part at a step, and the rest has its turn.
            book.read(rows[~book.metadata.is_read[rows]][:METADATA_AT_ONCE])
            rows = rows[book.metadata.is_read[rows] & (book.slot[rows] >= 0)]
            rows = rows[~book.is_of_other_topic(rows)]
            slots, at = book.slot[rows], positions(book, rows)
            effective = ends.effective_end(slots)
            limit = np.where(effective >= 0, effective, ends.end[slots])
            is_due = (at < limit) & ~book.records.holds(rows, slots, at, now_ms=now_ms, ttl_ms=self._ttl_ms // 2)
            rows, slots, at = rows[is_due], slots[is_due], at[is_due]
            order = np.argsort(book.records.read_ms[rows], kind="stable")
            return self._places(rows[order], slots[order], at[order], now_ms)

    def _places(
        self, rows: "Ints", slots: "Ints", at: "Ints", now_ms: int
    ) -> dict[TopicPartition, tuple[int, list[int]]]:
        table = self._book.ends.topics
        found: dict[TopicPartition, tuple[int, list[int]]] = {}
        for row, slot, offset in zip(rows.tolist(), slots.tolist(), at.tolist(), strict=True):
            if now_ms - self._tried_ms.get(row, 0) < QUIET_MS:
                continue
            place = TopicPartition(table.names[int(table.topic_of[slot])], int(table.partition_of[slot]))
            if place not in found and len(found) < AT_ONCE:
                found[place] = (offset, [row])
            elif place in found and found[place][0] == offset:
                found[place][1].append(row)
        if len(self._tried_ms) > 10 * AT_ONCE:
            self._tried_ms = {row: ms for row, ms in self._tried_ms.items() if now_ms - ms < QUIET_MS}
        return found

    def _fetch(self, wanted: Mapping[TopicPartition, tuple[int, list[int]]], *, is_alone: bool) -> None:
        sent_ms = self._now_ms()
        answers = self._reader.fetch(
            {place: offset for place, (offset, _) in wanted.items()},
            max_bytes=ALONE_BYTES if is_alone else ANSWER_BYTES,
            wait_ms=0,
            partition_bytes=ALONE_BYTES if is_alone else PARTITION_BYTES,
        )
        self.reads += len(wanted)
        with self._guard:
            for place, (offset, rows) in wanted.items():
                for row in rows:
                    self._tried_ms[row] = sent_ms
                answer = answers.get(place)
                if answer is None or answer.error is not None:
                    self.failures += 1
                elif not self._note(answer, place, offset, rows, sent_ms, is_alone) and not is_alone:
                    self._alone.append((place, offset, rows))

    def _note(
        self, answer: FetchedBatches, place: TopicPartition, offset: int, rows: list[int], sent_ms: int, is_alone: bool
    ) -> bool:
        """Keep what an answer holds; False when it was cut before the first record."""
        book = self._book
        slot = book.ends.topics.find(place.topic, place.partition)
        if slot is None:
            return True
        if not answer.records and not is_alone:
            return False  # the other partitions may have filled the answer
        found = record_at(answer.records, offset)
        if isinstance(found, RecordTime):
            read = MeasuredRecord.of(offset, found, sent_ms)
            book.ends.note_record(slot, found.offset)
            for row in rows:
                # The row's number may belong to another key by now.
                if int(book.slot[row]) == slot:
                    book.records.note(row, slot, read)
                    self.noted.append(row)
            return True
        return self._note_end(found, answer, slot, offset)

    def _note_end(self, found: NoRecord, answer: FetchedBatches, slot: int, offset: int) -> bool:
        """No record from the offset to the end that was seen: the log ends, for consumers, at the offset or before."""
        ends = self._book.ends
        end = int(ends.end[slot])
        reached = max(found.next_offset, answer.span.end if not answer.records and answer.span.end >= 0 else -1)
        if found.problem or reached < end:
            return False
        if end >= 0:
            # What stands right below the offset was not read.
            ends.note_effective_end(slot, offset, end, is_data=False)
        return True


FactsOf = Callable[[Sequence[str]], Mapping[str, TopicLogSettings]]


def read_topic_facts(open_admin: Callable[[], ClusterAdmin], topics: Sequence[str]) -> Mapping[str, TopicLogSettings]:
    """`topic_facts` with a client of its own."""
    with closing(open_admin()) as admin:
        return topic_facts(admin, topics)


def topic_facts(admin: ClusterAdmin, topics: Sequence[str]) -> Mapping[str, TopicLogSettings]:
    """The facts of each topic from its own settings and, for the rest, those of one living broker."""
    brokers = sorted(b.id for b in admin.cluster().brokers if b.is_alive)
    settings = admin.broker_settings(brokers[:1], BROKER_KEYS)
    defaults = next(iter(settings.values()), {})
    return facts_of(admin.dynamic_configs(ResourceKind.TOPIC, topics), defaults)


class TopicSettings:
    """Settings of new topics at once, of all topics on request. `facts_of` None reads none. For one thread."""

    def __init__(self, facts_of: FactsOf | None) -> None:
        self._facts_of = facts_of
        self._known: frozenset[str] = frozenset()

    def read(self, topics: tuple[str, ...], *, refresh: bool) -> Mapping[str, TopicLogSettings]:
        """The facts of topics that are new, or with `refresh` of all; none where they cannot be read."""
        names = topics if refresh else tuple(name for name in topics if name not in self._known)
        if self._facts_of is None or not names:
            return {}
        self._known = frozenset(topics)
        try:
            return self._facts_of(names)
        except KafkakitError:
            return {}  # without settings a topic claims the least
