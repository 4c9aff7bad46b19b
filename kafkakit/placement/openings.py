"""Open places filled by one flow with the most even counts, which also chooses who leaves sets with too many replicas.

Partitions whose new copies may go to the same places form one group, so the flow is small. A group's flow is dealt out
to its partitions like cards: units lie in a row, and unit j goes to member j mod n. As no broker has more than n units
and they lie side by side, no member gets a broker twice; this also holds for racks with at most n units, and the units
of repeated racks are spread as evenly as they can be. Among equally even fillings the one is taken that evens out
racks, then what brokers carry.

A plain request sees brokers as live or able to take copies. A new topic is spread over brokers, racks and leaders
first, then it levels the cluster. For sets with more replicas than may stay, the flow has the part

    partition -> (partition, group): `base` replicas of a group may stay, more only by a slot of its own, or at a price
              -> broker: at the price of that replica

How even the counts of a forced rebuild can be is a smaller flow: where every partition may sit on any target broker,
partitions of one replication factor are alike. Its answer is canonical: blocks of brokers to which every most even
placement keeps, each with its band and total.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.text import few_of, shell_command
from kafkakit.placement.broker_disks import takes_copies
from kafkakit.placement.group_rooms import Flow, Grouping, PartitionGroup, Room, TagSteps, deal_beside, deal_units
from kafkakit.placement.group_rule import Group, TagRules
from kafkakit.placement.leaders import candidates_of, choose_leaders, in_front, pass_leaders
from kafkakit.placement.network import Block, Build, FlowNetwork, Reach, blocks_of, solve_levels
from kafkakit.placement.problem import PlannedPartition

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints


Row = tuple[int, ...]
LEVEL_PRICE = 16
"""What a level costs where places in lists may outweigh it: places count up to one less."""
_MOST_EVENNESS = 10**9
Openings = Mapping[int, tuple[tuple[int, ...], int]]
"""By partition index the replicas kept and how many are wanted."""


@dataclass(frozen=True, slots=True)
class GroupArcs:
    """The arcs into the brokers of one group of the rule."""

    arcs: slice
    group: Group
    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WiredRooms:
    """The block that has the arcs of all rooms, and which of them lead to brokers, by room."""

    block: int
    rooms: list[list[GroupArcs]]

    def flows(self, network: FlowNetwork) -> list[list[Flow]]:
        """The units that each broker gets, by room, after a solve."""
        amounts = network.flow(self.block).tolist() if self.rooms else []
        return [
            [
                (into.group, broker, amount)
                for into in arcs
                for broker, amount in zip(into.brokers, amounts[into.arcs], strict=True)
                if amount
            ]
            for arcs in self.rooms
        ]


_SEPARATE_PAIRS = 50_000
"""Up to so many pairs of a room and a broker, partitions that keep different brokers have rooms of their own."""


def group_partitions(
    openings: Openings, grouping: Grouping, *, repairs: bool = True, separate_pairs: int = _SEPARATE_PAIRS
) -> list[PartitionGroup]:
    """Partitions by room, see `Grouping.room_beside`; joined where that would be many rooms. O(openings)."""
    if grouping.rule.tags is not None:
        return _alike_by_tags(openings, TagSteps(grouping, grouping.rule.tags, repairs), separate_pairs)
    matters: dict[object, bool] = {}
    keys: dict[int, tuple[object, Row]] = {}
    for i, (kept, wanted) in openings.items():
        if i in grouping.closed:
            continue
        groups: object = wanted, len(kept), tuple(sorted(g for b in kept if (g := grouping.groups.get(b))))
        if groups not in matters:
            matters[groups] = grouping.kept_matter(kept, wanted, repairs=repairs)
        keys[i] = groups, tuple(sorted(kept)) if matters[groups] else ()
    many = len(set(keys.values())) * len(grouping.taking) > separate_pairs
    rooms: dict[object, PartitionGroup] = {}
    for i, (groups, names) in keys.items():
        kept, wanted = openings[i]
        joined = many and matters[groups]
        key = groups, grouping.taking_groups(kept) if joined else names
        found = rooms.get(key)
        if found is None:
            room = grouping.room_beside(kept, wanted, repairs=repairs)
            found = rooms[key] = PartitionGroup(grouping.widened(room) if joined else room)
        found.members.append(i)
        if joined:
            found.keeps.append(kept)
    apart = {i: opening for i, opening in openings.items() if i not in keys}
    closed = _alike_by_tags(apart, TagSteps(grouping, TagRules(()), repairs), separate_pairs) if apart else []
    return [*rooms.values(), *closed]


def _alike_by_tags(openings: Openings, steps: TagSteps, separate_pairs: int) -> list[PartitionGroup]:
    """Partitions by room where tags, or log dirs without space, close brokers to some of them."""
    keys: dict[int, tuple[int, frozenset[int], Row]] = {}
    for i, (kept, wanted) in openings.items():
        units, open_to = steps.next_copy(i, kept, wanted)
        keys[i] = units, open_to, tuple(sorted(kept))
    rooms: dict[object, PartitionGroup] = {}
    many = not steps.tags.spreads and len(set(keys.values())) * len(steps.grouping.taking) > separate_pairs
    for i, (units, open_to, names) in keys.items():
        kept, wanted = openings[i]
        key: object = open_to, names, wanted, units
        if many:
            among = steps.grouping.narrowed(open_to)
            key = (
                open_to,
                tuple(sorted(g or "" for g in among.groups_of(kept))),
                among.taking_groups(kept),
                wanted,
                units,
            )
        found = rooms.get(key)
        if found is None and steps.tags.spreads:
            found = rooms[key] = PartitionGroup(Room(units, 0, {}), steps=steps, kept=kept, wanted=wanted)
        elif found is None:
            room = steps.room(open_to, kept, wanted)
            found = rooms[key] = PartitionGroup(steps.grouping.narrowed(open_to).widened(room) if many else room)
        found.members.append(i)
        if many:
            found.keeps.append(kept)
    return list(rooms.values())


def group_openings(openings: Openings, grouping: Grouping) -> tuple[list[PartitionGroup], dict[int, int]]:
    """Partitions by room; those that find too few places are left out and returned with how many copies found one."""
    fitting: list[PartitionGroup] = []
    unfit: dict[int, int] = {}
    for found in group_partitions(openings, grouping):
        kept, wanted = openings[found.members[0]]
        if found.room.units == wanted - len(kept):
            fitting.append(found)
        else:
            unfit.update(dict.fromkeys(found.members, found.room.units))
    return fitting, unfit


@dataclass(frozen=True, slots=True)
class Surplus:
    """A partition (by index) that keeps `stay` of its `replicas`; `prices` say what it costs to keep each.

    Replicas with equal `groups` share a group, -1 is none and always may stay. In each group `base` replicas may
    stay, and over all groups `slots` more, at most `extra` in one.
    """

    index: int
    replicas: tuple[int, ...]
    prices: tuple[int, ...]
    groups: tuple[int, ...]
    stay: int
    base: int = 1
    slots: int = 0
    extra: int = 0


@dataclass(frozen=True, slots=True)
class TieBreak:
    """The rack of each broker (one without a rack is a rack of its own), and what it carries beside the units."""

    racks: Mapping[int, str | None]
    carried: Mapping[int, int]

    def solve(self, build: Build, brokers: Sequence[int], base: "Ints", loads: "Ints") -> FlowNetwork:
        """Route the units of `build` again; the most even `loads` by broker position are known, `base` of them stand.

        Equally even loads differ by at most 1 on each broker, so steps beside the known loads are enough. As their
        sums of squares are equal, those that add least to the fuller brokers make what brokers carry most even. Exact,
        but that this is counted in at most 100,000 steps.
        """
        import numpy as np

        rack = np.unique([str(self.racks.get(b) or b) for b in brokers], return_inverse=True)[1]
        carried = np.array([self.carried[b] for b in brokers], dtype=object)
        carried -= carried.min()
        carried = (carried // max(1, -(-carried.max() // _MOST_STEPS))).astype(np.int64)
        # An exchange of one copy changes what is carried by less than a level of a rack, and all of this by less than
        # a level of a broker. Levels are numbered, since their order is all that counts.
        rack_price = int(carried.max()) + 1
        price = rack_price * (int(loads.sum()) + 2)
        low = np.maximum(loads - 1, base)
        levels = np.unique(np.concatenate([loads - 1, loads]))
        below, above = np.searchsorted(levels, loads - 1), np.searchsorted(levels, loads)
        at = np.arange(len(brokers))

        def with_racks(network: FlowNetwork) -> int:
            first = build(network)
            racks = network.nodes(int(rack.max()) + 1)
            network.arcs(first + at, racks + rack, low - base, carried)
            network.arcs(first + at, racks + rack, loads - low, carried + price * below)
            network.arcs(first + at, racks + rack, 1, carried + price * above)
            return racks

        standing = np.bincount(rack, weights=base).astype(np.int64)
        return solve_levels(with_racks, standing, int((loads - base).sum()), scale=rack_price)[0]


@dataclass(frozen=True, slots=True)
class OpeningsTask:
    """Rooms to fill, and sets with too many replicas.

    `loads` gives every broker that may receive or stays in such a set, with the replicas it holds already (those of
    these sets not counted). `level_price` is what a level outweighs (None: all places in lists together). See
    `SurplusFlow` for the `repeat_price`; `ties` choose between equally even loads.
    """

    rooms: Sequence[PartitionGroup]
    loads: Mapping[int, int]
    surplus: Sequence[Surplus] = ()
    level_price: int | None = None
    repeat_price: int | None = None
    ties: TieBreak | None = None


def fill_openings(task: OpeningsTask) -> tuple[dict[int, Row], dict[int, Row]]:
    """New brokers by partition index, and for sets with too many replicas those that stay.

    The loads come out as even as the rooms allow: no other filling has a lower maximum, then fewer brokers at it, and
    so on. Exact, but where copies are placed one at a time: then each of these flows is. Cost: O(members) to deal, and
    a flow over rooms times brokers.
    """
    if any(a.steps for a in task.rooms):
        return _fill_by_steps(task)
    while True:
        chosen, staying, failed = _fill(task)
        if not failed:
            return chosen, staying
        rooms = [one for k, a in enumerate(task.rooms) for one in (a.apart() if k in failed else [a])]
        task = replace(task, rooms=rooms)


def _fill(task: OpeningsTask) -> tuple[dict[int, Row], dict[int, Row], set[int]]:
    """`fill_openings` by one flow, and the joined rooms whose units cannot be dealt: these do not hold what was found.

    Joined members may get what each of them may get, but not all at once: where the units can be dealt, the filling
    is as even as it would be with rooms for each.
    """
    import numpy as np

    rooms, loads, surplus, level_price = task.rooms, task.loads, task.surplus, task.level_price
    brokers = sorted(loads)
    place = {b: k for k, b in enumerate(brokers)}
    choice = SurplusFlow(surplus, place, task.repeat_price)
    total = choice.total + sum(a.room.units * len(a.members) for a in rooms)
    if not total:
        return {}, {row.index: () for row in surplus}, set()
    wired: list[WiredRooms] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        wired[:] = [wire_rooms(network, [(a.room, len(a.members), a.held) for a in rooms], place, first)]
        choice.wire(network, first)
        return first

    base = np.array([loads[b] for b in brokers], dtype=np.int64)
    if level_price is None:
        # One level outweighs all places in lists together, unless that would come near the price of a stale copy.
        places = sum(min(k, LEVEL_PRICE - 1) for row in surplus for k in range(len(row.replicas)))
        most = _MOST_EVENNESS // (max(loads.values()) + total // len(brokers) + 1)
        level_price = max(LEVEL_PRICE, min(places + 1, most))
    network, levels = solve_levels(build, base, total, scale=level_price)
    if task.ties is not None:
        network = task.ties.solve(build, brokers, base, levels)
    chosen: dict[int, Row] = {}
    failed: set[int] = set()
    for k, (a, flows) in enumerate(zip(rooms, wired[0].flows(network), strict=True)):
        dealt = deal_beside(a, flows) if a.keeps else deal_units(a.members, flows, a.room.fresh, a.room.charged)
        if dealt is None:
            failed.add(k)
        else:
            chosen.update(dealt)
    return chosen, choice.staying(network), failed


def _fill_by_steps(task: OpeningsTask) -> tuple[dict[int, Row], dict[int, Row]]:
    """`fill_openings` with one copy of each partition at a time; what looks at no tags is filled with the first."""
    rooms, surplus = task.rooms, task.surplus
    held, chosen = Counter(task.loads), dict[int, Row]()
    ready, staying = [a for a in rooms if a.steps is None], dict[int, Row]()
    lacking = {m: (a, steps) for a in rooms if (steps := a.steps) is not None for m in a.members if a.room.units}
    while ready or lacking or surplus:
        now: dict[object, PartitionGroup] = {}
        for i, (a, steps) in lacking.items():
            kept = (*a.kept, *chosen.get(i, ()))
            units, open_to = steps.next_copy(i, kept, a.wanted)
            key = open_to, tuple(sorted(kept))
            if units and key not in now:
                now[key] = PartitionGroup(steps.room(open_to, kept, len(kept) + 1))
            if units:
                now[key].members.append(i)
        new, stay = fill_openings(replace(task, rooms=[*ready, *now.values()], loads=held, surplus=surplus))
        staying |= stay
        held.update(b for row in (*new.values(), *stay.values()) for b in row)
        for i, row in new.items():
            chosen[i] = (*chosen.get(i, ()), *row)
        ready, surplus = [], ()
        lacking = {i: pair for i, pair in lacking.items() if i in new and len(chosen[i]) < pair[0].room.units}
    return chosen, staying


@dataclass(slots=True)
class _ArcRows:
    """Arcs of many rooms, which become one block of a network."""

    tails: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    capacities: list[int] = field(default_factory=list)

    def add(self, tail: int, heads: Sequence[int], capacities: Sequence[int]) -> None:
        """Add the arcs of one tail."""
        self.tails.extend([tail] * len(heads))
        self.heads.extend(heads)
        self.capacities.extend(capacities)


def wire_rooms(
    network: FlowNetwork, rooms: Sequence[tuple[Room, int, Mapping[int, int]]], place: Mapping[int, int], first: int
) -> WiredRooms:
    """Add the copies of partitions that share a room, for each room: partitions -> (repeats ->) group -> broker.

    Each room has so many partitions, and says how many of them have a broker already. `place` gives each broker's
    node, counted from `first`.
    """
    import numpy as np

    arcs, wired = _ArcRows(), list[list[GroupArcs]]()
    for room, members, held in rooms:
        source = network.nodes(2)
        network.supply(source, members * (room.units - sum(offer.must for offer in room.offers.values())))
        arcs.add(source, [source + 1], [members * room.repeats])
        wired.append([])
        for group, offer in room.offers.items():
            node = network.nodes(1)
            if offer.must:
                network.supply(node, members * offer.must)
            if offer.free:
                arcs.add(source, [node], [members * offer.free])
            if offer.again:
                arcs.add(source + 1, [node], [members * offer.again])
            start, room_for = len(arcs.tails), [members] * len(offer.brokers)
            if held:
                room_for = [members - held.get(b, 0) for b in offer.brokers]
            arcs.add(node, [first + place[b] for b in offer.brokers], room_for)
            wired[-1].append(GroupArcs(slice(start, len(arcs.tails)), group, offer.brokers))
    tails, heads, most = (np.array(column, dtype=np.int64) for column in (arcs.tails, arcs.heads, arcs.capacities))
    return WiredRooms(network.arcs(tails, heads, most, 0) if rooms else -1, wired)


CLOSED_DIRS = "all log dirs cordoned or broken"
_THEIR_DIRS = "all their log dirs are cordoned or"


@dataclass(frozen=True, slots=True)
class BrokerPool:
    """The brokers of a snapshot; `replicas` and `leaders` count all topics, also those a request leaves out.

    `open` are the live brokers that may take new copies, `closed` the live ones whose every log dir is
    cordoned or broken, `leaving` the live ones that an operation empties: they take copies only where they are named.
    `excluded` are not open since a request says so; `cordoned` are those of the closed ones that are marked.
    """

    racks: Mapping[int, str | None]
    live: frozenset[int]
    open: frozenset[int]
    closed: frozenset[int]
    replicas: Mapping[int, int]
    leaders: Mapping[int, int]
    leaving: frozenset[int]
    excluded: frozenset[int] = frozenset()
    cordoned: frozenset[int] = frozenset()

    def without(self, excluded: frozenset[int]) -> "BrokerPool":
        """The pool if these brokers take no copies."""
        return replace(self, open=self.open - excluded, excluded=excluded)

    def receiving(self, named: Iterable[int] | None = None) -> tuple[int, ...]:
        """The brokers that may receive, in every command: all open ones, or those of the `named` that may.

        They are live, have a log dir that is open, and are not excluded; one that an operation empties must be named.
        """
        if named is None:
            return tuple(sorted(self.open))
        return tuple(sorted(self.live.intersection(named) - self.closed - self.excluded))

    def shut(self, named: Iterable[int]) -> dict[int, str]:
        """Those of the named brokers that are live and must not receive, each with the reason."""
        here = sorted(self.live.intersection(named))
        return {
            b: "excluded" if b in self.excluded else "cordoned" if b in self.cordoned else CLOSED_DIRS
            for b in here
            if b in self.closed or b in self.excluded
        }

    def closed_notes(self, named: Iterable[int]) -> tuple[str, ...]:
        """Notes on the named brokers that are cordoned, or whose every log dir is cordoned or broken."""
        closed = self.closed.intersection(named)
        rows = (closed & self.cordoned, "they are cordoned"), (closed - self.cordoned, f"{_THEIR_DIRS} broken")
        return tuple(f"brokers {few_of(sorted(ids))} take no new copies: {why}" for ids, why in rows if ids)

    def refuse_closed(self, flag: str, named: Iterable[int]) -> None:
        """Raise `UsageError` if one of the named brokers is closed."""
        closed = self.closed.intersection(named)
        if marked := sorted(closed & self.cordoned):
            uncordon = shell_command("broker uncordon", ",".join(map(str, marked)))
            raise UsageError(f"{flag}: broker {few_of(marked)} is cordoned", hint=f"leave it out, or: {uncordon}")
        if closed:
            raise UsageError(f"{flag}: every log dir of broker {few_of(sorted(closed))} is cordoned or broken")

    def named(self, broker: int) -> bool:
        """True when the cluster knows the broker, alive or not."""
        return broker in self.racks


def pool_of(snapshot: ClusterSnapshot) -> BrokerPool:
    """Count what every broker carries; preferred leaders are the first replicas. O(replicas)."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for topic in snapshot.topics:
        for partition in topic.partitions:
            replicas.update(partition.replicas)
            leaders.update(partition.replicas[:1])
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    cordoned = live & frozenset(snapshot.cordoned)
    closed = cordoned | {b.id for b in snapshot.brokers if b.is_alive and not takes_copies(b.log_dirs)}
    racks = {b.id: b.group for b in snapshot.brokers}
    leaving = snapshot.leaving
    return BrokerPool(racks, live, live - closed - leaving, closed, replicas, leaders, leaving, cordoned=cordoned)


