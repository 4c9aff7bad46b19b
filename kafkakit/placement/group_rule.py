"""The rule of groups: how many replicas of a partition may share a group of brokers (racks are such groups); and tags.

With `min_groups` 0 every replica in a group needs a group of its own. With N > 0 groups may repeat once the set spans
at least N of them. Brokers without a group never conflict, and never count as a group (kafka-kit's rule).

Even spread is the other form: over the groups named, the numbers of replicas differ by at most one. Replicas in other
groups and on brokers without a group are not counted. A set that is not even may stay so, but no group that holds more
than its share (the replicas over the groups, rounded up) gets more. With no more replicas than groups this is "all
groups differ" again.

Only the modules `group_*` interpret the rule. A replica's group is its broker's tag, and None or "" if it has none.

Constraints by tags stand beside the rule: brokers that topics keep to, and spread over the values of a tag. They bind
new copies. A copy that breaks one may stay where it is, unless a request moves it; no plan makes it worse.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import TagConstraint
from kafkakit.core.quantities import format_bytes

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


Group = str | None
Groups = Mapping[int, Group]
_ANY_NUMBER = 1 << 40


class TagRules:
    """The constraints of one request."""

    def __init__(self, constraints: Iterable[TagConstraint]) -> None:
        self.constraints = tuple(constraints)
        self.spread_over = tuple(c for c in self.constraints if c.values)
        self._bound = tuple((c, frozenset(c.topics)) for c in self.constraints if not c.values)

    @property
    def spreads(self) -> bool:
        """True where copies of one partition look at each other's brokers."""
        return bool(self.spread_over)

    def may_hold(self, topic: str, broker: int) -> bool:
        """False where the topic's copies keep to other brokers; how a partition is spread is not looked at."""
        return all(broker not in c.never and (c.only is None or broker in c.only) for c in self._of(topic))

    def open_to(self, topic: str, kept: Collection[int], replicas: int, among: Iterable[int]) -> frozenset[int]:
        """The brokers of `among` that one more copy may go to beside `kept`, in a set of so many replicas."""
        found = frozenset(b for b in among if self.may_hold(topic, b))
        for c in self.spread_over:
            held, share = Counter(c.values.get(b) for b in kept), c.share(replicas)
            found = frozenset(b for b in found if b not in c.values or held[c.values[b]] < share)
        return found

    def kind_of(self, topic: str, kept: Iterable[int]) -> object:
        """What decides on the open brokers beside those that are kept: equal kinds have the same ones."""
        rows = sorted(kept)
        return (
            tuple(topic in topics for _, topics in self._bound),
            tuple(tuple(sorted(filter(None, map(c.values.get, rows)))) for c in self.spread_over),
        )

    def keeps_spread(self, dest: int, beside: Sequence[int], before: Sequence[int]) -> bool:
        """True when one copy more on `dest` leaves its values no fuller than their share, or than they were."""
        for c in self.spread_over:
            if value := c.values.get(dest):
                held, then = ([c.values.get(b) for b in row].count(value) for row in (beside, before))
                if held + 1 > max(c.share(len(before)), then):
                    return False
        return True

    def opens(self, topic: str, dest: int, beside: Sequence[int], before: Sequence[int]) -> bool:
        """True when one copy more may go to `dest`, beside these brokers and in the place of the set `before`."""
        return self.may_hold(topic, dest) and self.keeps_spread(dest, beside, before)

    def faults(self, topic: str, before: Sequence[int], after: Sequence[int], wanted: int = 0) -> list[str]:
        """The texts of the constraints that the new copies of a list break; more may be `wanted` than found a place."""
        size = max(wanted, len(after))
        return [c.text for c in self.constraints if self._breaks(c, topic, before, after, size)]

    def most(self, topic: str, brokers: Iterable[int], replicas: int) -> int:
        """At most so many replicas of a partition find a place by any one constraint of spread, and all the others."""
        able = [b for b in brokers if self.may_hold(topic, b)]
        found = [len(able)]
        for c in self.spread_over:
            held = Counter(c.values.get(b, "") for b in able)
            found.append(sum(min(n, c.share(replicas)) if value else n for value, n in held.items()))
        return min(found)

    def words(self, topic: str, brokers: Sequence[int], replicas: int) -> str:
        """What each constraint leaves to a topic of these brokers, with the numbers."""
        able = [b for b in brokers if self.may_hold(topic, b)]
        parts = [
            f"{c.text} leaves {sum(1 for b in brokers if TagRules((c,)).may_hold(topic, b))} of {len(brokers)}"
            for c in self._of(topic)
        ]
        for c in self.spread_over:
            held = Counter(c.values.get(b, "no value") for b in able)
            numbers = ", ".join(f"{n} with {value}" for value, n in sorted(held.items()))
            parts.append(
                f"{c.text} allows {c.share(replicas)} of {replicas} replicas a value, and has brokers: {numbers}"
            )
        return "; ".join(parts)

    def _breaks(self, c: TagConstraint, topic: str, before: Sequence[int], after: Sequence[int], size: int) -> bool:
        new = set(after) - set(before)
        if c.values:
            then, now = (Counter(c.values.get(b) for b in row) for row in (before, after))
            share = c.share(size)
            return any(now[v] > max(share, then[v]) for v in {c.values[b] for b in new if b in c.values})
        return topic in c.topics and any(b in c.never or (c.only is not None and b not in c.only) for b in new)

    def _of(self, topic: str) -> list[TagConstraint]:
        return [c for c, topics in self._bound if topic in topics]


