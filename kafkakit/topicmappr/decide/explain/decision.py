"""`topicmappr explain` as a pure function: the fate of one partition of a plan, and the reasons."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Move, Plan
from kafkakit.core.quantities import format_bytes
from kafkakit.topicmappr.decide.explain.facts import BrokerFacts, facts_of
from kafkakit.topicmappr.decide.explain.reasons import PartitionFate, Reason, why_it_comes, why_it_leaves, why_not

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def find_partition(plan: Plan, text: str) -> TopicPartition:
    """The partition of the plan that `text` names; raises `UsageError` with close names when there is none."""
    numbers: dict[str, list[int]] = {}
    for entry in plan.scope:
        numbers.setdefault(entry.topic, []).append(entry.partition)
    readings = [split for mark in "/-" if (split := _split(text, mark))]
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
    hint = f"did you mean {some(close)}?" if close else f"the plan's topics are {some(sorted(numbers))}"
    raise UsageError(f"topic {readings[0][0]!r:.80} is not in this plan", hint=hint)


def _split(text: str, mark: str) -> tuple[str, int] | None:
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
    return some(str(low) if low == high else f"{low}-{high}" for low, high in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
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
    leaving: tuple[Reason, ...]
    coming: tuple[Reason, ...]
    others: tuple[Reason, ...]
    warnings: tuple[str, ...]
    now: tuple[int, ...] | None = None


def explain(plan: Plan, key: TopicPartition, snapshot: ClusterSnapshot | None = None) -> Explanation:
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
        Reason(b, "pinned", "the partition is pinned")
        if pinned
        else Reason(b, "later", "the partition waits for another run")
        if later
        else why_not(case, facts, b)
        for b in lacking
    )
    names = (f"{key.topic} p{key.partition}:", f"{key}:", f"{key},")
    return Explanation(
        key=key,
        before=entry.replicas,
        after=new,
        size_bytes=size,
        outcome=_outcome(case),
        whole=(_LATER,) if later else (*_whole(case, facts, move, pinned), *_dir_moves(plan, key)),
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


def _outcome(case: PartitionFate) -> str:
    if case.new == case.old:
        return "unchanged"
    return "moved" if case.adding or case.removing else "reordered"


def _whole(case: PartitionFate, facts: BrokerFacts, move: Move | None, pinned: bool) -> list[str]:
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


def _why_unchanged(case: PartitionFate, facts: BrokerFacts, pinned: bool) -> str:
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
