"""The effects of an operation on clusters: topics, offsets of groups, and fences. Each may be made a second time.

The caller has written the intent, and looks at the live state afterwards: an answer that was lost is no failure here.
"""

from collections.abc import Callable, Iterable, Mapping

from kafkakit.core.acls import AclBinding
from kafkakit.core.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ItemError, ResourceKind
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.cluster_access import ClusterAccess
from kafkakit.execution.act.lease_guard import GuardedAdmin
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.streams.failover.act.reading import read_writers
from kafkakit.streams.failover.decide.fences import FENCE_RATE, SIZE_KEY, SIZE_LIMIT, fence_bindings
from kafkakit.streams.failover.decide.journal import FenceRecord
from kafkakit.streams.failover.decide.operation import FenceKind, LaneMove, Operation
from kafkakit.streams.model.route import Route, Segment, lane_client_id, partitions_of, segment_problem
from kafkakit.streams.routes.api import LaneShape, PlacementScope
from kafkakit.streams.routes.api_act import OpenCluster, create_topics, find_topics, plan_on, set_quotas

SEEDED_AT_ONCE = 50
"""Groups whose offsets are read together before each of them gets its own."""


class Effects:
    """Changes clusters for one operation; `guard` is called before each change and raises once the lease is lost."""

    def __init__(self, open_cluster: OpenCluster, clock: Clock, guard: Callable[[], None]) -> None:
        self._open, self._clock, self._guard = open_cluster, clock, guard

    def create(self, operation: Operation, move: LaneMove, quota: int | None) -> str:
        """Create a target's topic, or take an empty one of its shape; returns its id once it can be seen.

        `quota` in bytes/s is that of the lane, which its new cluster must have, too.

        Raises `RefusedError` for a topic that is there and cannot be taken.
        """
        cluster, profile = self._open(operation.request.to), operation.request.to
        found = cluster.admin.cluster().cluster_id
        if found != operation.cluster_id:
            raise RefusedError(f"profile {profile} reaches cluster {found}, planned was {operation.cluster_id}")
        snapshot = cluster.admin.snapshot(now=self._clock.now(), sizes=False)
        shape = LaneShape(lane=move.lane, partitions=move.partitions, configs=move.configs)
        scope = PlacementScope(replication=move.replication or None)
        planned = plan_on(snapshot, cluster.log, operation.stream, operation.topic_epoch, (shape,), scope)
        ((_, segment),) = create_topics(self._admin(profile), self._clock, profile, found, planned)
        self._match_quota(profile, found, operation.stream, move.lane, quota)
        return segment.topic_id

    def seed(self, profile: str, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> tuple[str, ...]:
        """Commit starts for groups; returns why some are not committed, for the next look to judge.

        A group that joined meanwhile refuses: its members commit for themselves.
        """
        problems = []
        groups = self._open(profile).groups
        for at in range(0, len(offsets), SEEDED_AT_ONCE):
            names = list(offsets)[at : at + SEEDED_AT_ONCE]
            # What another process committed since the look must stay.
            there = groups.committed_by(names, {key for name in names for key in offsets[name]})
            for name in names:
                found = there[name]
                if isinstance(found, ItemError):
                    problems.append(f"group {name}: {found}")
                    continue
                places = {k: CommittedOffset(offset=start) for k, start in offsets[name].items() if k not in found}
                self._guard()
                for key, error in groups.commit(name, places).items() if places else ():
                    if error is not None:
                        problems.append(f"group {name}: {key}: {error}")
        return tuple(problems)

    def planned_fence(self, segment: Segment, kind: FenceKind, operation: Operation, quota: int | None) -> FenceRecord:
        """What a fence will add and replace, read from the cluster: to be written down before it goes up.

        `quota` is that of the segment's lane, which a quota fence replaces.
        """
        cluster, request = self._cluster_of(segment), operation.request
        if kind is FenceKind.QUOTA:
            client_id, before = operation.client_id_of(segment.id), None if quota is None else str(quota)
            return FenceRecord(segment=segment.id, kind=kind, before=before, client_id=client_id)
        if kind is FenceKind.ACL:
            writers = read_writers(cluster, segment, request.is_open_by_default)
            if writers.problem:
                raise TryLaterError(f"{segment.topic}: {writers.problem}")
            return FenceRecord(segment=segment.id, kind=kind, bindings=fence_bindings(segment.topic, writers))
        configs = cluster.admin.dynamic_configs(ResourceKind.TOPIC, (segment.topic,)).get(segment.topic, {})
        return FenceRecord(segment=segment.id, kind=kind, before=configs.get(SIZE_KEY))

    def raise_fence(self, segment: Segment, fence: FenceRecord) -> None:
        """Put a fence up as it was written down; what allows readers comes first."""
        self._cluster_of(segment)
        admin = self._admin(segment.cluster)
        if fence.kind is FenceKind.CONFIG:
            self._alter(admin, segment, ConfigOp.SET, SIZE_LIMIT)
        if fence.kind is FenceKind.QUOTA:
            _limit(admin, fence.client_id, FENCE_RATE)
        for binding in fence.bindings:
            _raise_first(admin.create_acls((binding,)).values(), f"the fence on {segment.topic}")

    def lower_fence(self, segment: Segment, fence: FenceRecord) -> None:
        """Take a fence down: exactly what it brought goes, what it replaced comes back, the denial goes first."""
        self._cluster_of(segment)
        admin = self._admin(segment.cluster)
        if fence.kind is FenceKind.CONFIG:
            op = ConfigOp.DELETE if fence.before is None else ConfigOp.SET
            self._alter(admin, segment, op, fence.before)
        if fence.kind is FenceKind.QUOTA:
            _limit(admin, fence.client_id, None if fence.before is None else int(fence.before))
        for binding in reversed(fence.bindings):
            _raise_first(admin.delete_acls((binding,)).values(), f"the fence on {segment.topic}")

    def delete(self, segment: Segment, *, only_empty: bool) -> str:
        """Delete the topic of a segment by its id; returns what came of it, in words."""
        cluster = self._open(segment.cluster)
        live = cluster.admin.cluster().cluster_id
        found = find_topics(cluster.admin, (segment.topic,)).get(segment.topic)
        if live != segment.cluster_id:
            return f"kept: profile {segment.cluster} reaches cluster {live}"
        if found is None:
            return "does not exist"
        if found.topic_id != segment.topic_id:
            return "kept: it was created again, under another id"
        spans = cluster.log.spans(partitions_of(segment)) if only_empty else {}
        if any(not isinstance(span, LogSpan) or span.end > 0 for span in spans.values()):
            return "kept: it is not empty"
        error = self._admin(segment.cluster).delete_topic_by_id(segment.topic_id)
        if error is not None:
            raise OperationFailedError(f"topic {segment.topic} is not deleted: {error}")
        return "deleted"

    def drop_quota(self, route: Route, lane: str, segment: Segment) -> None:
        """Remove a lane's quota from the cluster of a segment that is out of the route, where it has no other one."""
        found = route.lane(lane)
        if found is None or found.quota_bytes_per_s is None:
            return
        stays = any(each.cluster_id == segment.cluster_id for each in found.segments)
        if not stays and self._open(segment.cluster).admin.cluster().cluster_id == segment.cluster_id:
            self._set_quota(segment.cluster, segment.cluster_id, route.stream, lane, None)

    def _match_quota(self, profile: str, cluster_id: str, stream: str, lane: str, quota: int | None) -> None:
        """Give a lane its quota, and take one away that an earlier stay left; None needs no right to read quotas."""
        entity = QuotaEntity(client_id=lane_client_id(stream, lane))
        try:
            known = self._open(profile).admin.describe_client_quotas().get(entity, {}).get(PRODUCER_BYTE_RATE)
        except KafkakitError:
            if quota is not None:
                raise
            return
        if known != quota:
            self._set_quota(profile, cluster_id, stream, lane, quota)

    def _set_quota(self, profile: str, cluster_id: str, stream: str, lane: str, rate: int | None) -> None:
        access = ClusterAccess(cluster_id=cluster_id, admin=self._admin(profile), clock=self._clock)
        set_quotas(access, stream, {lane: rate})

    def drop_bindings(self, segment: Segment, bindings: tuple[AclBinding, ...]) -> None:
        """Remove the ACLs of a fence once its topic is gone."""
        if bindings:
            _raise_first(self._admin(segment.cluster).delete_acls(bindings).values(), f"the ACLs of {segment.topic}")

    def _admin(self, profile: str) -> ClusterAdmin:
        return GuardedAdmin(self._open(profile).admin, self._guard)

    def _cluster_of(self, segment: Segment) -> ClusterClients:
        """The cluster of a segment whose topic is still the one that is meant; names and addresses prove nothing."""
        cluster = self._open(segment.cluster)
        found = find_topics(cluster.admin, (segment.topic,)).get(segment.topic)
        problem = segment_problem(segment, cluster.admin.cluster().cluster_id, found)
        if problem:
            raise RefusedError(f"{segment.topic}: {problem}")
        return cluster

    def _alter(self, admin: ClusterAdmin, segment: Segment, op: ConfigOp, value: str | None) -> None:
        change = ConfigChange(kind=ResourceKind.TOPIC, name=segment.topic, key=SIZE_KEY, op=op, value=value)
        _raise_first(admin.alter_configs((change,)).values(), f"{SIZE_KEY} of {segment.topic}")


def _limit(admin: ClusterAdmin, client_id: str, rate: int | None) -> None:
    answers = admin.alter_client_quotas({QuotaEntity(client_id=client_id): {PRODUCER_BYTE_RATE: rate}})
    _raise_first(answers.values(), f"the quota of client id {client_id}")


def _raise_first(answers: Iterable[ItemError | None], what: str) -> None:
    error = next((each for each in answers if each is not None), None)
    if error is not None:
        raise (TryLaterError if error.retriable else OperationFailedError)(f"{what} is not changed: {error}")
