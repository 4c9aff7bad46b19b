"""How many replicas must move so that a partition obeys the rule of groups and its tags, which, and where to.

For the rule of groups, counting is enough. With N groups, a set is valid when no group repeats, or when it spans N
groups. One move takes away at most one repeat and adds at most one group, so at least min(repeats, N - groups) moves
are needed (all repeats when N is 0), and moving repeats to unused groups achieves that. Under even spread, a group of K
may hold floor(R/K) replicas, and R mod K of them one more; what lies above the best such share must move. If there are
constraints by tags as well, who leaves, and how many at least, follows from both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from kafkakit.core.plan import TagConstraint
from kafkakit.placement.group_rooms import Grouping, Offer, Room, TagSteps
from kafkakit.placement.group_rule import Group, SpreadRule, repeats


@dataclass(frozen=True, slots=True)
class GroupRepair:
    """`moves` replicas leave; in each group `base` stay, `slots` more over all groups (at most `extra` in one).

    `room` is where the new copies go.
    """

    moves: int
    base: int
    slots: int
    extra: int
    room: Room


@dataclass(frozen=True, slots=True)
class NoRepair:
    """No placement on the receivers obeys the rule; `reason` names what is short."""

    reason: str


Need = GroupRepair | NoRepair | None


@dataclass(slots=True)
class GroupRepairs:
    """What sets need so that they obey a rule, each kind of set looked at once: equal needs are one object."""

    grouping: Grouping
    _known: dict[object, Need] = field(default_factory=dict)

    def need_of(self, replicas: Sequence[int]) -> Need:
        """What the set needs; None when it is valid, under even spread over the groups of the receivers."""
        grouping = self.grouping
        groups = [(b, g) for b in replicas if (g := grouping.groups.get(b))]
        spreads = grouping.rule.spreads
        if spreads:
            groups = [(b, g) for b, g in groups if g in grouping.receivers]
        used = Counter(g for _, g in groups)
        if not spreads and not grouping.rule.violates(g for _, g in groups):
            return None
        # Brokers matter one by one only where a group holds a replica and takes another.
        crowds = spreads and len(groups) >= len(grouping.names)
        loose = tuple(b for b in grouping.receivers.get(None, ()) if b not in replicas)
        key = tuple(sorted(groups)) if crowds else tuple(sorted(used.items())), loose
        if key not in self._known:
            self._known[key] = (
                _spread_need(groups, loose, grouping)
                if spreads
                else _need(used, loose, grouping.receivers, grouping.rule)
            )
        return self._known[key]


def _need(
    used: Mapping[str, int], loose: tuple[int, ...], receivers: Mapping[Group, tuple[int, ...]], rule: SpreadRule
) -> GroupRepair | NoRepair:
    """What a set with `used` replicas by group needs that breaks the rule.

    `loose` are the receivers without a group that do not hold the partition.
    """
    replicas, groups = sum(used.values()), len(used)
    repeats = replicas - groups
    fresh: dict[Group, Offer] = {g: Offer(ids, free=1) for g, ids in receivers.items() if g and g not in used}
    spanning = min(rule.most_spanned, replicas) - groups
    if spanning < repeats and spanning <= len(fresh):
        return _repair(spanning, repeats, fresh)
    if repeats <= len(fresh) + len(loose):
        offers = dict(fresh)
        if loose:
            offers[None] = Offer(loose, free=min(len(loose), repeats))
        return _repair(repeats, repeats, offers)
    return NoRepair(
        f"{replicas} replicas in {groups} rack(s) need {min(spanning, repeats)} more, "
        f"and the live brokers have {len(fresh)} unused"
    )


def _repair(moves: int, repeats: int, offers: Mapping[Group, Offer]) -> GroupRepair:
    fresh = frozenset(g for g in offers if g)
    return GroupRepair(moves, 1, repeats - moves, repeats, Room(moves, 0, offers, fresh))


def _spread_need(replicas: Sequence[tuple[int, str]], loose: tuple[int, ...], grouping: Grouping) -> Need:
    """What the replicas (broker, group) of a set need so that groups differ by at most one.

    `loose` are the receivers without a group that do not hold the partition: a copy there is counted in no group,
    which helps where groups are too small. None when the set is even already.
    """
    names = grouping.names
    count = Counter(dict.fromkeys(names, 0))
    count.update(g for _, g in replicas)
    if not names or max(count.values()) - min(count.values()) <= 1:
        return None
    held = {b for b, _ in replicas}
    free = {g: tuple(b for b in grouping.receivers[g] if b not in held) for g in names}
    ways = (_repair_spread(count, free, loose, out) for out in range(min(len(loose), count.total()) + 1))
    found = [way for way in ways if way is not None]
    if not found:
        return NoRepair(f"too few live brokers per rack to spread {count.total()} replicas over {len(names)} racks")
    return min(found, key=lambda way: way.moves)


def _repair_spread(
    count: Mapping[str, int], free: Mapping[str, tuple[int, ...]], loose: tuple[int, ...], out: int
) -> GroupRepair | None:
    """The fewest moves to an even spread with `out` replicas moved out of all groups; None: too few brokers."""
    replicas = sum(count.values()) - out
    floor, over = divmod(replicas, len(count))
    # The fullest groups may hold one more than the others: that keeps the most replicas in place.
    ranked = sorted(count, key=lambda g: (-count[g], g))
    kept = {g: min(count[g], floor + (k < over)) for k, g in enumerate(ranked)}
    offers: dict[Group, Offer] = {}
    for g in count:
        must = max(0, floor - kept[g])
        if must > len(free[g]):
            return None
        more = 1 if kept[g] <= floor and len(free[g]) > must else 0
        if must or more:
            offers[g] = Offer(free[g], must=must, free=more)
    inside = replicas - sum(kept.values())
    if sum(offer.must + offer.free for offer in offers.values()) < inside:
        return None
    if out:
        offers[None] = Offer(loose, must=out)
    slots = sum(1 for g in count if kept[g] > floor)
    return GroupRepair(inside + out, floor, slots, 1, Room(inside + out, 0, offers))


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
        least.append(len(replicas) - _count_within(c, replicas, share))
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
    return first if fewest or len(replicas) > _SEARCHED else _search_repair(steps, index, replicas, able, first)


def _search_repair(
    steps: TagSteps, index: int, replicas: Sequence[int], able: Sequence[int], first: TagRepair
) -> TagRepair:
    """The most replicas that may stay, those of `first` among equally many; its own where no set can be completed."""
    grouping, wanted = steps.grouping, len(replicas)
    shares = [(c, c.share(wanted)) for c in steps.tags.spread_over]
    # A look ahead that may leave out ways to complete a set proves nothing.
    exact = not grouping.rule.spreads and None not in {*grouping.receivers, *grouping.groups_of(replicas)}
    least = wanted
    for leave in range(first.least, wanted + 1):
        rows = [row for row in combinations(able, wanted - leave) if row != first.kept]
        for row in [first.kept, *rows] if len(first.kept) == wanted - leave else rows:
            if any(_count_within(c, row, share) < len(row) for c, share in shares) or _lacks(grouping, row, wanted):
                continue
            completes = _completes(steps, index, row, wanted)
            if completes or not exact:
                least = min(least, leave)
            if completes:
                return TagRepair(row, least)
    return TagRepair(first.kept, least)


def _count_within(c: TagConstraint, replicas: Sequence[int], share: int) -> int:
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
