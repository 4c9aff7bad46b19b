"""."""

import numpy as np
import pytest

from kafkakit.streams.lag.decide.measure.book import KEPT_MS, PROBLEMS, BookLimits, MeasuredRecord
from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import positions
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource, FigureFlag, span_text
from kafkakit.streams.lag.decide.views import ViewLevel, view
from kafkakit.streams.lag.report import age_text
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges, PayloadProblem, Watermark
from kafkakit.streams.model.dialects.kafka_streams import write_kafka_streams
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.clusters.lag_rows import T0, Harness
from tests.rigs.lag import Rig

ID1, ID2 = b"1" * 16, b"2" * 16


def kkm1(base: int, done: list[tuple[int, int]], *, topic_id: bytes = ID1, group: str = "g") -> bytes:
    state = CommitState(
        base=base, done=OffsetRanges.of(done), watermark=Watermark(oldest_ms=T0 + 100, newest_done_ms=T0 + 900)
    )
    identity = CommitIdentity(cluster_id="cluster-1", topic_id=topic_id, partition=0, group=group)
    return encode_commit(state, identity, limit_chars=4095).text.encode()


def test_a_poison_pill_shows_its_age_and_live_lag_near_zero() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(101, 110)]))
    bench.end(110, 2_000)
    table = bench.table(5_000)
    backlog, live = table.backlog.at(0), table.live.at(0)
    assert (backlog.source, backlog.low_ms, backlog.high_ms) == (EstimateSource.WATERMARK, 1_901, 1_901)
    assert backlog.as_of_ms == T0 + 2_001
    assert (live.low_ms, live.high_ms) == (0, 0)
    assert (table.lag[0], table.pending[0]) == (10, 1)


def test_a_payload_of_another_topic_says_nothing() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(101, 110)], topic_id=ID2))
    bench.end(120, 2_000)
    table = bench.table(5_000)
    assert table.backlog.at(0).source is not EstimateSource.WATERMARK
    assert PROBLEMS[bench.book.metadata.problem[int(table.row[0])]] is PayloadProblem.FOREIGN
    assert table.pending[0] == 20


def test_a_streams_commit_gives_exact_live_lag() -> None:
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True))
    bench.commit("g", 5, 1_000, metadata=write_kafka_streams(T0 + 700).encode())
    bench.end(9, 2_000)
    live = bench.table(2_001).live.at(0)
    assert (live.source, live.estimate_ms, live.is_exact) == (EstimateSource.STREAM_TIME, 1_301, True)
    assert bench.table(2_001).backlog.at(0).estimate_ms == 1_301


def test_two_clocks_are_two_figures() -> None:
    """The defect: a producer's clock that is an hour behind, and one gauge that was 7 s or 3,607 s, as was read."""
    bench, hour = Harness(), 3_600_000
    bench.facts(TopicLogSettings(is_dense=True))
    bench.end(5, 1_000)
    bench.commit("g", 5, 1_500)
    bench.end(9, 3_000)
    unread = bench.table(10_000)
    assert (unread.backlog.at(0).estimate_ms, unread.backlog.at(0).source) == (None, EstimateSource.UNKNOWN)
    arrival = unread.arrival.at(0)
    assert (arrival.low_ms, arrival.high_ms, arrival.source) == (0, 2_001, EstimateSource.INTERPOLATED)
    assert arrival.as_of_ms == T0 + 3_001
    stamp = T0 + 2_000 - hour
    read = MeasuredRecord(
        position=5, offset=5, time_ms=stamp, low_ms=stamp, high_ms=stamp, is_data=True, read_ms=T0 + 4_000
    )
    bench.book.records.note(bench.key("g"), bench.ends.slot("t", 0), read)
    after = bench.table(10_000)
    assert after.backlog.at(0).estimate_ms == hour + 1_001
    assert after.arrival.at(0) == arrival, "what a record carries says nothing of its arrival"


