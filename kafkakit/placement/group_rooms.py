"""Where new copies of a partition may go under the rule of groups, by counting, and under constraints by tags.

Copies whose constraints look at each other's brokers are placed one at a time: filling one opening of each partition
after another keeps every step a flow. A look ahead leaves out the brokers from which a set could not be completed any
more.

Partitions whose new copies may go to the same places form one group, and a flow gives the group its units. They are
dealt out to its members like cards.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.placement.group_rule import Group, Groups, SpreadRule, TagRules, repeats

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


@dataclass(frozen=True, slots=True)
class Offer:
    """What one group offers a partition: `must` copies go there, `free` more may, `again` more as a repeat."""

    brokers: tuple[int, ...]
    must: int = 0
    free: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """Where `units` new copies of a partition may go; at most `repeats` of them repeat a group.

    `offers` maps a group (None: brokers without one) to what it offers; `fresh` groups hold no replica yet. A room
    is `strict` where the rule allows sets which it leaves out.
    """

    units: int
    repeats: int
    offers: Mapping[Group, Offer]
    fresh: frozenset[str] = frozenset()
    strict: bool = False

    @property
    def charged(self) -> frozenset[Group]:
        """Groups whose every unit uses up the allowance for repeats."""
        return frozenset(name for name, offer in self.offers.items() if offer.again and not offer.free)

    def without(self, kept: Sequence[int]) -> "Room":
        """The room for a partition that keeps these brokers, from one that names them all, see `Grouping.widened`."""
        left = {g: tuple(b for b in offer.brokers if b not in kept) for g, offer in self.offers.items()}
        return replace(self, offers={g: replace(o, brokers=left[g]) for g, o in self.offers.items()})


@dataclass(frozen=True, slots=True)
class Grouping:
    """A rule on known brokers: the group of each, and by group (None: without one) the sorted ones that take copies.

    `closed` has the brokers that take no copy of a partition, by its index.
    """

    rule: SpreadRule
    groups: Groups
    receivers: Mapping[Group, tuple[int, ...]]
    topics: Sequence[str] = ()
    closed: Mapping[int, frozenset[int]] = field(default_factory=dict)
    _narrowed: dict[frozenset[int], "Grouping"] = field(default_factory=dict, compare=False)
    _takers: frozenset[int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the brokers that take copies as a set."""
        object.__setattr__(self, "_takers", frozenset(self.taking))

    @classmethod
    def of(
        cls,
        rule: SpreadRule,
        groups: Groups,
        receivers: Iterable[int],
        topics: Sequence[str] = (),
        keys: Iterable[TopicPartition] = (),
    ) -> "Grouping":
        """Sort the receivers into their groups; rules may name the `topics` and `keys` of the partitions."""
        found: dict[Group, list[int]] = defaultdict(list)
        for broker in sorted(receivers):
            found[groups.get(broker) or None].append(broker)
        ordered = {g: tuple(found[g]) for g in sorted(found, key=lambda g: (g is not None, g or ""))}
        return cls(rule, groups, ordered, topics, rule.closed.by_index(keys))

    def narrowed(self, brokers: frozenset[int]) -> "Grouping":
        """The grouping if copies go only to these brokers, without constraints by tags; made once for each set."""
        if brokers not in self._narrowed:
            rule = replace(self.rule, tags=None)
            self._narrowed[brokers] = Grouping.of(rule, self.groups, brokers)
        return self._narrowed[brokers]

    @property
    def taking(self) -> tuple[int, ...]:
        """The brokers that take copies."""
        return tuple(b for ids in self.receivers.values() for b in ids)

    @property
    def names(self) -> list[str]:
        """The groups of the receivers."""
        return [g for g in self.receivers if g]

    def groups_of(self, replicas: Sequence[int]) -> list[Group]:
        """The group of each replica."""
        return [self.groups.get(b) or None for b in replicas]

    def shared(self, replicas: Sequence[int]) -> tuple[int, ...]:
        """For each replica the place of the first one in its group, -1 where the rule looks at no group of it."""
        seen = [g if g and (not self.rule.spreads or g in self.receivers) else None for g in self.groups_of(replicas)]
        return tuple(seen.index(g) if g else -1 for g in seen)

    def room_beside(self, kept: Sequence[int], wanted: int, *, repairs: bool = True) -> Room:
        """The room for `wanted - len(kept)` new copies; `units` is how many fit, under even spread all or none.

        Where the replicas that stay break the rule, new copies first go where they repair it, as far as they can;
        without `repairs` such a set is no reason to leave repeats out.
        """
        held = set(kept)
        free = {g: tuple(b for b in ids if b not in held) for g, ids in self.receivers.items()}
        groups = self.groups_of(kept)
        if self.rule.spreads:
            return _even_room(self.rule, groups, free, wanted)
        rackless = len(free.get(None, ()))
        sizes = {g: len(ids) for g, ids in free.items() if g}
        found = _repairing_allowance(self.rule, groups, sizes, rackless, wanted) if repairs else None
        units, again, charged, strict = found or _count(self.rule, groups, sizes, rackless, wanted)
        used = set(groups)
        offers: dict[Group, Offer] = {}
        for g, ids in free.items():
            if not ids:
                continue
            if g is None:
                offers[g] = Offer(ids, free=0 if charged else len(ids), again=len(ids) if charged else 0)
            elif g not in used:
                offers[g] = Offer(ids, free=1, again=len(ids) - 1)
            elif again:
                offers[g] = Offer(ids, again=len(ids))
        return Room(units, again, offers, frozenset(g for g in offers if g and g not in used), strict)

    def taking_groups(self, kept: Sequence[int]) -> tuple[str, ...]:
        """The groups in which a partition that keeps these brokers finds fewer that take copies, with repetition."""
        return tuple(sorted(self.groups.get(b) or "" for b in kept if b in self._takers))

    def widened(self, room: Room) -> Room:
        """A room that names the brokers in use as well, for partitions that keep other ones of the same groups."""
        return replace(room, offers={g: replace(o, brokers=self.receivers[g]) for g, o in room.offers.items()})

    def kept_matter(self, kept: Sequence[int], wanted: int, *, repairs: bool = True) -> bool:
        """True when the kept brokers, beside their groups, decide on the room: where a new copy could land there.

        The answer is that of all sets in these groups.
        """
        if None in self.receivers or self.rule.spreads:
            return True
        return self.rule != SpreadRule() if repairs else self.rule.repeats_allowed(max(wanted, len(kept))) > 0


