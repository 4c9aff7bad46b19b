"""Plan against live cluster: where each move stands, and whether anything else changed since the plan."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.cluster_facts import PartitionState
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import Broker, Reassignment, TopicPartition
from kafkakit.core.plan import Move, Plan, PlanBroker, ScopeEntry
from kafkakit.core.rights import Duty, Resource, lacking, lacking_on_topics

SHOWN = 5


class MoveState(StrEnum):
    """Where a planned partition stands; see `assess`."""

    AT_BEFORE = "not started"
    TO_AFTER = "in progress"
    AT_AFTER = "done"
    TO_BEFORE = "rolling back"
    SHUFFLED = "order lost by a cancel"
    TO_BETWEEN = "in progress by a detour"
    BETWEEN = "between the lists"
    DIVERTED = "moving elsewhere"
    DRIFTED = "drifted"
    GONE = "topic gone"
    RECREATED = "topic recreated"


DROPPED = frozenset({MoveState.GONE, MoveState.RECREATED})
FOREIGN = frozenset({MoveState.DIVERTED, MoveState.DRIFTED})
_OWN = frozenset(
    {
        MoveState.AT_BEFORE,
        MoveState.AT_AFTER,
        MoveState.TO_AFTER,
        MoveState.TO_BEFORE,
        MoveState.TO_BETWEEN,
        MoveState.BETWEEN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What the cluster says now; `running` was read before `states`, so a move that ends in between is seen."""

    cluster_id: str
    brokers: Mapping[int, Broker]
    states: Mapping[TopicPartition, PartitionState]
    running: Mapping[TopicPartition, Reassignment]
    operations: frozenset[str] | None = None

    def is_alive(self, broker: int) -> bool:
        """True when the broker is registered and unfenced."""
        found = self.brokers.get(broker)
        return found is not None and found.is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One planned move with its live state."""

    move: Move
    state: MoveState
    live: PartitionState | None = None
    running: Reassignment | None = None

    @property
    def holders(self) -> tuple[int, ...]:
        """Brokers with a full copy now: the live list without those that are being added."""
        if self.live is None:
            return ()
        adding = self.running.adding if self.running else ()
        return tuple(b for b in self.live.replicas if b not in adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Every move's state, and what differs from the plan's fingerprint (empty when it matches)."""

    statuses: tuple[MoveStatus, ...]
    differences: tuple[str, ...]

    def having(self, *states: MoveState) -> tuple[MoveStatus, ...]:
        """The moves in one of the given states, in plan order."""
        return tuple(s for s in self.statuses if s.state in states)


Trail = Mapping[TopicPartition, tuple[tuple[int, ...], ...]]
"""The lists that an unfinished run of ours has sent, by partition."""


def assess(plan: Plan, live: Live, *, trail: Trail | None = None, cancelled_by_us: bool = False) -> Assessment:
    """Compare a plan with the live cluster; O(scope), half a second for 200,000 partitions.

    Everything that the fingerprint covers is held against the live cluster, part by part (that it fits
    the plan's own parts was checked when the plan was read). A move that is done or on its way counts
    as unchanged, so that an interrupted run can continue. A list with the right brokers in another order
    counts as ours only after a cancel of ours (Kafka loses the order then). A list that is neither the
    old nor the new one is ours when the journal's `trail` has it: a detour, or one new replica at a time.
    """
    sent = trail or {}
    statuses = tuple(_status(m, live, sent.get(m.key, ())) for m in plan.moves)
    own = set(_OWN)
    if cancelled_by_us:
        own.add(MoveState.SHUFFLED)
    ours = {s.move.key for s in statuses if s.state in own}
    changed: list[str] = []
    if live.cluster_id != plan.cluster_id:
        changed.append(f"cluster {plan.cluster_id} is now {live.cluster_id}")
    changed += [text for text in (_rack_difference(b, live) for b in plan.brokers) if text]
    for entry in plan.scope:
        key = TopicPartition(entry.topic, entry.partition)
        now = live.states.get(key)
        same = now is not None and (now.replicas == entry.replicas or key in ours)
        if now is None or not same or _made_anew(entry.topic_id, now):
            changed.append(_difference(entry, now, live))
    return Assessment(statuses=statuses, differences=tuple(changed))


def require_same_cluster(plan: Plan, live_id: str, pinned: str | None) -> None:
    """Raise `RefusedError` unless the live cluster is the plan's and the profile's."""
    if pinned is not None and pinned != live_id:
        raise RefusedError(f"this is cluster {live_id}, the profile is pinned to {pinned}", hint="check the address")
    if plan.cluster_id != live_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, this is {live_id}", hint="check --profile or the plan file"
        )


def require_rights(duty: Duty, live: Live, topics: Mapping[str, Collection[str] | None] | None = None) -> None:
    """Raise `RefusedError` when the cluster says that the caller may not do its duty.

    `topics` are the caller's rights on the topics that it is about, where it needs any beyond reading them.
    """
    found = [f"{operation} on the cluster" for operation in lacking(duty.rights[Resource.CLUSTER], live.operations)]
    on_topics = lacking_on_topics(duty.rights[Resource.TOPICS], topics or {})
    found += [f"{operation} on topics: {listed(names)}" for operation, names in on_topics.items()]
    if found:
        raise RefusedError(
            f"no right to {' and to '.join(found)}",
            hint="grant it to the user in use; docs/acl.md lists the rights of each command",
        )


