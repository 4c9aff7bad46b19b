"""`topicmappr explain` as a pure function: the fate of one partition of a plan, and the reasons.

Reasons say why a copy leaves, why it goes where it goes, and why not elsewhere: one reason a broker, checked in order.
They rest on what the plan says of its brokers: racks, loads before and after, limits, states.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kafkakit.core.errors import UsageError
from kafkakit.core.model import BrokerState, ClusterSnapshot, TopicPartition
from kafkakit.core.plan import BrokerLimit, BrokerLoad, Move, PlacementRules, Plan
from kafkakit.core.quantities import format_bytes
from kafkakit.core.text import few_of
from kafkakit.placement.group_rule import SpreadRule, TagRules

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def find_partition(plan: Plan, text: str) -> TopicPartition:
    """The partition of the plan that `text` names; raises `UsageError` with close names when there is none."""
    numbers: dict[str, list[int]] = {}
    for entry in plan.scope:
        numbers.setdefault(entry.topic, []).append(entry.partition)
    readings = [split for mark in "/-" if (split := _split_name(text, mark))]
    for topic, number in readings:
        if number in numbers.get(topic, ()):
            return TopicPartition(topic, number)
    for topic, number in readings:
        if topic in numbers:
            raise UsageError(
                f"partition {number} of {topic} is not in this plan",
                hint=f"its partitions in the plan are {_ranges(numbers[topic])}",
            )
    if not readings and text not in numbers:
        raise UsageError(f"{text!r:.80} is not a partition", hint="write it like orders/3 or orders-3")
    if text in numbers:
        raise UsageError(f"{text} is a topic", hint=f"name a partition of it, such as {text}/{min(numbers[text])}")
    close = get_close_matches(readings[0][0], sorted(numbers), n=3, cutoff=0.5)
    hint = f"did you mean {few_of(close)}?" if close else f"the plan's topics are {few_of(sorted(numbers))}"
    raise UsageError(f"topic {readings[0][0]!r:.80} is not in this plan", hint=hint)


def _split_name(text: str, mark: str) -> tuple[str, int] | None:
    topic, found, number = text.rpartition(mark)
    return (topic, int(number)) if found and topic and _NUMBER.fullmatch(number) else None


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as ranges: `0-7, 9`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return few_of(str(low) if low == high else f"{low}-{high}" for low, high in parts)


@dataclass(frozen=True, slots=True)
class BrokerReason:
    """What is said of one broker; `kind` is a short name that scripts can rely on."""

    broker: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """A partition's list before and after, and one reason for every broker that loses, gets or lacks a copy.

    `whole` are sentences about the partition as a whole, `warnings` the plan's own that name it. `now` is the
    list that a snapshot shows, where it is another one than the plan was made from.
    """

    key: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None
    outcome: str
    whole: tuple[str, ...]
    leaving: tuple[BrokerReason, ...]
    coming: tuple[BrokerReason, ...]
    others: tuple[BrokerReason, ...]
    warnings: tuple[str, ...]
    now: tuple[int, ...] | None = None


def explain(plan: Plan, key: TopicPartition, snapshot: ClusterSnapshot | None = None) -> PartitionExplanation:
    """Explain one partition that is in the plan's scope, from the plan alone; a snapshot adds states and racks."""
    entry = next(e for e in plan.scope if (e.topic, e.partition) == key)
    move = next((m for m in plan.moves if m.key == key), None)
    new = move.after if move else entry.replicas
    size = move.size_bytes if move else None
    case = PartitionFate(old=entry.replicas, new=new, size_bytes=size, request=plan.request, topic=key.topic)
    facts = facts_of(plan, key, snapshot)
    pinned = _is_pinned(plan, key, size)
    later = plan.rules is not None and key in plan.rules.later
    leaving = tuple(why_it_leaves(case, facts, b) for b in case.removing)
    coming = tuple(why_it_comes(case, facts, b) for b in case.adding)
    lacking = sorted(facts.targets - {*new, *case.removing})
    others = tuple(
        BrokerReason(b, "pinned", "the partition is pinned")
        if pinned
        else BrokerReason(b, "later", "the partition waits for another run")
        if later
        else why_no_copy(case, facts, b)
        for b in lacking
    )
    names = (f"{key.topic} p{key.partition}:", f"{key}:", f"{key},")
    return PartitionExplanation(
        key=key,
        before=entry.replicas,
        after=new,
        size_bytes=size,
        outcome=_outcome(case),
        whole=(_LATER,) if later else (*_set_sentences(case, facts, move, pinned), *_dir_moves(plan, key)),
        leaving=leaving,
        coming=coming,
        others=others,
        warnings=tuple(w for w in plan.warnings if any(name in w for name in names)),
        now=facts.now if facts.now != entry.replicas else None,
    )