Allowance = tuple[int, int, bool, bool]
"""Units that fit, repeats among them, whether brokers without a group count as repeats, whether this is strict."""


def _count(rule: SpreadRule, groups: Sequence[Group], free: Mapping[str, int], rackless: int, wanted: int) -> Allowance:
    """The allowance beside these groups.

    Sets that mix brokers without a group and repeated groups are counted strictly: the set must span `min_groups`
    real groups.
    """
    kept = Counter(g for g in groups if g)
    kept_repeats, kept_rackless = repeats(groups), len(groups) - sum(kept.values())
    fresh = sum(1 for g, n in free.items() if n and g not in kept)
    again = sum(free.values()) - fresh

    def repeats_left(units: int, *, charged: int) -> int:
        return max(0, rule.repeats_allowed(len(groups) + units) - kept_repeats - charged)

    for units in range(max(0, wanted - len(groups)), -1, -1):
        if units <= fresh + rackless:
            # No repeat is needed: forbid repeats when brokers without a group could hide a group too few.
            allowed = min(repeats_left(units, charged=0), again, units)
            mixed = rule.min_groups > 1 and bool(rackless or kept_rackless)
            return units, 0 if mixed else allowed, False, mixed and allowed > 0
        allowed = repeats_left(units, charged=kept_rackless)
        if rule.min_groups > 1:
            # Brokers without a group do not count as groups, so each is charged like a repeat.
            if units <= fresh + min(allowed, again + rackless):
                return units, allowed, True, False
        elif units <= fresh + rackless + min(allowed, again):
            return units, allowed, False, False
    return 0, 0, False, False


def _repairing_allowance(
    rule: SpreadRule, groups: Sequence[Group], sizes: Mapping[str, int], rackless: int, wanted: int
) -> Allowance | None:
    """The allowance where the replicas that stay repeat a group before they span enough; None where they do not.

    New copies then go to unused groups first, until the set spans those it must, and only the others are free to
    repeat one or to do without. None too when there are too few copies to get that far.
    """
    spanned = len({g for g in groups if g})
    units, lacking = wanted - len(groups), rule.min_groups - spanned
    if not rule.min_groups or not rule.violates(groups) or lacking > units:
        return None
    fresh = sum(1 for g, n in sizes.items() if n and g not in groups)
    again = max(0, min(units - lacking, sum(sizes.values()) - fresh + rackless))
    return (min(units, fresh + again) if fresh >= lacking else fresh), again, True, False