def replace_replicas(
    partitions: Sequence[PlannedPartition], kept: Mapping[int, Row], chosen: Mapping[int, Row], pool: BrokerPool
) -> list[Row]:
    """All lists, those of partition i with `chosen[i]` in place of what is not in `kept[i]`; the others stay.

    Staying replicas keep their places and new ones take those that come free. A leadership passes on only when its
    broker leaves: to a staying replica that lives and is in sync, so that it need not wait for the copy, or where
    none is, to a live or a new one. Among those the counts of leaders come out as even as can be, all other
    leaderships fixed.
    """
    passing = [i for i in sorted(chosen) if partitions[i].current[0] not in kept[i]]
    led = Counter(pool.leaders)
    led.subtract(partitions[i].current[0] for i in passing)
    candidates = [_candidates(partitions[i], kept[i], chosen[i], pool) for i in passing]
    leaders = dict(zip(passing, pass_leaders(candidates, led), strict=True))
    lists = [p.current for p in partitions]
    for i, new in chosen.items():
        supply = iter(new)
        places = [b if b in kept[i] else next(supply) for b in lists[i]]
        if i in leaders:
            # The new leader and the copy in the leader's old place are swapped, so that no other copy moves.
            at = places.index(leaders[i])
            places[0], places[at] = places[at], places[0]
        lists[i] = tuple(places)
    return lists


