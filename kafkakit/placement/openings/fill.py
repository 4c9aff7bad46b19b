"""One flow that fills open places, and chooses which replicas leave sets with too many, with the most even counts.

Partitions whose new copies may go to the same places form one group, so the flow is small.

A group's flow is dealt out to its partitions like cards: units lie in a row, and unit j goes to member j mod n. As no
broker has more than n units and they lie side by side, no member gets a broker twice; the same holds for racks with at
most n units, and the units of repeated racks are spread as evenly as they can be.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.group_rooms import Grouping, Offer, Room
from kafkakit.placement.group_rule import Group
from kafkakit.placement.group_steps import TagSteps
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.openings.surplus import Surplus, SurplusFlow
from kafkakit.placement.openings.ties import TieBreak

Flow = tuple[str | None, int, int]


def deal_units(
    members: Sequence[int],
    flows: Sequence[Flow],
    fresh: frozenset[str],
    *,
    charged: frozenset[str | None],
) -> dict[int, tuple[int, ...]]:
    """Give each member equally many brokers; `flows` are (rack, broker, units) in multiples of the members.

    Racks in `charged` use the allowance for repeats with every unit, `fresh` ones from their second unit
    in a member on; both lie first, so that each member's repeats stay within one of the average.
    """
    n = len(members)
    by_rack: dict[str | None, int] = {}
    for rack, _, amount in flows:
        by_rack[rack] = by_rack.get(rack, 0) + amount

    def rank(flow: Flow) -> tuple[int, bool, str, int]:
        rack, broker, _ = flow
        crowded = rack in fresh and by_rack[rack] > n
        return (0 if rack in charged else 1 if crowded else 2, rack is not None, rack or "", broker)

    row = [broker for _, broker, amount in sorted(flows, key=rank) for _ in range(amount)]
    order = scatter(n)
    dealt: dict[int, list[int]] = {m: [] for m in members}
    for j, broker in enumerate(row):
        dealt[members[order[j % n]]].append(broker)
    return {m: _rotated(sorted(brokers), m) for m, brokers in dealt.items()}


def _rotated(brokers: list[int], turn: int) -> tuple[int, ...]:
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


LEVEL_PRICE = 16
"""What a level costs where places in lists may outweigh it: places count up to one less."""
_MOST_EVENNESS = 10**9
Openings = Mapping[int, tuple[tuple[int, ...], int]]
"""By partition index the replicas kept and how many are wanted."""


@dataclass(slots=True)
class Alike:
    """Partitions (by index) that share a room; with `steps` one copy of each is placed at a time.

    They then share what is `kept`, too, and want so many in the end.
    """

    room: Room
    members: list[int] = field(default_factory=list)
    steps: TagSteps | None = None
    kept: tuple[int, ...] = ()
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class Wired:
    """The arcs into the brokers of one group of the rule."""

    block: int
    group: Group
    brokers: tuple[int, ...]


def alike(openings: Openings, grouping: Grouping, *, repairs: bool = True) -> list[Alike]:
    """Partitions by room, see `Grouping.room_beside`. O(openings)."""
    if grouping.rule.tags is not None:
        return _alike_by_tags(openings, TagSteps(grouping, grouping.rule.tags, repairs))
    rooms: dict[object, Alike] = {}
    matters: dict[object, bool] = {}
    for i, (kept, wanted) in openings.items():
        groups = wanted, len(kept), tuple(sorted(g for b in kept if (g := grouping.groups.get(b))))
        if groups not in matters:
            matters[groups] = grouping.kept_matter(kept, wanted, repairs=repairs)
        key = groups, tuple(sorted(kept)) if matters[groups] else ()
        found = rooms.get(key)
        if found is None:
            found = rooms[key] = Alike(grouping.room_beside(kept, wanted, repairs=repairs))
        found.members.append(i)
    return list(rooms.values())


def _alike_by_tags(openings: Openings, steps: TagSteps) -> list[Alike]:
    """Partitions by room where tags close brokers to some of them."""
    rooms: dict[object, Alike] = {}
    for i, (kept, wanted) in openings.items():
        units, open_to = steps.next_copy(i, kept, wanted)
        key = open_to, tuple(sorted(kept)), wanted, units
        found = rooms.get(key)
        if found is None and steps.tags.spreads:
            found = rooms[key] = Alike(Room(units, 0, {}), [], steps, kept, wanted)
        elif found is None:
            found = rooms[key] = Alike(steps.room(open_to, kept, wanted))
        found.members.append(i)
    return list(rooms.values())


def group_openings(openings: Openings, grouping: Grouping) -> tuple[list[Alike], dict[int, int]]:
    """Partitions by room; those that find too few places are left out and returned with how many copies found one."""
    fitting: list[Alike] = []
    unfit: dict[int, int] = {}
    for found in alike(openings, grouping):
        kept, wanted = openings[found.members[0]]
        if found.room.units == wanted - len(kept):
            fitting.append(found)
        else:
            unfit.update(dict.fromkeys(found.members, found.room.units))
    return fitting, unfit


def fill_openings(
    rooms: Sequence[Alike],
    loads: Mapping[int, int],
    surplus: Sequence[Surplus] = (),
    *,
    level_price: int | None = None,
    repeat_price: int | None = None,
    ties: TieBreak | None = None,
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """New brokers by partition index, and for sets with too many replicas those that stay.

    `loads` gives every broker that may receive or stays in such a set, with the replicas it holds already (those of
    these sets not counted). The loads come out as even as the rooms allow: no other filling has a lower maximum,
    then fewer brokers at it, and so on; `level_price` is what a level outweighs (None: all places in lists together).
    See `SurplusFlow` for the `repeat_price`; `ties` choose between equally even loads. Exact, but where copies are
    placed one at a time: then each of these flows is. Cost: O(members) to deal, and a flow over rooms times brokers.
    """
    import numpy as np

    if any(a.steps for a in rooms):
        return _fill_by_steps(rooms, loads, surplus, level_price, repeat_price, ties)
    brokers = sorted(loads)
    place = {b: k for k, b in enumerate(brokers)}
    choice = SurplusFlow(surplus, place, repeat_price)
    total = choice.total + sum(a.room.units * len(a.members) for a in rooms)
    if not total:
        return {}, {row.index: () for row in surplus}
    wired: list[list[Wired]] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        wired[:] = [wire_room(network, a.room, len(a.members), place, first) for a in rooms]
        choice.wire(network, first)
        return first

    base = np.array([loads[b] for b in brokers], dtype=np.int64)
    if level_price is None:
        # One level outweighs all places in lists together, unless that would come near the price of a stale copy.
        places = sum(min(k, LEVEL_PRICE - 1) for row in surplus for k in range(len(row.replicas)))
        most = _MOST_EVENNESS // (max(loads.values()) + total // len(brokers) + 1)
        level_price = max(LEVEL_PRICE, min(places + 1, most))
    network, levels = solve_levels(build, base, total, scale=level_price)
    if ties is not None:
        network = ties.solve(build, brokers, base, levels)
    chosen: dict[int, tuple[int, ...]] = {}
    for a, arcs in zip(rooms, wired, strict=True):
        flows = [
            (into.group, broker, amount)
            for into in arcs
            for broker, amount in zip(into.brokers, network.flow(into.block).tolist(), strict=True)
            if amount
        ]
        chosen.update(deal_units(a.members, flows, a.room.fresh, charged=a.room.charged))
    return chosen, choice.staying(network)


def _fill_by_steps(
    rooms: Sequence[Alike],
    loads: Mapping[int, int],
    surplus: Sequence[Surplus],
    level_price: int | None,
    repeat_price: int | None,
    ties: TieBreak | None,
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """`fill_openings` with one copy of each partition at a time; what looks at no tags is filled with the first."""
    held, chosen = Counter(loads), dict[int, tuple[int, ...]]()
    ready, staying = [a for a in rooms if a.steps is None], dict[int, tuple[int, ...]]()
    lacking = {m: (a, steps) for a in rooms if (steps := a.steps) is not None for m in a.members if a.room.units}
    while ready or lacking or surplus:
        now: dict[object, Alike] = {}
        for i, (a, steps) in lacking.items():
            kept = (*a.kept, *chosen.get(i, ()))
            units, open_to = steps.next_copy(i, kept, a.wanted)
            key = open_to, tuple(sorted(kept))
            if units and key not in now:
                now[key] = Alike(steps.room(open_to, kept, len(kept) + 1))
            if units:
                now[key].members.append(i)
        new, stay = fill_openings(
            [*ready, *now.values()], held, surplus, level_price=level_price, repeat_price=repeat_price, ties=ties
        )
        staying |= stay
        held.update(b for row in (*new.values(), *stay.values()) for b in row)
        for i, row in new.items():
            chosen[i] = (*chosen.get(i, ()), *row)
        ready, surplus = [], ()
        lacking = {i: pair for i, pair in lacking.items() if i in new and len(chosen[i]) < pair[0].room.units}
    return chosen, staying


def wire_room(network: FlowNetwork, room: Room, members: int, place: Mapping[int, int], first: int) -> list[Wired]:
    """Add the copies of so many partitions that share a room: partitions -> (repeats ->) group -> broker.

    `place` gives each broker's node, counted from `first`.
    """
    source = network.nodes(2)
    network.supply(source, members * (room.units - sum(offer.must for offer in room.offers.values())))
    network.arcs(source, source + 1, members * room.repeats, 0)
    return [_wire_group(network, source, members, g, offer, place, first) for g, offer in room.offers.items()]


def _wire_group(
    network: FlowNetwork,
    source: int,
    members: int,
    group: Group,
    offer: Offer,
    place: Mapping[int, int],
    first: int,
) -> Wired:
    import numpy as np

    node = network.nodes(1)
    if offer.must:
        network.supply(node, members * offer.must)
    if offer.free:
        network.arcs(source, node, members * offer.free, 0)
    if offer.again:
        network.arcs(source + 1, node, members * offer.again, 0)
    heads = np.array([first + place[b] for b in offer.brokers], dtype=np.int64)
    return Wired(network.arcs(node, heads, members, 0), group, offer.brokers)
