"""Open places: partitions that want new copies, grouped by where those may go.

Unlike a rebuild, the plain requests (drain, fix racks, place) tell who may receive from who may keep: a
replica can stay on a broker that takes nothing new. Partitions with the same room form one group, so the
flow that fills them is small.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.placement.group_rule import FillRoom, RackRule, fill_room

Racks = Mapping[int, str | None]


@dataclass(frozen=True, slots=True)
class RackRoom:
    """What one rack offers a partition: `must` copies go there, `free` more may, `again` more as a repeat."""

    brokers: tuple[int, ...]
    must: int = 0
    free: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """Where `units` new copies of a partition may go; at most `repeats` of them repeat a rack.

    `racks` maps a rack (None: brokers without one) to what it offers; `fresh` racks hold no replica yet.
    """

    units: int
    repeats: int
    racks: Mapping[str | None, RackRoom]
    fresh: frozenset[str] = frozenset()

    @property
    def charged(self) -> frozenset[str | None]:
        """Racks whose every unit uses up the allowance for repeats."""
        return frozenset(name for name, room in self.racks.items() if room.again and not room.free)


@dataclass(slots=True)
class Group:
    """Partitions (by index) that share a room."""

    room: Room
    members: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Receivers:
    """The brokers that may take new copies, by rack (None: without one), each list sorted."""

    by_rack: Mapping[str | None, tuple[int, ...]]

    @classmethod
    def of(cls, brokers: Sequence[int], racks: Racks) -> "Receivers":
        """Sort brokers into their racks."""
        found: dict[str | None, list[int]] = defaultdict(list)
        for broker in sorted(brokers):
            found[racks.get(broker) or None].append(broker)
        return cls({rack: tuple(found[rack]) for rack in sorted(found, key=lambda r: (r is not None, r or ""))})

    def beside(self, kept: Sequence[int]) -> dict[str | None, tuple[int, ...]]:
        """The same brokers without those that hold a kept replica."""
        held = set(kept)
        return {rack: tuple(b for b in ids if b not in held) for rack, ids in self.by_rack.items()}

    @property
    def rackless(self) -> bool:
        """True when a receiver has no rack."""
        return None in self.by_rack


def room_beside(kept: Sequence[int], wanted: int, receivers: Receivers, racks: Racks, rule: RackRule) -> Room:
    """The room for `wanted - len(kept)` new copies under the rack rule; `units` is how many fit.

    Under even spread they all fit or none does.
    """
    if rule.spread_over:
        return _even_room(kept, wanted, receivers, racks, rule)
    free = receivers.beside(kept)
    kept_racks = [racks.get(b) or None for b in kept]
    sizes = {rack: len(ids) for rack, ids in free.items() if rack is not None}
    used = {rack for rack in kept_racks if rack}
    rackless = len(free.get(None, ()))
    room = _mending_room(rule, kept_racks, sizes, rackless, wanted)
    room = room or fill_room(rule, kept_racks, sizes, rackless, wanted)
    offers: dict[str | None, RackRoom] = {}
    for rack, ids in free.items():
        if not ids:
            continue
        if rack is None:
            charged = room.rackless_repeats
            offers[rack] = RackRoom(ids, free=0 if charged else len(ids), again=len(ids) if charged else 0)
        elif rack not in used:
            offers[rack] = RackRoom(ids, free=1, again=len(ids) - 1)
        elif room.repeats:
            offers[rack] = RackRoom(ids, again=len(ids))
    fresh = frozenset(rack for rack in offers if rack and rack not in used)
    return Room(room.units, room.repeats, offers, fresh)


def _mending_room(
    rule: RackRule, kept_racks: Sequence[str | None], sizes: Mapping[str, int], rackless: int, wanted: int
) -> FillRoom | None:
    """The room where the replicas that stay repeat a rack before they span enough; None where they do not.

    New copies then go to unused racks first, until the set spans the racks it must, and only the others are
    free to repeat one or to do without. None too when there are too few copies to get that far.
    """
    spanned = len({r for r in kept_racks if r})
    units, lacking = wanted - len(kept_racks), rule.min_rack_ids - spanned
    if not rule.min_rack_ids or not rule.violates(kept_racks) or lacking > units:
        return None
    fresh = sum(1 for rack, n in sizes.items() if n and rack not in kept_racks)
    again = max(0, min(units - lacking, sum(sizes.values()) - fresh + rackless))
    return FillRoom(min(units, fresh + again) if fresh >= lacking else fresh, again, True)


def _even_room(kept: Sequence[int], wanted: int, receivers: Receivers, racks: Racks, rule: RackRule) -> Room:
    """The room under even spread: the racks that hold the fewest copies take them first.

    No other way to fill the racks is more even. Brokers without a rack may take the last copies, one a rack at most,
    where that keeps the rule too; more only where racks are too small.
    """
    held = [racks.get(b) or None for b in kept]
    free, units = receivers.beside(kept), wanted - len(kept)
    loose = free.get(None, ())
    broken = rule.violates(held, units)

    def lawful(new: Sequence[str | None]) -> bool:
        after = [*held, *new]
        return not rule.violates(after) or (broken and not rule.crowds(held, after))

    for out in range(min(units, len(loose)) + 1):
        must, lowest, left = _lowest_first(rule, Counter(held), free, units - out)
        inside = [rack for rack, n in must.items() for _ in range(n)]
        spare = [lawful([*inside, *lowest[: left - more], *[None] * (out + more)]) for more in range(left + 1)]
        if left > len(lowest) or not spare[0]:
            continue
        more = min([k - 1 for k, fits in enumerate(spare) if not fits] + [left, len(loose) - out])
        offers: dict[str | None, RackRoom] = {
            rack: RackRoom(free[rack], must=n, free=int(rack in lowest and left > 0))
            for rack, n in must.items()
            if n or (rack in lowest and left)
        }
        if out or more:
            offers[None] = RackRoom(loose, must=out, free=more)
        return Room(units, 0, offers)
    return Room(0, 0, {})


def _lowest_first(
    rule: RackRule, held: Mapping[str | None, int], free: Mapping[str | None, tuple[int, ...]], units: int
) -> tuple[dict[str, int], list[str], int]:
    """How many copies each rack must take, the racks of which some take one more, and how many those are."""
    must = dict.fromkeys(rule.spread_over, 0)
    while True:
        able = [rack for rack, n in must.items() if n < len(free.get(rack, ()))]
        level = min((held.get(rack, 0) + must[rack] for rack in able), default=0)
        lowest = [rack for rack in able if held.get(rack, 0) + must[rack] == level]
        if not lowest or len(lowest) >= units:
            return must, lowest, units
        for rack in lowest:
            must[rack] += 1
        units -= len(lowest)


def group_openings(
    openings: Mapping[int, tuple[tuple[int, ...], int]], receivers: Receivers, racks: Racks, rule: RackRule
) -> tuple[list[Group], dict[int, int]]:
    """Group partitions by room; `openings` maps an index to (kept replicas, wanted replicas).

    Partitions that find too few places are in no group; they are returned with how many copies found one.
    O(openings).
    """
    rooms: dict[object, Group] = {}
    for i, (kept, wanted) in openings.items():
        used = Counter(r for b in kept if (r := racks.get(b)))
        # Kept brokers matter one by one only where a new copy could land beside them.
        beside = rule.min_rack_ids > 0 or receivers.rackless or bool(rule.spread_over)
        key = (wanted, tuple(sorted(used.items())), tuple(sorted(kept)) if beside else len(kept))
        group = rooms.get(key)
        if group is None:
            group = rooms[key] = Group(room_beside(kept, wanted, receivers, racks, rule))
        group.members.append(i)
    fitting: list[Group] = []
    unfit: dict[int, int] = {}
    for group in rooms.values():
        kept, wanted = openings[group.members[0]]
        if group.room.units == wanted - len(kept):
            fitting.append(group)
        else:
            unfit.update(dict.fromkeys(group.members, group.room.units))
    return fitting, unfit
