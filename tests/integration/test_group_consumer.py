"""Real brokers keep the promises of `ports.stream_consumer`."""

from collections.abc import Collection
from contextlib import closing

import pytest

from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from tests.contracts.group_consumer import GroupConsumerContract
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import produce
from tests.integration.stream_rig import guarded_member

pytestmark = pytest.mark.kafka


class KafkaRig:
    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster

    def new_topic(self, name: str, partitions: int) -> None:
        with closing(self.cluster.open_admin()) as admin:
            brokers = self.cluster.broker_ids
            lists = {number: (brokers[number % len(brokers)],) for number in range(partitions)}
            assert admin.create_topic(name, lists, {}) is None

    def write(self, partition: TopicPartition, values: Collection[bytes]) -> None:
        produce(self.cluster, partition, values)

    def open(self, group: str) -> GroupConsumer:
        return KafkaGroupConsumer(self.cluster.bootstrap_servers, self.cluster.security, group)


class GuardedRig(KafkaRig):
    def open(self, group: str) -> GroupConsumer:
        return guarded_member(self.cluster, group)


class TestKafka(GroupConsumerContract):
    @pytest.fixture
    def rig(self, cluster: SandboxCluster) -> KafkaRig:
        return KafkaRig(cluster)


class TestGuarded(GroupConsumerContract):
    @pytest.fixture
    def rig(self, cluster: SandboxCluster) -> KafkaRig:
        return GuardedRig(cluster)
