"""What a source answered becomes sizes and free space; what is missing or makes no sense is named."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.metricsfetcher.decide import (
    DATADOG_QUERIES,
    FetchResult,
    Queries,
    QuerySet,
    StoreKind,
    StorePlace,
    datadog_queries,
    from_samples,
    from_snapshot,
    parse_place,
    prometheus_queries,
)
from tests.fakes.admin import FakeCluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GB = 10**9


def size(topic: str, partition: object, value: float, age_s: float = 0) -> MetricSample:
    return MetricSample({"topic": topic, "partition": str(partition)}, value, NOW - timedelta(seconds=age_s))


def free(broker: object, value: float, age_s: float = 0) -> MetricSample:
    return MetricSample({"broker_id": str(broker)}, value, NOW - timedelta(seconds=age_s))


def taken(sizes: list[MetricSample], frees: list[MetricSample], **more: Any) -> FetchResult:
    queries = Queries(sizes="s", free="f", **more)
    return from_samples("here", sizes, frees, queries, NOW)


def cluster() -> FakeCluster:
    made = FakeCluster({1: "a", 2: "b", 3: "c"}, dirs_per_broker=2)
    made.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=1_000)
    return made


def test_a_sound_answer_has_no_problems() -> None:
    found = taken([size("t", 0, 5.9), size("t", 1, 0)], [free(1001, GB), free(0, 2 * GB)])
    assert found.problems == ()
    assert found.reading.sizes.bytes_of == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
    assert found.reading.free.bytes_of == {1001: GB, 0: 2 * GB}
    assert (found.reading.sizes.times, found.reading.taken_at) == ({}, NOW)
    assert found.refusal(allow_partial=False) is None


def test_of_several_copies_the_largest_counts_and_the_smallest_is_kept() -> None:
    found = taken([size("t", 0, 5, 60), size("t", 0, 9), size("t", 0, 7)], [free(1, GB, 30)])
    key = TopicPartition("t", 0)
    assert (found.reading.sizes.bytes_of, found.reading.sizes.smallest_of) == ({key: 9}, {key: 5})
    assert found.reading.sizes.times == {key: NOW - timedelta(seconds=60)}
    assert found.reading.free.times == {1: NOW - timedelta(seconds=30)}


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (size("t", 1, math.nan), "1 series have no value: partition t-1"),
        (size("t", 1, -1), "1 values are not numbers of bytes: partition t-1 -1"),
        (size("t", 1, math.inf), "1 values are not numbers of bytes: partition t-1 inf"),
        (size("t", 1, 2.0**60), "1 values are not numbers of bytes: partition t-1 1.15292e+18"),
        (size("t", "x", 1), "1 series of sizes have no topic or no number of a partition: partition:x,topic:t"),
        (size("t", "٣", 1), "1 series of sizes have no topic or no number of a partition: partition:٣,topic:t"),
        (size("", 1, 1), "1 series of sizes have no topic or no number of a partition: partition:1,topic:"),
        (MetricSample({}, 1, NOW), "1 series of sizes have no topic or no number of a partition: no labels"),
        (size("t", 2, 1), "1 partitions are missing between others of their topic: t (1 of 3)"),
        (size("t", 1, 1, 1800), "1 series ended 30 min or more before the others: t-1"),
    ],
)
def test_a_bad_series_of_sizes_is_named_and_not_taken(bad: MetricSample, problem: str) -> None:
    found = taken([size("t", 0, 5), bad], [free(1, GB)])
    assert found.problems == (problem,)
    assert found.reading.sizes.bytes_of[TopicPartition("t", 0)] == 5
    refusal = found.refusal(allow_partial=False)
    assert refusal is not None
    assert "--allow-partial" in str(refusal)
    assert found.refusal(allow_partial=True) is None


@pytest.mark.parametrize(
    ("frees", "problem"),
    [
        ([free(1, GB), free("kafka-2", GB)], "1 series of free storage have no broker's number in broker_id: "
         "broker_id:kafka-2"),
        ([free(1, GB), free(2, math.nan)], "1 series have no value: broker 2"),
        ([free(1, GB), free(2, -5)], "1 values are not numbers of bytes: broker 2 -5"),
        ([free(1, GB), free(1, 2 * GB)], "1 brokers have several series of free storage, of which the lowest was "
         "taken: 1"),
        ([free(1, GB), free(2, GB, 1800)], "1 series ended 30 min or more before the others: broker 2"),
        ([free(1, 87.5), free(2, 12)], "no broker has more than 87 bytes free: the query may give another unit"),
    ],
)  # fmt: skip
def test_a_bad_series_of_free_storage_is_named(frees: list[MetricSample], problem: str) -> None:
    assert taken([size("t", 0, 5)], frees).problems == (problem,)


@pytest.mark.parametrize("half", ["sizes", "free"])
def test_an_empty_half_is_refused_even_where_partial_answers_are_not(half: str) -> None:
    found = taken([] if half == "sizes" else [size("t", 0, 1)], [] if half == "free" else [free(1, GB)])
    refusal = found.refusal(allow_partial=True)
    assert refusal is not None
    assert "so nothing was written" in str(refusal)


def test_names_that_datadog_shortens_are_restored_there_alone() -> None:
    given = [size("_consumer_offsets", 0, 1), size("_transaction_state", 0, 1), size("_x", 0, 1)]
    names = {key.topic for key in taken(given, [], renames_topics=True).reading.sizes.bytes_of}
    assert names == {"__consumer_offsets", "__transaction_state", "_x"}
    assert {key.topic for key in taken(given, []).reading.sizes.bytes_of} == {s.labels["topic"] for s in given}


def test_the_queries_are_those_of_kafka_kit() -> None:
    sent = datadog_queries(DATADOG_QUERIES, 3600)
    assert sent.sizes == ("max:kafka.log.partition.size{service:kafka} by {topic,partition}.rollup(avg, 3600)")
    assert sent.free == "avg:system.disk.free{service:kafka,device:/data} by {broker_id}.fill(last)"
    assert sent.behind_s == 5400


def test_a_selector_goes_into_both_queries() -> None:
    for names in QuerySet:
        asked = prometheus_queries(names, 'cluster="a"')
        assert asked.sizes == 'max by (topic, partition) (kafka_log_log_size{cluster="a"})'
        assert 'cluster="a"' in asked.free
        assert "SELECTOR" not in prometheus_queries(names, "").free


def test_brokers_give_the_largest_copy_and_the_spread() -> None:
    snapshot = cluster().snapshot(now=NOW)
    (topic,) = snapshot.topics
    # The copy on 3 is being made.
    changed = replace(topic.partitions[0], replicas=(1, 2, 3), adding=(3,), replica_bytes={1: 1_500, 2: 900, 3: 5})
    found = from_snapshot(replace(snapshot, topics=(replace(topic, partitions=(changed, topic.partitions[1])),)))
    assert found.problems == ()
    assert found.reading.sizes.bytes_of == {TopicPartition("t", 0): 1_500, TopicPartition("t", 1): 1_000}
    assert found.reading.sizes.smallest_of == {TopicPartition("t", 0): 900}
    assert set(found.reading.free.bytes_of) == {1, 2, 3}
    assert found.reading.source == "brokers of cluster fake-cluster"


def test_a_silent_or_dead_broker_and_an_offline_dir_are_named() -> None:
    rig = cluster()
    rig.hang(2)
    found = from_snapshot(rig.snapshot(now=NOW))
    assert found.problems == ("broker 2 gave no answer: no answer",)
    assert set(found.reading.free.bytes_of) == {1, 3}
    rig = cluster()
    rig.fail_dir(1, "/data/1/0")
    (line,) = from_snapshot(rig.snapshot(now=NOW)).problems[:1]
    assert "log dir /data/1/0 is offline" in line
    rig = cluster()
    rig.kill(1)
    rig.kill(2)
    assert any("no size is known of 1 partitions: t-0" in p for p in from_snapshot(rig.snapshot(now=NOW)).problems)


def test_only_what_the_cluster_has_is_taken_and_all_of_it_is_expected() -> None:
    sizes = [size("t", 1, 1), size("deleted", 7, math.nan), size("deleted", 8, 5, 7000)]
    snapshot = cluster().snapshot(now=NOW, sizes=False)
    found = from_samples("here", sizes, [free(1, GB), free(9, GB)], Queries(sizes="s", free="f"), NOW, snapshot)
    assert found.problems == (
        "1 partitions of the cluster have no size: t-0",
        "2 brokers of the cluster have no free storage: 2, 3",
    )
    assert set(found.reading.sizes.bytes_of) == {TopicPartition("t", 1)}
    assert set(found.reading.free.bytes_of) == {1}


def test_places() -> None:
    assert parse_place("topic:x", "--to") == StorePlace(StoreKind.TOPIC, "x")
    assert parse_place("file:/a:b", "--to") == StorePlace(StoreKind.FILE, "/a:b")
    assert parse_place("-", "--to").kind is StoreKind.STDOUT
    for text in ("", "topic", "topic:", "file:", "zookeeper:x", "-:", "s3:x"):
        with pytest.raises(UsageError, match="--to"):
            parse_place(text, "--to")
