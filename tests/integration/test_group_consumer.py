"""Real brokers keep the promises of `ports.stream_consumer`."""

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import Any

import pytest

from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from tests.contracts.group_consumer import LIMIT_S, GroupConsumerContract, Member
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import produce
from tests.integration.stream_rig import SESSION_MS, guarded_member

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
        servers, security = self.cluster.bootstrap_servers, self.cluster.security
        return KafkaGroupConsumer(servers, security, group, session_timeout_ms=SESSION_MS)


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


@pytest.fixture
def place(cluster: SandboxCluster, request: pytest.FixtureRequest) -> TopicPartition:
    found = TopicPartition(request.node.name.replace("_", "-"), 0)
    KafkaRig(cluster).new_topic(found.topic, 2)
    return found


@pytest.fixture
def join(cluster: SandboxCluster, place: TopicPartition) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def joined(**more: Any) -> Member:
        client = KafkaGroupConsumer(cluster.bootstrap_servers, cluster.security, place.topic, **more)
        members.append(Member(client))
        client.subscribe([place.topic], members[-1])
        return members[-1]

    yield joined
    for member in members:
        member.client.close(LIMIT_S)


def test_a_session_that_brokers_find_too_short_becomes_longer(
    cluster: SandboxCluster, place: TopicPartition, join: Callable[..., Member]
) -> None:
    """group.min.session.timeout.ms is 6000 by default, and group.max.session.timeout.ms half an hour."""
    KafkaRig(cluster).write(place, [b"v"])
    member = join(session_timeout_ms=3_000)
    member.until(lambda: member.values.get(place) == [b"v"])
    assert member.client.commit({place: CommittedOffset(offset=1)}, LIMIT_S) == {place: ""}
    long = join(session_timeout_ms=3_600_000)
    with pytest.raises(OperationFailedError, match=r"refuses a session\.timeout\.ms of 3,600,000"):
        long.until(lambda: False)


def test_a_member_with_a_name_keeps_its_partitions_over_a_restart(join: Callable[..., Member]) -> None:
    one, other = (join(instance=name, session_timeout_ms=SESSION_MS) for name in ("one", "other"))
    one.until(lambda: len(one.owned) == len(other.owned) == 1, other)
    before, gone = set(one.owned), list(other.gone)
    one.client.close(LIMIT_S)
    again = join(instance="one", session_timeout_ms=SESSION_MS)
    again.until(lambda: again.owned, other)
    assert (set(again.owned), other.gone) == (before, gone)
