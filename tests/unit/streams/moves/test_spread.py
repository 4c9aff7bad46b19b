"""Streams spread over clusters: against every assignment there is, the bound, few moves, and loads from readings."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.streams.moves.decide import (
    HOUR_MS,
    PPM,
    LoadUnit,
    MovePace,
    SpreadItem,
    SpreadProblem,
    TopicReading,
    load_of,
    loads_of,
    most_in_an_hour,
    spread_streams,
)


def largest(problem: SpreadProblem, at: tuple[int, ...]) -> float:
    loads = loads_of(problem, at)
    return max(load * PPM / capacity for load, capacity in zip(loads, problem.capacities, strict=True))


def moved(problem: SpreadProblem, at: tuple[int, ...]) -> int:
    return sum(i.load for i, c in zip(problem.items, at, strict=True) if i.home is not None and c != i.home)


@st.composite
def problems(draw: st.DrawFn) -> SpreadProblem:
    clusters = draw(st.integers(1, 3))
    homes = st.none() | st.integers(0, clusters - 1)
    items = draw(st.lists(st.builds(SpreadItem, load=st.integers(0, 1000), home=homes), max_size=5))
    numbers = st.integers(1, 2000)
    return SpreadProblem(
        items=tuple(items),
        capacities=tuple(draw(st.lists(numbers, min_size=clusters, max_size=clusters))),
        fixed=tuple(draw(st.lists(st.integers(0, 500), min_size=clusters, max_size=clusters))),
    )


@given(problem=problems(), within=st.sampled_from([0, 50_000, 300_000]))
@settings(max_examples=60, deadline=None)
def test_no_assignment_is_better_and_the_bound_holds(problem: SpreadProblem, within: int) -> None:
    answer = spread_streams(problem, within)
    slack = len(problem.items) + 2
    every = list(product(range(len(problem.capacities)), repeat=len(problem.items)))
    best = min(largest(problem, at) for at in every)
    assert answer.bound_ppm <= best + slack
    assert answer.largest_ppm <= best * (PPM + within) / PPM + slack
    assert answer.largest_ppm == pytest.approx(largest(problem, answer.at), abs=1)
    # Nothing that is at least as even moves less.
    alike = [moved(problem, at) for at in every if largest(problem, at) <= largest(problem, answer.at) - slack]
    assert moved(problem, answer.at) <= min(alike, default=1 << 40) or within == 0


def test_what_is_even_already_does_not_move() -> None:
    items = tuple(SpreadItem(load=10, home=number % 2) for number in range(10))
    answer = spread_streams(SpreadProblem(items=items, capacities=(100, 100), fixed=(0, 0)), 50_000)
    assert [item.home for item in items] == list(answer.at)
    assert (answer.largest_ppm, answer.is_proven) == (PPM // 2, True)


def test_what_carries_nothing_stays() -> None:
    items = (*(SpreadItem(load=0, home=1) for _ in range(3)), *(SpreadItem(load=70, home=0) for _ in range(2)))
    answer = spread_streams(SpreadProblem(items=items, capacities=(1000, 1000), fixed=(0, 0)))
    assert (answer.at[:3], sorted(answer.at[3:])) == ((1, 1, 1), [0, 1])


def test_within_a_share_of_the_best_less_is_moved() -> None:
    items = (*(SpreadItem(load=10, home=0) for _ in range(11)), *(SpreadItem(load=10, home=1) for _ in range(9)))
    problem = SpreadProblem(items=items, capacities=(1000, 1000), fixed=(0, 0))
    assert moved(problem, spread_streams(problem).at) == 10
    assert moved(problem, spread_streams(problem, 100_000).at) == 0


def test_capacities_count() -> None:
    items = tuple(SpreadItem(load=10) for _ in range(9))
    answer = spread_streams(SpreadProblem(items=items, capacities=(100, 200), fixed=(0, 0)))
    assert sorted(answer.at) == [0] * 3 + [1] * 6


def test_a_large_problem_is_spread_without_the_solver_and_says_how_good_that_is() -> None:
    items = tuple(SpreadItem(load=1 + number % 97, home=0) for number in range(2100))
    answer = spread_streams(SpreadProblem(items=items, capacities=(10**6,) * 10, fixed=(0,) * 10), 50_000)
    assert answer.bound_ppm <= answer.largest_ppm <= answer.bound_ppm * 1.05 + 1


@pytest.mark.parametrize(
    ("before", "after", "size", "unit", "load"),
    [
        (100, 300, 60_000, LoadUnit.RECORDS, 20),
        (100, 300, 60_000, LoadUnit.BYTES, 4000),
        (100, 301, 0, LoadUnit.RECORDS, 21),
        (300, 100, 60_000, LoadUnit.BYTES, 0),
        (0, 0, 0, LoadUnit.BYTES, 0),
    ],
)
def test_a_load_is_what_came_in_the_window(before: int, after: int, size: int, unit: LoadUnit, load: int) -> None:
    reading = TopicReading(before=before, after=after, seconds=10.0, starts=0, size_bytes=size)
    assert load_of(reading, unit) == load


@given(
    gaps=st.lists(st.integers(0, HOUR_MS), max_size=30),
    per_hour=st.integers(1, 5),
)
@settings(max_examples=80, deadline=None)
def test_no_hour_has_more_begins_than_allowed(gaps: list[int], per_hour: int) -> None:
    pace, now_ms, begins = MovePace(at_once=1, per_hour=per_hour), 0, list[int]()
    for gap in gaps:
        now_ms += gap
        wait_ms = pace.wait_ms(begins, now_ms)
        assert 0 <= wait_ms <= HOUR_MS
        now_ms += wait_ms
        assert pace.wait_ms(begins, now_ms) == 0
        begins.append(now_ms)
    assert most_in_an_hour(begins) <= per_hour