def _even_room(rule: SpreadRule, held: Sequence[Group], free: Mapping[Group, tuple[int, ...]], wanted: int) -> Room:
    """The room under even spread: the groups that hold the fewest copies take them first.

    No other way to fill the groups is more even. Brokers without a group may take the last copies, one a group at
    most, where that keeps the rule too; more only where groups are too small.
    """
    units, loose = wanted - len(held), free.get(None, ())
    broken = rule.violates(held, units)

    def valid(new: Sequence[Group]) -> bool:
        after = [*held, *new]
        return not rule.violates(after) or (broken and not rule.crowds(held, after))

    for out in range(min(units, len(loose)) + 1):
        must, lowest, left = _lowest_first(rule, Counter(held), free, units - out)
        inside = [g for g, n in must.items() for _ in range(n)]
        spare = [valid([*inside, *lowest[: left - more], *[None] * (out + more)]) for more in range(left + 1)]
        if left > len(lowest) or not spare[0]:
            continue
        more = min([k - 1 for k, fits in enumerate(spare) if not fits] + [left, len(loose) - out])
        offers: dict[Group, Offer] = {
            g: Offer(free[g], must=n, free=int(g in lowest and left > 0))
            for g, n in must.items()
            if n or (g in lowest and left)
        }
        if out or more:
            offers[None] = Offer(loose, must=out, free=more)
        return Room(units, 0, offers)
    return Room(0, 0, {})


def _lowest_first(
    rule: SpreadRule, held: Mapping[Group, int], free: Mapping[Group, tuple[int, ...]], units: int
) -> tuple[dict[str, int], list[str], int]:
    """How many copies each group must take, the groups of which some take one more, and how many those are."""
    must = dict.fromkeys(rule.spread_over, 0)
    while True:
        able = [g for g, n in must.items() if n < len(free.get(g, ()))]
        level = min((held.get(g, 0) + must[g] for g in able), default=0)
        lowest = [g for g in able if held.get(g, 0) + must[g] == level]
        if not lowest or len(lowest) >= units:
            return must, lowest, units
        for g in lowest:
            must[g] += 1
        units -= len(lowest)


@dataclass(slots=True)
class TagSteps:
    """The brokers open to the next copy of a partition; each kind of partition is looked at once."""

    grouping: Grouping
    tags: TagRules
    repairs: bool = True
    _known: dict[object, tuple[int, frozenset[int]]] = field(default_factory=dict)

    def next_copy(self, index: int, kept: Sequence[int], wanted: int) -> tuple[int, frozenset[int]]:
        """How many of the copies that partition `index` lacks find a place, and the brokers that the first may go to.

        Without spread over tags all of its copies may go to these brokers.
        """
        topic, shut = self.grouping.topics[index], self.grouping.closed.get(index, frozenset())
        if not self.tags.spreads:
            key: object = topic
            if key not in self._known:
                self._known[key] = 0, self.tags.open_to(topic, (), wanted, self.grouping.taking)
            open_to = self._known[key][1] - shut
            return self.room(open_to, kept, wanted).units, open_to
        return self._ahead(topic, tuple(kept), wanted, shut)

    def room(self, open_to: frozenset[int], kept: Sequence[int], wanted: int) -> Room:
        """The room on these brokers alone, see `Grouping.room_beside`."""
        return self.grouping.narrowed(open_to).room_beside(kept, wanted, repairs=self.repairs)

    def _ahead(
        self, topic: str, kept: tuple[int, ...], wanted: int, shut: frozenset[int]
    ) -> tuple[int, frozenset[int]]:
        if len(kept) >= wanted:
            return 0, frozenset()
        key = topic if self.tags.constraints != self.tags.spread_over else "", tuple(sorted(kept)), wanted, shut
        if key not in self._known:
            self._known[key] = self._looked(topic, kept, wanted, shut)
        return self._known[key]

    def _looked(
        self, topic: str, kept: tuple[int, ...], wanted: int, shut: frozenset[int]
    ) -> tuple[int, frozenset[int]]:
        free = self.tags.open_to(topic, kept, wanted, self.grouping.taking).difference(kept, shut)
        room = self.room(free, kept, len(kept) + 1)
        if not room.units:
            return 0, frozenset()
        reached: dict[object, tuple[int, list[int]]] = {}
        for group, offer in room.offers.items():
            for broker in offer.brokers:
                if not (offer.must or offer.free or (offer.again and room.repeats)):
                    continue
                # Brokers of one group with the same values lead equally far, but for the one that is used up.
                kind = group, self.tags.kind_of(topic, (broker,))
                if kind not in reached:
                    reached[kind] = 1 + self._ahead(topic, (*kept, broker), wanted, shut)[0], []
                reached[kind][1].append(broker)
        most = max((n for n, _ in reached.values()), default=0)
        return most, frozenset(b for n, brokers in reached.values() if n == most for b in brokers)


