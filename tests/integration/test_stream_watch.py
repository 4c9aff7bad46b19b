"""A record's way through three services on real brokers, as pathways, traces, the page and an agent show it."""

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from kafkakit.streams.client import watch
from kafkakit.streams.client.connect import ConsumerOptions, WatchOptions, connect
from kafkakit.streams.client.decide.work_rules import RejectError
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.model.pathways import (
    HEADER,
    PathwayContext,
    consume_tags,
    decode_header,
    node_hash,
    pathway_hash,
    produce_tags,
)
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.metrics_http import Reply, Server, serving
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LIMIT_S = 120.0
RECORDS = 40
ORDERS, INVOICES = "watched-orders", "watched-invoices"  # other files on this home have other streams
SERVICES = ("shop", "billing", "mail")


@pytest.fixture(scope="module")
def cluster(lease: LeaseClusters) -> Iterator[SandboxCluster]:
    cluster = lease(SINGLE)[0]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in cluster.env.items():
            patched.setenv(name, value)
        yield cluster


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What ended, of a tracer as an application sets it; that of the process can be set once only."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def command(cluster: SandboxCluster, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "-o", "json", "streams", *words],
        env=cluster.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


Page = dict[str, list[tuple[dict[str, str], float]]]


def page(address: str) -> Page:
    with urlopen(f"http://{address}/metrics", timeout=LIMIT_S) as answer:
        text = answer.read().decode()
    found: Page = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def counted(found: Page, name: str, **labels: str) -> float:
    return sum(value for own, value in found.get(name, ()) if labels.items() <= own.items())


def sent_edges(agent: Server) -> dict[str, Counter[tuple[tuple[str, ...], int, int]]]:
    """By service, in how many buckets each edge was."""
    found: dict[str, Counter[tuple[tuple[str, ...], int, int]]] = {}
    for body in (msgspec.msgpack.decode(gzip.decompress(request.body)) for request in agent.got):
        edges = found.setdefault(body["Service"], Counter())
        for bucket in body["Stats"]:
            edges.update((tuple(one["EdgeTags"]), one["Hash"], one["ParentHash"]) for one in bucket["Stats"])
    return found


def backlogs(agent: Server, service: str) -> dict[str, int]:
    """The highest offset by its kind, of the partition of lane live."""
    found: dict[str, int] = {}
    for body in (msgspec.msgpack.decode(gzip.decompress(request.body)) for request in agent.got):
        for one in (one for bucket in body["Stats"] for one in bucket["Backlogs"] if body["Service"] == service):
            if any(tag.startswith("topic:") and ".live." in tag for tag in one["Tags"]):
                (kind,) = (tag for tag in one["Tags"] if tag.startswith("type:"))
                found[kind] = max(one["Value"], found.get(kind, 0))
    return found


