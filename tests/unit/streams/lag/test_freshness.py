"""What must never pass for a figure of now: old sums, payloads that nothing proves, commits that may be others'."""

from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import EstimateSource, FigureFlag
from kafkakit.streams.lag.decide.views import ViewLevel, view
from kafkakit.streams.lag.service_report import exposition, families
from tests.clusters.lag_rows import T0, Harness
from tests.invariants.exposition import parse
from tests.unit.streams.lag.test_book import ID1, ID2, kkm1

MINUTE = 60_000


def gauges(bench: Harness, at: int) -> dict[str, float]:
    """The gauges of group g by name."""
    text = exposition(families([bench.table(at)]))
    return {name: value for (name, labels), value in parse(text).items() if dict(labels).get("group") == "g"}


def test_no_sum_of_a_stale_partition_is_published() -> None:
    bench = Harness()
    bench.commit("g", 5, 1_000)
    bench.end(9, 2_000)
    fresh = gauges(bench, 3_000)
    assert fresh["kafkakit_lag_records"] == 4
    old = gauges(bench, 5 * MINUTE)
    assert old["kafkakit_lag_stale_partitions"] == 1
    assert sorted(name.removeprefix("kafkakit_lag_") for name in old) == [
        "as_of_timestamp_seconds", "partitions", "stale_partitions", "status", "unknown_partitions",
    ]  # fmt: skip
    assert old["kafkakit_lag_status"] == float(LagStatus.UNKNOWN)


def test_a_lag_to_an_old_end_is_not_called_as_new_as_its_commit() -> None:
    """The newest commit is subtracted from an end that was read 8 s before it."""
    bench = Harness()
    bench.commit("g", 5, 1_000)
    bench.end(100, 2_000)
    bench.facts(TopicLogSettings(is_dense=True, is_log_append=True))
    bench.commit("g", 93, 10_000)
    (line,) = view([bench.table(11_000)], ViewLevel.GROUP_TOPIC).lines
    assert (line.lag, line.lag_as_of_ms) == (7, T0 + 2_000)
    assert line.oldest_as_of_ms > line.lag_as_of_ms
    found = gauges(bench, 11_000)
    assert found["kafkakit_lag_records"] == 7
    assert found["kafkakit_lag_as_of_timestamp_seconds"] == (T0 + 2_000) / 1000


def test_a_low_bound_of_a_stale_partition_is_not_lent_to_a_fresh_one() -> None:
    bench = Harness()
    bench.ends.see_topic("t", ID1, 0)
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(101, 110)]))
    bench.end(110, 2_000)
    bench.end(9, 5 * MINUTE - 10_000, partition=1)
    bench.commit("g", 5, 5 * MINUTE, partition=1)
    bench.end(9, 5 * MINUTE + 10, partition=1)
    bench.facts(TopicLogSettings(is_log_append=True))
    found = gauges(bench, 5 * MINUTE + 20)
    assert found["kafkakit_lag_backlog_seconds"] > 5
    assert found["kafkakit_lag_backlog_low_seconds"] == 0


def test_sums_of_a_cluster_that_is_stale_are_not_published() -> None:
    bench = Harness()
    bench.commit("g", 5, 1_000)
    bench.end(9, 2_000)
    assert "cluster_records{" in exposition(families([bench.table(3_000)]))
    assert "cluster_records{" not in exposition(families([bench.table(5 * MINUTE)]))


def test_a_name_with_a_nul_does_not_end_the_scrape() -> None:
    bench = Harness()
    bench.commit("bad\0group", 5, 1_000)
    bench.end(9, 2_000)
    text = exposition(families([bench.table(3_000)]))
    assert "\0" not in text
    assert 'group="bad\\\\x00group"' in text


def test_a_payload_that_no_topic_id_proves_is_not_used_and_is_read_again_when_the_id_is_known() -> None:
    bench = Harness()
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(101, 110)]))
    bench.end(110, 2_000)
    before = bench.table(5_000)
    assert before.backlog.at(0).source is not EstimateSource.WATERMARK
    assert before.pending[0] == 10
    bench.ends.see_topic("t", ID1, 0)
    assert bench.table(5_000).backlog.at(0).source is EstimateSource.WATERMARK


def test_a_foreign_payload_read_before_the_topic_id_was_known_stays_unused() -> None:
    bench = Harness()
    bench.commit("g", 100, 1_000, metadata=kkm1(100, [(101, 110)], topic_id=ID2))
    bench.end(110, 2_000)
    bench.table(5_000)
    bench.ends.see_topic("t", ID1, 0)
    found = bench.table(5_000)
    assert found.backlog.at(0).source is not EstimateSource.WATERMARK
    assert found.pending[0] == 10


def test_a_group_that_died_before_the_monitor_began_is_stopped() -> None:
    bench = Harness()
    bench.commit("g", 20, 0)
    bench.end(50, 20 * MINUTE)
    assert LagStatus(int(bench.table(20 * MINUTE).status[0])) is LagStatus.STOPPED


def test_a_group_that_just_began_is_not_stopped() -> None:
    bench = Harness()
    bench.end(50, 0)
    bench.commit("g", 20, 1_000)
    bench.end(50, 30_000)
    assert LagStatus(int(bench.table(30_000).status[0])) is LagStatus.OK


def test_a_commit_beyond_the_end_is_not_well() -> None:
    bench = Harness()
    bench.commit("g", 1_000, 1_000)
    bench.end(50, 2_000)
    table = bench.table(3_000)
    assert FigureFlag.AHEAD in table.backlog.at(0).flags
    assert LagStatus(int(table.status[0])) is LagStatus.AHEAD
    assert (int(table.lag[0]), int(table.pending[0]), int(table.end[0])) == (-1, -1, 50)
    for figures in (table.backlog, table.arrival, table.live):
        assert figures.at(0).estimate_ms is None


def test_a_commit_newer_than_the_sample_is_not_ahead_of_the_log() -> None:
    """The commit before it had reached the end of that sample, and records may have come since."""
    bench = Harness()
    bench.commit("g", 50, 1_000)
    bench.end(50, 2_000)
    bench.commit("g", 60, 2_500)
    table = bench.table(3_000)
    assert FigureFlag.AHEAD not in table.backlog.at(0).flags
    assert LagStatus(int(table.status[0])) is LagStatus.OK
