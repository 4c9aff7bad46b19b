"""The robust test: its formula, what it does not mind, and what ends a window early."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.rollout.decide.rollout import Health, HealthLook, Signal, baseline_of, judge, limit_of, looks_in

NUMBERS = st.floats(0, 1e6, allow_nan=False)


def looks(*values: dict[Signal, float]) -> list[HealthLook]:
    return [HealthLook(at_ms=n, values=v) for n, v in enumerate(values)]


def test_the_limit_of_times_is_the_median_and_three_and_a_half_deviations() -> None:
    # Median 15; deviations 5, 3, 0, 2, 985: median 3; 15 + 3.5 * 1.4826 * 3 = 30.57.
    assert limit_of(Signal.REQUEST_MS, [10, 12, 15, 17, 1000], 3) == pytest.approx((15, 30.5673))


def test_times_that_never_varied_may_rise_by_a_quarter_or_five_ms() -> None:
    assert limit_of(Signal.REQUEST_MS, [100.0] * 9, 3) == (100, 125)
    assert limit_of(Signal.REQUEST_MS, [4.0] * 9, 3) == (4, 9)


def test_events_are_summed_over_windows_of_the_same_length() -> None:
    # Windows of two: 4, 6, 10, 9: median 7.5, deviations 3.5, 1.5, 2.5, 1.5: median 2.
    assert limit_of(Signal.SHRINKS, [1, 3, 3, 7, 2], 2) == pytest.approx((7.5, 7.5 + 3.5 * 1.4826 * 2))
    assert limit_of(Signal.SHRINKS, [0.0] * 9, 3) == (0, 3.5)
    # A shorter past is scaled.
    assert limit_of(Signal.SHRINKS, [1, 1], 4)[0] == 4


def test_gauges_have_no_floor() -> None:
    assert limit_of(Signal.OFFLINE, [0.0] * 9, 3) == (0, 0)


def test_a_gauge_above_its_limit_once_is_no_verdict_and_twice_is_bad() -> None:
    baseline = {Signal.OFFLINE: (0.0,) * 5}
    one, none = {Signal.OFFLINE: 1.0}, {Signal.OFFLINE: 0.0}
    assert judge(baseline, looks(one), 4).health is Health.OPEN
    assert judge(baseline, looks(one, none, one, none), 4).health is Health.GOOD
    bad = judge(baseline, looks(none, one, one), 4)
    assert bad.is_bad
    assert bad.reasons == ("offline partitions: 1, usual 0, limit 0",)


def test_events_count_as_soon_as_there_are_too_many() -> None:
    baseline = {Signal.SHRINKS: (0.0,) * 5}
    assert judge(baseline, looks({Signal.SHRINKS: 3}), 4).health is Health.OPEN
    assert judge(baseline, looks({Signal.SHRINKS: 3}, {Signal.SHRINKS: 1}), 4).health is Health.BAD


@pytest.mark.parametrize(("usual", "seen", "health"), [(5, 5, Health.BAD), (4, 5, Health.GOOD), (5, 4, Health.GOOD)])
def test_answers_to_one_client_count_from_five_on(usual: int, seen: int, health: Health) -> None:
    found = judge({Signal.METADATA_MS: (10.0,) * usual}, looks(*[{Signal.METADATA_MS: 900.0}] * seen), seen)
    assert found.health is health


def test_times_count_at_the_end_of_a_window() -> None:
    baseline = {Signal.REQUEST_MS: (10.0,) * 5}
    slow = {Signal.REQUEST_MS: 90.0}
    assert judge(baseline, looks(slow, slow), 3).health is Health.OPEN
    assert judge(baseline, looks(slow, slow, slow), 3).health is Health.BAD
    assert judge(baseline, looks(slow, {Signal.REQUEST_MS: 10}, {Signal.REQUEST_MS: 9}), 3).health is Health.GOOD


def test_signals_that_stop_leave_a_window_unknown_and_that_is_bad() -> None:
    baseline = {Signal.REQUEST_MS: (10.0,) * 5}
    silent = [HealthLook(at_ms=0, problem="away")] * 3
    found = judge(baseline, silent, 9)
    assert (found.health, found.is_bad) == (Health.UNKNOWN, True)
    assert found.reasons == ("3 looks in a row without ms of produce requests (p99): away",)
    mixed = looks({Signal.REQUEST_MS: 10}, {}, {}, {Signal.REQUEST_MS: 10}, {}, {})
    assert judge(baseline, mixed, 6).reasons == ("too few values of ms of produce requests (p99) to judge",)


def test_a_signal_without_a_past_is_not_judged() -> None:
    assert judge({Signal.OFFLINE: (0.0,) * 4}, looks(*[{Signal.OFFLINE: 0.0, Signal.SHRINKS: 99.0}] * 3), 3).health is (
        Health.GOOD
    )


def test_a_series_with_too_many_gaps_is_no_past() -> None:
    found = baseline_of(looks({Signal.OFFLINE: 0}, {Signal.OFFLINE: 0, Signal.SHRINKS: 0}, {Signal.OFFLINE: 0}, {}, {}))
    assert set(found) == {Signal.OFFLINE}
    assert looks_in(60, 5) == 12
    assert looks_in(1, 5) == 2


@given(st.lists(NUMBERS, min_size=5, max_size=40), st.integers(1, 8), st.sampled_from(list(Signal)))
def test_what_repeats_the_past_exactly_is_within_the_limit(values: list[float], window: int, signal: Signal) -> None:
    usual, limit = limit_of(signal, values, window)
    assert usual <= limit


@given(st.lists(st.floats(0, 100), min_size=9, max_size=40), st.data())
def test_less_than_half_of_bad_moments_does_not_move_the_limit_beyond_the_rest(
    values: list[float], data: st.DataObject
) -> None:
    spoilt = data.draw(st.integers(0, (len(values) - 1) // 2))
    worse = [1e9] * spoilt + values[spoilt:]
    usual, limit = limit_of(Signal.REQUEST_MS, worse, 1)
    # The median is one of the sound values (or between two), and so is the median of the deviations.
    assert usual <= 100
    assert limit <= max(usual + 3.5 * 1.4826 * 100, usual + max(25.0, 5.0) + usual)


@given(st.lists(NUMBERS, min_size=3, max_size=30), st.lists(NUMBERS, min_size=4, max_size=4))
def test_more_is_never_better(values: list[float], seen: list[float]) -> None:
    baseline = {Signal.REQUEST_MS: tuple(values)}
    found = judge(baseline, looks(*({Signal.REQUEST_MS: v} for v in seen)), 4)
    higher = judge(baseline, looks(*({Signal.REQUEST_MS: v * 2 + 1} for v in seen)), 4)
    assert not (found.is_bad and not higher.is_bad)
    assert found.rows[0].seen == median(seen)
