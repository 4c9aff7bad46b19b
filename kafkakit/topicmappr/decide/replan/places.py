"""Who may hold what now: the plan's rules applied to the brokers of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.core.certificate import PlacementRules
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import Plan
from kafkakit.placement.by_size.layout import LoadsNow, lists_of
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.group_rule import GroupRule, TagRules
from kafkakit.placement.openings import pool_of
from kafkakit.topicmappr.decide.replan.goal import PlanGoal
from kafkakit.topicmappr.decide.replan.situation import MoveState, ReplannedPartition, Situation

if TYPE_CHECKING:
    from kafkakit.placement.problem import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The rows, and who may do what: `receivers` take copies, `leaving` brokers must give theirs up.

    `targets` are the plan's brokers that are alive; `pinned` are indices of rows that the plan's rules keep in
    place, `immovable` those and the ones that cannot move: under way, or without a live copy in sync. With `strict` no
    set may break the rack rule, not even one that does already. `regrouped` says that racks have changed.
    """

    rows: Sequence[ReplannedPartition]
    racks: Mapping[int, str | None]
    rule: GroupRule
    targets: tuple[int, ...]
    receivers: tuple[int, ...]
    leaving: frozenset[int]
    immovable: frozenset[int]
    stranded: frozenset[int]
    rules: PlacementRules
    replication: int
    alive: frozenset[int]
    lost: frozenset[int]
    strict: bool
    regrouped: bool

    @property
    def brokers(self) -> list[int]:
        """Every broker that a list, live or planned, or the rules name."""
        named = {b for row in self.rows for b in (*row.live, *row.start)}
        return sorted(named | set(self.targets) | set(self.receivers) | self.leaving)

    def keepable(self, row: ReplannedPartition) -> list[int]:
        """The brokers of the live list that may continue holding the partition."""
        return [b for b in row.live if b not in self.leaving]

    def kept(self, row: ReplannedPartition) -> tuple[int, ...]:
        """The part of the planned list that can still be carried out, without anything that breaks the rack rule."""
        live = set(row.live)
        usable = set(self.receivers)
        kept = [b for b in row.start if (b not in self.leaving if b in live else b in usable)]
        if not self.rule.violates(map(self.racks.get, kept), max(0, self.wanted(row) - len(kept))):
            return tuple(kept)
        if self.strict:  # one copy a rack stays, the others are placed again
            first = {self.racks.get(b) or b: b for b in reversed(kept)}
            return tuple(b for b in kept if first[self.racks.get(b) or b] == b)
        if not self.regrouped:  # the plan was valid on the same racks
            return tuple(kept)
        allowed = [b for b in kept if b in live]
        for b in kept:
            if b not in live and self.rule_allows([*allowed, b], row.live):
                allowed.append(b)
        return tuple(b for b in kept if b in allowed)

    def rule_allows(self, new: Sequence[int], old: Sequence[int]) -> bool:
        """True when a set keeps the rack rule, or breaks it no worse than the set it replaces."""
        after, before = ([self.racks.get(b) for b in row] for row in (new, old))
        return self.rule.permits(after, before)

    def wanted(self, row: ReplannedPartition) -> int:
        """How many replicas the partition should have."""
        if row.move is not None and row.state is not MoveState.OVERTAKEN:
            return len(row.move.after)
        if row.state is MoveState.STILL:  # as the plan left it
            return len(row.start)
        return self.replication or len(row.start)

    def table(self, lists: Sequence[tuple[int, ...]], weights: Sequence[int], now: LoadsNow) -> SlotTable:
        """The arrays of these lists. What may move: what the plan's rules say, copies that are still to be made, and
        whatever is on a leaving broker.
        """
        givers = None if self.rules.givers is None else {*self.rules.givers, *self.leaving}
        table = make_table(
            lists,
            weights,
            self.racks,
            self.rule,
            receivers=self.receivers,
            givers=givers,
            pinned=sorted(self.immovable),
            smallest=self.rules.smallest_bytes,
            fixed=now.fixed,
            locality_scoped=self.rules.locality_scoped,
            topics=[row.key.topic for row in self.rows],
        )
        return table if givers is None else replace(table, movable=table.movable | self.pending(table))

    def pending(self, table: SlotTable) -> Bools:
        """Slots that cost nothing extra to place elsewhere: copies that the plan still makes or gives up, and those
        that must go anyway. O(partitions) and a loop over what has not ended.
        """
        import numpy as np

        found = np.zeros(len(table.home), dtype=bool)
        ids, homes, first = table.brokers, table.home.tolist(), table.first.tolist()
        for i, row in enumerate(self.rows):
            if i in self.immovable or (row.start == row.live and self.leaving.isdisjoint(row.live)):
                continue
            held = {*self.keepable(row)} & {*row.start}
            for slot in range(first[i], first[i + 1]):
                found[slot] = ids[homes[slot]] not in held
        return found

    def lists_of(self, table: SlotTable, at: Ints) -> list[tuple[int, ...]]:
        """Replica lists of an assignment."""
        return lists_of(table, at)


