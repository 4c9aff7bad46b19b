"""Trends of many log dirs at once: `kafkakit.rules.cluster_facts` over the rows of a matrix, with an interval."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.rules.cluster_facts import TWO_WEEKS, WEEK

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """For each row: growth a day (the median of the pairs' slopes, and of these 10th and 90th percentile), last level.

    The level is that of the trend on the last day, with the most that one of the last seven days lies above it.
    """

    slope: Numbers
    slope_low: Numbers
    slope_high: Numbers
    level: Numbers

    def days_until(self, limit: Numbers, slope: Numbers) -> Numbers:
        """In how many days a limit is reached with some slope: 0 where it is, NaN where it never is."""
        with np.errstate(divide="ignore", invalid="ignore"):
            days = np.where(slope > 0, (limit - self.level) / slope, np.nan)
        return np.where(self.level >= limit, 0.0, days)


def trends(values: Numbers) -> Trends:
    """Trends of daily values, one series a row.

    Args:
        values: (series, days); the last day of each series stands in the last column, days that were not seen are NaN.

    Rows with fewer than two days are NaN. Quadratic in the days, with two weeks and more a seventh of that, as only
    days of one weekday are paired.
    """
    columns = values.shape[1]
    spans = columns - np.argmax(~np.isnan(values), axis=1)
    low, middle, high = (np.full(len(values), np.nan) for _ in range(3))
    for is_long in (False, True):
        rows = np.flatnonzero((spans >= TWO_WEEKS) == is_long)
        if rows.size == 0:
            continue
        first = 0 if is_long else max(columns - TWO_WEEKS, 0)
        i, j = np.triu_indices(columns - first, 1)
        kept = (j - i) % WEEK == 0 if is_long else np.ones(len(i), dtype=bool)
        i, j = i[kept] + first, j[kept] + first
        slopes = np.sort((values[rows][:, j] - values[rows][:, i]) / (j - i), axis=1)
        low[rows], middle[rows], high[rows] = (_quantile(slopes, q) for q in (0.1, 0.5, 0.9))
    days = np.arange(columns, dtype=np.float64) - (columns - 1)
    rest = values - middle[:, None] * days
    base = _quantile(np.sort(rest, axis=1), 0.5)
    last = rest[:, -WEEK:] - base[:, None]
    above = np.max(np.where(np.isnan(last), 0.0, last), axis=1, initial=0.0)
    return Trends(slope=middle, slope_low=low, slope_high=high, level=base + above)


def _quantile(ordered: Numbers, share: float) -> Numbers:
    """A quantile of each row by linear interpolation; NaN stand at the end of rows and do not count."""
    counts = np.count_nonzero(~np.isnan(ordered), axis=1)
    if ordered.shape[1] == 0:
        return np.full(len(ordered), np.nan)
    at = share * np.maximum(counts - 1, 0)
    below = np.floor(at).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(counts - 1, 0))
    rows = np.arange(len(ordered))
    part = at - below
    found: Numbers = ordered[rows, below] * (1 - part) + ordered[rows, above] * part
    return found
