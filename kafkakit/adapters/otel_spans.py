"""Spans of OpenTelemetry, with the context of a trace in the headers that W3C names.

https://opentelemetry.io/docs/specs/semconv/messaging/ and https://www.w3.org/TR/trace-context/
"""

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kafkakit.core.records import Headers, OutgoingRecord
from kafkakit.ports.streams import HandledRecords, Spans

HEADERS = frozenset({"traceparent", "tracestate"})
MOST_CHARS = 512
"""Longer headers are left out: a tracestate has as many at most."""
MOST_LINKS = 128
"""What a span of the SDK keeps."""
_LOG = logging.getLogger("kafkakit.streams.client")


def open_otel_spans(version: str) -> Spans | None:
    """Spans of the tracer provider that the application has set; None where it has set none."""
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else OtelSpans(provider, version)


class OtelSpans:
    """Implements `ports.streams.Spans`. Baggage is not written: records are kept, and what it says is not for them."""

    def __init__(self, provider: trace.TracerProvider, version: str) -> None:
        self._tracer = provider.get_tracer("kafkakit", version)
        self._propagator = TraceContextTextMapPropagator()
        self._has_failed = False

    def created(self, stream: str, record: OutgoingRecord, lane: str) -> Headers:
        """See `Spans`; a span of the kind PRODUCER that ends at once."""
        told = _attributes("create", stream, lane)
        told["messaging.message.body.size"] = len(record.value or b"")
        span = self._tracer.start_span(f"create {stream}", kind=trace.SpanKind.PRODUCER, attributes=told)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span))
        span.end()
        return tuple((name, value.encode()) for name, value in carrier.items())

    def handling(self, records: HandledRecords) -> AbstractContextManager[object]:
        """See `Spans`; a span of the kind CONSUMER: a child of the record's, or linked to those of a batch."""
        try:
            span: AbstractContextManager[object] = trace.use_span(self._started(records), end_on_exit=True)
        except Exception as error:  # of a sampler or a processor; a record is worth more than its trace
            if not self._has_failed:
                _LOG.warning("stream %s: records are handled without a span: %s", records.stream, error)
            self._has_failed = True
            return nullcontext()
        return span

    def _started(self, records: HandledRecords) -> trace.Span:
        told = {
            **_attributes("process", records.stream, records.lane),
            "messaging.consumer.group.name": records.group,
            "messaging.destination.partition.id": str(records.partition.partition),
            "messaging.kafka.offset": records.offset,
            "kafkakit.topic": records.partition.topic,
            "kafkakit.tries": records.tries,
        }
        contexts = [self._propagator.extract(_carrier(each), Context()) for each in records.headers[:MOST_LINKS]]
        links = []
        if records.is_batch:
            told["messaging.batch.message_count"] = len(records.headers)
            origins = (trace.get_current_span(context).get_span_context() for context in contexts)
            links = [trace.Link(origin) for origin in origins if origin.is_valid]
        return self._tracer.start_span(
            f"process {records.stream}",
            context=Context() if records.is_batch else contexts[0],
            kind=trace.SpanKind.CONSUMER,
            attributes=told,
            links=links,
        )


def _attributes(operation: str, stream: str, lane: str) -> dict[str, str | int]:
    """The destination is the stream: topics of lanes and segments come and go."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": stream,
        "kafkakit.lane": lane,
    }


def _carrier(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    return {
        name: value.decode("ascii", "replace")
        for name, value in headers
        if name in HEADERS and value is not None and len(value) <= MOST_CHARS
    }
