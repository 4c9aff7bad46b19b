"""`topicmappr set-replication` as a pure function: the rebuild of these topics on their own cluster, with a factor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.certificate import PlacementRules
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.openings import alike, pool_of
from kafkakit.placement.problem import set_stranded_apart
from kafkakit.topicmappr.decide import budget as budgets
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.rebalance.exclusions import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.rebuild.decision import Rebuild, decide_rebuild
from kafkakit.topicmappr.decide.rebuild.request import MAX_REPLICATION, RebuildRequest
from kafkakit.topicmappr.decide.scope import pinned_indices, scope_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRequest:
    """Bring every partition of the topics to `replication` copies.

    `pinned` are topics or topic/partition that stay as they are, `budget` what one run may copy; brokers in
    `exclude_receivers` get no copies. `words` are the flags as given.
    """

    replication: int
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    pinned: tuple[str, ...] = ()
    budget: budgets.Budget = budgets.NO_BUDGET
    exclude_receivers: BrokerList | None = None
    constraints: TagConstraints = NO_CONSTRAINTS
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if not 1 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"the replication factor {self.replication} is not between 1 and {MAX_REPLICATION}")


def decide_set_replication(snapshot: ClusterSnapshot, request: ReplicationRequest) -> PlannedChange:
    """Decide who gets the added copies, or whose copy goes.

    Added copies follow the rack rule and even the counts out. Where the factor shrinks the leader stays, rack
    repeats go first, then copies out of sync, then those of the fullest brokers. Copies on brokers that are
    not alive are replaced, or are the first to go. A budget serves the partitions that lack most copies first;
    what needs no copy is always served. See `place_minimal` for the proof and the cost.
    """
    requested = RebuildRequest(
        brokers=BrokerList(ids=(), everything=True),
        topics=request.topics,
        topics_exclude=request.topics_exclude,
        replication=request.replication,
        min_rack_ids=request.min_rack_ids,
        constraints=request.constraints,
        closed=named_brokers(snapshot, RECEIVERS, request.exclude_receivers),
        words=request.words,
    )
    pinned: tuple[TopicPartition, ...] = ()
    if request.pinned:
        partitions = scope_of(snapshot, requested.scope).partitions
        pinned = tuple(partitions[i].key for i in pinned_indices(partitions, request.pinned, ()))
        requested = replace(requested, untouched=frozenset(pinned))
    served = _serve(snapshot, requested, request.budget)
    rebuild = decide_rebuild(snapshot, replace(requested, untouched=requested.untouched.union(served.later)))
    extra = (*_min_isr_warnings(snapshot, rebuild, request.replication), *_closed_warnings(snapshot, rebuild))
    plan = _told(rebuild, request, served, pinned)
    plan = replace(plan, warnings=tuple(sorted((*plan.warnings, *extra))))
    selection = rebuild.scope.selection
    return PlannedChange(
        title=f"Set the replication factor to {request.replication}",
        topics=selection.selected,
        topics_excluded=selection.excluded,
        plan=plan,
        reasons=rebuild.shortages,
        left_alone=sum(1 for n in rebuild.unplaced if n),
        later=served.left,
    )


def _serve(snapshot: ClusterSnapshot, requested: RebuildRequest, budget: budgets.Budget) -> budgets.Served:
    """Choose what the budget takes; partitions that need no copy, or find no place for one, are served anyway.

    O(partitions): what fits follows from the racks of the replicas that stay.
    """
    if not budget.given:
        return budgets.Served(indices=frozenset())
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    able, _ = set_stranded_apart(scope_of(snapshot, requested.scope).partitions, live)
    kept = ((i, p, tuple(b for b in p.current if b in live)) for i, p in enumerate(able))
    openings = {i: (row, p.wanted) for i, p, row in kept if p.wanted > len(row) and p.key not in requested.untouched}
    topics = [p.key.topic for p in able]
    rule = GroupRule(requested.min_rack_ids, tags=requested.constraints.on(snapshot, set(topics)))
    grouping = Grouping.of(rule, {b.id: b.group for b in snapshot.brokers}, live - requested.closed, topics)
    units = {i: a.room.units for a in alike(openings, grouping, repairs=False) for i in a.members}
    changes = [
        budgets.PartitionChange(
            index=i, key=able[i].key, copies=n, size_bytes=able[i].size_bytes, rank=len(row) - wanted
        )
        for i, (row, wanted) in openings.items()
        if (n := units[i])
    ]
    budgets.refuse_unsized(snapshot, budget, changes)
    return budgets.serve(changes, budget)


def _told(
    rebuild: Rebuild, request: ReplicationRequest, served: budgets.Served, pinned: tuple[TopicPartition, ...]
) -> Plan:
    """The rebuild's plan with what pins and budget kept back in its rules, notes and argument."""
    plan, spared = rebuild.plan, frozenset(pinned)
    if not spared and not served.later:
        return plan
    rules = plan.rules or PlacementRules()
    other = [p.key for p in rebuild.scope.partitions if p.key in spared and len(p.current) != request.replication]
    verb = "keeps" if len(other) == 1 else "keep"
    argument = budgets.budget_argument(plan.certificate.argument, served)
    return replace(
        plan,
        certificate=replace(plan.certificate, argument=f"pinned partitions aside, {argument}" if spared else argument),
        rules=replace(rules, pinned=tuple(sorted(spared.union(rules.pinned))), later=served.later),
        notes=(
            *budgets.budget_notes(request.budget, served),
            *budgets.pinned_note(other, f"{verb} another factor"),
            *plan.notes,
        ),
    )


def _min_isr_warnings(snapshot: ClusterSnapshot, rebuild: Rebuild, replication: int) -> list[str]:
    """Topics that would need more copies in sync than they have; Kafka then refuses writes with acks=all."""
    chosen = set(rebuild.scope.selection.selected)
    short = [
        f"{t.name} ({value})"
        for t in snapshot.topics
        if t.name in chosen
        and (value := t.configs.get("min.insync.replicas", "")).isdigit()
        and int(value) > replication
    ]
    if not short:
        return []
    return [f"min.insync.replicas is above {replication} for {some(short)}: producers with acks=all would be refused"]


def _closed_warnings(snapshot: ClusterSnapshot, rebuild: Rebuild) -> list[str]:
    closed = pool_of(snapshot).closed
    taking = sorted({b for m in rebuild.plan.moves for b in m.adding if b in closed})
    if not taking:
        return []
    return [f"{counted(len(taking), 'broker')} take new copies with all log dirs cordoned or broken: {some(taking)}"]
