"""Reading records at an offset. Writes nothing and joins no group.

Cost: metadata, the ends of the log, and fetches from its leader; for records of transactions, and for batches
compressed with snappy or lz4, a consumer that reads the same offsets as well.
"""

from contextlib import closing
from itertools import islice

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import OperationFailedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.core.records import Record
from kafkakit.ports.clock import Clock
from kafkakit.ports.data import DataPlane
from kafkakit.ports.log import LogReader
from kafkakit.streams.records.decide import Entry, Found, entries_of, resolved

FETCH_BYTES = 1 << 20
WAIT_MS = 500
MOST_BYTES = 64 << 20
"""Reading stops once the records found have this many bytes."""


class RecordReader:
    """Reads records of one cluster; each wait for it lasts at most `wait_s`."""

    def __init__(self, log: LogReader, data: DataPlane, clock: Clock, *, wait_s: float) -> None:
        self._log, self._data, self._clock, self._wait_s = log, data, clock, wait_s

    def read(self, key: TopicPartition, offset: int, count: int) -> Found:
        """Up to `count` entries of the log from the offset on, none where the log does not hold the offset.

        Raises `UsageError` for a partition that does not exist, `TryLaterError` for a leader that does not answer,
        and `OperationFailedError` for bytes that are no records.
        """
        places = self._log.places([key.topic]).get(key.topic)
        if places is None:
            raise UsageError(f"topic {printable(key.topic)} does not exist")
        if key.partition not in places.leaders:
            raise UsageError(f"topic {printable(key.topic)} has no partition {key.partition}")
        span = self._log.spans([key])[key]
        if isinstance(span, ItemError):
            raise TryLaterError(f"the ends of {printable(str(key))} cannot be read: {span}")
        found = Found(key=key, offset=offset, span=span)
        if not span.start <= offset < span.end:
            return found
        entries = self._raw(key, offset, span.end, count)
        wanted = [e for e in entries if (e.is_sealed or e.batch.is_transactional) and e.last < span.stable]
        committed, is_whole = self._committed(key, wanted[0].offset, wanted[-1].last) if wanted else ({}, True)
        shown = islice(resolved(entries, span.stable, committed, is_whole=is_whole), count)
        return Found(key=key, offset=offset, span=span, entries=tuple(shown))

    def _raw(self, key: TopicPartition, offset: int, end: int, count: int) -> list[Entry]:
        """The entries as the raw log has them; a sealed batch counts as one."""
        entries: list[Entry] = []
        at, held, size = offset, 0, 0
        while at < end and held < count and size < MOST_BYTES:
            before, reason = at, "the leader gave no records from there on"
            for entry in entries_of(self._fetched(key, at), at):
                if isinstance(entry, int):
                    at = entry
                elif not isinstance(entry, Entry):
                    reason = entry.reason
                    break
                elif held < count and size < MOST_BYTES:
                    entries.append(entry)
                    held, size = held + entry.least_records, size + entry.size
            if at == before:
                raise OperationFailedError(f"{printable(str(key))}@{at} cannot be read: {reason}")
        return entries

    def _fetched(self, key: TopicPartition, at: int) -> bytes:
        deadline = self._clock.monotonic() + self._wait_s
        problem = "its leader does not answer"
        while self._clock.monotonic() < deadline:
            answer = self._log.fetch({key: at}, max_bytes=FETCH_BYTES, wait_ms=WAIT_MS)[key]
            if answer.error is not None and not answer.error.retriable:
                raise OperationFailedError(f"{printable(str(key))}@{at} cannot be read: {answer.error}")
            if answer.records:
                return answer.records
            problem = str(answer.error or problem)
        raise TryLaterError(f"{printable(str(key))}@{at} cannot be read: {problem}")

    def _committed(self, key: TopicPartition, first: int, last: int) -> tuple[dict[int, Record], bool]:
        """What read_committed consumers get of these offsets, and whether all of it was read."""
        found: dict[int, Record] = {}
        deadline = self._clock.monotonic() + self._wait_s
        with closing(self._data.consumer([key], {key: first})) as consumer:
            while self._clock.monotonic() < deadline:
                records = consumer.poll(min(1.0, self._wait_s))
                found |= {record.offset: record for record in records if record.offset <= last}
                if (records and records[-1].offset >= last) or key in consumer.ended():
                    return found, True
        return found, False
