"""Headers that tell where a record of the retry, slow or DLQ lane came from and why, and rejected records by reference.

Each fact is a header of its own, its value decimal digits or UTF-8, so that every client can read it. The minimum is
uForwarder's DLQMetadata (topic, partition, offset, timestamp, tries). Every client that may write to the lane can write
these headers too: they are facts for people and tools, and grant nothing.

A reference is a record of a compacted topic, one for each record that a group has given up. The rules that keep every
rejected record:

* A consumer writes the entry, and has it acknowledged, before it commits a base above the rejected offset. Above base
  the REJECTED mark in the commit is enough.
* Whatever copies the record to the DLQ lane has the copy acknowledged before it writes the entry's tombstone. So after
  a crash between both the record is copied again, and never lost.

Dead letters of other frameworks are read by the headers that these write:

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
from dataclasses import dataclass, replace

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import topic_id_bytes, topic_id_text
from kafkakit.streams.model.route import check_lane, check_stream

PREFIX = "kafkakit-"
MAX_NUMBER = (1 << 63) - 1
MAX_HOPS = 1_000_000
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """Where a record lies: stream, lane, segment and route epoch of it, and its place. `at_ms` is the record's time."""

    stream: str
    lane: str
    segment: int
    epoch: int
    cluster_id: str
    topic: str
    partition: int
    offset: int
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailure:
    """Why a group gave a record up, or put it off: `tries` counts deliveries, `at_ms` is when the last one failed.

    Texts are cut to `LIMITS_BYTES` where they are written.
    """

    group: str
    reason: str
    at_ms: int
    tries: int = 0
    error_class: str = ""
    error_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The first place of a record, its last failure, and how often it was moved to another lane."""

    origin: RecordOrigin
    failure: RecordFailure
    hops: int = 1


LIMITS_BYTES = {"reason": 100, "error-text": 1000}
"""How long the value of a header may be; 255 bytes where it is not listed, as long as names of topics and groups."""
_LIMIT_BYTES = 255
_NAMES = (
    "stream", "lane", "segment", "epoch", "cluster", "topic", "partition", "offset", "timestamp-ms",
    "group", "reason", "failed-ms", "tries", "error-class", "error-text", "hops",
)  # fmt: skip
OWN_HEADERS = frozenset(PREFIX + name for name in _NAMES)
"""The names that are written here; headers of these names are replaced, all others are kept."""
RETRY_HEADER = PREFIX + "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStep:
    """Why a record is in the lane `retry`: `group` put it off for the `number`th time, until `due_ms` of the clock.

    Its header is `NUMBER:DUE_MS:GROUP`. It goes when the record is written to another lane.
    """

    number: int
    due_ms: int
    group: str

    def header(self) -> tuple[str, bytes]:
        """What the record carries."""
        return RETRY_HEADER, f"{self.number}:{self.due_ms}:{self.group}".encode()


def read_retry_step(headers: Headers) -> RetryStep | None:
    """The step in a record's headers, the last of several; None for none and for what is not one. Never raises."""
    value = next((value for name, value in reversed(headers) if name == RETRY_HEADER), None)
    try:
        number, due_ms, group = (value or b"").decode().split(":", 2)
        return RetryStep(number=_number(number), due_ms=_number(due_ms), group=group)
    except (UsageError, ValueError):
        return None


def provenance_headers(
    headers: Headers, here: RecordOrigin, failure: RecordFailure
) -> tuple[tuple[str, bytes | None], ...]:
    """The headers for the record's copy in another lane: its own ones, and those of its provenance.

    A record that has a provenance keeps its origin and gets another hop; for others `here`, where it was read, is the
    origin. The size stays the same however often a record is moved.
    """
    before = read_provenance(headers)
    found = Provenance(
        origin=before.origin if before else here,
        failure=failure,
        hops=min(before.hops + 1, MAX_HOPS) if before else 1,
    )
    kept = ((name, value) for name, value in headers if name not in OWN_HEADERS and name != RETRY_HEADER)
    return (*kept, *_write_headers(found))


def _write_headers(found: Provenance) -> list[tuple[str, bytes | None]]:
    origin, failure = found.origin, found.failure
    texts: dict[str, object] = {
        "stream": origin.stream,
        "lane": origin.lane,
        "segment": origin.segment,
        "epoch": origin.epoch,
        "cluster": origin.cluster_id,
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": origin.offset,
        "timestamp-ms": "" if origin.at_ms is None else origin.at_ms,
        "group": failure.group,
        "reason": failure.reason,
        "failed-ms": failure.at_ms,
        "tries": failure.tries,
        "error-class": failure.error_class,
        "error-text": failure.error_text,
        "hops": found.hops,
    }
    return [(PREFIX + name, cut_text(str(value), _limit(name))) for name, value in texts.items()]


