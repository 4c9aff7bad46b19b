"""A placement as arrays, one slot per replica, and the state of a search over it.

Arrays let millions of replicas be handled at numpy's speed. The state says where each moved replica is now and what
every broker holds. Slots are also kept sorted by size, up to date while searching: those that move, and those still at
home on each broker. What leaves a broker is a subset whose sizes add up to what must go, and hardly more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.placement.group_numbers import NumberedGroups, group_numbers, numbered_rule
from kafkakit.placement.group_rule import SlotTags, SpreadRule, TagRules
from kafkakit.placement.leaders import LeaderLimits

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


@dataclass(frozen=True, slots=True)
class CountLimits:
    """How many slots each broker may end with, at least and at most."""

    floor: tuple[int, ...]
    ceiling: tuple[int, ...]

    def outside(self, counts: Sequence[int]) -> int:
        """How many slots are too many or too few."""
        return sum(
            max(0, n - high) + max(0, low - n) for n, low, high in zip(counts, self.floor, self.ceiling, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTable:
    """Replica slots of many partitions on many brokers, all by index.

    Slot arrays have one entry per replica, partition by partition (`first[p]:first[p + 1]` are p's slots):
    `part` its partition, `home` its broker, `movable` whether a plan may move it. `size[p]` is the load of one
    copy, `still[p]` says that p is pinned or too small to move. Broker arrays: `rack` numbers racks (0 to `racks` - 1;
    a rackless broker has a higher number of its own), `receiver` says who may get copies, `fixed` is load that no
    slot stands for.
    At most `most_broken` partitions may end with a set that breaks the rack rule (None: those that do may stay so).
    `counts` limits the number of slots of each broker, beside their load, and `leaders` who may lead. `rule` calls
    racks by their numbers, `tags` are constraints beside it.
    """

    brokers: tuple[int, ...]
    rack: Ints
    racks: int
    receiver: Bools
    fixed: Ints
    first: Ints
    part: Ints
    home: Ints
    movable: Bools
    still: Bools
    size: Ints
    rule: SpreadRule
    locality_scoped: bool = False
    most_broken: int | None = None
    counts: CountLimits | None = None
    leaders: LeaderLimits | None = None
    tags: SlotTags | None = None

    @property
    def pool(self) -> Ints:
        """Each broker's rack, with one number for all rackless brokers together."""
        import numpy as np

        return np.minimum(self.rack, self.racks)

    @property
    def groups(self) -> NumberedGroups:
        """The rule on these numbers."""
        return NumberedGroups.of(self.rule, self.racks)

    @property
    def slot_size(self) -> Ints:
        """The load of each slot."""
        return self.size[self.part]

    def loads(self, at: Ints) -> Ints:
        """Each broker's load with slots on the brokers `at`, fixed load included."""
        return self.fixed + sum_by_index(at, self.slot_size, len(self.brokers))

    def cost(self, at: Ints) -> int:
        """What it costs to get there: the load of all copies on brokers that had none of that partition."""
        return int(self.slot_size[at != self.home].sum())


def sum_by_index(index: Ints, weights: Ints, length: int) -> Ints:
    """The exact integer sum of weights by index (numpy's own bincount adds in floating point)."""
    import numpy as np

    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, index, weights)
    return total


def make_table(
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int],
    racks: Mapping[int, str | None],
    rule: SpreadRule,
    *,
    receivers: Collection[int],
    givers: Collection[int] | None = None,
    pinned: Collection[int] = (),
    smallest: int = 0,
    fixed: Mapping[int, int] | None = None,
    locality_scoped: bool = False,
    most_broken: int | None = None,
    topics: Sequence[str] = (),
    keys: Iterable[TopicPartition] = (),
) -> SlotTable:
    """Build the arrays from replica lists and sizes (load of one copy each).

    `topics` are those of the lists, for a rule with tags, and `keys` for one that closes brokers to partitions.

    `receivers` may get copies, `givers` may lose them (None: all), `pinned` are indices of partitions that stay
    as they are, as do those smaller than `smallest`. O(replicas), 0.3 s for 600,000.
    """
    import itertools

    import numpy as np

    held = {b for row in lists for b in row}
    brokers = tuple(sorted(held | set(receivers) | set(fixed or {})))
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    first = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int64, count=int(first[-1]))
    home = np.searchsorted(np.array(brokers, dtype=np.int64), ids)
    part = np.repeat(np.arange(len(lists)), lengths)
    size = np.array(sizes, dtype=np.int64)
    stays = np.zeros(len(lists), dtype=bool)
    stays[list(pinned)] = True
    stays |= size < smallest
    movable = ~stays[part]
    if givers is not None:
        gives = np.array([b in givers for b in brokers], dtype=bool)
        movable &= gives[home]
    numbers, rack_count = group_numbers(brokers, racks)
    closed = rule.closed.by_index(keys)
    return SlotTable(
        brokers=brokers,
        rack=numbers,
        racks=rack_count,
        receiver=np.array([b in receivers for b in brokers], dtype=bool),
        fixed=np.array([(fixed or {}).get(b, 0) for b in brokers], dtype=np.int64),
        first=first,
        part=part,
        home=home,
        movable=movable,
        still=stays,
        size=size,
        rule=numbered_rule(rule, brokers, racks),
        locality_scoped=locality_scoped,
        most_broken=most_broken,
        tags=SlotTags(rule.tags or TagRules(()), topics, brokers, closed, proven=rule.closed.proven)
        if rule.tags is not None or closed
        else None,
    )


