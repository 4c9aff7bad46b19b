"""Balance goals: one number, the largest deviation allowed, sets the limits on loads, so a search can tighten it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkakit.placement.bytes.lp_relaxation import DemandGroups, demand_groups_of
from kafkakit.placement.bytes.slots import SlotTable
from kafkakit.placement.bytes.window import Limits, Window, fixed_window, sliding_window

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

PPM = 1_000_000
_ENDLESS = 1 << 62


class BalanceGoal(Protocol):
    """Windows by the largest deviation of loads that they allow; 0 is the tightest."""

    @property
    def limits(self) -> Limits:
        """The limits that hold at any deviation."""
        ...

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> Window:
        """The cheapest window of this deviation."""
        ...

    def fall(self, window: Window) -> tuple[int, int]:
        """How fast the window's cost falls per step of deviation, as numerator and denominator."""
        ...

    def measure(self, loads: Ints) -> int:
        """The deviation of these loads."""
        ...


@dataclass(frozen=True, slots=True)
class RangeGoal:
    """Windows of a width in bytes that may lie anywhere: the range of free (or used) bytes."""

    limits: Limits

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> Window:
        """The cheapest place of a window of this width."""
        return sliding_window(table, demand, self.limits, max_deviation)

    def fall(self, window: Window) -> tuple[int, int]:
        """Every ceiling that has a price rises by one."""
        high = window.prices[window.slides & (window.prices > 0)]
        return int(high.sum()), window.price_unit

    def measure(self, loads: Ints) -> int:
        """Largest less smallest, over the even brokers."""
        inside = (loads - self.limits.offset)[self.limits.even]
        return int(inside.max() - inside.min()) if len(inside) else 0


@dataclass(frozen=True, slots=True)
class BandGoal:
    """BandGoal around each even broker's share, in millionths of the share."""

    limits: Limits
    share: Ints

    def bounds(self, max_deviation: int) -> tuple[Ints, Ints]:
        """Floors and ceilings of a band: share less and plus so many millionths of it, inside the hard limits.

        A share of 0 has no band (there are fewer bytes than brokers).
        """
        import numpy as np

        # In Python's integers: a share of 10 TiB in millionths does not fit 64 bits.
        shares = self.share.tolist()
        low = np.array([-(-s * (PPM - min(max_deviation, PPM)) // PPM) for s in shares], dtype=np.int64)
        high = np.array([min(s + s * max_deviation // PPM, _ENDLESS) for s in shares], dtype=np.int64)
        even, limits = self.limits.even & (self.share > 0), self.limits
        floor = np.where(even, np.maximum(limits.floor, low), limits.floor)
        return floor, np.where(even, np.minimum(limits.ceiling, high), limits.ceiling)

    def window(self, table: SlotTable, demand: DemandGroups, max_deviation: int) -> Window:
        """The band's limits and what they cost."""
        return fixed_window(table, demand, *self.bounds(max_deviation))

    def fall(self, window: Window) -> tuple[int, int]:
        """Every limit that has a price moves by a millionth of its broker's share."""
        priced = zip(window.prices.tolist(), self.share.tolist(), self.limits.even.tolist(), strict=True)
        return sum(abs(price) * share for price, share, even in priced if even), PPM

    def measure(self, loads: Ints) -> int:
        """The narrowest band that holds these loads, rounded up to a millionth."""
        even = self.limits.even & (self.share > 0)
        rows = zip(abs(loads - self.share)[even].tolist(), self.share[even].tolist(), strict=True)
        return max((-(-away * PPM // share) for away, share in rows), default=0)


@dataclass(frozen=True, slots=True)
class BalanceProblem:
    """What is balanced: replica slots, their demand groups, and the goal."""

    table: SlotTable
    demand: DemandGroups
    balance: BalanceGoal

    @classmethod
    def of(cls, table: SlotTable, balance: BalanceGoal) -> BalanceProblem:
        """The problem with demand groups gathered again. O(replicas)."""
        return cls(table, demand_groups_of(table), balance)

    def window(self, max_deviation: int) -> Window:
        """The cheapest limits with this deviation, and what they cost at least."""
        return self.balance.window(self.table, self.demand, max_deviation)

    def measure(self, at: Ints) -> int:
        """How far apart loads are with slots on the brokers `at`."""
        return self.balance.measure(self.table.loads(at))

    def today(self) -> int:
        """How far apart loads are before any move."""
        return self.measure(self.table.home)


def shares_within(loads: Ints, capacity: Ints | Sequence[int], even: Bools, groups: Ints) -> Ints:
    """Split what the even brokers of each group (a number per broker) hold over that group's, by capacity."""
    import numpy as np

    answer = np.zeros(len(loads), dtype=np.int64)
    for group in np.unique(groups):
        mine = even & (groups == group)
        answer += shares(int(loads[mine].sum()), capacity, mine)
    return answer


def shares(total: int, capacity: Ints | Sequence[int], even: Bools | Sequence[bool]) -> Ints:
    """Split a total over the even brokers by capacity, in exact integers; others get 0.

    Rounded down, the rest goes to the first brokers one by one, so that the shares add up.
    """
    import numpy as np

    weight = [int(c) if e else 0 for c, e in zip(capacity, even, strict=True)]
    whole = sum(weight)
    parts = [total * w // whole if whole else 0 for w in weight]
    rest = total - sum(parts)
    for i, w in enumerate(weight):
        if rest and w:
            parts[i] += 1
            rest -= 1
    return np.array(parts, dtype=np.int64)
