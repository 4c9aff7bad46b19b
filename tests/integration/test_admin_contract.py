"""Real brokers keep the promises of `ports.ClusterAdmin`, in every mode the sandbox offers."""

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.config.security import Mechanism, Protocol, Secret, Security, to_kafka_python
from kafkakit.core.cluster_facts import PRODUCER_BYTE_RATE, ConfigOp, QuotaEntity, ResourceKind
from kafkakit.core.errors import ConnectRefusedError, ExitCode, OperationFailedError, TryLaterError
from kafkakit.core.model import BrokerState, ClusterSnapshot
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox.decide.processes import GUEST, client_security, password_file, principal_of
from kafkakit.sandbox.decide.spec import MetadataMode
from tests.contracts.admin import (
    LEADERS,
    NOW,
    TP,
    AdminContract,
    DeadBrokerContract,
    make_topic,
    topic_change,
)
from tests.integration.conftest import LeaseClusters, SandboxCluster, StartCluster
from tests.rigs.cluster_pool import SECURED
from tests.rigs.waiting import eventually, until

pytestmark = pytest.mark.kafka

_names = itertools.count()


class KafkaRig:
    """A sandbox as `tests.contracts.admin.Rig`."""

    def __init__(self, cluster: SandboxCluster) -> None:
        first, second, third = cluster.broker_ids
        self.brokers = (first, second, third)
        self.cluster = cluster
        self.kraft = cluster.state.spec.mode is MetadataMode.KRAFT
        self.admin: ClusterAdmin = KafkaAdmin(cluster.bootstrap_servers, cluster.security, request_timeout_s=60)

    def new_name(self) -> str:
        return f"contract-{next(_names)}"

    def fill(self, topic: str, partition: int, size: int) -> None:
        producer = KafkaData(self.cluster.bootstrap_servers, self.cluster.security).producer()
        for start in range(0, size, 50_000):
            producer.send(TP(topic, partition), b"x" * min(50_000, size - start))
        assert producer.flush(300) == 0
        assert producer.failed == 0, producer.last_error

    def pass_time(self) -> None:
        time.sleep(0.2)

    def kill(self, broker: int) -> None:
        self.cluster.kill(broker)
        eventually(self, lambda: broker not in self.live())

    def revive(self, broker: int) -> None:
        self.cluster.restart(broker)

    def live(self) -> set[int]:
        return {b.id for b in self.admin.cluster().brokers if b.is_alive}


@pytest.fixture(scope="module")
def kraft_rig(cluster: SandboxCluster) -> Iterator[KafkaRig]:
    rig = KafkaRig(cluster)
    yield rig
    rig.admin.close()


@pytest.fixture(scope="module")
def zookeeper_rig(sandbox_cluster: StartCluster) -> Iterator[KafkaRig]:
    cluster = sandbox_cluster(brokers=3, mode="zookeeper")
    rig = KafkaRig(cluster)
    yield rig
    rig.admin.close()
    cluster.down()


@pytest.fixture(scope="module")
def scram_rig(lease: LeaseClusters) -> Iterator[KafkaRig]:
    rig = KafkaRig(lease(SECURED)[0])
    yield rig
    rig.admin.close()


class TestKraft(AdminContract):
    @pytest.fixture
    def rig(self, kraft_rig: KafkaRig) -> KafkaRig:
        return kraft_rig


class TestKraftDeadBroker(DeadBrokerContract):
    @pytest.fixture
    def rig(self, kraft_rig: KafkaRig) -> KafkaRig:
        return kraft_rig


class TestZooKeeper(AdminContract):
    @pytest.fixture
    def rig(self, zookeeper_rig: KafkaRig) -> KafkaRig:
        return zookeeper_rig

    def test_the_last_one_a_dead_broker_is_missing(self, rig: KafkaRig) -> None:
        """Kafka 3.9 forgets a dead broker; also when it was the controller."""
        _, b, c = rig.brokers
        name = make_topic(rig, (b, c))
        victim = rig.admin.cluster().controller_id
        assert victim is not None
        rig.kill(victim)
        eventually(rig, lambda: rig.admin.cluster().controller_id not in (None, victim))
        snapshot = rig.admin.snapshot(now=NOW)
        assert victim in snapshot.unanswered_brokers or victim not in {b, c}
        if victim in (b, c):
            assert snapshot.broker_by_id()[victim].state is BrokerState.MISSING
        survivor = next(broker for broker in rig.brokers if broker != victim)
        answers = rig.admin.reassign({TP(name, 0): (survivor,)})
        assert set(answers.values()) == {None}


