"""A smaller flow for large forced rebuilds: partitions that keep to their racks, counted by broker.

Most partitions of a large cluster can keep a replica in each rack that has one, whatever the plan. Replicas of
such partitions on one broker are alike: each stays, or goes to another broker of its rack at the cost of one copy. They
make one node a broker instead of several a partition. Every tenth partition, and each that must change racks, keeps all
its choices. The result is a placement like any other; whether it is a cheapest one is for the price bound to say.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.counts.forced_inputs import ForcedInputs
from kafkakit.placement.network import FlowNetwork
from kafkakit.placement.problem import Minimize, PlacementProblem

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

LARGE = 50_000
"""From so many partitions on."""
_FREE = 10


def settled_partitions(problem: PlacementProblem, a: ForcedInputs) -> "Bools":
    """Which partitions keep to their racks; none in small problems, and where copies differ in cost.

    Each has as many replicas as it wants, all of them on targets, in racks of their own.
    """
    import numpy as np

    count = len(problem.partitions)
    if count < LARGE or problem.minimize is not Minimize.MOVES:
        return np.zeros(count, dtype=bool)
    racks = len(a.rack_names)
    in_rack = a.rack[a.broker] >= 0
    places = np.unique(a.part[in_rack] * racks + a.rack[a.broker[in_rack]])
    spanned = np.bincount(places // max(racks, 1), minlength=count)
    held = np.bincount(a.part, minlength=count)
    settled: Bools = (spanned == held) & (held == a.units) & (a.repeats == 0) & (np.arange(count) % _FREE > 0)
    return settled


@dataclass(frozen=True, slots=True)
class SettledReplicas:
    """The replicas of settled partitions (`part`, `broker`, `pool`), grouped by kind and broker.

    Those of group g are `first[g]` to `first[g + 1]`, the largest first; `stays` is the block of arcs from groups
    to their brokers.
    """

    part: "Ints"
    broker: "Ints"
    pool: "Ints"
    first: "Ints"
    stays: int

    @classmethod
    def wired(
        cls, network: FlowNetwork, a: ForcedInputs, settled: "Bools", sizes: "Ints", broker: int, pool: int
    ) -> "SettledReplicas":
        """Add a node for each group, with its replicas as supply and an arc to its broker and one to its pool."""
        import numpy as np

        mine = settled[a.part]
        part, held = a.part[mine], a.broker[mine]
        group = a.kind[part] * len(a.rack) + held
        order = np.lexsort((part, -sizes[part], group))
        part, held, group = part[order], held[order], group[order]
        to = a.kind[part] * a.pools + a.rack[held]
        _, starts = np.unique(group, return_index=True)
        first = np.append(starts, len(part))
        amount = np.diff(first)
        node = network.nodes(len(starts)) + np.arange(len(starts))
        network.supply(node, amount)
        stays = network.arcs(node, broker + held[starts], amount, 0)
        network.arcs(node, pool + to[starts], amount, 1)
        return cls(part, held, to, first, stays)

    def staying(self, network: FlowNetwork) -> "Ints":
        """1 for replicas that stay in the solved flow: the largest of each group, so that few bytes are copied."""
        import numpy as np

        amount = np.diff(self.first)
        rank = np.arange(len(self.part)) - np.repeat(self.first[:-1], amount)
        stay: Ints = (rank < np.repeat(network.flow(self.stays), amount)).astype(np.int64)
        return stay


def without(a: ForcedInputs, settled: "Bools") -> "tuple[ForcedInputs, Ints]":
    """The inputs of the other partitions, numbered anew, and their old numbers."""
    import numpy as np

    rest = np.nonzero(~settled)[0]
    number = np.cumsum(~settled) - 1
    kept = ~settled[a.part]
    return replace(
        a,
        part=number[a.part[kept]],
        broker=a.broker[kept],
        units=a.units[rest],
        repeats=a.repeats[rest],
        charged=a.charged[rest],
        weight=a.weight[rest],
        kind=a.kind[rest],
    ), rest
