"""Rules of drift at their boundaries, and the trend of disks."""

import json
import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.findings import Severity
from kafkakit.rules.cluster_facts import daily_slope, days_until, median
from kafkakit.rules.config_defs import config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import check_estate
from kafkakit.rules.families.drift import DriftKind, kind_of_drift, kind_of_partitions
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import Estate, LintCluster, LintTopic, TopicFacts
from tests.rigs.lint_examples import estate_of
from tests.rigs.rule_cases import SKIPPED, findings, rule_of, verdict

LIVE = "observed: {live: true}\n"


def seen(current: str, declared: str = "retention.ms: '1000'") -> str:
    return f"topics: [{{name: t, config: {{{declared}}}, observed: {{current: {{{current}}}}}}}]\n"


def peers(*values: str) -> str:
    listed = ", ".join(f"'{v}'" for v in values)
    own = "brokers: [{id: 1, config: {log.retention.ms: '1'}}]"
    return f"{own}\nobserved: {{peers: {{log.retention.ms: [{listed}]}}}}"


def two(first: str, second: str) -> str:
    return f"brokers: [{{id: 1, config: {{{first}}}}}, {{id: 2, config: {{{second}}}}}]"


def mirror(first: str, second: str, labels: str = "['mirror:a']") -> dict[str, str]:
    one = "cluster: {}\nlabels: {}\nbrokers: [{{id: 1, config: {{{}}}}}]\ntopics: [{{name: t, config: {{{}}}}}]"
    return {"a.yaml": one.format("a", "[]", "", first), "b.yaml": one.format("b", labels, "", second)}


def used(*days: int) -> str:
    return f"brokers: [{{id: 1, log_dirs: [{{path: /d, total_bytes: 100000, daily_used_bytes: {list(days)}}}]}}]"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKX001", seen("retention.ms: '1000'"), SKIPPED),
        ("KKX001", LIVE + seen("retention.ms: '1000'"), 0),
        ("KKX001", LIVE + seen("retention.ms: '2000'"), 1),
        ("KKX001", LIVE + seen(""), 1),
        (
            "KKX001",
            LIVE + "topics: [{name: t, partitions: 2, replication_factor: 1,"
            " observed: {partitions: [{partition: 0, replicas: [1, 2]}]}}]",
            2,
        ),
        ("KKX002", peers("2", "2"), 0),
        ("KKX002", peers("2", "2", "2"), 1),
        ("KKX002", peers("1", "1", "1"), 0),
        ("KKX002", peers(*["2"] * 19, "3"), 1),
        ("KKX002", peers(*["2"] * 18, "3"), 0),
        ("KKX002", "brokers: [{id: 1, config: {}}]", SKIPPED),
        ("KKX003", two("num.partitions: '1'", "num.partitions: '2'"), 1),
        ("KKX003", two("num.io.threads: '1'", "num.io.threads: '2'"), 0),
        ("KKX003", two("log.retention.hours: '1'", "log.retention.ms: '3600000'"), 0),
        ("KKX003", two("", "num.partitions: '1'"), 0),
        ("KKX003", "brokers: [{id: 1}, {id: 2}]", SKIPPED),
        ("KKX003", "brokers: [{id: 1}]", 0),
        ("KKX005", mirror("retention.ms: '1'", "retention.ms: '1'"), 0),
        ("KKX005", mirror("retention.ms: '1'", "retention.ms: '2'"), 1),
        ("KKX005", mirror("retention.ms: '1'", ""), 1),
        ("KKX005", mirror("retention.ms: '1'", "retention.ms: '2'", "[]"), 0),
        ("KKX005", mirror("retention.ms: '1'", "retention.ms: '2'", "['mirror:a', 'may_differ:retention.ms']"), 0),
        ("KKX006", "topics: [{name: t}]", SKIPPED),
        ("KKX006", LIVE + "topics: [{name: t}]", 1),
        ("KKX007", "brokers: [{id: 1, version: '4.0'}, {id: 2, version: '4.1'}]", SKIPPED),
        (
            "KKX007",
            "brokers: [{id: 1, version: '4.0'}, {id: 2, version: '4.1'}]\nobserved: {versions_differ_days: 7}",
            0,
        ),
        (
            "KKX007",
            "brokers: [{id: 1, version: '4.0'}, {id: 2, version: '4.1'}]\nobserved: {versions_differ_days: 8}",
            1,
        ),
        ("KKX008", "observed: {rollout: {isr_changes_per_min: 7, baseline_mean: 4, baseline_deviation: 1}}", 0),
        ("KKX008", "observed: {rollout: {isr_changes_per_min: 7.1, baseline_mean: 4, baseline_deviation: 1}}", 1),
        ("KKX008", "observed: {rollout: {unclean_elections: 1}}", 1),
        ("KKX008", "cluster: a\nobserved: {live: true}", SKIPPED),
        ("KKX009", used(*range(81_500, 82_200, 100)), 1),
        ("KKX009", used(*range(81_400, 82_100, 100)), 0),
        ("KKX009", used(*[84_000] * 7), 0),
        ("KKX009", used(*[85_000] * 7), 1),
        ("KKX009", used(*[85_000] * 6), SKIPPED),
        ("KKX009", "brokers: [{id: 1}]", SKIPPED),
    ],
)
def test_boundaries(code: str, text: str | dict[str, str], expected: int | str) -> None:
    assert verdict(code, text) == expected


def test_days_decide_on_the_severity() -> None:
    # 85,000 less 300 a day: 81,000 + 1,800 = 82,800 is 7.3 days away, 100 more is less than 7.
    (late,) = findings("KKX009", used(*range(81_000, 83_100, 300)))
    (soon,) = findings("KKX009", used(*range(81_300, 83_400, 300)))
    assert (late.severity, soon.severity) == (Severity.WARNING, Severity.ERROR)
    assert late.message == "/d reaches 85% in 7 days: 80.9 KiB of 97.7 KiB are used"


