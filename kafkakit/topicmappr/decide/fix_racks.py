"""`topicmappr fix-racks` as a pure function: every partition obeys the rack rule, with the fewest copies.

The operator's request is validated here; the problem is which replicas have to leave their racks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Certificate, PlacementRules, Proof, ProofKind, certificate
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of
from kafkakit.placement.group_repairs import GroupRepair, GroupRepairs, Need, NoRepair, TagRepair, tag_repair
from kafkakit.placement.group_rooms import Grouping, PartitionGroup, Room, TagSteps
from kafkakit.placement.group_rule import (
    NONE_CLOSED,
    ClosedBrokers,
    SpreadRule,
    TagRules,
)
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.openings import (
    LEVEL_PRICE,
    BrokerPool,
    OpeningsTask,
    Surplus,
    fill_openings,
    group_openings,
    group_partitions,
    pool_of,
    replace_replicas,
)
from kafkakit.placement.problem import (
    Minimize,
    PlannedPartition,
    rackless_note,
    set_stranded_apart,
    stranded_warning,
    words_of_closed,
)
from kafkakit.topicmappr.decide import budget as budgets
from kafkakit.topicmappr.decide.assembly import CeilingTask, PlanDecision, PlannedChange, assemble, within_ceilings
from kafkakit.topicmappr.decide.dirs import fit_dirs, with_destinations
from kafkakit.topicmappr.decide.plain_requests import FixRacksRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, Scope, TopicScope, pinned_indices, scope_of


def decide_fix_racks(snapshot: ClusterSnapshot, request: FixRacksRequest) -> PlannedChange:
    """Decide which replicas leave crowded racks and where they go: counts over all topics come out even.

    A partition that cannot be repaired is left as it is and named in `reasons`. A budget serves the worst sets first,
    those with the most replicas to move; the rest waits. The number of copies is the
    least there is, by counting; who leaves and where to is one flow, again while copies find no log dir (`fit_dirs`).
    """
    return fit_dirs(snapshot, lambda closed: _decide(snapshot, request, closed))


def _decide(
    snapshot: ClusterSnapshot, request: FixRacksRequest, closed: ClosedBrokers
) -> tuple[PlannedChange, Sequence[HomelessCopy]]:
    problem = rack_problem(snapshot, request, closed)
    partitions = problem.scope.partitions
    served = _serve(snapshot, problem, request)
    if served.later:
        problem = replace(problem, repairs={i: m for i, m in problem.repairs.items() if i in served.indices})
    surplus = problem.surplus()
    inside = Counter(b for row in surplus for b in row.replicas)
    loads = {b: problem.pool.replicas.get(b, 0) - inside[b] for b in {*problem.pool.open, *inside}}
    chosen, staying = fill_openings(OpeningsTask(problem.rooms(), loads, surplus))
    lists = replace_replicas(partitions, staying, chosen, problem.pool)
    still = {*problem.pinned, *(p.key for p in problem.stranded)}
    task = CeilingTask(scope=problem.scope, lists=lists, targets=problem.pool.live, staying=still)
    lists = within_ceilings(snapshot, task, request.ceilings)
    reasons = _reasons(problem)
    decision = PlanDecision(
        replicas=lists,
        certificate=_certify(problem, request, served, lists),
        targets=sorted(problem.pool.live),
        tags=problem.grouping.rule.tags,
        rules=PlacementRules(
            min_rack_ids=request.min_rack_ids,
            spread_over=problem.grouping.rule.spread_over,
            receivers=tuple(sorted(problem.pool.open)),
            pinned=problem.pinned,
            later=served.later,
        ),
        notes=(*budgets.budget_notes(request.budget, served), *_notes(problem)),
        warnings=tuple(sorted((*reasons, *map(stranded_warning, problem.stranded)))),
    )
    rule = "even spread over racks" if request.spread else _rule_words(request.min_rack_ids)
    decision = with_destinations(snapshot, problem.scope, decision)
    selection = problem.scope.selection
    change = PlannedChange(
        title=f"Repair the rack rule: {rule}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=assemble(snapshot, request.words, problem.scope, decision),
        reasons=reasons,
        left_alone=len(problem.beyond_repair),
        later=served.left,
    )
    return change, decision.homeless


@dataclass(frozen=True, slots=True, kw_only=True)
class RackProblem:
    """`repairs` and `beyond_repair` by partition index; `stranded` break the rule and cannot be copied.

    `pinned` partitions stay as they are, `standing` are those of them that break the rule. Under constraints `by_tags`
    says who stays.
    """

    scope: Scope
    pool: BrokerPool
    grouping: Grouping
    repairs: Mapping[int, GroupRepair]
    beyond_repair: Mapping[int, NoRepair]
    stranded: tuple[PlannedPartition, ...]
    pinned: tuple[TopicPartition, ...] = ()
    standing: tuple[TopicPartition, ...] = ()
    by_tags: Mapping[int, TagRepair] = field(default_factory=dict)

    def least(self, index: int) -> int:
        """How many copies no repair of the partition can do without."""
        return self.by_tags[index].least if index in self.by_tags else self.repairs[index].moves

    def rooms(self) -> list[PartitionGroup]:
        """Partitions whose new copies may go to the same places."""
        if self.by_tags:
            sets = {i: (self.by_tags[i].kept, len(self.scope.partitions[i].current)) for i in self.repairs}
            return group_partitions(sets, self.grouping)
        found: dict[int, PartitionGroup] = {}
        for i, repair in self.repairs.items():
            # Equal needs are one object, see `GroupRepairs`.
            found.setdefault(id(repair), PartitionGroup(repair.room)).members.append(i)
        return list(found.values())

    def surplus(self) -> list[Surplus]:
        """The sets that must give replicas up, for the flow that chooses which."""
        return [self._surplus(i, repair) for i, repair in self.repairs.items()]

    def _surplus(self, index: int, repair: GroupRepair) -> Surplus:
        p = self.scope.partitions[index]
        if index in self.by_tags:  # who stays is settled
            kept = self.by_tags[index].kept
            return Surplus(
                index=index, replicas=kept, prices=(0,) * len(kept), groups=(-1,) * len(kept), stay=len(kept)
            )
        fit = self.pool.live if p.in_sync is None else self.pool.live & p.in_sync
        return Surplus(
            index=index,
            replicas=p.current,
            prices=tuple(
                _STALE if b not in fit else min(k, LEVEL_PRICE - 1) if k else _LEADER for k, b in enumerate(p.current)
            ),
            groups=self.grouping.shared(p.current),
            stay=len(p.current) - repair.moves,
            base=repair.base,
            slots=repair.slots,
            extra=repair.extra,
        )


def _serve(snapshot: ClusterSnapshot, problem: RackProblem, request: FixRacksRequest) -> budgets.BudgetSelection:
    changes = []
    for i, repair in problem.repairs.items():
        p = problem.scope.partitions[i]
        changes.append(
            budgets.PartitionChange(
                index=i, key=p.key, copies=repair.moves, size_bytes=p.size_bytes, rank=-repair.moves
            )
        )
    budgets.refuse_unsized(snapshot, request.budget, changes)
    return budgets.serve(changes, request.budget)


def _rule_words(minimum: int) -> str:
    return f"each set spans {count_of(minimum, 'rack')} before one repeats" if minimum else "all racks of a set differ"


def _certify(
    problem: RackProblem, request: FixRacksRequest, served: budgets.BudgetSelection, lists: Sequence[tuple[int, ...]]
) -> Certificate:
    unit = "bytes" if request.minimize is Minimize.BYTES else "replicas"
    partitions = problem.scope.partitions
    one = {i: (partitions[i].size_bytes or 0) if unit == "bytes" else 1 for i in problem.repairs}
    weight = sum(len(set(lists[i]).difference(partitions[i].current)) * one[i] for i in problem.repairs)
    least = sum(problem.least(i) * one[i] for i in problem.repairs)
    copies = sum(map(problem.least, problem.repairs))
    tags = "or on brokers that constraints forbid " if problem.by_tags else ""
    if problem.repairs:
        words = budgets.budget_argument(
            f"{count_of(len(problem.repairs), 'partition')} hold {count_of(copies, 'replica')} more in their racks "
            f"{tags}than the rule allows, counted set by set; one move repairs one of them at most",
            served,
        )
    elif served.later:
        words = f"the budget takes none of {count_of(served.left.partitions, 'partition')}: nothing is copied"
    else:
        spared = problem.beyond_repair or problem.standing
        words = "no partition that can be repaired breaks the rule" if spared else "every set obeys the rule"
        words += ": nothing has to be copied"
    return certificate(unit, weight, least, words, Proof(kind=ProofKind.COUNTING))


def _reasons(problem: RackProblem) -> tuple[str, ...]:
    """Why partitions cannot be repaired, one sentence for each reason."""
    names: dict[str, list[str]] = {}
    cramped: list[str] = []
    for i, lack in sorted(problem.beyond_repair.items()):
        p = problem.scope.partitions[i]
        if words := problem.grouping.rule.closed.explain(p.key, p.size_bytes, problem.pool.open - {*p.current}):
            cramped.append(f"{words}; free space there, or add brokers")
        else:
            names.setdefault(lack.reason, []).append(str(p.key))
    shut = words_of_closed(problem.pool.shut(problem.pool.live))
    return *cramped, *(
        f"{few_of(found)}: {reason}; "
        f"{'add brokers' if problem.by_tags else 'add brokers in other racks, or allow repeats with --min-rack-ids'}"
        f"{shut}"
        for reason, found in sorted(names.items())
    )


def _notes(problem: RackProblem) -> tuple[str, ...]:
    alone = len(problem.standing) == 1
    fate = "breaks the rule and stays as it is" if alone else "break the rule and stay as they are"
    notes = [*budgets.pinned_note(problem.standing, fate)]
    notes += rackless_note(problem.grouping.receivers.get(None, ()), problem.pool.racks)
    notes += problem.pool.closed_notes(problem.pool.live)
    return tuple(notes)


# Above what evenness can cost a single replica, see `openings.py`; below the leader's.
_STALE = 10**10
_LEADER = -(10**12)


def rack_problem(
    snapshot: ClusterSnapshot, request: FixRacksRequest, closed: ClosedBrokers = NONE_CLOSED
) -> RackProblem:
    """Look at every chosen partition; raises `UsageError` when the brokers have no racks at all. O(partitions)."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    names = tuple(sorted({r for b in pool.open if (r := pool.racks[b])}))
    if not names and request.constraints == NO_CONSTRAINTS:
        raise UsageError("no live broker has a rack, so there is no rack rule to repair", hint="set broker.rack")
    sized = request.minimize is Minimize.BYTES
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude, sized=sized))
    tags = request.constraints.on(snapshot, scope.selection.selected)
    rule = SpreadRule(request.min_rack_ids, names if request.spread else (), tags, closed)
    keys = [p.key for p in scope.partitions]
    grouping = Grouping.of(rule, pool.racks, pool.open, [key.topic for key in keys], keys)
    by_tags, needs = ({}, _rack_needs(grouping, scope)) if tags is None else _tag_needs(grouping, tags, scope)
    wrong = {i: need for i, need in needs if need is not None}
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    broken = {i: need for i, need in wrong.items() if i not in pinned}
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in broken), pool.live)
    apart = {p.key for p in stranded}
    movable = {i: need for i, need in broken.items() if scope.partitions[i].key not in apart}
    return RackProblem(
        scope=scope,
        pool=pool,
        grouping=grouping,
        repairs={i: need for i, need in movable.items() if isinstance(need, GroupRepair)},
        beyond_repair={i: need for i, need in movable.items() if isinstance(need, NoRepair)},
        stranded=stranded,
        pinned=tuple(scope.partitions[i].key for i in sorted(pinned)),
        standing=tuple(scope.partitions[i].key for i in sorted(pinned & wrong.keys())),
        by_tags=by_tags,
    )


