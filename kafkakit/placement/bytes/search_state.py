"""The state of a search: where each moved replica is now, and what every broker holds."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kafkakit.placement.bytes.slots import Fleet


class Board:
    """Loads and moved slots while a plan is being found; plain Python numbers, for loops over moved slots.

    `load[b]` is broker b's load, `moved[s]` the broker that slot s goes to, `arrived[b]` the moved slots on b.
    """

    def __init__(self, fleet: Fleet, floor: list[int], ceiling: list[int]) -> None:
        self.fleet = fleet
        self.floor = floor
        self.ceiling = ceiling
        self.load: list[int] = fleet.loads(fleet.home).tolist()
        self.moved: dict[int, int] = {}
        self.arrived: list[dict[int, None]] = [{} for _ in fleet.brokers]
        # Plain lists: reading one number of an array costs many times as much, and searches read millions.
        self._part: list[int] = fleet.part.tolist()
        self._home: list[int] = fleet.home.tolist()
        self._first: list[int] = fleet.first.tolist()
        self._size: list[int] = fleet.size.tolist()
        self._rack: list[int] = fleet.pool.tolist()
        self._real = fleet.racks
        self._minimum = fleet.rule.min_rack_ids
        self._spread = [int(r) for r in fleet.rule.spread_over]
        self._opening = [b < 0 for b in fleet.brokers]
        self._takes: list[bool] = fleet.receiver.tolist()
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
        """Where the rules let a slot go: brokers that it must not go to, and the racks (`Fleet.pool`) that it may.

        A set that breaks the rack rule from the start may stay as it was; no move makes it worse.
        """
        brokers = {self.broker(s) for s in self.siblings(slot)}
        home = self.home(slot)
        if self.fleet.locality_scoped:
            return brokers | {home}, [self._rack[home]]
        if self._spread:
            return brokers | {home}, self._spread_racks(slot, brokers, self._receiving)
        used = [r for b in brokers if (r := self._rack[b]) < self._real]
        distinct = set(used)
        again = bool(self._minimum) and len(distinct) >= self._minimum
        rackless = again or len(used) == len(distinct) or self._rack[home] >= self._real
        racks = [r for r in self._receiving if (again or r not in distinct if r < self._real else rackless)]
        return brokers | {home}, racks

    def _spread_racks(self, slot: int, around: set[int], among: Sequence[int]) -> list[int]:
        """The racks of `among` where the slot, beside `around`, keeps an even set even and crowds no rack more."""
        counts = Counter(self._rack[b] for b in around)
        there = [counts[r] for r in self._spread]
        top, openings = max(there), sum(self._opening[b] for b in around)
        # How many copies are lacking for evenness: at the present top, and with one more than it.
        lack = sum(max(0, top - 1 - n) for n in there)
        above = sum(max(0, top - n) for n in there)
        broken, share = None, self.fleet.rule.share(len(around) + 1)
        racks = []
        for rack in among:
            here, inside = counts[rack], rack in self._spread
            short = above if inside and here == top else lack - (inside and here < top - 1)
            if short > openings:
                broken = self._home_counts(slot) if broken is None else broken
                if not broken or (inside and here >= max(share, broken[rack])):
                    continue
            racks.append(rack)
        return racks

    def _home_counts(self, slot: int) -> Counter[int]:
        """The racks of the slot's partition before the plan, where that broke the rule; else nothing."""
        part = self._part[slot]
        homes = self._home[self._first[part] : self._first[part + 1]]
        racks = Counter(self._rack[b] for b in homes)
        level = max(racks[r] for r in self._spread) - 1
        even = sum(max(0, level - racks[r]) for r in self._spread) <= sum(self._opening[b] for b in homes)
        return Counter() if even else racks

    def fits(self, slot: int, dest: int) -> bool:
        """True when the rules let the slot go to `dest`, limits aside; home is where it may go back to.

        Where only so many sets may break the rack rule, one that was mended stays so.
        """
        if self.fleet.most_broken is not None and self._breaks_anew(slot, dest):
            return False
        if dest == self.home(slot):
            return self._may_return(slot)
        brokers, racks = self.legal(slot)
        return self._takes[dest] and dest not in brokers and self._rack[dest] in racks

    def _breaks_anew(self, slot: int, dest: int) -> bool:
        around = [self.broker(s) for s in self.siblings(slot)]
        now, then = (
            [None if self._rack[b] >= self._real else str(self._rack[b]) for b in (*around, broker)]
            for broker in (self.broker(slot), dest)
        )
        return self.fleet.rule.violates(then) and not self.fleet.rule.violates(now)

    def _may_return(self, slot: int) -> bool:
        home = self.home(slot)
        around = [self.broker(s) for s in self.siblings(slot)]
        if home in around:
            return False
        if not any(s in self.moved for s in self.siblings(slot)):
            return True  # as it was before the plan
        if self._spread and not self.fleet.locality_scoped:
            rack = self._rack[home]
            return rack in self._spread_racks(slot, set(around), (rack,))
        return not self.fleet.rule.violates(
            [None if self._rack[b] >= self._real else str(self._rack[b]) for b in (*around, home)]
        )

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
