"""Spans with the real package: a trace that goes on from producer to consumer, and what a handler's error leaves."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kafkakit.adapters.otel_spans import MOST_LINKS, OtelSpans, open_otel_spans
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Headers, OutgoingRecord
from kafkakit.streams.client.decide.reading import TopicSource
from kafkakit.streams.client.watch import AgentSender, TracedHandlers, WatchOptions, WatchParts
from kafkakit.streams.client.workers import PartitionOrigin, StreamRecord
from tests.fakes.group_consumer import FakeRecord

ORIGIN = PartitionOrigin(
    stream="orders",
    source=TopicSource(lane="slow", segment=1, cluster_id="c1", topic="o", topic_id=bytes(16)),
    partition=TopicPartition("o", 3),
)


class Traces:
    """A tracer of the SDK that keeps what ended."""

    def __init__(self) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.spans = OtelSpans(self.provider, "1")

    def ended(self) -> tuple[ReadableSpan, ...]:
        found: tuple[ReadableSpan, ...] = self.exporter.get_finished_spans()
        return found


@pytest.fixture
def traces() -> Iterator[Traces]:
    traces = Traces()
    yield traces
    traces.provider.shutdown()


def record(headers: Sequence[tuple[str, bytes | None]] = (), at: int = 7, tries: int = 0) -> StreamRecord:
    return StreamRecord((FakeRecord(at=at, the_value=b"value", the_headers=tuple(headers)), ORIGIN, tries))


def sent(traces: Traces) -> Headers:
    return traces.spans.created("orders", OutgoingRecord(value=b"12345"), "slow")


def test_a_record_carries_the_trace_to_its_handler_and_on(traces: Traces) -> None:
    found: list[Headers] = []
    headers = sent(traces)
    assert [name for name, _ in headers] == ["traceparent"]
    TracedHandlers(traces.spans, "billing").single(lambda _: found.append(sent(traces)))(record(headers, tries=2))  # type: ignore[misc]
    first, second, third = sorted(traces.ended(), key=lambda span: span.start_time or 0)
    assert [(span.name, span.kind) for span in (first, second, third)] == [
        ("create orders", SpanKind.PRODUCER),
        ("process orders", SpanKind.CONSUMER),
        ("create orders", SpanKind.PRODUCER),
    ]
    assert len({span.context.trace_id for span in (first, second, third)}) == 1
    assert (second.parent.span_id, third.parent.span_id) == (first.context.span_id, second.context.span_id)
    assert first.parent is None
    told = dict(second.attributes or {})
    assert told == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.consumer.group.name": "billing",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 7,
        "kafkakit.lane": "slow",
        "kafkakit.topic": "o",
        "kafkakit.tries": 2,
    }
    assert dict(first.attributes or {})["messaging.message.body.size"] == 5
    assert f"{third.context.span_id:016x}".encode() in (found[0][0][1] or b"")


def test_an_error_of_the_handler_passes_and_is_noted(traces: Traces) -> None:
    def fail(_: StreamRecord) -> None:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        TracedHandlers(traces.spans, "billing").single(fail)(record())  # type: ignore[misc]
    (span,) = traces.ended()
    assert span.status.status_code is StatusCode.ERROR
    assert span.parent is None
    assert [event.name for event in span.events] == ["exception"]


def test_a_batch_has_links_to_its_records(traces: Traces) -> None:
    headers = [sent(traces) for _ in range(3)]
    records = [record(each, at) for at, each in enumerate([*headers, ()])]
    answer = TracedHandlers(traces.spans, "billing").batch(lambda got: {1: ValueError(str(len(got)))})(records)  # type: ignore[misc]
    assert str((answer or {})[1]) == "4"
    *before, span = traces.ended()
    assert [link.context.span_id for link in span.links] == [each.context.span_id for each in before]
    assert span.parent is None
    assert dict(span.attributes or {})["messaging.batch.message_count"] == 4
    many = [record(headers[0], at) for at in range(MOST_LINKS + 10)]
    TracedHandlers(traces.spans, "billing").batch(lambda _: None)(many)  # type: ignore[misc]
    assert len(traces.ended()[-1].links) == MOST_LINKS


def test_tasks_have_spans_of_their_own(traces: Traces) -> None:
    async def handle(one: StreamRecord) -> None:
        mine = trace.get_current_span()
        await asyncio.sleep(0)
        assert trace.get_current_span() is mine
        if one.offset == 2:
            raise ZeroDivisionError

    async def run() -> list[object]:
        handler = TracedHandlers(traces.spans, "billing").asynchronous(handle)
        return await asyncio.gather(*(handler(record(at=n)) for n in range(4)), return_exceptions=True)  # type: ignore[misc]

    assert [type(found) for found in asyncio.run(run())].count(ZeroDivisionError) == 1
    assert len(traces.ended()) == 4
    assert [span.status.status_code for span in traces.ended()].count(StatusCode.ERROR) == 1


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", b"\xff\xfe")],
        [("traceparent", None)],
        [("traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
        [("traceparent", b"00-" + b"a" * 100_000)],
        [("tracestate", b"x" * 100_000), ("traceparent", b"")],
        [("", b"")],
    ],
)
def test_headers_that_hold_no_context_begin_a_trace(
    traces: Traces, headers: Sequence[tuple[str, bytes | None]]
) -> None:
    TracedHandlers(traces.spans, "billing").single(lambda _: None)(record(headers))  # type: ignore[misc]
    (span,) = traces.ended()
    assert (span.parent, span.name) == (None, "process orders")


def test_a_tracer_that_fails_fails_no_handler(
    traces: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> Span:
        raise RuntimeError("a sampler")

    monkeypatch.setattr(traces.spans._tracer, "start_span", fail)
    handled: list[StreamRecord] = []
    handler = TracedHandlers(traces.spans, "billing").single(handled.append)
    for _ in range(2):
        handler(record())  # type: ignore[misc]
    assert len(handled) == 2
    assert [line.message for line in caplog.records] == ["stream orders: records are handled without a span: a sampler"]


def test_there_are_spans_once_the_application_has_a_tracer(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_otel_spans("1") is None
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: traces.provider)
    assert isinstance(open_otel_spans("1"), OtelSpans)


def test_both_kinds_of_headers_go_with_a_record(traces: Traces) -> None:
    from kafkakit.adapters.host import SystemClock
    from kafkakit.streams.client.producer import RecordHooks

    parts = WatchParts(options=WatchOptions(service="shop"), open_spans=lambda: traces.spans)
    watch = AgentSender(parts, SystemClock(), lambda: (), lambda: ())
    hooks = watch.record_hooks("orders", RecordHooks())
    assert hooks.pathway is not None
    headers = hooks.pathway(OutgoingRecord(value=b"x"), "live")
    assert [name for name, _ in headers] == ["dd-pathway-ctx-base64", "traceparent"]
    watch.close()


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import kafkakit.streams.client.connect
from kafkakit.wiring import open_spans
assert open_spans() is None
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""


def test_the_client_works_without_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_an_absent_handler_stays_absent(traces: Traces) -> None:
    handlers = TracedHandlers(traces.spans, "billing")
    assert handlers.single(None) is None
    assert handlers.batch(None) is None
    assert handlers.asynchronous(None) is None


def test_a_state_that_is_too_long_is_left_out(traces: Traces) -> None:
    parent, state = sent(traces)[0], ",".join(f"key{n}={n:030}" for n in range(20)).encode()
    handler = TracedHandlers(traces.spans, "billing").single(lambda _: None)
    for kept in (state[:33], state):
        handler(record([parent, ("tracestate", kept)]))  # type: ignore[misc]
    _, short, long = traces.ended()
    assert (len(short.context.trace_state), len(long.context.trace_state)) == (1, 0)
    assert short.parent.trace_id == long.parent.trace_id