def _rack_needs(grouping: Grouping, scope: Scope) -> list[tuple[int, Need]]:
    repairs = GroupRepairs(grouping)
    apart: dict[frozenset[int], GroupRepairs] = {}
    every, needs = frozenset(grouping.taking), list[tuple[int, Need]]()
    for i, p in enumerate(scope.partitions):
        able = repairs
        if i in grouping.closed:
            left = every - grouping.closed[i]
            able = apart.setdefault(left, GroupRepairs(grouping.narrowed(left)))
        needs.append((i, able.need_of(p.current)))
    return needs


def _tag_needs(grouping: Grouping, tags: TagRules, scope: Scope) -> tuple[dict[int, TagRepair], list[tuple[int, Need]]]:
    """What sets need under constraints by tags; as repairs of so many moves, or as the reason why there is none."""
    steps = TagSteps(grouping, tags)
    found = {
        i: repair for i, p in enumerate(scope.partitions) if (repair := tag_repair(steps, i, p.current)) is not None
    }
    sets = {i: (repair.kept, len(scope.partitions[i].current)) for i, repair in found.items()}
    _, unfit = group_openings(sets, grouping)
    needs: list[tuple[int, Need]] = []
    for i, repair in found.items():
        p = scope.partitions[i]
        moves = len(p.current) - len(repair.kept)
        words = tags.words(p.key.topic, grouping.taking, len(p.current))
        reason = f"{moves} replica(s) must move, and constraints and racks leave room for {unfit.get(i, 0)} ({words})"
        needs.append((i, NoRepair(reason) if i in unfit else GroupRepair(moves, 0, 0, 0, Room(moves, 0, {}))))
    return found, needs