def test_a_record_read_at_the_position_is_exact_and_forgotten_with_its_topic() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 5, 1_000)
    bench.end(9, 2_000)
    row = bench.key("g")
    read = MeasuredRecord(
        position=5, offset=5, time_ms=T0 + 50, low_ms=T0 + 50, high_ms=T0 + 50, is_data=True, read_ms=T0 + 2_500
    )
    bench.book.records.note(row, bench.ends.slot("t", 0), read)
    found = bench.table(3_000).backlog.at(0)
    assert (found.source, found.estimate_ms, found.is_exact) == (EstimateSource.RECORD, 1_951, True)
    bench.ends.see_topic("t", ID2, T0 + 4_000)
    bench.end(9, 5_000)
    bench.commit("g", 5, 5_500)
    assert bench.table(6_000).backlog.at(0).source is not EstimateSource.RECORD


def test_a_commit_of_an_earlier_topic_is_not_measured_against_the_new_one() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 500, 1_000)
    bench.commit("named", 500, 1_000, topic_id=ID1)
    bench.end(1_000, 2_000)
    bench.ends.see_topic("t", ID2, T0 + 3_000)
    bench.end(700, 4_000)
    table = bench.table(5_000)
    assert [table.backlog.at(r).source for r in range(2)] == [EstimateSource.UNKNOWN] * 2
    assert all(table.backlog.at(r).flags & FigureFlag.OTHER_TOPIC for r in range(2))
    assert table.lag.tolist() == [-1, -1]
    bench.commit("g", 600, 5_000)
    bench.commit("named", 650, 5_000, topic_id=ID2)
    assert bench.table(6_000).lag.tolist() == [100, 50]


def test_tombstones_clear_a_row_and_its_memory() -> None:
    bench = Harness()
    bench.commit("g", 5, 1_000, metadata=b"x" * 500)
    bench.commit("h", 5, 1_000, metadata=b"y" * 100)
    assert (len(bench.book), bench.book.metadata.total_bytes) == (2, 600)
    assert bench.tombstone("g") == [bench.key("g")]
    assert (len(bench.book), bench.book.metadata.total_bytes) == (1, 100)
    bench.commit("h", 6, 2_000)
    assert bench.book.metadata.total_bytes == 0
    assert bench.tombstone("never seen") == [bench.key("never seen")]


def test_a_released_number_starts_afresh() -> None:
    bench = Harness()
    bench.end(10, 500)
    bench.commit("g", 5, 1_000, metadata=b"x")
    bench.keys.release(bench.tombstone("g"))
    bench.commit("h", 7, 2_000, topic="other", partition=3)
    row = bench.key("h", "other", 3)
    assert row == 0
    assert bench.book.slot[row] == bench.ends.slot("other", 3)
    assert bench.book.window.count[row] == 1


def test_what_does_not_fit_is_refused_and_counted() -> None:
    bench = Harness(limits=BookLimits(rows=2, metadata_bytes=100, one_metadata_bytes=60))
    for group in "abc":
        bench.commit(group, 5, 1_000)
    assert (len(bench.book), bench.book.rows_refused) == (2, 1)
    bench.commit("a", 6, 2_000, metadata=b"x" * 61)
    assert bench.book.metadata.refused == 1
    assert PROBLEMS[bench.book.metadata.problem[0]] is PayloadProblem.TOO_LARGE
    bench.commit("a", 7, 3_000, metadata=b"x" * 60)
    bench.commit("b", 7, 3_000, metadata=b"x" * 60)
    assert (bench.book.metadata.refused, bench.book.metadata.total_bytes) == (2, 60)


def test_lost_records_are_counted_apart_and_lag_goes_from_the_start() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(105, 120)]))
    bench.end(130, 2_000, start=110)
    table = bench.table(2_500)
    assert (table.lost[0], table.lag[0], table.pending[0]) == (10, 20, 15)
    assert positions(bench.book, table.row).tolist() == [120]
    assert table.backlog.at(0).flags & FigureFlag.LOST
    assert table.backlog.at(0).source is not EstimateSource.WATERMARK


def test_an_end_that_is_not_asked_for_again_grows_stale_and_never_looks_fresh() -> None:
    bench = Harness()
    bench.commit("g", 10, 1_000)
    bench.end(10, 2_000)
    assert not bench.table(2_500).backlog.at(0).flags & FigureFlag.STALE
    old = bench.table(100_000).backlog.at(0)
    assert old.flags & FigureFlag.STALE
    assert old.as_of_ms == T0 + 2_000


