import numpy as np
import pytest

from kafkakit.streams.lag.decide.measure.book import SAMPLES, CommitWindow
from kafkakit.streams.lag.decide.measure.table import LagStatus, Present, judge
from kafkakit.streams.lag.decide.measure.time_lag import FigureFlag

MINUTE = 60_000
Sample = tuple[int, int]


def status_of(
    samples: list[Sample],
    *,
    now_min: float = 10,
    lag: int | None = None,
    lost: int = 0,
    flags: int = 0,
    behind_min: float = 0,
    tail: int = 0,
) -> LagStatus:
    """The status after commits of (offset, lag), one a minute; the present lag is the last one if not given."""
    window = CommitWindow(1)
    window.grow(3)
    row = np.array([1], dtype=np.int64)
    for minute, (offset, behind) in enumerate(samples):
        at, of, lags = (np.array([v], dtype=np.int64) for v in (minute * MINUTE, offset, behind))
        window.add(row, of, at, lags)
    present = samples[-1][1] if lag is None else lag
    since = round(max(len(samples) - 1, behind_min) * MINUTE)
    lags, losts, all_flags, since_ms, tails = (
        np.array([v], dtype=np.int64) for v in (present, lost, flags, since, tail)
    )
    now = Present(lag=lags, lost=losts, flags=all_flags, since_ms=since_ms, tail=tails)
    found = judge(window, row, now, now_ms=round(now_min * MINUTE))
    return LagStatus(int(found[0]))


def rising(lags: list[int]) -> list[Sample]:
    return [(100 + 10 * at, lag) for at, lag in enumerate(lags)]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (rising([50] * 5 + [0] + [60] * 4), LagStatus.OK),
        (rising([50, 40, 45, 60, 70, 80, 90, 91, 92, 93]), LagStatus.OK),
        (rising([50] * 10), LagStatus.WARNING),
        (rising(list(range(50, 60))), LagStatus.WARNING),
        ([(100, 50 + at) for at in range(10)], LagStatus.STALLED),
        ([(100, 50)] * 10, LagStatus.STALLED),
        ([(100, 60 - at) for at in range(10)], LagStatus.OK),
        ([*rising([50] * 9), (90, 80)], LagStatus.REWIND),
        (rising([50] * 4 + [-1] + [50] * 5), LagStatus.OK),
    ],
)
def test_each_rule_of_burrow(samples: list[Sample], expected: LagStatus) -> None:
    assert status_of(samples) is expected


def test_a_group_is_stopped_once_it_is_silent_for_longer_than_its_window() -> None:
    assert status_of(rising([50] * 10), now_min=18) is LagStatus.WARNING
    assert status_of(rising([50] * 10), now_min=18.01) is LagStatus.STOPPED


def test_a_stopped_group_with_nothing_to_do_is_well() -> None:
    assert status_of(rising([50] * 10), now_min=60, lag=0) is LagStatus.OK


def test_a_group_that_was_caught_up_and_died_is_stopped() -> None:
    """The defect: any commit without lag in the window made the group well for ever."""
    caught_up = rising([0] * 10)
    assert status_of(caught_up, now_min=18, lag=40) is LagStatus.OK
    assert status_of(caught_up, now_min=18.01, lag=40) is LagStatus.STOPPED


def test_silence_counts_from_when_there_was_something_to_do() -> None:
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=59) is LagStatus.OK
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=51) is LagStatus.OK
    assert status_of(rising([0] * 10), now_min=60, lag=1, behind_min=50.9) is LagStatus.STOPPED


def test_a_lag_of_markers_alone_is_none() -> None:
    assert status_of(rising([1] * 10)) is LagStatus.WARNING
    assert status_of(rising([1] * 10), tail=1) is LagStatus.OK
    assert status_of(rising([2] * 10), tail=1) is LagStatus.WARNING


def test_a_stop_is_told_before_a_rewind() -> None:
    assert status_of([*rising([50] * 9), (90, 80)], now_min=60) is LagStatus.STOPPED


def test_only_the_last_ten_commits_count() -> None:
    assert status_of(rising([0] + [50] * SAMPLES)) is LagStatus.WARNING
    assert status_of(rising([0] + [50] * (SAMPLES - 1))) is LagStatus.OK


def test_lost_records_outweigh_all_else_and_what_is_unknown_is_not_well() -> None:
    assert status_of(rising([0] * 10), lost=1) is LagStatus.LOST
    for flag in (FigureFlag.STALE, FigureFlag.NO_END, FigureFlag.OTHER_TOPIC):
        assert status_of(rising([0] * 10), flags=int(flag)) is LagStatus.UNKNOWN


def test_commits_sooner_than_a_step_share_a_sample_and_keep_its_time() -> None:
    window = CommitWindow(10_000)
    window.grow(1)
    row = np.array([0], dtype=np.int64)
    for at in range(0, 30_000, 1_000):
        one = [np.array([v], dtype=np.int64) for v in (at, at, 5)]
        window.add(row, *one)
    offset, at_ms, lag, count = window.ordered(row)
    assert count.tolist() == [3]
    assert offset[0, -3:].tolist() == [9_000, 19_000, 29_000]
    assert at_ms[0, -3:].tolist() == [0, 10_000, 20_000]
    assert lag[0, -3:].tolist() == [5, 5, 5]
