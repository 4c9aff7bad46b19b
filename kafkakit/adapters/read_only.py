"""Clients that cannot write: dry runs get these, so that a mistake in them changes nothing."""

from collections.abc import Callable, Collection, Mapping
from typing import NoReturn

from kafkakit.core.cluster_facts import (
    AnsweredGroups,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    ItemError,
    ShareOffset,
)
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.admin import AdminReads
from kafkakit.ports.data import GroupAdmin


def _refuse_call(what: str) -> Callable[..., NoReturn]:
    """A method that raises `RefusedError`, whatever it is called with."""

    def refuse(*_given: object, **_named: object) -> NoReturn:
        raise RefusedError(f"this client is read-only and will not {what}")

    return refuse


class ReadOnlyAdmin(AdminReads):
    """A `ClusterAdmin` that passes reads on to `inner` and refuses every call that changes the cluster."""

    reassign = _refuse_call("move replicas")
    cancel = _refuse_call("cancel moves")
    alter_configs = _refuse_call("change configurations")
    elect_preferred_leaders = _refuse_call("elect leaders")
    move_log_dirs = _refuse_call("move replicas between log dirs")
    create_topic = _refuse_call("create topics")
    create_partitions = _refuse_call("create partitions")
    delete_topic = _refuse_call("delete topics")
    delete_topic_by_id = _refuse_call("delete topics")
    create_acls = _refuse_call("create ACLs")
    delete_acls = _refuse_call("delete ACLs")
    delete_records = _refuse_call("delete records")
    alter_client_quotas = _refuse_call("change client quotas")
    unregister_broker = _refuse_call("unregister brokers")


class ReadOnlyGroups:
    """A `GroupAdmin` that passes reads on to `inner` and refuses every call that changes a group."""

    commit = _refuse_call("commit offsets")
    forget = _refuse_call("delete commits")
    delete = _refuse_call("delete groups")

    def __init__(self, inner: GroupAdmin) -> None:
        self._inner = inner

    def groups(self) -> tuple[GroupListing, ...]:
        return self._inner.groups()

    def answered_groups(self) -> AnsweredGroups:
        return self._inner.answered_groups()

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupDescription | ItemError]:
        return self._inner.describe(groups)

    def committed(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
    ) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
        return self._inner.committed(group, partitions, stable=stable)

    def committed_by(
        self, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool = True
    ) -> Mapping[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
        return self._inner.committed_by(groups, partitions, stable=stable)

    def share_offsets(self, groups: Collection[str]) -> Mapping[str, tuple[ShareOffset, ...] | ItemError]:
        return self._inner.share_offsets(groups)

    def close(self) -> None:
        self._inner.close()