def _candidates(partition: PlannedPartition, kept: Row, new: Row, pool: BrokerPool) -> Row:
    alive = tuple(b for b in kept if b in pool.live)
    in_sync = partition.in_sync
    ready = alive if in_sync is None else tuple(b for b in alive if b in in_sync)
    return ready or alive or new


def place_new_topic(
    rooms: Sequence[PartitionGroup],
    racks: Mapping[int, str | None],
    carried: Mapping[int, int],
    led: Mapping[int, int],
    present: Sequence[Row] = (),
) -> list[Row]:
    """The list of each new partition, the leader first; `rooms` are those of all of them (by index, from 0).

    `present` are the lists of partitions that the topic has, which stay and count.
    The topic's replicas come out as even over the brokers of `carried` as the rooms allow, then as even over racks,
    then next to what brokers carry; its leaders as even as the sets allow, then next to the leaderships in `led`.
    Raises nothing. Costs two flows over rooms times brokers, and one over partitions times replicas.
    """
    held = Counter(b for row in present for b in row)
    chosen, _ = fill_openings(OpeningsTask(rooms, {b: held[b] for b in carried}, ties=TieBreak(racks, carried)))
    # A list of one can have no other leader.
    leaders = [row[:1] for row in present if row and row[0] in carried]
    return _with_leaders([*leaders, *(chosen[i] for i in range(len(chosen)))], led)[len(leaders) :]


