"""The block on free storage that `rebuild`, `rebalance` and `scale` print, in kafka-kit's words and formulas.

What it prints as GB are GiB.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

GIB = 1 << 30
RANGE_INCREASED = "broker free storage range increased"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeChange:
    """Free bytes by broker, before and after; brokers whose disks are unknown are in neither.

    `holding` are the brokers that hold replicas before (the summary's left side counts these), `replaced` those
    marked for replacement (its right side counts all others). `factor` is what sizes were multiplied by.
    """

    before: Mapping[int, int]
    after: Mapping[int, int]
    holding: Collection[int]
    replaced: Collection[int] = ()
    factor: float = 1.0

    @property
    def summaries(self) -> tuple["FreeSummary", "FreeSummary"]:
        """The summaries of both sides."""
        return (
            summary_of([f for b, f in sorted(self.before.items()) if b in self.holding]),
            summary_of([f for b, f in sorted(self.after.items()) if b not in self.replaced]),
        )

    @property
    def range_increased(self) -> bool:
        """True when the range of free bytes grows; an overridable warning."""
        left, right = self.summaries
        return right.range > left.range


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSummary:
    """Smallest and largest free bytes of some brokers, and the standard deviation over all of them."""

    low: int
    high: int
    deviation: float

    @property
    def range(self) -> int:
        """Largest less smallest."""
        return self.high - self.low

    @property
    def spread(self) -> float:
        """The range in percent of the smallest; infinite (or not a number) when that is 0, as Go divides."""
        if self.low == 0:
            return math.inf if self.range else math.nan
        return self.range / self.low * 100


def summary_of(free: Sequence[int]) -> FreeSummary:
    """Summarise free bytes; all zero for no brokers."""
    if not free:
        return FreeSummary(low=0, high=0, deviation=0.0)
    # n times the sum of squares less the square of the sum is exact in integers.
    count, total = len(free), sum(free)
    variance = max(0, count * sum(f * f for f in free) - total * total)
    return FreeSummary(low=min(free), high=max(free), deviation=math.sqrt(variance) / count)


def free_change_lines(change: FreeChange) -> list[str]:
    """The block's lines, its heading first, without the empty line before it."""
    left, right = change.summaries
    lines = ["Storage free change estimations:"]
    if change.factor != 1.0:
        lines.append(f"  Partition size factor of {change.factor:.2f} applied")
    lines += [
        f"  range: {_gb(left.range)} -> {_gb(right.range)}",
        f"  range spread: {_number(left.spread)}% -> {_number(right.spread)}%",
        f"  std. deviation: {_gb(left.deviation)} -> {_gb(right.deviation)}",
        f"  min-max: {_gb(left.low)}, {_gb(left.high)} -> {_gb(right.low)}, {_gb(right.high)}",
        "  -",
    ]
    for broker in sorted(change.before.keys() & change.after.keys()):
        before, after = change.before[broker], change.after[broker]
        mark = "*marked for replacement" if broker in change.replaced else ""
        lines.append(
            f"  Broker {broker}: {before / GIB:.2f} -> {after / GIB:.2f} "
            f"({(after - before) / GIB:+.2f}GB, {_number(_percent(after - before, before))}%) {mark}"
        )
    return lines


def free_change_data(change: FreeChange) -> dict[str, object]:
    """The change of free space as JSON fields, in bytes."""
    left, right = change.summaries
    return {
        "partition_size_factor": change.factor,
        "range_bytes": {"before": left.range, "after": right.range},
        "standard_deviation_bytes": {"before": round(left.deviation), "after": round(right.deviation)},
        "smallest_bytes": {"before": left.low, "after": right.low},
        "largest_bytes": {"before": left.high, "after": right.high},
        "brokers": [
            {
                "broker": b,
                "free_bytes_before": change.before[b],
                "free_bytes_after": change.after[b],
                "replaced": b in change.replaced,
            }
            for b in sorted(change.before.keys() & change.after.keys())
        ],
    }


def _percent(part: int, whole: int) -> float:
    if whole == 0:
        return math.copysign(math.inf, part) if part else math.nan
    return part / whole * 100 if part else 0.0


def _gb(count: float) -> str:
    return f"{count / GIB:.2f}GB"


def _number(value: float) -> str:
    """As Go prints it: `NaN`, `+Inf`, or two digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.2f}"
