"""The samples of a group-partition's commits that its status is judged by: Burrow's window.

A reader may take a day of the commit log in one answer or every commit as it comes; the window is the same. Only the
lags of samples depend on when ends were known: see `book.py`.
"""

from typing import TYPE_CHECKING, Any

from kafkakit.streams.lag.decide.measure.ends import ColumnTypes, add_columns, grow_columns
from kafkakit.streams.model.offsets_log.feed import MOST_SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


SAMPLES = MOST_SAMPLES
UNKNOWN_LAG = -1
WINDOW_RING_COLUMNS: ColumnTypes = {"offset": ("i8", None), "at_ms": ("i8", None), "lag": ("i8", None)}
WINDOW_COLUMNS: ColumnTypes = {"count": ("i1", 0), "head": ("i1", 0)}


class CommitWindow:
    """Ten samples a row of (offset, commit time, lag), at most one in each stretch of `step_ms`; 241 bytes a row.

    Of the commits of a stretch (10:00:00 to 10:00:10) a sample has the first one's time and the last one's offset and
    lag, else a group that commits often would never fill its window (Burrow's `min-distance`). So a window depends on
    the commits only, not on when and how often they were read.
    """

    offset: "Ints"
    at_ms: "Ints"
    lag: "Ints"
    count: "NDArray[np.int8]"
    head: "NDArray[np.int8]"

    def __init__(self, step_ms: int) -> None:
        self.step_ms = step_ms
        add_columns(self, WINDOW_RING_COLUMNS, SAMPLES)
        add_columns(self, WINDOW_COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, WINDOW_RING_COLUMNS, rows)
        grow_columns(self, WINDOW_COLUMNS, rows)

    def add(self, rows: "Ints", offset: "Ints", at_ms: "Ints", lag: "Ints") -> None:
        """Take one commit of each row (each row once); `lag` is UNKNOWN_LAG where no end was known."""
        import numpy as np

        head, count = self.head[rows], self.count[rows]
        is_soon = (count > 0) & (at_ms // self.step_ms <= self.at_ms[rows, head] // self.step_ms)
        head = np.where(is_soon | (count == 0), head, (head + 1) % SAMPLES)
        self.at_ms[rows, head] = np.where(is_soon, self.at_ms[rows, head], at_ms)
        self.offset[rows, head] = offset
        self.lag[rows, head] = lag
        self.head[rows] = head
        self.count[rows] = np.where(is_soon, count, np.minimum(count + 1, SAMPLES))

    def add_all(self, rows: "Ints", offset: "Ints", at_ms: "Ints", lag: "Ints") -> None:
        """Take commits of which a row may have several, in the order of the log. One round for each of a row's."""
        import numpy as np

        order = np.argsort(rows, kind="stable")
        places = np.arange(len(rows))
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = np.diff(rows[order]) != 0
        turn = places - np.maximum.accumulate(np.where(begins, places, 0))
        for number in range(int(turn.max(initial=-1)) + 1):
            pick = order[turn == number]
            self.add(rows[pick], offset[pick], at_ms[pick], lag[pick])

    def clear(self, rows: "Ints") -> None:
        """Forget what these rows held."""
        self.count[rows] = 0
        self.head[rows] = 0

    def saved(self, rows: "Ints") -> "dict[str, NDArray[Any]]":
        """Copies of all columns of these rows by name; places without a sample hold 0."""
        import numpy as np

        age = (self.head[rows, None] - np.arange(SAMPLES)) % SAMPLES
        is_sample = age < self.count[rows, None]
        found = {name: np.where(is_sample, getattr(self, name)[rows], 0) for name in WINDOW_RING_COLUMNS}
        return {**found, "count": self.count[rows], "head": self.head[rows]}

    def length_ms(self, rows: "Ints") -> "Ints":
        """How long the window of each row is: from its first commit to its last one, and nine steps at least."""
        import numpy as np

        span: Ints = self.at_ms[rows, self.head[rows]] - self._first_ms(rows)
        return np.maximum(np.where(self.count[rows] > 0, span, 0), self.step_ms * (SAMPLES - 1))

    def ordered(self, rows: "Ints") -> "tuple[Ints, Ints, Ints, Ints]":
        """Offsets, commit times and lags of the rows with the oldest first, and how many samples each row has.

        Shape (rows, 10); the valid samples of a row stand at its end.
        """
        import numpy as np

        columns = (self.head[rows, None].astype(np.int64) + 1 + np.arange(SAMPLES)) % SAMPLES
        pick = rows[:, None]
        return (
            self.offset[pick, columns],
            self.at_ms[pick, columns],
            self.lag[pick, columns],
            self.count[rows].astype(np.int64),
        )

    def is_full(self, rows: "Ints") -> "Bools":
        """True where the samples of a row go over ten stretches or more: fewer prove little."""
        stretches = self.at_ms[rows, self.head[rows]] // self.step_ms - self._first_ms(rows) // self.step_ms
        found: Bools = (self.count[rows] > 1) & (stretches >= SAMPLES - 1)
        return found

    def _first_ms(self, rows: "Ints") -> "Ints":
        """The time of each row's oldest sample."""
        found: Ints = self.at_ms[rows, (self.head[rows].astype("int64") + 1 - self.count[rows]) % SAMPLES]
        return found
