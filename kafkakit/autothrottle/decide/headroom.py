"""kafka-kit's law: a part of what the network has free beside clients, by instance type, with its errors corrected.

Copies are told apart from clients by what they moved, where that was measured; kafka-kit takes them to use all of
their throttle. All units are bytes/s. A broker without metrics or capacity does not keep the others from a rate.
"""

from dataclasses import dataclass, replace

from kafkakit.autothrottle.decide.flow_graph import load_of, sides_of
from kafkakit.autothrottle.decide.law import BrokerSide, Decision, Law, Memory, RateMemory, Reason, Side, rates_of
from kafkakit.autothrottle.decide.measured_units import UnitFaults, unit_faults
from kafkakit.autothrottle.decide.observed import Load, Observed
from kafkakit.core.quantities import format_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomSettings:
    """Options of the law, in kafka-kit's words; rates and capacities in bytes/s.

    `capacity` counts where a side's load says none. A single broker without metrics keeps its rate for `hold_ms`; where
    all are without, for `failure_threshold` looks in a row.
    """

    capacity: float | None = None
    max_tx_percent: float = 90.0
    max_rx_percent: float = 90.0
    min_rate: int = 10_000_000
    change_percent: float = 10.0
    failure_threshold: int = 1
    hold_ms: int = 360_000

    def stated_capacity(self, load: Load) -> float | None:
        """What the broker's network can do, None where unknown."""
        return load.capacity or self.capacity


def headroom(load: Load, capacity: float, throttle: float, percent: float, least: float) -> float:
    """The rate for one side: kafka-kit's formula, with the bytes that copies moved in place of their throttle."""
    total = load.total or 0.0
    moved = min(throttle, total) if load.moved is None else min(load.moved, total)
    over = max(total - capacity, 0.0)
    return max((capacity - (total - moved) - over) * percent / 100, least)


def headroom_law(settings: HeadroomSettings) -> Law:
    """The law with these options."""

    def law(observed: Observed, memory: Memory) -> Decision:
        sides = tuple(sides_of(observed.flows))
        usable = {s for s in sides if _is_usable(settings, observed, s)}
        if sides and not usable:
            return _blind(settings, observed, memory, sides)
        units = unit_faults(observed, memory, settings.stated_capacity)
        reasons = [_rate(settings, observed, memory, s, units, is_usable=s in usable) for s in sides]
        missing = sorted({str(s[0]) for s in sides if s not in usable})
        words = f"no metrics or no capacity of broker {', '.join(missing)}: its rate stays, then falls to the minimum"
        warnings = (*units.warnings, words) if missing else units.warnings
        decision = _decided(observed, memory, reasons, failures=0, warnings=warnings, usable=usable)
        return replace(decision, memory=replace(decision.memory, short_since_ms=units.short_since_ms))

    return law


def _is_usable(settings: HeadroomSettings, observed: Observed, side: BrokerSide) -> bool:
    load = load_of(observed, side)
    return observed.measured_ms >= 0 and load.total is not None and bool(settings.stated_capacity(load))


def _blind(settings: HeadroomSettings, observed: Observed, memory: Memory, sides: tuple[BrokerSide, ...]) -> Decision:
    failures = memory.failures + 1
    if failures <= settings.failure_threshold:
        words = f"no metrics, {failures} time(s) in a row of {settings.failure_threshold} allowed: rates stay"
        kept = replace(memory, failures=failures, at_ms=observed.at_ms)
        return Decision(rates=None, memory=kept, warnings=(words,))
    rate = settings.min_rate
    words = f"no metrics {failures} times in a row: {format_rate(rate)} for all brokers"
    reasons = [Reason(broker=b, side=s, rate=rate, binding="floor", text="no metrics") for b, s in sides]
    return _decided(observed, memory, reasons, failures=failures, warnings=(words,), usable=set())


def _rate(
    settings: HeadroomSettings,
    observed: Observed,
    memory: Memory,
    side: BrokerSide,
    units: UnitFaults,
    *,
    is_usable: bool,
) -> Reason:
    old = memory.rates.get(side)
    load, broker = load_of(observed, side), side[0]
    if not is_usable:
        held = old is not None and old.seen_ms >= 0 and observed.at_ms - old.seen_ms <= settings.hold_ms
        rate = old.rate if old and held else settings.min_rate
        return Reason(broker=broker, side=side[1], rate=rate, binding="hold" if held else "floor", text="no metrics")
    percent = settings.max_tx_percent if side[1] is Side.OUT else settings.max_rx_percent
    capacity = settings.stated_capacity(load) or 0.0
    if side in units.reasons:
        rate = int(min(settings.min_rate, capacity * percent / 100))
        return Reason(broker=broker, side=side[1], rate=rate, binding="floor", text=units.reasons[side])
    rate = int(headroom(load, capacity, old.rate if old else 0, percent, settings.min_rate))
    if side in units.doubted:
        rate = min(rate, max(old.rate if old else int(load.copied or 0), settings.min_rate))
    if old and abs(old.rate - rate) / old.rate * 100 < settings.change_percent:
        text = f"{format_rate(rate)} is within {settings.change_percent:g}% of the rate that is set"
        return Reason(broker=broker, side=side[1], rate=old.rate, binding="hold", text=text)
    text = f"{percent:g}% of what clients leave of {format_rate(int(capacity))}"
    binding = "floor" if rate <= settings.min_rate else "capacity"
    return Reason(broker=broker, side=side[1], rate=rate, binding=binding, text=text)


def _decided(
    observed: Observed,
    memory: Memory,
    reasons: list[Reason],
    *,
    failures: int,
    warnings: tuple[str, ...],
    usable: set[BrokerSide],
) -> Decision:
    """Rates for what was reasoned, None where all are set already."""
    rates: dict[BrokerSide, RateMemory] = {}
    for reason in reasons:
        side = reason.broker, reason.side
        old = memory.rates.get(side)
        rates[side] = RateMemory(
            rate=reason.rate,
            changed_ms=old.changed_ms if old and old.rate == reason.rate else observed.at_ms,
            calm_since_ms=observed.at_ms,
            seen_ms=observed.at_ms if side in usable else old.seen_ms if old else -1,
        )
    return Decision(
        rates=rates_of(rates, memory),
        memory=Memory(rates=rates, failures=failures, at_ms=observed.at_ms),
        reasons=tuple(reasons),
        warnings=warnings,
    )
