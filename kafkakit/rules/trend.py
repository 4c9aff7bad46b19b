"""Trends that a few odd days do not bend: Theil-Sen over daily maxima, with the week as season."""

from collections.abc import Iterable, Sequence
from itertools import combinations

WEEK = 7
LEAST_DAYS = WEEK
_TWO_WEEKS = 2 * WEEK


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle; `ValueError` for none."""
    # The module statistics loads fractions, decimal and random, which lint of one file has no time for.
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def daily_slope(values: Sequence[float]) -> float:
    """The growth a day of daily values, oldest first: the median of the slopes of all pairs.

    With two weeks and more only days of the same weekday are paired, so that quiet weekends do not count as decline.
    Quadratic in the number of days. `ValueError` for fewer than two.
    """
    pairs = combinations(range(len(values)), 2)
    seasonal = len(values) >= _TWO_WEEKS
    return median((values[j] - values[i]) / (j - i) for i, j in pairs if not seasonal or (j - i) % WEEK == 0)


def days_until(values: Sequence[float], limit: float) -> float | None:
    """In how many days the trend of daily values reaches a limit: 0 when it has, None when it never does.

    The trend goes through the median of the values less their growth; the highest day of a week counts, so the most
    that one of the last seven days lies above the trend is added.
    """
    slope = daily_slope(values)
    last = len(values) - 1
    base = median(value - slope * day for day, value in enumerate(values))
    above = max(0.0, *(values[day] - base - slope * day for day in range(max(0, last - WEEK + 1), last + 1)))
    level = base + slope * last + above
    if level >= limit:
        return 0.0
    return (limit - level) / slope if slope > 0 else None
