"""What a balance of bytes is made from: the scope, the brokers, their disks, and the arrays with the goal on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.by_size.layout import Disks, Layout, lay_out
from kafkakit.placement.group_rule import GroupRule, TagRules, racks_to_spread
from kafkakit.placement.problem import BrokerChange, PlannedPartition, classify, set_stranded_apart, stranded_warning
from kafkakit.topicmappr.decide.rebalance.ceilings import (
    BesideScope,
    beside_scope,
    with_count_limits,
    with_leader_limits,
)
from kafkakit.topicmappr.decide.rebalance.exclusions import Exclusions, exclusions_of
from kafkakit.topicmappr.decide.rebalance.goal import Aim, Sources, aim_of, choose_sources
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of


def layout_of(
    scope: Scope,
    sizes: Sizes,
    racks: dict[int, str | None],
    request: RebalanceRequest,
    sources: Sources,
    change: BrokerChange,
    stranded: Sequence[PlannedPartition],
    tags: TagRules | None,
    out: Exclusions,
    beside: BesideScope,
) -> Layout:
    """Lay out the selected partitions, with the request's rules on who gives, who takes and what stays. O(replicas)."""
    disks = Disks(
        storage=sizes.brokers,
        log_dirs=sizes.log_dirs,
        max_use=request.max_disk_use,
        head_room=request.head_room_bytes,
    )
    takers = [b for b in change.targets if disks.receives(b)]
    layout = lay_out(
        scope.partitions,
        sizes.partition_bytes,
        racks,
        GroupRule(request.min_rack_ids, racks_to_spread(takers, racks) if request.spread else (), tags),
        disks,
        by_free=request.goal.band is None,
        receivers=[
            b
            for b in change.targets
            if b not in out.receivers and (sources.brokers is None or b not in sources.brokers)
        ],
        targets=change.targets,
        givers=out.giving(sources.brokers, (b for p in scope.partitions for b in p.current)),
        pinned=pinned_indices(scope.partitions, request.pinned, stranded),
        smallest=request.smallest_bytes,
        locality_scoped=request.locality_scoped,
        most_broken=request.max_rack_violations,
    )
    table = with_count_limits(layout.table, request, change.targets, out, beside)
    table = with_leader_limits(table, request, change.targets, beside, scope.partitions, stranded)
    return replace(layout, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceInputs:
    """The request on the cluster; `holding` brokers hold the scope, `stranded` partitions have no copy to copy from."""

    scope: Scope
    racks: Mapping[int, str | None]
    holding: frozenset[int]
    change: BrokerChange
    stranded: tuple[PlannedPartition, ...]
    sizes: Sizes
    sources: Sources
    out: Exclusions
    beside: BesideScope
    layout: Layout
    aim: Aim
    left_out: frozenset[int]

    @property
    def notes(self) -> tuple[str, ...]:
        """Of brokers that the goal leaves out."""
        if not self.left_out:
            return ()
        return (f"left out of the goal, since they cannot come nearer to it: brokers {some(sorted(self.left_out))}",)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of sizes and of stranded partitions."""
        return tuple(sorted((*self.sizes.warnings, *map(stranded_warning, self.stranded))))


def balance_inputs(
    snapshot: ClusterSnapshot,
    request: RebalanceRequest,
    facts: StorageFacts | None,
    check: Callable[[BrokerChange], None],
) -> BalanceInputs:
    """Read scope, disks and rules; `check` refuses brokers that the request cannot do with. O(replicas).

    Raises `UsageError` and `TryLaterError` for requests that cannot be planned.
    """
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    racks = {b.id: b.group for b in snapshot.brokers}
    live = {b.id: b.group for b in snapshot.brokers if b.is_alive}
    holding = frozenset(b for p in scope.partitions for b in p.current)
    change = classify(holding, request.brokers.resolve(holding, frozenset(live), snapshot.leaving), live)
    check(change)
    movable, stranded = set_stranded_apart(scope.partitions, frozenset(live))
    sizes = storage_of(snapshot, facts, brokers=change.targets, partitions=[p.key for p in movable])
    free = {b: sizes.brokers[b].free_bytes or 0 for b in change.targets}
    sources = choose_sources(free, change.new, request)
    tags = request.constraints.on(snapshot, scope.selection.selected)
    out, beside = exclusions_of(snapshot, request, holding), beside_scope(snapshot, scope, request)
    layout = layout_of(scope, sizes, racks, request, sources, change, stranded, tags, out, beside)
    # A range of free bytes is over loads alone, whatever the disks.
    capacity = layout.now.capacity if request.goal.band is not None else dict.fromkeys(layout.now.capacity, 0)
    left_out = out.left_out(layout.now.load, capacity, change.targets)
    return BalanceInputs(
        scope=scope,
        racks=racks,
        holding=holding,
        change=change,
        stranded=stranded,
        sizes=sizes,
        sources=sources,
        out=out,
        beside=beside,
        layout=layout,
        aim=aim_of(layout, request, sources, frozenset(change.targets) - left_out),
        left_out=left_out,
    )
