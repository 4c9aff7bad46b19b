"""How far a plan is carried out today, what it wanted, and who may hold what now under its rules and limits.

Every partition is there with its list, its target, and what became of it. What the plan wanted is read back from its
own file: a band, a range of free bytes, even counts, or only places. Its rules, and its limits on what brokers hold and
lead, are applied to the brokers of today; the constraints are those of `rebalance`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from kafkakit.core.errors import InfeasibleError, InputError, UsageError
from kafkakit.core.model import ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.plan import BrokerLoad, Move, PlacementRules, Plan, ScopeEntry
from kafkakit.core.quantities import count_of, format_bytes, format_percent, parse_percent, parse_size
from kafkakit.core.selection import BrokerList, TopicSelection, parse_broker_list
from kafkakit.core.text import few_of
from kafkakit.placement.by_size.layout import LoadsNow, lists_of
from kafkakit.placement.by_size.lp_relaxation import PPM, shares
from kafkakit.placement.by_size.slots import SlotTable, counts_of, make_table
from kafkakit.placement.group_rule import SpreadRule, TagRules
from kafkakit.placement.leaders import NO_LEADER, leaders_within
from kafkakit.placement.minimal import substitute
from kafkakit.placement.openings import pool_of
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.rebalance_goal import (
    Exclusions,
    OutsideScopeLoad,
    load_outside_scope,
    with_count_limits,
    with_leader_limits,
)
from kafkakit.topicmappr.decide.request_fields import MOST_BAND, Ceilings, LoadGoal
from kafkakit.topicmappr.decide.requests import RebalanceRequest
from kafkakit.topicmappr.decide.scope import Scope

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


class ReplanState(StrEnum):
    """What became of a partition since the plan; the first three and `overtaken` are of planned moves."""

    DONE = "done"
    RUNNING = "running"
    WAITING = "waiting"
    OVERTAKEN = "overtaken"
    STILL = "still"
    CHANGED = "changed"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplannedPartition:
    """One partition that is there today.

    `live` are the brokers with a full copy, in the order a rollback would restore; `start` is the list that the
    plan leads to (the live one where the plan says nothing that still holds). `under_way` partitions are moving to
    `start` now, for the plan (`running`) or for another process. `hangs` is a planned move that runs towards a broker
    which is not alive: it cannot end, so it counts as waiting.
    """

    topic: Topic
    partition: Partition
    live: tuple[int, ...]
    start: tuple[int, ...]
    state: ReplanState
    move: Move | None = None
    under_way: bool = False
    hangs: bool = False

    @property
    def key(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic.name, self.partition.partition)

    @property
    def size(self) -> int | None:
        """The largest known copy."""
        return self.partition.known_bytes

    @property
    def foreign(self) -> bool:
        """True when another process is moving the partition: no plan of ours may touch it."""
        return self.under_way and self.state is not ReplanState.RUNNING

    def stranded(self, alive: frozenset[int]) -> bool:
        """True when no live broker has a copy in sync, so nothing can be copied from it."""
        sources = self.live if self.partition.isr is None else self.partition.isr
        return not any(b in alive for b in sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The plan's topics today, sorted by name and number; `gone` are planned moves without a partition.

    `vanished` counts partitions of the plan's scope that are gone, planned to move or not. `brokers` are the plan's
    targets that are alive, `lost` those that are not, `arrived` live brokers that the plan did not know.
    """

    rows: tuple[ReplannedPartition, ...]
    gone: tuple[Move, ...]
    vanished: int
    alive: frozenset[int]
    racks: Mapping[int, str | None]
    brokers: tuple[int, ...]
    lost: tuple[int, ...]
    arrived: tuple[int, ...]
    regrouped: tuple[tuple[int, str, str], ...]

    def having(self, *states: ReplanState) -> list[ReplannedPartition]:
        """The rows in one of these states."""
        return [row for row in self.rows if row.state in states]