def require_applicable(assessment: Assessment, live: Live, *, allow_drift: bool) -> None:
    """Raise `RefusedError` when carrying the plan out would not do what was planned."""
    diverted = assessment.having(MoveState.DIVERTED)
    if diverted:
        where = listed([f"{s.move.key} to {ids(s.running.target if s.running else ())}" for s in diverted])
        raise RefusedError(f"other moves run on planned partitions: {where}", hint="wait for them or cancel them")
    drifted = assessment.having(MoveState.DRIFTED)
    if assessment.differences and (drifted or not allow_drift):
        hint = "make a new plan" if drifted else "make a new plan, or continue with --allow-drift"
        raise RefusedError(f"the cluster changed since the plan: {listed(assessment.differences)}", hint=hint)
    lost = sorted({b for s in assessment.statuses for b in _still_adding(s) if not live.is_alive(b)})
    if lost:
        names = ", ".join(str(b) for b in lost)
        raise RefusedError(
            f"the plan adds copies on broker {names}, which is not alive",
            hint="bring it back, or make a new plan without it; a started run can be undone with `reassign rollback`",
        )


def strangers(plan: Plan, live: Live) -> tuple[TopicPartition, ...]:
    """The partitions that move now although the plan does not move them."""
    return tuple(sorted(live.running.keys() - {m.key for m in plan.moves}))


def require_alone(moving: Sequence[TopicPartition], rates: Sequence[str], cleanup: str) -> None:
    """Raise `RefusedError` when other partitions move, or replication rates are set, that are not of this run.

    `rates` in words; `cleanup` is the command that removes rates which a run left behind.
    """
    if moving:
        raise RefusedError(
            f"{len(moving)} moves that are not of this run are in flight: {listed([str(k) for k in moving])}",
            hint="wait for them with --wait-for-others, or carry on beside them with --join",
        )
    if rates:
        raise RefusedError(
            f"{len(rates)} replication rates are set that are not of this run: {listed(list(rates))}",
            hint="another process may be moving replicas: wait for its end, or pass --join to set rates over these; "
            f"where a run left them: {cleanup}",
        )


def listed(items: tuple[str, ...] | list[str]) -> str:
    """The first few items in one line, with the number of the others."""
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return "; ".join(items[:SHOWN]) + more


def ids(replicas: tuple[int, ...]) -> str:
    """A replica list as text: `[1,2,3]`."""
    return f"[{','.join(str(b) for b in replicas)}]"


def _status(move: Move, live: Live, sent: tuple[tuple[int, ...], ...]) -> MoveStatus:
    now, running = live.states.get(move.key), live.running.get(move.key)
    return MoveStatus(move=move, state=_state(move, now, running, sent), live=now, running=running)


def _state(
    move: Move, now: PartitionState | None, running: Reassignment | None, sent: tuple[tuple[int, ...], ...]
) -> MoveState:
    if now is None:
        return MoveState.GONE
    if _made_anew(move.topic_id, now):
        return MoveState.RECREATED
    if running is not None:
        target = running.target
        if target == move.after:
            return MoveState.TO_AFTER
        if target == move.before:
            return MoveState.TO_BEFORE
        return MoveState.TO_BETWEEN if target in sent else MoveState.DIVERTED
    if now.replicas == move.after:
        return MoveState.AT_AFTER
    if now.replicas == move.before:
        return MoveState.AT_BEFORE
    if now.replicas in sent:
        return MoveState.BETWEEN
    if set(now.replicas) in [set(known) for known in (move.before, move.after, *sent)]:
        return MoveState.SHUFFLED
    return MoveState.DRIFTED


def _still_adding(status: MoveStatus) -> tuple[int, ...]:
    if status.state in DROPPED or status.state is MoveState.AT_AFTER:
        return ()
    return tuple(b for b in status.move.after if b not in status.holders)


def _made_anew(topic_id: str | None, now: PartitionState) -> bool:
    """True when both topic ids are known and differ: a side that does not know it cannot contradict the other."""
    return bool(topic_id and now.topic_id and topic_id != now.topic_id)


def _rack_difference(broker: PlanBroker, live: Live) -> str | None:
    """A broker that is not alive keeps its planned rack: that it is down is judged elsewhere."""
    now = live.brokers.get(broker.id)
    if now is None or not now.is_alive or (now.group or "") == (broker.rack or ""):
        return None
    return f"broker {broker.id}: rack {broker.rack or '-'} is now {now.group or '-'}"


def _difference(entry: ScopeEntry, now: PartitionState | None, live: Live) -> str:
    key = TopicPartition(entry.topic, entry.partition)
    if now is None:
        return f"{key} is gone"
    if _made_anew(entry.topic_id, now):
        return f"{key}: the topic was deleted and created again"
    moving = " (a move is running)" if key in live.running else ""
    return f"{key} was {ids(entry.replicas)}, is {ids(now.replicas)}{moving}"
