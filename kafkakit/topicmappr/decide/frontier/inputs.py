"""What every point of a frontier shares: the scope, the disks and the arrays, made once."""

from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.broker_change import BrokerChange, classify
from kafkakit.placement.bytes.balance_goal import BalanceGoal
from kafkakit.placement.bytes.layout import Layout
from kafkakit.placement.stranded import set_stranded_apart, stranded_warning
from kafkakit.topicmappr.decide.rebalance.goal import aim_of
from kafkakit.topicmappr.decide.rebalance.layout import layout_of
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.rebalance.sources import choose_sources
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, scope_of
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierInputs:
    """The arrays, the goal as a balance of windows, and what the operator should know of them."""

    scope: Scope
    change: BrokerChange
    sizes: Sizes
    layout: Layout
    balance: BalanceGoal
    rack_names: dict[int, str]
    warnings: tuple[str, ...]

    @property
    def replicas(self) -> int:
        """How many replicas are in the scope."""
        return len(self.layout.table.home)


def frontier_inputs_of(
    snapshot: ClusterSnapshot, request: RebalanceRequest, facts: StorageFacts | None = None
) -> FrontierInputs:
    """Read scope, disks and rules of a request whose goal names the balance (a band or a range of free bytes).

    Raises `UsageError` and `TryLaterError` as a rebalance with the same request would. O(replicas).
    """
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    racks = {b.id: b.group for b in snapshot.brokers}
    live = {b.id: b.group for b in snapshot.brokers if b.is_alive}
    holding = frozenset(b for p in scope.partitions for b in p.current)
    change = classify(holding, request.brokers.resolve(holding, frozenset(live)), live)
    wrong = sorted({*change.missing, *change.old_missing, *change.replace})
    if wrong:
        raise UsageError(
            f"a frontier is of live brokers that all continue carrying these topics; not so broker(s) "
            f"{', '.join(map(str, wrong[:8]))}",
            hint="list every live broker that holds these topics (-1); empty dead ones with topicmappr drain first",
        )
    movable, stranded = set_stranded_apart(scope.partitions, frozenset(live))
    sizes = storage_of(snapshot, facts, brokers=change.targets, partitions=[p.key for p in movable])
    free = {b: sizes.brokers[b].free_bytes or 0 for b in change.targets}
    sources = choose_sources(free, change.new, request)
    # A frontier says what bytes cost; sets that break the rack rule may stay as they are.
    layout = layout_of(scope, sizes, racks, replace(request, max_rack_violations=None), sources, change, stranded)
    aim = aim_of(layout, request, sources, change.targets)
    names = {int(layout.table.rack[i]): racks.get(b) or "none" for i, b in enumerate(layout.table.brokers)}
    return FrontierInputs(
        scope=scope,
        change=change,
        sizes=sizes,
        layout=layout,
        balance=aim.balance,
        rack_names=names,
        warnings=tuple(sorted((*sizes.warnings, *map(stranded_warning, stranded)))),
    )
