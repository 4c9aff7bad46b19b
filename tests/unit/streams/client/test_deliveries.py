"""What `send` gives back: results, waits, callbacks. Serializers before it, deserializers before handlers."""

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import error as StructError  # noqa: N812
from typing import Any

import pytest
import requests
from confluent_kafka.serialization import SerializationContext, SerializationError
from google.protobuf.message import DecodeError
from jsonschema import ValidationError

from kafkakit.adapters.kafka.stream_producer import serialization_contexts
from kafkakit.core.errors import TryLaterError
from kafkakit.core.records import OutgoingRecord
from kafkakit.streams.client.consumer import DeserializedHandlers, StreamConsumer
from kafkakit.streams.client.dead_letters import ConsumerHooks, RejectedRecord
from kafkakit.streams.client.decide.outgoing import RecordRefusedError
from kafkakit.streams.client.decide.reading import reading_plan
from kafkakit.streams.client.decide.work_rules import (
    DependencyDownError,
    DeserializationError,
    Mode,
    RejectError,
    RetryLaterError,
    WorkRules,
    deserialization_failure,
)
from kafkakit.streams.client.delivery import Delivery, WrittenRecord, settle
from kafkakit.streams.client.producer import AsyncProducer, RecordHooks
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecord, WrongReturnError
from tests.fakes.group_consumer import FakeGroups, FakeRecord
from tests.rigs.stream_routes import FakeClusters
from tests.rigs.waiting import until
from tests.unit.streams.client.test_dead_letters import FAST, PLACE, consumer, route, values

LIMIT_S = 120.0
WRITTEN = WrittenRecord("live", 1, "cluster-a", "orders.live.1", 0, 7, 1, 1)


def test_a_result_is_waited_for_by_several_threads() -> None:
    delivery, found = Delivery(), list[WrittenRecord]()
    threads = [threading.Thread(target=lambda: found.append(delivery.result(LIMIT_S))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert not delivery.done()
    settle([(delivery, WRITTEN)])
    for thread in threads:
        thread.join(LIMIT_S)
    assert (found, delivery.exception(), delivery.done()) == ([WRITTEN] * 3, None, True)


def test_a_wait_that_ends_without_a_result_leaves_nothing_behind() -> None:
    delivery = Delivery()
    for wait in (delivery.result, delivery.exception):
        with pytest.raises(TimeoutError):
            wait(0.001)
    assert not delivery._callbacks
    settle([(delivery, TryLaterError("no answer"))])
    assert isinstance(delivery.exception(), TryLaterError)
    with pytest.raises(TryLaterError, match="no answer"):
        delivery.result(0)


def test_callbacks_run_in_order_and_one_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    first, second, called = Delivery(), Delivery(), list[str]()
    first.add_done_callback(lambda done: called.append(f"1 {done.done()} {second.done()}"))
    first.add_done_callback(lambda _: 1 / 0)
    second.add_done_callback(lambda _: called.append("2"))
    with caplog.at_level(logging.ERROR, "kafkakit.streams.client"):
        settle([(first, WRITTEN), (second, WRITTEN)])
    second.add_done_callback(lambda _: called.append("after"))
    assert called == ["1 True True", "2", "after"]
    assert "a callback of a delivery" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt()], ids=repr)
def test_an_exit_in_a_callback_ends_no_thread_of_the_producer(error: BaseException) -> None:
    called = list[str]()

    def fail(_: Delivery) -> None:
        raise error

    def settled() -> None:
        first, second = Delivery(), Delivery()
        first.add_done_callback(fail)
        second.add_done_callback(lambda _: called.append("second"))
        settle([(first, WRITTEN), (second, WRITTEN)])
        called.append("on")

    thread = threading.Thread(target=settled)
    thread.start()
    thread.join(LIMIT_S)
    assert called == ["second", "on"]
    with pytest.raises(type(error)):  # Ctrl-C in the application's own thread
        settled()


def test_awaiting_a_delivery() -> None:
    async def run() -> None:
        early, late, never = Delivery(), Delivery(), Delivery()
        settle([(early, WRITTEN)])
        assert await early == WRITTEN
        threading.Timer(0.01, lambda: settle([(late, TryLaterError("gone"))])).start()
        with pytest.raises(TryLaterError, match="gone"):
            await asyncio.wait_for(late, LIMIT_S)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never, 0.001)
        assert not never._callbacks

    asyncio.run(run())


class Registry:
    """Serializers and deserializers as confluent-kafka's: of JSON, with the context noted, and failing as told."""

    def __init__(self) -> None:
        self.contexts: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.calls = 0

    def serialize(self, content: object, context: SerializationContext) -> bytes | None:
        self.note(context)
        context.headers.append(("schema", b"7"))  # as with ids of schemas in headers
        return None if content is None else json.dumps(content).encode()

    def deserialize(self, content: bytes | None, context: SerializationContext) -> object:
        self.note(context)
        if self.error is not None:
            raise self.error
        return None if content is None else json.loads(content)

    def note(self, context: SerializationContext) -> None:
        assert type(context) is SerializationContext
        self.calls += 1
        self.contexts.append((context.topic, str(context.field)))


