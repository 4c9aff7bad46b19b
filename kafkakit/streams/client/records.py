"""A record as a handler gets it."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

from kafkakit.core.model import TopicPartition
from kafkakit.ports.stream_consumer import ReadRecord
from kafkakit.streams.client.decide.partition_work import RecordFields
from kafkakit.streams.client.decide.reading import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """Where records come from: stream, lane, segment, cluster and partition."""

    stream: str
    source: Source
    partition: TopicPartition


class StreamRecord:
    """One record of a stream. Its parts are read from the client's memory when they are asked for.

    `tries` is how often its handling failed before.
    """

    __slots__ = ("_read", "origin", "tries")

    def __init__(self, read: ReadRecord, origin: RecordOrigin, tries: int = 0) -> None:
        self._read = read
        self.origin = origin
        self.tries = tries

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self._read.offset()

    @property
    def key(self) -> bytes | None:
        """Its key."""
        return self._read.key()

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self._read.value()

    @property
    def timestamp_ms(self) -> int | None:
        """Its time; None where it has none."""
        kind, time_ms = self._read.timestamp()
        return time_ms if kind else None

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Its headers, in order; names may repeat."""
        return self._read.headers() or ()

    @property
    def lane(self) -> str:
        """The lane that it came by."""
        return self.origin.source.lane


FIELDS: RecordFields[ReadRecord] = RecordFields(
    time_ms=lambda record: max(0, record.timestamp()[1]), key=methodcaller("key"), size=len
)
