"""`topicmappr replan` as a pure function: a plan and the cluster of today in, the smallest change to the plan out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from kafkakit.core.errors import RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import DirMove, Plan, StorageFacts, identity_of
from kafkakit.core.topic_selection import TopicSelection
from kafkakit.placement.problem import PlannedPartition, stranded_warning
from kafkakit.topicmappr.decide.assembly import Decision, assemble
from kafkakit.topicmappr.decide.dirs.joining import with_destinations
from kafkakit.topicmappr.decide.replan.by_bytes import solve_bytes
from kafkakit.topicmappr.decide.replan.by_counts import solve_counts
from kafkakit.topicmappr.decide.replan.goal import PlanGoal, goal_of
from kafkakit.topicmappr.decide.replan.limits import limits_of
from kafkakit.topicmappr.decide.replan.places import Places, places_of, rules_now
from kafkakit.topicmappr.decide.replan.situation import MoveState, ReplannedPartition, Situation, drift_of, situation_of
from kafkakit.topicmappr.decide.replan.solved import Solved
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of

REPLANNED_FROM = "replanned-from"


class Fate(StrEnum):
    """What the new plan makes of a partition that either plan moves."""

    DONE = "done"
    RUNNING = "running"
    KEPT = "kept"
    CHANGED = "changed"
    DROPPED = "dropped"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One partition: where it is, where the old plan and the new one put it (None: the plan says nothing)."""

    key: TopicPartition
    fate: Fate
    now: tuple[int, ...]
    old: tuple[int, ...] | None
    new: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """The new plan, and how it differs: `holds` says that the old plan still keeps its goal as it is.

    `intact` says that nothing has changed but for the moves themselves, so that the old file still serves.
    `leads_to` is where the old plan would lead now, in words (empty where the goal has no measure).
    """

    plan: Plan
    goal: PlanGoal
    drift: tuple[str, ...]
    changes: tuple[Change, ...]
    holds: bool
    intact: bool
    leads_to: str
    reasons: tuple[str, ...]
    left_alone: int

    def having(self, *fates: Fate) -> tuple[Change, ...]:
        """The changes of these fates."""
        return tuple(c for c in self.changes if c.fate in fates)

    @property
    def differs(self) -> bool:
        """True when a move is changed, dropped or added."""
        return bool(self.having(Fate.CHANGED, Fate.DROPPED, Fate.ADDED))


def decide_replan(
    plan: Plan, snapshot: ClusterSnapshot, facts: StorageFacts | None = None, *, slack: Fraction = Fraction(0)
) -> Replan:
    """Find the smallest change that brings the plan to its goal from where the cluster is.

    Finished moves stay, running ones keep their target, waiting ones go where they were to go unless the goal
    cannot be kept so. Raises `RefusedError` for another cluster, `TryLaterError` for a snapshot from before the plan
    and unknown sizes, `UsageError` for plans that copy nothing and `InfeasibleError` when the goal is out of reach.
    """
    if plan.cluster_id != snapshot.cluster_id:
        raise RefusedError(
            f"the plan is for cluster {plan.cluster_id}, this is {snapshot.cluster_id}",
            hint="check --profile or the plan file",
        )
    if snapshot.taken_at < plan.snapshot_taken_at:
        raise TryLaterError(
            f"the snapshot is older than the plan ({snapshot.taken_at.isoformat()})", hint="take a new snapshot"
        )
    goal = goal_of(plan, slack)
    situation = situation_of(plan, snapshot)
    if not situation.rows:
        raise UsageError("every partition of the plan is gone", hint="make a new plan")
    places = places_of(plan, snapshot, situation, goal)
    if not places.receivers:
        raise UsageError("no broker of the plan is alive and may take copies", hint="make a new plan")
    sizes = _sizes(snapshot, facts, places) if goal.by_bytes else None
    limits = limits_of(goal.limits, snapshot, places)
    solved = (
        solve_bytes(places, goal, sizes, limits) if sizes is not None else solve_counts(snapshot, plan, goal, places)
    )
    if limits is not None:
        limits.require(solved.lists)
    new = _assembled(plan, snapshot, situation, places, goal, solved, sizes)
    changes = tuple(_changes(situation, solved))
    drift = drift_of(plan, snapshot, situation)
    return Replan(
        plan=new,
        goal=goal,
        drift=drift,
        changes=changes,
        holds=solved.holds,
        intact=not drift and not situation.vanished and not any(row.hangs for row in situation.rows)
        and all(c.fate in (Fate.DONE, Fate.RUNNING, Fate.KEPT) for c in changes),
        leads_to=solved.leads_to,
        reasons=solved.reasons,
        left_alone=solved.left_alone,
    )  # fmt: skip


def _sizes(snapshot: ClusterSnapshot, facts: StorageFacts | None, places: Places) -> Sizes:
    keys = [row.key for i, row in enumerate(places.rows) if i not in places.stranded]
    return storage_of(snapshot, facts, brokers=places.targets, partitions=keys)