def situation_of(plan: Plan, snapshot: ClusterSnapshot) -> Situation:
    """Hold a plan against the cluster; what the plan looked at by map alone stays the scope. O(replicas)."""
    moves = {m.key: m for m in plan.moves}
    scope = {TopicPartition(e.topic, e.partition): e for e in plan.scope}
    ids = {e.topic: e.topic_id for e in plan.scope}
    targets = {TopicPartition(r.topic, r.partition): r.target for r in snapshot.reassignments}
    whole = "map-string" not in plan.request
    alive = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    rows = []
    for topic in sorted(snapshot.topics, key=lambda t: t.name):
        if topic.name not in ids:
            continue
        recreated = bool(topic.topic_id and ids[topic.name] and topic.topic_id != ids[topic.name])
        for p in sorted(topic.partitions, key=lambda p: p.partition):
            key = TopicPartition(topic.name, p.partition)
            if key in scope or whole:
                entry = None if recreated else scope.pop(key, None)
                move = None if recreated else moves.pop(key, None)
                rows.append(_row(topic, p, entry, move, targets.get(key), alive))
    racks = {b.id: b.group for b in snapshot.brokers}
    known = {b.id for b in plan.brokers} | {b for e in plan.scope for b in e.replicas}
    known |= {load.broker for load in (*plan.before.brokers, *plan.after.brokers)}
    return Situation(
        rows=tuple(rows),
        gone=tuple(moves.values()),
        vanished=len(scope),
        alive=alive,
        racks=racks,
        brokers=tuple(sorted(b.id for b in plan.brokers if b.id in alive)),
        lost=tuple(sorted(b.id for b in plan.brokers if b.id not in alive)),
        arrived=tuple(sorted(alive - known)),
        regrouped=tuple(
            (b.id, b.rack or "-", racks.get(b.id) or "-")
            for b in sorted(plan.brokers, key=lambda b: b.id)
            if b.id in alive and (b.rack or None) != racks.get(b.id)
        ),
    )


def _row(
    topic: Topic,
    p: Partition,
    entry: ScopeEntry | None,
    move: Move | None,
    target: tuple[int, ...] | None,
    alive: frozenset[int],
) -> ReplannedPartition:
    if target is not None or p.adding or p.removing:
        return _moving_row(topic, p, move, target or tuple(b for b in p.replicas if b not in p.removing), alive)
    live = p.replicas
    if move is None:
        state = (
            ReplanState.NEW if entry is None else ReplanState.STILL if live == entry.replicas else ReplanState.CHANGED
        )
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=state)
    if live == move.after:
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=ReplanState.DONE, move=move)
    if live == move.before:
        return ReplannedPartition(
            topic=topic, partition=p, live=live, start=move.after, state=ReplanState.WAITING, move=move
        )
    if set(live) == set(move.after) and move.adding:  # copied, and then put in another order
        return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=ReplanState.DONE, move=move)
    if set(live) == set(move.before) and set(live) != set(move.after):  # the copies are still to be made
        start = substitute(live, set(move.after), move.adding)
        return ReplannedPartition(
            topic=topic, partition=p, live=live, start=start, state=ReplanState.WAITING, move=move
        )
    return ReplannedPartition(topic=topic, partition=p, live=live, start=live, state=ReplanState.OVERTAKEN, move=move)


def _moving_row(
    topic: Topic, p: Partition, move: Move | None, target: tuple[int, ...], alive: frozenset[int]
) -> ReplannedPartition:
    full = tuple(b for b in p.replicas if b not in p.adding)
    live = move.before if move is not None and set(move.before) == set(full) and move.before != target else full
    if move is not None and target == move.after:
        hangs = any(b not in alive for b in target if b not in live)
        state = ReplanState.WAITING if hangs else ReplanState.RUNNING
        return ReplannedPartition(
            topic=topic, partition=p, live=live, start=target, state=state, move=move,
            under_way=not hangs and live != target, hangs=hangs,
        )  # fmt: skip
    state = ReplanState.CHANGED if move is None else ReplanState.OVERTAKEN
    return ReplannedPartition(topic=topic, partition=p, live=live, start=target, state=state, move=move, under_way=True)


def drift_of(plan: Plan, snapshot: ClusterSnapshot, situation: Situation) -> tuple[str, ...]:
    """One sentence for each kind of change, the gravest first; empty when nothing has changed but for the moves."""
    return tuple(_drift(plan, snapshot, situation))


