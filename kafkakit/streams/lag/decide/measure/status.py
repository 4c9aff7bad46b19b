"""The health of a group-partition by Burrow's rules, on arrays.

Burrow's documentation ("Consumer Lag Evaluation Rules") states, for the window of the last ten commits of a
partition, each with its offset, its time and the lag when it was seen:

1. If any lag in the window is zero, the status is OK.
2. If the offset does not change over the window and the lag is fixed or increasing, the consumer is in error, and the
   partition STALLED.
3. If offsets increase over the window, but the lag stays the same or increases between every pair of commits, the
   consumer is slow: WARNING.
4. If the time since the last commit is greater than the time between the first and the last commit of the window, the
   consumer is in error, and the partition STOPPED; but not when the offset is that of the broker, so that there is
   nothing to do.
5. Lag that is unknown counts as no lag. Not so here: after a restart it is unknown for all commits of the past, and a
   group that died before would stay OK without an end. It is only that growth to and from an unknown lag is not judged.

Its program adds REWIND, when an offset is lower than the one before it. Its newer versions judge STOPPED first, and 1
after it: a group that was caught up and then died had no lag in its window. So do we: no lag now is OK, then come
STOPPED, 1, REWIND, STALLED, WARNING. Silence counts from when there surely was something to do: many clients commit
nothing while nothing comes. A lag of no more than the markers of transactions at the log's end is none.

Two or three commits in a row prove little: a window that is shorter than nine steps counts
as that long in rule 4, and is not judged by rules 2 and 3. Added are LOST (records were deleted before the group did
them), and UNKNOWN (no end of the log, one below the commit, or figures too old to judge by, which comes before LOST),
which never passes for OK.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.figures import FigureFlag
from kafkakit.streams.lag.decide.measure.window import SAMPLES, UNKNOWN_LAG

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.window import CommitWindow

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class LagStatus(IntEnum):
    """Health, the worse the higher."""

    OK = 0
    UNKNOWN = 1
    WARNING = 2
    STALLED = 3
    STOPPED = 4
    REWIND = 5
    LOST = 6

    @property
    def word(self) -> str:
        """The name as outputs and labels write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What is known of each row now, beside its commits; columns of one length.

    `lag` is up to the end that the group can reach, `lost` as in `LagTable`, `flags` those of its figures. `since_ms`
    is the last commit, or the moment from which on there surely was something to do if that was later. `tail`: see
    `EndSamples`.
    """

    lag: "Ints"
    lost: "Ints"
    flags: "Ints"
    since_ms: "Ints"
    tail: "Ints"


def silent(window: "CommitWindow", rows: "Ints", since_ms: "Ints", now_ms: int) -> "Bools":
    """True where more time has passed since then than the group's window is long."""
    found: Bools = now_ms - since_ms > window.length_ms(rows)
    return found


def judge(window: "CommitWindow", rows: "Ints", present: Present, *, now_ms: int) -> "Ints":
    """The `LagStatus` of each row. O(rows)."""
    import numpy as np

    offset, at_ms, lags, count = window.ordered(rows)
    first = SAMPLES - count
    pairs = np.arange(1, SAMPLES) > first[:, None]
    is_sample = np.arange(SAMPLES) >= first[:, None]
    step, growth = np.diff(offset, axis=1), np.diff(lags, axis=1)
    had_none = (is_sample & (lags != UNKNOWN_LAG) & (lags <= present.tail[:, None])).any(axis=1)
    has_lag = (present.lag > 0) & (count > 0)
    rewound = (pairs & (step < 0)).any(axis=1)
    is_fixed = ~(pairs & (step != 0)).any(axis=1)
    is_known = (lags[:, 1:] != UNKNOWN_LAG) & (lags[:, :-1] != UNKNOWN_LAG)
    span_ms = at_ms[:, -1] - at_ms[np.arange(len(rows)), np.minimum(first, SAMPLES - 1)]
    never_less = (count > 1) & (span_ms >= window.step_ms * (SAMPLES - 1))
    never_less &= ~(pairs & ((growth < 0) | ~is_known)).any(axis=1)

    def has(flags: FigureFlag) -> "Bools":
        found: Bools = (present.flags & int(flags)) != 0
        return found

    rules = [
        (has(FigureFlag.STALE), LagStatus.UNKNOWN),
        (present.lost > 0, LagStatus.LOST),
        (has(FigureFlag.NO_END | FigureFlag.OTHER_TOPIC | FigureFlag.AHEAD), LagStatus.UNKNOWN),
        (~has_lag, LagStatus.OK),
        (silent(window, rows, present.since_ms, now_ms), LagStatus.STOPPED),
        (had_none, LagStatus.OK),
        (rewound, LagStatus.REWIND),
        (is_fixed & never_less, LagStatus.STALLED),
        (never_less, LagStatus.WARNING),
    ]
    return np.select([found for found, _ in rules], [int(s) for _, s in rules], int(LagStatus.OK)).astype(np.int64)
