"""`topicmappr replan` as a pure function: a plan and the cluster of today in, the smallest change to the plan out.

A balance of bytes takes the plan's end on today's sizes, and the fewest changes that reach it. By places and counts,
what the plan leads to stays, and what lost its place gets a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from kafkakit.core.errors import InfeasibleError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import (
    BrokerLimit,
    Certificate,
    DirMove,
    Plan,
    Proof,
    ProofKind,
    StorageFacts,
    certificate,
    identity_of,
)
from kafkakit.core.selection import TopicSelection
from kafkakit.core.text import abort_command, few_of
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import Disks, LoadsNow, bytes_now, counts_now
from kafkakit.placement.by_size.lp_relaxation import (
    BalanceGoal,
    BalanceProblem,
    DemandGroups,
    LoadLimits,
    LoadWindow,
    RangeGoal,
    demand_groups_of,
)
from kafkakit.placement.by_size.proof import argument_of, explain_infeasible, proof_of
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.by_size.tightening import at_deviation, tightest_relaxed
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import ClosedBrokers
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.minimal import substitute
from kafkakit.placement.openings import OpeningsTask, fill_openings, group_openings, pool_of
from kafkakit.placement.problem import PlannedPartition, rackless_note, stranded_warning
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlanDecision, assemble
from kafkakit.topicmappr.decide.dirs import fit_dirs, with_destinations
from kafkakit.topicmappr.decide.replan_situation import (
    GoalKind,
    Places,
    PlanGoal,
    PlanLimits,
    ReplannedPartition,
    ReplanState,
    Situation,
    drift_of,
    goal_of,
    limits_of,
    places_of,
    rules_now,
    situation_of,
)
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.decide.storage import Sizes, storage_of

REPLANNED_FROM = "replanned-from"


class MoveChange(StrEnum):
    """What the new plan makes of a partition that either plan moves."""

    DONE = "done"
    RUNNING = "running"
    KEPT = "kept"
    CHANGED = "changed"
    DROPPED = "dropped"
    ADDED = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanChange:
    """One partition: where it is, where the old plan and the new one put it (None: the plan says nothing)."""

    key: TopicPartition
    fate: MoveChange
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
    changes: tuple[ReplanChange, ...]
    holds: bool
    intact: bool
    leads_to: str
    reasons: tuple[str, ...]
    left_alone: int

    def having(self, *fates: MoveChange) -> tuple[ReplanChange, ...]:
        """The changes of these fates."""
        return tuple(c for c in self.changes if c.fate in fates)

    @property
    def differs(self) -> bool:
        """True when a move is changed, dropped or added."""
        return bool(self.having(MoveChange.CHANGED, MoveChange.DROPPED, MoveChange.ADDED))


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
    return fit_dirs(snapshot, lambda closed: _decide(plan, snapshot, situation, places, goal, sizes, closed))


def _decide(
    plan: Plan,
    snapshot: ClusterSnapshot,
    situation: Situation,
    places: Places,
    goal: PlanGoal,
    sizes: Sizes | None,
    closed: ClosedBrokers,
) -> tuple[Replan, Sequence[HomelessCopy]]:
    places = replace(places, rule=replace(places.rule, closed=closed))
    limits = limits_of(goal.limits, snapshot, places)
    solved = (
        solve_bytes(places, goal, sizes, limits) if sizes is not None else solve_counts(snapshot, plan, goal, places)
    )
    if limits is not None:
        limits.require(solved.lists)
    new, homeless = _assemble_plan(plan, snapshot, situation, places, goal, solved, sizes)
    changes = tuple(_changes(situation, solved))
    drift = drift_of(plan, snapshot, situation)
    replanned = Replan(
        plan=new,
        goal=goal,
        drift=drift,
        changes=changes,
        holds=solved.holds,
        intact=not drift and not situation.vanished and not any(row.hangs for row in situation.rows)
        and all(c.fate in (MoveChange.DONE, MoveChange.RUNNING, MoveChange.KEPT) for c in changes),
        leads_to=solved.leads_to,
        reasons=solved.reasons,
        left_alone=solved.left_alone,
    )  # fmt: skip
    # What runs now goes on, wherever it is planned.
    running = {row.key for row in situation.rows if row.under_way}
    return replanned, [copy for copy in homeless if copy.key not in running]


def _sizes(snapshot: ClusterSnapshot, facts: StorageFacts | None, places: Places) -> Sizes:
    keys = [row.key for i, row in enumerate(places.rows) if i not in places.stranded]
    return storage_of(snapshot, facts, brokers=places.targets, partitions=keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedLists:
    """Lists in the order of the rows; `holds` says that the plan as it stood keeps the goal.

    `reasons` tell why partitions find no place, `left_alone` counts these. `leads_to` says in words where the plan as
    it stood would have led.
    """

    lists: tuple[tuple[int, ...], ...]
    holds: bool
    certificate: Certificate
    reasons: tuple[str, ...] = ()
    left_alone: int = 0
    notes: tuple[str, ...] = ()
    leads_to: str = ""


def _assemble_plan(
    plan: Plan,
    snapshot: ClusterSnapshot,
    situation: Situation,
    places: Places,
    goal: PlanGoal,
    solved: SolvedLists,
    sizes: Sizes | None,
) -> tuple[Plan, Sequence[HomelessCopy]]:
    """The new plan over the partitions that no other process is moving, and its copies that find no log dir."""
    ours = [(i, row) for i, row in enumerate(situation.rows) if not row.foreign]
    topics = sorted({row.topic.name for _, row in ours})
    scope = Scope(
        tuple(_planned_partition(row, solved.lists[i]) for i, row in ours),
        {row.topic.name: row.topic.topic_id for _, row in ours},
        TopicSelection(tuple(topics), ()),
    )
    stranded = [_planned_partition(places.rows[i], places.rows[i].live) for i in sorted(places.stranded)]
    foreign = len(situation.rows) - len(ours)
    notes = [f"replanned from {identity_of(plan)}", *solved.notes]
    notes += rackless_note(places.receivers, places.racks)
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
        made = abort_command("kafkakit", [row.key for row in situation.rows if row.hangs])
        notes.append(f"cancel the moves that cannot end before this plan is applied: {made}")
    certificate = solved.certificate
    decision = PlanDecision(
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
    decision = with_destinations(snapshot, scope, decision)
    return assemble(snapshot, words, scope, _with_old_dirs(plan, scope, decision)), decision.homeless


def _planned_partition(row: ReplannedPartition, new: tuple[int, ...]) -> PlannedPartition:
    isr = row.partition.isr
    return PlannedPartition(
        key=row.key,
        current=row.live,
        wanted=len(new),
        size_bytes=row.size,
        in_sync=None if isr is None else frozenset(isr),
    )


def _with_old_dirs(plan: Plan, scope: Scope, decision: PlanDecision) -> PlanDecision:
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


def _changes(situation: Situation, solved: SolvedLists) -> Iterator[ReplanChange]:
    """What becomes of every partition that either plan moves, in the order of the rows."""
    for row, new in zip(situation.rows, solved.lists, strict=True):
        old = row.move.after if row.move is not None else None
        moves = new != row.live and not row.foreign
        if row.state in (ReplanState.DONE, ReplanState.RUNNING) and new == row.start:
            fate = MoveChange.DONE if row.state is ReplanState.DONE else MoveChange.RUNNING
        elif row.move is None or row.state is ReplanState.DONE:
            if not moves:
                continue
            fate = MoveChange.ADDED
        elif not moves:
            fate = MoveChange.DROPPED
        else:
            fate = MoveChange.KEPT if new == old else MoveChange.CHANGED
        yield ReplanChange(key=row.key, fate=fate, now=row.live, old=old, new=new if moves else None)
    for move in situation.gone:
        yield ReplanChange(key=move.key, fate=MoveChange.DROPPED, now=(), old=move.after, new=None)


Lists = list[tuple[int, ...]]


def solve_bytes(places: Places, goal: PlanGoal, sizes: Sizes, plan_limits: PlanLimits | None) -> SolvedLists:
    """New lists in the order of the rows: those of the plan where they keep the goal, else with few deviations.

    First only copies that are still to be made are sent elsewhere, which copies no byte more; where that is not
    enough any replica may move. Raises `InfeasibleError` when nothing brings the loads inside the goal. Cost: at
    most two plans and a bound on arrays.
    """
    start = [_standing_list(places, row, i) for i, row in enumerate(places.rows)]
    problem = replace(_world(places, goal, sizes, start), limits=plan_limits)
    table = problem.table(start)
    loads, limits = table.loads(table.home), problem.balance.limits
    reached = problem.balance.measure(loads)
    planned = all(row.start == new for row, new in zip(places.rows, start, strict=True))
    inside = reached <= goal.max_deviation and bool((loads <= limits.ceiling).all())
    inside = inside and (plan_limits is None or plan_limits.kept(start))
    lists: Lists = start
    if not inside:
        found = problem.repaired(table, goal.max_deviation)
        if found is None:
            raise _impossible(problem, table, goal)
        lists = [_in_place(row, new) for row, new in zip(places.rows, places.lists_of(table, found.at), strict=True)]
        lists = lists if plan_limits is None else plan_limits.led(table, lists)
    return SolvedLists(
        lists=tuple(lists),
        holds=inside and planned,
        certificate=_certify_bytes(problem, goal, lists),
        leads_to=goal.shown(reached),
    )


def _in_place(row: ReplannedPartition, new: tuple[int, ...]) -> tuple[int, ...]:
    """The planned list where it is still the one; else copies that are there keep their places."""
    if set(new) == set(row.start):
        return row.start
    if set(new) == set(row.live):
        return row.live
    return substitute(row.live, set(new), [b for b in new if b not in row.live])


def _standing_list(places: Places, row: ReplannedPartition, i: int) -> tuple[int, ...]:
    """The planned list, where planned copies that can no longer be made fall back to the copies they replace."""
    if row.under_way:
        return row.start
    if i in places.stranded:
        return row.live
    if not (places.regrouped and not places.rule_allows(row.start, row.live)):
        usable = {*places.receivers, *row.live} - (places.rule.closed.of(row.key) - {*row.live})
        spare = iter([b for b in row.live if b not in row.start])
        fallen = tuple(b if b in usable else next(spare, b) for b in row.start)
        if fallen == row.start or (len(set(fallen)) == len(fallen) and places.rule_allows(fallen, row.live)):
            return fallen
    return row.live


@dataclass(frozen=True, slots=True)
class ReplanProblem:
    """What all tables of a replanning share: the load of one copy by row, loads besides the scope, the balance."""

    places: Places
    weights: Sequence[int]
    now: LoadsNow
    balance: BalanceGoal
    limits: PlanLimits | None = None
    watch: SearchWatch = field(default_factory=lambda: with_budget(UNWATCHED))

    def table(self, lists: Sequence[tuple[int, ...]]) -> SlotTable:
        """The arrays of these lists."""
        table = self.places.table(lists, self.weights, self.now)
        return table if self.limits is None else self.limits.on(table, lists)

    def repaired(self, table: SlotTable, max_deviation: int) -> Attempt | None:
        """Bring a table inside its window: by copies still to be made if they are enough, else by any; or None."""
        for candidate in (replace(table, movable=table.movable & self.places.pending(table)), table):
            if not candidate.movable.any():
                continue
            found = at_deviation(BalanceProblem.of(candidate, self.balance), max_deviation, watch=self.watch)
            if found.succeeded:
                return found
        return None

    def proven(self, max_deviation: int, copied: int) -> tuple[SlotTable, LoadWindow, Proof] | None:
        """The live lists, the window that bounds what reaching the deviation copies, and its proof.

        None where nothing is proven, or more than a plan really copies.
        """
        live = self.table([row.start if row.under_way else row.live for row in self.places.rows])
        problem = BalanceProblem.of(live, self.balance)
        window = problem.window(max_deviation)
        if not window.possible or window.bound.value > copied:
            return None
        proof = _proof_at_rest(live, problem.demand, window, self.balance.limits)
        return None if proof is None else (live, window, proof)


def _world(places: Places, goal: PlanGoal, sizes: Sizes, start: Lists) -> ReplanProblem:
    weights = [row.size or 0 for row in places.rows]
    held: dict[int, int] = {}
    for row, weight in zip(places.rows, weights, strict=True):
        for b in row.partition.replicas:
            copies = row.partition.replica_bytes
            # A copy that is being made counts as far as it has come; used bytes count it so too.
            held[b] = held.get(b, 0) + (copies.get(b, 0) if copies and b in row.partition.adding else weight)
    disks = Disks(
        storage=sizes.brokers,
        log_dirs=sizes.log_dirs,
        max_use=goal.max_use,
        head_room=goal.head_room,
        shut=sizes.cordoned,
    )
    banded = goal.kind is GoalKind.BAND
    now = _with_old_room(bytes_now(held, disks, places.brokers, by_free=not banded), places, weights)
    table = places.table(start, weights, now)
    demand = demand_groups_of(table)
    stays = dict(zip(table.brokers, demand.loose.tolist(), strict=True))
    caps = {b: max(0, stays.get(b, 0)) for b in places.leaving}
    limits = now.limits(table, places.targets, caps)
    if not banded:
        return ReplanProblem(places, weights, now, RangeGoal(limits))
    loads = table.loads(table.home)
    leaving = [k for k, b in enumerate(table.brokers) if b in places.leaving]
    total = int(loads[limits.even].sum()) + int((loads - demand.loose)[leaving].sum())
    return ReplanProblem(places, weights, now, now.band(table, limits, total))


def _with_old_room(now: LoadsNow, places: Places, weights: list[int]) -> LoadsNow:
    """A broker that was above its limit may end as full as it was when the plan was made, though copies have left."""
    room = dict(now.room)
    ended: dict[int, int] = {}
    for row, weight in zip(places.rows, weights, strict=True):
        if row.state is ReplanState.DONE and row.move is not None:
            for b in row.move.removing:
                ended[b] = ended.get(b, 0) + weight
            for b in row.move.adding:
                ended[b] = ended.get(b, 0) - weight
    for b, less in ended.items():
        if b in room and b in places.receivers:
            room[b] = max(room[b], less)
    return replace(now, room=room)


def _certify_bytes(problem: ReplanProblem, goal: PlanGoal, lists: Lists) -> Certificate:
    rows = problem.places.rows
    objective = sum(
        len(set(new) - set(row.live)) * weight
        for row, new, weight in zip(rows, lists, problem.weights, strict=True)
        if not row.foreign
    )
    forced = copies_under_way(rows, "bytes")
    proven = problem.proven(goal.max_deviation, objective - forced)
    if proven is None:
        words = "nothing is proven: moves that are done or run have left a state that the bound does not cover"
        return certificate("bytes", objective, 0, words, Proof(kind=ProofKind.NONE))
    live, window, proof = proven
    words = argument_of(live, window)
    if forced:
        words += "; copies that are being made now count on both sides"
    return certificate("bytes", objective, window.bound.value + forced, words, proof)


def _impossible(case: ReplanProblem, table: SlotTable, goal: PlanGoal) -> InfeasibleError:
    problem = BalanceProblem.of(table, case.balance)
    window = problem.window(goal.max_deviation)
    if window.possible:
        return InfeasibleError(
            f"no way to {goal.words}{f' that keeps {case.limits.words}' if case.limits else ''} was found from the "
            "plan's present state; it is not proven impossible",
            hint="make a new plan with a looser goal, or allow more with --slack",
        )
    reason = explain_infeasible(table, problem.demand, window, case.places.racks)
    nearest = tightest_relaxed(problem, problem.today())
    return InfeasibleError(
        f"{goal.words} cannot be reached any more: {reason}",
        hint=f"the nearest that may be: {goal.shown(nearest)}; allow more with --slack, or make a new plan",
    )


def solve_counts(snapshot: ClusterSnapshot, plan: Plan, goal: PlanGoal, places: Places) -> SolvedLists:
    """New lists in the order of the rows. Partitions that find no place keep the list they have; `reasons` say why.

    Cost: one small flow; with even counts as goal, at most two more plans on arrays.
    """
    lists: Lists = [row.start for row in places.rows]
    openings: dict[int, tuple[tuple[int, ...], int]] = {}
    for i, row in enumerate(places.rows):
        if i in places.immovable:
            lists[i] = row.start if row.under_way else row.live
            continue
        kept, wanted = places.kept(row)[: places.wanted(row)], places.wanted(row)
        if len(kept) < wanted:
            openings[i] = (kept, wanted)
        elif kept != row.start:
            lists[i] = kept
    keys = [row.key for row in places.rows]
    rooms, unfit = group_openings(
        openings, Grouping.of(places.rule, places.racks, places.receivers, [key.topic for key in keys], keys)
    )
    chosen, _ = fill_openings(OpeningsTask(rooms, _loads(snapshot, goal, places, lists, openings)))
    for i, new in chosen.items():
        lists[i] = _fill_list(places.rows[i], openings[i][0], new)
    for i in unfit:
        lists[i] = places.rows[i].live
    notes: list[str] = []
    holds = not openings
    if goal.kind is GoalKind.COUNTS and places.receivers and not unfit:
        evened, note, holds_counts = _even_counts(places, goal, lists)
        lists, holds = evened, holds and holds_counts
        notes += [note] * bool(note)
    # What the plan had left alone already is no news.
    news = [
        i
        for i in sorted(unfit)
        if places.rows[i].state is not ReplanState.STILL or places.lost & {*places.rows[i].live}
    ]
    full = places.rule.closed
    reasons = tuple(
        f"{full.explain(keys[i], places.rows[i].size) or f'{keys[i]}: no valid broker is left'}"
        f" for {openings[i][1] - len(openings[i][0])} replica(s); it stays on {few_of(places.rows[i].live)}"
        for i in news
    )
    return SolvedLists(
        lists=tuple(lists),
        holds=holds,
        certificate=_certify_counts(plan, goal, places, lists),
        reasons=reasons,
        left_alone=len(news),
        notes=tuple(notes),
    )


def _fill_list(row: ReplannedPartition, kept: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """New brokers in the places that come free; a copy that is there comes before one that is still to be made."""
    return substitute(row.start, set(kept), new)


def _loads(
    snapshot: ClusterSnapshot,
    goal: PlanGoal,
    places: Places,
    lists: Lists,
    openings: Mapping[int, tuple[tuple[int, ...], int]],
) -> dict[int, int]:
    """What receivers hold already: of the scope for a rebuild, of all topics for the plain requests."""
    held = Counter(b for i, row in enumerate(lists) for b in (openings[i][0] if i in openings else row))
    if not goal.targets_only:
        every = Counter(pool_of(snapshot).replicas)
        every.subtract(b for row in places.rows for b in row.partition.replicas)
        held.update(every)
    return {b: max(0, held[b]) for b in places.receivers}


def _count_problem(places: Places) -> ReplanProblem:
    """Counts of where copies are live, and the range that the plan's counts keep to."""
    held = Counter(b for row in places.rows for b in row.live)
    immovable = Counter(b for i in places.immovable for b in places.rows[i].start)
    weights = [1] * len(places.rows)
    now = counts_now(held, places.brokers, sum(held.values()) + len(weights))
    table = places.table([row.live for row in places.rows], weights, now)
    limits = now.limits(table, places.targets, {b: immovable[b] for b in places.leaving})
    return ReplanProblem(places, weights, now, RangeGoal(limits))


