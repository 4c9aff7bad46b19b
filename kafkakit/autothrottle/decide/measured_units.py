"""Traffic that cannot be bytes per second: far above a capacity, or below what copies of moves alone take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkakit.autothrottle.decide.flow_graph import load_of, sides_of
from kafkakit.autothrottle.decide.law import BrokerSide, Memory
from kafkakit.autothrottle.decide.observed import Load, Observed
from kafkakit.core.quantities import format_rate

_ABOVE = 1.5  # a stated capacity may be a low one: bits are 8 times as many
_BELOW = 10.0  # kilobytes are 1000 times fewer
_CERTAIN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFaults:
    """Sides whose traffic cannot be what it is taken for, each with the reason; there rates are the minimum.

    `short_since_ms` is for `Memory`. From then on a rate of `doubted` sides does not rise: their traffic is less than
    their copies, which the averages of a window may not have in them yet.
    """

    reasons: Mapping[BrokerSide, str] = field(default_factory=dict)
    short_since_ms: int = -1
    doubted: frozenset[BrokerSide] = frozenset()

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line on all of them, none where there are none."""
        if not self.reasons:
            return ()
        ((broker, way), text), *others = self.reasons.items()
        more = f" (and {len(others)} more like it)" if others else ""
        line = (
            f"does the metrics source give bytes/s? broker {broker} {way} has {text}{more}; rates there are the minimum"
        )
        return (line,)


def unit_faults(observed: Observed, memory: Memory, capacity_of: Callable[[Load], float | None]) -> UnitFaults:
    """What is wrong with the traffic of the sides that copy; `capacity_of` is what is stated of a load, bytes/s.

    Less traffic than copies counts once the whole window of the averages lies after the first such look, and then for
    all sides, since they have one source; it ends when no side has less traffic than copies.
    """
    loads = {s: load for s in sides_of(observed.flows) if (load := load_of(observed, s)).total is not None}
    if not loads:
        return UnitFaults(short_since_ms=memory.short_since_ms)
    reasons = {s: text for s, load in loads.items() if (text := _above(load, capacity_of(load)))}
    least = 1.0 if memory.short_since_ms == _CERTAIN else _BELOW
    short = {s: load for s, load in loads.items() if (load.copied or 0.0) > least * (load.total or 0.0)}
    if not short:
        return UnitFaults(reasons=reasons)
    since_ms = observed.at_ms if memory.short_since_ms < 0 else min(memory.short_since_ms, observed.at_ms)
    if observed.measured_ms - observed.window_ms < since_ms:
        return UnitFaults(reasons=reasons, short_since_ms=since_ms, doubted=frozenset(short))
    (side, load), *_ = short.items()
    text = f"{_rate(load.total)} of traffic, copies of moves alone take {_rate(load.copied)}"
    others = {s: f"broker {side[0]} {side[1]} has {text}" for s in loads if s != side}
    return UnitFaults(reasons={side: text, **others, **reasons}, short_since_ms=_CERTAIN)


def _above(load: Load, capacity: float | None) -> str:
    """What is too much. Figures of copies that come from the source are averages of the same time as its traffic.

    The traffic of copies is left out: a network that is only stated to be slow lets bursts of them through.
    """
    total = load.total or 0.0
    if capacity and total - (load.moved or 0.0) > _ABOVE * capacity:
        return f"{_rate(total)} of traffic, {total / capacity:.0f} times its capacity of {_rate(capacity)}"
    if load.moved is not None and load.moved != load.copied and load.moved > _ABOVE * total:
        return f"{_rate(load.moved)} of copies in {_rate(total)} of traffic"
    return ""


def _rate(value: float | None) -> str:
    return format_rate(int(value or 0))
