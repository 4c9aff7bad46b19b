"""What evenness fixes: blocks of brokers whose loads lie within one of each other and add up to a fixed total.

As even as possible means decreasingly minimal. All such load vectors share one partition of the brokers: in a
block every broker holds the block's top count or one less, and the block's total is the same in all of them
(Frank and Murota's canonical partition). A placement is as even as possible exactly when it keeps to these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.certificate import BrokerLimit, GroupLimit, Proof, ProofKind

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools

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
