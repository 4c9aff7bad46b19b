"""What every `ports.DataPlane` keeps, the fake and the real one: run by its test files."""

from typing import Protocol

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.data import DataPlane


class DataRig(Protocol):
    data: DataPlane

    def new_topic(self) -> str:
        """A new topic with two partitions."""
        ...


def read_all(data: DataPlane, key: TopicPartition, first: int = 0) -> list[Record]:
    consumer = data.consumer([key], {key: first})
    found: list[Record] = []
    for _ in range(400):
        found += consumer.poll(0.5)
        if key in consumer.ended():
            break
    consumer.close()
    return found


class DataContract:
    def test_records_come_back_as_they_were_sent(self, data_rig: DataRig) -> None:
        key = TopicPartition(data_rig.new_topic(), 1)
        headers = (("a", b"1"), ("a", b"2"), ("null", None), ("empty", b""), ("raw", b"\xff\x00"))
        told: list[Record] = []
        producer = data_rig.data.producer(told.append)
        producer.send(key, b"value", b"key", headers)
        producer.send(key, None, b"gone")
        producer.send(key, b"", None)
        assert producer.flush(90) == 0
        assert (producer.acknowledged, producer.failed, [r.offset for r in told]) == (3, 0, [0, 1, 2])
        first, tombstone, empty = read_all(data_rig.data, key)
        assert (first.key, first.value, first.headers) == (b"key", b"value", headers)
        assert (tombstone.is_null, tombstone.headers, empty.is_null, empty.key) == (True, (), False, None)
        assert data_rig.data.offsets([key, TopicPartition("no-such-topic", 0)], 90) == {key: range(3)}

    def test_reading_begins_at_the_offset(self, data_rig: DataRig) -> None:
        key = TopicPartition(data_rig.new_topic(), 0)
        producer = data_rig.data.producer()
        for number in range(5):
            producer.send(key, b"%d" % number)
        assert producer.flush(90) == 0
        assert [record.value for record in read_all(data_rig.data, key, 3)] == [b"3", b"4"]