@dataclass(slots=True)
class PartitionGroup:
    """Partitions (by index) that share a room; with `steps` one copy of each is placed at a time.

    They then share what is `kept`, too, and want so many in the end. Members whose room differs only by the brokers
    that they keep may be joined: `keeps` has these, member by member, and the room names all brokers.
    """

    room: Room
    members: list[int] = field(default_factory=list)
    keeps: list[tuple[int, ...]] = field(default_factory=list)
    steps: TagSteps | None = None
    kept: tuple[int, ...] = ()
    wanted: int = 0

    @property
    def held(self) -> Counter[int]:
        """How many members keep each broker, where they are joined."""
        return Counter(b for row in self.keeps for b in row)

    def apart(self) -> "list[PartitionGroup]":
        """The members that keep the same brokers, each with their own room."""
        found: dict[tuple[int, ...], PartitionGroup] = {}
        for index, kept in zip(self.members, self.keeps, strict=True):
            key = tuple(sorted(kept))
            if key not in found:
                found[key] = PartitionGroup(self.room.without(kept))
            found[key].members.append(index)
        return list(found.values())


Flow = tuple[str | None, int, int]


def deal_units(
    members: Sequence[int], flows: Sequence[Flow], fresh: frozenset[str], charged: frozenset[str | None]
) -> dict[int, tuple[int, ...]]:
    """Give each member equally many brokers; `flows` are (rack, broker, units) in multiples of the members.

    Racks in `charged` use the allowance for repeats with every unit, `fresh` ones from their second unit
    in a member on; both lie first, so that each member's repeats stay within one of the average.
    """
    n = len(members)
    row = [broker for _, broker, amount in _rank_flows(flows, n, fresh, charged) for _ in range(amount)]
    order = scatter(n)
    dealt: dict[int, list[int]] = {m: [] for m in members}
    for j, broker in enumerate(row):
        dealt[members[order[j % n]]].append(broker)
    return {m: _rotate(sorted(brokers), m) for m, brokers in dealt.items()}


def _rank_flows(
    flows: Sequence[Flow], members: int, fresh: frozenset[str], charged: frozenset[str | None]
) -> list[Flow]:
    by_rack: dict[str | None, int] = {}
    for rack, _, amount in flows:
        by_rack[rack] = by_rack.get(rack, 0) + amount

    def rank(flow: Flow) -> tuple[int, bool, str, int]:
        rack, broker, _ = flow
        crowded = rack in fresh and by_rack[rack] > members
        return (0 if rack in charged else 1 if crowded else 2, rack is not None, rack or "", broker)

    return sorted(flows, key=rank)


def _rotate(brokers: list[int], turn: int) -> tuple[int, ...]:
    """Take turns at the front, so that no broker always gets the leader's place."""
    turn %= max(1, len(brokers))
    return (*brokers[turn:], *brokers[:turn])


def scatter(n: int) -> list[int]:
    """A permutation of 0..n-1 that puts neighbours far apart (a golden-ratio stride).

    Neighbouring partitions belong to one topic; blocks of units of one broker are thereby spread over topics.
    """
    stride = max(1, round(n * 0.6180339887498949))
    while gcd(stride, n) != 1:
        stride += 1
    return [(j * stride) % n for j in range(n)]


