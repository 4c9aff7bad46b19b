"""The reading half of a `ClusterAdmin` that wraps another one: every read is passed on."""

from collections.abc import Collection, Mapping
from datetime import datetime

from kafkakit.core.cluster_facts import (
    AclBinding,
    AclResourceKind,
    BrokerLogDirs,
    ClusterInfo,
    ItemError,
    LayeredValue,
    OpenTransaction,
    PartitionState,
    ProducerState,
    Quotas,
    ResourceKind,
)
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition
from kafkakit.ports.admin import ClusterAdmin


class AdminReads:
    """Passes reads and the closing on to `inner`; the class built on it decides about changes."""

    def __init__(self, inner: ClusterAdmin) -> None:
        self._inner = inner

    def cluster(self) -> ClusterInfo:
        """See `ports.ClusterAdmin`."""
        return self._inner.cluster()

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        """See `ports.ClusterAdmin`."""
        return self._inner.snapshot(now=now, topics=topics, sizes=sizes)

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """See `ports.ClusterAdmin`."""
        return self._inner.partition_states(topics)

    def topic_names(self) -> frozenset[str]:
        """See `ports.ClusterAdmin`."""
        return self._inner.topic_names()

    def topic_operations(self, topics: Collection[str] | None = None) -> Mapping[str, frozenset[str] | None]:
        """See `ports.ClusterAdmin`."""
        return self._inner.topic_operations(topics)

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        """See `ports.ClusterAdmin`."""
        return self._inner.log_dirs(brokers, partitions)

    def reassignments(self) -> tuple[Reassignment, ...]:
        """See `ports.ClusterAdmin`."""
        return self._inner.reassignments()

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """See `ports.ClusterAdmin`."""
        return self._inner.dynamic_configs(kind, names)

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """See `ports.ClusterAdmin`."""
        return self._inner.broker_settings(brokers, keys)

    def broker_configs(
        self, brokers: Collection[int], *, defaults: bool = False
    ) -> Mapping[int, Mapping[str, LayeredValue]]:
        """See `ports.ClusterAdmin`."""
        return self._inner.broker_configs(brokers, defaults=defaults)

    def describe_acls(self, kind: AclResourceKind, name: str) -> tuple[AclBinding, ...] | None:
        """See `ports.ClusterAdmin`."""
        return self._inner.describe_acls(kind, name)

    def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | ItemError]:
        """See `ports.ClusterAdmin`."""
        return self._inner.describe_producers(partitions)

    def list_transactions(self) -> tuple[OpenTransaction, ...]:
        """See `ports.ClusterAdmin`."""
        return self._inner.list_transactions()

    def describe_client_quotas(self) -> Quotas:
        """See `ports.ClusterAdmin`."""
        return self._inner.describe_client_quotas()

    def quorum_voters(self) -> frozenset[int] | None:
        """See `ports.ClusterAdmin`."""
        return self._inner.quorum_voters()

    def close(self) -> None:
        """Close the inner client."""
        self._inner.close()
