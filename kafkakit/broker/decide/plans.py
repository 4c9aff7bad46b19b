"""What a command on brokers is asked to do, and that as plans: leaderships first, then copies; and the next commands.

The planner of copies is `topicmappr drain`; here its plan is only cut in two, or its lists are put into the order
that a replacement keeps. A request also names what carries the plans out.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kafkakit.broker.decide.operation import (
    BrokerOperation,
    BrokerOperationKind,
    OperationGoal,
    OperationPlan,
    holdings_of,
)
from kafkakit.core.errors import InfeasibleError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, Partition, PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.core.plan import PlacementStats, Plan, Proof, ProofKind, certificate
from kafkakit.core.quantities import count_of
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import few_of, shell_command
from kafkakit.execution.decide.runs import Commands, Direction, RunOutcome
from kafkakit.placement.problem import PlaceBy
from kafkakit.topicmappr.api import (
    DrainRequest,
    PlanDecision,
    PlannedChange,
    TopicScope,
    assemble,
    decide_drain,
    scope_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCommands(Commands):
    """Hints of a run that is part of an operation, which `operation` continues; `undo` takes it back.

    Pausing and throttling are done by `reassign` with the plan's file, as for any run.
    """

    undo: str

    def line(self, verb: str, *options: str) -> str:
        """The line for a verb of `reassign`; what carries the plan on or back is the operation's own command."""
        if verb in ("apply", "resume", "verify"):
            return " ".join([self.operation, *options])
        if verb == Direction.ROLLBACK:
            return " ".join([self.undo, *options])
        return Commands.line(self, verb, *options)

    def run(self, direction: Direction, *options: str) -> str:
        """The line that runs the plan in that direction, unasked."""
        if direction is Direction.ABORT:
            return Commands.run(self, direction, *options)
        return self.line(direction.value, *options)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPlans:
    """The change as a whole, and the plans that make it in turn; `leaders` None: no leadership has to pass first.

    `placed_by_count` says why sizes were not looked at.
    """

    whole: PlannedChange
    copies: Plan
    leaders: Plan | None = None
    placed_by_count: str | None = None


def decide_operation(snapshot: ClusterSnapshot, goal: OperationGoal) -> OperationPlans | None:
    """Decide what empties the brokers; None when they hold nothing.

    Only topics that have a replica there are looked at, so that changes elsewhere do not disturb the run. Raises
    `UsageError` for brokers that do not exist or cannot take anything, `InfeasibleError` from a replacement that no
    rack rule or copy allows; a drain tells such things in `whole.reasons`. Cost: that of `decide_drain`, twice when
    leaderships have to pass.
    """
    _refuse_unknown_brokers(snapshot, goal)
    if goal.leaders_only:
        return _decide_leaders(snapshot, goal)
    topics = _touched_topics(snapshot, goal.brokers)
    if not topics:
        return None
    request = _request(goal, topics)
    try:
        whole, why = decide_drain(snapshot, request), None
    except TryLaterError as error:
        if goal.placement is not None:
            raise
        request, why = replace(request, placement=PlaceBy.COUNT), error.message
        whole = decide_drain(snapshot, request)
    if goal.onto is not None:
        seated = replace(
            whole,
            title=f"Replace broker {goal.brokers[0]} by broker {goal.onto}",
            plan=in_place(whole.plan, goal.brokers[0], goal.onto),
        )
        return OperationPlans(whole=seated, copies=seated.plan, placed_by_count=why)
    leaders = _leaders_plan(snapshot, whole.plan, goal, topics)
    if leaders is None:
        return OperationPlans(whole=whole, copies=whole.plan, placed_by_count=why)
    copies = decide_drain(_with_lists(snapshot, leaders), request).plan
    return OperationPlans(whole=whole, copies=copies, leaders=leaders, placed_by_count=why)


def in_place(plan: Plan, old: int, new: int) -> Plan:
    """The plan with every list kept in its order, the new broker where the old one was (its leaderships too)."""
    moves = tuple(replace(m, after=tuple(new if b == old else b for b in m.before)) for m in plan.moves)
    changed = {m.key: m.after for m in moves}
    led = Counter(changed.get(TopicPartition(e.topic, e.partition), e.replicas)[0] for e in plan.scope if e.replicas)
    return replace(
        plan,
        moves=moves,
        reassignment=PartitionMap(
            partitions=tuple(PartitionAssignment(topic=m.topic, partition=m.partition, replicas=m.after) for m in moves)
        ),
        after=_with_leaders(plan.after, led, {b.id for b in plan.brokers}),
    )


