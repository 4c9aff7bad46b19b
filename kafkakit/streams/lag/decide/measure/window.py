"""The last commits of every group-partition, for Burrow's rules: a ring of samples on arrays."""

from typing import TYPE_CHECKING, Any

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

SAMPLES = 10
UNKNOWN_LAG = -1
RING_COLUMNS: Columns = {"offset": ("i8", None), "at_ms": ("i8", None), "lag": ("i8", None)}
COLUMNS: Columns = {"count": ("i1", 0), "head": ("i1", 0)}


class CommitWindow:
    """Ten samples a row of (offset, commit time, lag), at most one a `step_ms`; 241 bytes a row.

    A commit that comes sooner than a step after its predecessor replaces that one's offset and lag and keeps its
    time, else a group that commits often would never fill its window (Burrow's `min-distance`).
    """

    offset: "Ints"
    at_ms: "Ints"
    lag: "Ints"
    count: "NDArray[np.int8]"
    head: "NDArray[np.int8]"

    def __init__(self, step_ms: int) -> None:
        self.step_ms = step_ms
        add_columns(self, RING_COLUMNS, SAMPLES)
        add_columns(self, COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, RING_COLUMNS, rows)
        grow_columns(self, COLUMNS, rows)

    def add(self, rows: "Ints", offset: "Ints", at_ms: "Ints", lag: "Ints") -> None:
        """Take one commit of each row (each row once); `lag` is UNKNOWN_LAG where no end was known."""
        import numpy as np

        head, count = self.head[rows], self.count[rows]
        is_soon = (count > 0) & (at_ms - self.at_ms[rows, head] < self.step_ms)
        head = np.where(is_soon | (count == 0), head, (head + 1) % SAMPLES)
        self.at_ms[rows, head] = np.where(is_soon, self.at_ms[rows, head], at_ms)
        self.offset[rows, head] = offset
        self.lag[rows, head] = lag
        self.head[rows] = head
        self.count[rows] = np.where(is_soon, count, np.minimum(count + 1, SAMPLES))

    def clear(self, rows: "Ints") -> None:
        """Forget what these rows held."""
        self.count[rows] = 0
        self.head[rows] = 0

    def saved(self, rows: "Ints") -> "dict[str, NDArray[Any]]":
        """Copies of all columns of these rows by name; places without a sample hold 0."""
        import numpy as np

        age = (self.head[rows, None] - np.arange(SAMPLES)) % SAMPLES
        is_sample = age < self.count[rows, None]
        found = {name: np.where(is_sample, getattr(self, name)[rows], 0) for name in RING_COLUMNS}
        return {**found, "count": self.count[rows], "head": self.head[rows]}

    def length_ms(self, rows: "Ints") -> "Ints":
        """How long the window of each row is: from its first commit to its last one, and nine steps at least."""
        import numpy as np

        first = (self.head[rows].astype(np.int64) + 1 - self.count[rows]) % SAMPLES
        span: Ints = self.at_ms[rows, self.head[rows]] - self.at_ms[rows, first]
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