def test_drift_is_classed_by_what_applying_the_file_does() -> None:
    (found,) = findings("KKX001", LIVE + seen("retention.ms: '2000'"))
    assert found.message == (
        "retention.ms is 1000 in the file and 2000 in the cluster; applying the file is unsafe: records are deleted"
    )


@pytest.mark.parametrize(
    ("key", "live", "declared", "kind"),
    [
        ("retention.ms", "1000", "2000", DriftKind.SAFE),
        ("retention.ms", "-1", "2000", DriftKind.UNSAFE),
        ("retention.ms", "1000", "-1", DriftKind.SAFE),
        ("cleanup.policy", "compact", "delete", DriftKind.UNSAFE),
        ("unclean.leader.election.enable", "true", "false", DriftKind.SAFE),
        ("unclean.leader.election.enable", "false", "true", DriftKind.UNSAFE),
        ("segment.ms", "2", "1", DriftKind.SAFE),
    ],
)
def test_kinds_of_drift(key: str, live: str, declared: str, kind: DriftKind) -> None:
    assert kind_of_drift(key, live, declared)[0] is kind


def test_kinds_of_partitions() -> None:
    assert kind_of_partitions(3, 6)[0] is DriftKind.UNSAFE
    assert kind_of_partitions(6, 3)[0] is DriftKind.UNSUPPORTED


def test_topics_in_no_file_are_noted_where_files_declare_some() -> None:
    (cluster,) = estate_of({"a.yaml": LIVE + "topics: [{name: t, observed: {partitions: [{partition: 0}]}}]"}).clusters
    extra = LintTopic(name="extra", config=cluster.topics[0].config, is_declared=False)
    own = replace(extra, name="__consumer_offsets")
    rule = rule_of("KKX006")
    both = replace(cluster, topics=(*cluster.topics, extra, own))
    (found,) = check_estate(Estate(clusters=(both,)), [rule], Limits()).checked
    assert (found.finding.where, found.finding.severity) == ("topic extra", Severity.NOTE)
    alone = replace(cluster, topics=(extra,))
    assert not check_estate(Estate(clusters=(alone,)), [rule], Limits()).checked


SNAPSHOT = json.dumps(
    {
        "kafkakit": {"kind": "cluster-snapshot", "schema": 1},
        "cluster_id": "abc",
        "taken_at": "2026-01-01T00:00:00Z",
        "source": "test",
        "brokers": [{"id": 1}],
        "topics": [
            {
                "name": "t",
                "partitions": [{"partition": 0, "replicas": [1]}],
                "configs": {"retention.ms": "9", "segment.ms": "8"},
            },
            {"name": "extra", "partitions": [{"partition": 0, "replicas": [1]}]},
        ],
    }
)


def test_files_are_compared_with_a_snapshot() -> None:
    topics = "[{name: t, partitions: 1, config: {retention.ms: 5}}, {name: gone, partitions: 1}]"
    files = {"snapshot.json": SNAPSHOT, "a.yaml": f"cluster: c\ntopics: {topics}\n"}
    assert [f.message for f in findings("KKX001", files)] == [
        "segment.ms is 8 in the cluster, but not in the file",
        "retention.ms is 5 in the file and 9 in the cluster; applying the file is unsafe: records are deleted",
    ]
    assert sorted((f.where, f.severity) for f in findings("KKX006", files)) == [
        ("topic extra of c", Severity.NOTE),
        ("topic gone of c", Severity.WARNING),
    ]
    second = files | {"b.yaml": "cluster: c\ntopics: [{name: t, config: {segment.ms: 8}}]\n"}
    for order in (second, dict(reversed(second.items()))):
        assert len(findings("KKX001", order)) == 1
    alone = {"snapshot.json": SNAPSHOT}
    assert verdict("KKX001", alone) == verdict("KKX006", alone) == 0


@pytest.mark.parametrize(("days", "expected"), [(30, 0), (31, 1)])
def test_overrides_are_stale_after_30_days(days: int, expected: int) -> None:
    config = TopicConfig({"retention.ms": DeclaredValue("1", ValueSource.TOPIC)}, BrokerConfig(config_table("4.3")))
    facts = TopicFacts(override_age_s={"retention.ms": days * 86_400.0})
    topic = LintTopic(name="t", config=config, facts=facts, is_declared=False)
    cluster = LintCluster(name="", table=config_table("4.3"), topics=(topic,))
    found = check_estate(Estate(clusters=(cluster,)), [rule_of("KKX004")], Limits())
    assert len(found.checked) == expected


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median_is_that_of_the_library(values: list[float]) -> None:
    assert median(values) == statistics.median(values)


def test_single_days_and_weekends_do_not_bend_the_trend() -> None:
    steady = [100.0 + day for day in range(28)]
    spiky = [value + (500 if day == 11 else 0) for day, value in enumerate(steady)]
    weekly = [value - (40 if day % 7 in (5, 6) else 0) for day, value in enumerate(steady)]
    assert daily_slope(steady) == daily_slope(spiky) == daily_slope(weekly) == 1.0
    assert days_until(steady, 137.0) == 10.0
    assert days_until(weekly, 137.0) == 10.0
    assert days_until([5.0] * 7, 6.0) is None
    assert days_until([7.0] * 7, 6.0) == 0.0
    assert days_until(steady[::-1], 1000.0) is None
    assert math.isclose(days_until([10.0, 11.0], 13.0) or 0.0, 2.0)
