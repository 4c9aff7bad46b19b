"""Where a dead letter of another framework came from, by the headers that the framework writes.

| framework | headers | numbers |
|---|---|---|
| Spring for Apache Kafka, dead letter and retry topics | `kafka_dlt-...`, `kafka_original-...` | big-endian |
| Spring Cloud Stream, binder for Kafka | `x-original-...`, `x-exception-...` | big-endian |
| Kafka Connect, `errors.deadletterqueue.context.headers.enable` | `__connect.errors....` | text |
| Kafka Streams, KIP-1034 | `__streams.errors....` | text |

Numbers are read in both forms: big-endian bytes that are all digits would be numbers that do not occur.
Of several headers of a name the first counts: Spring appends those of each further failure. All that can write to the
topic can write these headers: they are facts for people and tools, and grant nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.streams.model.provenance import Provenance, RecordFailure, RecordOrigin

Headers = Sequence[tuple[str, bytes | None]]
_MOST_BYTES = 4096
_MAX_NUMBER = (1 << 63) - 1
_INT_BYTES = (4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderNames:
    """The headers of one framework; "" for a fact that it does not write."""

    topic: str
    partition: str = ""
    offset: str = ""
    at: str = ""
    group: str = ""
    error_class: str = ""
    error_text: str = ""


def _spring(prefix: str, original: str, exception: str) -> HeaderNames:
    return HeaderNames(
        topic=f"{original}topic",
        partition=f"{original}partition",
        offset=f"{original}offset",
        at=f"{original}timestamp",
        group=f"{prefix}original-consumer-group",
        error_class=f"{exception}fqcn",
        error_text=f"{exception}message",
    )


FRAMEWORKS: tuple[HeaderNames, ...] = (
    _spring("kafka_dlt-", "kafka_dlt-original-", "kafka_dlt-exception-"),
    _spring("kafka_", "kafka_original-", "kafka_exception-"),
    _spring("", "x-original-", "x-exception-"),
    HeaderNames(
        topic="__connect.errors.topic",
        partition="__connect.errors.partition",
        offset="__connect.errors.offset",
        group="__connect.errors.connector.name",
        error_class="__connect.errors.exception.class.name",
        error_text="__connect.errors.exception.message",
    ),
    HeaderNames(
        topic="__streams.errors.topic",
        partition="__streams.errors.partition",
        offset="__streams.errors.offset",
        error_class="__streams.errors.exception",
        error_text="__streams.errors.message",
    ),
)
"""In this order: a record that went through retry topics has headers of the first two."""


def names_of(topic_header: str) -> HeaderNames:
    """The framework that writes this header, or for any other the same name with `partition` and `offset` in it."""
    known = next((names for names in FRAMEWORKS if names.topic == topic_header), None)
    if known is not None:
        return known
    head, found, tail = topic_header.rpartition("topic")
    if not found:
        return HeaderNames(topic=topic_header)
    return HeaderNames(topic=topic_header, partition=f"{head}partition{tail}", offset=f"{head}offset{tail}")


def read_foreign_provenance(
    headers: Headers, cluster_id: str, topic_header: str | None, at_ms: int | None
) -> Provenance | None:
    """The origin that the headers tell; None if none of them names a topic. Never raises.

    `topic_header` is the only one to look for; None: that of each framework. `at_ms` is the dead letter's own time.
    A partition that is not told is -1.
    """
    held: dict[str, bytes] = {}
    for name, value in headers:
        if value is not None:
            held.setdefault(name, value)
    for names in FRAMEWORKS if topic_header is None else (names_of(topic_header),):
        topic = _text(held, names.topic)
        if topic:
            break
    else:
        return None
    partition, offset = _number(held, names.partition), _number(held, names.offset)
    error_class, error_text = _text(held, names.error_class), _text(held, names.error_text)
    return Provenance(
        origin=RecordOrigin(
            stream="",
            lane="",
            segment=0,
            epoch=0,
            cluster_id=cluster_id,
            topic=topic,
            partition=-1 if partition is None else min(partition, (1 << 31) - 1),
            offset=-1 if offset is None else offset,
            at_ms=_number(held, names.at),
        ),
        failure=RecordFailure(
            group=_text(held, names.group),
            reason=error_class.rpartition(".")[2] or "no reason",
            at_ms=at_ms or 0,
            error_class=error_class,
            error_text=error_text,
        ),
        hops=1,
    )


def _text(held: Mapping[str, bytes], name: str) -> str:
    return held.get(name, b"")[:_MOST_BYTES].decode("utf-8", "replace").strip()


def _number(held: Mapping[str, bytes], name: str) -> int | None:
    value = held.get(name, b"")
    if value.isdigit() and len(value) <= 19:
        return min(int(value), _MAX_NUMBER)
    if len(value) in _INT_BYTES and not value[0] & 0x80:
        return int.from_bytes(value, "big")
    return None
