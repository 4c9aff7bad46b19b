"""What clients on real clusters register: they have moved when nothing of theirs can reach an old segment any more."""

import threading
import time
from dataclasses import replace

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.core.errors import TryLaterError
from kafkakit.streams.client.api import ClientKind
from kafkakit.streams.client.api_act import read_clients
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.workers import StreamRecord
from tests.integration.test_streams_producer import LIMIT_S, LIMITS, Pair, client, files, pair, routes
from tests.rigs.stream_routes import Routes
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
__all__ = ["client", "pair", "routes"]


def epochs(pair: Pair, routes: Routes, kind: ClientKind = ClientKind.PRODUCER) -> list[int]:
    return [each.epoch for each in read_clients(files(pair), routes.stream) if each.kind is kind]


def test_a_producer_has_moved_once_what_it_sent_to_the_old_segment_is_delivered(
    pair: Pair, client: StreamClient, routes: Routes
) -> None:
    old, new = pair.segment("a", 1), pair.segment("b", 2)
    routes.create(old)
    producer = client.producer(routes.stream, limits=replace(LIMITS, drain_s=60))
    producer.send(b"first").result(LIMIT_S)
    until(lambda: epochs(pair, routes) == [1])  # a record waits 1 s at most for the registration
    with pair.clusters["a"].hung():
        late = [producer.send(b"late %d" % n) for n in range(50)]
        routes.move(new)
        until(lambda: producer.metrics().route.epoch == 2)
        assert producer.send(b"new").result(LIMIT_S).segment == 2
        time.sleep(1)  # several looks of the thread that registers
        assert epochs(pair, routes) == [1]
        assert not any(delivery.done() for delivery in late)
    until(lambda: epochs(pair, routes) == [2])
    assert {delivery.result(0).segment for delivery in late} == {1}
    client.close()
    until(lambda: epochs(pair, routes) == [])
    values = sorted(record.value for record in pair.read("a", old.topic))
    assert values == sorted([b"first", *(b"late %d" % n for n in range(50))])


def test_a_consumer_has_moved_once_it_reads_the_new_segment(pair: Pair, client: StreamClient, routes: Routes) -> None:
    new = pair.segment("b", 2)
    routes.create(pair.segment("a", 1))
    producer = client.producer(routes.stream, limits=LIMITS)
    lock, seen = threading.Lock(), set[bytes | None]()

    def handle(record: StreamRecord) -> None:
        with lock:
            seen.add(record.value)

    consumer = client.consumer(routes.stream, "billing", handler=handle)
    assert epochs(pair, routes, ClientKind.CONSUMER) == []
    with consumer:
        until(lambda: epochs(pair, routes, ClientKind.CONSUMER) == [1])
        with pair.clusters["b"].hung():
            routes.move(new)
            until(lambda: consumer.figures().epoch == 2)
            time.sleep(1)  # several looks of the thread that registers
            assert epochs(pair, routes, ClientKind.CONSUMER) == [1]
        until(lambda: epochs(pair, routes, ClientKind.CONSUMER) == [2])
        until(lambda: len({each.cluster_id for each in consumer.figures().partitions}) == 2)
        assert producer.send(b"new").result(LIMIT_S).segment == 2
        until(lambda: b"new" in seen)
    until(lambda: epochs(pair, routes, ClientKind.CONSUMER) == [])


def test_a_store_that_takes_nothing_harms_nothing(
    pair: Pair, client: StreamClient, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes.create(pair.segment("a", 1))
    seen = set[bytes | None]()

    def away(*_: object) -> int:
        raise TryLaterError("the store is away")

    monkeypatch.setattr(FileControl, "cas", away)
    producer = client.producer(routes.stream, limits=LIMITS)
    with client.consumer(routes.stream, "billing", handler=lambda record: seen.add(record.value)):
        sent = [producer.send(b"%d" % n) for n in range(500)]
        assert {delivery.result(LIMIT_S).segment for delivery in sent} == {1}
        until(lambda: len(seen) == 500)
    assert epochs(pair, routes) == []
    client.close()
