"""The fake cluster keeps what the port promises; the fake of groups keeps the promises of the port."""

import itertools
from collections.abc import Collection

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.ports.streams import GroupConsumer, StreamCluster, TransactionalConsumer
from tests.contracts.group_consumer import GroupConsumerContract, TransactionContract
from tests.contracts.stream_producer import StreamProducerContract
from tests.fakes.group_consumer import FakeGroups
from tests.fakes.stream_cluster import FakeStreamCluster


class FakeRig:
    def __init__(self) -> None:
        self.fake = FakeStreamCluster("fake")
        self.cluster: StreamCluster = self.fake
        self.cluster_id = "fake"
        self._names = itertools.count()

    def new_topic(self, partitions: int) -> str:
        name = f"t{next(self._names)}"
        self.fake.create(name, partitions)
        return name

    def read(self, topic: str) -> list[Record]:
        found = []
        offsets: dict[int, int] = {}
        for partition, record in self.fake.topics[topic].log:
            offset = offsets.setdefault(partition, 0)
            offsets[partition] += 1
            found.append(
                Record(
                    partition=TopicPartition(topic, partition),
                    offset=offset,
                    value=record.value or b"",
                    key=record.key,
                    at_ms=record.at_ms or 1,
                    headers=record.headers,
                    is_null=record.value is None,
                )
            )
        return found

    def away(self) -> StreamCluster:
        cluster = FakeStreamCluster("away")
        cluster.is_away = True
        return cluster


class TestFakeStreamCluster(StreamProducerContract):
    @pytest.fixture
    def rig(self) -> FakeRig:
        return FakeRig()


class GroupConsumerFakeFakeRig:
    def __init__(self) -> None:
        self.cluster = FakeGroups()

    def new_topic(self, name: str, partitions: int) -> None:
        self.cluster.make_topic(name, partitions)

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None:
        self.cluster.write(partition, tuple(values))

    def open(self, group: str) -> GroupConsumer:
        return self.cluster.open(group)

    def open_writing(self, group: str) -> TransactionalConsumer:
        return self.cluster.open_transactional(group)

    def written(self, topic: str) -> list[bytes]:
        return [record.value or b"" for record in self.cluster.written.get(topic, [])]

    def committed(self, group: str, place: TopicPartition) -> CommittedOffset | None:
        return self.cluster.commits.get((group, place))

    def remove_members(self, group: str) -> None:
        for member in list(self.cluster.members[group]):
            member.crash()


class TestFake(GroupConsumerContract):
    @pytest.fixture
    def rig(self) -> GroupConsumerFakeFakeRig:
        return GroupConsumerFakeFakeRig()


class TestFakeWriting(TransactionContract):
    @pytest.fixture
    def rig(self) -> GroupConsumerFakeFakeRig:
        return GroupConsumerFakeFakeRig()
