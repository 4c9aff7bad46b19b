"""One partition in memory as `ports.DataPlane`, for stores that live in a topic: faults on demand, and a cleaner."""

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.data import Headers


class FakeLog:
    """`fate` says what happens to the next records: `lost` (never written), `unsaid` (written, not acknowledged),
    `late` (written only when the same producer is used again)."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.next_offset = 0
        self.away = False
        self.fate: list[str] = []

    def append(self, record: Record) -> Record:
        stored = Record(partition=record.partition, offset=self.next_offset, value=record.value, key=record.key)
        self.records.append(stored)
        self.next_offset += 1
        return stored

    def clean(self) -> None:
        """Compact everything: the last record of each key stays, unless it is a tombstone."""
        last = {record.key: record.offset for record in self.records}
        self.records = [r for r in self.records if last[r.key] == r.offset and r.value]

    def remake(self) -> None:
        """Somebody deletes the topic and makes it again."""
        self.records, self.next_offset = [], 0

    def reach(self, timeout_s: float) -> tuple[int, ...]:
        del timeout_s
        return (1,)

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        del timeout_s
        return {partition: range(self.next_offset) for partition in partitions}

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> "FakeProducer":
        return FakeProducer(self, on_acknowledged or (lambda _: None))

    def consumer(
        self, partitions: Collection[TopicPartition], offsets: Mapping[TopicPartition, int] | None = None
    ) -> "FakeConsumer":
        return FakeConsumer(self, partitions, min((offsets or {}).values(), default=0))


class FakeProducer:
    def __init__(self, log: FakeLog, on_acknowledged: Callable[[Record], None]) -> None:
        self._log, self._tell = log, on_acknowledged
        self._told: list[Record] = []
        self._late: list[Record] = []
        self.acknowledged = self.failed = 0
        self.last_error: str | None = None

    def send(
        self, partition: TopicPartition, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        assert not headers, "tests.fakes.data keeps headers"
        fate = self._log.fate.pop(0) if self._log.fate else ""
        for late in self._late:
            self._log.append(late)
        self._late = []
        if fate == "late":
            self._late = [Record(partition=partition, offset=-1, value=value or b"", key=key)]
            return
        if self._log.away or fate == "lost":
            self.last_error = "no broker"
            return
        stored = self._log.append(Record(partition=partition, offset=-1, value=value or b"", key=key))
        if fate != "unsaid":
            self._told.append(stored)

    def flush(self, timeout_s: float) -> int:
        del timeout_s
        told, self._told = self._told, []
        for record in told:
            self._tell(record)
        return 0


class FakeConsumer:
    def __init__(self, log: FakeLog, partitions: Collection[TopicPartition], first: int) -> None:
        self._log, self._partitions, self._next = log, frozenset(partitions), first

    def poll(self, timeout_s: float, limit: int = 500) -> Sequence[Record]:
        del timeout_s
        if self._log.away:
            raise TryLaterError("no broker")
        found = [record for record in self._log.records if record.offset >= self._next][:limit]
        if found:
            self._next = found[-1].offset + 1
        return found

    def ended(self) -> Collection[TopicPartition]:
        return self._partitions if self._next >= self._log.next_offset else ()

    def close(self) -> None:
        pass
