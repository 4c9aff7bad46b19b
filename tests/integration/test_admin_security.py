"""Real brokers with an authorizer: ACLs, ids of topics, producers, and what fences do to writers and transactions."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.config.security import Secret, Security, to_confluent
from kafkakit.core.cluster_facts import (
    AclBinding,
    AclOperation,
    AclPermission,
    ConfigOp,
    ItemError,
    OpenTransaction,
    ProducerState,
)
from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox.decide.processes import GUEST, client_security, password_file
from tests.contracts.admin import TP, make_topic, topic_change
from tests.contracts.admin_security import TOPIC, NoAuthorizerContract, SecurityContract, denial
from tests.integration.conftest import LeaseClusters, SandboxCluster, StartCluster
from tests.integration.test_admin_contract import KafkaRig
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import eventually

pytestmark = pytest.mark.kafka
LIMIT_S = 180.0
DENIED = "TOPIC_AUTHORIZATION_FAILED"


class OneBroker(KafkaRig):
    """A sandbox of one broker as `tests.contracts.admin.Rig`."""

    def __init__(self, cluster: SandboxCluster) -> None:
        (only,) = cluster.broker_ids
        self.brokers = (only, only, only)
        self.cluster = cluster
        self.kraft = True
        self.admin: ClusterAdmin = KafkaAdmin(cluster.bootstrap_servers, cluster.security, request_timeout_s=60)


@pytest.fixture(scope="module")
def secured(sandbox_cluster: StartCluster) -> Iterator[SandboxCluster]:
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), secure="scram")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def rig(secured: SandboxCluster) -> Iterator[OneBroker]:
    rig = OneBroker(secured)
    yield rig
    rig.admin.close()


@pytest.fixture(scope="module")
def guest(secured: SandboxCluster) -> Security:
    """A user who may do nothing but what a test grants."""
    root = str(secured.store.root)
    password = Secret(Path(password_file(root, GUEST)).read_text(encoding="utf-8").strip())
    return client_security(secured.state.spec.secure, root, GUEST, password)


@pytest.fixture(scope="module")
def plain(lease: LeaseClusters) -> SandboxCluster:
    return lease(SINGLE)[0]


class TestSecured(SecurityContract):
    pass


class TestPlain(NoAuthorizerContract):
    @pytest.fixture
    def rig(self, plain: SandboxCluster) -> Iterator[OneBroker]:
        rig = OneBroker(plain)
        yield rig
        rig.admin.close()


def client_of(cluster: SandboxCluster, security: Security, **settings: Any) -> Any:
    from confluent_kafka import Producer

    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, **to_confluent(security), **named})


def written(client: Any, topic: str, count: int = 1) -> set[str]:
    """Produce, and return the names of the errors."""
    errors: set[str] = set()
    for _ in range(count):
        client.produce(topic, b"x" * 20, partition=0, on_delivery=lambda e, _: errors.add(e.name()) if e else None)
    assert client.flush(LIMIT_S) == 0
    return errors


def granted(rig: OneBroker, topic: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind=TOPIC, name=topic, principal=f"User:{GUEST}", operation=operation, permission=AclPermission.ALLOW
    )


def test_a_denial_stops_a_user_within_moments_and_its_removal_restores_what_was(
    rig: OneBroker, secured: SandboxCluster, guest: Security
) -> None:
    topic = make_topic(rig, rig.brokers[:1])
    rights = [granted(rig, topic, AclOperation.WRITE), granted(rig, topic, AclOperation.READ)]
    assert rig.admin.create_acls(rights) == dict.fromkeys(rights)
    eventually(rig, lambda: written(client_of(secured, guest), topic) == set())
    deny = denial(topic)
    assert rig.admin.create_acls([deny]) == {deny: None}
    eventually(rig, lambda: written(client_of(secured, guest), topic) == {DENIED})
    # A fence by ACL does not hold a super user, so it proves nothing by itself: ends of logs do.
    assert written(client_of(secured, secured.security), topic) == set()
    assert can_read(secured, guest, topic)
    assert rig.admin.delete_acls([deny]) == {deny: None}
    eventually(rig, lambda: written(client_of(secured, guest), topic) == set())
    assert rig.admin.describe_acls(TOPIC, topic) == tuple(sorted(rights))


def can_read(cluster: SandboxCluster, security: Security, topic: str) -> bool:
    """Whether records come; the group that a closing member looks for is none that it may describe."""
    client = KafkaData(cluster.bootstrap_servers, security).consumer([TP(topic, 0)], {TP(topic, 0): 0})
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if client.poll(0.5):
            return True
    return False


def test_missing_rights_are_refusals(rig: OneBroker, secured: SandboxCluster, guest: Security) -> None:
    topic = make_topic(rig, rig.brokers[:1])
    admin = KafkaAdmin(secured.bootstrap_servers, guest, request_timeout_s=60)
    reads: list[Callable[[], object]] = [
        lambda: admin.describe_acls(TOPIC, topic),
        lambda: admin.describe_producers([TP(topic, 0)]),
    ]
    try:
        for read in reads:
            with pytest.raises(OperationFailedError):
                read()
        deny = denial(topic)
        for answers in (admin.create_acls([deny]), admin.delete_acls([deny])):
            assert isinstance(answers[deny], ItemError)
        topic_id = rig.admin.partition_states([topic])[TP(topic, 0)].topic_id
        assert admin.delete_topic_by_id(topic_id or "") is not None
        assert topic in {key.topic for key in rig.admin.partition_states([topic])}
    finally:
        admin.close()


def test_text_that_is_no_id_is_refused(rig: OneBroker) -> None:
    with pytest.raises(UsageError, match="is not a topic's id"):
        rig.admin.delete_topic_by_id("orders.live.1")


@contextmanager
def transaction(cluster: SandboxCluster, name: str, topic: str) -> Iterator[Any]:
    """A producer with an open transaction that has a record in the log."""
    client = client_of(cluster, cluster.security, transactional_id=name, transaction_timeout_ms=600_000)
    client.init_transactions(LIMIT_S)
    client.begin_transaction()
    assert written(client, topic, 3) == set()
    yield client


def producers(rig: OneBroker, topic: str) -> tuple[ProducerState, ...]:
    found = rig.admin.describe_producers([TP(topic, 0)])[TP(topic, 0)]
    assert not isinstance(found, ItemError)
    return found


def open_in(rig: OneBroker, topic: str) -> list[OpenTransaction]:
    return [each for each in rig.admin.list_transactions() if TP(topic, 0) in each.partitions]


def test_producers_and_their_open_transactions_are_seen_until_they_end(rig: OneBroker, secured: SandboxCluster) -> None:
    topic = make_topic(rig, rig.brokers[:1])
    before_ms = int(time.time() * 1000) - 60_000
    assert written(client_of(secured, secured.security), topic) == set()
    assert producers(rig, topic) == ()  # a producer that is not idempotent leaves no trace
    assert written(client_of(secured, secured.security, enable_idempotence=True), topic, 2) == set()
    (plain,) = producers(rig, topic)
    assert (plain.last_sequence, plain.transaction_start) == (1, None)
    assert (plain.last_ms or 0) > before_ms
    with transaction(secured, "ends", topic) as client:
        (found,) = [each for each in producers(rig, topic) if each != plain]
        assert (found.last_sequence, found.transaction_start) == (2, 3)
        (listed,) = open_in(rig, topic)
        assert (listed.transactional_id, listed.state, listed.producer_id) == ("ends", "Ongoing", found.producer_id)
        assert listed.started_ms > before_ms
        client.commit_transaction(LIMIT_S)
    eventually(rig, lambda: not open_in(rig, topic))
    eventually(rig, lambda: all(each.transaction_start is None for each in producers(rig, topic)))


def test_a_limit_of_the_size_leaves_an_open_transaction_open_although_its_commit_was_answered(
    rig: OneBroker, secured: SandboxCluster
) -> None:
    """Why such a fence needs `list_transactions` first: the marker is refused as too large, and is not tried again."""
    topic = make_topic(rig, rig.brokers[:1])
    with transaction(secured, "stuck", topic) as client:
        fence = topic_change(topic, "max.message.bytes", ConfigOp.SET, "1")
        assert rig.admin.alter_configs([fence]) == {fence: None}
        plain = client_of(secured, secured.security)
        eventually(rig, lambda: written(plain, topic) == {"MSG_SIZE_TOO_LARGE"})
        client.commit_transaction(LIMIT_S)
    eventually(rig, lambda: [each.state for each in open_in(rig, topic)] == ["PrepareCommit"])
    assert any(each.transaction_start == 0 for each in producers(rig, topic))
    restored = topic_change(topic, "max.message.bytes", ConfigOp.DELETE)
    assert rig.admin.alter_configs([restored]) == {restored: None}
    eventually(rig, lambda: written(plain, topic) == set())
    assert [each.transactional_id for each in open_in(rig, topic)] == ["stuck"]
