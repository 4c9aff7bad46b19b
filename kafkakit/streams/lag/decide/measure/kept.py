"""The last bounded figure of each row, for the moments at which its position has moved on and no record was read yet.

A group that commits every second stands at another record at each look, and the time of that one is not known before it
was read: two looks of three had no upper bound. What was proven some seconds ago still is, of that moment.
"""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import Columns, add_columns, grow_columns
from kafkakit.streams.lag.decide.measure.figures import UNBOUNDED, EstimateSource, FigureFlag, Figures
from kafkakit.streams.lag.decide.measure.topics import NONE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

KEPT_MS = 10_000
"""Nothing older takes the place of a figure of now."""
COLUMNS: Columns = {
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
        add_columns(self, COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, COLUMNS, rows)

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

    def instead(self, rows: "Ints", figures: Figures, generation: "Ints", now_ms: int) -> Figures:
        """The figures, with what was kept in the place of those without a bound, where it is not too old, and of those
        whose interval is wider than the kept one and its age together.

        A group that seems to have caught up is not given an older figure.
        """
        import numpy as np

        takes = self._is_better(rows, figures, generation) & ((figures.flags & int(_ELSE)) == 0)
        takes &= figures.source != int(EstimateSource.CAUGHT_UP)
        takes &= self.as_of_ms[rows] >= now_ms - KEPT_MS
        return replace(
            figures, **{name: np.where(takes, getattr(self, name)[rows], getattr(figures, name)) for name in _NAMES}
        )

    def _is_better(self, rows: "Ints", figures: Figures, generation: "Ints") -> "Bools":
        """Where what is kept is of the same log, and narrower even with its age added."""
        width, age = self.high_ms[rows] - self.low_ms[rows], figures.as_of_ms - self.as_of_ms[rows]
        is_kept = (self.as_of_ms[rows] >= 0) & (self._generation[rows] == generation)
        found: Bools = is_kept & (figures.high_ms - figures.low_ms > width + age)
        return found
