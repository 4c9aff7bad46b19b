"""Trends that a few odd days do not bend: Theil-Sen over daily maxima, with the week as season."""

from collections.abc import Iterable, Sequence
from itertools import combinations

WEEK = 7
LEAST_DAYS = WEEK
TWO_WEEKS = 2 * WEEK


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle; `ValueError` for none."""
    # The module statistics loads fractions, decimal and random, which lint of one file has no time for.
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def daily_slope(values: Sequence[float | None]) -> float:
    """The growth a day of daily values, oldest first: the median of the slopes of all pairs.

    With two weeks and more only days of the same weekday are paired, so that quiet weekends do not count as decline.
    Days without a value (None) count as days only. Quadratic in the number of days. `ValueError` where no two days
    can be paired.
    """
    seen = [(day, value) for day, value in enumerate(values) if value is not None]
    seasonal = len(values) >= TWO_WEEKS
    pairs = ((one, other) for one, other in combinations(seen, 2) if not seasonal or (other[0] - one[0]) % WEEK == 0)
    return median((later - earlier) / (j - i) for (i, earlier), (j, later) in pairs)


def days_until(values: Sequence[float | None], limit: float) -> float | None:
    """In how many days the trend of daily values reaches a limit: 0 when it has, None when it never does.

    The trend goes through the median of the values less their growth; the highest day of a week counts, so the most
    that one of the last seven days lies above the trend is added.
    """
    slope = daily_slope(values)
    last = len(values) - 1
    rest = [(day, value - slope * day) for day, value in enumerate(values) if value is not None]
    base = median(value for _, value in rest)
    above = max(0.0, *(value - base for day, value in rest if day > last - WEEK))
    level = base + slope * last + above
    if level >= limit:
        return 0.0
    return (limit - level) / slope if slope > 0 else None
