"""Goals as limits on loads: fixed ones, and a window of a given width that may lie anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkakit.placement.bytes.lp_relaxation import PENALTY, Bound, DemandGroups, least_cost
from kafkakit.placement.bytes.slots import SlotTable

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

_HALVING = 8  # every so many looks the middle is tried instead of the crossing


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What loads must respect whatever the goal: `floor` and `ceiling` per broker.

    Brokers in `even` belong to the goal: their loads less `offset` are to lie close together (offset makes unlike
    disks comparable: load less offset is minus the free bytes, say).
    """

    floor: Ints
    ceiling: Ints
    even: Bools
    offset: Ints

    def at(self, low: int, width: int) -> tuple[Ints, Ints]:
        """Floors and ceilings with the window [low, low + width] on the even brokers."""
        import numpy as np

        floor = np.where(self.even, np.maximum(self.floor, low + self.offset), self.floor)
        ceiling = np.where(self.even, np.minimum(self.ceiling, low + width + self.offset), self.ceiling)
        return floor, ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A window of this width that may lie anywhere, within the limits."""

    limits: Limits
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Limits on every broker's load, what reaching them must cost at least, and the prices that prove it.

    `price_unit` divides `prices`. `slides` marks brokers whose limits hold up to a common shift; there
    `bound.value` is the least over all shifts, and `place` says what may shift.
    """

    floor: Ints
    ceiling: Ints
    bound: Bound
    prices: Ints
    slides: Bools
    price_unit: int = 1
    place: Place | None = None

    @property
    def possible(self) -> bool:
        """False when not even the LP relaxation can keep the limits."""
        return self.bound.outside == 0


def fixed_window(table: SlotTable, demand: DemandGroups, floor: Ints, ceiling: Ints) -> Window:
    """The window with these very limits."""
    import numpy as np

    bound = least_cost(table, demand, floor, ceiling)
    return Window(
        floor=floor, ceiling=ceiling, bound=bound, prices=bound.prices, slides=np.zeros(len(floor), dtype=bool)
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """The LP relaxation with the window at one place, and the slope of its weighed cost there."""

    low: int
    bound: Bound
    binds: Bools
    slope: int


def sliding_window(table: SlotTable, demand: DemandGroups, limits: Limits, width: int) -> Window:
    """The cheapest window of this width over the even brokers, within the limits.

    The cost is convex in the window's place, and minus the sum of the prices of the brokers it binds is the
    slope. From both sides tangents are drawn until they meet the cost where they cross; the prices on both
    sides, mixed so that they sum to zero, prove the lowest point for every place. About 10 small flows.
    """
    loads = (table.loads(table.home) - limits.offset)[limits.even]

    def look(low: int) -> _Look:
        floor, ceiling = limits.at(low, width)
        bound = least_cost(table, demand, floor, ceiling)
        binds = _binds(limits, floor, ceiling, bound.prices)
        slope = PENALTY * _clashes(limits, floor, ceiling) - int(bound.prices[binds].sum())
        return _Look(low, bound, binds, slope)

    # What brokers outside the goal may hand over can lift all loads above today's largest.
    stray = int(table.slot_size[table.movable & ~limits.even[table.home]].sum())
    left, right = look(int(loads.min()) - width), look(int(loads.max()) + stray)
    best = min(left, right, key=lambda at: (at.bound.weighed, at.low))
    turn = 0
    while left.slope < 0 < right.slope and right.low - left.low > 1:
        turn += 1
        crossing = (right.bound.weighed - left.bound.weighed + left.slope * left.low - right.slope * right.low) // (
            left.slope - right.slope
        )
        if turn % _HALVING == 0:  # where limits clash tangents may creep byte by byte
            crossing = (left.low + right.low) // 2
        tried = look(min(max(crossing, left.low + 1), right.low - 1))
        best = min(best, tried, key=lambda at: (at.bound.weighed, at.low))
        if tried.slope == 0:  # the lowest point, with prices that cancel; another as low may be a kink
            best = left = right = tried
        elif tried.slope < 0:
            left = tried
        else:
            right = tried
        if tried.bound.weighed <= left.bound.weighed + left.slope * (tried.low - left.low) and tried is not left:
            break
        if tried.bound.weighed <= right.bound.weighed + right.slope * (tried.low - right.low) and tried is not right:
            break
    mixed = left.slope < 0 < right.slope
    prices, unit = _mixed(left, right) if mixed else (best.bound.prices, 1)
    # Places are whole numbers and the crossing is not: the mixed prices may prove some bytes less than the best costs.
    bound = replace(best.bound, value=min(best.bound.value, max(0, _crossing(left, right)))) if mixed else best.bound
    floor, ceiling = limits.at(best.low, width)
    return Window(
        floor=floor,
        ceiling=ceiling,
        bound=bound,
        prices=prices,
        slides=best.binds,
        price_unit=unit,
        place=Place(limits=limits, width=width),
    )


def _binds(limits: Limits, floor: Ints, ceiling: Ints, prices: Ints) -> Bools:
    """Brokers whose limit on the side that has a price is the window's."""
    import numpy as np

    by_window = np.where(prices > 0, ceiling < limits.ceiling, floor > limits.floor)
    binds: Bools = limits.even & (by_window | (prices == 0))
    return binds


def _clashes(limits: Limits, floor: Ints, ceiling: Ints) -> int:
    """How many floors of the window lie above hard ceilings, less how many of its ceilings below hard floors."""
    clash = limits.even & (floor > ceiling)
    return int((clash & (floor > limits.floor)).sum()) - int((clash & (ceiling < limits.ceiling)).sum())


def _crossing(left: _Look, right: _Look) -> int:
    """The cost where both tangents cross, rounded up; no place costs less."""
    down, up = -left.slope, right.slope
    at_left, at_right = (look.bound.weighed - look.slope * look.low for look in (left, right))
    return -(-(at_left * up + at_right * down) // (down + up))


def _mixed(left: _Look, right: _Look) -> tuple[Ints, int]:
    """Prices that sum to zero: the average of both sides, weighted by the other side's slope."""
    down, up = -left.slope, right.slope
    shared = math.gcd(down, up)
    return left.bound.prices * (up // shared) + right.bound.prices * (down // shared), (down + up) // shared
