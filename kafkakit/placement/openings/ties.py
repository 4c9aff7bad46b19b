"""Which of the equally even fillings of a flow is taken: the one that evens out racks, then what brokers carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.counts.levels import Build, solve_levels
from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

_MOST_STEPS = 10**5


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
