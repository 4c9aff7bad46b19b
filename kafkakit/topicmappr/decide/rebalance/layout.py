"""The arrays of a balance: a request's scope and rules, laid out for the engine."""

from collections.abc import Sequence

from kafkakit.placement.broker_change import BrokerChange
from kafkakit.placement.bytes.layout import Disks, Layout, lay_out
from kafkakit.placement.group_rule import GroupRule, racks_to_spread
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.pins import pinned_indices
from kafkakit.topicmappr.decide.rebalance.goal import with_count_limits
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.rebalance.sources import Sources
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.decide.size_source import Sizes


def layout_of(
    scope: Scope,
    sizes: Sizes,
    racks: dict[int, str | None],
    request: RebalanceRequest,
    sources: Sources,
    change: BrokerChange,
    stranded: Sequence[PlannedPartition],
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
        GroupRule(request.min_rack_ids, racks_to_spread(takers, racks) if request.spread else ()),
        disks,
        by_free=request.goal.band is None,
        receivers=[b for b in change.targets if sources.brokers is None or b not in sources.brokers],
        targets=change.targets,
        givers=sources.brokers,
        pinned=pinned_indices(scope.partitions, request.pinned, stranded),
        smallest=request.smallest_bytes,
        locality_scoped=request.locality_scoped,
        most_broken=request.max_rack_violations,
    )
    return with_count_limits(layout, request.goal.count_band, change.targets)