def test_a_record_is_seen_on_all_of_its_way(
    cluster: SandboxCluster, traces: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PERIOD_S", 0.3)
    monkeypatch.setattr(watch, "CLOSE_S", LIMIT_S)
    ship = pathway_hash(node_hash("shop", "test", produce_tags(ORDERS)), 0)
    read = pathway_hash(node_hash("billing", "test", consume_tags(ORDERS, "billing")), ship)
    bill_ = pathway_hash(node_hash("billing", "test", produce_tags(INVOICES)), read)
    end = pathway_hash(node_hash("mail", "test", consume_tags(INVOICES, "mail")), bill_)
    topics: dict[str, int] = {}
    for stream in (ORDERS, INVOICES):
        command(cluster, "create", stream, "--partitions", "1", "--yes")
    with serving(Reply(b"{}")) as agent, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dogstatsd:
        dogstatsd.bind(("127.0.0.1", 0))
        dogstatsd.settimeout(LIMIT_S)
        options = {
            name: WatchOptions(
                service=name, env="test", version="7", agent=agent.url.removeprefix("http://"),
                dogstatsd=f"127.0.0.1:{dogstatsd.getsockname()[1]}" if name == "billing" else "", listen=":0",
            )
            for name in SERVICES
        }  # fmt: skip
        with (
            connect(cluster.name, watch=options["shop"]) as shop,
            connect(cluster.name, watch=options["billing"]) as billing,
            connect(cluster.name, watch=options["mail"]) as mail,
        ):
            lock, mailed, dead = threading.Lock(), Counter[bytes](), list[StreamRecord]()
            orders, invoices = shop.producer(ORDERS), billing.producer(INVOICES)

            def bill(record: StreamRecord) -> None:
                if record.value == b"bad":
                    raise RejectError("not an order")
                invoices.send(b"invoice " + (record.value or b""))

            async def write(record: StreamRecord) -> None:
                await asyncio.sleep(0)
                with lock:
                    mailed[record.value or b""] += 1
                    topics[record.origin.partition.topic] = bill_

            bills = billing.consumer(ORDERS, "billing", handler=bill)
            writes = mail.consumer(INVOICES, "mail", async_handler=write)
            buries = mail.consumer(ORDERS, "undertaker", handler=dead.append, options=ConsumerOptions(lanes=["dlq"]))
            writing = threading.Thread(target=lambda: asyncio.run(writes.run_async()))
            writing.start()
            bills.start()
            buries.start()
            for number in range(RECORDS):
                topics[orders.send(b"%d" % number).result(LIMIT_S).topic] = ship
            bad = orders.send(b"bad", headers=[("origin", b"till")])
            until(lambda: len(mailed) == RECORDS and dead)
            assert bad.result(LIMIT_S).attempts == 1
            until(lambda: bills.figures().total("lag") == 0 and writes.figures().total("lag") == 0)
            latency = {"name": "kafkakit_pathway_latency_seconds_count", "direction": "in", "pathway": str(read)}
            until(lambda: counted(page(billing.page_address), **latency))
            acked = {"name": "kafkakit_producer_acknowledged_records", "stream": INVOICES}
            until(lambda: counted(page(billing.page_address), **acked) == RECORDS)
            found = page(billing.page_address)
            packet, _ = dogstatsd.recvfrom(65_536)
            until(lambda: all(backlogs(agent, name) for name in ("billing", "mail")))
            writes.stop()
            writing.join(LIMIT_S)
            assert not writing.is_alive()
    assert set(mailed.values()) == {1}

    edges = sent_edges(agent)
    assert set(edges["shop"]) == {(produce_tags(ORDERS), ship, 0)}
    assert set(edges["billing"]) == {
        (consume_tags(ORDERS, "billing"), read, ship), (produce_tags(INVOICES), bill_, read),
    }  # fmt: skip
    assert (consume_tags(INVOICES, "mail"), end, bill_) in edges["mail"]
    assert backlogs(agent, "billing") == {"type:kafka_commit": RECORDS + 1, "type:kafka_produce": RECORDS}

    assert counted(found, "kafkakit_consumer_lag_records", stream=ORDERS, group="billing", lane="live") == 0
    assert counted(found, "kafkakit_consumer_handled_records", stream=ORDERS, lane="live") == RECORDS
    assert counted(found, "kafkakit_consumer_rejected_records", stream=ORDERS, lane="live") == 1
    assert counted(found, "kafkakit_consumer_dead_letters", stream=ORDERS) == 1
    assert counted(found, **acked) == RECORDS
    assert 1 <= counted(found, **latency) <= RECORDS + 1
    assert b"service:billing,env:test,version:7" in packet

    # The commands read the same from the brokers; a rejected record keeps the headers that it came with.
    assert len(topics) == 2
    for topic, hash_ in topics.items():
        (shown,) = command(cluster, "pathway", topic)["topics"]
        (pathway,) = shown["pathways"]
        assert pathway["pathway"] == str(hash_)
        assert shown["with_pathway"] == shown["records"] >= RECORDS
    (letter,) = dead
    kept = dict(letter.headers)
    assert kept["origin"] == b"till"
    context = decode_header(kept[HEADER] or b"")
    assert isinstance(context, PathwayContext)
    assert context.hash == ship

    spans: dict[int, list[ReadableSpan]] = {}
    for span in sorted(traces.get_finished_spans(), key=lambda span: span.start_time):
        spans.setdefault(span.context.trace_id, []).append(span)
    ways = Counter(tuple(span.name for span in each) for each in spans.values())
    assert ways == {
        tuple(f"{what} {stream}" for stream in (ORDERS, INVOICES) for what in ("create", "process")): RECORDS,
        (f"create {ORDERS}", f"process {ORDERS}", f"process {ORDERS}"): 1,
    }
    for way in spans.values():
        if len(way) == 4:
            assert [span.parent and span.parent.span_id for span in way[1:]] == [
                span.context.span_id for span in way[:3]
            ]
