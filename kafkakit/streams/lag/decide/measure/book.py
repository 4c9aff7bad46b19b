"""What all groups of one cluster have committed, as arrays indexed by the key numbers of its `KeyTable`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns
from kafkakit.streams.lag.decide.measure.ends import EndSamples
from kafkakit.streams.lag.decide.measure.kept import KeptFigures
from kafkakit.streams.lag.decide.measure.metadata import CommitMetadata
from kafkakit.streams.lag.decide.measure.records import RecordCache
from kafkakit.streams.lag.decide.measure.topics import NONE
from kafkakit.streams.lag.decide.measure.window import UNKNOWN_LAG, CommitWindow
from kafkakit.streams.model.commit import CommitIdentity, Reading
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, KeyTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

NO_SLOT = -2
"""A row whose partition was not looked up yet; NONE when the limit of partitions is reached."""

NOT_BEHIND = 0
"""A row whose commit is at the end, by the newest sample."""

ANY_SKEW_MS = 60_000
"""More than clocks differ by: a commit this close to the moment a topic was recreated proves nothing later."""

COLUMNS: Columns = {
    "offset": ("i8", NONE), "committed_ms": ("i8", NONE), "seen_ms": ("i8", NONE), "id_number": ("i8", NONE),
    "quiet_ms": ("i8", NONE), "behind_ms": ("i8", NONE), "slot": ("i8", NO_SLOT),
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
    moment at which the present commit was seen behind the end, `NOT_BEHIND` while it was not. `slot` leads to the
    partition's `EndSamples`. `metadata` is read when it is needed (`read`). A payload that is bound to a topic's id is
    used once that id is known and proves it, and read again when the id changes. `records` are the record times read
    for the rows. `rows_refused` counts commits of rows beyond the limit: see `MonitorCondition`.
    """

    offset: "Ints"
    committed_ms: "Ints"
    seen_ms: "Ints"
    id_number: "Ints"
    quiet_ms: "Ints"
    behind_ms: "Ints"
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
        add_columns(self, COLUMNS)

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
        them). Cost: below 0.3 microseconds a row; keys beyond the limit are left out and counted."""
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
        self._note_quiet(key, slot)
        self.offset[key], self.committed_ms[key], self.seen_ms[key] = offset, committed_ms, seen_at_ms
        self.id_number[key] = self._id_numbers(ids)
        self.metadata.keep(key, offset, metadata)
        end = np.where(slot >= 0, self.ends.readable_end(slot, offset), NONE)
        is_behind = end > offset
        self.behind_ms[key] = np.where(end < 0, NONE, np.where(is_behind, seen_at_ms, NOT_BEHIND))
        self.window.add(key, offset, committed_ms, np.where(end >= 0, np.maximum(0, end - offset), UNKNOWN_LAG))
        return freed

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

    def behind_since(self, rows: "Ints", record_ms: "Ints", now_ms: int) -> "Ints":
        """From when on there surely was something to do for each row.

        Where that was so before the monitor looked, the time of the record at the position tells it, -1 for none.
        """
        import numpy as np

        behind = self.behind_ms[rows]
        return np.where(behind == NOT_BEHIND, now_ms, np.where(behind == NONE, record_ms, behind))

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
        self.offset[rows] = self.quiet_ms[rows] = self.behind_ms[rows] = NONE
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
        grow_columns(self, COLUMNS, rows)
        self.metadata.grow(len(self.offset))
        self.window.grow(len(self.offset))
        self.records.grow(len(self.offset))
        self.kept.grow(len(self.offset))