@dataclass(frozen=True, slots=True)
class ClosedBrokers:
    """By partition the brokers that take no new copy of it, since none of their log dirs has space for one.

    `space` is the most that one of the broker's dirs takes, in bytes. `proven` says that no plan at all could put
    those copies there, so that what a search of all others shows holds. `failed` brokers have a copy that has to be
    replaced, and cannot take its place. `full` brokers take new copies only of these partitions, which fill their dirs.
    """

    space: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    proven: bool = True
    failed: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    full: Mapping[int, frozenset[TopicPartition]] = field(default_factory=dict)

    @property
    def closes(self) -> bool:
        """True where some broker is closed to some partition."""
        return bool(self.space or self.failed or self.full)

    def of(self, key: TopicPartition) -> frozenset[int]:
        """The brokers that are closed to a partition."""
        full = (b for b, kept in self.full.items() if key not in kept)
        return frozenset(self.space.get(key, ())) | self.failed.get(key, frozenset()) | frozenset(full)

    def by_index(self, keys: Iterable[TopicPartition]) -> dict[int, frozenset[int]]:
        """The brokers that are closed to each of these partitions, by its index; others are left out."""
        if not self.closes:
            return {}
        every = frozenset(self.full)
        special = {*self.space, *self.failed, *(key for kept in self.full.values() for key in kept)}
        found = ((i, self.of(key) if key in special else every) for i, key in enumerate(keys))
        return {i: shut for i, shut in found if shut}

    def explain(self, key: TopicPartition, size_bytes: int | None, among: Collection[int] | None = None) -> str:
        """What a copy needs, and what brokers (those `among`) have; empty where none is closed to the partition."""
        size = size_bytes or 0
        space = {b: n for b, n in self.space.get(key, {}).items() if among is None or b in among}
        able = [b for b in sorted(self.full) if among is None or b in among]
        full = [b for b in able if key not in self.full[b] and space.get(b, size) >= size]
        if not space and not full:
            return ""
        found = [f"broker {b} takes {format_bytes(n)} in one at most" for b, n in sorted(space.items()) if n < size]
        full += [b for b, n in sorted(space.items()) if n >= size and b not in full]
        found += [f"broker {b} takes none beside other copies" for b in full]
        more = f", and {len(found) - _SHOWN} more are too full" if len(found) > _SHOWN else ""
        need = f"a log dir with {format_bytes(size)} of space" if size else "an open log dir"
        return f"{key} needs {need}: {', '.join(found[:_SHOWN])}{more}"


NONE_CLOSED = ClosedBrokers()


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """The rule for one request; with `spread_over` the even spread over those groups, and `min_groups` is 0.

    `tags` are constraints beside it (None: none), `closed` the brokers that single partitions find no space on.
    """

    min_groups: int = 0
    spread_over: tuple[str, ...] = ()
    tags: TagRules | None = field(default=None, compare=False)
    closed: ClosedBrokers = field(default=NONE_CLOSED, compare=False)

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

    def loosened(self, possible: int) -> int | None:
        """How many groups to ask for so that sets that can span `possible` keep the rule; None if it asks no more."""
        if self.spread_over or 0 < self.min_groups <= possible:
            return None
        return possible

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
    """`SpreadRule.violates` on any names of groups, those of the replicas in one."""
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


def kinds_of(
    rules: TagRules | None,
    topics: Iterable[str],
    brokers: Sequence[int],
    closed: Mapping[int, frozenset[int]] | None = None,
) -> tuple[list[int], list[list[bool]]]:
    """A number for each topic, equal where the same constraints bind; and for each number the brokers that it may use.

    How a partition is spread is not looked at. `closed` brokers, by index of the topic, make kinds of their own.
    """
    if closed:
        return _separate_kinds(*kinds_of(rules, topics, brokers), brokers, closed)
    if rules is None:
        return [0 for _ in topics], [[True] * len(brokers)]
    kinds: dict[object, int] = {}
    of_topic: dict[str, int] = {}
    found: list[int] = []
    open_to: list[list[bool]] = []
    for topic in topics:
        if topic not in of_topic:
            of_topic[topic] = kinds.setdefault(rules.kind_of(topic, ()), len(kinds))
            if of_topic[topic] == len(open_to):
                open_to.append([rules.may_hold(topic, b) for b in brokers])
        found.append(of_topic[topic])
    return found, open_to