def _even_counts(places: Places, goal: PlanGoal, lists: Lists) -> tuple[Lists, str, bool]:
    """Bring counts into the goal's range with the fewest deviations; lists, a note where it is not reached, holds?"""
    problem = _count_problem(places)
    table = problem.table(lists)
    measured = problem.balance.measure(table.loads(table.home))
    if measured <= goal.max_deviation:
        return lists, "", True
    found = problem.repaired(table, goal.max_deviation)
    if found is None:
        return lists, f"counts end in a range of {measured}; the plan had one of {goal.max_deviation}", False
    return places.lists_of(table, found.at), "", False


def _certify_counts(plan: Plan, goal: PlanGoal, places: Places, lists: Lists) -> Certificate:
    unit = plan.certificate.unit if plan.certificate.unit in ("bytes", "replicas") else "replicas"
    pairs = zip(places.rows, lists, strict=True)
    moved = [(row, new) for row, new in pairs if set(new) - set(row.live) and not row.foreign]
    if any(row.size is None for row, _ in moved):
        unit = "replicas"

    def cost(row: ReplannedPartition, copies: int) -> int:
        return copies * ((row.size or 0) if unit == "bytes" else 1)

    objective = sum(cost(row, len(set(new) - set(row.live))) for row, new in moved)
    forced = copies_under_way(places.rows, unit)
    if goal.kind is GoalKind.COUNTS and unit == "replicas":
        found = _by_prices(places, goal, lists, forced, objective)
        if found is not None:
            return found
    needed = sum(cost(row, max(0, len(new) - len(places.keepable(row)))) for row, new in moved if not row.under_way)
    words = "replicas on brokers that they may not stay on need a copy in any plan"
    if forced:
        words += "; copies that are being made now count on both sides"
    return certificate(unit, objective, needed + forced, words, Proof(kind=ProofKind.COUNTING, load=unit))


