"""Why a copy leaves, why it goes where it goes, and why not elsewhere: one reason a broker, checked in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.model import BrokerState
from kafkakit.topicmappr.decide.explain.facts import BrokerFacts


@dataclass(frozen=True, slots=True)
class Reason:
    """What is said of one broker; `kind` is a short name that scripts can rely on."""

    broker: int
    kind: str
    words: str


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


def why_it_leaves(case: PartitionFate, facts: BrokerFacts, broker: int) -> Reason:
    """Why `broker` loses its copy."""
    state = facts.states.get(broker)
    if case.drains(broker):
        dead = "" if state in (None, BrokerState.ALIVE, BrokerState.DRAINING) else "; it is not alive"
        return Reason(broker, "drained", f"the request empties this broker{dead}")
    if broker not in facts.targets:
        known = {None: "not alive, or not listed", BrokerState.ALIVE: "alive, but not listed"}
        known[BrokerState.DRAINING] = "an operation empties it"
        return Reason(broker, "no-target", f"it is not among the plan's brokers ({known.get(state, 'not alive')})")
    if facts.tags is not None and not facts.tags.may_hold(case.topic, broker):
        texts = facts.tags.faults(case.topic, (), (broker,))
        return Reason(broker, "constraint", f"closed to the topic by {' and '.join(texts)}")
    beside = _rack_mates(broker, case.old, facts)
    if beside and facts.rule.violates(map(facts.rack, case.old)):
        mates = " and ".join(map(str, beside))
        return Reason(
            broker, "rack-rule", f"its rack {facts.rack(broker)} also held {mates}, more than the rule allows"
        )
    if len(case.new) < len(case.old) and not case.adding:
        return Reason(broker, "fewer-replicas", f"the factor goes from {len(case.old)} to {len(case.new)}")
    held, limit = facts.held(broker, after=False), facts.limits.get(broker)
    if limit is not None and limit.ceiling is not None and held is not None and held > limit.ceiling:
        words = f"it held {facts.amount(held)}, {facts.amount(held - limit.ceiling)} above its ceiling"
        return Reason(broker, "over-ceiling", words)
    return Reason(broker, "balance", f"it gives load away: {_change(broker, facts)}")


def why_it_comes(case: PartitionFate, facts: BrokerFacts, broker: int) -> Reason:
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
    return Reason(broker, "comes", f"{cause}; {place}; {_change(broker, facts)}{want}")


def why_not(case: PartitionFate, facts: BrokerFacts, broker: int) -> Reason:
    """Why a target without a copy of this partition does not get one."""
    if broker not in facts.receivers:
        return Reason(broker, "no-receiver", "the plan's rules let it take no new copies")
    if broker in case.removing:
        return Reason(broker, "leaves", "it held a copy and gives it away")
    if not case.adding:
        return Reason(broker, "no-place-open", "no copy has to come: one here would be a copy more")
    if closed := _closed_by(case, facts, broker):
        return Reason(broker, "constraint", f"closed to this copy by {closed}")
    valid = [gone for gone in case.adding if _fits(case, facts, gone, broker)]
    if not valid:
        if facts.rule.spreads:
            place = "without a rack" if facts.rack(broker) is None else f"in rack {facts.rack(broker)}"
            return Reason(broker, "uneven", f"a copy {place} would leave the replicas unevenly spread over racks")
        mates = _rack_mates(broker, case.new, facts)
        held_by = " and ".join(map(str, mates)) or "others"
        return Reason(broker, "same-rack", f"same rack ({facts.rack(broker)}) as {held_by}")
    if facts.rules.locality_scoped and facts.rack(broker) not in {facts.rack(b) for b in case.removing}:
        return Reason(broker, "other-rack", "copies stay in their rack, and this broker is in another one")
    return _by_load(case, facts, broker, valid)


def _closed_by(case: PartitionFate, facts: BrokerFacts, broker: int) -> str:
    """The constraints by tags that keep the broker from standing in for any new copy; empty where it could."""
    if facts.tags is None:
        return ""
    ways = [
        facts.tags.faults(case.topic, case.old, [*(b for b in case.new if b != gone), broker]) for gone in case.adding
    ]
    return " and ".join(dict.fromkeys(text for way in ways for text in way)) if all(ways) else ""


def _fits(case: PartitionFate, facts: BrokerFacts, gone: int, broker: int) -> bool:
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


def _by_load(case: PartitionFate, facts: BrokerFacts, broker: int, instead: Sequence[int]) -> Reason:
    """Compare what the broker would end with against those that got the copies."""
    one = (case.size_bytes or 0) if facts.load == "bytes" else 1
    ends, limit = facts.held(broker, after=True), facts.limits.get(broker)
    if ends is not None and limit is not None and limit.ceiling is not None and ends + one > limit.ceiling:
        words = f"would pass its ceiling: {facts.amount(ends)} and this copy, at most {facts.amount(limit.ceiling)}"
        return Reason(broker, "over-ceiling", words)
    floors = [
        b
        for b in instead
        if (lim := facts.limits.get(b)) and lim.floor is not None and (end := facts.held(b, after=True)) is not None
        and end - one < lim.floor
    ]  # fmt: skip
    if len(floors) == len(instead):
        names = " and ".join(map(str, floors))
        return Reason(broker, "needed-elsewhere", f"{names} would fall below the floor without this copy")
    mine = facts.after[broker].replicas if broker in facts.after else 0
    theirs = min(facts.after[b].replicas if b in facts.after else 0 for b in instead)
    if not facts.limits and mine + 1 > theirs:
        words = f"equally good: it ends with {mine} replicas, {_names(instead)} with {theirs}"
        if mine >= theirs + 1:
            words = f"it ends with {mine} replicas already, {_names(instead)} with {theirs}: less even"
        return Reason(broker, "equally-good" if mine < theirs + 1 else "less-even", words)
    return Reason(broker, "equally-good", f"equally good for this partition; {_change(broker, facts)}")


def _names(brokers: Sequence[int]) -> str:
    return " and ".join(map(str, brokers))


def _rack_mates(broker: int, replicas: Sequence[int], facts: BrokerFacts) -> list[int]:
    rack = facts.rack(broker)
    return [b for b in replicas if b != broker and rack is not None and facts.rack(b) == rack]


def _change(broker: int, facts: BrokerFacts) -> str:
    before, after = facts.held(broker, after=False), facts.held(broker, after=True)
    if before is None or after is None:
        old, new = facts.before.get(broker), facts.after.get(broker)
        return f"replicas {old.replicas if old else 0} before, {new.replicas if new else 0} after"
    return f"{facts.amount(before)} before, {facts.amount(after)} after"
