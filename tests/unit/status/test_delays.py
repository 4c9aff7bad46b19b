"""Groups that are behind: by a monitor's figures with their age, joined with what is seen now."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.files import read_input, write_file
from kafkakit.core.cluster_facts import GroupListing, GroupState, GroupType
from kafkakit.core.errors import InputError
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.model import TopicPartition
from kafkakit.status.decide.delays import MOST_EMPTY_GROUPS, GroupDelay, MeasuredDelays, delays_of, merged_delays
from kafkakit.status.decide.judgement import ClusterReading, judge_cluster
from kafkakit.status.report.status import status_report
from kafkakit.streams.lag.act.monitor import StateFiles
from kafkakit.streams.lag.api import LIMIT_KEYS, JudgedBound, LimitRules, SavedGroups, read_limit_rules
from kafkakit.streams.lag.decide.saved_groups import MOST_SAVED, SavedGroup, groups_of
from tests.fakes.groups import FakeGroups
from tests.rigs.lag import Rig
from tests.unit.status.test_judgement import NOW, healthy
from tests.unit.status.test_reading import cluster, read

MINUTE_MS = 60_000


def saved(group: str = "billing", **changes: Any) -> SavedGroup:
    values: dict[str, Any] = {"group": group, "topic": "orders", "status": "ok", "lag": 10, "low_ms": 20 * MINUTE_MS}
    return SavedGroup(**{**values, **changes})


def figures(*groups: SavedGroup, age: timedelta = timedelta(seconds=30)) -> SavedGroups:
    return SavedGroups(cluster_id="c", at_ms=round((NOW - age).timestamp() * 1000), groups=groups)


def rules(text: str) -> LimitRules:
    return read_limit_rules(text.encode(), "limits.yaml", dict.fromkeys(LIMIT_KEYS), JudgedBound.LOW)


LIMITS = rules("rules: [{group: 'billing*', warn_time: 10m, crit_time: 1h}, {group: fraud, crit_lag: 5}]")


def judged(measured: MeasuredDelays, **changes: Any) -> ClusterReading:
    listed = tuple(
        GroupListing(group=d.group, type=GroupType.CLASSIC, state=GroupState.STABLE) for d in measured.groups
    )
    lag = merged_delays((), measured, listed)
    return healthy(groups=listed, lag=lag, measured=measured, **changes)


@pytest.mark.parametrize(
    ("one", "severity", "words"),
    [
        (saved(low_ms=9 * MINUTE_MS), None, ""),
        (saved(low_ms=20 * MINUTE_MS), Severity.WARNING, "20m behind, above its limit of 10m in orders"),
        (saved(low_ms=90 * MINUTE_MS), Severity.ERROR, "1h 30m behind, above its limit of 1h"),
        (saved(low_ms=None, estimate_ms=90 * MINUTE_MS), None, ""),
        (saved("fraud"), Severity.ERROR, "10 records behind, above its limit of 5"),
        (saved("other", low_ms=900 * MINUTE_MS), None, ""),
    ],
)
def test_a_group_that_passes_its_limit_is_a_finding(one: SavedGroup, severity: Severity | None, words: str) -> None:
    found = judge_cluster(judged(delays_of(figures(one), LIMITS))).findings
    assert [(f.rule, f.severity) for f in found] == ([("group-lag", severity)] if severity else [])
    assert all(words in f.message and f.hint.endswith(f"group describe {one.group}") for f in found)


def test_retention_that_is_left_has_a_limit_too() -> None:
    limits = rules("rules: [{warn_retention: 6h}]")
    (found,) = judge_cluster(judged(delays_of(figures(saved(retention_left_ms=60 * MINUTE_MS)), limits))).findings
    assert "records expire in 1h, below its limit of 6h" in found.message


def test_a_stopped_group_that_passes_its_critical_limit_is_an_error() -> None:
    stopped = delays_of(figures(saved(status="stopped", low_ms=90 * MINUTE_MS)), LIMITS)
    (found,) = judge_cluster(healthy(lag=stopped.groups, measured=stopped)).findings
    assert (found.rule, found.severity) == ("group-stopped", Severity.ERROR)
    assert "stopped: no members, 1h 30m behind, above its limit of 1h" in found.message


def test_old_figures_say_their_age_and_alarm_nobody() -> None:
    old = delays_of(figures(saved(low_ms=90 * MINUTE_MS), age=timedelta(hours=5)), LIMITS)
    (found,) = judge_cluster(judged(old)).findings
    assert (found.severity, "(5h ago)" in found.message) == (Severity.WARNING, True)
    text = status_report([judge_cluster(judged(old))], fail_on=FailOn.ERROR, width=80).text
    assert "most behind: billing 1h 30m (5h ago; --deep measures it now)" in text


def test_without_figures_the_line_says_that_it_is_not_known() -> None:
    listed = (GroupListing(group="g", type=GroupType.CLASSIC, state=GroupState.STABLE),)
    text = status_report([judge_cluster(healthy(groups=listed))], fail_on=FailOn.ERROR, width=80).text
    assert "time lag not known: no monitor's figures here (--deep measures it)" in text
    none = MeasuredDelays(at=NOW)
    text = status_report([judge_cluster(healthy(groups=listed, measured=none))], fail_on=FailOn.ERROR, width=80).text
    assert "no group is known to be behind in time" in text


def test_the_topics_of_a_group_are_one_delay_with_the_worst_of_each() -> None:
    found = delays_of(
        figures(
            saved(topic="a", lag=1, low_ms=5, status="ok"),
            saved(topic="b", lag=2, low_ms=9, status="stopped", retention_left_ms=7),
            saved(topic="c", lag=4, low_ms=None, status="warning"),
            saved("caught-up", lag=0, low_ms=0),
        ),
    )
    (one,) = found.groups
    assert (one.lag, one.time_lag_ms, one.status, one.retention_left_ms) == (7, 9, "stopped", 7)


def listing(group: str, state: GroupState) -> GroupListing:
    return GroupListing(group=group, type=GroupType.CLASSIC, state=state)


def one_of(status: str, group: str = "g") -> MeasuredDelays:
    return MeasuredDelays(at=NOW, groups=(GroupDelay(group=group, status=status, time_lag_ms=5, lag=9),))


SEEN = GroupDelay(group="g", status="stopped", lag=3)


@pytest.mark.parametrize(
    ("measured", "seen", "listed", "expected"),
    [
        ("stopped", (), (), []),  # deleted since
        ("stopped", (), (listing("g", GroupState.STABLE),), ["ok"]),  # started again since
        ("stopped", (), (listing("g", GroupState.EMPTY),), []),  # nothing left to read
        ("ok", (SEEN,), (listing("g", GroupState.EMPTY),), ["stopped"]),  # stopped since
        ("lost", (SEEN,), (listing("g", GroupState.EMPTY),), ["lost"]),
        ("stalled", (), (listing("g", GroupState.STABLE),), ["stalled"]),
    ],
)
def test_what_is_seen_now_outweighs_what_a_monitor_saw(
    measured: str, seen: tuple[GroupDelay, ...], listed: tuple[GroupListing, ...], expected: list[str]
) -> None:
    found = merged_delays(seen, one_of(measured), listed)
    assert found is not None
    assert [one.status for one in found] == expected


def test_time_is_added_to_what_is_seen_now() -> None:
    assert merged_delays((SEEN,), one_of("ok"), (listing("g", GroupState.EMPTY),)) == (
        GroupDelay(group="g", status="stopped", time_lag_ms=5, lag=3),
    )


def test_groups_beyond_those_that_are_compared_are_left_to_the_monitor() -> None:
    many = tuple(listing(f"a{n}", GroupState.EMPTY) for n in range(MOST_EMPTY_GROUPS))
    found = merged_delays((), one_of("stopped"), (*many, listing("g", GroupState.EMPTY)))
    assert found is not None
    assert [one.status for one in found] == ["stopped"]


def test_one_of_the_two_is_enough_and_without_both_nothing_is_known() -> None:
    assert merged_delays(None, None, None) is None
    assert merged_delays((SEEN,), None, ()) == (SEEN,)
    assert merged_delays(None, one_of("stalled"), None) == one_of("stalled").groups


def test_a_table_is_saved_with_the_bounds_of_time_and_comes_back(tmp_path: Path) -> None:
    rig = Rig()
    rig.produce(100)
    rig.commit("g", 10)
    rig.run(3)
    rig.clock.advance(600)
    rig.produce(5)
    rig.run(3)
    found = groups_of(rig.monitor.table(), "c1")
    (one,) = found.groups
    assert (one.group, one.topic, one.lag) == ("g", "orders", 95)
    assert one.low_ms is not None
    assert one.low_ms > 590_000
    files = StateFiles(tmp_path / "lag", read_input, write_file)
    assert files.load_groups("c1") is None
    (tmp_path / "lag").mkdir()
    files.save_groups(found)
    assert files.load_groups("c1") == found
    files.groups_path("c1").write_bytes(b"{")
    with pytest.raises(InputError):
        files.load_groups("c1")


def test_more_groups_than_are_saved_are_counted() -> None:
    found = replace(figures(saved()), left_out=7)
    assert delays_of(found).left_out == 7
    assert MOST_SAVED * 300 < 2 << 20


def test_a_reading_takes_the_figures_of_the_cluster_and_says_why_there_are_none() -> None:
    groups = FakeGroups()
    groups.seed("g", TopicPartition("orders", 0), 4)
    at_ms = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    asked: list[str] = []

    def lag(cluster_id: str) -> SavedGroups:
        asked.append(cluster_id)
        return SavedGroups(cluster_id=cluster_id, at_ms=at_ms, groups=(saved("g", status="stalled"),))

    found = cluster()
    reading = read(found, open_groups=lambda: groups, lag=lag).read()
    assert reading.info is not None
    assert asked == [reading.info.cluster_id]
    assert reading.measured is not None
    assert reading.measured.age_s(reading.at) == 0

    def broken(cluster_id: str) -> SavedGroups:
        raise InputError("groups.json", "is cut")

    reading = read(found, open_groups=lambda: groups, lag=broken).read()
    text = status_report([judge_cluster(reading)], fail_on=FailOn.ERROR, width=80).text
    assert "unknown  time_lag" in text
    assert "is cut" in text
    assert "time lag not known" in text
