"""A record as a handler gets it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import methodcaller
from typing import overload

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import headers_of
from kafkakit.ports.stream_consumer import ReadRecord
from kafkakit.streams.client.decide.partition_work import RecordFields
from kafkakit.streams.client.decide.reading import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """Where records come from: stream, lane, segment, cluster and partition."""

    stream: str
    source: Source
    partition: TopicPartition


class StreamRecord(tuple[ReadRecord, RecordOrigin, int]):
    """One record of a stream. Its parts are read from the client's memory when they are asked for.

    A tuple of the client's record, its origin and its tries, since there are a million of them in a second.
    """

    __slots__ = ()

    @property
    def origin(self) -> RecordOrigin:
        """Where it comes from."""
        return self[1]

    @property
    def tries(self) -> int:
        """How often its handling failed before."""
        return self[2]

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        return self[0].offset()

    @property
    def key(self) -> bytes | None:
        """Its key."""
        return self[0].key()

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self[0].value()

    @property
    def timestamp_ms(self) -> int | None:
        """Its time; None where it has none."""
        kind, time_ms = self[0].timestamp()
        return time_ms if kind else None

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Its headers, in order; names may repeat."""
        return headers_of(self[0])

    @property
    def lane(self) -> str:
        """The lane that it came by."""
        return self[1].source.lane


def readable_headers(record: StreamRecord) -> Sequence[tuple[str, bytes | None]]:
    """Its headers, none where the client cannot read their names: for what must not fail the record."""
    try:
        return record.headers
    except Exception:
        return ()


FIELDS: RecordFields[ReadRecord] = RecordFields(
    time_ms=lambda record: max(0, record.timestamp()[1]), key=methodcaller("key"), size=len
)


class StreamRecords(Sequence[StreamRecord]):
    """Records of one origin, with the tries of all or of each.

    Each is made when it is asked for, so that thousands of them cost no memory.
    """

    __slots__ = ("_origin", "_reads", "_tries")

    def __init__(self, reads: Sequence[ReadRecord], origin: RecordOrigin, tries: int | Sequence[int]) -> None:
        self._reads, self._origin, self._tries = reads, origin, tries

    def __len__(self) -> int:
        return len(self._reads)

    def __iter__(self) -> Iterator[StreamRecord]:
        tries = repeat(self._tries) if isinstance(self._tries, int) else self._tries
        return map(StreamRecord, zip(self._reads, repeat(self._origin), tries, strict=False))

    @overload
    def __getitem__(self, at: int) -> StreamRecord: ...

    @overload
    def __getitem__(self, at: slice) -> "StreamRecords": ...

    def __getitem__(self, at: int | slice) -> "StreamRecord | StreamRecords":
        tries = self._tries
        if isinstance(at, slice):
            return StreamRecords(self._reads[at], self._origin, tries if isinstance(tries, int) else tries[at])
        return StreamRecord((self._reads[at], self._origin, tries if isinstance(tries, int) else tries[at]))
