"""Plan against live cluster: where each move stands, and whether anything else changed since the plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.errors import RefusedError
from kafkakit.model import Broker, Reassignment, TopicPartition
from kafkakit.ports import PartitionState
from kafkakit.topicmappr.plan import Move, Plan, PlanBroker, ScopeEntry, fingerprint_of

SHOWN = 5


class MoveState(StrEnum):
    """Where a planned partition stands; see `assess`."""

    AT_BEFORE = "not started"
    TO_AFTER = "in progress"
    AT_AFTER = "done"
    TO_BEFORE = "rolling back"
    SHUFFLED = "order lost by a cancel"
    DIVERTED = "moving elsewhere"
    DRIFTED = "drifted"
    GONE = "topic gone"
    RECREATED = "topic recreated"


DROPPED = frozenset({MoveState.GONE, MoveState.RECREATED})
FOREIGN = frozenset({MoveState.DIVERTED, MoveState.DRIFTED})


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


def assess(plan: Plan, live: Live, *, cancelled_by_us: bool = False) -> Assessment:
    """Compare a plan with the live cluster.

    The fingerprint is computed anew from the live lists, with the plan's `before` in the place of each
    move that is done or on its way, so that an interrupted run can go on. A list with the right brokers
    in another order counts as ours only after a cancel of ours (Kafka loses the order then).
    """
    statuses = tuple(_status(m, live) for m in plan.moves)
    own = {MoveState.AT_BEFORE, MoveState.AT_AFTER, MoveState.TO_AFTER, MoveState.TO_BEFORE}
    if cancelled_by_us:
        own.add(MoveState.SHUFFLED)
    replaced = {s.move.key: s.move.before for s in statuses if s.state in own}
    scope = tuple(_live_entry(e, live, replaced) for e in plan.scope)
    brokers = tuple(_live_broker(b, live) for b in plan.brokers)
    if fingerprint_of(live.cluster_id, brokers, scope) == plan.fingerprint:
        return Assessment(statuses=statuses, differences=())
    changed = [_difference(old, new, live) for old, new in zip(plan.scope, scope, strict=True) if old != new]
    racks = [
        f"broker {old.id}: rack {old.rack or '-'} is now {new.rack or '-'}"
        for old, new in zip(plan.brokers, brokers, strict=True)
        if (old.rack or "") != (new.rack or "")
    ]
    return Assessment(statuses=statuses, differences=(*racks, *changed) or ("the fingerprint differs",))


def require_same_cluster(plan: Plan, live_id: str, pinned: str | None) -> None:
    """Raise `RefusedError` unless the live cluster is the plan's and the profile's."""
    if pinned is not None and pinned != live_id:
        raise RefusedError(f"this is cluster {live_id}, the profile is pinned to {pinned}", hint="check the address")
    if plan.cluster_id != live_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, this is {live_id}", hint="check --profile or the plan file"
        )


def require_rights(live: Live, *, throttled: bool) -> None:
    """Raise `RefusedError` when the cluster says that the caller may not change what a run changes."""
    needed = {"alter"} | ({"alter_configs"} if throttled else set())
    missing = sorted(needed - live.operations) if live.operations is not None else []
    if missing:
        raise RefusedError(
            f"no right to {' and '.join(missing)} on the cluster", hint="grant the ACLs to the principal in use"
        )


def require_applicable(assessment: Assessment, live: Live, *, allow_drift: bool) -> None:
    """Raise `RefusedError` when carrying the plan out would not do what was planned."""
    diverted = assessment.having(MoveState.DIVERTED)
    if diverted:
        where = listed([f"{s.move.key} to {ids(s.running.target if s.running else ())}" for s in diverted])
        raise RefusedError(f"other moves run on planned partitions: {where}", hint="wait for them or cancel them")
    drifted = assessment.having(MoveState.DRIFTED)
    if assessment.differences and (drifted or not allow_drift):
        hint = "make a new plan" if drifted else "make a new plan, or go on with --allow-drift"
        raise RefusedError(f"the cluster changed since the plan: {listed(assessment.differences)}", hint=hint)
    lost = sorted({b for s in assessment.statuses for b in _still_adding(s) if not live.is_alive(b)})
    if lost:
        names = ", ".join(str(b) for b in lost)
        raise RefusedError(
            f"the plan adds copies on broker {names}, which is not alive",
            hint="bring it back, or make a new plan without it; a started run can be undone with `reassign rollback`",
        )


def listed(items: tuple[str, ...] | list[str]) -> str:
    """The first few items in one line, with the number of the others."""
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return "; ".join(items[:SHOWN]) + more


def ids(replicas: tuple[int, ...]) -> str:
    """A replica list as text: `[1,2,3]`."""
    return f"[{','.join(str(b) for b in replicas)}]"


def _status(move: Move, live: Live) -> MoveStatus:
    now, running = live.states.get(move.key), live.running.get(move.key)
    return MoveStatus(move=move, state=_state(move, now, running), live=now, running=running)


def _state(move: Move, now: PartitionState | None, running: Reassignment | None) -> MoveState:
    if now is None:
        return MoveState.GONE
    if move.topic_id and now.topic_id and move.topic_id != now.topic_id:
        return MoveState.RECREATED
    if running is not None:
        states = {move.after: MoveState.TO_AFTER, move.before: MoveState.TO_BEFORE}
        return states.get(running.target, MoveState.DIVERTED)
    if now.replicas == move.after:
        return MoveState.AT_AFTER
    if now.replicas == move.before:
        return MoveState.AT_BEFORE
    if set(now.replicas) in (set(move.before), set(move.after)):
        return MoveState.SHUFFLED
    return MoveState.DRIFTED


def _still_adding(status: MoveStatus) -> tuple[int, ...]:
    if status.state in DROPPED or status.state is MoveState.AT_AFTER:
        return ()
    return tuple(b for b in status.move.after if b not in status.holders)


def _live_entry(entry: ScopeEntry, live: Live, replaced: Mapping[TopicPartition, tuple[int, ...]]) -> ScopeEntry:
    key = TopicPartition(entry.topic, entry.partition)
    now = live.states.get(key)
    if now is None:
        return ScopeEntry(topic=entry.topic, partition=entry.partition, replicas=())
    # A side that does not know the topic's id cannot contradict the other.
    topic_id = now.topic_id if entry.topic_id and now.topic_id else entry.topic_id
    replicas = replaced.get(key, now.replicas)
    return ScopeEntry(topic=entry.topic, partition=entry.partition, replicas=replicas, topic_id=topic_id)


def _live_broker(broker: PlanBroker, live: Live) -> PlanBroker:
    """A broker that the cluster does not list keeps its planned rack: that it is down is judged elsewhere."""
    now = live.brokers.get(broker.id)
    return PlanBroker(id=broker.id, rack=broker.rack if now is None or not now.is_alive else now.rack)


def _difference(old: ScopeEntry, new: ScopeEntry, live: Live) -> str:
    key = TopicPartition(old.topic, old.partition)
    if not new.replicas:
        return f"{key} is gone"
    if old.topic_id != new.topic_id:
        return f"{key}: the topic was deleted and created again"
    moving = " (a move is running)" if key in live.running else ""
    return f"{key} was {ids(old.replicas)}, is {ids(new.replicas)}{moving}"
