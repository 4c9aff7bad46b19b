"""The degree distribution against counting with sets, on random maps and beyond the size of the pair table."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

import pytest

from kafkakit.core import placement_statistics as statistics
from kafkakit.core.placement_statistics import BrokerStorage, degree_of, placement_stats


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


@pytest.mark.parametrize("spread", [1, 2**21])
def test_loads_are_those_that_are_counted_one_by_one(spread: int) -> None:
    draw = Random(8)
    ids = range(0, 12 * spread, spread)
    for _ in range(60):
        rows = [tuple(draw.sample(ids, draw.randint(0, 4))) for _ in range(draw.randint(0, 8))]
        # Sums of sizes are beyond 64 bits here.
        sizes = [draw.choice([None, 0, draw.randrange(2**63), 2**63 - 1]) for _ in rows]
        named = draw.sample(ids, 3)
        found = placement_stats(rows, sizes, named, {ids[0]: "a"}, {ids[1]: BrokerStorage(used_bytes=7)})
        held = [[(row, size) for row, size in zip(rows, sizes, strict=True) if b in row] for b in ids]
        counted = {
            b: (
                len(has),
                sum(row[0] == b for row, _ in has),
                None if None in known else sum(size or 0 for size in known),
            )
            for b, has in zip(ids, held, strict=True)
            if (known := [size for _, size in has]) or b in named
        }
        assert [b.broker for b in found.brokers] == sorted(counted)
        assert {b.broker: (b.replicas, b.leaders, b.bytes) for b in found.brokers} == counted
        assert {b.broker for b in found.brokers if b.rack == "a"} == {ids[0]} & set(counted)
        assert {b.broker for b in found.brokers if b.used_bytes == 7} == {ids[1]} & set(counted)
        assert found.replicas_min == min(counted[b][0] for b in named)
        assert found.replicas_max == max(counted[b][0] for b in named)
        assert found.leaders_min == min(counted[b][1] for b in named)
        assert found.leaders_max == max(counted[b][1] for b in named)