def _by_prices(places: Places, goal: PlanGoal, lists: Lists, forced: int, objective: int) -> Certificate | None:
    """The bound on copies that bring the live counts into the goal's range; None where the lists are not in it."""
    problem = _count_problem(places)
    final = problem.table(lists)
    loads = final.loads(final.home)
    if problem.balance.measure(loads) > goal.max_deviation or (loads > problem.balance.limits.ceiling).any():
        return None
    if any(
        len(new) != len(row.start if row.under_way else row.live) for new, row in zip(lists, places.rows, strict=True)
    ):
        return None
    proven = problem.proven(goal.max_deviation, objective - forced)
    if proven is None:
        return None
    _, window, proof = proven
    words = (
        f"bringing the counts of today into a range of {goal.max_deviation} takes at least {window.bound.value} copies"
        f"{f', and {forced} are being made now' if forced else ''}"
    )
    return certificate("replicas", objective, window.bound.value + forced, words, replace(proof, load="replicas"))


def copies_under_way(rows: Sequence[ReplannedPartition], unit: str) -> int:
    """What the plan's moves that run now copy, in bytes or replicas: they continue whatever is planned."""
    return sum(
        len(set(row.start) - set(row.live)) * ((row.size or 0) if unit == "bytes" else 1)
        for row in rows
        if row.under_way and not row.foreign
    )


