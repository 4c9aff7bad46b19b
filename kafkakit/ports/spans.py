"""Spans of a tracer around records that are written and handled."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Headers, OutgoingRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledRecords:
    """What a handler gets at once: a record, or a batch of one partition that begins at `offset`.

    `headers` are those of each record; `tries` is how often their handling failed before.
    """

    stream: str
    lane: str
    group: str
    partition: TopicPartition
    offset: int
    tries: int
    headers: Sequence[Sequence[tuple[str, bytes | None]]]
    is_batch: bool = False


class Spans(Protocol):
    """A tracer. No call raises for what a record holds, and none waits."""

    def created(self, stream: str, record: OutgoingRecord, lane: str) -> Headers:
        """Note that a record is handed over; the headers by which its readers know the trace."""
        ...

    def handling(self, records: HandledRecords) -> AbstractContextManager[object]:
        """A span around the handler, current for what it calls; an error that passes is noted in it."""
        ...
