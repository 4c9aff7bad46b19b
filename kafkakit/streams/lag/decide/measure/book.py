"""What all groups of one cluster have committed, as arrays indexed by the key numbers of its `KeyTable`.

By row of the book are kept as well: the metadata of the commit and what was read of it, the time of the record at its
position for a while, and the last bounded figure.

A group that commits every second stands at another record at each look, and the time of that one is not known before it
was read: two looks of three had no upper bound. What was proven some seconds ago still is, of that moment; hence the
bounded figure is kept.

Commits that were made before the monitor began came before any end was known, and a lag that is not known counts as
none: a group that died before the monitor began would count as healthy from then on. So the lag of such commits is set
by the first ends that are seen. That is at least what it was, so it is used only if Burrow's rules can be applied: with
two commits, or one that is old.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.ends import (
    NONE,
    UNKNOWN_LAG,
    ColumnTypes,
    CommitWindow,
    EndSamples,
    add_columns,
    grow_columns,
)
from kafkakit.streams.lag.decide.measure.time_lag import UNBOUNDED, EstimateSource, FigureFlag, Figures
from kafkakit.streams.model.commit import CommitIdentity, CommitState, PayloadProblem, Reading
from kafkakit.streams.model.dialects.registry import dialect_named
from kafkakit.streams.model.log_batches import RecordTime
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.int8]


NO_SLOT = -2
"""A row whose partition was not looked up yet; NONE when the limit of partitions is reached."""

NOT_BEHIND = 0
"""A row whose commit is at the end, by the newest sample."""

OLD_END_MS = 60_000
"""An end that was sampled so long before a commit says nothing of it, and bounds that lie so far apart nothing of when
a record came."""

ANY_SKEW_MS = 60_000
"""More than clocks differ by: a commit this close to the moment a topic was recreated proves nothing later."""

BOOK_COLUMNS: ColumnTypes = {
    "offset": ("i8", NONE), "committed_ms": ("i8", NONE), "seen_ms": ("i8", NONE), "id_number": ("i8", NONE),
    "quiet_ms": ("i8", NONE), "behind_ms": ("i8", NONE), "calm_ms": ("i8", NONE), "slot": ("i8", NO_SLOT),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BookLimits:
    """What a book holds at most: rows, metadata bytes in all, and bytes of one metadata string."""

    rows: int = 1_000_000
    metadata_bytes: int = 128 << 20
    one_metadata_bytes: int = 64 << 10


class LagBook:
    """State by key number: the last commit, when it was made and seen, and what its metadata holds. Single-threaded.

    `offset` is -1 for rows without a commit. `committed_ms` is the coordinator's clock, `seen_ms` the monitor's;
    `quiet_ms` is the time of the last end sample that a commit, since replaced, had reached. `behind_ms` is the first
    moment at which the present commit was seen behind the end, `NOT_BEHIND` while it was not, and `calm_ms` the last
    one at which it surely was at the end. `slot` leads to the partition's `EndSamples`. `metadata` is read when it is
    needed (`read`). A payload that is bound to a topic's id is used once that id is known and proves it, and read again
    when the id changes. `records` are the record times read for the rows. `rows_refused` counts commits of rows beyond
    the limit: see `MonitorCondition`.
    """

    offset: "Ints"
    committed_ms: "Ints"
    seen_ms: "Ints"
    id_number: "Ints"
    quiet_ms: "Ints"
    behind_ms: "Ints"
    calm_ms: "Ints"
    slot: "Ints"

    def __init__(
        self,
        keys: KeyTable,
        ends: EndSamples,
        cluster_id: str,
        *,
        window_step_ms: int = 10_000,
        limits: BookLimits | None = None,
    ) -> None:
        self.keys, self.ends, self.cluster_id = keys, ends, cluster_id
        self.limits = limits if limits is not None else BookLimits()
        self.window = CommitWindow(window_step_ms)
        self.metadata = CommitMetadata(self.limits.metadata_bytes, self.limits.one_metadata_bytes)
        self.records = RecordCache(ends)
        self.kept = KeptFigures()
        self.rows_refused = 0
        self._size = 0
        self._ids_seen = 0
        add_columns(self, BOOK_COLUMNS)

    def __len__(self) -> int:
        """How many group-partitions have a commit."""
        import numpy as np

        return int(np.count_nonzero(self.offset[: self._size] >= 0))

    @property
    def rows_without_partition(self) -> int:
        """How many rows have a commit, but no samples of ends because the limit of partitions is reached."""
        import numpy as np

        return int(np.count_nonzero((self.slot[: self._size] == NONE) & (self.offset[: self._size] >= 0)))

    def apply(self, columns: CommitColumns, seen_at_ms: int) -> "Ints":
        """Take over a chunk; the answer is the numbers that tombstones freed (release them when nothing else holds
        them). A key may come several times, in the order of the log: the last one counts, and those before it are
        samples of its window. Cost: below 0.3 microseconds a row; keys beyond the limit are left out and counted."""
        import numpy as np

        key, offset, committed_ms = columns.key, columns.offset, columns.committed_ms
        metadata, ids = np.empty(len(key), dtype=object), columns.topic_id
        metadata[:] = columns.metadata
        if len(key) and int(key.max()) >= self.limits.rows:
            fits = key < self.limits.rows
            self.rows_refused += int(np.count_nonzero(~fits))
            key, offset, committed_ms = key[fits], offset[fits], committed_ms[fits]
            metadata, ids = metadata[fits], ids[fits]
        if not len(key):
            return np.empty(0, dtype=np.int64)
        self._grow(int(key.max()) + 1)
        is_last = _is_last(key)
        past = np.empty((3, 0), dtype=np.int64)
        if not is_last.all():
            past = self._past(key, offset, committed_ms, is_last)
            key, offset, committed_ms = key[is_last], offset[is_last], committed_ms[is_last]
            metadata, ids = metadata[is_last], ids[is_last]
        is_gone = offset == TOMBSTONE
        freed: Ints = key[is_gone]
        if len(freed):
            self._clear(freed)
            live = ~is_gone
            key, offset, committed_ms = key[live], offset[live], committed_ms[live]
            metadata, ids = metadata[live], ids[live]
        new = key[self.slot[key] == NO_SLOT]
        if len(new):
            self._find_slots(new)
        slot = self.slot[key]
        if past.size:
            self._add_past(past[:, np.isin(past[0], key)])
        self._note_quiet(key, slot)
        self.offset[key], self.committed_ms[key], self.seen_ms[key] = offset, committed_ms, seen_at_ms
        self.id_number[key] = self._id_numbers(ids)
        self.metadata.keep(key, offset, metadata)
        end = self._end_then(slot, offset, committed_ms)
        is_behind = end > offset
        self.calm_ms[key] = NONE
        self.behind_ms[key] = np.where(end < 0, NONE, np.where(is_behind, seen_at_ms, NOT_BEHIND))
        self.window.add(key, offset, committed_ms, np.where(end >= 0, np.maximum(0, end - offset), UNKNOWN_LAG))
        return freed

    def _end_then(self, slot: "Ints", offset: "Ints", committed_ms: "Ints") -> "Ints":
        """The end of the log at commits, by a sample that was not much older; -1 for none."""
        import numpy as np

        is_known = (slot >= 0) & (committed_ms - self.ends.after_ms[slot] <= OLD_END_MS)
        return np.where(is_known, self.ends.readable_end(slot, offset), NONE)

    def _past(self, key: "Ints", offset: "Ints", committed_ms: "Ints", is_last: "Bools") -> "Ints":
        """Key, offset and time of the commits that are not the last of their key, from its last tombstone on.

        Keys that had one among them begin again.
        """
        import numpy as np

        is_tombstone = ~is_last & (offset == TOMBSTONE)
        if not is_tombstone.any():
            return np.stack((key, offset, committed_ms))[:, ~is_last]
        at = np.arange(len(key))
        begins = np.full(int(key.max()) + 1, NONE, dtype=np.int64)
        begins[key[is_tombstone]] = at[is_tombstone]  # of equal keys the last one stays
        self._clear(np.unique(key[is_tombstone]))
        return np.stack((key, offset, committed_ms))[:, ~is_last & (at > begins[key])]

    def _add_past(self, past: "Ints") -> None:
        """Add samples of commits that came in one chunk with later ones."""
        import numpy as np

        key, offset, committed_ms = past
        end = self._end_then(self.slot[key], offset, committed_ms)
        lag = np.where(end >= 0, np.maximum(0, end - offset), UNKNOWN_LAG)
        self.window.add_all(key, offset, committed_ms, lag)

    def note_round(self) -> None:
        """Take into account that all ends were sampled anew: which commits are behind now that were not. O(rows)."""
        import numpy as np

        rows = self.rows()
        rows = rows[self.slot[rows] >= 0]
        slots = self.slot[rows]
        end, offset, known = self.ends.readable_end(slots, self.offset[rows]), self.offset[rows], self.behind_ms[rows]
        is_behind = end > offset
        became = np.where(known == NOT_BEHIND, self.ends.after_ms[slots], known)
        self.behind_ms[rows] = np.where(end < 0, known, np.where(is_behind, became, NOT_BEHIND))
        self.calm_ms[rows] = np.where((end >= 0) & ~is_behind, self.ends.before_ms[slots], self.calm_ms[rows])

    def behind_since(self, rows: "Ints", record_ms: "Ints", now_ms: int) -> "Ints":
        """Since when there was something to do for each row, or since its commit if that was later.

        The time of the record at the position tells it (-1: unknown), between the last look that found nothing to do
        and the first that found something; so it does not depend on when somebody looked. A time in the future tells
        nothing. Without it, looks that lie far apart prove only that there was something to do after the former.
        """
        import numpy as np

        behind = self.behind_ms[rows]
        low = np.maximum(self.committed_ms[rows], self.calm_ms[rows])
        high = np.where((behind == NOT_BEHIND) | (behind == NONE), now_ms, behind)
        has_time = (record_ms >= 0) & (record_ms <= now_ms)
        without = np.where((behind != NONE) & (high - low <= OLD_END_MS), high, low)
        return np.where(has_time, np.clip(record_ms, low, np.maximum(low, high)), without)

    def rows(self) -> "Ints":
        """The numbers of all rows with a commit, ascending."""
        import numpy as np

        return np.flatnonzero(self.offset[: self._size] >= 0).astype(np.int64)

    def read(self, rows: "Ints") -> None:
        """Read the metadata of these rows where that was not done yet; some microseconds for each that is new."""
        self._reconsider()
        topics = self.ends.topics
        for row in rows[~self.metadata.is_read[rows]].tolist():
            slot = int(self.slot[row])
            topic_id = int(topics.id_number[topics.topic_of[slot]]) if slot >= 0 else NONE
            self.metadata.take(row, int(self.offset[row]), self.reading(row), topic_id)

    def reading(self, row: int) -> Reading:
        """All that is in one row's metadata."""
        from kafkakit.streams.model.dialects.registry import read_metadata

        text = self.metadata.text[row].decode("utf-8", "replace")
        slot = int(self.slot[row])
        topics = self.ends.topics
        topic_id = topics.topic_id(int(topics.topic_of[slot])) if slot >= 0 else bytes(16)
        identity = None
        if any(topic_id):
            key = self.keys.key_of(row)
            identity = CommitIdentity(
                cluster_id=self.cluster_id, topic_id=topic_id, partition=key.partition, group=key.group
            )
        return read_metadata(text, int(self.offset[row]), identity)

    def first_pending(self, row: int, at_least: int) -> int:
        """The first offset from `at_least` on that is not done; cost: one reading of the metadata."""
        offset = int(self.offset[row])
        if at_least <= offset or at_least >= int(self.metadata.done_end[row]):
            return max(offset, at_least)
        state = self.reading(row).state
        first = state.done.gaps(at_least, state.end).first
        return state.end if first is None else first

    def is_of_other_topic(self, rows: "Ints", skew_ms: int = 0) -> "Bools":
        """True where the commit belongs to an earlier topic of the name, or may do so.

        A commit that names its topic's id is judged by it; another one by its time where the topic was recreated
        while the monitor ran: it counts as of the old topic unless it came after the new id was seen.
        """
        import numpy as np

        topics = self.ends.topics
        slot = self.slot[rows]
        has_slot = slot >= 0
        if not topics.slot_count:
            return np.zeros(len(rows), dtype=bool)
        topic = np.where(has_slot, topics.topic_of[slot], 0)
        named, now = self.id_number[rows], topics.id_number[topic]
        other_id = (named != NONE) & (now != NONE) & (named != now)
        too_early = (named == NONE) & (topics.since_ms[topic] > self.committed_ms[rows] - skew_ms)
        is_other: Bools = has_slot & (other_id | too_early)
        return is_other

    def refresh_slots(self) -> None:
        """Look up again the partitions of rows that had none because the limit was reached."""
        import numpy as np

        self._find_slots(np.flatnonzero((self.slot[: self._size] == NONE) & (self.offset[: self._size] >= 0)))

    def _reconsider(self) -> None:
        """Have metadata read again of topics whose id became known, or another one, since it was read."""
        import numpy as np

        topics = self.ends.topics
        if self._ids_seen == topics.changes:
            return
        self._ids_seen = topics.changes
        rows = np.flatnonzero(self.slot[: self._size] >= 0)
        self.metadata.reconsider(rows, topics.id_number[topics.topic_of[self.slot[rows]]])

    def _note_quiet(self, key: "Ints", slot: "Ints") -> None:
        """Remember of commits that are about to be replaced that they had reached the end of the newest sample."""
        import numpy as np

        ends = self.ends
        limit, before_ms = ends.end[slot], ends.before_ms[slot]
        at_tail = (slot >= 0) & (limit >= 0) & (self.offset[key] >= limit) & (self.seen_ms[key] <= before_ms)
        if at_tail.any():
            at_tail &= ~self.is_of_other_topic(key, ANY_SKEW_MS)
        self.quiet_ms[key] = np.where(at_tail, before_ms, self.quiet_ms[key])

    def _id_numbers(self, ids: "NDArray[np.uint8]") -> "Ints | int":
        """Numbers of the topic ids; most brokers write none, so that case costs one look."""
        import numpy as np

        if not ids.any():
            return NONE
        number = self.ends.topics.id_of
        return np.fromiter((number(one.tobytes()) for one in ids), dtype=np.int64, count=len(ids))

    def _find_slots(self, rows: "Iterable[int]") -> None:
        for row in rows:
            key = self.keys.key_of(int(row))
            self.slot[row] = self.ends.slot(key.topic, key.partition)

    def _clear(self, rows: "Ints") -> None:
        self.offset[rows] = self.quiet_ms[rows] = self.behind_ms[rows] = self.calm_ms[rows] = NONE
        self.slot[rows] = NO_SLOT
        self.metadata.clear(rows)
        self.window.clear(rows)
        self.records.drop(rows)
        self.kept.drop(rows)

    def _grow(self, rows: int) -> None:
        if rows <= self._size:
            return
        self._size = rows
        if rows <= len(self.offset):
            return
        grow_columns(self, BOOK_COLUMNS, rows)
        self.metadata.grow(len(self.offset))
        self.window.grow(len(self.offset))
        self.records.grow(len(self.offset))
        self.kept.grow(len(self.offset))


