"""Records of a partition as values; records on their way into Kafka, and what became of them.

Where the one partition of a topic of kafkakit's own goes is decided here as well.
"""

import gc
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from operator import methodcaller
from typing import Any, NamedTuple

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import Broker, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition: at `offset` after the broker acknowledged it, or as it was read.

    Time and headers are those of records that were read; `at_ms` is None where the record has none. A tombstone that
    was read has an empty value and `is_null`.
    """

    partition: TopicPartition
    offset: int
    value: bytes
    key: bytes | None = None
    at_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False


UNREADABLE_HEADER = "kafkakit-unreadable-header"
"""In place of a header's name that is not UTF-8."""
_headers = methodcaller("headers")
"""The interpreter's own fast calls do not look whether a method that returns has set an error; this one does."""


def headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """The headers of a message of a client library.

    For a name that is not UTF-8, confluent-kafka (2.16) raises `SystemError` and keeps a list whose pairs lack their
    names: whatever reads such a pair later ends the process. Its parts are taken out without being read as pairs.
    """
    try:
        return _headers(message) or ()
    except SystemError:
        pairs = [gc.get_referents(pair)[::-1] for pair in gc.get_referents(_headers(message))[::-1]]
        message.set_headers([tuple(pair) if len(pair) == 2 else (UNREADABLE_HEADER, *pair) for pair in pairs])
        return _headers(message) or ()


Headers = tuple[tuple[str, bytes | None], ...]


class OutgoingRecord(NamedTuple):  # one or two are made for each record: a frozen dataclass takes three times as long
    """A record to be written.

    `value` None is a tombstone; `at_ms` None is the time of sending; `partition` None leaves the choice to the
    partitioner, by the key.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    at_ms: int | None = None
    partition: int | None = None


SentRecord = tuple[bytes | None, bytes | None, Headers, int | None, int | None]
"""The parts of an `OutgoingRecord`: a plain tuple of them is made in a quarter of the time."""


class DeliveredRecord(NamedTuple):
    """Where all in-sync replicas have a record; `at_ms` as the broker answered it.

    A producer's answers are plain tuples of these: one is made for each record, and a named one takes three times as
    long.
    """

    partition: int
    offset: int
    at_ms: int


class FailureKind(Enum):
    """Why a record has no acknowledgement.

    REFUSED: a broker refused it, so this attempt wrote nothing. After the others it may be written: UNANSWERED is a
    time that ended or a record taken back, FATAL a producer that writes nothing more.
    """

    REFUSED = auto()
    UNANSWERED = auto()
    FATAL = auto()


class NotDelivered(NamedTuple):
    """A record without an acknowledgement, with the reason in the client's words."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What one Kafka producer may hold and send.

    `record_bytes` bounds a record and, as batches are counted before compression, every batch that is written.
    """

    record_bytes: int
    linger_ms: int
    delivery_timeout_ms: int
    queue_bytes: int
    queue_records: int
    compression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """A topic as its cluster knows it: `partitions` is 0 for one that is not there, `topic_id` empty for one that has
    none."""

    cluster_id: str
    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFigures:
    """What a Kafka producer tells of itself: records and bytes that wait in it, bytes sent, and the worst broker's 99th
    percentile of the round trip in ms; None before the first figures came."""

    waiting_records: int
    waiting_bytes: int
    sent_bytes: int
    round_trip_p99_ms: float


MOST_REPLICAS = 3


def replicas_of_new_topic(brokers: Collection[Broker], topic: str) -> tuple[int, ...]:
    """Up to three live brokers, of different racks as far as there are any, lowest ids first; else `TryLaterError`."""
    alive = sorted((broker for broker in brokers if broker.is_alive), key=lambda broker: broker.id)
    chosen: list[Broker] = []
    for fresh_rack in (True, False):
        for broker in alive:
            seen = {other.rack for other in chosen}
            if broker not in chosen and len(chosen) < MOST_REPLICAS and (broker.rack not in seen or not fresh_rack):
                chosen.append(broker)
    if not chosen:
        raise TryLaterError(f"there is no live broker for topic {topic}")
    return tuple(broker.id for broker in chosen)
