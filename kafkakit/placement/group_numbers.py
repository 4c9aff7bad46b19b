"""The rule of groups on numbers, for loops and arrays over many partitions, and as constraints of an integer program.

Groups are numbered from 0 to `count` - 1. A broker without a group has a higher number: one of its own, or, if only the
group matters, `count` itself. The constraints are those of one partition at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkakit.placement.group_rule import Groups, SpreadRule, breaks

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


def group_numbers(brokers: Sequence[int], groups: Groups) -> "tuple[Ints, int]":
    """A number per broker that equal groups share, and how many groups there are."""
    import numpy as np

    known = _number_groups(brokers, groups)
    numbers, spare = [], len(known)
    for broker in brokers:
        group = groups.get(broker)
        numbers.append(known[group] if group else spare)
        spare += not group
    return np.array(numbers, dtype=np.int64), len(known)


def numbered_rule(rule: SpreadRule, brokers: Sequence[int], groups: Groups) -> SpreadRule:
    """The rule with `group_numbers` in place of names; a group that no broker is in keeps a number of its own."""
    if not rule.spreads:
        return rule
    known = _number_groups(brokers, groups)
    return SpreadRule(spread_over=tuple(str(known.get(g, -1 - i)) for i, g in enumerate(rule.spread_over)))


def _number_groups(brokers: Sequence[int], groups: Groups) -> Mapping[str, int]:
    names = {g for b in brokers if (g := groups.get(b))}
    return {name: i for i, name in enumerate(sorted(names))}


@dataclass(frozen=True, slots=True)
class NumberedGroups:
    """A rule that calls groups by their numbers, of which there are `count`."""

    rule: SpreadRule
    count: int
    spread: tuple[int, ...]

    @classmethod
    def of(cls, rule: SpreadRule, count: int) -> "NumberedGroups":
        """Read the numbers in the rule."""
        return cls(rule, count, tuple(map(int, rule.spread_over)))

    def violates(self, groups: Iterable[int], openings: int = 0) -> bool:
        """True when a set in these groups breaks the rule, see `SpreadRule.violates`."""
        return breaks([g for g in groups if g < self.count], self.rule.min_groups, self.spread, openings)

    def open_groups(
        self,
        around: Iterable[int],
        home: int,
        among: Sequence[int],
        openings: int,
        before: Callable[[], tuple[list[int], int]],
    ) -> list[int]:
        """The groups of `among` where a copy from group `home` may go, beside `around` and `openings` yet to be filled.

        A set that breaks the rule from the start may stay as it was; no move makes it worse. `before` gives the groups
        and the openings of the whole set at the start, and is called only where they matter.
        """
        if self.spread:
            return self._spread_groups(list(around), among, openings, before)
        count, least = self.count, self.rule.min_groups
        used = [g for g in around if g < count]
        distinct = set(used)
        again = 0 < least <= len(distinct)
        loose = again or len(used) == len(distinct) or home >= count
        return [g for g in among if (again or g not in distinct if g < count else loose)]

    def _spread_groups(
        self, around: Sequence[int], among: Sequence[int], openings: int, before: Callable[[], tuple[list[int], int]]
    ) -> list[int]:
        """The groups of `among` where a copy keeps an even set even and crowds no group more."""
        counts = Counter(around)
        there = [counts[g] for g in self.spread]
        top = max(there)
        # How many copies are lacking for evenness: at the present top, and with one more than it.
        lack = sum(max(0, top - 1 - n) for n in there)
        above = sum(max(0, top - n) for n in there)
        share, old = self.rule.share(len(around) + 1), None
        found = []
        for group in among:
            here, inside = counts[group], group in self.spread
            short = above if inside and here == top else lack - (inside and here < top - 1)
            if short > openings:
                old = before() if old is None else old
                if not self.violates(*old) or (inside and here >= max(share, old[0].count(group))):
                    continue
            found.append(group)
        return found

    def may_return(
        self, around: Sequence[int], group: int, openings: int, before: Callable[[], tuple[list[int], int]]
    ) -> bool:
        """True when a copy may go back to its group, beside others that have moved; see `open_groups`."""
        if self.rule.spreads:
            return bool(self._spread_groups(around, (group,), openings, before))
        return not self.violates([*around, group])

    def may_share(self, copies: "Ints") -> "Bools":
        """Which partitions, of so many copies each, may have two in a group; a superset under even spread."""
        import numpy as np

        found: Bools = (
            copies > len(self.rule.spread_over) if self.rule.spreads else np.full(len(copies), self.rule.may_repeat)
        )
        return found

    def broken(self, part: "Ints", group: "Ints", partitions: int) -> "Ints":
        """The partitions whose sets break the rule, sorted; `part` and `group` are those of every replica.

        O(replicas log replicas).
        """
        import numpy as np

        if not self.rule.spreads:
            inside = group < self.count
            return np.nonzero(self.rule.broken_sets(part[inside], group[inside], partitions))[0]
        # Only groups that hold something have a number; the others keep a column of nothing.
        held = np.zeros((partitions, self.count + 1), dtype=np.int64)
        np.add.at(held, (part, np.minimum(group, self.count)), 1)
        none = np.zeros(partitions, dtype=np.int64)
        counts = np.stack([held[:, g] if g >= 0 else none for g in self.spread], axis=1)
        return np.nonzero(counts.max(axis=1) - counts.min(axis=1) > 1)[0]

    def emptiest(self, groups: Sequence[int]) -> list[int]:
        """The groups of an even spread that hold the fewest replicas of a set."""
        counts = {g: groups.count(g) for g in self.spread}
        return [g for g, n in counts.items() if n == min(counts.values())]


def add_group_rule(
    program: Any,
    groups: NumberedGroups,
    inside: Mapping[int, Any],
    before: Sequence[int],
    *,
    openings: int,
    may_leave_open: bool,
) -> Any | None:
    """Constrain how many copies of a set each group holds; returns whether the set breaks the rule, if it may at all.

    `inside` are the copies by group number as linear expressions, `before` the groups of the set as it was, with
    `openings` copies to come beside it. With `may_leave_open` copies may end unplaced. A set that broke the rule may
    continue breaking it, and gets no worse.
    """
    rule, count = groups.rule, {g: before.count(g) for g in inside}
    copies = len(before) + openings
    broken = program.new_bool_var("")
    may_break = groups.violates(before, openings)
    if not may_break:
        program.add(broken == 0)
    real = [g for g in inside if g < groups.count]
    if rule.spreads:
        _require_spread(program, groups, inside, count, copies, broken, may_leave_open=may_leave_open)
    elif not rule.may_repeat:
        for g in real:
            program.add(inside[g] <= 1 + max(0, count[g] - 1) * broken)
    else:
        used = {g: program.new_bool_var("") for g in real}
        repeats = program.new_bool_var("")
        for g in real:
            program.add(used[g] <= inside[g])
            program.add(inside[g] <= 1).only_enforce_if(repeats.negated())
        program.add(sum(used.values()) >= rule.min_groups).only_enforce_if(repeats, broken.negated())
        # A set that broke the rule spans no fewer groups than before, and each opening filled adds one.
        distinct: Any = sum(1 for g in real if count[g])
        if openings:
            distinct += sum(inside[g] - count[g] for g in real)
        program.add(sum(used.values()) >= distinct).only_enforce_if(repeats, broken)
    return broken if may_break else None


def _require_spread(
    program: Any,
    groups: NumberedGroups,
    inside: Mapping[int, Any],
    count: Mapping[int, int],
    copies: int,
    broken: Any,
    *,
    may_leave_open: bool,
) -> None:
    """Groups hold the most or one less, but for copies that are not placed; in a set that broke that before, a group
    holds no more than before or than its share.
    """
    top = program.new_int_var(0, copies, "")
    lacks: list[Any] = []
    for g in groups.spread:
        held = inside.get(g, 0)
        lacks.append(program.new_int_var(0, copies, "") if may_leave_open else 0)
        program.add(held <= top).only_enforce_if(broken.negated())
        program.add(held + lacks[-1] >= top - 1).only_enforce_if(broken.negated())
        if g in inside:
            program.add(held <= max(groups.rule.share(copies), count[g]))
    if may_leave_open:
        program.add(sum(lacks) <= copies - sum(inside.values())).only_enforce_if(broken.negated())