PROBLEMS = tuple(PayloadProblem)
METADATA_COLUMNS: ColumnTypes = {
    "text": ("O", b""), "is_read": ("?", True), "done_end": ("i8", NONE), "pending": ("i8", 0),
    "oldest_ms": ("i8", NONE), "newest_done_ms": ("i8", NONE), "stream_ms": ("i8", NONE),
    "problem": ("i1", NONE), "_sizes": ("i4", 0), "_read_with": ("i4", NONE),
}  # fmt: skip


class CommitMetadata:
    """Metadata as bytes, and after reading it what it holds; before, what a plain commit means. Single-threaded.

    `done_end` is one past the highest done offset, `pending` how many offsets below it are not done; `oldest_ms`,
    `newest_done_ms` and `stream_ms` are -1 where not given; `problem` is a place in PROBLEMS. At most `max_bytes` are
    held in all and `max_one_bytes` of one string: `refused` counts the others.
    """

    text: "NDArray[np.object_]"
    is_read: "Bools"
    done_end: "Ints"
    pending: "Ints"
    oldest_ms: "Ints"
    newest_done_ms: "Ints"
    stream_ms: "Ints"
    problem: "Bytes"
    _sizes: "NDArray[np.int32]"
    _read_with: "NDArray[np.int32]"

    def __init__(self, max_bytes: int, max_one_bytes: int) -> None:
        self._max_bytes, self._max_one_bytes = max_bytes, max_one_bytes
        self.total_bytes = 0
        self.refused = 0
        add_columns(self, METADATA_COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, METADATA_COLUMNS, rows)

    def keep(self, rows: "Ints", offset: "Ints", text: "NDArray[np.object_]") -> None:
        """Take the metadata of new commits at these offsets; it is read later."""
        import numpy as np

        sizes = np.fromiter(map(len, text.tolist()), dtype=np.int64, count=len(text))
        self.total_bytes -= int(self._sizes[rows].sum())
        too_big = sizes > self._max_one_bytes
        if self.total_bytes + int(sizes.sum()) > self._max_bytes:
            too_big |= self.total_bytes + np.cumsum(sizes) > self._max_bytes
        if too_big.any():
            self.refused += int(np.count_nonzero(too_big))
            text[too_big], sizes[too_big] = b"", 0
        self.total_bytes += int(sizes.sum())
        self.text[rows], self._sizes[rows] = text, sizes
        self.is_read[rows] = sizes == 0
        self.problem[rows] = np.where(too_big, PROBLEMS.index(PayloadProblem.TOO_LARGE), NONE)
        self.done_end[rows] = offset
        self.pending[rows] = 0
        for column in (self.oldest_ms, self.newest_done_ms, self.stream_ms):
            column[rows] = NONE

    def clear(self, rows: "Ints") -> None:
        """Forget the metadata of these rows."""
        self.total_bytes -= int(self._sizes[rows].sum())
        self._sizes[rows] = 0
        self.text[rows] = b""

    def take(self, row: int, offset: int, reading: Reading, topic_id: int) -> None:
        """What was read of a row's metadata, with the topic's id of this number (NONE: unknown)."""
        self.is_read[row], self._read_with[row] = True, topic_id
        self.problem[row] = NONE if reading.problem is None else PROBLEMS.index(reading.problem)
        is_foreign = not reading.is_bound and dialect_named(reading.dialect).is_bound
        state = CommitState(base=offset) if is_foreign else reading.state
        self.done_end[row] = state.end
        self.pending[row] = state.pending.count
        watermark = state.watermark
        self.oldest_ms[row] = NONE if watermark is None else watermark.oldest_ms
        self.newest_done_ms[row] = NONE if watermark is None else watermark.newest_done_ms
        self.stream_ms[row] = NONE if reading.stream_time_ms is None else reading.stream_time_ms

    def reconsider(self, rows: "Ints", topic_ids: "Ints") -> None:
        """Have metadata read again that was read with another id of its topic than this one, or with none."""
        self.is_read[rows] &= (self._sizes[rows] == 0) | (self._read_with[rows] == topic_ids)


