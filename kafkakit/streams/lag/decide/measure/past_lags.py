"""The lag of commits that were made before the monitor began, once the ends of the logs are known.

Commits that were read from the past came before any end was known, and a lag that is not known counts as none: a group
that died before the monitor began would count as healthy from then on. So the lag of such commits is set by the first
ends that are seen. That is at least what it was, so it is used only where Burrow's rules can be applied: with two
commits, or one that is old.
"""

from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.window import UNKNOWN_LAG

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.measure.book import LagBook

OLD_MS = 600_000


def set_past_lags(book: "LagBook", now_ms: int) -> int:
    """Set the lags of commits without one, where the log's end is known; returns how many. O(rows)."""
    import numpy as np

    window, rows = book.window, book.rows()
    rows = rows[book.slot[rows] >= 0]
    if not len(rows) or not len(book.ends.end):
        return 0
    end = book.ends.end[book.slot[rows]]
    is_usable = (end >= 0) & ((window.count[rows] >= 2) | (now_ms - book.committed_ms[rows] >= OLD_MS))
    rows, end = rows[is_usable], end[is_usable]
    lags, offsets = window.lag[rows], window.offset[rows]
    unknown = lags == UNKNOWN_LAG
    window.lag[rows] = np.where(unknown, np.maximum(0, end[:, None] - offsets), lags)
    return int(np.count_nonzero(unknown))
