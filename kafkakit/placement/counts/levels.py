"""Even loads: the last arcs of a flow network, priced so that the load vector comes out as even as possible.

The price of the next unit on a broker is its load so far, so the total is least when the loads are
decreasingly minimal: no other reachable loads have a smaller maximum, then fewer at the maximum, and so on
(Frank and Murota, "Decreasing minimization on M-convex sets"). Such loads minimise every symmetric convex
measure (range over the top, variance, ...) at once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from kafkakit.placement.arrays import Ints

Build = Callable[[FlowNetwork], int]
_FIRST_WIDTH = 32


def solve_levels(
    build: Build, base: "ArrayLike", total: int, *, scale: int = 1, most: "Ints | None" = None
) -> "tuple[FlowNetwork, Ints]":
    """Route `total` units over brokers so that base + units is as even as possible.

    `build(network)` makes everything up to the broker nodes, supplies included, and returns the first
    broker node; brokers are consecutive and `base[i]` is the load that broker i has already. `scale` is
    the price of one level against other costs in the network; `most[i]`, where known, is the most units
    that broker i can get, which only saves time. Returns the solved network and the final loads. Exact:
    prices are unit steps inside a window around each load, and the window is moved until no load leans
    on its edge.
    """
    import numpy as np

    base = np.asarray(base, dtype=np.int64)
    top: Ints = base + np.minimum(np.full_like(base, total) if most is None else most, total)
    # Wide enough to need few rounds, narrow enough that the unit steps do not outweigh the network itself.
    width = max(_FIRST_WIDTH, min(total // len(base) // 4, 200_000 // len(base)))
    # Without other constraints every broker below the water level would be filled up to it: start there.
    loads: Ints = np.clip(_water_level(base, top, total), base, top)
    while True:
        low = np.minimum(np.maximum(base, loads - width), top)
        high = np.minimum(loads + width, top)
        network = FlowNetwork()
        first = build(network)
        sink = network.nodes(1)
        network.supply(sink, -total)
        index = np.arange(len(base))
        under = network.arcs(first + index, sink, low - base, scale * np.maximum(low - 1, 0))
        steps = np.repeat(index, high - low)
        offset = np.arange(len(steps)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
        within = network.arcs(first + steps, sink, 1, scale * (low[steps] + offset))
        over = network.arcs(first + index, sink, top - high, scale * high)
        network.solve()
        loads = base + network.flow(under) + network.flow(over)
        np.add.at(loads, steps, network.flow(within))
        if (network.flow(under) == low - base).all() and not network.flow(over).any():
            return network, loads
        width *= 2


def _water_level(base: "Ints", top: "Ints", total: int) -> int:
    """The lowest level at which `total` units have room, each broker taking what lies between its base and top."""
    import numpy as np

    low, high = 0, int(base.max(initial=0)) + total
    while low < high:
        level = (low + high) // 2
        if int((np.clip(level, base, top) - base).sum()) >= total:
            high = level
        else:
            low = level + 1
    return low