def _request(goal: OperationGoal, topics: tuple[str, ...]) -> DrainRequest:
    receiving = BrokerList(ids=(goal.onto,)) if goal.onto is not None else goal.receiving
    return DrainRequest(
        leaving=BrokerList(ids=goal.brokers),
        receiving=receiving,
        exclude_receivers=goal.exclude_receivers,
        topics=topics,
        min_rack_ids=goal.min_rack_ids,
        spread=goal.spread,
        placement=goal.placement or PlaceBy.STORAGE,
        words=goal.words,
    )


def _refuse_unknown_brokers(snapshot: ClusterSnapshot, goal: OperationGoal) -> None:
    known = snapshot.broker_by_id()
    unknown = [b for b in goal.brokers if b not in known]
    if unknown:
        raise UsageError(
            f"broker {few_of(unknown)} is not in this cluster", hint=f"its brokers are {few_of(sorted(known))}"
        )
    if goal.onto is None:
        return
    if goal.onto in goal.brokers:
        raise UsageError(f"broker {goal.onto} cannot replace itself", hint="name another broker with --with")
    if goal.onto not in known or not known[goal.onto].is_alive:
        what = "is not alive" if goal.onto in known else "is not in this cluster"
        raise UsageError(f"--with: broker {goal.onto} {what}", hint="start it first")
    if goal.onto in snapshot.cordoned:
        uncordon = shell_command("broker uncordon", str(goal.onto))
        raise UsageError(f"--with: broker {goal.onto} is cordoned", hint=f"name another, or: {uncordon}")
    both = [
        f"{topic}-{p.partition}"
        for topic, p in snapshot.partitions()
        if not p.adding and goal.onto in p.replicas and goal.brokers[0] in p.replicas
    ]
    if both:
        raise InfeasibleError(
            f"broker {goal.onto} cannot take every replica of broker {goal.brokers[0]}: it has a copy of "
            f"{few_of(both)} already",
            hint="use an empty broker, or spread them over several: "
            f"{shell_command('broker drain', str(goal.brokers[0]))}",
        )


def _touched_topics(snapshot: ClusterSnapshot, brokers: Collection[int]) -> tuple[str, ...]:
    gone = frozenset(brokers)
    return tuple(t.name for t in snapshot.topics if any(not gone.isdisjoint(p.replicas) for p in t.partitions))


def _leaders_plan(snapshot: ClusterSnapshot, plan: Plan, goal: OperationGoal, topics: tuple[str, ...]) -> Plan | None:
    """Leaderships of leaving, living brokers, each to the replica that leads in the end and is in sync now.

    The two change seats, as they do in the drain's own lists. What only a new copy can lead is left to the copies.
    """
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    in_sync = {TopicPartition(t, p.partition): frozenset(p.isr or ()) for t, p in snapshot.partitions()}
    leaving = frozenset(goal.brokers) & alive
    lists: dict[TopicPartition, tuple[int, ...]] = {}
    for move in plan.moves:
        heir = move.after[0]
        if move.before[0] in leaving and heir in in_sync[move.key] and heir in move.before:
            lists[move.key] = _swap_broker(move.before, heir)
    if not lists:
        return None
    return _plan_of_lists(snapshot, goal, topics, lists, [b.id for b in plan.brokers])


def _plan_of_lists(
    snapshot: ClusterSnapshot,
    goal: OperationGoal,
    topics: tuple[str, ...],
    lists: Mapping[TopicPartition, tuple[int, ...]],
    targets: Sequence[int],
    warnings: tuple[str, ...] = (),
) -> Plan:
    scope = scope_of(snapshot, TopicScope(topics=topics))
    why = f"{count_of(len(lists), 'leadership')} must leave brokers {few_of(sorted(goal.brokers))}; one change each"
    decision = PlanDecision(
        replicas=[lists.get(p.key, p.current) for p in scope.partitions],
        certificate=certificate("leaders", len(lists), len(lists), why, Proof(kind=ProofKind.COUNTING)),
        targets=targets,
        warnings=warnings,
    )
    return assemble(snapshot, goal.words, scope, decision)


def find_stuck_leaders(snapshot: ClusterSnapshot, brokers: Collection[int]) -> tuple[TopicPartition, ...]:
    """Partitions that are led from the brokers and have no other live replica in sync, sorted."""
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    return tuple(
        sorted(
            TopicPartition(topic, p.partition)
            for topic, p in snapshot.partitions()
            if p.leader in brokers and not _heirs(p, alive, brokers)
        )
    )


def stuck_leaders_text(stuck: Sequence[TopicPartition]) -> tuple[str, ...]:
    """Why leaderships stay, as one sentence; none for none."""
    if not stuck:
        return ()
    stay = f"{count_of(len(stuck), 'leadership')} {'stays' if len(stuck) == 1 else 'stay'}"
    return (f"{stay}, as no other replica is in sync: {few_of(stuck)}",)


def _heirs(partition: Partition, alive: Collection[int], leaving: Collection[int]) -> list[int]:
    """The replicas that can lead in place of those on the leaving brokers, in the order of preference."""
    isr = partition.isr or ()
    return [b for b in partition.replicas if b in isr and b in alive and b not in leaving and b not in partition.adding]


