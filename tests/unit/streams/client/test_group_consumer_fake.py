"""The fake of groups keeps the promises of the port."""

from collections.abc import Collection

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from tests.contracts.group_consumer import GroupConsumerContract
from tests.fakes.group_consumer import FakeGroups


class FakeRig:
    def __init__(self) -> None:
        self.cluster = FakeGroups()

    def new_topic(self, name: str, partitions: int) -> None:
        self.cluster.make_topic(name, partitions)

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None:
        self.cluster.write(partition, tuple(values))

    def open(self, group: str) -> GroupConsumer:
        return self.cluster.open(group)


class TestFake(GroupConsumerContract):
    @pytest.fixture
    def rig(self) -> FakeRig:
        return FakeRig()