def _with_leaders(sets: Sequence[Row], led: Mapping[int, int]) -> list[Row]:
    import numpy as np

    brokers = sorted({b for row in sets for b in row})
    who = candidates_of(sets, brokers)
    others = np.array([led.get(b, 0) for b in brokers], dtype=np.int64)
    others -= others.min(initial=0)
    # A chain of changes passes each broker once, so that it changes the sum of the places in lists by less than this.
    place_price = len(brokers) * max(map(len, sets), default=1) + 1
    priced = replace(who, cost=who.cost + place_price * others[who.broker])
    chosen = choose_leaders(priced, level_price=place_price * (int(others.max(initial=0)) + 2))
    return in_front(sets, who, chosen, brokers)


class SurplusFlow:
    """The part of a network that chooses who stays; arrays are made once and wired for every solve."""

    def __init__(self, rows: Sequence[Surplus], place: Mapping[int, int], repeat_price: int | None) -> None:
        """Lay the replicas out; `place` gives each broker's node, counted from the first.

        With a `repeat_price` every replica beyond its group's base pays it, and slots are not counted.
        """
        import numpy as np

        def column(values: Sequence[int]) -> "Ints":
            return np.array(values, dtype=np.int64)

        self._rows, self._repeat_price = rows, repeat_price
        self._part = column([n for n, row in enumerate(rows) for _ in row.replicas])
        self._broker = column([place[b] for row in rows for b in row.replicas])
        self._price = column([price for row in rows for price in row.prices])
        group = column([g for row in rows for g in row.groups])
        self._grouped = group >= 0
        most = int(group.max(initial=0)) + 1
        cells = self._part[self._grouped] * most + group[self._grouped]
        unique, self._cell, self._size = np.unique(cells, return_inverse=True, return_counts=True)
        self._cell_row = unique // most
        self._stay, self._base, self._slots, self._extra = (
            column([getattr(row, name) for row in rows]) for name in ("stay", "base", "slots", "extra")
        )
        self._block = -1

    def wire(self, network: FlowNetwork, brokers: int) -> None:
        """Add the partitions to a network whose broker nodes start at `brokers`."""
        import numpy as np

        if not self._rows:
            return
        count, cells = len(self._rows), len(self._cell_row)
        index, cell_index = np.arange(count), np.arange(cells)
        source = network.nodes(count)
        priced = self._repeat_price is not None
        slots = source if priced else network.nodes(count)
        cell = network.nodes(cells)
        network.supply(source + index, self._stay)
        if not priced:
            network.arcs(source + index, slots + index, self._slots, 0)
        network.arcs(source + self._cell_row, cell + cell_index, self._base[self._cell_row], 0)
        again = np.nonzero(self._size > 1)[0] if priced else cell_index
        most = self._size if priced else self._extra[self._cell_row]
        network.arcs(slots + self._cell_row[again], cell + again, most[again], self._repeat_price or 0)
        tails = source + self._part
        tails[self._grouped] = cell + self._cell
        self._block = network.arcs(tails, brokers + self._broker, 1, self._price)

    def staying(self, network: FlowNetwork) -> dict[int, tuple[int, ...]]:
        """The replicas that stay, by partition index, after a solve."""
        if not self._rows:
            return {}
        flow = iter(network.flow(self._block).tolist())
        return {row.index: tuple(b for b in row.replicas if next(flow)) for row in self._rows}

    @property
    def total(self) -> int:
        """How many replicas stay in all."""
        return sum(row.stay for row in self._rows)


