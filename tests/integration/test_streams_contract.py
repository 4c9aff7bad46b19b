"""Real brokers keep the promises of `streams.ports`: Kafka 4.x with KRaft, and 3.9 with ZooKeeper."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest

from kafkakit.adapters.kafka import log as log_fetch_connection
from kafkakit.adapters.kafka.groups import KafkaGroups
from kafkakit.adapters.kafka.groups_newer import ConsumerGroupDescriber
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import Secret
from kafkakit.core.cluster_facts import CommittedOffset, ItemError, LogSpan
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.sandbox.decide.processes import GUEST, client_security, password_file
from kafkakit.sandbox.decide.spec import MetadataMode
from kafkakit.streams.model.commit import CommitIdentity
from kafkakit.streams.model.kkm1.decode import read_kkm1
from tests.contracts.streams import (
    BASE_MS,
    TP,
    WIDE,
    GroupsContract,
    LogContract,
    error_name,
    fetched,
    headers,
    span,
)
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import (
    OffsetsTransaction,
    commit_with_kafka_python,
    loner,
    member,
    poison_pill,
    produce,
    share_member,
)
from tests.rigs.cluster_pool import SECURED, ZOOKEEPER
from tests.rigs.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("slow_brokers_answer")]

OFFSETS = "__consumer_offsets"
LIMIT_S = 60
KEPT = {"retention.ms": "-1"}
"""The records of the contract are older than a week."""

_names = itertools.count()


class KafkaRig:
    """A sandbox as `tests.contracts.streams.Rig`."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        kraft = cluster.state.spec.mode is MetadataMode.KRAFT
        self.protocols: tuple[str, ...] = ("classic", "consumer", "share") if kraft else ("classic",)
        self.groups: GroupAdmin = open_groups(cluster)
        self.log: LogReader = KafkaLog(cluster.bootstrap_servers, cluster.security, request_timeout_s=15)
        self.committed_log: LogReader = KafkaLog(cluster.bootstrap_servers, cluster.security, committed=True)
        self.admin = cluster.open_admin()
        self._open = ExitStack()
        self._transactions: list[OffsetsTransaction] = []

    def end_transactions(self) -> None:
        for transaction in self._transactions:
            transaction.end()
        self._transactions.clear()

    def close(self) -> None:
        for part in (self._open, self.groups, self.log, self.committed_log, self.admin):
            part.close()

    def new_topic(self, partitions: int = 1) -> str:
        return self.make_topic(f"streams-{next(_names)}", partitions)

    def make_topic(self, name: str, partitions: int) -> str:
        brokers = self.cluster.broker_ids
        lists = {p: (brokers[p % len(brokers)],) for p in range(partitions)}
        assert self.admin.create_topic(name, lists, KEPT) is None

        def usable() -> bool:
            found = self.log.spans([TP(name, p) for p in range(partitions)])
            return all(isinstance(one, LogSpan) for one in found.values())

        eventually(self, usable)
        return name

    def recreate(self, topic: str) -> None:
        partitions = len(self.log.places([topic])[topic].leaders)
        assert self.admin.delete_topic(topic) is None
        lists = dict.fromkeys(range(partitions), (self.cluster.broker_ids[0],))
        # Kafka 3.9 with ZooKeeper deletes in the background.
        eventually(self, lambda: self.admin.create_topic(topic, lists, KEPT) is None)

    def new_group(self) -> str:
        return f"streams-group-{next(_names)}"

    def append(self, partition: TopicPartition, values: Sequence[bytes], step_ms: int = 0) -> None:
        settings = {"linger.ms": 10_000}  # a flush ends it: one batch, however slowly it is filled
        produce(self.cluster, partition, values, timestamp_ms=BASE_MS, step_ms=step_ms, settings=settings)

    def join(self, group: str, topic: str, protocol: str) -> AbstractContextManager[object]:
        if protocol == "share":
            return share_member(self.cluster, group, [topic])
        return member(self.cluster, group, [topic], protocol=protocol)

    def offsets_transaction(self, group: str, commits: Mapping[TopicPartition, int]) -> Callable[[bool], object]:
        transaction = self._transaction(f"offsets-{next(_names)}")
        with loner(self.cluster, group) as owner:
            transaction.send(owner, {key: (offset, "") for key, offset in commits.items()})
        return lambda commit: transaction.commit() if commit else transaction.abort()

    def records_transaction(self, partition: TopicPartition, values: Sequence[bytes]) -> Callable[[bool], object]:
        transaction = self._transaction(f"records-{next(_names)}")
        transaction.produce(partition, *values)
        return lambda commit: transaction.commit() if commit else transaction.abort()

    def _transaction(self, name: str) -> OffsetsTransaction:
        transaction = OffsetsTransaction(self.cluster, name)
        self._transactions.append(transaction)
        transaction.begin()
        return transaction

    def pass_time(self) -> None:
        time.sleep(0.05)


