"""The producer over fake clusters: what is acknowledged is written, whatever route and clusters do meanwhile."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.records import OutgoingRecord
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.decide.figures import LaneFigures
from kafkakit.streams.client.decide.outgoing import (
    INGESTED_HEADER,
    BackPressureError,
    LanePausedError,
    NotAcknowledgedError,
    ProducerClosedError,
    ProducerLimits,
    RecordRefusedError,
    RecordTooLargeError,
    record_bytes,
)
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.lane_writer import LaneWriter
from kafkakit.streams.client.producer import Producer, RecordHooks, RecordStamps
from kafkakit.streams.model.record_identity import HEADER, decode_record_id
from kafkakit.streams.model.route import LaneRule, Segment, SegmentState
from tests.fakes.stream_cluster import FakeStreamProducer
from tests.rigs.stream_routes import FakeClusters
from tests.rigs.waiting import until

LIMIT_S = 120.0
QUICK = ProducerLimits(delivery_s=LIMIT_S, drain_s=0.05, refused_s=20)
SHORT = ProducerLimits(delivery_s=0.3, drain_s=0.05, refused_s=0.1)


@pytest.fixture
def fakes() -> FakeClusters:
    return FakeClusters()


@pytest.fixture
def first(fakes: FakeClusters) -> Segment:
    segment = fakes.segment("a")
    fakes.routes.create(segment)
    return segment


@pytest.fixture
def client(fakes: FakeClusters, first: Segment) -> Iterator[StreamClient]:
    client = fakes.client()
    yield client
    client.close(0)


@pytest.fixture
def producer(client: StreamClient) -> Producer:
    return client.producer("orders", limits=QUICK)


def live(producer: Producer) -> LaneFigures:
    (found,) = [lane for lane in producer.metrics().lanes if lane.lane == "live"]
    return found


def values(fakes: FakeClusters) -> list[bytes | None]:
    return [value for *_, value in fakes.logs()]


def log(fakes: FakeClusters) -> list[OutgoingRecord]:
    return [r for cluster in fakes.clusters.values() for topic in cluster.topics.values() for _, r in topic.log]


def test_brokers_see_each_lane_under_a_client_id_of_its_own(fakes: FakeClusters, producer: Producer) -> None:
    fakes.routes.change("slow", segments=(fakes.segment("a"),), paused=False)
    producer.send(b"1").result(LIMIT_S)
    producer.send(b"2", lane="slow").result(LIMIT_S)
    ids = {made.client_id for made in fakes.clusters["a"].producers}
    assert ids == {"kafkakit.orders.live", "kafkakit.orders.slow"}


def test_a_record_is_written_with_its_id_and_time(fakes: FakeClusters, first: Segment, producer: Producer) -> None:
    written = [producer.send(b"%d" % n, b"key", headers=[("own", None)]).result(LIMIT_S) for n in range(3)]
    assert [(w.segment, w.cluster_id, w.topic, w.attempts) for w in written] == [(1, "cluster-a", first.topic, 1)] * 3
    headers = [dict(record.headers) for _, record in fakes.clusters["a"].topics[first.topic].log]
    ids = [decode_record_id(found[HEADER] or b"") for found in headers]
    assert [found.sequence for found in ids if found] == [0, 1, 2]
    assert all(found["own"] is None and int(found[INGESTED_HEADER] or b"") > 1_700_000_000_000 for found in headers)
    assert not producer.flush(LIMIT_S)


def test_a_record_that_has_an_id_keeps_it_and_a_damaged_one_is_replaced(
    fakes: FakeClusters, first: Segment, producer: Producer
) -> None:
    one = producer.prepared(b"one")
    again = producer.prepared(b"again", headers=one.headers)
    assert again.headers == one.headers
    damaged = producer.prepared(b"x", headers=[(HEADER, b"damaged"), (HEADER, None)])
    assert [name for name, _ in damaged.headers] == [HEADER, INGESTED_HEADER]
    assert decode_record_id(dict(damaged.headers)[HEADER] or b"")


def test_records_go_to_the_new_segment_from_the_change_on(
    fakes: FakeClusters, first: Segment, producer: Producer
) -> None:
    producer.send(b"old").result(LIMIT_S)
    fakes.routes.move(fakes.segment("b"))
    until(lambda: producer.metrics().route.epoch == 2)
    assert producer.send(b"new").result(LIMIT_S).cluster_id == "cluster-b"
    assert (live(producer).counters.switches, live(producer).counters.sent_again) == (1, 0)
    # Back to the first cluster: another producer than before, which is closed by now.
    fakes.routes.move(fakes.segment("a"))
    until(lambda: producer.metrics().route.epoch == 3)
    assert producer.send(b"back").result(LIMIT_S).cluster_id == "cluster-a"
    until(lambda: [p.is_closed for p in fakes.clusters["a"].producers] == [True, False])


@pytest.mark.parametrize("loses_answers", [False, True])
def test_what_a_dead_cluster_does_not_acknowledge_is_sent_again(
    fakes: FakeClusters, first: Segment, producer: Producer, loses_answers: bool
) -> None:
    producer.send(b"before").result(LIMIT_S)
    fakes.clusters["a"].loses_answers, fakes.clusters["a"].is_away = loses_answers, not loses_answers
    deliveries = [producer.send(b"%d" % n) for n in range(50)]
    assert producer.flush(0.1).lanes == (("live", 50),)
    fakes.routes.move(fakes.segment("b"))
    written = [delivery.result(LIMIT_S) for delivery in deliveries]
    assert {(w.cluster_id, w.attempts) for w in written} == {("cluster-b", 2)}
    assert live(producer).counters.sent_again == 50
    assert len(values(fakes)) == (101 if loses_answers else 51)


def test_what_is_acknowledged_while_the_route_changes_is_not_sent_again(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=replace(QUICK, drain_s=20))
    producer.send(b"before").result(LIMIT_S)
    fakes.clusters["a"].is_away = True
    late = producer.send(b"late")
    fakes.routes.move(fakes.segment("b"))
    until(lambda: producer.metrics().route.epoch == 2)
    assert producer.send(b"new").result(LIMIT_S).cluster_id == "cluster-b"
    fakes.clusters["a"].is_away = False
    assert (late.result(LIMIT_S).cluster_id, late.result().attempts) == ("cluster-a", 1)
    assert live(producer).counters.sent_again == 0


def test_a_fence_that_comes_before_the_route_fails_no_record(
    fakes: FakeClusters, first: Segment, producer: Producer
) -> None:
    producer.send(b"before").result(LIMIT_S)
    fakes.clusters["a"].refusal = "MSG_SIZE_TOO_LARGE"
    fenced = [producer.send(b"%d" % n) for n in range(20)]
    assert producer.flush(0.1)
    fakes.routes.move(fakes.segment("b"))
    assert {delivery.result(LIMIT_S).cluster_id for delivery in fenced} == {"cluster-b"}


def test_a_record_that_stays_refused_fails_with_the_brokers_reason(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=replace(QUICK, refused_s=0.1))
    fakes.clusters["a"].refusal = "Broker: Message size too large"
    delivery = producer.send(b"x")
    with pytest.raises(NotAcknowledgedError, match="Message size too large") as raised:
        delivery.result(LIMIT_S)
    assert not raised.value.may_be_written
    fakes.clusters["a"].refusal = None
    assert producer.send(b"y").result(LIMIT_S).offset == 0


def test_a_producer_that_fails_for_good_is_replaced(fakes: FakeClusters, first: Segment, producer: Producer) -> None:
    producer.send(b"before").result(LIMIT_S)
    fakes.clusters["a"].fail_for_good()
    deliveries = [producer.send(b"%d" % n) for n in range(5)]
    assert {d.result(LIMIT_S).segment for d in deliveries} == {1}
    assert len(fakes.clusters["a"].producers) == 2
    assert len(values(fakes)) == 6


def test_a_fault_of_the_library_ends_one_connection_alone(
    fakes: FakeClusters, first: Segment, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.send(b"before").result(LIMIT_S)
    broken = fakes.clusters["a"].producers[0]
    monkeypatch.setattr(broken, "poll", lambda timeout_s: 1 / 0)
    until(lambda: broken.is_closed)
    assert producer.send(b"x").result(LIMIT_S).attempts == 1
    assert [p.is_closed for p in fakes.clusters["a"].producers] == [True, False]


def test_a_hung_cluster_is_noticed_by_our_own_time_limit(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=SHORT)
    producer.send(b"before").result(LIMIT_S)
    fakes.clusters["a"].is_away = True
    delivery = producer.send(b"x")
    assert live(producer).waiting_records == 1
    with pytest.raises(NotAcknowledgedError, match="given up after") as raised:
        delivery.result(LIMIT_S)
    assert raised.value.may_be_written
    fakes.clusters["a"].is_away = False
    until(lambda: live(producer).counters.late == 1)


def test_a_paused_lane_waits_until_it_is_resumed_or_the_time_ends(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    fakes.routes.change("live", paused=True)
    patient, hasty = client.producer("orders", limits=QUICK), client.producer("orders", limits=SHORT)
    waits, fails = patient.send(b"waits"), hasty.send(b"fails")
    with pytest.raises(LanePausedError, match="lane live is paused in epoch 2") as raised:
        fails.result(LIMIT_S)
    assert not raised.value.may_be_written
    assert "paused" in live(patient).problem
    fakes.routes.change("live", paused=False)
    assert waits.result(LIMIT_S).attempts == 1
    assert (values(fakes), live(patient).problem) == ([b"waits"], "")
    # Paused and resumed: the same segment with another producer, and no switch.
    fakes.routes.change("live", paused=True)
    until(lambda: fakes.clusters["a"].producers[-1].is_closed)
    more = patient.send(b"more")
    fakes.routes.change("live", paused=False)
    assert more.result(LIMIT_S).segment == 1
    assert live(patient).counters.switches == 0


def test_a_lane_that_cannot_write_holds_up_no_other(fakes: FakeClusters, first: Segment, client: StreamClient) -> None:
    producer = client.producer("orders", limits=replace(QUICK, lane_records=10))
    stuck = [producer.send(b"%d" % n, lane="slow") for n in range(10)]
    with pytest.raises(BackPressureError, match=r"lane slow holds 10 records.*\(lane slow is paused"):
        producer.send(b"11", lane="slow", wait_s=0.05)
    for n in range(30):
        producer.send(b"%d" % n).result(LIMIT_S)
    fakes.routes.move(fakes.segment("b"), "slow")
    assert {d.result(LIMIT_S).lane for d in stuck} == {"slow"}
    producer.send(b"11", lane="slow").result(LIMIT_S)


def test_a_lane_that_is_removed_takes_no_more_records(fakes: FakeClusters, first: Segment, producer: Producer) -> None:
    waiting = producer.send(b"x", lane="slow")
    route = fakes.routes.read()
    fakes.routes.write(replace(route, epoch=2, lanes=tuple(lane for lane in route.lanes if lane.name != "slow")))
    until(lambda: producer.metrics().route.epoch == 2)
    with pytest.raises(RecordRefusedError, match="has no lane 'slow'"):
        producer.send(b"y", lane="slow")
    assert not waiting.done()


def test_a_full_lane_takes_records_again_once_some_are_acknowledged(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=replace(QUICK, batch_bytes=1_000, lane_bytes=3_000))
    fakes.clusters["a"].is_away = True
    kept = [producer.send(bytes(850)) for _ in range(3)]
    threading.Timer(0.1, lambda: setattr(fakes.clusters["a"], "is_away", False)).start()
    kept.append(producer.send(bytes(850), wait_s=LIMIT_S))
    assert len([delivery.result(LIMIT_S) for delivery in kept]) == 4


def test_another_cluster_behind_an_address_is_refused(fakes: FakeClusters, client: StreamClient) -> None:
    producer = client.producer("orders", limits=QUICK)
    fakes.clusters["a"].cluster_id = "other"
    with pytest.raises(RefusedError, match="but the address of profile a answers as cluster other"):
        producer.send(b"x").result(LIMIT_S)
    assert values(fakes) == []
    fakes.routes.move(fakes.segment("b"))
    until(lambda: producer.metrics().route.epoch == 2)
    assert producer.send(b"y").result(LIMIT_S).cluster_id == "cluster-b"


def test_a_topic_that_was_created_again_is_refused(fakes: FakeClusters, first: Segment, client: StreamClient) -> None:
    fakes.clusters["a"].topics[first.topic].topic_id = "f" * 32
    with pytest.raises(RefusedError, match="it was deleted and created again"):
        client.producer("orders").send(b"x").result(LIMIT_S)


def test_a_missing_profile_fails_at_once(fakes: FakeClusters, first: Segment, client: StreamClient) -> None:
    producer = client.producer("orders", limits=QUICK)
    fakes.routes.move(replace(fakes.segment("b"), cluster="nowhere"))
    until(lambda: producer.metrics().route.epoch == 2)
    with pytest.raises(UsageError, match="there is no profile 'nowhere'"):
        producer.send(b"x").result(LIMIT_S)


def test_a_topic_that_brokers_do_not_know_yet_is_waited_for(
    fakes: FakeClusters, first: Segment, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=QUICK)
    topic = fakes.clusters["a"].topics.pop(first.topic)
    delivery = producer.send(b"x")
    until(lambda: live(producer).problem == f"cluster cluster-a has no topic {first.topic}")
    fakes.clusters["a"].topics[first.topic] = topic
    delivery.result(LIMIT_S)


def test_the_next_segment_is_connected_to_in_advance(fakes: FakeClusters, first: Segment, producer: Producer) -> None:
    producer.send(b"x").result(LIMIT_S)
    opened = fakes.segment("b", state=SegmentState.OPENED)
    fakes.routes.change("live", segments=(first, opened))
    until(lambda: len(fakes.clusters["b"].producers) == 1)
    producer.send(b"y").result(LIMIT_S)
    fakes.routes.move(replace(opened, state=SegmentState.ACTIVE))
    until(lambda: producer.metrics().route.epoch == 3)
    assert producer.send(b"z").result(LIMIT_S).cluster_id == "cluster-b"
    assert len(fakes.clusters["b"].producers) == 1
    # One that is taken back is let go of.
    gone = fakes.segment("a", state=SegmentState.OPENED)
    fakes.routes.change("live", segments=(replace(opened, state=SegmentState.ACTIVE), gone))
    until(lambda: len(fakes.clusters["a"].producers) == 2)
    fakes.routes.change("live", segments=(replace(opened, state=SegmentState.ACTIVE),))
    until(lambda: fakes.clusters["a"].producers[-1].is_closed)


def test_without_the_control_store_the_last_route_stays_in_use(
    fakes: FakeClusters, first: Segment, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.send(b"x").result(LIMIT_S)
    fakes.store.away = True
    until(lambda: "away" in producer.metrics().route.problem)
    assert producer.send(b"y").result(LIMIT_S).segment == 1
    assert producer.metrics().route.stale_s > 0
    fakes.store.away = False
    fakes.routes.move(fakes.segment("b"))
    until(lambda: producer.metrics().route.epoch == 2 and not producer.metrics().route.problem)
    said = [record.message for record in caplog.records if "stream orders" in record.message]
    assert ["stays in use" in said[0], "can be followed again" in said[-1], len(said)] == [True, True, 2]


def test_a_stream_without_a_route_and_a_store_that_is_away(fakes: FakeClusters, client: StreamClient) -> None:
    with pytest.raises(UsageError, match="there is no stream nothing"):
        client.producer("nothing")
    with pytest.raises(UsageError, match="is not a stream's name"):
        client.producer("a/../b")
    fakes.store.away = True
    with pytest.raises(TryLaterError, match="the control store is away"):
        fakes.client().producer("orders")


def test_rules_choose_the_lane_and_a_pathway_adds_headers(fakes: FakeClusters, client: StreamClient) -> None:
    fakes.routes.move(fakes.segment("b"), "slow")
    hooks = RecordHooks(
        choose_lane=lambda record, now_ms: "slow" if record.key == b"s" and now_ms > 1 else "live",
        pathway=lambda record, lane: (("pathway", lane.encode()), ("replaced", b"new")),
    )
    producer = client.producer("orders", limits=QUICK, hooks=hooks)
    places = [
        producer.send(b"x", key, headers=[("replaced", b"old")]).result(LIMIT_S).lane for key in (b"s", b"l", None)
    ]
    places.append(producer.send(b"x", b"s", lane="live").result(LIMIT_S).lane)
    assert places == ["slow", "live", "live", "live"]
    assert all(r.headers.count(("replaced", b"old")) == 0 for r in log(fakes))
    found = {dict(r.headers)["pathway"] for r in log(fakes)}
    assert found == {b"slow", b"live"}


def test_rules_that_a_route_gets_later_choose_the_lane_from_then_on(fakes: FakeClusters, producer: Producer) -> None:
    fakes.routes.move(fakes.segment("b"), "slow")
    until(lambda: producer.metrics().route.epoch == 2)
    assert producer.send(b"1", b"k").result(LIMIT_S).lane == "live"
    route = fakes.routes.read()
    fakes.routes.write(replace(route, epoch=3, rules=(LaneRule(lane="slow", where="key = k"),)))
    until(lambda: producer.metrics().route.epoch == 3)
    found = [producer.send(b"2", key).result(LIMIT_S).lane for key in (b"k", b"other", None)]
    assert found == ["slow", "live", "live"]


def test_the_size_of_a_record_is_the_same_with_headers_and_without(producer: Producer) -> None:
    sizes = []
    for key, headers in ((b"k", ()), (b"k", [("own", b"")]), (None, ()), (None, [("own", b"")])):
        before = live(producer).counters.bytes if producer.metrics().lanes else 0
        producer.send(b"value", key, headers=headers).result(LIMIT_S)
        sizes.append(live(producer).counters.bytes - before)
    header = record_bytes(OutgoingRecord(None, None, (("own", b""),))) - record_bytes(OutgoingRecord(None))
    assert (sizes[1] - sizes[0], sizes[3] - sizes[2], sizes[0] - sizes[2]) == (header, header, 1)


def test_threads_get_ids_of_their_own(fakes: FakeClusters, producer: Producer) -> None:
    threads = [threading.Thread(target=lambda: [producer.send(b"x") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not producer.flush(LIMIT_S)
    ids = [decode_record_id(dict(record.headers)[HEADER] or b"") for record in log(fakes)]
    assert sorted(found.sequence for found in ids if found) == list(range(2_000))


def test_a_pathway_that_fails_keeps_no_record_back(client: StreamClient) -> None:
    def fail(record: OutgoingRecord, lane: str) -> tuple[tuple[str, bytes | None], ...]:
        raise ZeroDivisionError

    producer = client.producer("orders", limits=QUICK, hooks=RecordHooks(pathway=fail))
    producer.send(b"x").result(LIMIT_S)
    assert producer.metrics().header_errors == 1


GARBAGE: list[tuple[dict[str, object], str]] = [
    ({"value": "text"}, "value is bytes or None, not str"),
    ({"value": bytearray(b"x")}, "value is bytes or None, not bytearray"),
    ({"value": 5}, "value is bytes or None, not int"),
    ({"key": "text"}, "key is bytes or None, not str"),
    ({"headers": [(b"name", b"x")]}, "name is text"),
    ({"headers": [("", b"x")]}, "name is text"),
    ({"headers": [("a\0b", b"x")]}, "without NUL"),
    ({"headers": [("a\ud800", b"x")]}, "UTF-8"),
    ({"headers": [("n" * 40_000, b"x")]}, "40,000 bytes"),
    ({"headers": [("a", "text")]}, "bytes or None, not str"),
    ({"headers": [("a",)]}, "pairs"),
    ({"headers": [None]}, "pairs"),
    ({"headers": 7}, "pairs"),
    ({"headers": [("a", b"")] * 1_001}, "at most 1,000"),
    ({"at_ms": -1}, "time"),
    ({"at_ms": 1.5}, "time"),
    ({"at_ms": 1 << 63}, "time"),
    ({"at_ms": True}, "time"),
    ({"partition": -1}, "partition"),
    ({"partition": 1 << 31}, "partition"),
    ({"lane": "no such lane"}, "has no lane 'no such lane'"),
    ({"lane": 7}, "has no lane '7'"),
    ({"lane": ""}, "has no lane ''"),
]


@pytest.mark.parametrize(("given", "told"), GARBAGE)
def test_what_kafka_does_not_take_is_refused_at_once(producer: Producer, given: dict[str, object], told: str) -> None:
    with pytest.raises(RecordRefusedError, match=told):
        producer.send(**{"value": b"x", **given})  # type: ignore[arg-type]


def test_strange_records_that_kafka_takes(fakes: FakeClusters, producer: Producer) -> None:
    for value, key in ((None, None), (b"", b""), (b"\0" * 10, b"\0\xff"), (b"x", bytes(1 << 20))):
        producer.send(value, key, headers=[("ü\n", b"\0"), ("same", b"1"), ("same", None)]).result(LIMIT_S)
    assert values(fakes) == [None, b"", b"\0" * 10, b"x"]


def test_a_partition_that_the_segment_has_not_is_refused(producer: Producer) -> None:
    with pytest.raises(RecordRefusedError, match="partition 2 is not one of the 2"):
        producer.send(b"x", partition=2).result(LIMIT_S)
    assert producer.send(b"x", partition=1).result(LIMIT_S).partition == 1


def test_a_record_above_the_limit_is_refused_with_its_size(client: StreamClient) -> None:
    producer = client.producer("orders", limits=replace(QUICK, batch_bytes=10_000))
    with pytest.raises(RecordTooLargeError, match=r"has 10,\d\d\d bytes, .* at most 10,000 before compression"):
        producer.send(bytes(9_990))
    producer.send(bytes(9_800)).result(LIMIT_S)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_bytes": 1},
        {"lane_bytes": 5},
        {"lane_records": 0},
        {"delivery_s": 0.0},
        {"drain_s": -1.0},
        {"linger_ms": 5_000},
        {"compression": "rar"},
        {"refused_s": float("nan")},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ProducerLimits(**wrong)  # type: ignore[arg-type]


def test_close_tells_what_is_not_acknowledged(fakes: FakeClusters, first: Segment, producer: Producer) -> None:
    producer.send(b"x").result(LIMIT_S)
    fakes.clusters["a"].is_away = True
    lost = [producer.send(b"%d" % n) for n in range(3)]
    report = producer.close(0.05)
    assert (report.lanes, report.records, bool(report)) == ((("live", 3),), 3, True)
    for delivery in lost:
        with pytest.raises(ProducerClosedError):
            delivery.result(0)
    for lane in ("live", "slow"):
        with pytest.raises(ProducerClosedError):
            producer.send(b"x", lane=lane)
    assert not producer.close()
    until(lambda: fakes.clusters["a"].producers[0].is_closed)


def test_a_closed_client_makes_no_producer_that_would_not_follow_the_route(
    fakes: FakeClusters, client: StreamClient, producer: Producer
) -> None:
    producer.send(b"x").result(LIMIT_S)
    client.close(0)
    for make in (client.producer, client.async_producer, lambda name: client.consumer(name, "g", handler=print)):
        with pytest.raises(UsageError, match="the client is closed"):
            make("orders")
    assert len(values(fakes)) == 1


def test_a_callback_may_send(producer: Producer) -> None:
    found: list[Delivery] = []
    producer.send(b"one").add_done_callback(lambda _: found.append(producer.send(b"two")))
    until(lambda: bool(found))
    found[0].result(LIMIT_S)


def test_a_callback_of_a_route_change_may_send_flush_and_read_metrics(
    fakes: FakeClusters, first: Segment, producer: Producer
) -> None:
    """A partition that the new segment has not fails within the change; its callback uses the producer."""
    fakes.clusters["a"].is_away = True
    found: list[Delivery] = []

    def after(_: object) -> None:
        found.append(producer.send(b"two"))
        producer.metrics()

    opened = fakes.segment("b", partitions=1, state=SegmentState.OPENED)
    producer.send(b"one", partition=1).add_done_callback(after)
    fakes.routes.change("live", segments=(first, opened))
    until(lambda: len(fakes.clusters["b"].producers) == 1)
    fakes.routes.move(replace(opened, state=SegmentState.ACTIVE))
    until(lambda: bool(found))
    assert found[0].result(LIMIT_S).cluster_id == "cluster-b"


def test_the_numbers_of_a_session_end_and_another_begins(producer: Producer) -> None:
    stamps = producer._stamps
    stamps._session = stamps._session[0], itertools.count((1 << 32) - 1)
    stamps._moment = stamps._made(0.0)
    last, following = producer.prepared(b"x"), producer.prepared(b"y")
    found = [decode_record_id(dict(record.headers)[HEADER] or b"") for record in (last, following)]
    assert [each.sequence for each in found if each] == [(1 << 32) - 1, 0]


def test_a_wall_clock_before_1970_stamps_the_beginning_of_time() -> None:
    class Early(SystemClock):
        def now(self) -> datetime:
            return datetime(1969, 12, 31, tzinfo=UTC)

    stamps = RecordStamps(Early(), bytes)
    (_, identity), (_, ingested) = stamps.headers(0.0)
    found = decode_record_id(identity or b"")
    assert (found and found.at_ms, ingested, stamps.now_ms(0.0)) == (0, b"0", 0)


def test_metrics_for_prometheus(client: StreamClient, producer: Producer) -> None:
    client.producer("orders")
    producer.send(b"x" * 100).result(LIMIT_S)
    text = client.exposition()
    lines = text.splitlines()
    assert 'kafkakit_producer_route_epoch{stream="orders",producer="1"} 1' in lines
    assert 'kafkakit_producer_acknowledged_records{stream="orders",producer="0",lane="live"} 1' in lines
    assert 'kafkakit_producer_writable{stream="orders",producer="0",lane="live"} 1' in lines
    assert text.count("# TYPE kafkakit_producer_records gauge") == 1


def test_asyncio(fakes: FakeClusters, first: Segment, client: StreamClient) -> None:
    async def run() -> None:
        limits = replace(QUICK, lane_records=20)
        async with client.async_producer("orders", limits=limits) as producer:
            written = await asyncio.gather(*[await producer.send(b"%d" % n) for n in range(200)])
            assert len({(w.partition, w.offset) for w in written}) == 200
            with pytest.raises(RecordRefusedError):
                await producer.send("text")
            fakes.clusters["a"].is_away = True
            held = [await producer.send(b"held") for _ in range(20)]
            with pytest.raises(BackPressureError):
                await producer.send(b"too much", wait_s=0.05)
            task = asyncio.ensure_future(held[0])
            await asyncio.sleep(0)
            task.cancel()
            fakes.routes.move(fakes.segment("b"))
            assert {(await delivery).cluster_id for delivery in held} == {"cluster-b"}
            assert not await producer.flush(LIMIT_S)

    asyncio.run(run())


FAULTS: dict[str, tuple[type, str]] = {
    "ticker": (LaneWriter, "tick"),
    "connection": (LaneWriter, "connected"),
    "answers": (LaneWriter, "answered"),
    "route": (LaneWriter, "follow"),
    "library": (FakeStreamProducer, "send"),
}


@pytest.mark.parametrize("place", FAULTS)
def test_a_fault_in_a_thread_of_the_producer_does_not_end_it(
    fakes: FakeClusters, producer: Producer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Records are written and given up in time after it, on the newest route."""
    owner, name = FAULTS[place]
    real, left = getattr(owner, name), [2]

    def fail(*given: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        return real(*given)

    producer.send(b"1").result(LIMIT_S)
    monkeypatch.setattr(owner, name, fail)
    second = fakes.segment("b")
    fakes.routes.move(second)
    until(lambda: producer.metrics().route.epoch == 2)
    with suppress(RuntimeError, RecordRefusedError):  # what fails in this thread, or for one record
        producer.send(b"2").result(LIMIT_S)
    until(lambda: delivered(producer) == second.topic)
    until(lambda: left == [0])
    until(lambda: not producer.metrics().route.problem)


def delivered(producer: Producer) -> str:
    try:
        return producer.send(b"3").result(LIMIT_S).topic
    except (RuntimeError, RecordRefusedError):
        return ""


def test_a_segment_without_a_thread_is_a_problem_of_its_lane_and_tried_again(
    fakes: FakeClusters, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.send(b"1").result(LIMIT_S)
    start, is_full = threading.Thread.start, threading.Event()

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("kafkakit-segment") and is_full.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    is_full.set()
    second = fakes.segment("b")
    fakes.routes.move(second)
    until(lambda: "no thread can be started" in live(producer).problem)
    waiting = producer.send(b"2")
    is_full.clear()
    assert waiting.result(LIMIT_S).topic == second.topic
    assert not live(producer).problem


@pytest.mark.parametrize("name", ["kafkakit-producer-orders", "kafkakit-clients-orders"])
def test_a_producer_without_its_threads_is_an_error_and_the_next_one_has_them(
    fakes: FakeClusters, client: StreamClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start, refused = threading.Thread.start, list[str]()

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name and not refused:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        client.producer("orders")
    client.producer("orders", limits=QUICK).send(b"1").result(LIMIT_S)
    (document,) = fakes.store.values("streams/orders/clients").values()
    assert b"producer" in document.value
