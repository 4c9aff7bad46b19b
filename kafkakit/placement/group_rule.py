"""The rule of groups: how many replicas of a partition may share a group of brokers. Racks are such groups.

With `min_groups` 0 every replica in a group needs a group of its own. With N > 0 groups may repeat once the set
spans at least N of them. Brokers without a group never conflict, and never count as a group (kafka-kit's rule).

Even spread is the other form: over the groups named, the numbers of replicas differ by at most one. Replicas in
other groups and on brokers without a group are not counted. A set that is not even may stay so, but no group that
holds more than its share (the replicas over the groups, rounded up) gets more. With no more replicas than groups
this is "all groups differ" again.

The modules `group_*` alone interpret the rule. A replica's group is its broker's tag, and
None or "" where it has none.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.placement.group_tags import TagRules

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

Group = str | None
Groups = Mapping[int, Group]
_ANY_NUMBER = 1 << 40


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The rule for one request; with `spread_over` the even spread over those groups, and `min_groups` is 0.

    `tags` are constraints beside it (None: none).
    """

    min_groups: int = 0
    spread_over: tuple[str, ...] = ()
    tags: TagRules | None = field(default=None, compare=False)

    @property
    def spreads(self) -> bool:
        """True for even spread."""
        return bool(self.spread_over)

    @property
    def may_repeat(self) -> bool:
        """True when valid sets may hold two replicas in a group, once they span enough groups."""
        return self.min_groups > 0

    @property
    def most_spanned(self) -> int:
        """How many groups are enough: a valid set spans the smaller of this and its number of replicas."""
        return self.min_groups or _ANY_NUMBER

    def violates(self, groups: Iterable[Group], openings: int = 0) -> bool:
        """True when a replica set in these groups breaks the rule, wherever its `openings` copies to come may go.

        These matter for even spread alone.
        """
        return breaks([g for g in groups if g], self.min_groups, self.spread_over, openings)

    def share(self, replicas: int) -> int:
        """The most that a group may hold of a set of `replicas` that is spread evenly, all of them in groups."""
        return -(-replicas // len(self.spread_over))

    def crowds(self, before: Sequence[Group], after: Sequence[Group]) -> bool:
        """True when a group of the even spread holds more than its share and more than `before`."""
        share = self.share(len(after))
        return any(after.count(g) > max(share, before.count(g)) for g in self.spread_over)

    def worsens(self, before: Sequence[Group], after: Sequence[Group]) -> bool:
        """True when a set repeats groups more than it did, or crowds one under even spread."""
        return self.crowds(before, after) if self.spread_over else repeats(after) > repeats(before)

    def permits(self, new: Sequence[Group], old: Sequence[Group]) -> bool:
        """True when a set keeps the rule, or breaks it no worse than the set it replaces."""
        if not self.violates(new, max(0, len(old) - len(new))):
            return True
        if not self.violates(old):
            return False
        if self.spread_over:
            return not self.crowds(old, new)
        after, before = Counter(filter(None, new)), Counter(filter(None, old))
        if self.min_groups:
            return len(after) >= len(before)
        return all(count <= max(1, before[group]) for group, count in after.items())

    def permits_so_far(self, kept: Sequence[Group], tried: Sequence[Group], size: int) -> bool:
        """True when `tried`, on its way to a set of `size`, repeats no more than `kept`, or can come to span enough."""
        if repeats(tried) <= repeats(kept):
            return True
        return self.may_repeat and len(set(filter(None, tried))) + size - len(tried) >= self.min_groups

    def repeats_allowed(self, replicas: int) -> int:
        """How many replicas may sit in a group that is used already, in a set of `replicas` in groups."""
        return max(0, replicas - self.min_groups) if self.min_groups else 0

    def broken_sets(self, part: "Ints", group: "Ints", partitions: int) -> "Bools":
        """Which of the partitions break the rule; `part` and `group` number those of every replica in a group.

        For the rule without even spread. O(replicas log replicas), on arrays.
        """
        import numpy as np

        cells = np.unique(part * (int(group.max(initial=0)) + 1) + group)
        distinct = np.bincount(cells // (int(group.max(initial=0)) + 1), minlength=partitions)
        repeated = distinct < np.bincount(part, minlength=partitions)
        broken: Bools = repeated & (distinct < self.most_spanned)
        return broken


def breaks(used: Sequence[Hashable], min_groups: int, spread: Sequence[Hashable], openings: int) -> bool:
    """`GroupRule.violates` on any names of groups, those of the replicas in one."""
    if spread:
        count = Counter(used)
        level = max(count[g] for g in spread) - 1
        return sum(max(0, level - count[g]) for g in spread) > openings
    distinct = len(set(used))
    return distinct < len(used) and (min_groups == 0 or distinct < min_groups)


def repeats(groups: Iterable[Group]) -> int:
    """How many replicas sit in a group that another of the set is in."""
    used = [g for g in groups if g]
    return len(used) - len(set(used))


def refuse_both_rules(min_rack_ids: int, spread: bool) -> None:
    """Raise `UsageError` where a request names both forms of the rule."""
    if spread and min_rack_ids:
        raise UsageError("--spread and --min-rack-ids are two different rules, give one of them")


def racks_to_spread(brokers: Iterable[int], racks: Groups) -> tuple[str, ...]:
    """The racks that an even spread looks at, those of `brokers`; raises `UsageError` where none has a rack."""
    names = tuple(sorted({r for b in brokers if (r := racks.get(b))}))
    if not names:
        raise UsageError("--spread: no broker that could take replicas has a rack", hint="set broker.rack")
    return names