def open_groups(cluster: SandboxCluster) -> KafkaGroups:
    describer = ConsumerGroupDescriber(cluster.bootstrap_servers, cluster.security, timeout_s=LIMIT_S)
    return KafkaGroups(cluster.bootstrap_servers, cluster.security, describer, request_timeout_s=LIMIT_S)


@pytest.fixture(scope="module")
def kraft_rig(cluster: SandboxCluster) -> Iterator[KafkaRig]:
    with closing(KafkaRig(cluster)) as rig:
        yield rig


@pytest.fixture(scope="module")
def zookeeper_rig(lease: LeaseClusters) -> Iterator[KafkaRig]:
    (cluster,) = lease(ZOOKEEPER)
    with closing(KafkaRig(cluster)) as rig:
        yield rig


class TestKraft(GroupsContract, LogContract):
    @pytest.fixture
    def rig(self, kraft_rig: KafkaRig) -> Iterator[KafkaRig]:
        yield kraft_rig
        kraft_rig.end_transactions()

    def test_what_other_clients_commit_is_read_as_it_is_stored(self, rig: KafkaRig) -> None:
        key, group = TP(rig.new_topic(), 0), rig.new_group()
        commit_with_kafka_python(rig.cluster, group, {key: (3, WIDE)})
        assert rig.groups.committed(group)[key] == CommittedOffset(offset=3, metadata=WIDE)
        with loner(rig.cluster, group) as client:
            client.commit({key: (4, WIDE)})
        assert rig.groups.committed(group)[key] == CommittedOffset(offset=4, metadata=WIDE + "\0")

    def test_a_poison_pill_is_one_pending_record(self, rig: KafkaRig) -> None:
        topic, group = rig.new_topic(), rig.new_group()
        identity = CommitIdentity(
            cluster_id=rig.log.cluster_id(), topic_id=rig.log.places([topic])[topic].topic_id, partition=0, group=group
        )
        text = poison_pill(identity, stuck=5, done_to=1000, oldest_ms=BASE_MS, newest_ms=BASE_MS + 60_000)
        with loner(rig.cluster, group) as client:
            client.commit({TP(topic, 0): (5, text)})
        found = rig.groups.committed(group)[TP(topic, 0)]
        assert isinstance(found, CommittedOffset)
        reading = read_kkm1(found.metadata.rstrip("\0"), found.offset, identity)
        assert (reading.problem, reading.state.pending.ranges) == (None, ((5, 6),))

    def test_a_commit_of_many_partitions_with_long_metadata_fits(self, rig: KafkaRig) -> None:
        topic, group = rig.new_topic(150), rig.new_group()
        commits = {TP(topic, p): CommittedOffset(offset=p, metadata="\u4e2d" * 4096) for p in range(150)}
        assert rig.groups.commit(group, commits) == dict.fromkeys(commits)
        assert rig.groups.committed(group) == commits

    def test_a_lost_leader_of_the_offsets_topic_heals(self, rig: KafkaRig) -> None:
        """It is the coordinator too: reads and commits continue with the next one."""
        log_key, group = TP(OFFSETS, 0), rig.new_group()
        rig.groups.commit(group, {TP(rig.new_topic(), 0): CommittedOffset(offset=1)})
        leader = rig.log.places([OFFSETS])[OFFSETS].leaders[0]
        assert leader is not None
        key = TP(rig.new_topic(3), next(p for p, broker in enumerate(rig.cluster.broker_ids) if broker != leader))
        assert rig.groups.commit(group, {key: CommittedOffset(offset=1)}) == {key: None}
        last = span(rig, log_key).end - 1
        assert fetched(rig, {log_key: last})[log_key].records

        def commits_on() -> bool:
            """A coordinator that moved is told, not followed: whoever commits has to read there first."""
            told = rig.groups.commit(group, {key: CommittedOffset(offset=2)})[key]
            assert told is None or told.retriable, told
            return told is None

        try:
            rig.cluster.kill(leader)
            eventually(rig, commits_on, tries=3000)
            assert rig.groups.committed(group, [key]) == {key: CommittedOffset(offset=2)}
            errors: list[ItemError] = []

            def reads_on() -> bool:
                found = fetched(rig, {log_key: last})[log_key]
                errors.extend([] if found.error is None else [found.error])
                return found.error is None and bool(headers(found.records))

            eventually(rig, reads_on, tries=3000)
            assert errors
            assert all(error.retriable for error in errors)
            assert rig.log.places([OFFSETS])[OFFSETS].leaders[0] != leader
            assert span(rig, log_key).end > last + 1
        finally:
            rig.cluster.revive()

    def test_a_silent_broker_holds_up_nobody_else(self, rig: KafkaRig, monkeypatch: pytest.MonkeyPatch) -> None:
        topic = rig.new_topic(3)
        keys = [TP(topic, p) for p in range(3)]
        for key in keys:
            rig.append(key, [b"x"])
        assert all(answer.records for answer in fetched(rig, dict.fromkeys(keys, 0)).values())
        with rig.cluster.hung(rig.cluster.broker_ids[2]):
            found = rig.log.fetch(dict.fromkeys(keys, 0), max_bytes=1 << 20, wait_ms=200)
            assert not found[keys[2]].answered
            late = {key: 0 for key in keys[:2] if not found[key].answered}
            found = {**found, **fetched(rig, late)}
            assert [bool(found[key].records) for key in keys] == [True, True, False]
            monkeypatch.setattr(log_fetch_connection, "SILENT_AFTER_S", 3.0)
            eventually(rig, lambda: has_spans(rig, keys) == [True, True, False])
            # Now it is known to be silent: nothing is asked of it, and the answer says so.
            again = rig.log.fetch(dict.fromkeys(keys, 1), max_bytes=1 << 20, wait_ms=200)
            assert error_name(again[keys[2]].error) == "KafkaTimeoutError"
        monkeypatch.setattr(log_fetch_connection, "SILENT_AFTER_S", 60.0)
        eventually(rig, lambda: all(has_spans(rig, keys)))
        eventually(rig, lambda: bool(fetched(rig, {keys[2]: 0})[keys[2]].records))