def places_of(plan: Plan, snapshot: ClusterSnapshot, situation: Situation, goal: PlanGoal) -> Places:
    """Apply the plan's rules to the brokers that are alive and open now."""
    rows = situation.rows
    if not goal.seen:  # racks and states of brokers were not to be looked at
        every = frozenset(b for row in rows for b in (*row.live, *row.start)) | {b.id for b in plan.brokers}
        alive, racks, usable = every, dict[int, str | None](), every
    else:
        alive, racks, usable = situation.alive, dict(situation.racks), pool_of(snapshot).open
    rules = plan.rules or PlacementRules(min_rack_ids=goal.min_rack_ids)
    targets = tuple(sorted(b.id for b in plan.brokers if b.id in alive))
    may = rules.receivers or tuple(b.id for b in plan.brokers)
    holding = {b for row in rows for b in (*row.live, *row.start)}
    if goal.targets_only:
        leaving = frozenset(holding - set(targets))
    elif goal.by_bytes:
        leaving = frozenset(holding - alive)
    else:
        leaving = goal.leaving
    pinned = set(rules.pinned)
    stranded = frozenset(i for i, row in enumerate(rows) if not row.under_way and row.stranded(alive))
    # What a budget left, and what has come since, would cost more than it allows.
    later = set(rules.later) | {row.key for row in rows if rules.later and row.state is MoveState.NEW}
    immovable = stranded | {i for i, row in enumerate(rows) if row.under_way or row.key in pinned or row.key in later}
    return Places(
        rows=rows,
        racks=racks,
        rule=GroupRule(
            goal.min_rack_ids,
            _spread_now(rules, [b for b in targets if b in usable], racks),
            TagRules(plan.constraints) if plan.constraints else None,
        ),
        targets=targets,
        receivers=tuple(sorted(b for b in may if b in usable and b not in leaving)),
        leaving=leaving,
        immovable=immovable,
        stranded=stranded,
        rules=replace(rules, later=tuple(sorted(later & {row.key for row in rows}))),
        replication=goal.replication,
        alive=alive,
        lost=frozenset(situation.lost),
        strict=goal.strict,
        regrouped=bool(situation.regrouped),
    )


def _spread_now(rules: PlacementRules, takers: Sequence[int], racks: Mapping[int, str | None]) -> tuple[str, ...]:
    """The racks of an even spread: those of the targets that take copies now."""
    names = tuple(sorted({r for b in takers if (r := racks.get(b))}))
    return (names or rules.spread_over) if rules.spread_over else ()


def rules_now(places: Places, goal: PlanGoal) -> PlacementRules:
    """The rules of the new plan: the old ones on today's brokers."""
    rules = places.rules
    under_way = tuple(row.key for row in places.rows if row.under_way and not row.foreign)
    later = tuple(sorted(set(rules.later) - set(under_way)))
    pinned = sorted({places.rows[i].key for i in places.immovable} - set(under_way) - set(later))
    givers = None if rules.givers is None else tuple(sorted({*rules.givers, *places.leaving}))
    return replace(
        rules,
        min_rack_ids=goal.min_rack_ids,
        spread_over=places.rule.spread_over,
        receivers=places.receivers,
        givers=givers,
        pinned=tuple(pinned),
        under_way=under_way,
        later=later,
    )
