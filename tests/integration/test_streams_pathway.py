"""`streams pathway` on real brokers: records that a service consumes from one topic and produces to another."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from kafkakit.config.security import to_confluent
from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.pathways import (
    PathwayBuckets,
    PathwayNode,
    checkpoint_in,
    checkpoint_out,
    consume_tags,
    produce_tags,
)
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.test_streams_contract import open_groups
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.command_line import Home
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka

ORDERS, INVOICES = "pathway-orders", "pathway-invoices"
SHOP, BILLING = PathwayNode("shop", "test"), PathwayNode("billing", "test")
RECORDS, PATIENCE_S = 60, 180
SEND_MS, READ_MS, WRITE_MS = 3, 500, 700
"""After its first checkpoint each record is sent, consumed (later by its number in ms), and produced again."""


@pytest.fixture(scope="module")
def cluster(lease: LeaseClusters) -> SandboxCluster:
    return lease(SINGLE)[0]


def connection(cluster: SandboxCluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **to_confluent(cluster.security)}


def consumed(cluster: SandboxCluster, topic: str, partitions: int) -> list[Any]:
    """All records of a topic as a client gets them, headers and all."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    with closing(Consumer({**connection(cluster), "group.id": "none", "enable.auto.commit": False})) as client:
        client.assign([Place(topic, partition, 0) for partition in range(partitions)])
        deadline, found = time.monotonic() + PATIENCE_S, list[Any]()
        while len(found) < RECORDS and time.monotonic() < deadline:
            found += [record for record in client.consume(RECORDS, 1) if record.error() is None]
        return found


def send(client: Any, key: TopicPartition, number: int, headers: Sequence[Any], timestamp_ms: int = 0) -> None:
    value = f"{number}".encode()
    client.produce(key.topic, value, partition=key.partition, headers=list(headers), timestamp=timestamp_ms)


def shown(cluster: SandboxCluster, *words: str, code: int = 0) -> list[dict[str, Any]]:
    home = Home(cluster.home.folder)
    ran = home.run("--profile", cluster.name, "streams", "pathway", *words, "-o", "json")
    assert ran.code == code, ran.stdout + ran.stderr
    topics: list[dict[str, Any]] = ran.json["topics"]
    return topics


def test_latencies_over_two_topics_are_those_that_the_headers_determine(cluster: SandboxCluster) -> None:
    from confluent_kafka import Producer

    broker = cluster.broker_ids[0]
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic(ORDERS, {0: (broker,), 1: (broker,)}, {}) is None
        settings = {"message.timestamp.type": "LogAppendTime"}
        assert admin.create_topic(INVOICES, {0: (broker,)}, settings) is None
    begun_ms = int(time.time() * 1000) - 60_000
    buckets = PathwayBuckets()

    shop = Producer({**connection(cluster), "compression.codec": "lz4", "linger.ms": 50})
    for number in range(RECORDS):
        headers, _, point = checkpoint_out(SHOP, None, produce_tags(ORDERS), begun_ms)
        buckets.add(point)
        send(shop, TopicPartition(ORDERS, number % 2), number, [("own", b"x"), *headers], begun_ms + SEND_MS)
    assert shop.flush(PATIENCE_S) == 0
    out_hash = point.hash

    billing = Producer({**connection(cluster), "compression.codec": "zstd", "linger.ms": 50})
    records = consumed(cluster, ORDERS, 2)
    assert sorted(int(record.value()) for record in records) == list(range(RECORDS))
    before_ms = int(time.time() * 1000)
    for record in records:
        number = int(record.value())
        context, point = checkpoint_in(
            BILLING, record.headers(), consume_tags(ORDERS, "billing"), begun_ms + READ_MS + number
        )
        assert (point.parent, point.edge_ms) == (out_hash, READ_MS + number)
        buckets.add(point)
        headers, _, point = checkpoint_out(BILLING, context, produce_tags(INVOICES), begun_ms + WRITE_MS + number)
        assert (point.edge_ms, point.pathway_ms) == (WRITE_MS - READ_MS, WRITE_MS + number)
        buckets.add(point)
        send(billing, TopicPartition(INVOICES, 0), number, headers)
    assert billing.flush(PATIENCE_S) == 0
    after_ms = int(time.time() * 1000)

    orders, invoices = shown(cluster, ORDERS, INVOICES)
    assert [(one["records"], one["with_pathway"], one["unread"]) for one in (orders, invoices)] == [(60, 60, 0)] * 2
    (first,) = orders["pathways"]
    assert first["pathway"] == str(out_hash)
    assert (first["pathway_latency"]["records"], first["pathway_latency"]["max_ms"]) == (RECORDS, 0)
    assert first["edge_latency"]["p50_ms"] == first["edge_latency"]["max_ms"] == SEND_MS
    (second,) = invoices["pathways"]
    assert second["pathway"] == str(point.hash)
    assert (second["oldest_start_ms"], second["pathway_latency"]["max_ms"]) == (begun_ms, WRITE_MS + RECORDS - 1)
    assert second["pathway_latency"]["p50_ms"] == pytest.approx(WRITE_MS + (RECORDS - 1) // 2, rel=0.008, abs=0.5)
    produced_ms = [begun_ms + WRITE_MS + number for number in (RECORDS - 1, 0)]
    edge = second["edge_latency"]  # the broker's clock is this host's
    assert (before_ms - produced_ms[0]) * 0.992 <= edge["p50_ms"] <= edge["max_ms"] <= after_ms - produced_ms[1]

    assert sum(sums.edge_s.count for bucket in buckets.take() for sums in bucket.edges.values()) == 3 * RECORDS
    assert shown(cluster, ORDERS, "--records", "20")[0]["records"] == 20
    assert shown(cluster, ORDERS, "--since", "10s", code=1)[0]["records"] == 0
    assert shown(cluster, INVOICES, "--max-latency", "700ms", code=1)[0]["with_pathway"] == RECORDS
    assert shown(cluster, INVOICES, "--max-latency", "800ms")[0]["folded"] == 0

    with closing(open_groups(cluster)) as groups:
        read = TopicPartition(ORDERS, 0)
        until(lambda: groups.commit("billing", {read: CommittedOffset(offset=1)}) == {read: None})
    home = Home(cluster.home.folder)
    for topic in (ORDERS, INVOICES):
        ran = home.run("--profile", cluster.name, "streams", "link", topic[8:], "--topic", topic, "--yes")
        assert ran.code == 0, ran.stderr
    words = ("topology", "--pathways", "--service", "shop", "--env", "test", "-o", "json")
    graph = home.run("--profile", cluster.name, "streams", *words).json
    assert [(e["source"], e["group"], e["service"], e["target"], e["records"]) for e in graph["pathways"]] == [
        ("", "", "shop", "orders", RECORDS), ("orders", "billing", "billing", "invoices", RECORDS),
    ]  # fmt: skip
    found = graph["unexplained_records"]  # the control store has streams of other modules too
    assert {name: found[name] for name in ("orders", "invoices")} == {"orders": 0, "invoices": 0}
