"""A minimum-cost flow network on arrays, solved exactly by OR-Tools (cost scaling), and what even loads mean in it.

Arcs are added in blocks of equal length arrays and read back by block. All numbers are integers, so an optimal flow
is integral and the answer is exact. Cost: about 7 s for 800,000 nodes and 2.4 million arcs.

Even means decreasingly minimal: no other reachable loads have a smaller maximum, then fewer at the maximum, and so on
(Frank and Murota, "Decreasing minimization on M-convex sets"); such loads minimise every symmetric convex measure
(range over the top, variance, ...) at once. Two things follow. The price of the next unit on a broker is its load so
far, so the total is least when the loads are even: the last arcs of a network are priced so. And all even load vectors
share one partition of the brokers into blocks: in a block every broker holds the block's top count or one less, and the
block's total is the same in all of them. A placement is as even as possible exactly when it keeps to these.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kafkakit.core.plan import BrokerLimit, GroupLimit, Proof, ProofKind

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from kafkakit.core.columns import Bools, Ints

    ArcBlock: TypeAlias = Ints | int
    """One number for each arc, or one that is spread over the block."""


class FlowInfeasibleError(Exception):
    """The supplies cannot be routed; callers size their supplies so that this is a programming mistake."""


Apart = Callable[[Callable[[], bytes]], bytes]
"""Gives what the function gives, from where it can be ended; raises what a stop raises."""
_APART: ContextVar[Apart | None] = ContextVar("apart", default=None)
APART_ARCS = 50_000
"""From so many arcs on a flow may last for seconds, in one call that nothing can end but the end of its process."""


@contextmanager
def solving_apart(apart: Apart) -> Iterator[None]:
    """Solve large flows with `apart`; their answers are the same."""
    token = _APART.set(apart)
    try:
        yield
    finally:
        _APART.reset(token)


@dataclass(slots=True)
class FlowNetwork:
    """Nodes are numbered as they are made; supplies are positive, demands negative, and sum to zero."""

    node_count: int = 0
    _tails: "list[Ints]" = field(default_factory=list)
    _heads: "list[Ints]" = field(default_factory=list)
    _capacities: "list[Ints]" = field(default_factory=list)
    _costs: "list[Ints]" = field(default_factory=list)
    _supplies: "list[tuple[ArcBlock, ArcBlock]]" = field(default_factory=list)
    _flows: "Ints | None" = None
    _starts: list[int] = field(default_factory=lambda: [0])

    def nodes(self, count: int) -> int:
        """Make `count` nodes and return the number of the first."""
        first = self.node_count
        self.node_count += count
        return first

    def supply(self, node: "ArcBlock", amount: "ArcBlock") -> None:
        """Set the supply of nodes (negative: demand)."""
        self._supplies.append((node, amount))

    def arcs(self, tail: "ArcBlock", head: "ArcBlock", capacity: "ArcBlock", cost: "ArcBlock") -> int:
        """Add a block of arcs and return its number; plain ints are spread over the block."""
        import numpy as np

        block = (tail, head, capacity, cost)
        (length,) = {np.size(values) for values in block if np.ndim(values)} or {1}
        for column, values in zip((self._tails, self._heads, self._capacities, self._costs), block, strict=True):
            column.append(np.asarray(values if np.ndim(values) else np.full(length, values), dtype=np.int64))
        self._starts.append(self._starts[-1] + length)
        return len(self._tails) - 1

    def keep(self, blocks: int) -> None:
        """Forget the blocks of arcs after the first so many, so that others can take their place."""
        for column in (self._tails, self._heads, self._capacities, self._costs):
            del column[blocks:]
        del self._starts[blocks + 1 :]
        self._flows = None

    @property
    def blocks(self) -> int:
        """How many blocks of arcs there are."""
        return len(self._tails)

    def solve(self) -> int:
        """Find a flow of least cost and return that cost.

        Raises `FlowInfeasibleError` if supplies cannot be routed, `OverflowError` if costs are too large
        for the exact arithmetic (largest cost times nodes beyond 2**62).
        """
        import numpy as np

        costs = np.concatenate(self._costs)
        largest = int(np.abs(costs).max()) if len(costs) else 0
        if largest * (self.node_count + 1) >= 1 << 62:
            raise OverflowError("flow costs too large for exact arithmetic")
        apart = _APART.get()
        if apart is None or len(costs) < APART_ARCS:
            answer = self._solve(costs)
        else:
            found = apart(lambda: b"".join(column.tobytes() for column in self._solve(costs)))
            numbers = np.frombuffer(found, dtype=np.int64)
            answer = numbers[:1], numbers[1:]
        cost, self._flows = answer
        if not len(cost):
            raise FlowInfeasibleError
        return int(cost[0])

    def _solve(self, costs: "Ints") -> "tuple[Ints, Ints]":
        """The cost, none where supplies cannot be routed, and the flows."""
        import numpy as np
        from ortools.graph.python import min_cost_flow

        solver = min_cost_flow.SimpleMinCostFlow()
        solver.add_arcs_with_capacity_and_unit_cost(
            np.concatenate(self._tails).astype(np.int32),
            np.concatenate(self._heads).astype(np.int32),
            np.concatenate(self._capacities),
            costs,
        )
        supplies = np.zeros(self.node_count, dtype=np.int64)
        for node, amount in self._supplies:
            supplies[node] = amount
        solver.set_nodes_supplies(np.arange(self.node_count, dtype=np.int32), supplies)
        if solver.solve() != solver.OPTIMAL:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        flows = solver.flows(np.arange(len(costs), dtype=np.int32))
        return np.array([solver.optimal_cost()], dtype=np.int64), flows

    def residual(self) -> "tuple[Ints, Ints, Ints]":
        """Tail, head and cost of each arc of the residual network of the solved flow."""
        import numpy as np

        tails, heads = np.concatenate(self._tails), np.concatenate(self._heads)
        costs, flows = np.concatenate(self._costs), self._solved()
        there, back = np.concatenate(self._capacities) > flows, flows > 0
        return (
            np.concatenate([tails[there], heads[back]]),
            np.concatenate([heads[there], tails[back]]),
            np.concatenate([costs[there], -costs[back]]),
        )

    def potentials(self) -> "Ints":
        """Shortest distances in the residual network of the solved flow, per node, from a root that reaches all at 0.

        They are optimal node prices: every arc that is not full costs at least the difference of its ends, every
        arc that is not empty at most that. O(arcs x length of the longest cheapest path), on arrays.
        """
        import numpy as np

        source, target, length = self.residual()
        order = np.argsort(target, kind="stable")
        source, target, length = source[order], target[order], length[order]
        distance = np.zeros(self.node_count, dtype=np.int64)
        if not len(target):
            return distance
        starts = np.nonzero(np.diff(target, prepend=-1))[0]
        reached = target[starts]
        for _ in range(self.node_count + 1):
            best = np.minimum.reduceat(distance[source] + length, starts)
            better = best < distance[reached]
            if not better.any():
                return distance
            distance[reached] = np.minimum(distance[reached], best)
        raise AssertionError("a negative cycle in the residual network of an optimal flow")

    def flow(self, block: int) -> "Ints":
        """The flow on each arc of a block, after `solve`."""
        return self._solved()[self._starts[block] : self._starts[block + 1]]

    def _solved(self) -> "Ints":
        if self._flows is None:
            raise RuntimeError("solve() comes first")
        return self._flows


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
    network = FlowNetwork()
    first = build(network)
    sink = network.nodes(1)
    network.supply(sink, -total)
    built, index = network.blocks, np.arange(len(base))
    while True:
        low = np.minimum(np.maximum(base, loads - width), top)
        high = np.minimum(loads + width, top)
        network.keep(built)
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


Reach = Callable[[int], set[int]]


@dataclass(frozen=True, slots=True)
class Block:
    """Brokers (as positions in the target list) that share `total` units of load, `low` or `low + 1` each."""

    brokers: tuple[int, ...]
    low: int
    total: int


def blocks_of(loads: Sequence[int], reach: Reach) -> list[Block]:
    """The blocks of most even loads; `reach(i)` are the brokers that could take a unit of broker i, by any chain."""
    left = set(range(len(loads)))
    blocks: list[Block] = []
    while left:
        top = max(loads[i] for i in left)
        members: set[int] = set()
        for i in sorted(left):
            if loads[i] == top and i not in members:
                members |= {j for j in reach(i) if j in left and loads[j] >= top - 1}
        total = sum(loads[i] for i in members)
        blocks.append(Block(tuple(sorted(members)), max(0, top - 1), total))
        left -= members
    return blocks


def reach_by(steps: "Bools") -> Reach:
    """Reachability over a square matrix of truth values, each broker itself included."""
    import numpy as np

    def reach(start: int) -> set[int]:
        seen = np.zeros(len(steps), dtype=bool)
        seen[start] = True
        border = seen
        while border.any():
            border = steps[border].any(axis=0) & ~seen
            seen = seen | border
        return set(np.nonzero(seen)[0].tolist())

    return reach


def block_proof(
    load: str,
    brokers: Sequence[int],
    blocks: Sequence[Block],
    prices: Sequence[int],
    block_prices: Sequence[int],
    *,
    price_unit: int = 1,
    fixed: Sequence[int] | None = None,
) -> Proof:
    """The proof that prices the limits of the blocks.

    `prices[i]` is the full price of broker i, `block_prices[k]` the part of it that belongs to the total of block
    k. When every unit of load pays some broker, all prices may shift together: the first block's total gets none.
    """
    base = block_prices[0] if block_prices else 0
    limits: list[BrokerLimit] = []
    groups: list[GroupLimit] = []
    for block, shared in zip(blocks, block_prices, strict=True):
        size = len(block.brokers)
        full, bare = block.total == size * (block.low + 1), block.total == size * block.low
        for i in block.brokers:
            standing = fixed[i] if fixed else 0
            limits.append(
                BrokerLimit(
                    broker=brokers[i],
                    fixed=standing,
                    floor=standing + block.low + full,
                    ceiling=standing + block.low + 1 - bare,
                    price=prices[i] - shared,
                )
            )
        if shared != base:
            total = block.total + sum(fixed[i] for i in block.brokers) if fixed else block.total
            ids = tuple(sorted(brokers[i] for i in block.brokers))
            groups.append(GroupLimit(brokers=ids, floor=total, ceiling=total, price=shared - base))
    limits.sort(key=_broker_of)
    return Proof(kind=ProofKind.PRICES, load=load, price_unit=price_unit, limits=tuple(limits), groups=tuple(groups))


def _broker_of(limit: BrokerLimit) -> int:
    return limit.broker
