"""Configurations compared: clusters, files, and earlier times; and the health queries."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import MetricSample
from kafkakit.lint.decide.files import read_text
from kafkakit.rollout.decide.plan import at_time, difference, row_of, side_of_cluster, side_of_files
from kafkakit.rollout.decide.rollout import Signal, datadog_queries, look_of, prometheus_queries
from tests.fakes.admin import FakeCluster
from tests.rigs.rollouts import DyingCluster, Harness

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def bench(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def other(tmp_path: Path) -> Harness:
    cluster = DyingCluster({11: "a", 12: "b", 13: "c"}, cluster_id="other")
    cluster.add_topic("a", {0: (11, 12, 13)}, configs={"retention.ms": "5"})
    return Harness(tmp_path / "other", cluster)


def test_clusters_with_other_brokers_are_compared_by_what_all_brokers_share(bench: Harness, tmp_path: Path) -> None:
    there = other(tmp_path)
    for broker in (11, 12, 13):
        there.cluster.brokers[broker].configs["log.retention.ms"] = "7"
    there.cluster.brokers[12].configs["num.io.threads"] = "9"
    bench.cluster.dynamic_default["log.cleaner.backoff.ms"] = "1"
    found = difference(side_of_cluster("x", bench.configs), side_of_cluster("y", there.configs))
    assert [row_of(each) for each in found] == [
        ("cluster default", "log.cleaner.backoff.ms", "1", "not set"),
        ("each broker", "log.retention.ms", "not set", "7"),
        ("broker 12", "num.io.threads", "not set", "9"),
        ("topic a", "retention.ms", "not set", "5"),
    ]


def test_of_a_file_only_its_resources_are_compared(bench: Harness) -> None:
    bench.cluster.topics["a"].configs.update({"retention.ms": "5", "segment.ms": "6"})
    bench.cluster.topics["b"].configs["retention.ms"] = "5"
    text = "kafkakit: cluster\nconfig: {num.io.threads: 9}\ntopics:\n  - name: a\n    config: {retention.ms: 7}\n"
    files = side_of_files("f", [read_text("f.yaml", text).pieces])
    live = side_of_cluster("live", bench.configs)
    assert [row_of(each) for each in difference(files, live)] == [
        ("each broker", "num.io.threads", "9", "not set"),
        ("topic a", "retention.ms", "7", "5"),
        ("topic a", "segment.ms", "not set", "6"),
    ]
    assert difference(live, live) == ()


def test_an_earlier_time_is_what_is_set_without_what_was_written_since(bench: Harness) -> None:
    bench.cluster.topics["b"].configs["retention.ms"] = "1"
    before = bench.clock.now()
    bench.apply(bench.plan("retention.ms=5", topics="a,b"))
    between = bench.clock.now()
    bench.clock.advance(60)
    bench.apply(bench.plan("retention.ms=6", topics="a"))
    writes = [write for _, state in bench.rollouts.journals.states() for write in state.writes]
    live = side_of_cluster("live", bench.configs)
    first, second = at_time(live, writes, before, "t0"), at_time(live, writes, between, "t1")
    assert [row_of(each) for each in difference(first, live)] == [
        ("topic a", "retention.ms", "not set", "6"),
        ("topic b", "retention.ms", "1", "5"),
    ]
    assert [row_of(each) for each in difference(second, live)] == [("topic a", "retention.ms", "5", "6")]
    assert isinstance(bench.cluster, FakeCluster)


def test_a_metrics_answer_is_a_look_and_old_samples_are_none() -> None:
    queries = prometheus_queries('namespace="k"', 10)
    assert 'isrshrinks_total{namespace="k"}[60s]' in queries.texts[Signal.SHRINKS]
    assert 'quantile="0.99",namespace="k"}' in queries.texts[Signal.REQUEST_MS]
    # Brokers count by topic, too, and once for all topics.
    assert queries.texts[Signal.CLIENT_ERRORS].count('{topic="",namespace="k"}[60s]') == 2
    fresh, old = NOW - timedelta(seconds=5), NOW - timedelta(seconds=500)
    look = look_of(
        {
            Signal.SHRINKS: (MetricSample({}, 0.5, fresh), MetricSample({}, 0.25, fresh)),
            Signal.REQUEST_MS: (
                MetricSample({}, 9.0, fresh),
                MetricSample({}, float("nan"), fresh),
                MetricSample({}, 4.0, fresh),
            ),
            Signal.EXPANDS: (MetricSample({}, 1.0, old),),
            Signal.CLIENT_ERRORS: (),
        },
        queries,
        NOW,
    )
    assert look.values == {Signal.SHRINKS: 7.5, Signal.REQUEST_MS: 9.0}
    assert look.problem == "ISR expands: the newest sample is too old; client errors: no series"


def test_queries_of_datadog_have_a_rollup_of_each_part() -> None:
    text = datadog_queries("kafka_cluster:prod", 30).texts[Signal.CLIENT_ERRORS]
    assert text.count(".rollup(avg, 30)") == 2
    assert text.count("{kafka_cluster:prod}") == 2
    assert "{*}" in datadog_queries("", 5).texts[Signal.SHRINKS]
