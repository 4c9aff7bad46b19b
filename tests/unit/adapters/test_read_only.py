"""The client of dry runs hands on reads and refuses every write; that of runs makes none without its lease.

A read-only client of groups hands reads on and writes nothing.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from kafkakit.adapters.read_only import ReadOnlyAdmin, ReadOnlyGroups
from kafkakit.core.cluster_facts import AclResourceKind, CommittedOffset, QuotaEntity, ResourceKind
from kafkakit.core.errors import LeaseLostError, RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import GuardedAdmin
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin
from tests.fakes.admin import FakeCluster
from tests.fakes.groups import FakeGroups

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READS: dict[str, Callable[[ClusterAdmin], object]] = {
    "cluster": lambda a: a.cluster(),
    "snapshot": lambda a: a.snapshot(now=NOW, topics=["t"], sizes=True),
    "partition_states": lambda a: a.partition_states(["t"]),
    "log_dirs": lambda a: a.log_dirs([1, 2], [TopicPartition("t", 0)]),
    "reassignments": lambda a: a.reassignments(),
    "dynamic_configs": lambda a: a.dynamic_configs(ResourceKind.TOPIC, ["t"]),
    "check_configs": lambda a: a.check_configs([]),
    "broker_configs": lambda a: a.broker_configs([1, 2]),
    "topic_names": lambda a: a.topic_names(),
    "topic_operations": lambda a: a.topic_operations(["t"]),
    "describe_client_quotas": lambda a: a.describe_client_quotas(),
    "quorum": lambda a: a.quorum(),
    "partition_health": lambda a: a.partition_health(),
    "topic_settings": lambda a: a.topic_settings(["t"], ["min.insync.replicas"]),
    "describe_acls": lambda a: a.describe_acls(AclResourceKind.TOPIC, "t"),
    "describe_producers": lambda a: a.describe_producers([TopicPartition("t", 0)]),
    "list_transactions": lambda a: a.list_transactions(),
    "metadata_versions": lambda a: a.metadata_versions([1]),
    "broker_settings": lambda a: a.broker_settings([1], ["replica.fetch.backoff.ms"]),
}
WRITES: dict[str, Callable[[ClusterAdmin], object]] = {
    "reassign": lambda a: a.reassign({TopicPartition("t", 0): (2, 1)}),
    "cancel": lambda a: a.cancel([TopicPartition("t", 0)]),
    "alter_configs": lambda a: a.alter_configs([]),
    "elect_preferred_leaders": lambda a: a.elect_preferred_leaders([TopicPartition("t", 0)]),
    "move_log_dirs": lambda a: a.move_log_dirs({}),
    "create_topic": lambda a: a.create_topic("u", {0: (1,)}, {}),
    "create_partitions": lambda a: a.create_partitions("t", {1: (1,)}),
    "delete_records": lambda a: a.delete_records({TopicPartition("t", 0): 1}),
    "delete_topic": lambda a: a.delete_topic("t"),
    "delete_topic_by_id": lambda a: a.delete_topic_by_id("topic-id-000001"),
    "create_acls": lambda a: a.create_acls([]),
    "delete_acls": lambda a: a.delete_acls([]),
    "alter_client_quotas": lambda a: a.alter_client_quotas({QuotaEntity(user="a"): {"request_percentage": 1.0}}),
    "unregister_broker": lambda a: a.unregister_broker(3),
}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster({1: "a", 2: "b"})
    made.add_topic("t", {0: (1, 2)}, size_bytes=10, configs={"retention.ms": "5"})
    return made


def test_every_call_of_the_port_is_covered() -> None:
    calls = {name for name in vars(ClusterAdmin) if not name.startswith("_")}
    assert calls - {"close"} == set(READS) | set(WRITES)


@pytest.mark.parametrize("call", READS)
def test_reads_are_handed_on(cluster: FakeCluster, call: str) -> None:
    assert READS[call](ReadOnlyAdmin(cluster)) == READS[call](cluster)


@pytest.mark.parametrize("call", WRITES)
def test_writes_are_refused_and_do_nothing(cluster: FakeCluster, call: str) -> None:
    with pytest.raises(RefusedError, match="read-only"):
        WRITES[call](ReadOnlyAdmin(cluster))
    assert cluster.calls == []


@pytest.mark.parametrize("call", WRITES)
def test_writes_without_the_lease_do_nothing(cluster: FakeCluster, call: str) -> None:
    def lost() -> None:
        raise LeaseLostError("the lease is lost")

    with pytest.raises(LeaseLostError):
        WRITES[call](GuardedAdmin(cluster, lost))
    assert cluster.calls == []
    held: list[str] = []
    WRITES[call](GuardedAdmin(cluster, lambda: held.append(call)))
    assert (held, [name for name, _ in cluster.calls]) == ([call], [call])


def test_closing_closes_the_inner_client(cluster: FakeCluster) -> None:
    ReadOnlyAdmin(cluster).close()
    assert cluster.closed


KEY = TopicPartition("t", 0)


def test_reads_pass_and_writes_are_refused() -> None:
    inner = FakeGroups()
    inner.seed("g", KEY, 5)
    groups: GroupAdmin = ReadOnlyGroups(inner)
    assert groups.groups() == inner.groups()
    assert groups.describe(["g"]) == inner.describe(["g"])
    assert groups.committed("g", [KEY], stable=False) == {KEY: CommittedOffset(offset=5)}
    with pytest.raises(RefusedError):
        groups.commit("g", {KEY: CommittedOffset(offset=1)})
    with pytest.raises(RefusedError):
        groups.forget("g", [KEY])
    with pytest.raises(RefusedError):
        groups.delete("g")
    assert (inner.commits, inner.forgotten, inner.deleted) == ([], [], [])
    groups.close()
    assert inner.closed
