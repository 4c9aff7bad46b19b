"""Records on their way into Kafka, and what became of them."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

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


class Delivered(NamedTuple):
    """Where all in-sync replicas have a record; `at_ms` as the broker answered it."""

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