def _decide_leaders(snapshot: ClusterSnapshot, goal: OperationGoal) -> OperationPlans | None:
    """Every leadership of the live brokers to another replica in sync, the broker that leads least; no data moves.

    Lists are changed so that no election brings a leadership back: also of partitions that such a broker is only to
    lead. Where another replica is the first and in sync, an election is enough. None if nothing is to be done.
    """
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    leaving = frozenset(goal.brokers) & alive
    leads = Counter(p.leader for _, p in snapshot.partitions())
    lists: dict[TopicPartition, tuple[int, ...]] = {}
    topics: dict[str, None] = {}
    for topic, partition in snapshot.partitions():
        first = next(iter(partition.replicas), None)
        if partition.leader not in leaving and first not in leaving:
            continue
        topics[topic] = None
        heirs = _heirs(partition, alive, leaving)
        if not heirs or first in heirs:
            continue
        heir = partition.leader if partition.leader in heirs else min(heirs, key=lambda b: leads[b])
        leads[heir] += partition.leader != heir
        lists[TopicPartition(topic, partition.partition)] = _swap_broker(partition.replicas, heir)
    warnings = stuck_leaders_text(find_stuck_leaders(snapshot, leaving))
    if not (lists or warnings or holdings_of(snapshot, leaving).passing):
        return None
    plan = _plan_of_lists(snapshot, goal, tuple(topics), lists, sorted(alive), warnings)
    title = f"Move leaderships off broker {few_of(sorted(goal.brokers))}"
    change = PlannedChange(title=title, topics=tuple(topics), topics_excluded=(), plan=plan)
    nothing = replace(plan, moves=())
    return OperationPlans(whole=change, copies=nothing, leaders=plan if lists else None)


def _swap_broker(replicas: tuple[int, ...], heir: int) -> tuple[int, ...]:
    lists = list(replicas)
    seat = lists.index(heir)
    lists[0], lists[seat] = lists[seat], lists[0]
    return tuple(lists)


def _with_lists(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The cluster as it will be when the plan of leaders is carried out."""
    lists: Mapping[TopicPartition, Sequence[int]] = {m.key: m.after for m in plan.moves}
    touched = {key.topic for key in lists}
    return replace(
        snapshot,
        topics=tuple(
            t
            if t.name not in touched
            else replace(
                t,
                partitions=tuple(
                    replace(p, replicas=tuple(found), leader=found[0])
                    if (found := lists.get(TopicPartition(t.name, p.partition)))
                    else p
                    for p in t.partitions
                ),
            )
            for t in snapshot.topics
        ),
    )


def _with_leaders(stats: PlacementStats, led: Mapping[int, int], targets: Collection[int]) -> PlacementStats:
    counts = [led.get(b, 0) for b in sorted(targets)]
    return replace(
        stats,
        brokers=tuple(replace(load, leaders=led.get(load.broker, 0)) for load in stats.brokers),
        leaders_min=min(counts, default=0),
        leaders_max=max(counts, default=0),
    )


class PlanRunner(Protocol):
    """Carries plans out as `reassign apply`, `abort` and `rollback` do, under their lease and with their journals."""

    def preview(self, plan: Plan, record: BrokerOperation | None) -> RunOutcome:
        """Every check of an apply, with its schedule said, and nothing changed; `record` is what it continues with."""
        ...

    def run(
        self, operation: BrokerOperation, leg: OperationPlan, direction: Direction, *, dry_run: bool = False
    ) -> RunOutcome:
        """Carry one plan of the operation out, without asking; raises what `reassign.act.Run` raises."""
        ...

    def begun(self, leg: OperationPlan) -> bool:
        """True when the plan's journal tells of a run: it may have changed the cluster."""
        ...

    def ended(self, leg: OperationPlan, direction: Direction) -> bool:
        """True when the plan's last run was in that direction and is complete, whichever command finished it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """What each command on brokers has: `again` is the command line that continues it.

    `asks` says that a person is asked before anything is done.
    """

    again: str
    confirm: Callable[[str], bool]
    asks: bool = True
    dry_run: bool = False
    retry_limit_s: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest(CommandRequest):
    """One `drain`, `replace` or `decommission`.

    `undo_of` is the command line that takes an operation back, `cleanup` the one that removes throttles which a run
    could not remove. `bootstrap` is the address for commands to paste.
    """

    kind: BrokerOperationKind
    goal: OperationGoal
    undo_of: Callable[[BrokerOperation], str]
    cleanup: str
    bootstrap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinRequest(CommandRequest):
    """One `rejoin`; `wait_s` is how long is waited for the brokers and their copies, each."""

    brokers: tuple[int, ...]
    wait_s: float
