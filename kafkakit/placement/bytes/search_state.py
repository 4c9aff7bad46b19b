"""The state of a search: where each moved replica is now, and what every broker holds."""

from collections.abc import Iterator

from kafkakit.placement.bytes.slots import SlotTable


class SearchState:
    """Loads and moved slots while a plan is being found; plain Python numbers, for loops over moved slots.

    `load[b]` is broker b's load, `moved[s]` the broker that slot s goes to, `arrived[b]` the moved slots on b.
    `tested` counts how often a slot was held against the rules: the search's work, the same on every machine.
    """

    def __init__(self, table: SlotTable, floor: list[int], ceiling: list[int]) -> None:
        self.table = table
        self.floor = floor
        self.ceiling = ceiling
        self.load: list[int] = table.loads(table.home).tolist()
        self.tested = 0
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
