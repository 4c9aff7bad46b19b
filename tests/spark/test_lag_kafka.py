"""Commits read from brokers by Spark's own Kafka source."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from tests.integration.conftest import SandboxCluster, StartCluster, home, machine, run_folder, sandbox_cluster  # noqa: F401
from tests.integration.stream_clients import commit_with_kafka_python
from tests.spark.conftest import TODAY, StoreBuilder, run_job, spec_for

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:  # noqa: F811
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), offsets_partitions=PARTITIONS)
    yield cluster
    cluster.down()


def one_cluster(store: StoreBuilder) -> str:
    store.add("topics", [{"topic": OFFSETS_TOPIC, "partitions": PARTITIONS}])
    store.add("produced", [{"topic": "t", "partition": 0, "offset": 0, "at_ms": int(time.time() * 1000)}])
    return store.finish()


@pytest.mark.kafka
def test_each_commit_is_read_once(jvm: Any, store: StoreBuilder, broker: SandboxCluster, tmp_path: Path) -> None:
    from kafkakit_spark.jobs.lag import commits_from_kafka

    if not jvm.conf.get("spark.jars", ""):
        pytest.skip("the jars of Spark's Kafka source cannot be had")
    first, second = TopicPartition("t", 0), TopicPartition("u", 1)
    with closing(broker.open_admin()) as admin:
        for topic in ("t", "u"):
            assert admin.create_topic(topic, {0: (1001,), 1: (1001,)}, {}) is None
    began_ms = int(time.time() * 1000)
    for group, offset in (("one", 5), ("one", 9), ("two", 3), ("three\n", 4)):
        commit_with_kafka_python(broker, group, {first: (offset, ""), second: (offset * 10, "text")})
    properties = tmp_path / "client.properties"
    properties.write_text("# of a client\nsecurity.protocol = PLAINTEXT\n", encoding="ascii")
    rows = commits_from_kafka(jvm, broker.bootstrap_servers, PARTITIONS, str(properties)).collect()
    found = sorted((r["group"], r["topic"], r["partition"], r["committed"], r["metadata_bytes"]) for r in rows)
    pairs = [("one", 5), ("one", 9), ("three\n", 4), ("two", 3)]
    assert found == sorted(
        row for group, offset in pairs for row in ((group, "t", 0, offset, 0), (group, "u", 1, offset * 10, 4))
    )
    assert all(began_ms - 5000 <= r["at_ms"] <= time.time() * 1000 + 5000 for r in rows)
    assert len({(r["log_partition"], r["log_offset"]) for r in rows}) == len(rows)
    output = run_job(jvm, spec_for(one_cluster(store), "lag", kafka=broker.bootstrap_servers))
    (facts,) = (frame.collect() for frame in output.facts)
    assert facts[0]["commits"] == len(rows)


def test_two_clusters_are_refused(jvm: Any, store: StoreBuilder) -> None:
    store.add("topics", [{"topic": OFFSETS_TOPIC, "partitions": PARTITIONS}], cluster="c2")
    with pytest.raises(ValueError, match=f"lag.kafka reads one cluster, and the store has 2 on {TODAY}"):
        run_job(jvm, spec_for(one_cluster(store), "lag", kafka="localhost:1"))


@pytest.mark.kafka
def test_reading_nothing_is_an_error(
    jvm: Any, store: StoreBuilder, broker: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkakit_spark.jobs import lag as commits

    if not jvm.conf.get("spark.jars", ""):
        pytest.skip("the jars of Spark's Kafka source cannot be had")
    jvm.conf.set(commits.OLDER_LOOKUP, "false")
    monkeypatch.setattr(commits, "OLDER_LOOKUP", "spark.not.known")
    with pytest.raises(ValueError, match=r"Spark read no commit of __consumer_offsets from 127\.0\.0\.1"):
        run_job(jvm, spec_for(one_cluster(store), "lag", kafka=broker.bootstrap_servers))
