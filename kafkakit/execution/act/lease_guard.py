"""Nothing is changed on a cluster without its lease: clients and clocks that ask for it first."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from kafkakit.core.acls import AclBinding
from kafkakit.core.client_quotas import QuotaChanges, QuotaEntity
from kafkakit.core.cluster_facts import ConfigChange, ItemError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.admin_reads import AdminReads
from kafkakit.ports.clock import Clock

AWAY_S = 300.0
"""How long a run waits for a control store that is away: moves continue by themselves meanwhile, throttles stay set."""


class Held(Protocol):
    """The right to act on a cluster."""

    def require_held(self) -> None:
        """Keep the right, when it is time to; return only while it is certainly ours, else raise `LeaseLostError`."""
        ...

    def keep(self, retry_limit_s: float) -> None:
        """Keep the right while nothing is done, and wait so long for a store that does not answer."""
        ...


class HeldClock:
    """A clock that keeps the lease while a run sleeps; longer sleeps are cut into pieces of `piece_s`.

    A sleep lasts until the control store answers, `away_s` at most: a run that slept looks at the cluster again before
    it acts, so that is where a run waits, and not between a look and its effect.
    """

    def __init__(self, inner: Clock, held: Held, piece_s: float, away_s: float = AWAY_S) -> None:
        self._inner, self._held, self._piece_s, self._away_s = inner, held, piece_s, away_s

    def now(self) -> datetime:
        """See `ports.Clock`."""
        return self._inner.now()

    def monotonic(self) -> float:
        """See `ports.Clock`."""
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep; raises `LeaseLostError` when the lease was lost or could not be kept meanwhile."""
        left = seconds
        while left > 0:
            piece = min(left, self._piece_s)
            self._inner.sleep(piece)
            self._held.keep(self._away_s)
            left -= piece


class GuardedAdmin(AdminReads):
    """A `ClusterAdmin` that calls `guard` before every change; reads go straight to `inner`."""

    def __init__(self, inner: ClusterAdmin, guard: Callable[[], None]) -> None:
        super().__init__(inner)
        self._guard = guard

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.reassign(targets)

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.cancel(partitions)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.alter_configs(changes)

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.elect_preferred_leaders(partitions)

    def move_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.move_log_dirs(moves)

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.create_topic(name, assignments, configs)

    def delete_topic(self, name: str) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_topic(name)

    def delete_topic_by_id(self, topic_id: str) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_topic_by_id(topic_id)

    def create_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.create_acls(bindings)

    def delete_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_acls(bindings)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_records(offsets)

    def alter_client_quotas(self, changes: QuotaChanges) -> Mapping[QuotaEntity, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.alter_client_quotas(changes)

    def unregister_broker(self, broker: int) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.unregister_broker(broker)
