"""The degree distribution against counting with sets, on random maps and beyond the size of the pair table."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

import pytest

from kafkakit.core import placement_statistics as statistics
from kafkakit.core.placement_statistics import degree_of


def by_sets(rows: Sequence[Sequence[int]]) -> tuple[int, int, float]:
    partners: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        for broker in row:
            partners[broker].update(row)
    degrees = [len(others) - 1 for others in partners.values()]
    return (min(degrees), max(degrees), sum(degrees) / len(degrees)) if degrees else (0, 0, 0.0)


@pytest.mark.parametrize("table", [8192, 0])
@pytest.mark.parametrize("at_once", [1, 40, 1000])
def test_degrees_are_those_that_sets_count(table: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_MOST_MARKED", table)
    monkeypatch.setattr(statistics, "_PAIRS_AT_ONCE", at_once)
    draw = Random(7)
    ids = range(0, 2**31, 2**27)
    for _ in range(60):
        rows = [draw.sample(ids, draw.randint(0, 4)) for _ in range(draw.randint(0, 8))]
        found = degree_of(rows)
        assert (found.low, found.high, found.average) == by_sets(rows)


def test_a_very_long_list_is_no_trouble() -> None:
    assert str(degree_of([range(1000)])) == "999/999/999.00"