def test_a_marker_at_the_tail_counts_as_caught_up_once_it_was_looked_at() -> None:
    bench = Harness()
    bench.commit("g", 3, 1_000)
    bench.end(4, 2_000)
    assert not bench.table(2_500).backlog.at(0).is_exact
    bench.ends.note_effective_end(bench.ends.slot("t", 0), 3, 4)
    found = bench.table(2_500)
    assert (found.backlog.at(0).source, found.backlog.at(0).high_ms) == (EstimateSource.CAUGHT_UP, 0)


def test_an_open_transaction_that_holds_the_end_back_is_told() -> None:
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True))
    bench.commit("g", 3, 1_000)
    bench.end(9, 2_000, stable=3)
    found = bench.table(2_500).backlog.at(0)
    assert found.flags & FigureFlag.HELD_BACK
    assert found.low_ms == 0


def test_a_time_in_the_future_is_no_negative_lag() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0 - 9_000)
    bench.commit("g", 100, -8_000, metadata=kkm1(100, [(101, 110)]))
    bench.end(120, -7_000)
    found = bench.table(-6_000).backlog.at(0)
    assert (found.low_ms, found.estimate_ms, found.high_ms) == (0, 0, 0)
    assert found.flags & FigureFlag.FUTURE


def test_sources_that_contradict_each_other_are_flagged_and_the_best_is_kept() -> None:
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True, is_log_append=True))
    bench.end(5, 1_000)
    bench.commit("g", 5, 1_500)
    bench.end(9, 2_000)
    at = T0 - 500_000  # a record that claims to be older than its appending
    read = MeasuredRecord(position=5, offset=5, time_ms=at, low_ms=at, high_ms=at, is_data=True, read_ms=T0 + 2_100)
    bench.book.records.note(bench.key("g"), bench.ends.slot("t", 0), read)
    found = bench.table(2_200).backlog.at(0)
    assert found.flags & FigureFlag.CONFLICT
    assert (found.source, found.low_ms, found.high_ms) == (EstimateSource.RECORD, 502_001, 502_001)


def test_an_active_group_at_the_tail_stays_caught_up_when_its_next_commit_comes() -> None:
    bench = Harness()
    bench.commit("g", 10, 1_000)
    bench.end(10, 5_000)
    bench.commit("g", 12, 6_500)
    found = bench.table(7_000).backlog.at(0)
    assert (found.source, found.high_ms, found.as_of_ms) == (EstimateSource.CAUGHT_UP, 0, T0 + 5_000)


@pytest.mark.parametrize("metadata", [b"\xff\xfe\x00", b"~b", b"~zzz", b"AQ==", b"\x00", b"~b" + b"A" * 4_000])
def test_any_metadata_is_taken(metadata: bytes) -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, T0)
    bench.commit("g", 5, 1_000, metadata=metadata)
    bench.end(9, 2_000)
    table = bench.table(2_500)
    assert (table.lag[0], table.pending[0]) == (4, 4)
    assert np.all(table.backlog.low_ms >= 0)


def test_a_group_that_is_always_some_seconds_behind_has_a_bound_in_nine_looks_of_ten() -> None:
    """The defect: a record that was not read yet has no upper bound, and two looks of three showed that."""
    rig = Rig({"orders": TopicLogSettings(is_dense=True)})
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


def test_a_group_that_has_passed_what_was_there_gets_no_figure_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect: a group that had just caught up after a long stop was behind for a moment, by as much as before."""
    rig = Rig()
    rig.produce(10)
    rig.commit("g", 2)
    rig.run(30)
    rig.commit("g", 3)
    rig.run(2)
    before = rig.row("g").backlog
    assert (before.source, before.low_ms >= 30_000) == (EstimateSource.RECORD, True)
    monkeypatch.setattr(rig.monitor._records, "step", lambda: 0)
    rig.commit("g", 10)
    rig.run(2)
    assert rig.row("g").backlog.source is EstimateSource.CAUGHT_UP
    rig.produce(10)
    rig.run(2)
    now = rig.row("g")
    assert (now.lag, now.backlog.high_ms) == (10, None)
    assert now.backlog.low_ms <= 4_000
    assert rig.now_ms - before.as_of_ms <= KEPT_MS
