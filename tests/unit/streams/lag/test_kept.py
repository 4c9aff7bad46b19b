import pytest

from kafkakit.streams.lag.decide.measure.book import KEPT_MS
from kafkakit.streams.lag.decide.measure.ends import TopicFacts
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource, span_text
from kafkakit.streams.lag.decide.views import ViewLevel, view
from kafkakit.streams.lag.report import age_text
from tests.rigs.lag import Rig


def test_a_group_that_is_always_some_seconds_behind_has_a_bound_in_nine_looks_of_ten() -> None:
    """The defect: a record that was not read yet has no upper bound, and two looks of three showed that."""
    rig = Rig({"orders": TopicFacts(is_dense=True)})
    widths, looks = [], 0
    for second in range(60):
        rig.produce(10)
        if second >= 7:
            rig.commit("g", 10 * (second - 7))
        for _ in range(5):
            rig.run(0.2)
            lag = rig.row("g").backlog if second > 15 else None
            if lag is None:
                continue
            looks += 1
            if lag.high_ms is not None:
                widths.append(lag.high_ms - lag.low_ms)
                assert 6_900 <= lag.low_ms <= 8_200, lag
                assert lag.high_ms >= 7_000, lag
                assert rig.now_ms - lag.as_of_ms <= KEPT_MS
    assert len(widths) >= 0.9 * looks, (len(widths), looks)
    assert max(widths) <= 1_000


def test_what_was_kept_is_of_one_log_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.produce(10)
    rig.commit("g", 2)
    rig.run(4)
    kept = rig.row("g").backlog
    assert (kept.source, kept.is_exact) == (EstimateSource.RECORD, True)
    monkeypatch.setattr(rig.monitor._records, "step", lambda: 0)
    rig.commit("g", 4)
    rig.run(0.3)
    moved = rig.row("g")
    assert (moved.committed, moved.backlog.is_exact) == (4, True)
    assert moved.backlog.as_of_ms - moved.backlog.low_ms == kept.as_of_ms - kept.low_ms, "of the record before"
    (line,) = view([rig.monitor.table()], ViewLevel.GROUP).lines
    assert line.lag_as_of_ms - line.oldest_as_of_ms >= 1_000, "lag and time lag of two moments"
    at_ms = line.lag_as_of_ms + 300
    assert age_text(line, at_ms) == f"300ms ago, time lag {span_text(at_ms - line.oldest_as_of_ms)} ago"
    rig.run(KEPT_MS / 1000)
    assert rig.row("g").backlog.high_ms is None
    rig.commit("g", 10)
    rig.run(0.3)
    assert rig.row("g").backlog.source is EstimateSource.CAUGHT_UP


def test_another_log_has_no_use_for_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.produce(10)
    rig.commit("g", 2)
    rig.run(4)
    monkeypatch.setattr(rig.monitor._records, "step", lambda: 0)
    rig.commit("g", 4)
    rig.run(0.3)
    assert rig.row("g").backlog.high_ms is not None
    rig.monitor.ends.forget([0])
    rig.run(2)
    assert rig.row("g").backlog.high_ms is None
