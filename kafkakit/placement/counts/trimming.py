"""Who leaves when the replication factor shrinks: the part of the flow that chooses which replicas stay.

partition -> (partition, rack): the first replica of a rack is free, a second one pays for repeating it
          -> broker: free for the leader, dear for a copy out of sync, else by place in the list
"""

from collections.abc import Sequence

from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.problem import PlacementProblem, PlannedPartition

# Prices, each far above all that lie below it: place in the list, evenness, copies out of sync, rack repeats.
LEVEL_PRICE = 16
_OUT_OF_SYNC = 10**9
_RACK_REPEAT = 10**11
_LEADER = -(10**12)


class Trimming:
    """The partitions that have more replicas on targets than wanted, as arrays made once for every solve."""

    def __init__(
        self,
        problem: PlacementProblem,
        kept: Sequence[tuple[int, ...]],
        trims: Sequence[int],
        place: dict[int, int],
    ) -> None:
        """Take partition i's replicas on targets as `kept[i]`; `trims` shrink, `place` are target positions."""
        import numpy as np

        self._trims, self._kept = trims, kept
        self._wanted = np.array([problem.partitions[i].wanted for i in trims], dtype=np.int64)
        rows = [
            (n, place[b], problem.rack_of(b), _price(problem.partitions[i], position, b))
            for n, i in enumerate(trims)
            for position, b in enumerate(kept[i])
        ]
        racks = {name: k for k, name in enumerate(sorted({r for _, _, r, _ in rows if r}))}
        self._part, self._broker, self._cost = (np.array([r[k] for r in rows], dtype=np.int64) for k in (0, 1, 3))
        rack = np.array([racks[r] if r else -1 for _, _, r, _ in rows], dtype=np.int64)
        self._racked = rack >= 0
        pairs = self._part[self._racked] * max(1, len(racks)) + rack[self._racked]
        unique, self._pair, size = np.unique(pairs, return_inverse=True, return_counts=True)
        self._pair_part = unique // max(1, len(racks))
        self._crowded, self._size = np.nonzero(size > 1)[0], size
        self._block = -1

    def wire(self, network: FlowNetwork, brokers: int) -> None:
        """Add the partitions to a network whose broker nodes start at `brokers`."""
        import numpy as np

        if not self._trims:
            return
        source = network.nodes(len(self._trims))
        network.supply(source + np.arange(len(self._trims)), self._wanted)
        pair = network.nodes(len(self._pair_part))
        network.arcs(source + self._pair_part, pair + np.arange(len(self._pair_part)), 1, 0)
        network.arcs(
            source + self._pair_part[self._crowded], pair + self._crowded, self._size[self._crowded], _RACK_REPEAT
        )
        tails = source + self._part
        tails[self._racked] = pair + self._pair
        self._block = network.arcs(tails, brokers + self._broker, 1, self._cost)

    def staying(self, network: FlowNetwork) -> dict[int, tuple[int, ...]]:
        """The replicas that stay, by partition, after a solve."""
        if not self._trims:
            return {}
        flow = iter(network.flow(self._block).tolist())
        return {i: tuple(b for b in self._kept[i] if next(flow)) for i in self._trims}


def _price(partition: PlannedPartition, position: int, broker: int) -> int:
    if broker == partition.current[0]:
        return _LEADER
    stale = partition.in_sync is not None and broker not in partition.in_sync
    return min(position, LEVEL_PRICE - 1) + (_OUT_OF_SYNC if stale else 0)
