"""How many replicas of a partition must move so that it obeys the rule of groups, and where to: by counting alone.

Under the rule with N groups, a set is valid when no group repeats, or when it spans N groups. One move takes away
at most one repeat and adds at most one group, so at least min(repeats, N - groups) moves are needed (all repeats
when N is 0), and moving repeats to unused groups achieves that. Under even spread, a group of K may hold floor(R/K)
replicas, and R mod K of them one more; what lies above the best such share must move.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.placement.group_rooms import Grouping, Offer, Room
from kafkakit.placement.group_rule import Group, GroupRule


@dataclass(frozen=True, slots=True)
class Repair:
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


Need = Repair | NoRepair | None


@dataclass(slots=True)
class Repairs:
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
    used: Mapping[str, int], loose: tuple[int, ...], receivers: Mapping[Group, tuple[int, ...]], rule: GroupRule
) -> Repair | NoRepair:
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


def _repair(moves: int, repeats: int, offers: Mapping[Group, Offer]) -> Repair:
    fresh = frozenset(g for g in offers if g)
    return Repair(moves, 1, repeats - moves, repeats, Room(moves, 0, offers, fresh))


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
    ways = (_spread(count, free, loose, out) for out in range(min(len(loose), count.total()) + 1))
    found = [way for way in ways if way is not None]
    if not found:
        return NoRepair(f"too few live brokers per rack to spread {count.total()} replicas over {len(names)} racks")
    return min(found, key=lambda way: way.moves)


def _spread(
    count: Mapping[str, int], free: Mapping[str, tuple[int, ...]], loose: tuple[int, ...], out: int
) -> Repair | None:
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
    return Repair(inside + out, floor, slots, 1, Room(inside + out, 0, offers))
