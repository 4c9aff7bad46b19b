"""The metadata of commits by row of the book, and what was read of it."""

from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns
from kafkakit.streams.lag.decide.measure.topics import NONE
from kafkakit.streams.model.commit import CommitState, Problem, Reading
from kafkakit.streams.model.dialects.registry import dialect_named

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Bytes = NDArray[np.int8]

PROBLEMS = tuple(Problem)
COLUMNS: Columns = {
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
        add_columns(self, COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, COLUMNS, rows)

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
        self.problem[rows] = np.where(too_big, PROBLEMS.index(Problem.TOO_LARGE), NONE)
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
