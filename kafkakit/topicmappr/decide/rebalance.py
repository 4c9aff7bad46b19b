"""`topicmappr rebalance`, `scale` and `add-brokers` as pure functions: snapshot and request in, plan and facts out.

`add-brokers` is a rebalance over the brokers in use and some more. The facts are which broker each copy leaves and
where it goes, and the tolerance that describes the result.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kafkakit.core.errors import InfeasibleError, InterruptedRunError, UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Certificate, PlacementRules, Plan, Proof, ProofKind, StorageFacts, certificate
from kafkakit.core.quantities import count_of, format_bytes, format_percent
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import few_of
from kafkakit.placement.by_size.attempt import Attempt
from kafkakit.placement.by_size.layout import SlotLayout
from kafkakit.placement.by_size.lp_relaxation import BalanceGoal, BalanceProblem, BandGoal, DemandGroups
from kafkakit.placement.by_size.proof import (
    argument_of,
    cancels,
    counted_proof,
    explain_infeasible,
    moves_bound,
    moves_proof,
    not_counted,
    proof_of,
)
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.by_size.tightening import more_brokers
from kafkakit.placement.group_rule import ClosedBrokers
from kafkakit.placement.log_dirs_balance import DirRules, HomelessCopy
from kafkakit.placement.problem import BrokerChange, Minimize
from kafkakit.placement.watch import UNWATCHED, PassingWatch, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlanDecision, assemble
from kafkakit.topicmappr.decide.dirs import fit_dirs, with_dirs
from kafkakit.topicmappr.decide.rebalance_goal import (
    BalanceInputs,
    ResolvedGoal,
    SearchResult,
    Sources,
    balance_inputs,
    describe_too_large,
    reach_aim,
    refuse_impossible,
    with_recomputed_counts,
)
from kafkakit.topicmappr.decide.rebalance_soft_goals import FreeChoices
from kafkakit.topicmappr.decide.requests import RebalanceRequest, brokers_hint
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.decide.storage import RANGE_INCREASED, FreeChange, Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSummary:
    """A plan that was made: the deviation sought and reached (in the aim's unit), bytes and replicas to copy.

    `outside` are bytes that stayed outside the limits.
    """

    sought: int
    reached: int
    cost: int
    moves: int
    outside: int


class RecordingWatch(PassingWatch):
    """A watch that writes down what is tried."""

    def __init__(self, watch: SearchWatch, table: SlotTable, balance: BalanceGoal) -> None:
        super().__init__(watch)
        self._table = table
        self._balance = balance
        self.tries: list[AttemptSummary] = []

    def tried(self, max_deviation: int, found: Attempt) -> None:
        """Write down. O(replicas)."""
        reached = self._balance.measure(self._table.loads(found.at))
        self.tries.append(
            AttemptSummary(
                sought=max_deviation, reached=reached, cost=found.cost, moves=found.moves, outside=found.outside
            )
        )
        super().tried(max_deviation, found)


def free_change(plan: Plan, holding: frozenset[int], targets: Sequence[int]) -> FreeChange:
    """Free bytes of the targets; the summary's left side counts brokers that hold something, as kafka-kit does."""
    before, after = (
        {load.broker: load.free_bytes for load in stats.brokers if load.free_bytes is not None}
        for stats in (plan.before, plan.after)
    )
    chosen = frozenset(targets)
    return FreeChange(
        before={b: free for b, free in before.items() if b in chosen},
        after={b: free for b, free in after.items() if b in chosen},
        holding=holding & chosen,
    )


def with_range(plan: Plan, free: FreeChange, request: RebalanceRequest) -> Plan:
    """Warn of a growing range of free bytes in kafka-kit's words; a note where a goal of its own asks for that."""
    if not plan.moves or not free.range_increased:
        return plan
    if request.goal.given:
        return replace(plan, notes=(*plan.notes, RANGE_INCREASED))
    return replace(plan, warnings=tuple(sorted((*plan.warnings, RANGE_INCREASED))))


STOPPED = "the search was stopped early; this is the best plan found until then"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A decided rebalance: the plan and what the report says besides.

    `before` and `after` are replica lists in the order of `scope.partitions`. `max_deviation` is the goal that the plan
    was made for and `reached` how narrow the loads are in the end, both in the aim's own unit. `free` are the
    targets' free bytes, `tried` the plans made on the way; with `stopped` the search ended early because the watch
    stopped it.
    """

    plan: Plan
    scope: Scope
    change: BrokerChange
    sources: Sources
    sizes: Sizes
    aim: ResolvedGoal
    max_deviation: int
    reached: int
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    free: FreeChange
    tried: tuple[AttemptSummary, ...] = ()
    stopped: bool = False


def decide_rebalance(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> Rebalance:
    """Decide which replicas move so that bytes are balanced, with the fewest bytes (or moves).

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned and `InfeasibleError`, with a proof
    and the nearest goal that can be reached, for goals that cannot. Cost: see `at_deviation` (`tighten` for a range),
    again while copies find no log dir (`fit_dirs`).
    """
    watch = with_budget(watch)
    return fit_dirs(snapshot, lambda closed: _decide(snapshot, request, facts, watch, closed), watch)


def _decide(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None,
    watch: SearchWatch,
    closed: ClosedBrokers,
) -> tuple[Rebalance, Sequence[HomelessCopy]]:
    watch.phase("reading the cluster")
    inputs = balance_inputs(snapshot, request, facts, lambda change: _check_brokers(change, request), closed)
    scope, change, layout, aim, sizes = inputs.scope, inputs.change, inputs.layout, inputs.aim, inputs.sizes
    refuse_impossible(inputs, request)
    problem = BalanceProblem.of(layout.table, aim.balance)
    recorder = RecordingWatch(watch, layout.table, aim.balance)
    reached = reach_aim(problem, aim, request, recorder)
    max_deviation, found = reached.max_deviation, reached.found
    if watch.stopped() and not found.succeeded and found.window.possible and not found.proven:
        raise InterruptedRunError("interrupted before a plan was found that reaches the goal; nothing was written")
    held_back: tuple[str, ...] = ()
    if reached.missed is not None:
        why = _impossible(inputs, problem, replace(reached, found=reached.missed), request)
        held_back = (f"best effort: {why.message}; reached: {aim.shown(max_deviation)}",)
    if not found.succeeded and (reached.missed is None or not found.rule_kept):
        error = _impossible(inputs, problem, reached, request)
        kept = () if layout.rule.tags is None else tuple(c.text for c in layout.rule.tags.constraints)
        error.reasons = tuple(f"constraint kept: {text}" for text in (*kept, *inputs.out.words))
        raise error
    before = [p.current for p in scope.partitions]
    watch.phase("evenness that costs nothing")
    choices = FreeChoices(
        table=layout.table,
        balance=aim.balance,
        partitions=scope.partitions,
        targets=change.targets,
        stranded=inputs.stranded,
        every_leader=request.optimize_leadership,
    )
    for choose in (choices.made, choices.left_open):
        chosen = choose(found)
        decision = PlanDecision(
            replicas=chosen.lists,
            certificate=_for_limits(
                certify(layout, problem.demand, chosen.found, request.minimize), layout.table, aim, reached
            ),
            targets=change.targets,
            tags=layout.rule.tags,
            rules=rules_of(inputs, request),
            storage={b: sizes.brokers[b] for b in change.targets},
            storage_facts=sizes.facts,
            notes=(
                *sizes.notes,
                *inputs.notes,
                *(held_back or aim.notes(found, max_deviation)),
                *reached.notes,
                *chosen.notes,
                *_small_ones(layout, request),
                *([STOPPED] if watch.stopped() else []),
            ),
            warnings=inputs.warnings,
        )
        decision = with_dirs(snapshot, scope, decision, sizes.log_dirs, _dir_rules(request), watch)
        if decision.warnings == inputs.warnings:
            break  # else log dirs lack room for a copy; the plan as it was found may fit
    plan = assemble(snapshot, request.words, scope, decision)
    change_of_free = free_change(plan, inputs.holding, change.targets)
    rebalance = Rebalance(
        plan=with_range(plan, change_of_free, request),
        scope=scope,
        change=change,
        sources=inputs.sources,
        sizes=sizes,
        aim=aim,
        max_deviation=max_deviation,
        reached=problem.measure(chosen.found.at),
        before=tuple(before),
        after=tuple(chosen.lists),
        free=change_of_free,
        tried=tuple(recorder.tries),
        stopped=watch.stopped(),
    )
    return rebalance, decision.homeless


def _small_ones(layout: SlotLayout, request: RebalanceRequest) -> tuple[str, ...]:
    """A note on partitions that are too small to move, where kafka-kit's threshold and not a flag makes them so."""
    if not request.smallest_bytes or request.partition_size_threshold_mib is not None:
        return ()
    small = int((layout.table.size < request.smallest_bytes).sum())
    if not small:
        return ()
    return (
        f"{small} of {count_of(len(layout.table.size), 'partition')} are smaller than --partition-size-threshold "
        f"({format_bytes(request.smallest_bytes)}) and stay where they are; give a lower one, or a goal such as --band",
    )


def _dir_rules(request: RebalanceRequest) -> DirRules:
    return DirRules(max_use=request.max_disk_use, head_room=request.head_room_bytes, band=request.balance_dirs)


def _check_brokers(change: BrokerChange, request: RebalanceRequest) -> None:
    """Only additions are allowed, as in kafka-kit; a broker that leaves needs `drain` or `rebuild`."""
    wrong = sorted({*change.missing, *change.old_missing, *change.replace})
    if wrong:
        raise UsageError(
            f"reassignment only allows broker additions; not so for broker(s) {', '.join(map(str, wrong))}",
            hint=brokers_hint(request, change, may_leave=True),
        )
    if not change.targets:
        raise UsageError("no broker holds these topics", hint="name brokers in --brokers, or all of them with -2")
    if request.scale and not change.new:
        raise UsageError("reassignment requires additional brokers", hint="name the new ones in --brokers")


def certify(layout: SlotLayout, demand: DemandGroups, found: Attempt, minimize: Minimize) -> Certificate:
    """Set what the plan costs beside the proven bound."""
    table, window = layout.table, found.window
    if minimize is Minimize.MOVES:
        bound, priced = moves_bound(table, window), None
        words = f"brokers outside their limits must give or get at least {bound} copies, the largest first"
        if found.few is not None and not found.fewest and found.moves > bound:
            priced = moves_proof(table, demand, window, found.few)
        if priced is not None and priced[0] > bound:
            words = f"at the proof's broker prices no plan makes fewer than {priced[0]} copies (counting shows {bound})"
            return certificate("replicas", found.moves, priced[0], words, priced[1])
        if found.fewest and found.moves > bound:
            words = f"an exhaustive search found no plan with fewer copies; {words}"
        elif layout.rule.tags is not None:
            words += not_counted([c.text for c in layout.rule.tags.constraints])
        kind = ProofKind.SEARCH if found.fewest else ProofKind.COUNTING
        least = found.moves if found.fewest else bound
        return certificate("replicas", found.moves, least, words, proof_of(table, demand, window, kind=kind))
    if found.proven and found.cost > window.bound.value:
        words = f"an exhaustive search found no cheaper plan; {argument_of(table, window)}"
        proof = proof_of(table, demand, window, kind=ProofKind.SEARCH)
        return certificate("bytes", found.cost, found.cost, words, proof)
    counted_bound = counted_proof(table, demand, window)
    if counted_bound is not None and counted_bound[0] > window.bound.value:
        words = f"{argument_of(table, window)}; with the limits on counts, at the proof's prices, at least "
        words += format_bytes(counted_bound[0])
        return certificate("bytes", found.cost, counted_bound[0], words, counted_bound[1])
    proof = proof_of(table, demand, window)
    if not cancels(proof):
        words = "hard limits and a window that may lie anywhere mix here, and no prices were found that prove a bound"
        return certificate("bytes", found.cost, 0, words, Proof(kind=ProofKind.NONE, load="bytes"))
    return certificate("bytes", found.cost, window.bound.value, argument_of(table, window), proof)


def _for_limits(made: Certificate, table: SlotTable, aim: ResolvedGoal, reached: SearchResult) -> Certificate:
    """The certificate of a best effort, which says that its bound is not for the goal that was asked for."""
    if reached.missed is None:
        return made
    asked, held = reached.missed.window, reached.found.window
    if held.place is not None:
        looser = f"a range of {format_bytes(held.place.width)}"
    else:
        over, under = held.ceiling - asked.ceiling, asked.floor - held.floor
        apart = [
            b for b, up, down in zip(table.brokers, over.tolist(), under.tolist(), strict=True) if max(up, down) > 0
        ]
        sides = ((int(over.max(initial=0)), "above"), (int(under.max(initial=0)), "below"))
        most = " and ".join(f"up to {format_bytes(away)} {side}" for away, side in sides if away > 0)
        looser = f"looser limits, {most} {aim.words} on {count_of(len(apart), 'broker')} ({few_of(apart)})"
        if not apart:
            return made
    return replace(made, argument=f"{made.argument}; the bound is for {looser}, not for what was asked")


def rules_of(inputs: BalanceInputs, request: RebalanceRequest) -> PlacementRules:
    """The hard rules of the request, for the plan's record and its checker."""
    layout, scope, table = inputs.layout, inputs.scope, inputs.layout.table
    small = request.smallest_bytes
    pinned = [
        p.key
        for p, still, size in zip(scope.partitions, table.still.tolist(), table.size.tolist(), strict=True)
        if still and size >= small
    ]
    return PlacementRules(
        min_rack_ids=request.min_rack_ids,
        spread_over=layout.rule.spread_over,
        receivers=tuple(b for b, takes in zip(table.brokers, table.receiver.tolist(), strict=True) if takes),
        givers=inputs.out.giving(inputs.sources.brokers, inputs.holding),
        pinned=tuple(pinned),
        smallest_bytes=small,
        locality_scoped=request.locality_scoped,
    )


def _impossible(
    inputs: BalanceInputs, problem: BalanceProblem, reached: SearchResult, request: RebalanceRequest
) -> InfeasibleError:
    """Why no plan keeps the goal and the rules, in one line, and what would."""
    aim, table, found = inputs.aim, inputs.layout.table, reached.found
    if reached.unlimited is not None:
        return _over_budget(aim, reached.unlimited, request)
    hint = _looser_goal(aim, reached, request)
    large = describe_too_large(inputs, found.window)
    if large:
        return InfeasibleError(f"{aim.words} cannot be reached: {large}", hint=hint())
    if not found.window.possible:
        reason = explain_infeasible(table, problem.demand, found.window, inputs.racks)
        within = isinstance(aim.balance, BandGoal) and not request.goal.within_racks
        limited = partial(with_recomputed_counts, inputs, request)
        add = (
            more_brokers(problem, found.window, inputs.racks, aim.requested, limited)
            if within and aim.requested
            else None
        )
        racks = ", or --balance-within racks" if within and table.racks > 1 else ""
        return InfeasibleError(
            f"{aim.words} cannot be reached: {reason}",
            hint=hint(f", or {add}" if add else "", racks),
        )
    if not found.rule_kept and (ceilings := request.ceilings.words):
        return InfeasibleError(
            f"no plan for {aim.words} keeps {ceilings} (exhaustive search)"
            if found.proven
            else f"no plan for {aim.words} that keeps {ceilings} was found; it is not proven impossible",
            hint="allow more, or ask for less of the goal",
        )
    if not found.rule_kept and request.goal.count_band is not None:
        counts = format_percent(request.goal.count_band)
        return InfeasibleError(
            f"no plan for {aim.words} was found that also keeps counts within {counts}; it is not proven impossible",
            hint="give a wider --count-band or --band",
        )
    if not found.rule_kept:
        broken = f"at most {request.max_rack_violations} sets that break the rack rule"
        return InfeasibleError(
            f"no plan for {aim.words} leaves {broken} (exhaustive search)"
            if found.proven
            else f"no plan was found that leaves {broken}; it is not proven impossible",
            hint=f"see which partitions cannot be repaired, and why: {request.command('topicmappr fix-racks')}",
        )
    if found.proven:
        return InfeasibleError(
            f"{aim.words} cannot be reached: no placement is inside the limits (exhaustive search)",
            hint=hint(),
        )
    return InfeasibleError(
        f"no plan for {aim.words} was found ({format_bytes(found.outside)} stay outside); it is not proven impossible",
        hint=hint(),
    )


def _looser_goal(aim: ResolvedGoal, reached: SearchResult, request: RebalanceRequest) -> Callable[..., str]:
    """How to put into a hint what could be asked for instead: the nearest goal, other ways, the best effort."""
    near = aim.shown(reached.max_deviation)
    nearest = f"a plan was found for {near}" if reached.is_nearest_planned else f"the nearest that may be: {near}"
    is_effort = request.goal.best_effort or aim.requested is None

    def hint(*others: str) -> str:
        if aim.can_be_asked(reached.max_deviation):
            return f"{nearest}{''.join(others)}{'' if is_effort else ' (or give --best-effort)'}"
        return f"{'' if is_effort else 'give --best-effort'}{''.join(others)}".removeprefix(", or ")

    return hint


def _over_budget(aim: ResolvedGoal, unlimited: Attempt, request: RebalanceRequest) -> InfeasibleError:
    """The budget is what no plan keeps; without it there is one."""
    goal = request.goal
    flags = [
        *([f"--max-moves {goal.max_moves}"] if goal.max_moves is not None else []),
        *([f"--max-moved-bytes {format_bytes(goal.max_moved_bytes)}"] if goal.max_moved_bytes is not None else []),
    ]
    kept = [aim.words]
    if goal.count_band is not None:
        kept.append(f"counts within {format_percent(goal.count_band)}")
    if request.max_rack_violations is not None:
        kept.append(f"at most {request.max_rack_violations} sets that break the rack rule")
    return InfeasibleError(
        f"no plan within {' and '.join(flags)} was found that keeps {', '.join(kept)}: the budget is too small",
        hint=(
            f"a plan without the budget makes {count_of(unlimited.moves, 'copy', 'copies')} of "
            f"{format_bytes(unlimited.cost)}"
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """One copy that moves from broker to broker; `size` in bytes."""

    key: TopicPartition
    source: int
    destination: int
    size: int


def relocations_of(decided: Rebalance) -> tuple[Relocation, ...]:
    """Every copy that moves, the largest first. O(moves)."""
    racks = {load.broker: load.rack for load in decided.plan.after.brokers}
    found = [
        (-(move.size_bytes or 0), move.topic, move.partition, source, destination)
        for move in decided.plan.moves
        for source, destination in pairs(move.before, move.after, racks)
    ]
    return tuple(
        Relocation(key=TopicPartition(topic, partition), source=source, destination=destination, size=-size)
        for size, topic, partition, source, destination in sorted(found)
    )


def pairs(before: Sequence[int], after: Sequence[int], racks: Mapping[int, str | None]) -> list[tuple[int, int]]:
    """Who takes over from whom: by place in the list, or, where the list was reordered, by rack and then in order."""
    gone = [b for b in before if b not in after]
    come = [b for b in after if b not in before]
    found = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    if all(old in gone and new in come for old, new in found):
        return found
    found = []
    for alike in (True, False):
        taken = {b for pair in found for b in pair}
        for old in (b for b in gone if b not in taken):
            left = [b for b in come if b not in taken and (not alike or racks.get(b) == racks.get(old))]
            if left:
                found.append((old, left[0]))
                taken.add(left[0])
    return found


def smallest_tolerance(
    mean: float, after: Mapping[int, int], sources: Collection[int], destinations: Collection[int]
) -> float:
    """The least whole percent (as a fraction) within which kafka-kit's limits hold for the result.

    Sources may end with at most mean x (1 + it) free, destinations with mean x (1 - it) or more; one percent is
    the finest that kafka-kit tries.
    """
    if mean <= 0:
        return 0.01
    away = [after[b] / mean - 1 for b in sources if b in after]
    away += [1 - after[b] / mean for b in destinations if b in after]
    widest = max(away, default=0.0)
    percent = max(1, int(widest * 100))
    # A whole percent that is met but for the last bit of a division counts as met.
    return (percent if widest * 100 <= percent + 1e-9 else percent + 1) / 100


def decide_add_brokers(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> Rebalance:
    """Give the brokers in `request.brokers` their part, beside every broker that holds a replica now.

    They must be live, and may hold replicas already. Raises as `decide_rebalance`, and `UsageError` for brokers
    that are not live.
    """
    added = request.brokers
    if added.existing or added.everything or not added.ids:
        raise UsageError("--brokers: name the brokers to add; -1 and -2 stand for those that are there")
    live = {b.id for b in snapshot.brokers if b.is_alive}
    absent = [b for b in added.ids if b not in live]
    if absent:
        raise UsageError(
            f"broker(s) {', '.join(map(str, sorted(absent)))} are not live, so they cannot take replicas",
            hint="start them first; see which brokers answer with: kafkakit doctor",
        )
    return decide_rebalance(snapshot, keep_existing_brokers(request), facts, watch)


def keep_existing_brokers(request: RebalanceRequest) -> RebalanceRequest:
    """The request over the named brokers and every broker that holds a replica now."""
    return replace(request, brokers=BrokerList(ids=request.brokers.ids, existing=True))
