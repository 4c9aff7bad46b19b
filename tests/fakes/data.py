"""`ports.DataPlane` over the logs of a `FakeLogReader`, with the contract of tests/contracts/data.py."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.data import Headers
from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, headers_of, records_of
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.log_reader import FakeLogReader


def unnoticed(_: TopicPartition) -> None:
    """Nothing happens where a record is written."""


class FakeData:
    """`away`: nothing answers. `refuse`: so many records are refused next. `on_send` is called before each record is
    written, so that a test can stop the program there. Written records get the time `now_ms`."""

    def __init__(self, log: FakeLogReader) -> None:
        self.log, self.away, self.refuse, self.now_ms = log, False, 0, 1_758_335_260_726
        self.on_send: Callable[[TopicPartition], object] = unnoticed

    def reach(self, timeout_s: float) -> tuple[int, ...]:
        del timeout_s
        if self.away:
            raise TryLaterError("no broker")
        return (1,)

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        self.reach(timeout_s)
        places = self.log.places({key.topic for key in partitions})
        known = [key for key in partitions if key.topic in places and key.partition in places[key.topic].leaders]
        return {key: range(self.log.log(key).start, self.log.log(key).end) for key in known}

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> "FakeDataProducer":
        return FakeDataProducer(self, on_acknowledged or (lambda _: None))

    def consumer(
        self, partitions: Collection[TopicPartition], offsets: Mapping[TopicPartition, int] | None = None
    ) -> "FakeDataConsumer":
        first = {key: max((offsets or {}).get(key, 0), self.log.log(key).start) for key in sorted(partitions)}
        return FakeDataConsumer(self, first)

    def records(self, key: TopicPartition) -> list[Record]:
        """What a partition holds."""
        return [record for held in self.log.log(key).batches for record in _records(key, held.data)]


class FakeDataProducer:
    def __init__(self, data: FakeData, on_acknowledged: Callable[[Record], None]) -> None:
        self._data, self._tell, self._written = data, on_acknowledged, list[Record]()
        self.acknowledged = self.failed = self._unsaid = 0
        self.last_error: str | None = None

    def send(
        self, partition: TopicPartition, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        self._data.on_send(partition)
        if self._data.away:
            self._unsaid += 1
        elif self._data.refuse:
            self._data.refuse -= 1
            self.failed, self.last_error = self.failed + 1, "refused"
        elif not self._data.offsets([partition], 1):
            raise OperationFailedError(f"cannot write to {partition}: unknown")
        else:
            plain = tuple((name.encode(), data) for name, data in headers)
            data = batch(0, [Rec(key, value, headers=plain)], base_ms=self._data.now_ms)
            end = self._data.log.append(partition, data)
            self._written.append(replace(_records(partition, data)[0], offset=end - 1))

    def flush(self, timeout_s: float) -> int:
        del timeout_s
        written, self._written = self._written, []
        for record in written:
            self.acknowledged += 1
            self._tell(record)
        return self._unsaid


class FakeDataConsumer:
    def __init__(self, data: FakeData, offsets: dict[TopicPartition, int]) -> None:
        self._data, self._next = data, offsets

    def poll(self, timeout_s: float, limit: int = 500) -> Sequence[Record]:
        self._data.reach(timeout_s)
        found: list[Record] = []
        for key in self._next:
            more = [record for record in self._data.records(key) if record.offset >= self._next[key]]
            for record in more[: limit - len(found)]:
                found.append(record)
                self._next[key] = record.offset + 1
        return found

    def ended(self) -> Collection[TopicPartition]:
        return {k for k, at in self._next.items() if not any(r.offset >= at for r in self._data.records(k))}

    def close(self) -> None:
        pass


def _records(key: TopicPartition, data: bytes) -> list[Record]:
    found = []
    for held in batches_of(data):
        assert isinstance(held, Batch)
        for record in records_of(data, held):
            assert isinstance(record, LogRecord)
            headers = headers_of(record)
            assert isinstance(headers, tuple)
            found.append(
                Record(
                    partition=key,
                    offset=record.offset,
                    value=record.value or b"",
                    key=record.key,
                    at_ms=record.timestamp_ms,
                    headers=tuple((name.decode(), value) for name, value in headers),
                    is_null=record.value is None,
                )
            )
    return found