def _drift(plan: Plan, snapshot: ClusterSnapshot, situation: Situation) -> Iterator[str]:
    if situation.lost:
        yield f"of the plan's brokers {few_of(situation.lost)} are not alive"
    for broker, old, new in situation.regrouped:
        yield f"broker {broker} was in rack {old} and is in rack {new}"
    if situation.gone or situation.vanished:
        gone = count_of(situation.vanished, "partition")
        yield f"{gone} of the plan are gone; {len(situation.gone)} of them were to be moved"
    hanging = [row for row in situation.rows if row.hangs]
    if hanging:
        yield f"{_names_text(hanging)}: the move runs towards a broker that is not alive, and cannot end"
    overtaken = situation.having(ReplanState.OVERTAKEN)
    if overtaken:
        yield f"{_names_text(overtaken)}: changed by another process, though the plan was to move them"
    changed = situation.having(ReplanState.CHANGED)
    if changed:
        yield f"{_names_text(changed)}: changed by another process; the plan was to leave them"
    added = situation.having(ReplanState.NEW)
    if added:
        yield f"{_names_text(added)}: new since the plan"
    yield from _growth(situation)


def _growth(situation: Situation) -> Iterator[str]:
    pending = [row for row in situation.having(ReplanState.WAITING, ReplanState.RUNNING) if row.move is not None]
    then = [row.move.size_bytes for row in pending if row.move is not None]
    now = [row.size for row in pending]
    pairs = [(a, b) for a, b in zip(then, now, strict=True) if a is not None and b is not None]
    if len(pairs) < len(pending) or not pairs:
        return
    grown = sum(1 for a, b in pairs if a != b)
    if grown:
        before, after = sum(a for a, _ in pairs), sum(b for _, b in pairs)
        yield (
            f"{grown} of the {len(pairs)} partitions still to be moved have another size: one copy of each was "
            f"{format_bytes(before)} together and is {format_bytes(after)}"
        )


