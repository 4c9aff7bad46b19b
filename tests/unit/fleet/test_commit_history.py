"""The history of commits and of what was produced, from logs in memory."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.model import TopicPartition
from kafkakit.fleet.decide.columns import MOMENTS, moments, positions_of, produced_columns, resume_points
from kafkakit.streams.lag.api import ResumePoint

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_repeated_ends_are_left_out_but_for_the_first_and_last() -> None:
    looked_up: Sequence[Mapping[TopicPartition, int | None]] = [
        {A: 0, B: 5},
        {A: 0, B: 5},
        {A: 0, B: 5},
        {A: 7, B: 5},
        {A: None, B: None},
    ]
    columns = produced_columns([A, B], (10, 20, 30, 40, 50), looked_up, {A: 9, B: 5})
    rows = list(zip(columns["partition"], columns["at_ms"], columns["offset"], strict=True))
    assert rows == [(0, 10, 0), (0, 30, 0), (0, 40, 7), (0, 50, 9), (1, 10, 5), (1, 50, 5)]


def test_an_unknown_end_gives_no_row() -> None:
    assert list(produced_columns([A], (10,), [{}], {})["offset"]) == []


@settings(max_examples=30)
@given(begin=st.integers(0, 10**12), length=st.integers(0, 10**10))
def test_moments_are_few_and_within_the_time(begin: int, length: int) -> None:
    times = moments(begin, begin + length)
    assert len(times) <= MOMENTS
    assert bool(times) == (length > 0)
    assert all(begin <= at < begin + length for at in times)
    assert all(b - a >= 60_000 for a, b in pairwise(times))


def test_positions_are_what_reading_continues_from() -> None:
    points = {3: ResumePoint(10, 12, -1), 0: ResumePoint(0, 0, -1)}
    places = [TopicPartition("log", number) for number in range(5)]
    assert resume_points(positions_of(points, "log"), places) == points
