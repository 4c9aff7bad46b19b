"""Reading the record at which each lagging group stands, for its time; and finding logs that end with no record.

Reads are bounded: so many partitions a step, so many bytes each. A record is read again when it is too old to count
for a table, and rows that were never read come first.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kafkakit.core.log_reads import Fetched
from kafkakit.core.model import TopicPartition
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.decide.measure.book import LagBook
from kafkakit.streams.lag.decide.measure.records import ReadRecord
from kafkakit.streams.lag.decide.measure.table import positions
from kafkakit.streams.model.log_batches import NoRecord, RecordTime, record_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

AT_ONCE = 200
METADATA_AT_ONCE = 500
PARTITION_BYTES = 32 << 10
ANSWER_BYTES = 8 << 20
ALONE_AT_ONCE = 10
ALONE_BYTES = 1 << 20
QUIET_MS = 2_000
"""Where markers or holes are looked for: the group has not moved for so long."""


class RecordReader:
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
        self, answer: Fetched, place: TopicPartition, offset: int, rows: list[int], sent_ms: int, is_alone: bool
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
            read = ReadRecord.of(offset, found, sent_ms)
            book.ends.note_record(slot, found.offset)
            for row in rows:
                # The row's number may belong to another key by now.
                if int(book.slot[row]) == slot:
                    book.records.note(row, slot, read)
                    self.noted.append(row)
            return True
        return self._note_end(found, answer, slot, offset)

    def _note_end(self, found: NoRecord, answer: Fetched, slot: int, offset: int) -> bool:
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