def sent_records(fakes: FakeClusters) -> list[OutgoingRecord]:
    return [
        record for cluster in fakes.clusters.values() for topic in cluster.topics.values() for _, record in topic.log
    ]


def test_serializers_make_bytes_and_the_topic_of_their_context_is_the_stream() -> None:
    fakes, registry = FakeClusters(), Registry()
    fakes.routes.create(fakes.segment("a"))
    hooks = RecordHooks(key_serializer=registry.serialize, value_serializer=registry.serialize)
    client = fakes.client()
    try:
        producer = client.producer("orders", hooks=hooks)
        producer.send({"total": 3}, "anna", headers=[("trace", b"1")]).result(LIMIT_S)
        fakes.routes.move(fakes.segment("b"))
        producer.send(None, "anna", headers=[("trace", b"2")]).result(LIMIT_S)
        one, other = sent_records(fakes)
        awaited = asyncio.run(sent_by_asyncio(client.async_producer("orders", hooks=hooks)))
    finally:
        client.close(0)
    assert (one.value, one.key, other.value, other.key) == (b'{"total": 3}', b'"anna"', None, b'"anna"')
    assert one.headers[:3] == (("trace", b"1"), ("schema", b"7"), ("schema", b"7"))
    assert set(registry.contexts) == {("orders", "key"), ("orders", "value")}
    assert awaited.lane == "live"


async def sent_by_asyncio(producer: AsyncProducer) -> WrittenRecord:
    return await (await producer.send({"total": 4}, "bob"))


def test_a_serializer_that_raises_or_returns_text_sends_nothing() -> None:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    client = fakes.client()

    def fail(content: object, context: object) -> bytes:
        raise SerializationError("no order")

    try:
        producer = client.producer("orders", hooks=RecordHooks(value_serializer=fail))
        with pytest.raises(SerializationError, match="no order"):
            producer.send({"total": 3})
        odd = client.producer("orders", hooks=RecordHooks(key_serializer=lambda key, _: key))
        with pytest.raises(RecordRefusedError, match="not str"):
            odd.send(b"value", "text")
        with pytest.raises(RecordRefusedError) as plain:
            client.producer("orders").send({"total": 3})
    finally:
        client.close(0)
    assert "value_serializer" in (plain.value.hint or "")
    assert sent_records(fakes) == []


def deserialized(made: DeserializedHandlers, kind: str, handle: Callable[[StreamRecord], object]) -> dict[str, Any]:
    """A handler of each kind behind the deserializers."""

    async def asynchronous(record: StreamRecord) -> None:
        handle(record)

    def batched(records: Sequence[StreamRecord]) -> dict[int, BaseException]:
        errors: dict[int, BaseException] = {}
        for position, record in enumerate(records):
            try:
                handle(record)
            except ValueError as error:
                errors[position] = error
        return errors

    if kind == "batch":
        return {"batch_handler": made.batch(batched)}
    return {"async_handler": made.asynchronous(asynchronous)} if kind == "async" else {"handler": made.single(handle)}


@contextmanager
def running(made: StreamConsumer, kind: str) -> Iterator[StreamConsumer]:
    if kind != "async":
        with made:
            yield made
        return
    thread = threading.Thread(target=lambda: asyncio.run(made.run_async()))
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def behind(registry: Registry, mode: Mode = Mode.UNORDERED) -> DeserializedHandlers:
    hooks = ConsumerHooks(value_deserializer=registry.deserialize)
    return DeserializedHandlers("orders", hooks, mode, serialization_contexts())


@pytest.mark.parametrize("kind", ["single", "batch", "async"])
def test_bytes_that_cannot_be_deserialized_are_rejected_at_once(kind: str) -> None:
    """A handler gets objects, and never the record that is wrong; what is rejected has its bytes."""
    cluster, registry, rejected, seen = FakeGroups(), Registry(), list[RejectedRecord](), Counter[int]()
    cluster.make_topic(PLACE.topic, 1)
    cluster.write(PLACE, [*values(0, 40), b"{", *values(40, 50)])
    failed = list[int]()

    def handle(record: StreamRecord) -> None:
        if record.value == 20 and not failed:
            failed.append(record.offset)
            raise ValueError("once")
        assert (record.key, record.lane, len(record.headers)) == (b"%d" % record.value, "live", 0)
        assert record.timestamp_ms == 1_000 + record.offset
        seen[record.value] += 1

    work = WorkRules(mode=Mode.UNORDERED, retry=FAST)
    hooks = ConsumerHooks(reject=rejected.append)
    made = consumer(cluster, hooks=hooks, work=work, **deserialized(behind(registry), kind, handle))
    with running(made, kind):
        until(lambda: len(seen) == 50 and rejected)
        until(lambda: made.figures().partitions[0].base == 51)
    assert set(seen.values()) == {1}
    (letter,) = rejected
    assert (letter.record.value, letter.tries, letter.reason, letter.error) == (
        b"{", 1, "handler", "DeserializationError"
    )  # fmt: skip
    assert letter.text.startswith("value: JSONDecodeError: ")
    assert set(registry.contexts) == {("orders", "value")}