MOST_TESTS = 600_000
"""Tests of a slot against the rules after which one plan is repaired no further: about 3 s."""


class SearchState:
    """Loads and moved slots while a plan is being found; plain Python numbers, for loops over moved slots.

    `load[b]` is broker b's load, `moved[s]` the broker that slot s goes to, `arrived[b]` the moved slots on b.
    `tested` counts how often a slot was held against the rules: the search's work, the same on every machine. A plan is
    repaired no further after `most_tests` of them.
    """

    def __init__(self, table: SlotTable, floor: list[int], ceiling: list[int], *, most_tests: int = MOST_TESTS) -> None:
        self.table = table
        self.floor = floor
        self.ceiling = ceiling
        self.load: list[int] = table.loads(table.home).tolist()
        self.tested, self.most_tests = 0, most_tests
        self.moved: dict[int, int] = {}
        self.arrived: list[dict[int, None]] = [{} for _ in table.brokers]
        # Plain lists: reading one number of an array costs many times as much, and searches read millions.
        self._part: list[int] = table.part.tolist()
        self._home: list[int] = table.home.tolist()
        self._first: list[int] = table.first.tolist()
        self._size: list[int] = table.size.tolist()
        self._rack: list[int] = table.pool.tolist()
        self._groups = table.groups
        self._openings = {k for k, b in enumerate(table.brokers) if b < 0}
        self._takes: list[bool] = table.receiver.tolist()
        self._lone = (
            len(table.part) == len(table.size)
            and table.most_broken is None
            and table.tags is None
            and not (table.locality_scoped or self._openings)
        )
        """Partitions of one slot, for which no rule asks where it goes."""
        self._receiving = sorted({r for r, takes in zip(self._rack, self._takes, strict=True) if takes})

    def size(self, slot: int) -> int:
        """The load of one slot."""
        return self._size[self._part[slot]]

    def home(self, slot: int) -> int:
        """The broker that holds the slot before the plan."""
        return self._home[slot]

    def part(self, slot: int) -> int:
        """The slot's partition."""
        return self._part[slot]

    def broker(self, slot: int) -> int:
        """Where the slot is now."""
        found = self.moved.get(slot)
        return self._home[slot] if found is None else found

    def siblings(self, slot: int) -> Iterator[int]:
        """The slots of the same partition, without this one."""
        part = self._part[slot]
        for other in range(self._first[part], self._first[part + 1]):
            if other != slot:
                yield other

    def legal(self, slot: int) -> tuple[set[int], list[int]]:
        """Where the rules let a slot go: brokers that it must not go to, and the racks (`SlotTable.pool`) that it may.

        A set that breaks the rack rule from the start may stay as it was; no move makes it worse.
        """
        brokers = {self.broker(s) for s in self.siblings(slot)}
        home, around = self.home(slot), [self._rack[b] for b in brokers]
        openings = len(brokers & self._openings) if self._openings else 0
        if self.table.tags is not None:
            brokers = brokers | self.table.tags.shut(self._part[slot], brokers, self._homes(slot))
        if self.table.locality_scoped:
            return brokers | {home}, [self._rack[home]]
        return brokers | {home}, self._groups.open_groups(
            around, self._rack[home], self._receiving, openings, lambda: self._at_home(slot)
        )

    def _at_home(self, slot: int) -> tuple[list[int], int]:
        """The racks of the slot's partition before the plan, and how many of its slots are openings."""
        homes = self._homes(slot)
        return [self._rack[b] for b in homes], sum(b in self._openings for b in homes)

    def _homes(self, slot: int) -> list[int]:
        part = self._part[slot]
        return self._home[self._first[part] : self._first[part + 1]]

    def fits(self, slot: int, dest: int) -> bool:
        """True when the rules let the slot go to `dest`, limits aside; home is where it may go back to.

        Where only so many sets may break the rack rule, one that was repaired stays so.
        """
        self.tested += 1
        if self._lone:
            return self._takes[dest] or dest == self.home(slot)
        if self.table.most_broken is not None and self._breaks_anew(slot, dest):
            return False
        if dest == self.home(slot):
            return self._may_return(slot)
        if not self._takes[dest]:
            return False
        if self.table.tags is not None and not self.table.tags.may_hold(self._part[slot], dest):
            return False
        brokers, racks = self.legal(slot)
        return dest not in brokers and self._rack[dest] in racks

    def _breaks_anew(self, slot: int, dest: int) -> bool:
        around = [self._rack[self.broker(s)] for s in self.siblings(slot)]
        now, then = ([*around, self._rack[b]] for b in (self.broker(slot), dest))
        return self._groups.violates(then) and not self._groups.violates(now)

    def _may_return(self, slot: int) -> bool:
        home = self.home(slot)
        around = [self.broker(s) for s in self.siblings(slot)]
        if home in around:
            return False
        if not any(s in self.moved for s in self.siblings(slot)):
            return True  # as it was before the plan
        if self.table.tags is not None and not self.table.tags.may_return(home, around, self._homes(slot)):
            return False
        racks = [self._rack[b] for b in around]
        if self.table.locality_scoped:
            return not self._groups.violates([*racks, self._rack[home]])
        openings = len(self._openings.intersection(around)) if self._openings else 0
        return self._groups.may_return(racks, self._rack[home], openings, lambda: self._at_home(slot))

    def move(self, slot: int, dest: int) -> None:
        """Put the slot on `dest`."""
        size, source = self.size(slot), self.broker(slot)
        self.load[source] -= size
        self.load[dest] += size
        self.arrived[source].pop(slot, None)
        if dest == self.home(slot):
            self.moved.pop(slot, None)
        else:
            self.moved[slot] = dest
            self.arrived[dest][slot] = None

    def can_take(self, broker: int, size: int) -> bool:
        """True when so much more stays below the broker's ceiling."""
        return self.load[broker] + size <= self.ceiling[broker]

    def can_give(self, broker: int, size: int) -> bool:
        """True when so much less stays above the broker's floor."""
        return self.load[broker] - size >= self.floor[broker]

    def cost(self) -> int:
        """The load of all moved slots."""
        return sum(map(self.size, self.moved))

    def outside(self) -> int:
        """The load outside the limits."""
        return sum(
            max(0, load - high) + max(0, low - load)
            for load, low, high in zip(self.load, self.floor, self.ceiling, strict=True)
        )