def _separate_kinds(
    kinds: list[int], open_to: list[list[bool]], brokers: Sequence[int], closed: Mapping[int, frozenset[int]]
) -> tuple[list[int], list[list[bool]]]:
    known: dict[tuple[int, frozenset[int]], int] = {}
    for i, shut in closed.items():
        key = kinds[i], shut.intersection(brokers)
        if key[1]:
            if key not in known:
                known[key] = len(open_to)
                open_to.append([may and b not in shut for b, may in zip(brokers, open_to[key[0]], strict=True)])
            kinds[i] = known[key]
    return kinds, open_to


class SlotTags:
    """The constraints on the numbers of a slot table: brokers by index, partitions by number.

    Brokers that are closed to single partitions, by their ids, are no part of the `kinds`: bounds do not count on them.
    """

    def __init__(
        self,
        rules: TagRules,
        topics: Sequence[str],
        brokers: Sequence[int],
        closed: Mapping[int, frozenset[int]] | None = None,
        *,
        proven: bool = True,
    ) -> None:
        self._rules, self._brokers = rules, brokers
        self._kind, self._open = kinds_of(rules, topics, brokers)
        self._closed = {
            part: frozenset(i for i, b in enumerate(brokers) if b in shut) for part, shut in (closed or {}).items()
        }
        self.binds = bool(rules.constraints)
        self.proven = proven or not self._closed
        self.spread_texts = tuple(c.text for c in rules.spread_over)
        self._values = [[c.values.get(b, "") for b in brokers] for c in rules.spread_over]
        self._shut: dict[object, frozenset[int]] = {}

    def shut(self, part: int, around: Collection[int], homes: Sequence[int]) -> frozenset[int]:
        """The brokers that a copy of the partition must not go to, beside those `around`.

        `homes` is the set before the plan: a value that held more than its share may hold as many again.
        """
        held = [(sorted([v[b] for b in around]), sorted([v[b] for b in homes])) for v in self._values]
        key = self._kind[part], len(homes), *(tuple(row) for pair in held for row in pair)
        if key not in self._shut:
            beside, before = ([self._brokers[b] for b in row] for row in (around, homes))
            self._shut[key] = frozenset(
                i
                for i, b in enumerate(self._brokers)
                if not (self._open[self._kind[part]][i] and self._rules.keeps_spread(b, beside, before))
            )
        return self._shut[key] | self._closed[part] if part in self._closed else self._shut[key]

    def may_return(self, dest: int, around: Iterable[int], homes: Sequence[int]) -> bool:
        """True when a copy may go back to its broker, as far as spread is concerned."""
        beside, before = ([self._brokers[b] for b in row] for row in (around, homes))
        return self._rules.keeps_spread(self._brokers[dest], beside, before)

    def limits(self, part: int, homes: Sequence[int]) -> list[tuple[list[int], int]]:
        """For an integer program: brokers that together hold at most so many copies of the partition."""
        found = []
        for c in self._rules.spread_over:
            for value in sorted(set(c.values.values())):
                inside = [i for i, b in enumerate(self._brokers) if c.values.get(b) == value]
                held = len(set(inside).intersection(homes))
                found.append((inside, max(c.share(len(homes)), held)))
        return found

    def may_hold(self, part: int, broker: int) -> bool:
        """False where the partition's copies keep to other brokers."""
        return self._open[self._kind[part]][broker] and broker not in self._closed.get(part, ())

    @property
    def kinds(self) -> tuple[list[int], list[list[bool]]]:
        """A kind for each partition, and for each kind the brokers that are open to it."""
        return self._kind, self._open


def binding_notes(
    rules: TagRules, rows: Sequence[tuple[str, Sequence[int], Sequence[int]]], open_brokers: Iterable[int]
) -> tuple[str, ...]:
    """A note for each constraint that new copies had to keep to: how many, and which brokers it closed to them.

    `rows` are (topic, list before, list after). O(copies x brokers), each kind of list looked at once.
    """
    known: dict[object, frozenset[int]] = {}
    notes, every = [], frozenset(open_brokers)
    for c in rules.constraints:
        alone, copies, closed = TagRules((c,)), 0, set[int]()
        for topic, before, after in rows:
            new = set(after).difference(before)
            for broker in sorted(new):
                beside = [b for b in after if b != broker]
                kind = c.text, alone.kind_of(topic, beside), len(after)
                if kind not in known:
                    known[kind] = every - alone.open_to(topic, beside, len(after), every)
                copies += bool(known[kind] - {*beside})
                closed |= known[kind] - {*beside}
        if copies:
            notes.append(
                f"{c.text}: kept {copies} new {'copy' if copies == 1 else 'copies'} off {_list_brokers(closed)}"
            )
        else:
            notes.append(f"{c.text}: kept no new copy off any broker")
    return tuple(notes)


_SHOWN = 8


def _list_brokers(brokers: set[int]) -> str:
    ids = sorted(brokers)
    return f"broker{'s' * (len(ids) > 1)} {', '.join(map(str, ids[:_SHOWN]))}{', ...' if len(ids) > _SHOWN else ''}"
