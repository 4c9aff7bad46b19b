"""Time lag as a value: an estimate inside an interval, where it comes from, and the moment it was true at; and as
text."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.core.quantities import format_rough_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

NOT_KNOWN = "?"

UNBOUNDED = (1 << 63) - 1
"""A high bound that is none, in arrays."""

UNESTIMATED = -1
"""An estimate that is none, in arrays."""


class EstimateSource(IntEnum):
    """What the estimate comes from, best first."""

    CAUGHT_UP = 0
    WATERMARK = 1
    RECORD = 2
    STREAM_TIME = 3
    INTERPOLATED = 4
    BOUNDS = 5
    UNKNOWN = 6

    @property
    def word(self) -> str:
        """The name as outputs and labels write it."""
        return self.name.lower()


class FigureFlag(IntFlag):
    """What else is true of a figure.

    FUTURE: a record's time lies ahead of the monitor's clock, the lag was set to 0. CONFLICT: proven sources
    contradict each other (clocks differ by more than was allowed), the best one alone was used. HELD_BACK: an open
    transaction holds the partition's stable end back. LOST: records were deleted before the group did them, lag
    counts from the log's start. AHEAD: committed beyond the end of the log. OTHER_TOPIC: the commit is, or may be, of
    an earlier topic of the name. NO_END: the end was never seen. STALE: the facts are older than is allowed.
    """

    FUTURE = 1
    CONFLICT = 2
    HELD_BACK = 4
    LOST = 8
    AHEAD = 16
    OTHER_TOPIC = 32
    NO_END = 64
    STALE = 128

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the flags that are set, as outputs write them, sorted."""
        return tuple(sorted(str(flag.name).lower() for flag in self))


NO_FLAGS = FigureFlag(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLag:
    """The lag at `as_of_ms`, by the monitor's clock: surely at least `low_ms` and, where known, at most `high_ms`.

    Of a commit that was seen later than that, it is the lag at a moment between the two. `estimate_ms` lies inside,
    None where nothing is known.
    """

    estimate_ms: int | None
    low_ms: int
    high_ms: int | None
    source: EstimateSource
    as_of_ms: int
    flags: FigureFlag = NO_FLAGS

    @property
    def is_exact(self) -> bool:
        """True when the interval is one point."""
        return self.low_ms == self.high_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Columns):
    """Many `TimeLag`s as columns of one length; `high_ms` is UNBOUNDED and `estimate_ms` UNESTIMATED for none."""

    estimate_ms: "Ints"
    low_ms: "Ints"
    high_ms: "Ints"
    source: "Ints"
    as_of_ms: "Ints"
    flags: "Ints"

    def __len__(self) -> int:
        return len(self.low_ms)

    def at(self, row: int) -> TimeLag:
        """One row as a value."""
        estimate, high = int(self.estimate_ms[row]), int(self.high_ms[row])
        return TimeLag(
            estimate_ms=None if estimate == UNESTIMATED else estimate,
            low_ms=int(self.low_ms[row]),
            high_ms=None if high == UNBOUNDED else high,
            source=EstimateSource(int(self.source[row])),
            as_of_ms=int(self.as_of_ms[row]),
            flags=FigureFlag(int(self.flags[row])),
        )


def span_text(ms: int | None) -> str:
    """A time lag for people: `480ms`, `12.4s`, `3m 20s`; `?` for none."""
    if ms is None:
        return NOT_KNOWN
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    return f"{ms / 1000:.1f}s" if ms < 60_000 else format_rough_time(ms / 1000)


def range_text(lag: TimeLag) -> str:
    """The interval that holds the truth; one point is `exact`."""
    if lag.is_exact:
        return "exact"
    return f"[{span_text(lag.low_ms)}, {span_text(lag.high_ms)}]"