def _proof_at_rest(table: SlotTable, demand: DemandGroups, window: LoadWindow, limits: LoadLimits) -> Proof | None:
    """The proof of a window for a plan that need not lie where the window is cheapest; None where it proves nothing.

    A side that has no price and is a hard limit says nothing of the window's place, so it is left out or is the hard
    limit itself.
    """
    proof = proof_of(table, demand, window)
    if sum(limit.price for limit in proof.limits if proof.slides and limit.slides):
        return None
    if not proof.slides:
        return proof
    hard = zip(limits.floor.tolist(), limits.ceiling.tolist(), limits.even.tolist(), strict=True)
    return replace(proof, limits=tuple(_loosen_limit(x, *h) for x, h in zip(proof.limits, hard, strict=True)))


def _loosen_limit(limit: BrokerLimit, floor: int, ceiling: int, even: bool) -> BrokerLimit:
    if not even:
        return limit
    if not limit.slides:
        return replace(limit, floor=floor) if limit.price > 0 else replace(limit, ceiling=ceiling)
    low = None if limit.price >= 0 and limit.floor is not None and limit.floor <= floor else limit.floor
    high = None if limit.price <= 0 and limit.ceiling is not None and limit.ceiling >= ceiling else limit.ceiling
    return replace(limit, floor=low, ceiling=high)
