"""The shadow of a stream: made like it, and removed without a trace, by whichever process comes next."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from kafkakit.core.acls import AclResourceKind
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import ConflictError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.lease import LEASE_DOCUMENT
from kafkakit.execution.act.lease_guard import GuardedAdmin
from kafkakit.execution.act.retrier import wait_until
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.ports.control import ControlStore
from kafkakit.streams.failover.decide.journal import lease_of
from kafkakit.streams.model.route import Lane, Route, Segment
from kafkakit.streams.routes.api import LaneShape, PlacementScope
from kafkakit.streams.routes.api_act import OpenCluster, RouteStore, create_topics, find_topics, own_settings, plan_on

GONE_S = 30.0
LEAVE_S = 60.0
"""Longer than a group keeps a member that was killed."""
CLIENTS_S = 3.0
"""A client that closes takes its registration away in the background."""


class ShadowStream:
    """Makes and removes the stream of a name; `guard` is called before each change of a cluster or of the store."""

    def __init__(
        self, name: str, store: ControlStore, clock: Clock, open_cluster: OpenCluster, guard: Callable[[], None]
    ) -> None:
        self._name, self._store, self._clock, self._open, self._guard = name, store, clock, open_cluster, guard

    def make(self, lanes: Sequence[Lane], by: str) -> Route:
        """A topic for each lane, with the partitions, replicas and settings of the one that is written, and a route."""
        made = []
        for number, lane in enumerate(lanes, 1):
            if lane.active is None:
                raise UsageError(f"lane {lane.name} has no active segment")
            segment = replace(self._topic(lane.name, lane.active), id=number)
            made.append(replace(lane, segments=(segment,), is_paused=False, quota_bytes_per_s=None))
        route = Route(stream=self._name, epoch=1, next_segment=len(made) + 1, lanes=tuple(made))
        self._guard()
        return RouteStore(self._store).create(
            route, by=by, what="shadow for a rehearsal", at_ms=epoch_ms(self._clock.now())
        )

    def remove(self, profiles: Collection[str]) -> tuple[str, ...]:
        """Delete topics, their ACLs, the group and all documents but the lease; returns what was there, in words.

        Topics are known by the shadow's name at the beginning of theirs, which no other stream may have.
        """
        found: list[str] = []
        for profile in sorted(set(profiles)):
            found += self._remove_from(profile)
        clients = f"streams/{self._name}/clients"
        wait_until(self._clock, CLIENTS_S, lambda: not self._store.children(clients))
        if self._forget(f"streams/{self._name}", keep=lease_of(self._name)):
            found.append("documents in the control store")
        return tuple(found)

    def _topic(self, lane: str, like: Segment) -> Segment:
        cluster = self._open(like.cluster)
        configs = cluster.admin.dynamic_configs(ResourceKind.TOPIC, (like.topic,)).get(like.topic, {})
        copies = [len(state.replicas) for state in cluster.admin.partition_states((like.topic,)).values()]
        shape = LaneShape(lane=lane, partitions=like.partitions, configs=own_settings(configs))
        snapshot = cluster.admin.snapshot(now=self._clock.now(), sizes=False)
        scope = PlacementScope(replication=max(copies, default=0) or None)
        planned = plan_on(snapshot, cluster.log, self._name, 1, (shape,), scope)
        admin = GuardedAdmin(cluster.admin, self._guard)
        ((_, segment),) = create_topics(admin, self._clock, like.cluster, cluster.admin.cluster().cluster_id, planned)
        return segment

    def _remove_from(self, profile: str) -> list[str]:
        cluster = self._open(profile)
        admin, found = GuardedAdmin(cluster.admin, self._guard), []
        topics = self._topics(cluster)
        for topic, place in sorted(find_topics(cluster.admin, topics).items()):
            bindings = [each for each in admin.describe_acls(AclResourceKind.TOPIC, topic) or () if each.name == topic]
            if bindings:
                admin.delete_acls(bindings)
            error = admin.delete_topic_by_id(place.topic_id or "")
            if error is not None:
                raise OperationFailedError(f"topic {topic} of {profile} is not deleted: {error}")
            found.append(f"topic {topic} of {profile}")
        if topics and not wait_until(self._clock, GONE_S, lambda: not self._topics(cluster)):
            raise TryLaterError(f"topics of {self._name} on {profile} are not gone after {GONE_S:g} s")
        self._guard()
        if any(listed.group == self._name for listed in cluster.groups.groups()):
            if not wait_until(self._clock, LEAVE_S, lambda: cluster.groups.delete(self._name) is None):
                raise TryLaterError(f"group {self._name} of {profile} still has members")
            found.append(f"group {self._name} of {profile}")
        return found

    def _topics(self, cluster: ClusterClients) -> tuple[str, ...]:
        return tuple(name for name in cluster.admin.topic_operations() if name.startswith(f"{self._name}."))

    def _forget(self, path: str, keep: str) -> bool:
        """Remove a document and everything below it; whether there was anything."""
        had = False
        for name in self._store.children(path):
            had |= self._forget(f"{path}/{name}", keep)
        read = None if path == keep else self._store.get(path)
        if read is not None:
            self._guard()
            with suppress(ConflictError):
                self._store.delete(path, read.version)
        return had or read is not None


def forget_lease(store: ControlStore, stream: str) -> None:
    """Remove the lease of a stream that is gone, unless a process holds it."""
    path = lease_of(stream)
    read = store.get(path)
    if read is not None and LEASE_DOCUMENT.decode(read.value, path).holder is None:
        with suppress(ConflictError):
            store.delete(path, read.version)
