"""A `ClusterAdmin` that cannot write: dry runs get this one, so that a mistake in them changes nothing."""

from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from kafkakit.core.cluster_facts import ConfigChange, ItemError
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.ports.admin_reads import AdminReads


class ReadOnlyAdmin(AdminReads):
    """Passes reads on to `inner` and raises `RefusedError` for every call that changes the cluster."""

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

    def unregister_broker(self, broker: int) -> ItemError | None:
        """Refused."""
        _refuse("unregister brokers")


def _refuse(what: str) -> NoReturn:
    raise RefusedError(f"this client is read-only and will not {what}")
