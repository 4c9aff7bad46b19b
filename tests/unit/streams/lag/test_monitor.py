"""The monitor of one cluster on a cluster in memory: the past, the present, and every fault on the way."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.streams.lag.act.monitor import ClusterMonitor, MonitorPace
from kafkakit.streams.lag.decide.measure.book import BookLimits, CommitMetadata
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource, FigureFlag
from kafkakit.streams.lag.decide.monitors import BUSY_SHARE, MonitorPhase, PublishedState, busy_round_s
from kafkakit.streams.lag.decide.saved_state import check_state, decode_state, encode_state
from kafkakit.streams.lag.report import condition_data
from kafkakit.streams.lag.service_report import all_families, exposition
from tests.clusters.streams_batches import Rec, commit, marker
from tests.invariants.exposition import parse
from tests.rigs.lag import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_past_and_the_present_are_read(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("g", 40)
    rig.commit("other", 100)
    rig.run(3)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    assert (rig.row("g").committed, rig.row("g").lag) == (40, 60)
    assert rig.row("other").lag == 0
    rig.commit("g", 70)
    rig.run(2)
    assert (rig.row("g").committed, rig.row("g").lag) == (70, 30)
    assert rig.monitor.condition().notes == ()


def test_time_lag_is_that_of_the_record_where_the_group_stands(rig: Rig) -> None:
    rig.produce(10)
    rig.clock.advance(20)
    rig.produce(10)
    rig.commit("g", 10)
    rig.clock.advance(30)
    rig.run(3)
    found = rig.row("g").backlog
    assert found.source is EstimateSource.RECORD
    assert found.is_exact
    # The figure is that of the moment it says, and the record is as old then as it says.
    assert found.as_of_ms - found.low_ms == int(rig.clock.start.timestamp() * 1000) + 20_000
    rig.commit("g", 20)
    rig.run(2)
    assert rig.row("g").backlog.source is EstimateSource.CAUGHT_UP
    assert rig.row("g").backlog.high_ms == 0


def test_a_marker_at_the_end_is_no_lag(rig: Rig) -> None:
    producer = (7, 0)
    rig.produce(3, transactional=True, producer=producer)
    rig.reader.append(TopicPartition("orders", 0), marker(0, producer, commits=True, base_ms=rig.now_ms))
    rig.commit("g", 3)
    rig.run(4)
    row = rig.row("g")
    assert (row.lag, row.end, row.status) == (0, 4, LagStatus.OK)
    rig.run(400)
    assert (rig.row("g").lag, rig.row("g").status) == (0, LagStatus.OK), "nor is silence"
    assert row.backlog.source is EstimateSource.CAUGHT_UP
    assert row.backlog.high_ms == 0


def test_a_deleted_commit_goes_and_its_place_is_used_again(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 5)
    rig.run(2)
    rig.delete("g")
    rig.run(1)
    assert rig.rows() == {}
    rig.commit("h", 7)
    rig.run(2)
    assert {key[0]: row.committed for key, row in rig.rows().items()} == {"h": 7}


def test_an_open_transaction_hides_its_own_commits_only_and_is_named(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.write("g", commit("g", "orders", 0, 50), transactional=True, producer=(9, 1))
    rig.commit("j", 20)
    assert rig.place("g") == rig.place("j")
    rig.run(2)
    assert rig.row("g").committed == 10
    assert rig.row("j").committed == 20
    condition = rig.monitor.condition()
    assert (condition.held_back_count, condition.held_back_commits) == (1, 1)
    assert condition.held_back[0].transaction.groups == ("g",)
    assert condition.notes == ("1 open transaction holds back 1 commit of g",)
    rig.reader.append(rig.place("g"), marker(0, (9, 1), commits=True, base_ms=rig.now_ms))
    rig.run(1)
    assert rig.row("g").committed == 50
    assert rig.monitor.condition().notes == ()


def test_a_cluster_that_goes_away_is_told_and_its_figures_get_old(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 5)
    rig.run(3)
    as_of = rig.row("g").backlog.as_of_ms
    rig.reader.unreachable = True
    rig.clock.advance(100)
    with pytest.raises(TryLaterError):
        rig.monitor.tick()
    condition = rig.monitor.condition()
    assert condition.phase is MonitorPhase.UNREACHABLE
    assert "unreachable: cannot connect" in condition.notes[0]
    row = rig.row("g")
    assert row.backlog.as_of_ms == as_of, "a figure of before must not look like one of now"
    assert FigureFlag.STALE in row.backlog.flags
    rig.reader.unreachable = False
    rig.run(3)
    assert rig.monitor.condition().notes == ()
    assert rig.row("g").backlog.as_of_ms > as_of
    assert FigureFlag.STALE not in rig.row("g").backlog.flags


def test_a_partition_without_a_leader_is_a_blind_spot_and_the_others_go_on(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("h", 10)
    rig.run(2)
    assert rig.place("g") != rig.place("h")
    rig.reader.log(rig.place("g")).leader = None
    rig.commit("h", 20)
    rig.run(2)
    condition = rig.monitor.condition()
    assert condition.phase is MonitorPhase.LIVE
    assert [b.partition for b in condition.blind] == [rig.place("g").partition]
    assert "1 of 3 partitions of the commit log cannot be read" in condition.notes[0]
    assert rig.row("h").committed == 20
    assert rig.row("g").backlog.as_of_ms < rig.row("h").backlog.as_of_ms
    rig.reader.log(rig.place("g")).leader = 2
    rig.commit("g", 30)
    rig.run(2)
    assert rig.row("g").committed == 30
    assert rig.monitor.condition().blind_count == 0


def test_commits_that_cannot_be_read_make_a_monitor_blind_within_15_s(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(5)
    place = rig.place("g")
    rig.reader.log(place).leader = None
    rig.run(8)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE, "leaders are elected"
    rig.run(5)
    condition = rig.monitor.condition()
    assert condition.phase is MonitorPhase.BLIND
    assert condition.reason.startswith("commits since ")
    assert f"(partition {place.partition}: " in condition.reason
    assert condition.notes[0] == f"blind: {condition.reason}"
    rig.reader.log(place).leader = 2
    rig.run(2)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE


def test_ends_that_cannot_be_read_make_a_monitor_blind_within_15_s_and_what_was_lost_is_not_told_on(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(5)
    place = TopicPartition("orders", 0)
    rig.reader.log(place).start = 40
    rig.run(3)
    assert rig.row("g").status is LagStatus.LOST
    rig.reader.log(place).leader = None
    rig.run(13)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    rig.run(3)
    condition = rig.monitor.condition()
    assert condition.phase is MonitorPhase.BLIND
    assert re.fullmatch(r"ends of logs since \d\d:\d\d:\d\dZ are not known \(.+ 1\)", condition.reason)
    rig.run(60)
    assert rig.row("g").status is LagStatus.UNKNOWN


@pytest.mark.parametrize("waits_s", [(30.0,), (38.0, 12.0), (10.0, 10.0, 10.0)])
def test_rounds_that_waited_for_a_broker_do_not_put_off_the_next_ones(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, waits_s: tuple[float, ...]
) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(5)
    asked, waits = rig.reader.spans, list(waits_s)

    def spans(keys: Any) -> Any:
        if waits:
            rig.clock.advance(waits.pop(0))
        return asked(keys)

    monkeypatch.setattr(rig.reader, "spans", spans)
    while waits:
        rig.run(0.1)
    rig.run(5)
    rig.produce(7)
    rig.run(6)
    assert rig.row("g").lag == 97
    rig.reader.log(TopicPartition("orders", 0)).leader = None
    rig.run(17)
    assert rig.monitor.condition().phase is MonitorPhase.BLIND, "ends may be no older than before"


def test_rounds_over_very_many_partitions_take_a_quarter_of_the_time() -> None:
    assert busy_round_s(20.0, 18.0, 50) == 18.0
    assert busy_round_s(20.0, 0.2, 50) == 0.2
    assert busy_round_s(20.0, 18.0, 1) * BUSY_SHARE < MonitorPace().ends_s


def test_a_leader_that_moves_costs_nothing(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(2)
    rig.reader.log(rig.place("g")).moved = True
    rig.commit("g", 20)
    rig.run(1)
    assert rig.row("g").committed == 20
    assert rig.monitor.condition().totals.started_over == 0


def test_a_commit_log_that_was_cut_is_read_anew_and_what_it_lost_is_dropped(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("j", 10)
    rig.run(2)
    log = rig.reader.log(rig.place("g"))
    log.batches, log.end, log.start = log.batches[:1], 1, 0
    rig.run(2)
    assert {key[0] for key in rig.rows()} == {"g"}
    assert rig.monitor.condition().totals.started_over == 1
    rig.commit("j", 30)
    rig.run(1)
    assert rig.row("j").committed == 30


def test_an_offsets_topic_made_anew_leaves_nothing_of_the_old_one(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("h", 10)
    rig.run(2)
    rig.reader.add_topic(OFFSETS_TOPIC, 3)
    rig.commit("g", 60)
    rig.run(7)
    assert {key[0]: row.committed for key, row in rig.rows().items()} == {"g": 60}


def test_no_sample_survives_a_topic_that_was_made_anew(rig: Rig) -> None:
    rig.produce(1000)
    rig.commit("g", 900)
    rig.run(3)
    assert rig.row("g").lag == 100
    rig.reader.add_topic("orders", 2)
    rig.produce(5)
    rig.run(3)
    row = rig.row("g")
    assert row.lag == -1, "a commit of the old topic says nothing about the new one"
    assert FigureFlag.OTHER_TOPIC in row.backlog.flags
    assert row.backlog.high_ms is None
    rig.clock.advance(2)
    rig.commit("g", 3)
    rig.run(3)
    assert rig.row("g").lag == 2
    assert rig.row("g").backlog.source is EstimateSource.RECORD


def test_a_topic_that_is_gone_is_named_and_has_no_figures(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 5)
    rig.run(3)
    rig.reader.delete_topic("orders")
    rig.run(2)
    assert rig.row("g").lag == -1
    assert rig.monitor.condition().missing_topics == ("orders",)
    assert "commits for 1 topic that does not exist or is hidden: orders" in rig.monitor.condition().notes[0]


def test_a_group_that_died_before_the_monitor_began_is_stopped_not_well(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("dead", 10)
    rig.commit("done", 100)
    rig.clock.advance(3600)
    rig.commit("busy", 20)
    rig.run(3)
    found = {key[0]: row.status for key, row in rig.rows().items()}
    assert found == {"dead": LagStatus.STOPPED, "done": LagStatus.OK, "busy": LagStatus.OK}


def test_a_commit_made_while_a_fetch_waits_is_not_dated_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(3)
    real = rig.reader.fetch
    made: list[int] = []

    def waiting(offsets: Any, **options: Any) -> Any:
        if not made and OFFSETS_TOPIC in {key.topic for key in offsets}:
            rig.clock.advance(0.09)
            made.append(rig.now_ms)
            rig.commit("g", 100)
        return real(offsets, **options)

    monkeypatch.setattr(rig.reader, "fetch", waiting)
    rig.monitor.tick()
    assert rig.row("g").committed == 100
    assert rig.row("g").backlog.as_of_ms >= made[0]


def test_nobody_has_committed_yet(rig: Rig) -> None:
    rig.reader.delete_topic(OFFSETS_TOPIC)
    rig.run(2)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    assert len(rig.monitor.table()) == 0
    rig.reader.add_topic(OFFSETS_TOPIC, 3)
    rig.produce(10)
    rig.commit("g", 5)
    rig.run(7)
    assert rig.row("g").lag == 5


def test_compaction_at_the_tail_does_not_stop_the_reading_of_the_past(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 5)
    log = rig.reader.log(rig.place("g"))
    rig.commit("g", 6)
    log.batches.pop()
    rig.run(3)
    assert rig.monitor.condition().phase is MonitorPhase.LIVE
    assert rig.row("g").committed == 5


def test_a_clock_that_goes_back_is_told_and_does_not_blind(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 5)
    rig.run(3)
    rig.clock.shift -= type(rig.clock.shift)(hours=1)
    rig.produce(10)
    rig.run(3)
    assert rig.row("g").end == 20, "samples continue although their times are lower"
    assert rig.monitor.condition().clock_steps == 1
    assert "clock was set" in rig.monitor.condition().notes[0]


def test_unknown_and_broken_records_are_counted_and_passed(rig: Rig) -> None:
    rig.produce(10)
    rig.write("g", Rec(b"\x00\x63zzz", b"?"), Rec(b"\x00\x01\x00", b"\x00"), Rec(b"", None))
    rig.commit("g", 5)
    rig.run(2)
    assert rig.row("g").committed == 5
    totals = rig.monitor.condition().totals
    assert totals.opaque + totals.undecodable >= 2
    assert totals.first_reason


def test_what_is_beyond_the_limits_is_counted_and_shown(rig: Rig) -> None:
    rig.monitor.book.limits = BookLimits(rows=3)
    rig.monitor.book.metadata = CommitMetadata(max_bytes=1_000, max_one_bytes=10)
    rig.monitor.ends.topics.max_partitions = 1
    rig.produce(10)
    for group in "adcbe":
        rig.commit(group, 5, partition=int(group == "d"), metadata="x" * 11 if group == "a" else "")
    rig.run(3)
    found = rig.monitor.condition()
    assert (found.left_out, found.refused_metadata, found.refused_partitions) == (2, 1, 1)
    assert found.record_reads > 0
    assert found.notes == (
        f"{found.left_out} commits are beyond what may be held and were left out",
        "commits with too much metadata to be kept: 1; all of their records count as pending",
        "group-partitions beyond what may be sampled: 1; their lag is not known",
    )
    data = condition_data(found)
    names = ("left_out_commits", "left_out_metadata", "left_out_partitions", "record_reads", "record_read_failures")
    shown = (found.left_out, 1, 1, found.record_reads, found.record_failures)
    assert tuple(data[name] for name in names) == shown
    published = PublishedState(at_ms=0, tables=(), conditions=(found,), others=(), instances=1)
    metrics = parse(exposition(all_families(published, 10)))
    assert tuple(metrics[f"kafkakit_lag_{name}", (("cluster", "prod"),)] for name in names) == shown


def test_the_same_state_gives_the_same_bytes(rig: Rig) -> None:
    rig.produce(100)
    for offset in range(1, 30):
        rig.commit("g", offset)
        rig.run(1)
    saved = rig.monitor.state()
    assert saved is not None
    window = rig.monitor.book.window
    window.offset[0], unused = window.offset[0], window.offset[1].copy()
    window.offset[1] = 12345 - unused
    again = rig.monitor.state()
    assert again is not None
    assert encode_state(again) == encode_state(saved)
    assert saved.arrays["window.count"].tolist() == [3]
    assert np.count_nonzero(saved.arrays["window.offset"][0]) == 3


def test_a_restart_goes_on_where_the_last_run_stopped(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    for offset in range(11, 21):
        rig.commit("h", offset)
    rig.run(3)
    rig.write("g", commit("g", "orders", 1, 5), transactional=True, producer=(9, 1))
    rig.run(1)
    saved = rig.monitor.state()
    assert saved is not None
    state = decode_state(encode_state(saved), "s")
    check_state(state, "s")
    rig.clock.advance(60)
    again = rig.new_monitor()
    again.adopt(state)
    before = rig.row("g", monitor=again)
    assert before.committed == 10
    assert before.backlog.as_of_ms <= state.saved_ms, "what was known then is not news"
    rig.reader.append(rig.place("g"), marker(0, (9, 1), commits=True, base_ms=rig.now_ms))
    rig.commit("h", 30)
    rig.delete("g")
    rig.run(2, again)
    assert {key: row.committed for key, row in rig.rows(again).items()} == {
        ("g", "orders", 1): 5,
        ("h", "orders", 0): 30,
    }
    assert again.condition().totals.records < rig.monitor.condition().totals.records


def test_a_restart_on_a_log_that_lost_its_place_reads_it_whole(rig: Rig) -> None:
    rig.produce(100)
    rig.commit("g", 10)
    rig.commit("j", 10)
    rig.run(3)
    state = rig.monitor.state()
    assert state is not None
    log = rig.reader.log(rig.place("g"))
    log.batches, log.end = log.batches[:1], 1
    again = rig.new_monitor()
    again.adopt(state)
    rig.run(2, again)
    assert {key[0] for key in rig.rows(again)} == {"g"}


def test_no_state_is_given_before_the_past_is_known(rig: Rig) -> None:
    rig.commit("g", 1)
    assert rig.monitor.state() is None
    rig.reader.log(rig.place("g")).leader = None
    rig.run(1)
    assert rig.monitor.state() is None


def agreed(rig: Rig, seconds: float, pauses: list[float], serving: ClusterMonitor) -> list[set[LagStatus]]:
    """After each pause, the statuses that a service, a run with the state of the last, and one without state find."""
    rig.run(seconds, serving)
    before, found = None, []
    for pause in pauses:
        rig.run(pause, serving)
        before = rig.next_run(before)
        rig.run(3, serving)
        monitors = (serving, before, rig.next_run(None))
        found.append({rig.row("g", monitor=monitor).status for monitor in monitors})
    return found


def test_however_often_it_is_looked_a_group_that_died_has_stopped(rig: Rig) -> None:
    """The defect: each run took the moment of the one before for the time since when there was something to do."""
    rig.produce(20)
    rig.commit("g", 3)
    rig.clock.advance(2)
    rig.commit("g", 5)
    assert agreed(rig, 110, [0, 20, 20, 60, 60, 100], rig.monitor) == [{LagStatus.STOPPED}] * 6


@pytest.mark.parametrize("is_stamped_ahead", [False, True])
def test_a_group_at_the_end_stops_by_when_the_record_came(rig: Rig, is_stamped_ahead: bool) -> None:
    """Looks before and long after the record came find what one finds that looked all the time."""
    rig.produce(5)
    rig.commit("g", 5)
    before = rig.next_run(None)
    rig.run(30)
    ahead_ms = 9_000_000 if is_stamped_ahead else 0
    rig.produce(1, base_ms=rig.now_ms + ahead_ms)
    rig.run(80)
    if not is_stamped_ahead:
        assert {rig.row("g", monitor=m).status for m in (rig.monitor, rig.next_run(None))} == {LagStatus.OK}
    rig.run(20)
    after = rig.next_run(before)
    rig.run(3)
    monitors = (rig.monitor, after, rig.next_run(after), rig.next_run(None))
    assert [rig.row("g", monitor=m).status for m in monitors] == [LagStatus.STOPPED] * 4


def test_a_state_without_the_times_of_lag_is_read(rig: Rig) -> None:
    rig.produce(20)
    rig.commit("g", 5)
    rig.run(110)
    saved = rig.monitor.state()
    assert saved is not None
    old = {name: array for name, array in saved.arrays.items() if name not in ("commit.behind_ms", "commit.calm_ms")}
    again = rig.new_monitor()
    state = decode_state(encode_state(replace(saved, arrays=old)), "s")
    check_state(state, "s")
    again.adopt(state)
    rig.run(3, again)
    assert rig.row("g", monitor=again).status is LagStatus.STOPPED


def test_an_open_transaction_that_holds_a_group_back_is_told(rig: Rig) -> None:
    rig.produce(10)
    began_ms = rig.now_ms
    rig.produce(1, transactional=True, producer=(7, 0))
    rig.produce(50)
    rig.commit("g", 10)
    rig.run(50)
    assert rig.row("g").status is LagStatus.OK, "transactions take some time"
    assert agreed(rig, 20, [0, 30, 100], rig.monitor) == [{LagStatus.HELD_BACK}] * 3
    table = rig.monitor.table()
    assert (int(table.lag[0]), int(table.uncommitted[0]), int(table.held_ms[0])) == (0, 51, began_ms)
    rig.reader.append(TopicPartition("orders", 0), marker(0, (7, 0), commits=True, base_ms=rig.now_ms))
    rig.run(3)
    assert (rig.row("g").lag, rig.row("g").status) == (52, LagStatus.OK), "since now it can read on"
    rig.run(100)
    assert rig.row("g").status is LagStatus.STOPPED


def test_transactions_of_old_records_that_end_hold_nobody_back(rig: Rig) -> None:
    """A program that works through the past keeps the times of its records."""
    rig.produce(1)
    rig.commit("g", 1)
    rig.run(2)
    for _ in range(100):
        rig.produce(1, transactional=True, producer=(7, 0), base_ms=rig.now_ms - 9_000_000)
        end = rig.reader.log(TopicPartition("orders", 0)).end
        rig.commit("g", end - 1)
        rig.run(1)
        assert rig.row("g").status is LagStatus.OK
        rig.reader.append(TopicPartition("orders", 0), marker(0, (7, 0), commits=True, base_ms=rig.now_ms))


def test_a_commit_beyond_the_end_has_a_status_and_no_lag(rig: Rig) -> None:
    rig.produce(10)
    rig.commit("g", 1_000)
    assert agreed(rig, 3, [0, 100], rig.monitor) == [{LagStatus.AHEAD}] * 2
    assert rig.row("g").lag == -1
    rig.produce(995)
    rig.commit("g", 1_001)
    rig.run(3)
    assert (rig.row("g").lag, rig.row("g").status) == (4, LagStatus.OK)


OFTEN: dict[str, Callable[[int], int | None]] = {
    "dies": lambda second: second if second < 180 else None,
    "dies-slow": lambda second: second if second < 180 and second % 7 == 0 else None,
    "sticks": lambda second: min(second, 40),
    "lives": lambda second: second + 1,
    "goes-back": lambda second: second if second < 170 else second - 100,
}


def test_first_runs_runs_each_minute_and_a_service_agree(rig: Rig) -> None:
    """What `lag check`, `lag once` and `lag serve` say of one history at one moment."""
    kept: ClusterMonitor | None = None
    wrong: list[str] = []
    seen: set[LagStatus] = set()
    rig.produce(1000)
    for second in range(1, 301):
        for group, commits in OFTEN.items():
            if (offset := commits(second)) is not None:
                rig.commit(group, offset)
        rig.run(0.2)
        rig.clock.advance(0.8)
        if (second >= 120 and second % 60 == 0) or second in (395, 400):
            service, now = rig.rows(), rig.clock.now()
            kept = rig.next_run(kept, 0.4) if second % 60 == 0 else kept
            first = rig.next_run(None, 0.4)
            rows = {"service": service, "first": rig.rows(first)}
            if kept is not None and second % 60 == 0:
                rows["each minute"] = rig.rows(kept)
            for group in OFTEN:
                said = {who: found[group, "orders", 0].status for who, found in rows.items()}
                seen |= set(said.values())
                if len(set(said.values())) > 1 and LagStatus.WARNING not in said.values():
                    wrong.append(f"{group} at {second} s ({now}): { {w: s.word for w, s in said.items()} }")
    assert wrong == []
    assert seen >= {LagStatus.OK, LagStatus.STALLED, LagStatus.STOPPED, LagStatus.REWIND}