def read_provenance(headers: Headers) -> Provenance | None:
    """The provenance in a record's headers; None where a fact is missing or cannot be. Never raises.

    Of several headers of a name the last one counts, as for Kafka's clients.
    """
    held: dict[str, bytes] = {}
    for name, value in headers:
        if name in OWN_HEADERS and value is not None:
            held[name.removeprefix(PREFIX)] = value
    if len(held) < len(_NAMES) or any(len(value) > _limit(name) for name, value in held.items()):
        return None
    try:
        texts = {name: value.decode() for name, value in held.items()}
        timestamp = texts["timestamp-ms"]
        return Provenance(
            origin=RecordOrigin(
                stream=check_stream(texts["stream"]),
                lane=check_lane(texts["lane"]),
                segment=_number(texts["segment"]),
                epoch=_number(texts["epoch"]),
                cluster_id=texts["cluster"],
                topic=texts["topic"],
                partition=_number(texts["partition"], (1 << 31) - 1),
                offset=_number(texts["offset"]),
                at_ms=_number(timestamp) if timestamp else None,
            ),
            failure=RecordFailure(
                group=texts["group"],
                reason=texts["reason"],
                at_ms=_number(texts["failed-ms"]),
                tries=_number(texts["tries"]),
                error_class=texts["error-class"],
                error_text=texts["error-text"],
            ),
            hops=_number(texts["hops"], MAX_HOPS),
        )
    except (ValueError, UsageError):
        return None


def _limit(name: str) -> int:
    return LIMITS_BYTES.get(name, _LIMIT_BYTES)


def bound_texts(failure: RecordFailure) -> RecordFailure:
    """The failure with its texts cut to what headers hold; the group's name stays, since it identifies."""
    return replace(
        failure,
        reason=cut_text(failure.reason, _limit("reason")).decode(),
        error_class=cut_text(failure.error_class, _limit("error-class")).decode(),
        error_text=cut_text(failure.error_text, _limit("error-text")).decode(),
    )


def cut_text(text: str, most_bytes: int) -> bytes:
    """The text as UTF-8, cut between characters; half of a surrogate pair becomes `?`."""
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore").encode()


def _number(text: str, most: int = MAX_NUMBER) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19) or int(text) > most:
        raise ValueError("not a number of these headers")
    return int(text)


REPLAY_GROUPS = "kafkakit-dlq-replay."
"""What the names of the groups begin with in whose commits replays keep what they have written again."""


def replay_group(stream: str) -> str:
    """The group that keeps what was replayed of a stream."""
    return REPLAY_GROUPS + stream


REJECTS_TOPIC = "__kafkakit_rejects"
REJECT_KIND = "stream-reject"
MAX_ENTRY_BYTES = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReject:
    """One entry: `place` is where the record lies now, in the topic with this id (16 bytes)."""

    topic_id: bytes
    place: RecordOrigin
    failure: RecordFailure

    @property
    def key(self) -> bytes:
        """The record's key: group, topic id, partition and offset, with slashes between."""
        place = f"{topic_id_text(self.topic_id)}/{self.place.partition}/{self.place.offset}"
        return f"{self.failure.group}/{place}".encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    place: RecordOrigin
    failure: RecordFailure


def encode_reject(entry: LedgerReject) -> tuple[bytes, bytes]:
    """Key and value of the entry's record, with texts cut as in headers; `UsageError` above `MAX_ENTRY_BYTES`."""
    value = encode_document(REJECT_KIND, _Body(place=entry.place, failure=bound_texts(entry.failure)))
    if len(value) > MAX_ENTRY_BYTES:
        raise UsageError(f"a rejected record's entry has {len(value):,} bytes, at most {MAX_ENTRY_BYTES:,}")
    return entry.key, value


def decode_reject(key: bytes | None, value: bytes) -> LedgerReject | None:
    """The entry in a record of the topic; None for anything else, also where key and value disagree. Never raises."""
    if key is None or len(value) > MAX_ENTRY_BYTES:
        return None
    try:
        body = decode_document(value, REJECT_KIND, _Body, REJECTS_TOPIC)
        topic_id = topic_id_bytes(key.decode("utf-8", "surrogatepass").rsplit("/", 3)[1])
        entry = LedgerReject(topic_id=topic_id, place=body.place, failure=body.failure)
    except (UsageError, ValueError, IndexError):
        return None
    numbers = (body.place.partition, body.place.offset, body.place.segment)
    if any(not 0 <= number <= MAX_NUMBER for number in numbers) or entry.key != key:
        return None
    return entry


_MOST_TEXT_BYTES = 4096
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


def _spring_names(prefix: str, original: str, exception: str) -> HeaderNames:
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
    _spring_names("kafka_dlt-", "kafka_dlt-original-", "kafka_dlt-exception-"),
    _spring_names("kafka_", "kafka_original-", "kafka_exception-"),
    _spring_names("", "x-original-", "x-exception-"),
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
        topic = _foreign_text(held, names.topic)
        if topic:
            break
    else:
        return None
    partition, offset = _foreign_number(held, names.partition), _foreign_number(held, names.offset)
    error_class, error_text = _foreign_text(held, names.error_class), _foreign_text(held, names.error_text)
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
            at_ms=_foreign_number(held, names.at),
        ),
        failure=RecordFailure(
            group=_foreign_text(held, names.group),
            reason=error_class.rpartition(".")[2] or "no reason",
            at_ms=at_ms or 0,
            error_class=error_class,
            error_text=error_text,
        ),
        hops=1,
    )


def _foreign_text(held: Mapping[str, bytes], name: str) -> str:
    return held.get(name, b"")[:_MOST_TEXT_BYTES].decode("utf-8", "replace").strip()


def _foreign_number(held: Mapping[str, bytes], name: str) -> int | None:
    value = held.get(name, b"")
    if value.isdigit() and len(value) <= 19:
        return min(int(value), MAX_NUMBER)
    if len(value) in _INT_BYTES and not value[0] & 0x80:
        return int.from_bytes(value, "big")
    return None
