"""What a plan does to the free bytes of its brokers, and the warning when these spread."""

from collections.abc import Sequence
from dataclasses import replace

from kafkakit.core.plan import Plan
from kafkakit.topicmappr.decide.rebalance.request import RebalanceRequest
from kafkakit.topicmappr.decide.storage_words import RANGE_INCREASED, FreeChange


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
