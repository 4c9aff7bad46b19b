"""Bounds of age, size, segment count and index capacity hold for whatever the simulator of segments does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.rules.retention import SegmentSettings, better_segment_ms, index_capacity_bytes, time_index_bytes
from tests.rigs.segment_simulator import Partition, Rules, first_roll_is_by_index, steady

ROUNDING = 1e-3
times = st.integers(1, 400).map(lambda n: n * 1000)


@settings(max_examples=120, deadline=None)
@given(
    retention_ms=times,
    segment_ms=times,
    jitter_ms=st.integers(0, 300_000),
    segment_bytes=st.integers(2_000, 50_000),
    index_bytes=st.integers(24, 300),
    interval=st.integers(0, 800),
    check_ms=times,
    every_ms=st.integers(100, 5_000),
    size=st.integers(1, 2_000),
    phase=st.integers(0, 10_000),
    retention_bytes=st.one_of(st.just(-1), st.integers(0, 200_000)),
)
def test_no_simulated_history_exceeds_a_bound(
    retention_ms: int,
    segment_ms: int,
    jitter_ms: int,
    segment_bytes: int,
    index_bytes: int,
    interval: int,
    check_ms: int,
    every_ms: int,
    size: int,
    phase: int,
    retention_bytes: int,
) -> None:
    rules = Rules(
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        segment_ms=segment_ms,
        segment_bytes=segment_bytes,
        jitter_ms=jitter_ms,
        index_bytes=index_bytes,
        index_interval=interval,
        check_ms=check_ms,
    )
    formula = SegmentSettings(
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        segment_ms=segment_ms,
        segment_bytes=segment_bytes,
        jitter_ms=jitter_ms,
        index_bytes=index_bytes,
        index_interval_bytes=interval,
        check_interval_ms=check_ms,
    )
    until = min(3_000_000, 1_000 * every_ms)
    seen = Partition(rules, seed=phase).run(steady(every_ms, size, until), until, phase % check_ms)
    rate = 1000 * size / every_ms
    age, disk = formula.age_limit_ms(rate, size), formula.disk_limit_bytes(rate, size)
    assert age is not None
    assert disk is not None
    assert seen.longest_segment_ms <= formula.span_ms(rate, size) + ROUNDING
    assert seen.oldest_deleted_ms <= age + ROUNDING
    # What is appended between the last check and the moment that the bound speaks of is one batch at most, and time
    # rolls at the first append after it is due.
    assert seen.peak_bytes <= disk + 2 * size
    exact = formula.segment_limit(rate, size)
    assert exact is None or seen.peak_segments <= exact


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40_000), st.integers(0, 600), st.integers(24, 400), st.integers(1, 900))
def test_the_time_index_formulas_are_those_of_a_step_by_step_fill(
    segment_bytes: int, interval: int, index_bytes: int, batch: int
) -> None:
    if time_index_bytes(segment_bytes, interval) <= index_bytes:
        assert not first_roll_is_by_index(segment_bytes, interval, index_bytes, batch)
    if time_index_bytes(segment_bytes - 1, interval) > index_bytes:
        assert first_roll_is_by_index(segment_bytes, interval, index_bytes, 1)
    if first_roll_is_by_index(segment_bytes, interval, index_bytes, batch):
        assert index_capacity_bytes(index_bytes, interval, batch) <= segment_bytes


@given(st.integers(0, 23), st.integers(1, 10_000))
def test_an_index_below_two_entries_rolls_at_every_append(index_bytes: int, interval: int) -> None:
    assert first_roll_is_by_index(10_000, interval, index_bytes, 10)
    assert index_capacity_bytes(index_bytes, interval) == 0


@given(st.integers(1, 10**10), st.integers(1, 2**40), st.integers(1, 2**40), st.floats(0.1, 1e9))
def test_larger_segments_never_overshoot_less(retention: int, one: int, other: int, rate: float) -> None:
    small, large = sorted((one, other))

    def overshoot(segment_bytes: int) -> float:
        return SegmentSettings(retention_ms=retention, segment_bytes=segment_bytes).overshoot(rate) or 0.0

    assert overshoot(small) <= overshoot(large)


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.floats(0.01, 5))
def test_a_better_segment_length_is_within_the_tolerance_and_shorter(
    retention: int, segment: int, tolerance: float
) -> None:
    before = SegmentSettings(retention_ms=retention, segment_ms=segment)
    better = better_segment_ms(before, tolerance)
    if better is not None:
        after = SegmentSettings(retention_ms=retention, segment_ms=better)
        assert (after.overshoot() or 0) <= tolerance
        assert 600_000 <= better < segment
