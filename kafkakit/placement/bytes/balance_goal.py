"""Families of windows: one number says how tight the goal is, so that a search can turn it."""

from dataclasses import dataclass
from typing import Any, Protocol

from kafkakit.placement.bytes.lp_relaxation import Masses, masses_of
from kafkakit.placement.bytes.slots import Fleet
from kafkakit.placement.bytes.window import Limits, Window, fixed_window, sliding_window

Ints = Any
PPM = 1_000_000
_ENDLESS = 1 << 62


class Family(Protocol):
    """Windows by tightness: 0 is the tightest, `loosest` holds today's loads."""

    @property
    def limits(self) -> Limits:
        """The limits that hold at any tightness."""
        ...

    def window(self, fleet: Fleet, masses: Masses, tightness: int) -> Window:
        """The cheapest window of this tightness."""
        ...

    def fall(self, window: Window) -> tuple[int, int]:
        """How fast the window's cost falls per step of tightness, as numerator and denominator."""
        ...

    def measure(self, loads: Ints) -> int:
        """How tight these loads are."""
        ...


@dataclass(frozen=True, slots=True)
class Ranges:
    """Windows of a width in bytes that may lie anywhere: the range of free (or used) bytes."""

    limits: Limits

    def window(self, fleet: Fleet, masses: Masses, tightness: int) -> Window:
        """The cheapest place of a window of this width."""
        return sliding_window(fleet, masses, self.limits, tightness)

    def fall(self, window: Window) -> tuple[int, int]:
        """Every ceiling that has a price rises by one."""
        high = window.prices[window.slides & (window.prices > 0)]
        return int(high.sum()), window.price_unit

    def measure(self, loads: Ints) -> int:
        """Largest less smallest, over the even brokers."""
        inside = (loads - self.limits.offset)[self.limits.even]
        return int(inside.max() - inside.min()) if len(inside) else 0


@dataclass(frozen=True, slots=True)
class Bands:
    """Bands around each even broker's share, in millionths of the share."""

    limits: Limits
    share: Ints

    def bounds(self, tightness: int) -> tuple[Ints, Ints]:
        """Floors and ceilings of a band: share less and plus so many millionths of it, inside the hard limits.

        A share of 0 has no band (there are fewer bytes than brokers).
        """
        import numpy as np

        # In Python's integers: a share of 10 TiB in millionths does not fit 64 bits.
        shares = self.share.tolist()
        low = np.array([-(-s * (PPM - min(tightness, PPM)) // PPM) for s in shares], dtype=np.int64)
        high = np.array([min(s + s * tightness // PPM, _ENDLESS) for s in shares], dtype=np.int64)
        even, limits = self.limits.even & (self.share > 0), self.limits
        floor = np.where(even, np.maximum(limits.floor, low), limits.floor)
        return floor, np.where(even, np.minimum(limits.ceiling, high), limits.ceiling)

    def window(self, fleet: Fleet, masses: Masses, tightness: int) -> Window:
        """The band's limits and what they cost."""
        return fixed_window(fleet, masses, *self.bounds(tightness))

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

    fleet: Fleet
    masses: Masses
    family: Family

    @classmethod
    def of(cls, fleet: Fleet, family: Family) -> "BalanceProblem":
        """The problem with demand groups gathered anew. O(replicas)."""
        return cls(fleet, masses_of(fleet), family)

    def window(self, tightness: int) -> Window:
        """The cheapest limits with this deviation, and what they cost at least."""
        return self.family.window(self.fleet, self.masses, tightness)

    def measure(self, at: Ints) -> int:
        """How far apart loads are with slots on the brokers `at`."""
        return self.family.measure(self.fleet.loads(at))

    def today(self) -> int:
        """How far apart loads are before any move."""
        return self.measure(self.fleet.home)


def shares(total: int, capacity: Ints, even: Any) -> Ints:
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
