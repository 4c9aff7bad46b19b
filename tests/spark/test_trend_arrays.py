"""Trends and outliers of arrays against plain Python over one series after another; no Spark."""

import random
import statistics

import numpy as np
import pytest

from kafkakit.rules.audits.capacity import NORMAL_MAD, Peers
from kafkakit.rules.cluster_facts import daily_slope, days_until


def test_trends_are_those_of_the_rules() -> None:
    from kafkakit_spark.jobs.capacity import trends

    rng = random.Random(5)
    series: list[list[float | None]] = []
    for number in range(300):
        length, slope = rng.randint(1, 90), rng.choice((-3.0, 0.0, 2.0, 50.0))
        values: list[float | None] = [
            None if rng.random() < (number % 3) * 0.2 else 1000 + slope * day + rng.choice((0, 0, 20, -5, 400))
            for day in range(length)
        ]
        values[0], values[-1] = 1000.0, 1000.0 + slope * length
        series.append(values)
    matrix = np.full((len(series), 90), np.nan)
    for row, values in enumerate(series):
        matrix[row, 90 - len(values) :] = [np.nan if value is None else value for value in values]
    found = trends(matrix)
    until = found.days_until(np.full(len(series), 2000.0), found.slope)
    judged = 0
    for row, values in enumerate(series):
        try:
            slope = daily_slope(values)
        except ValueError:
            assert np.isnan(found.slope[row])
            continue
        judged += 1
        assert found.slope[row] == pytest.approx(slope)
        assert found.slope_low[row] <= found.slope[row] <= found.slope_high[row]
        days = days_until(values, 2000.0)
        assert (None if np.isnan(until[row]) else until[row]) == (None if days is None else pytest.approx(days)), row
    assert judged > 250


def test_the_interval_is_that_of_the_slopes_of_pairs() -> None:
    from kafkakit_spark.jobs.capacity import trends

    found = trends(np.array([[np.nan] * 80 + [0.0, 10, 20, 30, 40, 50, 60, 70, 80, 1000]]))
    slopes = sorted([10.0] * 36 + [(1000 - 10 * i) / (9 - i) for i in range(9)])
    assert (found.slope[0], found.slope_low[0]) == (10.0, 10.0)
    assert found.slope_high[0] == pytest.approx(float(np.quantile(slopes, 0.9)))


def test_outliers_are_those_of_each_cell_by_itself() -> None:
    from kafkakit_spark.jobs.hotspots import outliers

    rng, peers = random.Random(9), Peers(least=4, floor=50.0, factor=2.0, deviations=3.0)
    cells = [rng.randrange(40) for _ in range(300)]
    values = [rng.choice((float("nan"), 0.0, 40.0, 49.0, 60.0, 61.0, 65.0, 130.0, 900.0)) for _ in cells]
    found = outliers(np.array(cells), np.array(values), peers)
    hot = 0
    for place, (cell, value) in enumerate(zip(cells, values, strict=True)):
        known = [v for c, v in zip(cells, values, strict=True) if c == cell and v == v]
        expected = False
        if value == value:
            median = statistics.median(known)
            mad = statistics.median(abs(v - median) for v in known)
            far = value > 2.0 * median and value > median + 3.0 * NORMAL_MAD * mad
            expected = len(known) >= 4 and value >= 50.0 and far
            assert found.median[place] == median
        assert bool(found.is_hot[place]) == expected
        hot += expected
    assert hot > 10
    empty = outliers(np.array([], dtype=np.int64), np.array([]), peers)
    assert empty.is_hot.size == 0