def _sees_log_dirs(admin: KafkaAdmin, brokers: Collection[int]) -> bool:
    """Whether every broker has heard of the right to describe the cluster."""
    try:
        return all(each.error is None for each in admin.log_dirs(brokers, []).values())
    except OperationFailedError:
        return False


class TestScramTls(AdminContract):
    @pytest.fixture
    def rig(self, scram_rig: KafkaRig) -> KafkaRig:
        return scram_rig

    @pytest.fixture
    def guest(self, rig: KafkaRig) -> Iterator[KafkaAdmin]:
        """A user who may connect and nothing else."""
        state, root = rig.cluster.state, str(rig.cluster.store.root)
        password = Secret(Path(password_file(root, GUEST)).read_text(encoding="utf-8").strip())
        admin = KafkaAdmin(state.layout.bootstrap_servers, client_security(state.spec.secure, root, GUEST, password))
        yield admin
        admin.close()

    def test_missing_rights_are_refusals_not_empty_data(self, rig: KafkaRig, guest: KafkaAdmin) -> None:
        name = make_topic(rig, rig.brokers)
        assert guest.cluster().operations == frozenset()
        assert "alter" in (rig.admin.cluster().operations or ())
        reads: list[Callable[[], object]] = [
            lambda: guest.snapshot(now=NOW),
            lambda: guest.snapshot(now=NOW, sizes=False),
            lambda: guest.log_dirs(rig.brokers),
            guest.reassignments,
            guest.describe_client_quotas,
            lambda: guest.partition_states([name]),
            lambda: guest.dynamic_configs(ResourceKind.TOPIC, [name]),
            lambda: guest.dynamic_configs(ResourceKind.BROKER, [str(rig.brokers[0])]),
            lambda: guest.reassign({TP(name, 0): rig.brokers}),
            lambda: guest.cancel([TP(name, 0)]),
            lambda: guest.elect_preferred_leaders([TP(name, 0)]),
        ]
        for read in reads:
            with pytest.raises(OperationFailedError):
                read()
        change = topic_change(name, LEADERS, ConfigOp.SET, "0:1")
        assert guest.alter_configs([change])[change] is not None
        entity = QuotaEntity(client_id=name)
        assert guest.alter_client_quotas({entity: {PRODUCER_BYTE_RATE: 1.0}})[entity] is not None
        assert guest.create_topic(rig.new_name(), {0: rig.brokers}, {}) is not None
        assert guest.delete_topic(name) is not None

    def test_topics_hidden_from_the_user_are_not_left_out_silently(self, rig: KafkaRig, guest: KafkaAdmin) -> None:
        from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

        name = make_topic(rig, rig.brokers)
        eventually(rig, lambda: TP(name, 0) in rig.admin.log_dirs(rig.brokers[:1])[rig.brokers[0]].replicas)
        acl = ACL(
            principal=principal_of(rig.cluster.state.spec.secure, GUEST),
            host="*",
            operation=ACLOperation.DESCRIBE,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
        )
        client = KafkaAdminClient(
            bootstrap_servers=rig.cluster.bootstrap_servers.split(","), **to_kafka_python(rig.cluster.security)
        )
        try:
            client.create_acls([acl])
            eventually(rig, lambda: "describe" in (guest.cluster().operations or ()))
            eventually(rig, lambda: _sees_log_dirs(guest, rig.brokers))
            with pytest.raises(OperationFailedError, match="describe topic") as caught:
                guest.snapshot(now=NOW)
            assert caught.value.hint == "grant DESCRIBE on the topic to this user"
        finally:
            client.delete_acls([acl])
            client.close()
        eventually(rig, lambda: "describe" not in (guest.cluster().operations or ()))

    def test_wrong_credentials_and_protocols_say_what_to_check(self, rig: KafkaRig) -> None:
        right = rig.cluster.security
        user = right.username
        wrong = {
            f"login refused (SCRAM-SHA-256, user {user})": replace(right, password=Secret("hunter2-mistyped")),
            "takes SCRAM-SHA-256, the settings say SCRAM-SHA-512": replace(
                right, sasl_mechanism=Mechanism.SCRAM_SHA_512
            ),
            "speaks SASL_SSL, the settings say PLAINTEXT": Security(),
            "speaks SASL_SSL, the settings say SSL": Security(protocol=Protocol.SSL, ca_file=right.ca_file),
            "is not trusted": replace(right, ca_file=None),
        }
        for words, security in wrong.items():
            address = rig.cluster.bootstrap_servers
            admin = KafkaAdmin(address, security, bootstrap_timeout_s=2)
            calls: list[Callable[[], object]] = [
                admin.cluster,
                lambda: KafkaData(address, security).reach(10.0),  # noqa: B023
                lambda: KafkaStreamCluster(address, security).identify("t", 10.0),  # noqa: B023
                lambda: polled(KafkaGroupConsumer(address, security, "g")),  # noqa: B023
            ]
            for call in calls if "login" in words else calls[:1]:
                with pytest.raises(ConnectRefusedError) as caught:
                    call()
                assert words in caught.value.message
                assert caught.value.exit_code == ExitCode.USAGE
                assert "kafkakit doctor" in (caught.value.hint or "")
                assert "hunter2" not in str(caught.value)
            admin.close()