def has_spans(rig: KafkaRig, keys: Sequence[TopicPartition]) -> list[bool]:
    found = rig.log.spans(keys)
    return [isinstance(found[key], LogSpan) for key in keys]


class TestZooKeeper(GroupsContract, LogContract):
    @pytest.fixture
    def rig(self, zookeeper_rig: KafkaRig) -> Iterator[KafkaRig]:
        yield zookeeper_rig
        zookeeper_rig.end_transactions()


class TestRights:
    def test_missing_rights_are_errors_and_nothing_looks_dead(self, lease: LeaseClusters) -> None:
        (cluster,) = lease(SECURED)
        state, root = cluster.state, str(cluster.store.root)
        password = Secret(Path(password_file(root, GUEST)).read_text(encoding="utf-8").strip())
        guest = client_security(state.spec.secure, root, GUEST, password)
        key = TP("secret", 0)
        with ExitStack() as stack:
            admin = stack.enter_context(closing(cluster.open_admin()))
            mine = stack.enter_context(closing(open_groups(cluster)))
            describer = ConsumerGroupDescriber(cluster.bootstrap_servers, guest, timeout_s=LIMIT_S)
            groups = KafkaGroups(cluster.bootstrap_servers, guest, describer, request_timeout_s=LIMIT_S)
            stack.enter_context(closing(groups))
            log = stack.enter_context(closing(KafkaLog(cluster.bootstrap_servers, guest)))
            assert admin.create_topic("secret", {0: cluster.broker_ids}, {}) is None
            assert mine.commit("g", {key: CommittedOffset(offset=1)}) == {key: None}
            assert groups.groups() == ()
            assert error_name(groups.describe(["g"])["g"]) == "GroupAuthorizationFailedError"
            with pytest.raises(OperationFailedError, match="not permitted"):
                groups.committed("g")
            for told in (groups.commit("g", {key: CommittedOffset(offset=2)}), groups.forget("g", [key])):
                assert error_name(told[key]) == "GroupAuthorizationFailedError"
            assert mine.committed("g") == {key: CommittedOffset(offset=1)}
            assert error_name(log.spans([key])[key]) == "TopicAuthorizationFailedError"
            assert error_name(log.fetch({key: 0}, max_bytes=1, wait_ms=0)[key].error) == "TopicAuthorizationFailedError"
            assert log.places() == {}
            with pytest.raises(OperationFailedError, match="not permitted"):
                log.places(["secret"])
