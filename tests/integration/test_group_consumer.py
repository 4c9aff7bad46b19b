"""Real brokers keep the promises of `ports.stream_consumer`."""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafkakit.adapters.kafka.group_consumer import (
    KafkaAssignedConsumer,
    KafkaGroupConsumer,
    KafkaTransactionalConsumer,
)
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, LogSpan
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin
from kafkakit.ports.streams import GroupConsumer, MemberRule, TransactionRule
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from tests.contracts.group_consumer import LIMIT_S, GroupConsumerContract, Member, TransactionContract, Writer
from tests.integration.conftest import SandboxCluster
from tests.integration.stream_clients import produce
from tests.integration.stream_rig import SESSION_MS, forget_members, guarded_member
from tests.integration.test_streams_contract import open_groups
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
_ids = itertools.count()


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


class WritingRig(KafkaRig):
    def open(self, group: str) -> GroupConsumer:
        return self.open_writing(group)

    def open_writing(self, group: str) -> KafkaTransactionalConsumer:
        rule = MemberRule(session_s=SESSION_MS / 1000)
        limits = ProducerLimits().of_connection
        writing = TransactionRule(transactional_id=f"{group}.{next(_ids)}", client_id="a test", limits=limits)
        servers, security = self.cluster.bootstrap_servers, self.cluster.security
        return KafkaTransactionalConsumer(servers, security, group, rule, writing)

    def written(self, topic: str) -> list[bytes]:
        place = TopicPartition(topic, 0)
        reader = Member(self._chosen("a reader"))
        assert isinstance(reader.client, KafkaAssignedConsumer)
        reader.client.assign({place: 0})
        with closing(KafkaLog(self.cluster.bootstrap_servers, self.cluster.security)) as log:
            span = log.spans([place])[place]
        assert isinstance(span, LogSpan)
        end = span.end
        reader.until(lambda: reader.next.get(place) == end)
        reader.client.close(LIMIT_S)
        return reader.values.get(place, [])

    def committed(self, group: str, place: TopicPartition) -> CommittedOffset | None:
        reader = self._chosen(group)
        try:
            return reader.committed([place], LIMIT_S)[place]
        finally:
            reader.close(LIMIT_S)

    def remove_members(self, group: str) -> None:
        forget_members(self.cluster, group)

    def _chosen(self, group: str) -> KafkaAssignedConsumer:
        return KafkaAssignedConsumer(self.cluster.bootstrap_servers, self.cluster.security, group)


class GuardedRig(KafkaRig):
    def open(self, group: str) -> GroupConsumer:
        return guarded_member(self.cluster, group)


class TestKafka(GroupConsumerContract):
    @pytest.fixture
    def rig(self, cluster: SandboxCluster) -> KafkaRig:
        return KafkaRig(cluster)


class TestWriting(GroupConsumerContract):
    """Members read and commit as others do, those that write in transactions too."""

    @pytest.fixture
    def rig(self, cluster: SandboxCluster) -> KafkaRig:
        return WritingRig(cluster)


class TestTransactions(TransactionContract):
    @pytest.fixture
    def rig(self, cluster: SandboxCluster) -> WritingRig:
        return WritingRig(cluster)


class Silent:
    """A producer whose transaction ends, without that this is told."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s: float) -> None:
        self._producer.commit_transaction(timeout_s)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_member_that_does_not_know_whether_it_wrote_is_used_no_more(cluster: SandboxCluster) -> None:
    """The next one, with its transactional id, begins with what was committed."""
    rig, place = WritingRig(cluster), TopicPartition("unknown-end", 0)
    for topic in (place.topic, f"{place.topic}-out"):
        rig.new_topic(topic, 1)
    rig.write(place, [b"1", b"2"])
    writer = Writer(rig, place)
    assert isinstance(writer.client, KafkaTransactionalConsumer)
    writer.client._producer = Silent(writer.client._producer)
    failure = writer.write(b"a", offset=1)
    assert "the transaction failed" in failure
    assert writer.write(b"b", offset=2) == failure
    with pytest.raises(TryLaterError, match="the transaction failed"):
        writer.member.poll()
    assert writer.seen() == ([b"a"], CommittedOffset(offset=1))
    writer.client.close(LIMIT_S)


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


def test_a_member_leaves_with_an_assignment_that_it_has_not_seen(
    cluster: SandboxCluster, place: TopicPartition, join: Callable[..., Member]
) -> None:
    """librdkafka ends the group first if it is only closed, and then answers to the assignment late or never.

    Again where the client had not heard of its partitions yet, although the broker had given them.
    """
    with closing(open_groups(cluster)) as groups:
        for _ in range(5):
            member = join(session_timeout_ms=SESSION_MS)
            until(lambda: _holding(groups, place.topic), "the group has a member with partitions")
            member.client.close(LIMIT_S)
            if member.gone:
                break
        found = groups.describe([place.topic])[place.topic]
    assert (member.owned, member.gone) == ({}, [TopicPartition(place.topic, number) for number in range(2)])
    assert isinstance(found, GroupDescription)
    assert found.members == ()


def _holding(groups: GroupAdmin, group: str) -> list[str]:
    found = groups.describe([group])[group]
    assert isinstance(found, GroupDescription), found
    return [one.member_id for one in found.members if one.partitions]


def test_a_member_with_a_name_keeps_its_partitions_over_a_restart(join: Callable[..., Member]) -> None:
    one, other = (join(instance=name, session_timeout_ms=SESSION_MS) for name in ("one", "other"))
    one.until(lambda: len(one.owned) == len(other.owned) == 1, other)
    before, gone = set(one.owned), list(other.gone)
    one.client.close(LIMIT_S)
    again = join(instance="one", session_timeout_ms=SESSION_MS)
    again.until(lambda: again.owned, other)
    assert (set(again.owned), other.gone) == (before, gone)


def test_an_assigned_partition_that_comes_back_is_read_although_it_was_paused(
    cluster: SandboxCluster, place: TopicPartition
) -> None:
    """As a member of Kafka's groups does; its partitions come from the Assigner."""
    client = KafkaAssignedConsumer(cluster.bootstrap_servers, cluster.security, place.topic)
    member = Member(client)
    KafkaRig(cluster).write(place, [b"a"])
    try:
        client.assign({place: 0})
        member.until(lambda: member.next.get(place) == 1)
        client.pause([place])
        client.unassign([place])
        KafkaRig(cluster).write(place, [b"b"])
        client.assign({place: 1})
        member.until(lambda: member.values[place] == [b"a", b"b"])
    finally:
        member.client.close(LIMIT_S)
