"""The worked values of retention, segments and handles.

Bounds of age, size, segment count and index capacity hold for whatever the simulator of segments does. Segments,
descriptors and maps of brokers.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.quantities import format_span
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import (
    DEFAULT_MAX_MAP_COUNT,
    SegmentSettings,
    better_segment_ms,
    descriptors,
    index_capacity_bytes,
    maps,
    mean_replicas,
    segments_of,
    time_index_bytes,
)
from kafkakit.rules.subjects import LintCluster, PartitionFacts
from tests.rigs.lint_examples import estate_of
from tests.rigs.segment_simulator import Partition, Rules, first_roll_is_by_index, steady

H = 3_600_000
D = 24 * H


def of(**settings: Any) -> tuple[SegmentSettings, Rules]:
    return (
        replace(SegmentSettings(), **settings),
        Rules(**settings),
    )


def hours(milliseconds: float) -> float:
    return round(milliseconds / H, 2)


def test_one_record_a_minute_under_the_default_segment_lives_eight_times_its_retention() -> None:
    settings, rules = of(retention_ms=D)
    seen = Partition(rules).run(steady(60_000, 100, 20 * D), 20 * D)
    assert settings.age_limit_ms() == 192 * H + 5 * 60_000
    assert round(settings.overshoot() or 0, 3) == 7.003
    assert hours(seen.oldest_deleted_ms) == 192.08
    assert format_span((settings.age_limit_ms() or 0) / 1000) == "192 h 05 min"


def test_twelve_hour_segments_keep_a_day_of_data_for_a_day_and_a_half() -> None:
    settings, rules = of(retention_ms=D, segment_ms=43_200_000, segment_bytes=100 * 2**20)
    seen = Partition(rules).run(steady(60_000, 100, 10 * D), 10 * D)
    assert settings.age_limit_ms() == 36 * H + 5 * 60_000
    assert round(settings.overshoot() or 0, 3) == 0.503
    assert settings.segment_limit() == 4
    assert (hours(seen.oldest_deleted_ms), seen.peak_segments) == (36.08, 4)


@pytest.mark.parametrize(("rate", "fill_hours", "age_hours"), [(10_000, 29.83, 53.9), (100_000, 2.98, 27.07)])
def test_a_busy_partition_is_bound_by_the_time_it_takes_to_fill_a_segment(
    rate: int, fill_hours: float, age_hours: float
) -> None:
    settings, rules = of(retention_ms=D)
    seen = Partition(rules).run(steady(10_000, rate * 10, 8 * D), 8 * D)
    assert hours(settings.span_ms(rate)) == fill_hours
    bound = settings.age_limit_ms(rate)
    assert bound is not None
    assert hours(seen.oldest_deleted_ms) == pytest.approx(age_hours, abs=0.04)
    assert bound - rules.check_ms - 10_000 <= seen.oldest_deleted_ms <= bound


def test_retention_by_size_may_hold_a_segment_more() -> None:
    settings, rules = of(retention_ms=-1, retention_bytes=5 * 2**30)
    rate = 100 * 1024
    phases = range(0, rules.check_ms, 20_000)
    peak = max(Partition(rules).run(steady(5_000, 5 * rate, D), D, phase).peak_bytes for phase in phases)
    bound = settings.disk_limit_bytes(rate)
    assert bound is not None
    assert math.ceil(bound / 2**20) == 6174  # RB + S + r·C: 5120 + 1024 + 29.3 MiB
    assert 6171 * 2**20 <= peak <= bound


def test_the_active_segment_is_deleted_when_the_producer_stops() -> None:
    _, rules = of(retention_ms=D)
    seen = Partition(rules).run(steady(60_000, 100, 2 * D), 5 * D)
    assert not seen.rolls
    assert seen.emptied_at_ms is not None
    assert 72 * H <= seen.emptied_at_ms <= 72 * H + rules.check_ms


def test_the_time_index_bounds_a_segment() -> None:
    assert time_index_bytes(2**30, 1024) == 12 * 1_047_554 > 10 * 2**20
    assert time_index_bytes(2**30, 4096) == 12 * 262_082 < 10 * 2**20
    assert index_capacity_bytes(20, 4096) == 0
    assert 20 // 12 - 1 == 0


def test_4000_replicas_of_12_segments_need_more_maps_than_the_default_limit() -> None:
    assert maps(4000 * 12) - maps(0) == 96_000 > DEFAULT_MAX_MAP_COUNT


@pytest.mark.parametrize(
    ("segment_hours", "segments", "files", "mapped"), [(12, 4, 16_000, 32_000), (1, 26, 104_000, 208_000)]
)
def test_shorter_segments_cost_handles(segment_hours: int, segments: int, files: int, mapped: int) -> None:
    settings, _ = of(retention_ms=D, segment_ms=segment_hours * H)
    assert settings.segment_limit() == segments
    assert descriptors(4000 * segments) - descriptors(0) == files
    assert maps(4000 * segments) - maps(0) == mapped


def test_the_segment_length_that_keeps_within_half_of_a_day() -> None:
    settings, _ = of(retention_ms=D)
    assert better_segment_ms(settings, 0.5) == 11 * H + 55 * 60_000
    fixed, _ = of(retention_ms=D, segment_ms=11 * H + 55 * 60_000)
    assert fixed.overshoot() == 0.5
    assert better_segment_ms(fixed, 0.5) is None


def test_the_default_topic_may_keep_its_data_for_twice_as_long() -> None:
    settings, _ = of()
    assert round(settings.overshoot() or 0, 2) == 1.0


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


TOPIC = 'name: t, config: {retention.ms: "86400000", segment.ms: "43200000"}'


def cluster(text: str) -> LintCluster:
    return estate_of({"x.yaml": text}).clusters[0]


def facts(**of: object) -> PartitionFacts:
    return PartitionFacts(partition=0, replicas=(1,), **of)  # type: ignore[arg-type]


def test_counted_segments_are_taken_before_estimates() -> None:
    settings = SegmentSettings(retention_ms=86_400_000, segment_ms=43_200_000)
    assert segments_of(settings, facts(segments=7)) == 7
    assert segments_of(settings, facts()) == 4
    assert segments_of(settings) == 4
    assert segments_of(settings, facts(bytes_s=2**30 / 3600)) == 2 + 24


def test_without_a_limit_the_size_tells() -> None:
    settings = SegmentSettings(retention_ms=-1)
    assert segments_of(settings, facts(replica_bytes={1: 5 * 2**30})) == 6
    assert segments_of(settings, facts()) is None


def test_replicas_of_declared_topics_are_spread_evenly() -> None:
    text = f"brokers: [{{id: 1}}, {{id: 2}}]\ntopics: [{{{TOPIC}, partitions: 3, replication_factor: 2}}]"
    known = cluster(text)
    assert mean_replicas(known.topics[0], known) == 3
    unknown = cluster(f"brokers: [{{id: 1}}, {{id: 2}}]\ntopics: [{{{TOPIC}}}]")
    with pytest.raises(InputMissing):
        mean_replicas(unknown.topics[0], unknown)


def test_descriptors_and_maps_have_a_reserve() -> None:
    assert descriptors(10, connections=5, transaction_indexes=2) == 1017
    assert maps(8) == 1016