_MOST_STEPS = 10**5


def even_blocks(
    brokers: Sequence[int], rooms: Mapping[tuple[int, int], Room], counts: Mapping[tuple[int, int], int]
) -> list[Block]:
    """Blocks of the most even placement of `counts[key]` partitions for each kind and replication factor.

    `rooms[key]` is the room of a partition placed from nothing. The network has (keys x brokers) arcs, whatever the
    number of partitions.
    """
    total = sum(rooms[key].units * n for key, n in counts.items())
    if not total:
        return [Block(tuple(range(len(brokers))), 0, 0)]
    place = {b: k for k, b in enumerate(brokers)}

    def build(network: FlowNetwork) -> int:
        first = network.nodes(len(brokers))
        wire_rooms(network, [(rooms[key], n, {}) for key, n in sorted(counts.items())], place, first)
        return first

    network, loads = solve_levels(build, [0] * len(brokers), total)
    return blocks_of(loads.tolist(), _exchanges(network, len(brokers)))


def _exchanges(network: FlowNetwork, brokers: int) -> Reach:
    """For each broker, the brokers that could take one of its units, by any chain that leaves the totals alone."""
    tails, heads, _ = network.residual()
    sink = network.node_count - 1
    steps: dict[int, list[int]] = {}
    for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
        if sink not in (tail, head):
            # A unit given up at a broker walks back along arcs with flow, and forward where there is capacity left.
            steps.setdefault(tail, []).append(head)

    def reach(start: int) -> set[int]:
        seen = {start}
        queue = [start]
        while queue:
            for node in steps.get(queue.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    queue.append(node)
        return {node for node in seen if node < brokers}

    return reach
