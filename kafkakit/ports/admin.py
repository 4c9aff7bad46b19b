"""The control side of a cluster: brokers, topics, configurations and reassignments; and the reading half of it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from kafkakit.core.cluster_facts import (
    AclBinding,
    AclResourceKind,
    BrokerLogDirs,
    ClusterInfo,
    ConfigChange,
    ItemError,
    LayeredValue,
    MetadataVersion,
    OpenTransaction,
    PartitionHealth,
    PartitionState,
    ProducerState,
    Quorum,
    QuotaChanges,
    QuotaEntity,
    Quotas,
    ResourceKind,
)
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition, TopicPartitionReplica


class ClusterAdmin(Protocol):
    """Control of one Kafka cluster. Cost: one request each unless stated otherwise."""

    def cluster(self) -> ClusterInfo:
        """Read identity, registered brokers (fenced ones too, where reported) and the caller's rights."""
        ...

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        """Read brokers, topics (all when None), ISR, configs, reassignments and, if requested, sizes.

        Log dirs are requested of all brokers side by side; one that does not answer within the adapter's
        limit is named in `unanswered_brokers`. Unknown topic names are left out.
        """
        ...

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Read replicas, ISR and leader of the named topics; a topic that does not exist is absent."""
        ...

    def partition_health(self) -> PartitionHealth:
        """Count all partitions and read those that are not whole; 200,000 partitions take some 1.5 s."""
        ...

    def topic_settings(self, topics: Collection[str], keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Read the values in force (defaults too) of these keys only; unknown topics and unset keys are absent."""
        ...

    def topic_names(self) -> frozenset[str]:
        """Read the names of all topics that the caller may see; one request more where brokers list no names."""
        ...

    def topic_operations(self, topics: Collection[str] | None = None) -> Mapping[str, frozenset[str] | None]:
        """Read the caller's rights on the topics (all that it may see when None); None where the broker does not say.

        A topic that does not exist is absent; one that may not be seen is absent unless it is named, then it has none.
        """
        ...

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        """Read log dirs and copies from each broker side by side; None = all partitions, empty = capacities only."""
        ...

    def reassignments(self) -> tuple[Reassignment, ...]:
        """Read the moves that are running, sorted by topic and partition."""
        ...

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemError | None]:
        """Submit target replica lists; at most 10,000 a call (Kafka accepts no more)."""
        ...

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Cancel running moves; one that is not running counts as done (None)."""
        ...

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Read the values set on each resource itself (no defaults); unknown resources are absent.

        `CLUSTER_DEFAULT` among the names of brokers gives the dynamic default of the cluster.
        """
        ...

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """Read the values in force (defaults too), one request a broker; unset keys and silent brokers are absent."""
        ...

    def metadata_versions(self, brokers: Collection[int]) -> Mapping[int, MetadataVersion]:
        """Read `metadata.version` from each broker; absent are silent ones, and those of clusters without KRaft."""
        ...

    def broker_configs(
        self, brokers: Collection[int], *, defaults: bool = False
    ) -> Mapping[int, Mapping[str, LayeredValue]]:
        """Read every value in force with its layer, `defaults` too where wanted; silent brokers are absent."""
        ...

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """Apply incremental changes in order; a dead broker's change answers with an error."""
        ...

    def check_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """Ask whether brokers would take the changes, which needs the right to make them; nothing is changed."""
        ...

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Make the first replica leader where it is in the ISR; already leading counts as done (None)."""
        ...

    def move_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ItemError | None]:
        """Have brokers hold a copy in the named absolute dir; before the copy exists it assigns the dir (None)."""
        ...

    def create_topic(
        self,
        name: str,
        assignments: Mapping[int, tuple[int, ...]],
        configs: Mapping[str, str],
    ) -> ItemError | None:
        """Create a topic with the given replica list for each partition number (0 upwards)."""
        ...

    def create_partitions(self, topic: str, assignments: Mapping[int, tuple[int, ...]]) -> ItemError | None:
        """Add partitions with these replica lists; their numbers follow those that the topic has."""
        ...

    def delete_topic(self, name: str) -> ItemError | None:
        """Delete a topic and its records, for good."""
        ...

    def delete_topic_by_id(self, topic_id: str) -> ItemError | None:
        """Delete the topic of this id, whatever its name; one that is not there counts as done (None)."""
        ...

    def describe_acls(self, kind: AclResourceKind | None, name: str | None) -> tuple[AclBinding, ...] | None:
        """Read every binding that concerns a resource, sorted: by its name, by a prefix and by `*`; None means any.

        None where the cluster has no authorizer.
        """
        ...

    def create_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """Add exactly these bindings; one that is there counts as done (None). Brokers act on it a moment later."""
        ...

    def delete_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """Delete exactly these bindings and no other; one that is not there counts as done (None)."""
        ...

    def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | ItemError]:
        """Read from the leaders which producers wrote to each partition, by producer id."""
        ...

    def list_transactions(self) -> tuple[OpenTransaction, ...]:
        """Read every transaction that is not complete, by transactional id; two requests to each live broker.

        Those that the caller may not describe are left out by Kafka. Raises `TryLaterError` unless every live broker
        answers, because a transaction is known to its coordinator alone.
        """
        ...

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemError | None]:
        """Delete every record below these offsets for good; the leaders do it, one request to each of them."""
        ...

    def describe_client_quotas(self) -> Quotas:
        """Read every quota of users and client ids as it is set, of all keys; those of addresses are left out."""
        ...

    def alter_client_quotas(self, changes: QuotaChanges) -> Mapping[QuotaEntity, ItemError | None]:
        """Set and remove quotas; an entity is changed as a whole or not at all, removing what is not set is done."""
        ...

    def quorum(self) -> Quorum | None:
        """Read the controllers with a vote and how far each is behind; None where no quorum tells (ZooKeeper)."""
        ...

    def unregister_broker(self, broker: int) -> ItemError | None:
        """Take a stopped broker off the cluster's list (KRaft); one that is not on it counts as done (None)."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class AdminReads:
    """Passes reads and the closing on to `inner`; the class built on it decides about changes."""

    def __init__(self, inner: ClusterAdmin) -> None:
        self._inner = inner

    def cluster(self) -> ClusterInfo:
        return self._inner.cluster()

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        return self._inner.snapshot(now=now, topics=topics, sizes=sizes)

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        return self._inner.partition_states(topics)

    def partition_health(self) -> PartitionHealth:
        return self._inner.partition_health()

    def topic_settings(self, topics: Collection[str], keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return self._inner.topic_settings(topics, keys)

    def topic_names(self) -> frozenset[str]:
        return self._inner.topic_names()

    def topic_operations(self, topics: Collection[str] | None = None) -> Mapping[str, frozenset[str] | None]:
        return self._inner.topic_operations(topics)

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        return self._inner.log_dirs(brokers, partitions)

    def reassignments(self) -> tuple[Reassignment, ...]:
        return self._inner.reassignments()

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return self._inner.dynamic_configs(kind, names)

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        return self._inner.broker_settings(brokers, keys)

    def metadata_versions(self, brokers: Collection[int]) -> Mapping[int, MetadataVersion]:
        return self._inner.metadata_versions(brokers)

    def broker_configs(
        self, brokers: Collection[int], *, defaults: bool = False
    ) -> Mapping[int, Mapping[str, LayeredValue]]:
        return self._inner.broker_configs(brokers, defaults=defaults)

    def check_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        return self._inner.check_configs(changes)

    def describe_acls(self, kind: AclResourceKind | None, name: str | None) -> tuple[AclBinding, ...] | None:
        return self._inner.describe_acls(kind, name)

    def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | ItemError]:
        return self._inner.describe_producers(partitions)

    def list_transactions(self) -> tuple[OpenTransaction, ...]:
        return self._inner.list_transactions()

    def describe_client_quotas(self) -> Quotas:
        return self._inner.describe_client_quotas()

    def quorum(self) -> Quorum | None:
        return self._inner.quorum()

    def close(self) -> None:
        """Close the inner client."""
        self._inner.close()
