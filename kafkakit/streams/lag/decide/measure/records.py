"""Times of records that were read from the logs, kept by row of the book for a while."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns
from kafkakit.streams.lag.decide.measure.topics import NONE
from kafkakit.streams.model.log_batches import RecordTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.ends import EndSamples

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

COLUMNS: Columns = {
    "position": ("i8", NONE), "offset": ("i8", NONE), "time_ms": ("i8", NONE), "low_ms": ("i8", NONE),
    "high_ms": ("i8", NONE), "read_ms": ("i8", NONE), "is_data": ("?", False), "done_ms": ("i8", NONE),
    "done_offset": ("i8", NONE), "_generation": ("i8", NONE),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
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
    def of(cls, position: int, found: RecordTime, read_ms: int) -> "ReadRecord":
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
        add_columns(self, COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, COLUMNS, rows)

    def note(self, row: int, slot: int, record: ReadRecord) -> None:
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
