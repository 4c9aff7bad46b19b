"""How fast a partition is produced and consumed, when the group will have caught up, and when it will lose records.

Rates are measured: consumption over the commits of Burrow's window, production over end samples of about the last ten
minutes. Nothing is extrapolated further than that present rates continue.

Records are lost when the log's start passes the first offset that is not done. Two facts bound or foretell that:

* retention.ms: brokers delete a segment once its newest record is older than that, so no record goes before its own
  time plus the retention. What is left is at least retention.ms minus the record's age; segments make it longer.
* the movement of the log's start, whatever moves it (time, size, DeleteRecords): at its pace over the last ten to
  twenty minutes, a guess.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kafkakit.core.columns import Columns
from kafkakit.streams.lag.decide.measure.figures import UNBOUNDED, UNESTIMATED, Figures
from kafkakit.streams.lag.decide.measure.status import silent
from kafkakit.streams.lag.decide.measure.topics import NONE
from kafkakit.streams.lag.decide.measure.window import SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.streams.lag.decide.measure.book import LagBook
    from kafkakit.streams.lag.decide.measure.evidence import Evidence

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

HORIZON_MS = 600_000


class RetentionBasis(IntEnum):
    """What the time left until records are lost rests on."""

    NONE = 0
    RETENTION_TIME = 1
    START_MOVEMENT = 2

    @property
    def word(self) -> str:
        """The name as outputs write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Columns):
    """Columns of one length; rates are records/s and NaN for unknown, times are ms and -1 for never or unknown.

    `eta_ms` is how long until nothing is left to do (0: nothing is), -1 when the group does not gain on the producers
    or the rates are unknown. `retention_left_ms` is the likely time until records are lost, `retention_low_ms` the
    time for which they surely stay (0 when that is not known), `retention_basis` a `RetentionBasis`.
    """

    consumed_per_s: "Floats"
    produced_per_s: "Floats"
    eta_ms: "Ints"
    retention_left_ms: "Ints"
    retention_low_ms: "Ints"
    retention_basis: "Ints"


def forecast(
    book: "LagBook", rows: "Ints", evidence: "Evidence", lag: "Ints", backlog: Figures, now_ms: int
) -> Forecast:
    """Forecasts for rows of the book, from what was measured for them; O(rows)."""
    import numpy as np

    consumed, produced = consumption(book, rows, now_ms), production(book, rows, evidence)
    gain = consumed - produced
    gains = (lag > 0) & (gain > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        eta = np.where(gains, np.minimum(lag / np.where(gains, gain, 1.0) * 1000.0, 1e15), -1.0)
    eta_ms = np.where(lag == 0, 0, np.ceil(eta).astype(np.int64))
    left, low, basis = _retention(book, rows, evidence, lag, backlog)
    return Forecast(
        consumed_per_s=consumed,
        produced_per_s=produced,
        eta_ms=eta_ms,
        retention_left_ms=left,
        retention_low_ms=low,
        retention_basis=basis,
    )


def consumption(book: "LagBook", rows: "Ints", now_ms: int) -> "Floats":
    """Records/s between the first and the last commit of the window.

    NaN with fewer than two moments, after a rewind, and once the group has been silent for longer than its window.
    """
    import numpy as np

    offset, at_ms, _, count = book.window.ordered(rows)
    first = np.minimum(SAMPLES - count, SAMPLES - 1)
    row = np.arange(len(rows))
    span_ms = at_ms[:, -1] - at_ms[row, first]
    step = offset[:, -1] - offset[row, first]
    known = (count >= 2) & (span_ms > 0) & (step >= 0) & ~silent(book.window, rows, book.committed_ms[rows], now_ms)
    return np.where(known, step * 1000.0 / np.maximum(1, span_ms), np.nan)


def production(book: "LagBook", rows: "Ints", evidence: "Evidence") -> "Floats":
    """Records/s over the end samples of the last `HORIZON_MS`, or since the first one after; NaN with one sample."""
    import numpy as np

    has_slot = book.slot[rows] >= 0
    slots = np.where(has_slot, book.slot[rows], 0)
    then_end, then_ms = book.ends.sample_since(slots, evidence.after_ms - HORIZON_MS)
    span_ms = evidence.after_ms - then_ms
    known = has_slot & (evidence.end >= 0) & (then_ms >= 0) & (span_ms > 0)
    return np.where(known, (evidence.end - then_end) * 1000.0 / np.maximum(1, span_ms), np.nan)


def _retention(
    book: "LagBook", rows: "Ints", evidence: "Evidence", lag: "Ints", backlog: Figures
) -> "tuple[Ints, Ints, Ints]":
    """Likely and sure time left, and the basis; nothing is at risk where there is no lag."""
    import numpy as np

    e = evidence
    has_slot = book.slot[rows] >= 0
    slots = np.where(has_slot, book.slot[rows], 0)
    at_risk = has_slot & (lag > 0)
    retention = book.ends.topics.retention_ms(slots)
    limited = at_risk & (retention >= 0)
    by_time = np.maximum(0, retention - np.where(backlog.estimate_ms == UNESTIMATED, 0, backlog.estimate_ms))
    by_time = np.where(limited & (backlog.estimate_ms != UNESTIMATED), by_time, NONE)
    low = np.where(backlog.high_ms == UNBOUNDED, 0, np.maximum(0, retention - backlog.high_ms))
    moved, span_ms = book.ends.start_movement(slots)
    moves = at_risk & (moved > 0) & (span_ms > 0)
    pace = np.where(moves, (e.position - e.start) * (span_ms / np.maximum(1, moved)), -1.0)
    by_pace = np.minimum(pace, 1e15).astype(np.int64)
    sooner = moves & ((by_time < 0) | (by_pace < by_time))
    left = np.where(sooner, by_pace, by_time)
    basis = np.where(
        left < 0,
        int(RetentionBasis.NONE),
        np.where(sooner, int(RetentionBasis.START_MOVEMENT), int(RetentionBasis.RETENTION_TIME)),
    )
    return left, np.where(limited, low, 0), basis