_LATER = "the budget of this plan did not cover it: the same command continues with it in another run"


def _is_pinned(plan: Plan, key: TopicPartition, size: int | None) -> bool:
    rules = plan.rules
    return rules is not None and (key in rules.pinned or (size is not None and size < rules.smallest_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFate:
    """The partition in question, with the plan's request."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    size_bytes: int | None
    request: Mapping[str, str]
    topic: str = ""

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.new if b not in self.old)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(b for b in self.old if b not in self.new)

    def drains(self, broker: int) -> bool:
        """True when the request is to empty this broker."""
        listed = self.request.get("brokers", "").replace(" ", "").split(",")
        return self.request.get("command") == "topicmappr drain" and str(broker) in listed


def _outcome(case: PartitionFate) -> str:
    if case.new == case.old:
        return "unchanged"
    return "moved" if case.adding or case.removing else "reordered"


@dataclass(frozen=True, slots=True)
class PlanBrokers:
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
    def rule(self) -> SpreadRule:
        """The plan's rack rule."""
        return SpreadRule(self.rules.min_rack_ids, self.rules.spread_over, self.tags)

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


def _set_sentences(case: PartitionFate, facts: PlanBrokers, move: Move | None, pinned: bool) -> list[str]:
    """Sentences about the set: why it stays, who leads, which log dirs were chosen."""
    lines = []
    if case.new == case.old:
        lines.append(_why_unchanged(case, facts, pinned))
    elif not case.adding and not case.removing:
        lines.append("no copy moves, only the order of the list changes")
    if case.old and case.new and case.old[0] != case.new[0]:
        old, new = case.old[0], case.new[0]
        cause = "whose copy leaves" if old in case.removing else "to spread leaders"
        loads = ""
        if old in facts.after and new in facts.after:
            loads = f" (they lead {facts.after[old].leaders} and {facts.after[new].leaders} partitions after)"
        lines.append(f"the preferred leadership passes from {old}, {cause}, to {new}{loads}")
    if move is not None and move.dirs:
        dirs = ", ".join(f"{broker}: {path}" for broker, path in sorted(move.dirs.items()))
        lines.append(f"log dirs of the new copies: {dirs}")
    return lines


def _dir_moves(plan: Plan, key: TopicPartition) -> list[str]:
    return [
        f"on broker {move.broker} its copy changes its log dir, from {move.source_dir} to {move.target_dir}, "
        "to level the dirs inside the broker"
        for move in plan.dir_moves
        if (move.topic, move.partition) == key
    ]


def _why_unchanged(case: PartitionFate, facts: PlanBrokers, pinned: bool) -> str:
    if pinned:
        return "the partition is pinned: it keeps its brokers"
    outside = [b for b in case.old if b not in facts.targets]
    if outside:
        return f"it stays although {', '.join(map(str, outside))} are not among the plan's brokers (see the warnings)"
    smallest = facts.rules.smallest_bytes
    if smallest and case.size_bytes is None:
        return f"every copy is on a target broker; partitions below {format_bytes(smallest)} keep their brokers"
    if facts.rule.violates(map(facts.rack, case.old)):
        return "it stays although it breaks the rack rule: nothing had to leave, or it cannot be repaired"
    return "every copy is on a target broker, the rack rule is kept, and the plan needs no copy of it elsewhere"


def facts_of(plan: Plan, key: TopicPartition, snapshot: ClusterSnapshot | None) -> PlanBrokers:
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
    return PlanBrokers(
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


def why_it_leaves(case: PartitionFate, facts: PlanBrokers, broker: int) -> BrokerReason:
    """Why `broker` loses its copy."""
    state = facts.states.get(broker)
    if case.drains(broker):
        dead = "" if state in (None, BrokerState.ALIVE, BrokerState.DRAINING) else "; it is not alive"
        return BrokerReason(broker, "drained", f"the request empties this broker{dead}")
    if broker not in facts.targets:
        known = {None: "not alive, or not listed", BrokerState.ALIVE: "alive, but not listed"}
        known[BrokerState.DRAINING] = "an operation empties it"
        return BrokerReason(
            broker, "no-target", f"it is not among the plan's brokers ({known.get(state, 'not alive')})"
        )
    if facts.tags is not None and not facts.tags.may_hold(case.topic, broker):
        texts = facts.tags.faults(case.topic, (), (broker,))
        return BrokerReason(broker, "constraint", f"closed to the topic by {' and '.join(texts)}")
    beside = _rack_mates(broker, case.old, facts)
    if beside and facts.rule.violates(map(facts.rack, case.old)):
        mates = " and ".join(map(str, beside))
        return BrokerReason(
            broker, "rack-rule", f"its rack {facts.rack(broker)} also held {mates}, more than the rule allows"
        )
    if len(case.new) < len(case.old) and not case.adding:
        return BrokerReason(broker, "fewer-replicas", f"the factor goes from {len(case.old)} to {len(case.new)}")
    held, limit = facts.held(broker, after=False), facts.limits.get(broker)
    if limit is not None and limit.ceiling is not None and held is not None and held > limit.ceiling:
        words = f"it held {facts.amount(held)}, {facts.amount(held - limit.ceiling)} above its ceiling"
        return BrokerReason(broker, "over-ceiling", words)
    return BrokerReason(broker, "balance", f"it gives load away: {_change(broker, facts)}")


def why_it_comes(case: PartitionFate, facts: PlanBrokers, broker: int) -> BrokerReason:
    """Why a copy had to come, and what speaks for `broker`."""
    fewer = len(case.removing)
    grows = len(case.new) - len(case.old)
    cause = f"takes over from {' and '.join(map(str, case.removing))}" if fewer else f"the factor grows by {grows}"
    rack = facts.rack(broker)
    mates = _rack_mates(broker, case.new, facts)
    place = "it has no rack" if rack is None else f"its rack {rack} holds no other copy"
    if mates:
        place = f"its rack {rack} also holds {' and '.join(map(str, mates))}, as the rule allows"
    limit, held = facts.limits.get(broker), facts.held(broker, after=False)
    want = ""
    if limit is not None and limit.floor is not None and held is not None and held < limit.floor:
        want = f"; it was {facts.amount(limit.floor - held)} below its floor"
    return BrokerReason(broker, "comes", f"{cause}; {place}; {_change(broker, facts)}{want}")


def why_no_copy(case: PartitionFate, facts: PlanBrokers, broker: int) -> BrokerReason:
    """Why a target without a copy of this partition does not get one."""
    if broker not in facts.receivers:
        return BrokerReason(broker, "no-receiver", "the plan's rules let it take no new copies")
    if broker in case.removing:
        return BrokerReason(broker, "leaves", "it held a copy and gives it away")
    if not case.adding:
        return BrokerReason(broker, "no-place-open", "no copy has to come: one here would be a copy more")
    if closed := _closed_by(case, facts, broker):
        return BrokerReason(broker, "constraint", f"closed to this copy by {closed}")
    valid = [gone for gone in case.adding if _fits(case, facts, gone, broker)]
    if not valid:
        if facts.rule.spreads:
            place = "without a rack" if facts.rack(broker) is None else f"in rack {facts.rack(broker)}"
            return BrokerReason(broker, "uneven", f"a copy {place} would leave the replicas unevenly spread over racks")
        mates = _rack_mates(broker, case.new, facts)
        held_by = " and ".join(map(str, mates)) or "others"
        return BrokerReason(broker, "same-rack", f"same rack ({facts.rack(broker)}) as {held_by}")
    if facts.rules.locality_scoped and facts.rack(broker) not in {facts.rack(b) for b in case.removing}:
        return BrokerReason(broker, "other-rack", "copies stay in their rack, and this broker is in another one")
    return _by_load(case, facts, broker, valid)


def _closed_by(case: PartitionFate, facts: PlanBrokers, broker: int) -> str:
    """The constraints by tags that keep the broker from standing in for any new copy; empty where it could."""
    if facts.tags is None:
        return ""
    ways = [
        facts.tags.faults(case.topic, case.old, [*(b for b in case.new if b != gone), broker]) for gone in case.adding
    ]
    return " and ".join(dict.fromkeys(text for way in ways for text in way)) if all(ways) else ""


def _fits(case: PartitionFate, facts: PlanBrokers, gone: int, broker: int) -> bool:
    """True when `broker` could stand in for `gone` without a rack newly repeated."""
    rest = [b for b in case.new if b != gone]
    mates = len(_rack_mates(broker, rest, facts))
    rule = facts.rule
    if rule.spreads:
        old, new = ([facts.rack(b) for b in row] for row in (case.old, [*rest, broker]))
        return not rule.violates(new) or (rule.violates(old) and not rule.worsens(old, new))
    if not mates or not rule.violates(map(facts.rack, [*rest, broker])):
        return True
    return rule.violates(map(facts.rack, rest)) and mates <= len(_rack_mates(gone, rest, facts))


def _by_load(case: PartitionFate, facts: PlanBrokers, broker: int, instead: Sequence[int]) -> BrokerReason:
    """Compare what the broker would end with against those that got the copies."""
    one = (case.size_bytes or 0) if facts.load == "bytes" else 1
    ends, limit = facts.held(broker, after=True), facts.limits.get(broker)
    if ends is not None and limit is not None and limit.ceiling is not None and ends + one > limit.ceiling:
        words = f"would pass its ceiling: {facts.amount(ends)} and this copy, at most {facts.amount(limit.ceiling)}"
        return BrokerReason(broker, "over-ceiling", words)
    floors = [
        b
        for b in instead
        if (lim := facts.limits.get(b)) and lim.floor is not None and (end := facts.held(b, after=True)) is not None
        and end - one < lim.floor
    ]  # fmt: skip
    if len(floors) == len(instead):
        names = " and ".join(map(str, floors))
        return BrokerReason(broker, "needed-elsewhere", f"{names} would fall below the floor without this copy")
    mine = facts.after[broker].replicas if broker in facts.after else 0
    theirs = min(facts.after[b].replicas if b in facts.after else 0 for b in instead)
    if not facts.limits and mine + 1 > theirs:
        words = f"equally good: it ends with {mine} replicas, {_names(instead)} with {theirs}"
        if mine >= theirs + 1:
            words = f"it ends with {mine} replicas already, {_names(instead)} with {theirs}: less even"
        return BrokerReason(broker, "equally-good" if mine < theirs + 1 else "less-even", words)
    return BrokerReason(broker, "equally-good", f"equally good for this partition; {_change(broker, facts)}")


def _names(brokers: Sequence[int]) -> str:
    return " and ".join(map(str, brokers))


def _rack_mates(broker: int, replicas: Sequence[int], facts: PlanBrokers) -> list[int]:
    rack = facts.rack(broker)
    return [b for b in replicas if b != broker and rack is not None and facts.rack(b) == rack]


def _change(broker: int, facts: PlanBrokers) -> str:
    before, after = facts.held(broker, after=False), facts.held(broker, after=True)
    if before is None or after is None:
        old, new = facts.before.get(broker), facts.after.get(broker)
        return f"replicas {old.replicas if old else 0} before, {new.replicas if new else 0} after"
    return f"{facts.amount(before)} before, {facts.amount(after)} after"
