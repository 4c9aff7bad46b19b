"""The worked values of retention, segments and handles: the formulas, and the simulator that confirms them."""

import math
from dataclasses import replace
from typing import Any

import pytest

from kafkakit.core.quantities import format_span
from kafkakit.rules.retention import (
    DEFAULT_MAX_MAP_COUNT,
    SegmentSettings,
    better_segment_ms,
    descriptors,
    index_capacity_bytes,
    maps,
    time_index_bytes,
)
from tests.rigs.segment_simulator import Partition, Rules, steady

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
