"""A placement as arrays: one slot per replica, so that millions of them are handled at numpy's speed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.group_numbers import NumberedGroups, group_numbers, numbered_rule
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.group_tags import SlotTags
from kafkakit.placement.leader_limits import LeaderLimits

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints


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
    rule: GroupRule
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
        return self.fixed + summed(at, self.slot_size, len(self.brokers))

    def cost(self, at: Ints) -> int:
        """What it costs to get there: the load of all copies on brokers that had none of that partition."""
        return int(self.slot_size[at != self.home].sum())


def summed(index: Ints, weights: Ints, length: int) -> Ints:
    """The exact integer sum of weights by index (numpy's own bincount adds in floating point)."""
    import numpy as np

    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, index, weights)
    return total


def make_table(
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int],
    racks: Mapping[int, str | None],
    rule: GroupRule,
    *,
    receivers: Collection[int],
    givers: Collection[int] | None = None,
    pinned: Collection[int] = (),
    smallest: int = 0,
    fixed: Mapping[int, int] | None = None,
    locality_scoped: bool = False,
    most_broken: int | None = None,
    topics: Sequence[str] = (),
) -> SlotTable:
    """Build the arrays from replica lists and sizes (load of one copy each).

    `topics` are those of the lists, for a rule with tags.

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
        tags=None if rule.tags is None else SlotTags(rule.tags, topics, brokers),
    )