RECORD_COLUMNS: ColumnTypes = {
    "position": ("i8", NONE), "offset": ("i8", NONE), "time_ms": ("i8", NONE), "low_ms": ("i8", NONE),
    "high_ms": ("i8", NONE), "read_ms": ("i8", NONE), "is_data": ("?", False), "done_ms": ("i8", NONE),
    "done_offset": ("i8", NONE), "_generation": ("i8", NONE),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecord:
    """The first record at or after `position`: it stands at `offset`, and its time is about `time_ms`.

    It surely is at least `low_ms` and at most `high_ms`, -1 for each that is not proven. `is_data` when it surely is
    data that consumers get, and at this offset: no marker, and of no transaction whose end is unknown. `read_ms` is
    the monitor's time when the read was sent.
    """

    position: int
    offset: int
    time_ms: int
    low_ms: int
    high_ms: int
    is_data: bool
    read_ms: int

    @classmethod
    def of(cls, position: int, found: RecordTime, read_ms: int) -> "MeasuredRecord":
        """What a raw read from `position` on found; a record of a transaction is sure data when that surely was
        committed."""
        known = max(found.low_ms, found.high_ms) >= 0
        low = found.low_ms if found.low_ms >= 0 else found.high_ms
        return cls(
            position=position,
            offset=found.offset,
            time_ms=(low + found.high_ms) // 2 if known else NONE,
            low_ms=found.low_ms if found.is_low_proven else NONE,
            high_ms=found.high_ms if found.is_high_proven else NONE,
            is_data=found.is_offset_exact and (found.is_committed or not found.is_transactional),
            read_ms=read_ms,
        )


class RecordCache:
    """One read record a row, and the newest time of one that has been done since; 81 bytes a row.

    What was read of a log that is another one now (`EndSamples.generation`) is not given out any more.
    """

    position: "Ints"
    offset: "Ints"
    time_ms: "Ints"
    low_ms: "Ints"
    high_ms: "Ints"
    read_ms: "Ints"
    is_data: "Bools"
    done_ms: "Ints"
    done_offset: "Ints"
    _generation: "Ints"

    def __init__(self, ends: "EndSamples") -> None:
        self._ends = ends
        add_columns(self, RECORD_COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, RECORD_COLUMNS, rows)

    def note(self, row: int, slot: int, record: MeasuredRecord) -> None:
        """Keep what was read for a row; the record before it counts as done from now on where the row passed it."""
        generation = int(self._ends.generation[slot])
        if self._generation[row] != generation:
            self.done_ms[row] = self.done_offset[row] = NONE
        elif self.is_data[row] and 0 <= self.offset[row] < record.position and self.low_ms[row] > self.done_ms[row]:
            self.done_ms[row], self.done_offset[row] = self.low_ms[row], self.offset[row]
        self._generation[row] = generation
        self.position[row], self.offset[row] = record.position, record.offset
        self.time_ms[row], self.low_ms[row], self.high_ms[row] = record.time_ms, record.low_ms, record.high_ms
        self.read_ms[row], self.is_data[row] = record.read_ms, record.is_data

    def drop(self, rows: "Ints") -> None:
        """Forget what was read for these rows."""
        self.offset[rows] = self.done_ms[rows] = self.done_offset[rows] = self._generation[rows] = NONE

    def holds(self, rows: "Ints", slots: "Ints", positions: "Ints", *, now_ms: int, ttl_ms: int) -> "Bools":
        """True where the record read is still the first one at or after the row's position, and not too old."""
        found: Bools = (
            (self._generation[rows] == self._ends.generation[slots])
            & (self.offset[rows] >= positions)
            & (self.position[rows] <= positions)
            & (now_ms - self.read_ms[rows] <= ttl_ms)
        )
        return found

    def done_since(self, rows: "Ints", slots: "Ints", committed: "Ints") -> "Ints":
        """The latest known time of a record below the committed offset, -1 for none."""
        import numpy as np

        same = self._generation[rows] == self._ends.generation[slots]
        passed = same & self.is_data[rows] & (self.offset[rows] >= 0) & (self.offset[rows] < committed)
        before = same & (self.done_offset[rows] >= 0) & (self.done_offset[rows] < committed)
        return np.maximum(np.where(passed, self.low_ms[rows], NONE), np.where(before, self.done_ms[rows], NONE))


KEPT_MS = 10_000
"""Nothing older takes the place of a figure of now."""
BOUNDED_COLUMNS: ColumnTypes = {
    "as_of_ms": ("i8", NONE), "estimate_ms": ("i8", NONE), "low_ms": ("i8", NONE), "high_ms": ("i8", NONE),
    "source": ("i8", NONE), "flags": ("i8", 0), "_generation": ("i8", NONE),
}  # fmt: skip
_NAMES = tuple(f.name for f in fields(Figures))
_ELSE = FigureFlag.NO_END | FigureFlag.OTHER_TOPIC | FigureFlag.LOST | FigureFlag.AHEAD


class KeptFigures:
    """One figure a row, 56 bytes; `generation` is that of the partition's samples (`EndSamples`)."""

    as_of_ms: "Ints"
    estimate_ms: "Ints"
    low_ms: "Ints"
    high_ms: "Ints"
    source: "Ints"
    flags: "Ints"
    _generation: "Ints"

    def __init__(self) -> None:
        add_columns(self, BOUNDED_COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, BOUNDED_COLUMNS, rows)

    def drop(self, rows: "Ints") -> None:
        """Forget what was kept for these rows."""
        self.as_of_ms[rows] = NONE

    def keep(self, rows: "Ints", figures: Figures, generation: "Ints") -> None:
        """Keep those of the figures that are bounded, where what is kept is no better; each row once."""
        takes = (figures.high_ms != UNBOUNDED) & ~self._is_better(rows, figures, generation)
        some, found = rows[takes], figures.taken(takes.nonzero()[0])
        for name in _NAMES:
            getattr(self, name)[some] = getattr(found, name)
        self._generation[some] = generation[takes]

    def instead(self, rows: "Ints", figures: Figures, generation: "Ints", passed_ms: "Ints", now_ms: int) -> Figures:
        """The figures, with what was kept in the place of those without a bound, where it is not too old, and of those
        whose interval is wider than the kept one and its age together.

        A group that seems to have caught up is not given an older figure, nor is one that has since done all that was
        in the log then: at `passed_ms` the log ended at or below the row's position.
        """
        import numpy as np

        takes = self._is_better(rows, figures, generation) & ((figures.flags & int(_ELSE)) == 0)
        takes &= figures.source != int(EstimateSource.CAUGHT_UP)
        takes &= self.as_of_ms[rows] >= np.maximum(now_ms - KEPT_MS, passed_ms + 1)
        return replace(
            figures, **{name: np.where(takes, getattr(self, name)[rows], getattr(figures, name)) for name in _NAMES}
        )

    def _is_better(self, rows: "Ints", figures: Figures, generation: "Ints") -> "Bools":
        """Where what is kept is of the same log, and narrower even with its age added."""
        width, age = self.high_ms[rows] - self.low_ms[rows], figures.as_of_ms - self.as_of_ms[rows]
        is_kept = (self.as_of_ms[rows] >= 0) & (self._generation[rows] == generation)
        found: Bools = is_kept & (figures.high_ms - figures.low_ms > width + age)
        return found


def _is_last(key: "Ints") -> "Bools":
    """True for the last row of each key."""
    import numpy as np

    places = np.arange(len(key))
    last = np.empty(int(key.max()) + 1, dtype=np.int64)
    last[key] = places  # of equal keys the last one stays
    found: Bools = last[key] == places
    return found


OLD_MS = 600_000


def set_past_lags(book: "LagBook", now_ms: int) -> int:
    """Set the lags of commits without one, where the log's end is known; returns how many. O(rows)."""
    import numpy as np

    window, rows = book.window, book.rows()
    rows = rows[book.slot[rows] >= 0]
    if not len(rows) or not len(book.ends.end):
        return 0
    end = book.ends.end[book.slot[rows]]
    is_usable = (end >= 0) & ((window.count[rows] >= 2) | (now_ms - book.committed_ms[rows] >= OLD_MS))
    rows, end = rows[is_usable], end[is_usable]
    lags, offsets = window.lag[rows], window.offset[rows]
    unknown = lags == UNKNOWN_LAG
    window.lag[rows] = np.where(unknown, np.maximum(0, end[:, None] - offsets), lags)
    return int(np.count_nonzero(unknown))
