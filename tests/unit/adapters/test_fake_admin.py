"""The in-memory cluster keeps the promises that real brokers keep."""

import pytest

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ItemError, MetadataVersion, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from tests.contracts.admin import AdminContract, DeadBrokerContract
from tests.contracts.admin_security import NoAuthorizerContract, SecurityContract
from tests.fakes.admin import FakeClock, FakeCluster


class FakeRig:
    kraft = True

    def __init__(self) -> None:
        self.brokers = (1, 2, 3)
        self.cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, dirs_per_broker=2)
        self.cluster.voters = frozenset({1})
        self.cluster.metadata = dict.fromkeys(self.brokers, MetadataVersion(in_force=25, newest=27))
        self.admin: ClusterAdmin = self.cluster
        self.names = 0

    def new_name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def fill(self, topic: str, partition: int, size: int) -> None:
        self.cluster.write(topic, partition, size)

    def pass_time(self) -> None:
        self.cluster.advance(0.5)

    def kill(self, broker: int) -> None:
        self.cluster.kill(broker)

    def revive(self, broker: int) -> None:
        self.cluster.revive(broker)


@pytest.fixture
def rig() -> FakeRig:
    return FakeRig()


class TestFakeCluster(AdminContract):
    pass


class TestFakeDeadBroker(DeadBrokerContract):
    pass


class TestFakeNoAuthorizer(NoAuthorizerContract):
    pass


class TestFakeAuthorizer(SecurityContract):
    @pytest.fixture
    def rig(self) -> FakeRig:
        rig = FakeRig()
        rig.cluster.acls = set()
        return rig


KEY = TopicPartition("t", 0)


def moving_cluster(line_rate: float = 100.0) -> FakeCluster:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a"}, line_rate=line_rate)
    cluster.add_topic("t", {0: (1, 2), 1: (1, 2)}, size_bytes=1_000)
    return cluster


def rate(broker: int, key: str, value: int) -> ConfigChange:
    return ConfigChange(kind=ResourceKind.BROKER, name=str(broker), key=key, op=ConfigOp.SET, value=str(value))


def test_bytes_flow_at_line_rate_and_moves_end_together() -> None:
    cluster = moving_cluster()
    cluster.reassign({KEY: (3, 2), TopicPartition("t", 1): (4, 2)})
    cluster.advance(10)
    sizes = cluster.log_dirs([3, 4])
    assert sizes[3].replicas[KEY].size_bytes == sizes[4].replicas[TopicPartition("t", 1)].size_bytes == 500
    cluster.advance(10)
    assert cluster.reassignments() == ()


def test_a_throttle_binds_only_the_replicas_it_names() -> None:
    cluster = moving_cluster()
    named = ConfigChange(
        kind=ResourceKind.TOPIC,
        name="t",
        key="follower.replication.throttled.replicas",
        op=ConfigOp.APPEND,
        value="0:3",
    )
    cluster.alter_configs([named, *(rate(b, "follower.replication.throttled.rate", 10) for b in (3, 4))])
    cluster.reassign({KEY: (3, 2), TopicPartition("t", 1): (4, 2)})
    cluster.advance(10)
    sizes = cluster.log_dirs([3, 4])
    assert sizes[3].replicas[KEY].size_bytes == 100
    assert sizes[4].replicas[TopicPartition("t", 1)].size_bytes == 500


def test_a_second_move_keeps_the_lists_of_the_first_as_kafka_does() -> None:
    cluster = moving_cluster()
    cluster.reassign({KEY: (3, 4)})
    cluster.reassign({KEY: (3, 1)})
    (move,) = cluster.reassignments()
    assert (move.replicas, move.adding, move.removing) == ((3, 1, 2, 4), (3, 4), (2, 4))


def test_beyond_ten_thousand_changes_the_rest_is_refused() -> None:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("big", dict.fromkeys(range(10005), (1,)))
    answers = cluster.reassign({TopicPartition("big", n): (2,) for n in range(10_005)})
    assert [answers[TopicPartition("big", n)] is None for n in (0, 9_999, 10_000, 10_004)] == [True, True, False, False]


def test_faults_come_as_ordered_before_or_after_the_effect() -> None:
    cluster = moving_cluster()
    cluster.fail_next("reassign", ConnectionError("cut before"))
    cluster.fail_next("reassign", ConnectionError("cut after"), after_effect=True)
    with pytest.raises(ConnectionError, match="before"):
        cluster.reassign({KEY: (3, 2)})
    assert cluster.reassignments() == () == tuple(cluster.calls)
    with pytest.raises(ConnectionError, match="after"):
        cluster.reassign({KEY: (3, 2)})
    assert len(cluster.reassignments()) == 1
    cluster.fail_item("cancel", KEY, ItemError(name="Odd"))
    assert cluster.cancel([KEY]) == {KEY: ItemError(name="Odd")}
    assert [name for name, _ in cluster.calls] == ["reassign", "cancel"]


def test_a_dead_broker_vanishes_where_fenced_ones_are_not_shown() -> None:
    cluster = FakeCluster({1: "a", 2: "b"}, fenced_visible=False)
    cluster.add_topic("t", {0: (1, 2)})
    cluster.kill(2)
    clock = FakeClock()
    assert [b.id for b in cluster.cluster().brokers] == [1]
    assert [(b.id, str(b.state)) for b in cluster.snapshot(now=clock.now()).brokers] == [(1, "alive"), (2, "missing")]


def test_the_clock_stands_still_until_told() -> None:
    clock, cluster = FakeClock(), moving_cluster()
    clock.on_sleep.append(cluster.advance)
    before = clock.now()
    cluster.reassign({KEY: (3, 2)})
    clock.sleep(10)
    assert (clock.now() - before).total_seconds() == 10 == clock.monotonic()
    assert cluster.reassignments() == ()