def polled(member: KafkaGroupConsumer) -> None:
    """Read until an error comes."""
    deadline = time.monotonic() + 120
    try:
        member.subscribe(["t"], mock.Mock())
        while time.monotonic() < deadline:
            member.poll(10, 0.5)
    finally:
        member.close(0)


def test_a_hung_broker_costs_its_own_sizes_only(cluster: SandboxCluster) -> None:
    rig = KafkaRig(cluster)
    a, b, c = rig.brokers
    name = make_topic(rig, (a, b, c), size=5_000)
    admin = KafkaAdmin(cluster.bootstrap_servers, cluster.security, request_timeout_s=6)

    def look() -> ClusterSnapshot | None:
        """The other brokers may need longer than the limit, too."""
        try:
            found = admin.snapshot(now=NOW)
        except TryLaterError:
            return None
        return found if list(found.unanswered_brokers) == [b] else None

    with closing(admin), cluster.hung(b):
        snapshot = until(look)
    (partition,) = next(t for t in snapshot.topics if t.name == name).partitions
    assert snapshot.unanswered_brokers[b]
    assert set(partition.replica_bytes) == set(partition.replica_dirs) == {a, c}
    assert snapshot.broker_by_id()[b].log_dirs_error == snapshot.unanswered_brokers[b]
    eventually(rig, lambda: rig.live() == set(rig.brokers))
    eventually(rig, lambda: set(rig.admin.partition_states([name])[TP(name, 0)].isr) == set(rig.brokers))
    rig.admin.close()


def test_the_loss_of_the_broker_it_talks_to_is_healed(cluster: SandboxCluster) -> None:
    rig = KafkaRig(cluster)
    name = make_topic(rig, rig.brokers)
    admin = KafkaAdmin(cluster.bootstrap_servers, cluster.security, request_timeout_s=15)
    assert admin.reassignments() == ()
    home = admin._session._home
    assert home is not None
    first, second = (broker for broker in rig.brokers if broker != home)
    try:
        cluster.kill(home)
        assert admin.reassignments() == ()
        assert admin.reassign({TP(name, 0): (second, first)}) == {TP(name, 0): None}
        assert admin.elect_preferred_leaders([TP(name, 0)])
    finally:
        cluster.restart(home)
    assert home in admin.log_dirs([home], [])
    eventually(rig, lambda: admin.log_dirs([home], [])[home].error is None)
    eventually(rig, lambda: admin.reassignments() == ())
    admin.close()
    rig.admin.close()


def test_nobody_at_the_address_is_said_soon() -> None:
    for address in ("127.0.0.1:1", "no-such-host.invalid:9092", "127.0.0.1:notaport", "", ","):
        with pytest.raises(TryLaterError, match="cannot connect to"):
            KafkaAdmin(address, Security(), bootstrap_timeout_s=1).cluster()