def deal_beside(joined: PartitionGroup, flows: Sequence[Flow]) -> dict[int, tuple[int, ...]] | None:
    """Give each joined member as many brokers as it lacks, none that it keeps; None if that was not found.

    Brokers that most of those take that can come first; each goes to the members that lack most, in turns.
    """
    import numpy as np

    room, n = joined.room, len(joined.members)
    held = joined.held
    keeps: dict[int, list[int]] = {broker: [] for _, broker, _ in flows}
    order = np.array(scatter(n), dtype=np.int64)
    turn = np.argsort(order)
    for m, row in enumerate(joined.keeps):
        for broker in row:
            if broker in keeps:
                keeps[broker].append(m)
    racks = {group: k for k, group in enumerate(room.offers)}
    owed, free, again = (
        np.repeat([[getattr(offer, name)] for offer in room.offers.values()], n, axis=1)
        for name in ("must", "free", "again")
    )
    loose, repeats = np.full(n, room.units, dtype=np.int64) - owed.sum(axis=0), np.full(n, room.repeats)
    chosen: list[list[Unit]] = [[] for _ in range(n)]
    left: list[Unit] = []
    start = 0
    for group, broker, amount in sorted(flows, key=lambda flow: (flow[2] - n + held[flow[1]], flow[1]), reverse=True):
        k = racks[group]
        fresh = (owed[k] > 0) | ((free[k] > 0) & (loose > 0))
        able = fresh | ((again[k] > 0) & (repeats > 0) & (loose > 0))
        able[keeps[broker]] = False
        lacking = loose + owed.sum(axis=0)
        who = np.nonzero(able)[0]
        who = who[np.lexsort(((turn[who] - start) % n, ~fresh[who], -lacking[who]))][:amount]
        left += [(broker, group)] * (amount - len(who))
        start = (start + amount) % n
        must = owed[k, who] > 0
        owed[k, who[must]] -= 1
        loose[who[~must]] -= 1
        first = who[~must & (free[k, who] > 0)]
        later = who[~must & (free[k, who] <= 0)]
        free[k, first] -= 1
        again[k, later] -= 1
        repeats[later] -= 1
        for m in who.tolist():
            chosen[m].append((broker, group))
    lacking = [m for m, row in enumerate(chosen) for _ in range(room.units - len(row))]
    if not all(_exchange(joined, chosen, m, unit) for m, unit in zip(lacking, left, strict=True)):
        return None
    return {m: _rotate(sorted(b for b, _ in row), m) for m, row in zip(joined.members, chosen, strict=True)}


Unit = tuple[int, Group]
"""A broker and its group."""


def _exchange(joined: PartitionGroup, chosen: Sequence[list[Unit]], m: int, unit: Unit) -> bool:
    """Give a lacking member one more unit: this one, or one of another member, which gets this one for it."""

    def fits(member: int, units: Sequence[Unit]) -> bool:
        names = [b for b, _ in units]
        counts = Counter(g for _, g in units)
        room = joined.room
        rest = {g: n - room.offers[g].must - room.offers[g].free for g, n in counts.items()}
        return (
            len(set(names)) == len(names)
            and not set(names).intersection(joined.keeps[member])
            and all(over <= room.offers[g].again for g, over in rest.items())
            and sum(over for over in rest.values() if over > 0) <= room.repeats
            and (len(units) < room.units or all(counts[g] >= offer.must for g, offer in room.offers.items()))
        )

    if fits(m, [*chosen[m], unit]):
        chosen[m].append(unit)
        return True
    for other, row in enumerate(chosen):
        for k, mine in enumerate(row):
            if other != m and fits(m, [*chosen[m], mine]) and fits(other, [*row[:k], *row[k + 1 :], unit]):
                chosen[m].append(mine)
                row[k] = unit
                return True
    return False


def deal_pool(takers: Sequence[int], brokers: "Ints", quota: "Ints", held: Sequence[Sequence[int]]) -> list[int]:
    """Give each taker one broker so that broker i is given `quota[i]` times.

    `takers` are partition numbers (repeated when they take several), `held[p]` what partition p has
    already. A broker's turns are spread over the whole row, so that neighbouring partitions, which mostly
    belong to one topic, get different brokers. Clashes are resolved by swapping with the nearest row that
    suits both; where none does, the taker gets the least used broker it can hold.
    """
    turns = [
        ((2 * k + 1) / (2 * amount), broker)
        for broker, amount in zip(brokers.tolist(), quota.tolist(), strict=True)
        for k in range(amount)
    ]
    row = [broker for _, broker in sorted(turns)]
    taken: dict[int, set[int]] = {}
    for j, p in enumerate(takers):
        mine = taken.setdefault(p, set(held[p]))
        if row[j] in mine:
            _swap(row, j, takers, taken, held)
        mine.add(row[j])
    return row


def _swap(
    row: list[int], j: int, takers: Sequence[int], taken: dict[int, set[int]], held: Sequence[Sequence[int]]
) -> None:
    mine = taken[takers[j]]
    for k in range(j + 1, len(row)):
        if row[k] not in mine:
            row[j], row[k] = row[k], row[j]
            return
    for k in range(j - 1, -1, -1):
        other = taken[takers[k]]
        if takers[k] != takers[j] and row[k] not in mine and row[j] not in other:
            other.remove(row[k])
            other.add(row[j])
            row[j], row[k] = row[k], row[j]
            return
    free = [b for b in sorted(set(row)) if b not in mine]
    if free:
        row[j] = min(free, key=lambda b: (row.count(b), b))
