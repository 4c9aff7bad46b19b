"""The proof beside a choice of leaders: broker prices at which no partition has a cheaper leader than it got."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkakit.core.certificate import Proof
from kafkakit.placement.counts.blocks import Block, block_proof, blocks_of, reach_by
from kafkakit.placement.leaders import Candidates

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

_FAR = 1 << 40


def leader_proof(who: Candidates, chosen: "Ints", brokers: Sequence[int], fixed: Sequence[int]) -> Proof:
    """Price brokers and blocks so that the fewest changes come out as the bound; `brokers` are sorted ids.

    `fixed` counts the leaderships by broker that are not to choose, beside which the others were chosen.

    Passing a leadership on from broker i to j changes the cost by -1, 0 or 1, whichever is best over the
    partitions that i leads and j holds. Prices are shortest distances over these steps, which exist because the
    choice is optimal. O(brokers cubed) at worst, in practice a few rounds over a brokers x brokers matrix.
    """
    import numpy as np

    steps = _steps(who, chosen)
    loads = np.bincount(chosen, minlength=who.count) + np.array(fixed, dtype=np.int64)
    blocks = blocks_of(loads.tolist(), reach_by(steps < _FAR))
    prices, block_prices = _prices(steps, loads, blocks)
    proof = block_proof("leaders", brokers, blocks, prices, block_prices)
    standing = dict(zip(brokers, fixed, strict=True))
    return replace(proof, limits=tuple(replace(limit, fixed=standing[limit.broker]) for limit in proof.limits))


def _steps(who: Candidates, chosen: "Ints") -> "Ints":
    """The least change in cost of passing one leadership from row to column; `_FAR` where none can be passed."""
    import numpy as np

    sizes = np.diff(who.offsets)
    leader = np.repeat(chosen, sizes)
    cost = who.cost
    leads = who.broker == leader
    paid = np.repeat(cost[leads], sizes)
    steps = np.full((who.count, who.count), _FAR, dtype=np.int64)
    np.minimum.at(steps, (leader[~leads], who.broker[~leads]), (cost - paid)[~leads])
    return steps


def _prices(steps: "Ints", loads: "Ints", blocks: Sequence[Block]) -> tuple[list[int], list[int]]:
    """Broker and block prices: a full broker's is at least its block's, a broker with room has at most that."""
    import numpy as np

    count = len(loads)
    size = count + len(blocks)
    arcs = np.full((size, size), _FAR, dtype=np.int64)
    arcs[:count, :count] = steps
    for k, block in enumerate(blocks):
        for i in block.brokers:
            if loads[i] == block.low:
                arcs[i, count + k] = 0
            else:
                arcs[count + k, i] = 0
    prices = np.zeros(size, dtype=np.int64)
    for _ in range(size + 1):
        lower = np.minimum(prices, (arcs + prices).min(axis=1))
        if (lower == prices).all():
            return prices[:count].tolist(), prices[count:].tolist()
        prices = lower
    raise AssertionError("a cheaper choice of leaders exists")