def _assembled(
    plan: Plan,
    snapshot: ClusterSnapshot,
    situation: Situation,
    places: Places,
    goal: PlanGoal,
    solved: Solved,
    sizes: Sizes | None,
) -> Plan:
    """The new plan over the partitions that no other process is moving."""
    ours = [(i, row) for i, row in enumerate(situation.rows) if not row.foreign]
    topics = sorted({row.topic.name for _, row in ours})
    scope = Scope(
        tuple(_planned(row, solved.lists[i]) for i, row in ours),
        {row.topic.name: row.topic.topic_id for _, row in ours},
        TopicSelection(tuple(topics), ()),
    )
    stranded = [_planned(places.rows[i], places.rows[i].live) for i in sorted(places.stranded)]
    foreign = len(situation.rows) - len(ours)
    notes = [f"replanned from {identity_of(plan)}", *solved.notes]
    if situation.arrived:
        others = ", ".join(map(str, situation.arrived[:8])) + (" and more" if len(situation.arrived) > 8 else "")
        notes.append(f"live broker(s) {others} have no part in this plan; a new plan could use them")
    if foreign:
        notes.append(f"{foreign} partition(s) that another process is moving are left out of the plan")
    if places.rules.later:
        waiting = len(places.rules.later)
        notes.append(f"{waiting} partition(s) are left for another run of the plan's own command: its budget is spent")
    late = sum(1 for row in situation.rows if row.under_way and not places.leaving.isdisjoint(row.start))
    if late:
        notes.append(f"{late} running move(s) end on brokers that are to be left; replan again when they are done")
    if any(row.hangs for row in situation.rows):
        notes.append(
            "cancel the moves that cannot end before this plan is applied (kafka-reassign-partitions --cancel)"
        )
    certificate = solved.certificate
    decision = Decision(
        replicas=[solved.lists[i] for i, _ in ours],
        certificate=certificate,
        targets=places.targets,
        tags=places.rule.tags,
        rules=rules_now(places, goal),
        storage={b: sizes.brokers[b] for b in places.targets} if sizes is not None else {},
        storage_facts=sizes.facts if sizes is not None else None,
        dir_moves=tuple(_dir_moves(plan, snapshot)),
        notes=tuple(notes),
        warnings=tuple(sorted((*solved.reasons, *map(stranded_warning, stranded), *(sizes.warnings if sizes else ())))),
    )
    words = {**plan.request, REPLANNED_FROM: identity_of(plan)}
    return assemble(snapshot, words, scope, _with_old_dirs(plan, scope, with_destinations(snapshot, scope, decision)))


def _planned(row: ReplannedPartition, new: tuple[int, ...]) -> PlannedPartition:
    isr = row.partition.isr
    return PlannedPartition(
        key=row.key,
        current=row.live,
        wanted=len(new),
        size_bytes=row.size,
        in_sync=None if isr is None else frozenset(isr),
    )


def _with_old_dirs(plan: Plan, scope: Scope, decision: Decision) -> Decision:
    """The log dirs that the old plan chose, for copies that the new one makes too."""
    old = {m.key: m.dirs for m in plan.moves if m.dirs}
    if not old:
        return decision
    dirs = {i: dict(chosen) for i, chosen in decision.dirs.items()}
    for i, (p, new) in enumerate(zip(scope.partitions, decision.replicas, strict=True)):
        for b, path in old.get(p.key, {}).items():
            if b in new and b not in p.current:
                dirs.setdefault(i, {})[b] = path
    return replace(decision, dirs=dirs)


def _dir_moves(plan: Plan, snapshot: ClusterSnapshot) -> Iterator[DirMove]:
    """Moves inside a broker that are still to be made: the copy is there, and in the dir it was in."""
    if not plan.dir_moves:
        return
    where = {TopicPartition(topic, p.partition): p.replica_dirs for topic, p in snapshot.partitions()}
    for move in plan.dir_moves:
        if where.get(TopicPartition(move.topic, move.partition), {}).get(move.broker) == move.source_dir:
            yield move


def _changes(situation: Situation, solved: Solved) -> Iterator[Change]:
    """What becomes of every partition that either plan moves, in the order of the rows."""
    for row, new in zip(situation.rows, solved.lists, strict=True):
        old = row.move.after if row.move is not None else None
        moves = new != row.live and not row.foreign
        if row.state in (MoveState.DONE, MoveState.RUNNING) and new == row.start:
            fate = Fate.DONE if row.state is MoveState.DONE else Fate.RUNNING
        elif row.move is None or row.state is MoveState.DONE:
            if not moves:
                continue
            fate = Fate.ADDED
        elif not moves:
            fate = Fate.DROPPED
        else:
            fate = Fate.KEPT if new == old else Fate.CHANGED
        yield Change(key=row.key, fate=fate, now=row.live, old=old, new=new if moves else None)
    for move in situation.gone:
        yield Change(key=move.key, fate=Fate.DROPPED, now=(), old=move.after, new=None)
