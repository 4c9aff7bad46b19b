"""How many copies any plan must make: the fewest of the largest slots that bring each broker inside its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.window import Window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


def moves_bound(table: SlotTable, window: Window) -> int:
    """The larger of what must leave overfull brokers and what must come to underfull ones, in slots.

    A broker that is x above its ceiling gives at least as many of its largest movable slots as add up to x. For
    a window that slides, the bound holds for every place of it: giving falls and getting rises with the place, and
    hard limits stay where they are.
    O(replicas log replicas).
    """
    import numpy as np

    loads = table.loads(table.home)
    slots = np.nonzero(table.movable)[0]
    size, home = table.slot_size[slots], table.home[slots]
    order = np.lexsort((-size, home))
    size, home = size[order], home[order]
    starts = np.searchsorted(home, np.arange(len(loads) + 1))
    largest = -np.sort(-size)
    reach = np.concatenate([[0], np.cumsum(largest)])

    def fewest(excess: int, broker: int) -> int:
        mine = np.cumsum(size[starts[broker] : starts[broker + 1]])
        return int(np.searchsorted(mine, excess)) + 1

    def giving(ceiling: Ints) -> int:
        over = np.nonzero(loads > ceiling)[0]
        return sum(fewest(loads[b] - ceiling[b], int(b)) for b in over)

    def getting(floor: Ints) -> int:
        under = np.nonzero(loads < floor)[0]
        return sum(int(np.searchsorted(reach, floor[b] - loads[b])) for b in under)

    place = window.place
    if place is None:
        return max(giving(window.ceiling), getting(window.floor))

    def both(low: int) -> tuple[int, int]:
        floor, ceiling = place.limits.at(low, place.width)
        return giving(ceiling), getting(floor)

    high = int(loads.max()) + place.width + 1
    low = -high
    while low < high:
        middle = (low + high) // 2
        gives, gets = both(middle)
        if gives > gets:
            low = middle + 1
        else:
            high = middle
    return min(max(both(low)), max(both(low - 1)))
