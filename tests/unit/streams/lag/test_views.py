"""Limits by rule from a file, owners, and what moves of our own silence."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkakit.core.cluster_facts import GroupDescription, GroupMember, GroupState, GroupType, ItemError
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.journal import Layers, RunState
from kafkakit.report.exports import MetricFamily
from kafkakit.report.report import text_of
from kafkakit.streams.lag.decide.limits import (
    LIMIT_KEYS,
    CheckResult,
    JudgedBound,
    LagLimits,
    LagVerdict,
    LimitRules,
    Thresholds,
    check_lag,
    parse_count,
    parse_thresholds,
)
from kafkakit.streams.lag.decide.measure.ends import TopicLogSettings
from kafkakit.streams.lag.decide.measure.owned_partitions import OwnedPartitions, left_by_all, with_owned
from kafkakit.streams.lag.decide.measure.table import (
    SEVERITY,
    LagStatus,
    LagTable,
    MeasureRules,
    RetentionBasis,
    severity,
)
from kafkakit.streams.lag.decide.monitors import moved_topics, read_limit_rules
from kafkakit.streams.lag.decide.views import GroupPartition, ViewLevel, stream_of, view
from kafkakit.streams.lag.report import line_data, view_sections
from kafkakit.streams.lag.service_report import datagrams, exposition, families
from tests.clusters.lag_rows import T0, Harness
from tests.invariants.exposition import parse


def two_clusters() -> list[LagTable]:
    """Two groups that read the stream `pay` in two clusters, and a plain topic; partition 1 of `slow` is the worst."""
    one, two = Harness(), Harness()
    for bench, topics in ((one, ("pay.live.1", "pay.slow.1", "plain")), (two, ("pay.live.2",))):
        for topic in topics:
            bench.facts(TopicLogSettings(is_dense=True, is_log_append=True), topic)
            for partition in range(2):
                bench.end(100, 0, topic=topic, partition=partition)
                behind = 50 if topic == "pay.slow.1" and partition else 10
                for group in ("a", "b"):
                    bench.commit(group, 200 - behind, 5_000, topic=topic, partition=partition)
                bench.end(200, 10_000, topic=topic, partition=partition)
    return [one.table(10_001, "east"), two.table(10_001, "west")]


def test_streams_are_joined_over_clusters_and_lanes() -> None:
    found = view(two_clusters(), ViewLevel.STREAM)
    assert [(n.group, n.stream, n.partitions, n.lag) for n in found.lines] == [
        ("a", "pay", 6, 100), ("b", "pay", 6, 100), ("a", "plain", 2, 20), ("b", "plain", 2, 20),
    ]  # fmt: skip
    worst = found.lines[0]
    assert worst.worst == GroupPartition(cluster="east", group="a", topic="pay.slow.1", partition=1)
    assert worst.max_lag == 50
    assert worst.backlog.estimate_ms == 5_001
    assert sum(count for _, count in worst.counts) == 6


@pytest.mark.parametrize(
    ("level", "count"),
    [
        (ViewLevel.PARTITION, 16),
        (ViewLevel.GROUP_TOPIC, 8),
        (ViewLevel.GROUP, 4),
        (ViewLevel.TOPIC, 4),
        (ViewLevel.CLUSTER, 2),
    ],
)
def test_every_level_adds_up_whatever_the_order_of_tables(level: ViewLevel, count: int) -> None:
    tables = two_clusters()
    found = view(tables, level)
    assert found == view(tables[::-1], level)
    assert len(found.lines) == count
    assert sum(n.lag for n in found.lines) == 240
    assert sum(n.partitions for n in found.lines) == 16


def test_lines_beyond_the_limit_are_summed_up() -> None:
    whole, cut = view(two_clusters(), ViewLevel.PARTITION), view(two_clusters(), ViewLevel.PARTITION, top=3)
    assert cut.lines == whole.lines[:3]
    assert cut.others is not None
    assert (cut.others_count, cut.others.partitions, cut.others.lag) == (13, 13, sum(n.lag for n in whole.lines[3:]))
    assert view(two_clusters(), ViewLevel.PARTITION, top=16).others is None


@pytest.mark.parametrize(
    ("topic", "stream"),
    [
        ("pay.live.7", "pay"), ("a.b.slow.12", "a.b"), ("pay.live", "pay.live"), ("pay.fast.7", "pay.fast.7"),
        (".live.7", ".live.7"), ("pay.live.x", "pay.live.x"), ("pay.live.", "pay.live."), ("", ""),
    ],
)  # fmt: skip
def test_lanes_are_recognised_by_name(topic: str, stream: str) -> None:
    assert stream_of(topic) == stream


def test_exposition_is_read_by_a_strict_reader_and_by_prometheus() -> None:
    text = exposition(families(two_clusters()))
    samples = parse(text)
    key = (("cluster", "east"), ("group", "a"), ("topic", "pay.slow.1"))
    assert samples["kafkakit_lag_records", key] == 60
    assert samples["kafkakit_lag_backlog_seconds", key] == 5.001
    assert samples["kafkakit_lag_cluster_partitions", (("cluster", "west"), ("status", "ok"))] == 4
    assert samples["kafkakit_lag_dropped_series", (("level", "group_topic"),)] == 0
    assert sum(len(f.samples) for f in text_string_to_metric_families(text)) == len(samples)


def test_series_are_bounded_and_what_is_dropped_is_counted() -> None:
    samples = parse(exposition(families(two_clusters(), 3)))
    assert sum(name == "kafkakit_lag_records" for name, _ in samples) == 3
    assert samples["kafkakit_lag_dropped_series", (("level", "group_topic"),)] == 5


def test_partitions_of_chosen_groups_have_series_of_their_own() -> None:
    plain, chosen = families(two_clusters()), families(two_clusters(), partition_groups=["a", "zz*"])
    assert not [f.name for f in plain if f.name.startswith("partition_")]
    samples = parse(exposition(chosen))
    key = (("cluster", "east"), ("group", "a"), ("topic", "pay.slow.1"))
    assert samples["kafkakit_lag_partition_records", (*key, ("partition", "1"))] == 50
    assert samples["kafkakit_lag_partition_backlog_seconds", (*key, ("partition", "1"))] == 5.001
    assert samples["kafkakit_lag_partition_status", (*key, ("partition", "0"))] == int(LagStatus.OK)
    assert {dict(labels)["group"] for name, labels in samples if name == "kafkakit_lag_partition_records"} == {"a"}
    assert sum(name == "kafkakit_lag_partition_records" for name, _ in samples) == 8
    assert samples["kafkakit_lag_dropped_series", (("level", "partition"),)] == 0
    before = parse(exposition(plain))
    assert before.items() <= samples.items(), "what is summed over groups and topics stays as it is"
    cut = parse(exposition(families(two_clusters(), 3, ["*"])))
    assert sum(name == "kafkakit_lag_partition_records" for name, _ in cut) == 3
    assert cut["kafkakit_lag_dropped_series", (("level", "partition"),)] == 16 - 3
    assert len({family.name for family in chosen}) == len(chosen), "each metric has one name and one help"


def test_names_with_quotes_newlines_and_bars_are_escaped() -> None:
    bench = Harness()
    name = 'a"b\\c\nd|e,f#g'
    bench.commit(name, 5, 0)
    bench.end(9, 1_000)
    found = families([bench.table(2_000)])
    assert parse(exposition(found))["kafkakit_lag_records", (("cluster", "c1"), ("group", name), ("topic", "t"))] == 4
    lines = b"\n".join(datagrams(found, tags=["env:test"])).decode().splitlines()
    assert 'kafkakit.lag.records:4|g|#env:test,cluster:c1,group:a"b\\c%0Ad%7Ce%2Cf%23g,topic:t' in lines


def test_stale_figures_are_no_series() -> None:
    bench = Harness()
    bench.commit("g", 5, 0)
    bench.end(9, 1_000)
    key = (("cluster", "c1"), ("group", "g"), ("topic", "t"))
    fresh = parse(exposition(families([bench.table(2_000)])))
    stale = parse(exposition(families([bench.table(99_000)])))
    for name in ("arrival_seconds", "arrival_low_seconds", "backlog_low_seconds"):
        assert (f"kafkakit_lag_{name}", key) in fresh
        assert (f"kafkakit_lag_{name}", key) not in stale
    assert stale["kafkakit_lag_stale_partitions", key] == 1
    assert stale["kafkakit_lag_status", key] == int(LagStatus.UNKNOWN)


def test_datagrams_hold_whole_lines_and_stay_below_their_size() -> None:
    found = families(two_clusters())
    packets = datagrams(found, max_bytes=300)
    assert all(len(packet) <= 300 for packet in packets)
    assert sum(packet.count(b"\n") + 1 for packet in packets) == sum(len(f.samples) for f in found)
    long = MetricFamily(name="x", help="x", samples=(((("group", "g" * 900),), 1.0),))
    assert len(datagrams([long], max_bytes=1_400)[0]) < 300


def test_rates_eta_and_retention() -> None:
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True, is_log_append=True, retention_ms=60_000))
    for second in range(0, 100, 10):
        bench.end(1_000 + 10 * second, second * 1_000, start=second)
        bench.commit("fast", 500 + 15 * second, second * 1_000 + 1)
        bench.commit("slow", 500 + 5 * second, second * 1_000 + 1)
    table = bench.table(90_002, rules=MeasureRules(skew_ms=0))
    cast = table.forecast
    assert cast.produced_per_s.round(2).tolist() == [10.0, 10.0]
    assert cast.consumed_per_s.round(2).tolist() == [15.0, 5.0]
    assert cast.eta_ms.tolist() == [10_000, -1]
    assert table.lag.tolist() == [50, 950]
    high = table.backlog.high_ms.tolist()
    assert cast.retention_low_ms[0] == 60_000 - high[0]
    assert cast.retention_basis.tolist()[0] == int(RetentionBasis.RETENTION_TIME)
    lines = view([table], ViewLevel.CLUSTER).lines
    assert (lines[0].eta_ms, lines[0].consumed_per_s) == (None, 20.0)
    assert lines[0].retention_low_ms == cast.retention_low_ms.min()
    assert lines[0].retention_basis is RetentionBasis(int(cast.retention_basis[cast.retention_left_ms.argmin()]))
    data = line_data(lines[0])
    assert (data["retention_low_s"], data["retention_basis"]) == (cast.retention_low_ms.min() / 1000, "retention_time")


def test_a_start_that_moves_towards_the_group_foretells_the_loss() -> None:
    bench = Harness()
    bench.commit("g", 10_000, 0)
    for minute in range(31):
        bench.end(20_000, minute * 60_000, start=minute * 100)
    cast = bench.table(1_800_001).forecast
    assert cast.retention_basis.tolist() == [int(RetentionBasis.START_MOVEMENT)]
    assert cast.retention_left_ms.tolist() == [70 * 60_000]


def checked(
    critical: LagLimits, warning: LagLimits | None = None, judge: JudgedBound = JudgedBound.LOW
) -> tuple[LagVerdict, list[str]]:
    thresholds = Thresholds(critical=critical, warning=warning or LagLimits(), judge=judge)
    found = check_lag(two_clusters(), LimitRules(default=thresholds))
    return found.verdict, [b.text for b in found.breaches]


def test_limits_are_judged_on_the_low_bound_unless_told_otherwise() -> None:
    low = max(n.max_low_ms for n in view(two_clusters(), ViewLevel.CLUSTER).lines)
    high = max(n.backlog.high_ms or 0 for n in view(two_clusters(), ViewLevel.CLUSTER).lines)
    assert low < 5_000 < high
    assert checked(LagLimits(max_time_lag_ms=5_500))[0] is LagVerdict.OK
    assert checked(LagLimits(max_time_lag_ms=5_500), judge=JudgedBound.HIGH)[0] is LagVerdict.CRITICAL
    assert checked(LagLimits(max_time_lag_ms=high), judge=JudgedBound.HIGH)[0] is LagVerdict.OK
    assert checked(LagLimits(max_time_lag_ms=4_000), judge=JudgedBound.ESTIMATE)[0] is LagVerdict.CRITICAL


def test_records_statuses_and_severities() -> None:
    assert checked(LagLimits(max_lag=60)) == (LagVerdict.OK, [])
    assert checked(LagLimits(max_lag=59)) == (LagVerdict.CRITICAL, ["lag 60 is above 59"] * 2)
    assert checked(LagLimits(max_lag=60), LagLimits(max_lag=59))[0] is LagVerdict.WARNING
    assert checked(LagLimits(statuses=frozenset({LagStatus.OK, LagStatus.STOPPED})))[0] is LagVerdict.CRITICAL


def test_what_is_not_known_is_no_ok() -> None:
    bench = Harness()
    assert check_lag([bench.table(0)], LimitRules(default=Thresholds())).verdict is LagVerdict.UNKNOWN
    bench.commit("g", 5, 0)
    found = check_lag([bench.table(0)], LimitRules(default=Thresholds(critical=LagLimits(max_lag=10))))
    assert (found.verdict, found.summary) == (
        LagVerdict.UNKNOWN, "LAG UNKNOWN - c1 g t/0: the lag is not known now (no answer about the end of the log)",
    )  # fmt: skip
    bench.end(90, 1_000)
    assert (
        check_lag([bench.table(2_000)], LimitRules(default=Thresholds(critical=LagLimits(max_lag=10)))).verdict
        is LagVerdict.CRITICAL
    )
    assert (
        check_lag([bench.table(99_000)], LimitRules(default=Thresholds(critical=LagLimits(max_lag=1_000)))).verdict
        is LagVerdict.UNKNOWN
    )
    endless = Thresholds(critical=LagLimits(max_time_lag_ms=99_000), judge=JudgedBound.HIGH)
    assert check_lag([bench.table(2_000)], LimitRules(default=endless)).verdict is LagVerdict.UNKNOWN


def test_performance_data_and_bounded_reasons() -> None:
    critical, warning = LagLimits(max_lag=1, max_time_lag_ms=0), LagLimits(max_lag=0)
    found = check_lag(
        two_clusters(),
        LimitRules(default=Thresholds(critical=critical, warning=warning, judge=JudgedBound.ESTIMATE)),
    )
    assert found.performance.startswith("lag_max=60;0;1;0 lost=0;;;0 time_lag_low_max=")
    assert len(found.breaches) == 20
    assert found.more == 8 + 16 - 20
    assert found.summary.endswith(f"and {len(found.breaches) + found.more - 1} more")


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("500", 500), ("10k", 10_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9)]
)
def test_counts_are_read(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "10kb", "1e5", "k", "∞", "1" * 40])
def test_no_counts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_count(text)


WORDS: Mapping[str, str | None] = {
    **dict.fromkeys(LIMIT_KEYS), "crit_time": "10m", "crit_status": "lost", "warn_status": "stalled",
}  # fmt: skip
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def read(text: str) -> LimitRules:
    return read_limit_rules(text.encode(), "limits.yaml", WORDS, JudgedBound.HIGH)


def test_the_first_rule_that_fits_counts_and_inherits_what_it_does_not_name() -> None:
    rules = read(
        "owners:\n  pay: ['pay-*', billing]\n  late: 'pay-late'\nrules:\n"
        "- {group: 'pay-batch-*', crit_time: none, crit_lag: 10M}\n"
        "- {owner: pay, topic: 'orders.*', crit_time: 5m, warn_status: none}\n"
        "- {group: 'pay-*', crit_time: 1m}\n"
    )
    owners = {group: rules.owner_of(group) for group in ("pay-a", "billing", "pay-late", "other")}
    assert owners == {"pay-a": "pay", "billing": "pay", "pay-late": "pay", "other": ""}, "the first owner counts"

    def limits(group: str, topic: str) -> Thresholds:
        return rules.of(group, topic, rules.owner_of(group))

    assert limits("other", "orders.x") == rules.default == parse_thresholds(WORDS, JudgedBound.HIGH, str)
    batch = limits("pay-batch-1", "orders.x")
    assert (batch.critical.max_lag, batch.critical.max_time_lag_ms) == (10_000_000, None)
    assert batch.critical.statuses == {LagStatus.LOST}
    owned = limits("billing", "orders.x")
    assert (owned.critical.max_time_lag_ms, owned.warning.statuses) == (300_000, frozenset())
    assert owned.judge is JudgedBound.HIGH
    assert limits("pay-a", "other").critical.max_time_lag_ms == 60_000
    assert limits("billing", "other") == rules.default, "a rule with a topic is not about other topics"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules:\n- crit_lga: 5", "limits.yaml:2: unknown key 'crit_lga'; did you mean crit_lag?"),
        ("rule: []", "limits.yaml:1: unknown key 'rule'; did you mean rules?"),
        ("", "limits.yaml: holds no limits"),
        ("rules:\n- group: g\n  crit_lag: many", "limits.yaml:3: crit_lag 'many' is not a number of records"),
        ("rules:\n- warn_time: soon", "limits.yaml:2: warn_time 'soon' is not a duration"),
        ("rules:\n- crit_status: late", "limits.yaml:2: crit_status: 'late' is not a status"),
        ("rules:\n- crit_lag: ", "limits.yaml:2: crit_lag is empty"),
        ("rules:\n- group: [a, b]", "limits.yaml:2: group must be a text, found a list"),
        ("rules:\n- {}", "limits.yaml:2: a rule is empty"),
        ("rules: 5", "limits.yaml:1: a rule must be a mapping"),
        ("owners: {a: x}\nrules:\n- {owner: b, crit_lag: 1}", "limits.yaml:3: no owner is called 'b'"),
        ("owners:\n  a: []", "limits.yaml:2: owner a names no group"),
        ("owners:\n  a:", "limits.yaml:2: owner a names no group"),
        ("rules: &x []\nowners: *x", "limits.yaml:1:8: anchors and aliases"),
        ("rules:\n- {group: a, group: b}", "limits.yaml:2:14: the key 'group' is given twice"),
        ("rules: [", "limits.yaml:1:9: not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.message.startswith(told)


def test_known_keys_and_owners_are_the_hint() -> None:
    with pytest.raises(InputError) as caught:
        read("rules:\n- lag: 5")
    assert caught.value.hint == "known keys are group, topic, owner, " + ", ".join(LIMIT_KEYS)
    with pytest.raises(InputError) as caught:
        read("owners: {a: x, b: y}\nrules:\n- owner: c")
    assert caught.value.hint == "owners: a, b"


EVERY = LagLimits(max_lag=0, max_time_lag_ms=0, min_retention_left_ms=10**12, statuses=frozenset(LagStatus))


def judged(bench: Harness, at: int, moved: Mapping[tuple[str, str], str]) -> CheckResult:
    return check_lag([bench.table(at)], LimitRules(default=Thresholds(critical=EVERY)), moved)


def test_what_is_lost_stopped_or_soon_deleted_is_never_silenced() -> None:
    bench = Harness()
    bench.facts(TopicLogSettings(is_dense=True, is_log_append=True))
    bench.commit("dead", 10, 0)
    bench.commit("loses", 5, 0, topic="u")
    for minute in range(31):
        bench.end(90 + minute, minute * 60_000)
        bench.end(20_000, minute * 60_000, topic="u", start=50 + minute * 100)
    found = judged(bench, 1_800_001, {("c1", "t"): "run1", ("c1", "u"): "run1"})
    assert {b.text.split(",")[0].split(" in ")[0] for b in found.breaches} == {
        "status stopped", "status lost", "records are lost",
    }  # fmt: skip
    assert {b.text.split()[0] for b in found.silenced} == {"lag", "time"}
    assert found.silenced_count == len(found.silenced) == 3
    assert found.verdict is LagVerdict.CRITICAL
    assert judged(bench, 1_800_001, {("c2", "t"): "run1", ("c1", "v"): "run1"}).silenced == ()


def test_what_is_not_known_is_never_silenced() -> None:
    bench = Harness()
    bench.commit("g", 5, 0)
    found = judged(bench, 0, {("c1", "t"): "run1"})
    assert "the lag is not known now" in found.breaches[0].text
    assert found.silenced == ()


def state(hours_ago: float, **more: object) -> RunState:
    values = {"fingerprint": "sha256:0123456789", "unsettled": True, "began_at": NOW - timedelta(hours=hours_ago)}
    sent: Layers[TopicPartition, tuple[tuple[int, ...], ...]] = Layers(({TopicPartition("t", 0): ((1, 2),)},))
    return RunState(**{"trail": sent, **values, **more})  # type: ignore[arg-type]


def test_topics_of_unfinished_runs_are_silenced_for_a_bounded_time() -> None:
    def topics(*states: RunState) -> dict[tuple[str, str], str]:
        return moved_topics("c", states, NOW, 4 * 3600)

    assert topics(state(3.9)) == {("c", "t"): "01234567"}
    assert topics(state(4)) == {}
    assert topics(state(1, unsettled=False)) == {}
    assert topics(state(1, began_at=None)) == {}
    assert topics(state(1, trail=Layers())) == {}
    copies = Layers(({TopicPartitionReplica("u", 0, 1): ("/d",)},))
    later = state(1, fingerprint="sha256:fedcba98", dirs_sent=copies)
    assert topics(later, state(2)) == {("c", "t"): "fedcba98", ("c", "u"): "fedcba98"}


def held_back() -> LagTable:
    """A group at an open transaction, with 51 records behind it, since 100 s."""
    bench = Harness()
    bench.end(10, 0)
    bench.commit("g", 10, 1_000)
    bench.end(61, 2_000, stable=10)
    bench.end(61, 101_000, stable=10)
    return bench.table(102_000)


def test_a_group_that_is_held_back_is_not_ok() -> None:
    rules = LimitRules(default=Thresholds(warning=LagLimits(statuses=frozenset({LagStatus.HELD_BACK}))))
    found = check_lag([held_back()], rules)
    assert (found.verdict, found.summary) == (
        LagVerdict.WARNING,
        "LAG WARNING - c1 g t/0: status held_back: readers of committed data wait for a transaction open since "
        "2023-11-14 22:13:21Z",
    )
    found = check_lag([held_back()], LimitRules(default=Thresholds(critical=LagLimits(max_lag=10))))
    assert (found.verdict, found.breaches[0].text) == (
        LagVerdict.CRITICAL,
        "lag 51 up to the end of the log, past an open transaction, is above 10",
    )
    assert (
        check_lag([held_back()], LimitRules(default=Thresholds(critical=LagLimits(max_lag=51)))).verdict
        is LagVerdict.OK
    )


def test_a_group_that_all_members_left_at_a_transaction_is_stopped() -> None:
    described = GroupDescription(group="g", type=GroupType.CLASSIC, state=GroupState.EMPTY, had_members=True)
    bare, owned = held_back(), OwnedPartitions(as_of_ms=T0 + 102_000, left=left_by_all([described]))
    rules = LimitRules(default=Thresholds(critical=LagLimits(statuses=frozenset({LagStatus.STOPPED}))))
    found = check_lag([with_owned(bare, owned, stale_after_ms=90_000)], rules)
    assert (found.verdict, found.summary) == (
        LagVerdict.CRITICAL,
        "LAG CRITICAL - c1 g t/0: status stopped: the group has no members, and stands at a transaction open since "
        "2023-11-14 22:13:21Z",
    )
    (line,) = view([with_owned(bare, owned, stale_after_ms=90_000)], ViewLevel.GROUP_TOPIC).lines
    assert (line_data(line)["status"], line_data(line)["held_back_since_ms"]) == ("stopped", 1_700_000_001_000)
    waiting: list[GroupDescription | ItemError] = [
        replace(described, had_members=False),
        replace(described, state=GroupState.STABLE, members=(GroupMember(member_id="m", client_id="c", host="h"),)),
        ItemError(name="GroupAuthorizationFailedError"),
    ]
    for one in waiting:
        same = with_owned(bare, replace(owned, left=left_by_all([one])), stale_after_ms=90_000)
        assert LagStatus(int(same.status[0])) is LagStatus.HELD_BACK
    old = with_owned(bare, replace(owned, as_of_ms=T0), stale_after_ms=90_000)
    assert LagStatus(int(old.status[0])) is LagStatus.HELD_BACK, "who was a member then may be one again"


def test_what_holds_a_group_back_is_in_text_json_and_metrics() -> None:
    shown = view([held_back()], ViewLevel.GROUP_TOPIC)
    text = text_of(view_sections(shown, (), 0))
    assert "g t: readers of committed data wait for a transaction open since 2023-11-14 22:13:21Z; " in text
    assert "for readers of uncommitted data the lag is 51\n" in text
    data = line_data(shown.lines[0])
    assert (data["status"], data["lag"], data["uncommitted"]) == ("held_back", 0, 51)
    assert data["held_back_since_ms"] == 1_700_000_001_000
    samples = parse(exposition(families([held_back()])))
    key = (("cluster", "c1"), ("group", "g"), ("topic", "t"))
    assert samples["kafkakit_lag_uncommitted_records", key] == 51
    assert samples["kafkakit_lag_held_back_since_timestamp_seconds", key] == 1_700_000_001
    assert samples["kafkakit_lag_cluster_partitions", (("cluster", "c1"), ("status", "held_back"))] == 1
    assert samples["kafkakit_lag_status", key] == int(LagStatus.HELD_BACK)


def test_a_commit_beyond_the_end_is_critical_or_unknown_and_never_ok() -> None:
    bench = Harness()
    bench.commit("g", 1_000, 0)
    bench.end(10, 1_000)
    bench.commit("g", 10, 0, partition=1)
    bench.end(15, 1_000, partition=1)
    table = bench.table(2_000)
    critical = Thresholds(critical=LagLimits(max_lag=100, statuses=frozenset({LagStatus.AHEAD})))
    found = check_lag([table], LimitRules(default=critical))
    assert (found.verdict, found.summary) == (
        LagVerdict.CRITICAL, "LAG CRITICAL - c1 g t/0: status ahead: the commit is beyond the end of the log",
    )  # fmt: skip
    assert len(found.breaches) == 1
    for limits in (LagLimits(max_lag=100), LagLimits(max_time_lag_ms=1_000_000)):
        assert check_lag([table], LimitRules(default=Thresholds(critical=limits))).verdict is LagVerdict.UNKNOWN
    line = view([table], ViewLevel.GROUP_TOPIC).lines[0]
    assert (line.status, line.lag, line.unknown) == (LagStatus.AHEAD, 5, 1)
    note = "g t: commits beyond the end of the log, so the lag is not known: 1"
    assert note in text_of(view_sections(view([table], ViewLevel.GROUP_TOPIC), (), 0))


def test_the_numbers_of_statuses_are_those_of_earlier_versions() -> None:
    assert [status.word for status in sorted(LagStatus)] == [
        "ok", "unknown", "warning", "stalled", "stopped", "rewind", "lost", "held_back", "ahead", "no_commit",
    ]  # fmt: skip
    assert sorted(SEVERITY) == sorted(LagStatus)
    assert [SEVERITY[at] for at in severity(np.array([7, 3, 8, 9, 0]))] == [7, 3, 8, 9, 0]