def _names_text(rows: list[ReplannedPartition]) -> str:
    return few_of(row.key for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The rows, and who may do what: `receivers` take copies, `leaving` brokers must give theirs up.

    `targets` are the plan's brokers that are alive; `pinned` are indices of rows that the plan's rules keep in
    place, `immovable` those and the ones that cannot move: under way, or without a live copy in sync. With `strict` no
    set may break the rack rule, not even one that does already. `regrouped` says that racks have changed.
    """

    rows: Sequence[ReplannedPartition]
    racks: Mapping[int, str | None]
    rule: SpreadRule
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
        usable -= self.rule.closed.of(row.key)
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
        if row.move is not None and row.state is not ReplanState.OVERTAKEN:
            return len(row.move.after)
        if row.state is ReplanState.STILL:  # as the plan left it
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
            keys=[row.key for row in self.rows],
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


class GoalKind(StrEnum):
    """What limits the goal sets: shares of used bytes, a range of free bytes, a range of counts, or none."""

    BAND = "band"
    FREE_RANGE = "free-range"
    COUNTS = "counts"
    PLACES = "places"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGoal:
    """The goal: `max_deviation` in millionths of a share, bytes, or replicas; 0 for `places`.

    `leaving` brokers end empty, however far the plan is; with `targets_only` every broker that is no target does.
    `replication` is the factor that was asked for (0: as it is). `max_use` and `head_room` limit disks.
    Racks and states of brokers are `seen` or not looked at; `strict` says that every set must keep the rack rule.
    `limits` is a request with the plan's limits on counts and leaders (None: it has none).
    """

    kind: GoalKind
    max_deviation: int
    leaving: frozenset[int] = frozenset()
    targets_only: bool = False
    replication: int = 0
    min_rack_ids: int = 0
    max_use: Fraction = Fraction(9, 10)
    head_room: int = 0
    seen: bool = True
    strict: bool = False
    limits: RebalanceRequest | None = None

    @property
    def by_bytes(self) -> bool:
        """True when sizes are needed."""
        return self.kind in (GoalKind.BAND, GoalKind.FREE_RANGE)

    def shown(self, max_deviation: int) -> str:
        """A deviation in words."""
        if self.kind is GoalKind.BAND:
            return f"a band of {max_deviation / PPM * 100:.4g}%"
        if self.kind is GoalKind.FREE_RANGE:
            return f"a range of free bytes of {format_bytes(max_deviation)}"
        return f"a range of {max_deviation} in replica counts"

    @property
    def words(self) -> str:
        """The goal in words."""
        if self.kind is GoalKind.PLACES:
            return "every replica on a broker that may hold it"
        return self.shown(self.max_deviation)


def places_of(plan: Plan, snapshot: ClusterSnapshot, situation: Situation, goal: PlanGoal) -> Places:
    """Apply the plan's rules to the brokers that are alive and open now."""
    rows = situation.rows
    if not goal.seen:  # racks and states of brokers were not to be looked at
        every = frozenset(b for row in rows for b in (*row.live, *row.start)) | {b.id for b in plan.brokers}
        alive, racks, usable = every, dict[int, str | None](), every - frozenset(snapshot.cordoned)
    else:
        alive, racks, usable = situation.alive, dict(situation.racks), frozenset(pool_of(snapshot).receiving())
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
    later = set(rules.later) | {row.key for row in rows if rules.later and row.state is ReplanState.NEW}
    immovable = stranded | {i for i, row in enumerate(rows) if row.under_way or row.key in pinned or row.key in later}
    return Places(
        rows=rows,
        racks=racks,
        rule=SpreadRule(
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


_NOT_REPLANNED = ("topicmappr leaders", "topicmappr rebalance-dirs", "topicmappr repair", "reassign apply")


def goal_of(plan: Plan, slack: Fraction) -> PlanGoal:
    """Read the goal from the plan's flags and from what it reached, whichever is looser, widened by `slack`.

    Raises `UsageError` for plans that copy nothing between brokers, and `InputError` for flags that make no sense.
    """
    words = plan.request
    command = words.get("command", "")
    if command in _NOT_REPLANNED or words.get("log-dir"):
        raise UsageError(f"a plan of {command} is not replanned: making it again costs as little", hint="plan it again")
    try:
        kind, max_deviation = _shape(plan)
        return PlanGoal(
            kind=kind,
            max_deviation=int(max_deviation * (1 + slack)),
            leaving=frozenset(parse_broker_list(words["brokers"]).ids)
            if command == "topicmappr drain"
            else frozenset(),
            targets_only=command == "topicmappr rebuild",
            replication=_number(words.get("replication", "0")),
            min_rack_ids=plan.rules.min_rack_ids if plan.rules else _number(words.get("min-rack-ids", "0")),
            max_use=parse_percent(words.get("max-disk-use", "90%"), "max-disk-use"),
            head_room=parse_size(words.get("head-room", "0"), "head-room"),
            seen=words.get("use-meta") != "false",
            strict=words.get("force-rebuild") == "true",
            limits=_limits(words),
        )
    except (UsageError, KeyError) as error:
        raise InputError("plan", f"its request is invalid: {error}", hint="make a new plan") from None


_LIMITS = ("count-band", "max-replicas", "max-leaders", "max-topic-leaders")


def _limits(words: Mapping[str, str]) -> RebalanceRequest | None:
    if not any(name in words for name in _LIMITS):
        return None
    band, *most = (words.get(name) for name in _LIMITS)
    replicas, leaders, of_topic = (None if text is None else _number(text) for text in most)
    return RebalanceRequest(
        brokers=BrokerList(ids=()),
        topics=(".*",),
        goal=LoadGoal(count_band=None if band is None else parse_percent(band, "count-band")),
        ceilings=Ceilings(max_replicas=replicas, max_leaders=leaders, max_topic_leaders=of_topic),
        words={},
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"{text[:40]!r} is not a number")
    return int(text)


def _shape(plan: Plan) -> tuple[GoalKind, int]:
    words, proof = plan.request, plan.certificate.proof
    targets = {b.id for b in plan.brokers}
    loads = [load for load in plan.after.brokers if load.broker in targets]
    if proof is not None and proof.load == "bytes" and proof.limits:
        if "band" in words:
            requested = int(parse_percent(words["band"], "band", most=MOST_BAND) * PPM)
            return GoalKind.BAND, max(requested, _band(loads))
        free = [load.free_bytes for load in loads if load.free_bytes is not None]
        reached = max(free, default=0) - min(free, default=0)
        return GoalKind.FREE_RANGE, max(
            parse_size(words["free-range"], "free-range") if "free-range" in words else 0, reached
        )
    counted = proof is not None and proof.load == "replicas" and bool(proof.limits)
    if words.get("force-rebuild") == "true" or counted:
        return GoalKind.COUNTS, plan.after.replicas_max - plan.after.replicas_min
    return GoalKind.PLACES, 0


def _band(loads: list[BrokerLoad]) -> int:
    """How far the plan leaves a broker from its share, in millionths rounded up; 0 where that is not known."""
    used = [load.used_bytes for load in loads if load.used_bytes is not None]
    sizes = [load.capacity_bytes or 0 for load in loads]
    if len(used) != len(loads) or not used:
        return 0
    if not all(sizes):
        sizes = [1] * len(used)
    share = shares(sum(used), sizes, [True] * len(used)).tolist()
    away = [-(-abs(u - s) * PPM // s) for u, s in zip(used, share, strict=True) if s]
    return max(away, default=0)


Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """The limits that `request` names; `beside` are the topics that the plan does not look at.

    Rows in `staying` keep their leader: those that cannot move, and those without a replica on a target.
    """

    places: Places
    request: RebalanceRequest
    beside: OutsideScopeLoad
    out: Exclusions
    staying: frozenset[int]

    def on(self, table: SlotTable, lists: Lists) -> SlotTable:
        """The table of these lists with the limits."""
        partitions = [PlannedPartition(r.key, new, len(new)) for r, new in zip(self.places.rows, lists, strict=True)]
        targets = self.places.targets
        table = with_count_limits(table, self.request, targets, self.out, self.beside)
        still = [partitions[i] for i in self.staying]
        return with_leader_limits(table, self.request.ceilings, targets, self.beside, partitions, still)

    def kept(self, lists: Lists) -> bool:
        """True when these lists keep the limits, each led by its first."""
        places = self.places
        plain = make_table(lists, [1] * len(lists), {}, SpreadRule(), receivers=(*places.targets, *places.receivers))
        table = self.on(plain, lists)
        if table.counts is not None and table.counts.outside(counts_of(table, table.home)):
            return False
        limits, at = table.leaders, {b: i for i, b in enumerate(table.brokers)}
        if limits is None:
            return True
        firsts = [
            (topic, at[row[0]])
            for row, topic, fixed in zip(lists, limits.topic.tolist(), limits.fixed.tolist(), strict=True)
            if not fixed and row[0] in places.targets
        ]
        led = Counter(i for _, i in firsts)
        of_topic = Counter(firsts).items() if limits.of_topic is not None else ()
        return all(n <= limits.most[i] for i, n in led.items()) and all(n <= limits.topic_most(*k) for k, n in of_topic)

    def led(self, table: SlotTable, lists: Lists) -> list[tuple[int, ...]]:
        """The lists with leaders inside the limits of the table, as few of the planned ones changed as can be."""
        if table.leaders is None:
            return list(lists)
        found = leaders_within(lists, [row.start for row in self.places.rows], table.brokers, table.leaders).tolist()
        return [
            row if i == NO_LEADER or not row else (table.brokers[i], *(b for b in row if b != table.brokers[i]))
            for i, row in zip(found, lists, strict=True)
        ]

    @property
    def words(self) -> str:
        """The limits, as options."""
        band = self.request.goal.count_band
        counts = [] if band is None else [f"--count-band {format_percent(band)}"]
        return " and ".join(filter(None, (*counts, self.request.ceilings.words)))

    def require(self, lists: Lists) -> None:
        """Raise `InfeasibleError` where the lists do not keep the limits."""
        if not self.kept(lists):
            raise InfeasibleError(
                f"no way to keep {self.words} was found from the plan's present state; it is not proven impossible",
                hint="make a new plan with the same options",
            )


def limits_of(request: RebalanceRequest | None, snapshot: ClusterSnapshot, places: Places) -> PlanLimits | None:
    """The limits on today's brokers; None for a plan without any."""
    if request is None:
        return None
    targets, rows = frozenset(places.targets), places.rows
    now = tuple(PlannedPartition(row.key, row.partition.replicas, len(row.partition.replicas)) for row in rows)
    givers = targets if places.rules.givers is None else frozenset(places.rules.givers)
    return PlanLimits(
        places,
        request,
        load_outside_scope(snapshot, Scope(now, {}, TopicSelection((), ())), request),
        Exclusions(receivers=targets.difference(places.receivers), givers=targets - givers),
        frozenset(
            i for i, row in enumerate(rows) if row.under_way or i in places.stranded or targets.isdisjoint(row.start)
        ),
    )
