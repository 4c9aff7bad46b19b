"""A `GroupAdmin` that cannot write: dry runs get this one, so that a mistake in them changes nothing."""

from collections.abc import Collection, Mapping
from typing import NoReturn

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import RefusedError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription, GroupListing, ShareOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.groups import GroupAdmin


class ReadOnlyGroups:
    """Passes reads on to `inner` and raises `RefusedError` for every call that changes a group."""

    def __init__(self, inner: GroupAdmin) -> None:
        self._inner = inner

    def groups(self) -> tuple[GroupListing, ...]:
        """See `streams.ports.GroupAdmin`."""
        return self._inner.groups()

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        return self._inner.describe(groups)

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        return self._inner.committed(group, partitions, stable=stable)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """Refused."""
        _refuse("commit offsets")

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """Refused."""
        _refuse("delete commits")

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        """See `streams.ports.GroupAdmin`."""
        return self._inner.share_offsets(groups)

    def delete(self, group: str) -> ItemError | None:
        """Refused."""
        _refuse("delete groups")

    def close(self) -> None:
        """See `streams.ports.GroupAdmin`."""
        self._inner.close()


def _refuse(what: str) -> NoReturn:
    raise RefusedError(f"this client is read-only and will not {what}")