Entry = tuple[int, int]
"""(size, slot)"""
NEAR = 48
"""How many slots are looked at on either side of a wanted size."""


class Pools:
    """The state's slots by size; `take` makes a step on the state and keeps the lists right."""

    def __init__(self, state: SearchState) -> None:
        import numpy as np

        table = state.table
        slots = np.nonzero(table.movable)[0]
        order = np.lexsort((slots, table.size[table.part[slots]], table.home[slots]))
        self.state = state
        self._slots = slots[order]
        self._sizes = table.size[table.part[self._slots]]
        homes = table.home[self._slots]
        self._starts: Ints = np.searchsorted(homes, np.arange(len(table.brokers) + 1))
        self._lists: dict[int, list[Entry]] = {}
        self.givers: list[int] = np.unique(homes).tolist()
        self.giving = frozenset(self.givers)
        self.receivers: list[int] = np.nonzero(table.receiver)[0].tolist()
        self.moved: list[Entry] = sorted((state.size(s), s) for s in state.moved)
        self._arrived: dict[int, list[Entry]] = {}
        self._arrived_from: dict[int, dict[int, list[Entry]]] = {}

    def unmoved_slots(self, broker: int) -> list[Entry]:
        """The movable slots that are still at home on a broker, smallest first."""
        entries = self._lists.get(broker)
        if entries is None:
            begin, end = self._starts[broker], self._starts[broker + 1]
            every = zip(self._sizes[begin:end].tolist(), self._slots[begin:end].tolist(), strict=True)
            entries = self._lists[broker] = [e for e in every if e[1] not in self.state.moved]
        return entries

    def arrived(self, broker: int) -> list[Entry]:
        """The slots that came to a broker, smallest first."""
        entries = self._arrived.get(broker)
        if entries is None:
            entries = self._arrived[broker] = sorted((self.state.size(s), s) for s in self.state.arrived[broker])
        return entries

    def arrived_from(self, broker: int) -> dict[int, list[Entry]]:
        """The slots that came to a broker, by the broker that they came from."""
        found = self._arrived_from.get(broker)
        if found is None:
            found = self._arrived_from[broker] = {}
            for entry in self.arrived(broker):
                found.setdefault(self.state.home(entry[1]), []).append(entry)
        return found

    def take(self, step: Sequence[tuple[int, int]]) -> None:
        """Make the moves (slot, destination) of a step."""
        for slot, dest in step:
            state, home = self.state, self.state.home(slot)
            was, source = slot in state.moved, state.broker(slot)
            state.move(slot, dest)
            for broker in (source, dest):
                self._arrived.pop(broker, None)
                self._arrived_from.pop(broker, None)
            if was == (slot in state.moved):
                continue
            entry = (state.size(slot), slot)
            _change(self.moved, entry, add=not was)
            if home in self._lists:
                _change(self._lists[home], entry, add=was)


