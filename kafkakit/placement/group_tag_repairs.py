"""What sets need so that they keep the constraints by tags and the rule of groups: who leaves, how many at least."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from kafkakit.core.certificate import TagConstraint
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import repeats
from kafkakit.placement.group_steps import TagSteps


@dataclass(frozen=True, slots=True)
class TagRepair:
    """The replicas that stay; no plan repairs the set with fewer than `least` new copies."""

    kept: tuple[int, ...]
    least: int


_SEARCHED = 10  # replicas of a set up to which all choices of those that stay are looked at


def tag_repair(steps: TagSteps, index: int, replicas: Sequence[int]) -> TagRepair | None:
    """What the set of partition `index` needs; None where it keeps every constraint and the rule of groups.

    First those leave that are on brokers closed to the topic, then what is beyond the share of a value, then repeats
    of a group, each from the end of the list. Where that is not known to be the fewest, or leaves no way to complete
    the set, every choice of those that stay is tried, the largest first.
    """
    grouping, tags = steps.grouping, steps.tags
    rule, topic = grouping.rule, grouping.topics[index]
    able = [b for b in replicas if tags.may_hold(topic, b)]
    least, kept = [len(replicas) - len(able)], [*able]
    for c in tags.spread_over:
        share = c.share(len(replicas))
        least.append(len(replicas) - _within(c, replicas, share))
        for value in {c.values[b] for b in kept if b in c.values}:
            inside = [b for b in kept if c.values.get(b) == value]
            kept = [b for b in kept if b not in inside[share:]]
    spanned = len({g for g in grouping.groups_of(replicas) if g})
    if rule.violates(grouping.groups_of(replicas)) and not rule.spreads:
        again = repeats(grouping.groups_of(replicas))
        least.append(min(again, rule.min_groups - spanned) if rule.min_groups else again)
    while _lacks(grouping, kept, len(replicas)):
        groups = grouping.groups_of(kept)
        fullest = max(groups.count(g) for g in groups if g)
        kept.remove([b for b, g in zip(kept, groups, strict=True) if g and groups.count(g) == fullest][-1])
    if len(kept) == len(replicas):
        return None
    first = TagRepair(tuple(kept), max(least))
    fewest = len(replicas) - len(kept) == first.least and _completes(steps, index, first.kept, len(replicas))
    return first if fewest or len(replicas) > _SEARCHED else _searched(steps, index, replicas, able, first)


def _searched(steps: TagSteps, index: int, replicas: Sequence[int], able: Sequence[int], first: TagRepair) -> TagRepair:
    """The most replicas that may stay, those of `first` among equally many; its own where no set can be completed."""
    grouping, wanted = steps.grouping, len(replicas)
    shares = [(c, c.share(wanted)) for c in steps.tags.spread_over]
    # A look ahead that may leave out ways to complete a set proves nothing.
    exact = not grouping.rule.spreads and None not in {*grouping.receivers, *grouping.groups_of(replicas)}
    least = wanted
    for leave in range(first.least, wanted + 1):
        rows = [row for row in combinations(able, wanted - leave) if row != first.kept]
        for row in [first.kept, *rows] if len(first.kept) == wanted - leave else rows:
            if any(_within(c, row, share) < len(row) for c, share in shares) or _lacks(grouping, row, wanted):
                continue
            completes = _completes(steps, index, row, wanted)
            if completes or not exact:
                least = min(least, leave)
            if completes:
                return TagRepair(row, least)
    return TagRepair(first.kept, least)


def _within(c: TagConstraint, replicas: Sequence[int], share: int) -> int:
    """How many of the replicas lie within the share of their value."""
    held = Counter(c.values[b] for b in replicas if b in c.values)
    return len(replicas) - sum(max(0, n - share) for n in held.values())


def _completes(steps: TagSteps, index: int, kept: tuple[int, ...], wanted: int) -> bool:
    return steps.next_copy(index, kept, wanted)[0] == wanted - len(kept)


def _lacks(grouping: Grouping, kept: Sequence[int], wanted: int) -> bool:
    """True where the rule of groups cannot be kept with these, whatever the other copies of the set are."""
    rule, groups = grouping.rule, grouping.groups_of(kept)
    openings = wanted - len(kept)
    if rule.spreads:
        return rule.violates(groups, openings)
    distinct = len({g for g in groups if g})
    return repeats(groups) > 0 and (not rule.min_groups or distinct + openings < rule.min_groups)
