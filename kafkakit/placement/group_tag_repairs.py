"""What sets need so that they keep the constraints by tags and the rule of groups: who leaves, how many at least."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import repeats


@dataclass(frozen=True, slots=True)
class TagRepair:
    """The replicas that stay; no plan repairs the set with fewer than `least` new copies."""

    kept: tuple[int, ...]
    least: int


def tag_repair(grouping: Grouping, topic: str, replicas: Sequence[int]) -> TagRepair | None:
    """What the set needs; None where it keeps every constraint and the rule of groups.

    First those leave that are on brokers closed to the topic, then what is beyond the share of a value, then repeats
    of a group, each from the end of the list.
    """
    tags, rule = grouping.rule.tags, grouping.rule
    assert tags is not None
    kept = [b for b in replicas if tags.may_hold(topic, b)]
    least = [len(replicas) - len(kept)]
    for c in tags.spread_over:
        share, total = c.share(len(replicas)), dict[str, int]()
        for b in replicas:
            if value := c.values.get(b):
                total[value] = total.get(value, 0) + 1
        least.append(sum(max(0, n - share) for n in total.values()))
        for value in total:
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
    return None if len(kept) == len(replicas) else TagRepair(tuple(kept), max(least))


def _lacks(grouping: Grouping, kept: Sequence[int], wanted: int) -> bool:
    """True where the rule of groups cannot be kept with these, whatever the other copies of the set are."""
    rule, groups = grouping.rule, grouping.groups_of(kept)
    openings = wanted - len(kept)
    if rule.spreads:
        return rule.violates(groups, openings)
    distinct = len({g for g in groups if g})
    return repeats(groups) > 0 and (not rule.min_groups or distinct + openings < rule.min_groups)