def _change(entries: list[Entry], entry: Entry, *, add: bool) -> None:
    if add:
        insort(entries, entry)
    else:
        at = bisect_left(entries, entry)
        if at < len(entries) and entries[at] == entry:
            del entries[at]


def entries_near(entries: Sequence[Entry], size: int, near: int = NEAR) -> Iterator[Entry]:
    """Entries near a size: those at or above it first, smallest first, then those below, largest first."""
    at = bisect_left(entries, (size, -1))
    yield from entries[at : at + near]
    yield from reversed(entries[max(0, at - near) : at])


def sample_evenly(entries: Sequence[Entry]) -> Sequence[Entry]:
    """At most `NEAR` entries, evenly over all sizes."""
    return entries if len(entries) <= NEAR else [entries[i * len(entries) // NEAR] for i in range(NEAR)]


Quota = tuple[int, int, int]
"""(begin, end, load): items begin..end, sorted by falling size, should give about that load; as few as possible."""


def choose(sizes: Sequence[int], quotas: Sequence[Quota], need: int) -> list[int]:
    """Positions of items that add up to at least `need`, with the least excess found; few items, large ones first.

    The quotas together cover what may leave. If everything together is less than `need`, all of it is chosen.
    O(chosen x log(items)).
    """
    chosen: list[int] = []
    for begin, end, load in quotas:
        chosen += _choose_nearest(sizes, begin, end, load)
    rest = need - sum(sizes[i] for i in chosen)
    if rest > 0:
        chosen = _close_rest(sizes, chosen, [i for b, e, _ in quotas for i in range(b, e)], rest)
        rest = need - sum(sizes[i] for i in chosen)
    return _without_spare(sizes, chosen, -rest)


def _choose_nearest(sizes: Sequence[int], begin: int, end: int, load: int) -> list[int]:
    """Items that add up to nearly `load`: a first choice, then one exchange that brings the sum closest."""
    taken = _largest_first(sizes, begin, end, load)
    rest = load - sum(sizes[i] for i in taken)
    inside = set(taken)
    free = [i for i in range(end - 1, begin - 1, -1) if i not in inside]
    weights = [sizes[i] for i in free]
    best, exchange = abs(rest), None
    for n, old in [(-1, 0), *((n, sizes[i]) for n, i in enumerate(taken))]:
        at = bisect_left(weights, old + rest)
        for near in (at - 1, at):
            if 0 <= near < len(free) and abs(rest + old - weights[near]) < best:
                best, exchange = abs(rest + old - weights[near]), (n, near)
    if exchange is not None:
        n, near = exchange
        if n >= 0:
            taken[n] = free[near]
        else:
            taken.append(free[near])
    return taken


def _largest_first(sizes: Sequence[int], begin: int, end: int, load: int) -> list[int]:
    """Take the largest item that still fits, again and again, never above `load`."""
    taken = []
    at = begin
    while load > 0 and at < end:
        at = bisect_left(sizes, -load, at, end, key=lambda size: -size)
        if at < end:
            taken.append(at)
            load -= sizes[at]
            at += 1
    return taken


def _without_spare(sizes: Sequence[int], chosen: list[int], spare: int) -> list[int]:
    """Drop the largest chosen items that are not needed, then exchange one for a smaller that still does."""
    kept = []
    for i in sorted(chosen, key=lambda i: (-sizes[i], i)):
        if 0 < sizes[i] <= spare:
            spare -= sizes[i]
        else:
            kept.append(i)
    return kept


def _close_rest(sizes: Sequence[int], chosen: list[int], every: list[int], rest: int) -> list[int]:
    """Add one item, or exchange a chosen one for a larger, so that the rest is met with the least excess."""
    inside = set(chosen)
    free = sorted((i for i in every if i not in inside), key=lambda i: (sizes[i], i))
    weights = [sizes[i] for i in free]
    while rest > 0 and free:
        best: tuple[int, int, int, int] | None = None  # excess, extra items, position in free, chosen index or -1
        at = bisect_left(weights, rest)
        if at < len(free):
            best = (weights[at] - rest, 1, at, -1)
        for n, i in enumerate(chosen):
            at = bisect_left(weights, sizes[i] + rest)
            if at < len(free):
                option = (weights[at] - sizes[i] - rest, 0, at, n)
                best = option if best is None or option < best else best
        if best is None:  # even the largest is too small: take it and continue
            rest -= weights.pop()
            chosen.append(free.pop())
            continue
        _, _, at, n = best
        if n >= 0:
            chosen[n] = free[at]
        else:
            chosen.append(free[at])
        break
    return chosen


def positions(state: SearchState) -> Ints:
    """The broker of every slot now."""
    at = state.table.home.copy()
    for slot, dest in state.moved.items():
        at[slot] = dest
    return at


def counts_of(table: SlotTable, at: Ints) -> list[int]:
    """The number of slots on each broker."""
    import numpy as np

    counts: list[int] = np.bincount(at, minlength=len(table.brokers)).tolist()
    return counts


_TRIES = 6  # receivers looked at in one rack before it counts as full for a slot


class Receivers:
    """Receivers by rack, the emptiest first; emptiness is load above the floor, as a part of the room."""

    def __init__(self, state: SearchState) -> None:
        self._state = state
        self._rack: list[int] = state.table.pool.tolist()
        self._heaps: dict[int, list[tuple[int, int]]] = {}
        for b, takes in enumerate(state.table.receiver.tolist()):
            if takes:
                self._heaps.setdefault(self._rack[b], []).append((self.fill(b), b))
        for heap in self._heaps.values():
            heapify(heap)

    def fill(self, broker: int) -> int:
        """How full a broker is: 0 at its floor, 2**20 at its ceiling, below 0 under the floor."""
        state = self._state
        room = state.ceiling[broker] - state.floor[broker]
        return ((state.load[broker] - state.floor[broker]) << 20) // max(room, 1)

    def emptiest(self, slot: int, first: Sequence[int]) -> int | None:
        """The emptiest receiver that may take the slot and stays below its ceiling; the racks `first` come first."""
        state, size = self._state, self._state.size(slot)
        brokers, racks = state.legal(slot)
        best: tuple[int, int] | None = None
        for rack in first:
            if rack in racks:
                best = self._top(rack, size, brokers, best)
        if best is None:
            for rack in racks:
                best = self._top(rack, size, brokers, best)
        return None if best is None else best[1]

    def _top(self, rack: int, size: int, brokers: set[int], best: tuple[int, int] | None) -> tuple[int, int] | None:
        """The better of `best` and the emptiest broker of this rack that has the room."""
        state, heap, aside = self._state, self._heaps.get(rack, []), []
        while heap:
            fill, broker = heap[0]
            if best is not None and best <= heap[0]:
                break
            now = self.fill(broker)
            if now != fill:  # its load changed since it was put here
                heappop(heap)
                heappush(heap, (now, broker))
                continue
            if broker not in brokers and state.load[broker] + size <= state.ceiling[broker]:
                best = (fill, broker)
                break
            aside.append(heappop(heap))
            if len(aside) > _TRIES and state.table.tags is None:
                break
        for entry in aside:
            heappush(heap, entry)
        return best
