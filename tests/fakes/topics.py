"""Topics of one partition each in memory, to be read through `ports.DataPlane`."""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from tests.fakes.log import FakeConsumer, FakeLog


class MemoryTopics:
    """Topics of one partition each, as `ports.DataPlane`."""

    def __init__(self, records: Mapping[str, Sequence[tuple[bytes, bytes]]]) -> None:
        self.logs = {name: FakeLog() for name in records}
        for name, rows in records.items():
            for key, value in rows:
                self.logs[name].append(Record(partition=TopicPartition(name, 0), offset=0, value=value, key=key))

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        assert timeout_s > 0
        return {p: range(self.logs[p.topic].next_offset) for p in partitions if p.topic in self.logs}

    def close(self) -> None:
        """As of a client."""

    def consumer(self, partitions: Collection[TopicPartition]) -> FakeConsumer:
        (partition,) = partitions
        return self.logs[partition.topic].consumer(partitions)
