"""What a plan says of its brokers, looked up by id: racks, loads before and after, limits, states."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.certificate import BrokerLimit, PlacementRules
from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition
from kafkakit.core.plan import BrokerLoad, Plan
from kafkakit.core.quantities import format_bytes
from kafkakit.placement.group_rule import GroupRule, TagRules


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A plan's brokers; `states` and `now` (the list the cluster shows) only with a snapshot.

    `load` is what limits count: `bytes`, `replicas` or `leaders`. Limits that slide together are left out,
    since none of them binds alone.
    """

    targets: frozenset[int]
    receivers: frozenset[int]
    rules: PlacementRules
    racks: Mapping[int, str | None]
    before: Mapping[int, BrokerLoad]
    after: Mapping[int, BrokerLoad]
    load: str
    limits: Mapping[int, BrokerLimit]
    states: Mapping[int, BrokerState]
    now: tuple[int, ...] | None
    tags: TagRules | None = None

    @property
    def rule(self) -> GroupRule:
        """The plan's rack rule."""
        return GroupRule(self.rules.min_rack_ids, self.rules.spread_over, self.tags)

    def rack(self, broker: int) -> str | None:
        """The broker's rack; None when it has none or the plan does not know it."""
        return self.racks.get(broker)

    def held(self, broker: int, *, after: bool) -> int | None:
        """The broker's load in the limits' unit, what the plan cannot touch included; None when unknown."""
        loads = self.after if after else self.before
        limit = self.limits.get(broker)
        fixed = limit.fixed if limit else 0
        row = loads.get(broker)
        if row is None:
            return fixed
        value = {"bytes": row.bytes, "leaders": row.leaders}.get(self.load, row.replicas)
        return None if value is None else fixed + value

    def amount(self, value: int) -> str:
        """A load in words."""
        return format_bytes(value) if self.load == "bytes" else f"{value} {self.load}"


def facts_of(plan: Plan, key: TopicPartition, snapshot: ClusterSnapshot | None) -> BrokerFacts:
    """Gather what the plan knows, and what the snapshot adds to it. O(brokers)."""
    before = {load.broker: load for load in plan.before.brokers}
    after = {load.broker: load for load in plan.after.brokers}
    racks: dict[int, str | None] = {b: load.rack for b, load in (before | after).items()}
    racks |= {b.id: b.rack for b in plan.brokers}
    now: tuple[int, ...] | None = None
    states: dict[int, BrokerState] = {}
    if snapshot is not None:
        racks = {b.id: b.group for b in snapshot.brokers} | {b: r for b, r in racks.items() if r}
        states = {b.id: b.state for b in snapshot.brokers}
        now = next((p.replicas for t, p in snapshot.partitions() if (t, p.partition) == key), ())
    targets = frozenset(b.id for b in plan.brokers)
    rules = plan.rules or PlacementRules(receivers=tuple(sorted(targets)))
    proof = plan.certificate.proof
    fixed = proof is not None and not proof.slides
    return BrokerFacts(
        targets=targets,
        receivers=frozenset(rules.receivers) or targets,
        rules=rules,
        racks=racks,
        before=before,
        after=after,
        load=proof.load if proof else "replicas",
        limits={limit.broker: limit for limit in proof.limits} if proof is not None and fixed else {},
        states=states,
        now=now,
        tags=TagRules(plan.constraints) if plan.constraints else None,
    )