@pytest.mark.parametrize("kind", ["single", "batch", "async"])
def test_while_the_registry_is_away_records_wait_and_none_is_rejected(kind: str) -> None:
    cluster, registry, rejected, seen = FakeGroups(), Registry(), list[RejectedRecord](), Counter[int]()
    cluster.make_topic(PLACE.topic, 1)
    cluster.write(PLACE, values(0, 20))
    registry.error = ConnectionRefusedError("no registry")
    work = WorkRules(mode=Mode.UNORDERED, retry=FAST)
    given = deserialized(behind(registry), kind, lambda record: seen.update([record.value]))
    made = consumer(cluster, hooks=ConsumerHooks(reject=rejected.append), work=work, **given)
    with running(made, kind):
        until(lambda: registry.calls >= 20 + 5 * FAST.max_tries)
        figures = made.figures()
        assert (figures.dependencies_down, figures.total("handled")) == (("value deserializer",), 0)
        registry.error = None
        until(lambda: len(seen) == 20 and not made.figures().dependencies_down)
    assert set(seen.values()) == {1}
    assert rejected == []


def test_a_batch_comes_without_what_failed_and_without_later_records_of_its_key() -> None:
    made, got = behind(Registry(), Mode.KEY), list[list[int]]()
    pairs = [(b"a", b"0"), (b"b", b"{"), (b"a", b"2"), (b"b", b"3"), (None, b"{"), (None, b"5")]
    reads = [FakeRecord(at=at, the_key=key, the_value=value) for at, (key, value) in enumerate(pairs)]
    origin = PartitionOrigin(
        stream="orders", source=reading_plan(route(), None).sources["c1"][PLACE.topic], partition=PLACE
    )
    records = [StreamRecord((read, origin, 0)) for read in reads]

    def handle(some: Sequence[StreamRecord]) -> dict[int, BaseException]:
        got.append([record.value for record in some])
        return {1: KeyError("of the record 2")} if len(some) > 1 else {}

    handler = made.batch(handle)
    assert handler is not None
    errors = handler(records) or {}
    assert {at: type(error) for at, error in errors.items()} == {
        1: DeserializationError, 2: KeyError, 4: DeserializationError
    }  # fmt: skip
    assert got == [[0, 2, 5]]

    whole = behind(Registry(), Mode.PARTITION).batch(handle)
    assert whole is not None
    assert list(whole(records) or {}) == [1]
    assert got == [[0, 2, 5], [0]]

    def fail(some: Sequence[StreamRecord]) -> None:
        raise KeyError("all")

    handler = made.batch(fail)
    assert handler is not None
    assert {at: type(error) for at, error in (handler(records) or {}).items()} == {
        0: KeyError, 1: DeserializationError, 2: KeyError, 4: DeserializationError, 5: KeyError
    }  # fmt: skip
    wrong = made.batch(lambda some: [1])  # type: ignore[arg-type,return-value]
    assert wrong is not None
    with pytest.raises(WrongReturnError):
        wrong(records)


class SchemaRegistryError(Exception):
    """As confluent-kafka's, whose module needs packages that are optional."""

    def __init__(self, http_status_code: int, error_code: int, error_message: str) -> None:
        super().__init__(error_message)
        self.http_status_code, self.error_code = http_status_code, error_code


def status(number: int) -> SchemaRegistryError:
    return SchemaRegistryError(number, number * 100 + 3, "said the registry")


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


OUTAGES: list[Exception] = [
    ConnectionResetError("gone"), TimeoutError("late"), status(503), status(429),
    requests.exceptions.ConnectTimeout("late"), caused(SerializationError("rule failed"), ConnectionResetError("gone")),
    caused(ValueError("no schema"), status(500)),
]  # fmt: skip
POISON: list[Exception] = [
    SerializationError("unexpected magic byte"), ValueError("no number"), EOFError("short"), StructError("short"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), caused(SerializationError("not valid"), ValueError("no")),
    DecodeError("not a message"), ValidationError("missing field"),
]  # fmt: skip
TRIED_AGAIN: list[Exception] = [
    status(404), KeyError("total"), TypeError("a bug"), caused(SerializationError("a field"), KeyError("total"))
]  # fmt: skip


def test_the_kind_of_an_error_says_what_becomes_of_the_record() -> None:
    """An outage rejects nothing; bytes that are wrong never get right; what may be either is tried again."""
    for error in OUTAGES:
        found = deserialization_failure(error, "value")
        assert (type(found), found.__cause__) == (DependencyDownError, error), error
    for error in POISON:
        found = deserialization_failure(error, "key")
        assert (type(found), found.__cause__) == (DeserializationError, error), error
        assert str(found).startswith(f"key: {type(error).__name__}")
    own = [RejectError("no"), RetryLaterError(after_s=1), DependencyDownError("db")]
    for error in [*TRIED_AGAIN, *own]:
        assert deserialization_failure(error, "value") is error
    endless = ValueError("its own cause")
    endless.__cause__ = endless
    assert type(deserialization_failure(endless, "value")) is DeserializationError
