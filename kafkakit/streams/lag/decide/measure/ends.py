"""Where the partitions' logs end, sampled: the newest sample, and a ring of older ones at doubling distances."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns
from kafkakit.streams.lag.decide.measure.topics import NONE, TopicTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

SAMPLES = 16
MAX_PARTITIONS = 1_000_000
START_STEP_MS = 600_000
MAX_TOOK_MS = 3_600_000
_ROWS_AT_ONCE = 8192

COLUMNS: Columns = {
    "end": ("i8", NONE), "stable": ("i8", NONE), "start": ("i8", NONE), "before_ms": ("i8", NONE),
    "after_ms": ("i8", NONE), "effective": ("i8", NONE), "effective_at": ("i8", NONE),
    "effective_is_data": ("?", False), "tail": ("i8", 0), "generation": ("i8", 0), "_count": ("i8", 0),
    "_start_then": ("i8", NONE), "_start_then_ms": ("i8", NONE), "_start_mid": ("i8", NONE),
    "_start_mid_ms": ("i8", NONE),
}  # fmt: skip
RING_COLUMNS: Columns = {"_ends": ("i8", None), "_before": ("i8", None), "_took": ("i4", None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """The two samples next to an offset, one row each; -1 where there is none.

    At `low_before_ms` the log ended at `low_end`, at or below the offset; at `high_after_ms` it ended at `high_end`,
    above it. So the record at the offset, if there is one, came between the two moments.
    """

    low_before_ms: "Ints"
    low_end: "Ints"
    high_after_ms: "Ints"
    high_end: "Ints"


class EndSamples:
    """End offsets by slot (see `TopicTable`), each sample with the monitor's time before and after its request.

    The newest sample stands in `end`, `stable`, `start`, `before_ms`, `after_ms`, all -1 while unknown. Older ones
    keep end and times alone; when a row is full, the sample goes whose neighbours lie closest for their age, so that
    distances grow with age. 430 bytes a slot. `generation` counts how often a slot's samples were dropped because its
    log is another one: what was read of the log before that does not hold any longer. `tail` is how many offsets
    without data stood at the end when that was last looked at: markers of transactions, which no group gets to.
    """

    end: "Ints"
    stable: "Ints"
    start: "Ints"
    before_ms: "Ints"
    after_ms: "Ints"
    effective: "Ints"
    effective_at: "Ints"
    effective_is_data: "Bools"
    tail: "Ints"
    generation: "Ints"
    _ends: "Ints"
    _before: "Ints"
    _took: "NDArray[np.int32]"
    _count: "Ints"
    _start_then: "Ints"
    _start_then_ms: "Ints"
    _start_mid: "Ints"
    _start_mid_ms: "Ints"

    def __init__(self, *, max_partitions: int = MAX_PARTITIONS) -> None:
        self.topics = TopicTable(max_partitions)
        add_columns(self, COLUMNS)
        add_columns(self, RING_COLUMNS, SAMPLES)
        self._grow(1)

    def slot(self, topic: str, partition: int) -> int:
        """The slot of a partition with space for its samples; NONE when the limit of partitions is reached."""
        slot = self.topics.slot(topic, partition)
        if slot >= len(self.end):
            self._grow(slot + 1)
        return slot

    def see_topic(self, topic: str, topic_id: bytes, seen_ms: int) -> bool:
        """Note a topic's id; a new one clears every sample of the topic, and then the answer is True."""
        if not self.topics.see_id(topic, topic_id, seen_ms):
            return False
        self.forget(sorted(self.topics.slots[self.topics.number(topic)].values()))
        return True

    def forget(self, slots: "Sequence[int] | Ints") -> None:
        """Drop all samples of these slots."""
        import numpy as np

        rows = np.asarray(slots, dtype=np.int64)
        self._count[rows] = 0
        self.generation[rows] += 1
        for array in (self.end, self.stable, self.start, self.before_ms, self.after_ms, self.effective):
            array[rows] = NONE
        self.tail[rows] = 0
        for array in (self.effective_at, self._start_then, self._start_then_ms, self._start_mid, self._start_mid_ms):
            array[rows] = NONE

    def record(
        self, slots: "Ints", *, before_ms: "Ints", after_ms: "Ints", end: "Ints", stable: "Ints", start: "Ints"
    ) -> None:
        """Take a sample of each slot (each once). One that began before the last, or took an hour, is ignored; an end
        or a start that went back means another log, and clears the slot first."""
        # Of an answer that took longer than that, the moment is too uncertain.
        fresh = (before_ms >= self.before_ms[slots]) & (end >= 0) & (after_ms - before_ms <= MAX_TOOK_MS)
        slots, before_ms, after_ms = slots[fresh], before_ms[fresh], after_ms[fresh]
        end, stable, start = end[fresh], stable[fresh], start[fresh]
        went_back = (end < self.end[slots]) | ((start >= 0) & (start < self.start[slots]))
        if went_back.any():
            self.forget(slots[went_back])
        self.end[slots], self.stable[slots], self.start[slots] = end, stable, start
        self.before_ms[slots], self.after_ms[slots] = before_ms, after_ms
        self._note_start(slots)
        for at in range(0, len(slots), _ROWS_AT_ONCE):
            cut = slice(at, at + _ROWS_AT_ONCE)
            rows = slots[cut]
            full = rows[self._count[rows] == SAMPLES]
            if len(full):
                self._thin(full, int(after_ms[cut].max()))
            place = self._count[rows]
            self._ends[rows, place], self._before[rows, place] = end[cut], before_ms[cut]
            self._took[rows, place] = after_ms[cut] - before_ms[cut]
            self._count[rows] = place + 1

    def note_effective_end(self, slot: int, effective_end: int, at_end: int, *, is_data: bool = False) -> None:
        """A raw read found no data that consumers get from `effective_end`, not below the log's start, to `at_end`.

        `is_data` when what stands right below it surely is data: of no transaction that is open or aborted.
        """
        self.effective[slot], self.effective_at[slot], self.effective_is_data[slot] = effective_end, at_end, is_data
        self.tail[slot] = at_end - effective_end

    def effective_end(self, slots: "Ints") -> "Ints":
        """The effective ends that hold for the newest samples, -1 where unknown."""
        import numpy as np

        known = (self.effective_at[slots] == self.end[slots]) & (self.end[slots] >= 0)
        return np.where(known, self.effective[slots], NONE)

    def note_record(self, slot: int, offset: int) -> None:
        """A record that consumers may get was found there: what stands at the end is more than markers."""
        if offset >= self.end[slot] - self.tail[slot]:
            self.tail[slot] = 0

    def readable_end(self, slots: "Ints", committed: "Ints") -> "Ints":
        """Up to where a group that committed those offsets can read by the newest samples, -1 where unknown.

        That is the effective end, and the last stable offset for a group that was never seen beyond it: one that reads
        no uncommitted records gets no further, however far the log goes on. As many offsets as markers stood at the end
        when that was last looked at (`tail`) count as markers until a record is found there.
        """
        import numpy as np

        effective, stable = self.effective_end(slots), self.stable[slots]
        limit = np.where(effective >= 0, effective, self.end[slots])
        limit = np.where((stable >= 0) & (committed <= stable), np.minimum(limit, stable), limit)
        beyond = limit - committed
        return np.where((beyond > 0) & (beyond <= self.tail[slots]), committed, limit)

    def bracket(self, slots: "Ints", offsets: "Ints") -> Bracket:
        """The samples next to an offset of each slot."""
        import numpy as np

        parts = [
            self._bracket(slots[at : at + _ROWS_AT_ONCE], offsets[at : at + _ROWS_AT_ONCE])
            for at in range(0, max(len(slots), 1), _ROWS_AT_ONCE)
        ]
        low_before, low_end, high_after, high_end = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Bracket(low_before_ms=low_before, low_end=low_end, high_after_ms=high_after, high_end=high_end)

    def sample_since(self, slots: "Ints", since_ms: "Ints") -> "tuple[Ints, Ints]":
        """End and time of the oldest sample of each slot that is not older than `since_ms`; -1 where there is none."""
        import numpy as np

        count = self._count[slots]
        columns = np.arange(SAMPLES)
        fits = (columns < count[:, None]) & (self._before[slots] >= since_ms[:, None])
        first, has = np.argmax(fits, axis=1), fits.any(axis=1)
        return np.where(has, self._ends[slots, first], NONE), np.where(has, self._before[slots, first], NONE)

    def start_movement(self, slots: "Ints") -> "tuple[Ints, Ints]":
        """By how much the log's start rose over the last ten to twenty minutes, and over how many ms; 0 at first."""
        import numpy as np

        then, since = self._start_then[slots], self._start_then_ms[slots]
        known = (then >= 0) & (self.start[slots] >= 0)
        return np.where(known, self.start[slots] - then, 0), np.where(known, self.after_ms[slots] - since, 0)

    def _note_start(self, slots: "Ints") -> None:
        """Keep two older starts of each slot, ten minutes apart."""
        import numpy as np

        now, start = self.after_ms[slots], self.start[slots]
        is_due = (self._start_mid_ms[slots] < 0) | (now - self._start_mid_ms[slots] >= START_STEP_MS)
        for then, mid in ((self._start_then, self._start_mid), (self._start_then_ms, self._start_mid_ms)):
            older = np.where(self._start_mid_ms[slots] < 0, start if mid is self._start_mid else now, mid[slots])
            then[slots] = np.where(is_due, older, then[slots])
        self._start_mid[slots] = np.where(is_due, start, self._start_mid[slots])
        self._start_mid_ms[slots] = np.where(is_due, now, self._start_mid_ms[slots])

    def _bracket(self, slots: "Ints", offsets: "Ints") -> "tuple[Ints, Ints, Ints, Ints]":
        import numpy as np

        count = self._count[slots]
        valid = np.arange(SAMPLES) < count[:, None]
        below = np.count_nonzero(valid & (self._ends[slots] <= offsets[:, None]), axis=1)
        low, high = np.maximum(below - 1, 0), np.minimum(below, SAMPLES - 1)
        has_low, has_high = below > 0, below < count
        return (
            np.where(has_low, self._before[slots, low], NONE),
            np.where(has_low, self._ends[slots, low], NONE),
            np.where(has_high, self._before[slots, high] + self._took[slots, high], NONE),
            np.where(has_high, self._ends[slots, high], NONE),
        )

    def _thin(self, rows: "Ints", now_ms: int) -> None:
        """Take one sample out of each of these full rows, and close the gap; first and last sample stay.

        A sample between two of the same end adds nothing. Else the one whose neighbours lie closest together,
        measured by their age, is missed least.
        """
        import numpy as np

        times, ends = self._before[rows], self._ends[rows]
        age = np.maximum(1, now_ms - times[:, :-2]).astype(np.float64)
        score = (times[:, 2:] - times[:, :-2]) / age
        score[ends[:, 2:] == ends[:, :-2]] = -1.0
        gone = np.argmin(score, axis=1) + 1
        columns = np.arange(SAMPLES - 1)
        columns = columns + (columns >= gone[:, None])
        for array in (self._ends, self._before, self._took):
            array[rows, : SAMPLES - 1] = np.take_along_axis(array[rows], columns, axis=1)
        self._count[rows] = SAMPLES - 1

    def _grow(self, rows: int) -> None:
        grow_columns(self, COLUMNS, rows)
        grow_columns(self, RING_COLUMNS, rows)
