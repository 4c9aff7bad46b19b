"""A `ClusterAdmin` that cannot write: dry runs get this one, so that a mistake in them changes nothing."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from kafkakit.errors import RefusedError
from kafkakit.model import ClusterSnapshot, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.ports import (
    BrokerLogDirs,
    ClusterAdmin,
    ClusterInfo,
    ConfigChange,
    ItemError,
    PartitionState,
    ResourceKind,
)


class ReadOnlyAdmin:
    """Hands reads to `inner` and raises `RefusedError` for every call that changes the cluster."""

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

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemError | None]:
        """Refused."""
        _refuse("move replicas")

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Refused."""
        _refuse("cancel moves")

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """Refused."""
        _refuse("change configurations")

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Refused."""
        _refuse("elect leaders")

    def move_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ItemError | None]:
        """Refused."""
        _refuse("move replicas between log dirs")

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemError | None:
        """Refused."""
        _refuse("create topics")

    def delete_topic(self, name: str) -> ItemError | None:
        """Refused."""
        _refuse("delete topics")

    def close(self) -> None:
        """Close the inner client."""
        self._inner.close()


def _refuse(what: str) -> NoReturn:
    raise RefusedError(f"this client is read-only and will not {what}")
