"""Dual writes over fake clusters, and the comparison of both sides afterwards."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.streams.client import producer as dual
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.decide.outgoing import (
    BackPressureError,
    DualWriteError,
    ProducerClosedError,
    ProducerLimits,
)
from kafkakit.streams.client.producer import DualPolicy, DualProducer
from kafkakit.streams.model.record_identity import Reconciliation, SeenRecord, reconcile, seen_record
from tests.rigs.stream_routes import FakeClusters, Routes

LIMIT_S = 120.0
LIMITS = ProducerLimits(delivery_s=LIMIT_S, drain_s=0.05)
ALWAYS = (0, 1 << 48)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def fakes() -> FakeClusters:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    Routes(fakes.store, "copies").create(fakes.segment("b"))
    return fakes


@pytest.fixture
def client(fakes: FakeClusters) -> Iterator[StreamClient]:
    client = fakes.client()
    yield client
    client.close(0)


def seen(fakes: FakeClusters, cluster: str) -> list[SeenRecord | None]:
    topics = fakes.clusters[cluster].topics.values()
    return [seen_record(record.headers, record.key) for topic in topics for _, record in topic.log]


def compared(fakes: FakeClusters) -> Reconciliation:
    return reconcile(seen(fakes, "a"), seen(fakes, "b"), *ALWAYS)


def log_b(fakes: FakeClusters) -> list[bytes | None]:
    return [record.value for topic in fakes.clusters["b"].topics.values() for _, record in topic.log]


def test_both_sides_have_what_is_acknowledged(fakes: FakeClusters, client: StreamClient) -> None:
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=LIMITS)
    written = [producer.send(b"%d" % n, b"k") for n in range(100)]
    assert {delivery.result(LIMIT_S).cluster_id for delivery in written} == {"cluster-a"}
    found = compared(fakes)
    assert (found.is_equal, found.primary.identities, found.secondary.identities) == (True, 100, 100)
    assert producer.figures().written == 100


def test_both_is_not_acknowledged_by_one_side_alone(fakes: FakeClusters, client: StreamClient) -> None:
    limits = replace(LIMITS, delivery_s=0.2, drain_s=0)
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=limits)
    fakes.clusters["b"].is_away = True
    delivery = producer.send(b"x")
    with pytest.raises(DualWriteError, match="not written twice: the secondary: ") as raised:
        delivery.result(LIMIT_S)
    assert raised.value.primary is None
    assert raised.value.may_be_written
    assert compared(fakes).missing == 1


def test_a_secondary_that_takes_no_record_fails_its_delivery_alone(fakes: FakeClusters, client: StreamClient) -> None:
    producer = client.dual_producer("orders", "copies", DualPolicy.BOTH, limits=replace(LIMITS, lane_records=2))
    producer.secondary.close(0)
    with pytest.raises(DualWriteError) as raised:
        producer.send(b"x").result(LIMIT_S)
    assert isinstance(raised.value.secondary, ProducerClosedError)


def test_the_secondary_is_repaired_in_order(
    fakes: FakeClusters, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dual, "REPAIR_AGAIN_S", 0.05)
    limits = replace(LIMITS, delivery_s=0.3)
    producer = client.dual_producer("orders", "copies", DualPolicy.PRIMARY_THEN_REPAIR, limits=limits)
    producer.send(b"first", b"k").result(LIMIT_S)
    eventually(lambda: len(log_b(fakes)) == 1)
    fakes.clusters["b"].is_away = True
    for n in range(20):
        producer.send(b"%d" % n, b"k").result(LIMIT_S)
    eventually(lambda: producer.figures().failed > 0)
    assert producer.flush(0.05).lanes[-1][0] == "secondary/repairs"
    assert compared(fakes).missing == 20
    fakes.clusters["b"].is_away = False
    assert not producer.flush(LIMIT_S)
    found = compared(fakes)
    assert (found.is_equal, producer.figures().repair_waiting) == (True, 0)
    # Records that were sent again keep their order, so the last value of a key is the last one there.
    assert log_b(fakes)[-20:] == [b"%d" % n for n in range(20)]


def test_what_the_repair_queue_cannot_hold_is_counted_and_found(fakes: FakeClusters, client: StreamClient) -> None:
    first, second = client.producer("orders", limits=LIMITS), client.producer("copies", limits=LIMITS)
    fakes.clusters["b"].is_away = True
    clock = client._parts.clock
    producer = DualProducer(first, second, DualPolicy.PRIMARY_THEN_REPAIR, clock, repair_bytes=1_000)
    for n in range(20):
        producer.send(b"%d" % n).result(LIMIT_S)
    dropped = producer.figures().repair_dropped
    assert 10 < dropped < 20
    fakes.clusters["b"].is_away = False
    eventually(lambda: producer.figures().repair_waiting == 0)
    assert compared(fakes).missing == dropped
    assert len(compared(fakes).examples_missing) == 10
    producer.close()


def test_a_shadow_holds_up_nothing(fakes: FakeClusters, client: StreamClient) -> None:
    limits = replace(LIMITS, lane_records=10)
    producer = client.dual_producer("orders", "copies", DualPolicy.SHADOW, limits=limits)
    fakes.clusters["b"].is_away = True
    for n in range(30):
        assert producer.send(b"%d" % n).result(LIMIT_S).cluster_id == "cluster-a"
    assert producer.figures().failed == 20
    with pytest.raises(BackPressureError):
        producer.secondary.send(b"x", wait_s=0)
    assert producer.close(0.05).lanes == (("secondary/live", 10),)


def test_two_sides_are_two_streams(client: StreamClient) -> None:
    with pytest.raises(UsageError, match="needs two streams"):
        client.dual_producer("orders", "orders", DualPolicy.BOTH)


def test_threads_end_with_the_producer(fakes: FakeClusters) -> None:
    client = fakes.client()
    producer = client.dual_producer("orders", "copies", DualPolicy.PRIMARY_THEN_REPAIR, limits=LIMITS)
    producer.send(b"x").result(LIMIT_S)
    client.close(1)
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("kafkakit-")])


def test_a_comparison_tells_missing_extra_duplicate_and_other_keys(client: StreamClient) -> None:
    producer = client.producer("orders")
    records = [producer.prepared(b"%d" % n, b"%d" % n) for n in range(6)]
    sides = [seen_record(record.headers, record.key) for record in records]
    other_key = seen_record(records[4].headers, b"other")
    found = reconcile([*sides[:5], sides[0], None], [*sides[1:4], other_key, sides[5]], *ALWAYS)
    assert (found.missing, found.extra, found.other_key, found.is_equal) == (1, 1, 1, False)
    assert (found.primary.duplicates, found.primary.records, found.primary.without_identity) == (1, 6, 1)
    assert found.secondary.duplicates == 0
    assert (len(found.examples_missing), len(found.examples_extra), len(found.examples_other_key)) == (1, 1, 1)
    assert reconcile(sides, [], 0, 1).missing == 0
    with pytest.raises(UsageError, match="is empty"):
        reconcile([], [], 5, 5)
    assert seen_record((("kafkakit-id", b"damaged"),), None) is None
    assert seen_record((("kafkakit-id", None),), None) is None
    assert reconcile([SeenRecord(b"damaged", 0)], [], *ALWAYS).primary.without_identity == 1
