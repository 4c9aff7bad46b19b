"""Laws of rates: what they answer, what they share, and the laws `fixed` and `headroom`; all units are bytes/s.

A law answers rates for brokers, why each is what it is, and what it remembers until the next tick. Shared are the
flows of moves as a directed graph (who sends, who receives, what each must and may pass), what the network of brokers
can do (stated by broker and by instance type), and the check for traffic that cannot be bytes per second: far above a
capacity, or below what copies of moves alone take.

* `fixed` needs no metrics: one rate for each broker that takes part in moves.
* `headroom` is kafka-kit's law: a part of what the network has free beside clients, by instance type, with
  kafka-kit's errors corrected. Copies are told apart from clients by what they moved, if that was measured; kafka-kit
  takes them to use all of their throttle. A broker without metrics or capacity does not keep the others from a rate.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.autothrottle.decide.measurements import Flow, NetworkLoad, SeenBroker, TrafficObservation
from kafkakit.autothrottle.decide.requests import HeadroomLimits
from kafkakit.config.keys import did_you_mean
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import format_rate, parse_rate
from kafkakit.core.text import few_of, shell_command
from kafkakit.core.yaml_json import sound_document
from kafkakit.execution.decide.schedule.work import BrokerRates


class Side(StrEnum):
    """The direction of a rate: what a broker receives, or what it sends."""

    INTO = "in"
    OUT = "out"


BrokerSide = tuple[int, Side]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateMemory:
    """One rate between ticks, bytes/s: since when it holds, and when a breach last lowered it (-1 never).

    `seen_ms` is when metrics last spoke of it (-1 never), `learnt` what the network is believed to carry, from totals
    with and without a breach (0 for nothing learnt), and `clients` what they took on average then (-1 unknown). While
    that average rises, `base` is what it was before, at the metrics of `base_ms` (-1 while it does not).
    """

    rate: int
    changed_ms: int
    calm_since_ms: int
    seen_ms: int = -1
    learnt: float = 0.0
    clients: float = -1.0
    base: float = -1.0
    base_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the law keeps between ticks; `failures` counts looks in a row without usable metrics.

    `at_ms` is the time of the last look, `measured_ms` that of its metrics (-1 before the first), `reached` the share
    of a setting that copies were seen to reach, `under_min_isr` the count at the last look (None: not known), and
    `short_since_ms` since when the traffic has been less than the copies in it (-1: it is not; 0: for a whole window).
    """

    rates: Mapping[tuple[int, Side], RateMemory] = field(default_factory=dict)
    failures: int = 0
    at_ms: int = -1
    reached: float = 1.0
    under_min_isr: int | None = None
    measured_ms: int = -1
    short_since_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RateReason:
    """Why one rate is what it is: `binding` names the limit that holds it (`capacity`, `floor`, ...)."""

    broker: int
    side: Side
    rate: int
    binding: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    """The rates from now on, None to leave all as they are."""

    rates: BrokerRates | None
    memory: Memory
    reasons: tuple[RateReason, ...] = ()
    warnings: tuple[str, ...] = ()


Law = Callable[[TrafficObservation, Memory], RateDecision]


def rates_of(now: Mapping[BrokerSide, RateMemory], memory: Memory, *, default: int | None = None) -> BrokerRates | None:
    """The rates as the acting side takes them, None where each is set already; `default` is for all other brokers."""
    if {s: r.rate for s, r in now.items()} == {s: r.rate for s, r in memory.rates.items()}:
        return None
    by_side = {way: {b: r.rate for (b, w), r in now.items() if w is way} for way in Side}
    return BrokerRates(into=default, out=default, into_of=by_side[Side.INTO], out_of=by_side[Side.OUT])


def fixed_law(rate: int) -> Callable[[TrafficObservation, Memory], RateDecision]:
    """The law for a rate in bytes per second."""

    def decide(observed: TrafficObservation, memory: Memory) -> RateDecision:
        sides = {(f.source, Side.OUT) for f in observed.flows} | {(f.destination, Side.INTO) for f in observed.flows}
        reasons = tuple(
            RateReason(broker=b, side=s, rate=rate, binding="fixed", text="given by --rate") for b, s in sorted(sides)
        )
        return RateDecision(rates=BrokerRates(into=rate, out=rate), memory=memory, reasons=reasons)

    return decide


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomSettings:
    """Options of the law, in kafka-kit's words; rates and capacities in bytes/s.

    `capacity` counts where a side's load says none. A single broker without metrics keeps its rate for `hold_ms`; where
    all are without, for `limits.failure_threshold` looks in a row.
    """

    capacity: float | None = None
    limits: HeadroomLimits = HeadroomLimits()
    min_rate: int = 10_000_000
    hold_ms: int = 360_000

    def stated_capacity(self, load: NetworkLoad) -> float | None:
        """What the broker's network can do, None where unknown."""
        return load.capacity or self.capacity


def headroom(load: NetworkLoad, capacity: float, throttle: float, percent: float, least: float) -> float:
    """The rate for one side: kafka-kit's formula, with the bytes that copies moved in place of their throttle."""
    total = load.total or 0.0
    moved = min(throttle, total) if load.moved is None else min(load.moved, total)
    over = max(total - capacity, 0.0)
    return max((capacity - (total - moved) - over) * percent / 100, least)


def headroom_law(settings: HeadroomSettings) -> Law:
    """The law with these options."""

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        sides = tuple(sides_of(observed.flows))
        usable = {s for s in sides if _is_usable(settings, observed, s)}
        if sides and not usable:
            return _decide_blind(settings, observed, memory, sides)
        units = unit_faults(observed, memory, settings.stated_capacity)
        reasons = [_headroom_rate(settings, observed, memory, s, units, is_usable=s in usable) for s in sides]
        missing = sorted({str(s[0]) for s in sides if s not in usable})
        words = f"no metrics or no capacity of broker {', '.join(missing)}: its rate stays, then falls to the minimum"
        warnings = (*units.warnings, words) if missing else units.warnings
        decision = _decision_of(observed, memory, reasons, failures=0, warnings=warnings, usable=usable)
        return replace(decision, memory=replace(decision.memory, short_since_ms=units.short_since_ms))

    return law


def _is_usable(settings: HeadroomSettings, observed: TrafficObservation, side: BrokerSide) -> bool:
    load = load_of(observed, side)
    return observed.measured_ms >= 0 and load.total is not None and bool(settings.stated_capacity(load))


def _decide_blind(
    settings: HeadroomSettings, observed: TrafficObservation, memory: Memory, sides: tuple[BrokerSide, ...]
) -> RateDecision:
    failures = memory.failures + 1
    if failures <= settings.limits.failure_threshold:
        words = f"no metrics, {failures} time(s) in a row of {settings.limits.failure_threshold} allowed: rates stay"
        kept = replace(memory, failures=failures, at_ms=observed.at_ms)
        return RateDecision(rates=None, memory=kept, warnings=(words,))
    rate = settings.min_rate
    words = f"no metrics {failures} times in a row: {format_rate(rate)} for all brokers"
    reasons = [RateReason(broker=b, side=s, rate=rate, binding="floor", text="no metrics") for b, s in sides]
    return _decision_of(observed, memory, reasons, failures=failures, warnings=(words,), usable=set())


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


def _headroom_rate(
    settings: HeadroomSettings,
    observed: TrafficObservation,
    memory: Memory,
    side: BrokerSide,
    units: UnitFaults,
    *,
    is_usable: bool,
) -> RateReason:
    old = memory.rates.get(side)
    load, broker = load_of(observed, side), side[0]
    if not is_usable:
        held = old is not None and old.seen_ms >= 0 and observed.at_ms - old.seen_ms <= settings.hold_ms
        rate = old.rate if old and held else settings.min_rate
        return RateReason(
            broker=broker, side=side[1], rate=rate, binding="hold" if held else "floor", text="no metrics"
        )
    percent = settings.limits.max_tx_percent if side[1] is Side.OUT else settings.limits.max_rx_percent
    capacity = settings.stated_capacity(load) or 0.0
    if side in units.reasons:
        rate = int(min(settings.min_rate, capacity * percent / 100))
        return RateReason(broker=broker, side=side[1], rate=rate, binding="floor", text=units.reasons[side])
    rate = int(headroom(load, capacity, old.rate if old else 0, percent, settings.min_rate))
    if side in units.doubted:
        rate = min(rate, max(old.rate if old else int(load.copied or 0), settings.min_rate))
    if old and abs(old.rate - rate) / old.rate * 100 < settings.limits.change_percent:
        text = f"{format_rate(rate)} is within {settings.limits.change_percent:g}% of the rate that is set"
        return RateReason(broker=broker, side=side[1], rate=old.rate, binding="hold", text=text)
    text = f"{percent:g}% of what clients leave of {format_rate(int(capacity))}"
    binding = "floor" if rate <= settings.min_rate else "capacity"
    return RateReason(broker=broker, side=side[1], rate=rate, binding=binding, text=text)


def _decision_of(
    observed: TrafficObservation,
    memory: Memory,
    reasons: list[RateReason],
    *,
    failures: int,
    warnings: tuple[str, ...],
    usable: set[BrokerSide],
) -> RateDecision:
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
    return RateDecision(
        rates=rates_of(rates, memory),
        memory=Memory(rates=rates, failures=failures, at_ms=observed.at_ms),
        reasons=tuple(reasons),
        warnings=warnings,
    )


INFINITE = float("inf")


def sides_of(flows: Iterable[Flow]) -> dict[BrokerSide, float]:
    """What producers write to the partitions that pass each side, bytes/s: at less, copies never catch up."""
    ingest: dict[BrokerSide, float] = defaultdict(float)
    for flow in flows:
        ingest[flow.source, Side.OUT] += flow.ingest_per_s
        ingest[flow.destination, Side.INTO] += flow.ingest_per_s
    return dict(sorted(ingest.items()))


def load_of(observed: TrafficObservation, side: BrokerSide) -> NetworkLoad:
    """The traffic of one side, all unknown for a broker that was not seen."""
    seen = observed.brokers.get(side[0])
    return NetworkLoad() if seen is None else seen.into if side[1] is Side.INTO else seen.out


def peers_of(flows: Iterable[Flow]) -> dict[BrokerSide, tuple[BrokerSide, ...]]:
    """The sides at the other end of each side's flows."""
    peers: dict[BrokerSide, set[BrokerSide]] = defaultdict(set)
    for flow in flows:
        ends = (flow.source, Side.OUT), (flow.destination, Side.INTO)
        peers[ends[0]].add(ends[1])
        peers[ends[1]].add(ends[0])
    return {side: tuple(sorted(others)) for side, others in peers.items()}


def within_peers(
    limits: Mapping[BrokerSide, float], peers: Mapping[BrokerSide, tuple[BrokerSide, ...]]
) -> dict[BrokerSide, float]:
    """Each limit lowered to what all its peers together may pass, until no more changes.

    A peer without a limit passes anything. The sums only fall; O(flows) for each of at most as many rounds as a path
    has brokers, a handful in practice.
    """
    allowed = dict(limits)
    waiting = list(allowed)
    for _ in range(len(allowed)):
        changed: set[BrokerSide] = set()
        for side in waiting:
            others = peers.get(side, ())
            total = sum(allowed.get(other, INFINITE) for other in others) if others else INFINITE
            if total < allowed[side]:
                allowed[side] = total
                changed.update(other for other in others if other in allowed)
        if not changed:
            break
        waiting = sorted(changed)
    return allowed


_ABOVE = 1.5  # a stated capacity may be a low one: bits are 8 times as many
_BELOW = 10.0  # kilobytes are 1000 times fewer
_CERTAIN = 0


def unit_faults(
    observed: TrafficObservation, memory: Memory, capacity_of: Callable[[NetworkLoad], float | None]
) -> UnitFaults:
    """What is wrong with the traffic of the sides that copy; `capacity_of` is what is stated of a load, bytes/s.

    Less traffic than copies counts once the whole window of the averages lies after the first such look, and then for
    all sides, since they have one source; it ends when no side has less traffic than copies.
    """
    loads = {s: load for s in sides_of(observed.flows) if (load := load_of(observed, s)).total is not None}
    if not loads:
        return UnitFaults(short_since_ms=memory.short_since_ms)
    reasons = {s: text for s, load in loads.items() if (text := _excess_text(load, capacity_of(load)))}
    least = 1.0 if memory.short_since_ms == _CERTAIN else _BELOW
    short = {s: load for s, load in loads.items() if (load.copied or 0.0) > least * (load.total or 0.0)}
    if not short:
        return UnitFaults(reasons=reasons)
    since_ms = observed.at_ms if memory.short_since_ms < 0 else min(memory.short_since_ms, observed.at_ms)
    if observed.measured_ms - observed.window_ms < since_ms:
        return UnitFaults(reasons=reasons, short_since_ms=since_ms, doubted=frozenset(short))
    (side, load), *_ = short.items()
    copied = _format_measured_rate(load.copied)
    text = f"{_format_measured_rate(load.total)} of traffic, but copies of moves take {copied}"
    others = {s: f"broker {side[0]} {side[1]} has {text}" for s in loads if s != side}
    return UnitFaults(reasons={side: text, **others, **reasons}, short_since_ms=_CERTAIN)


def _excess_text(load: NetworkLoad, capacity: float | None) -> str:
    """What is too much. Figures of copies that come from the source are averages of the same time as its traffic.

    The traffic of copies is left out: a network that is only stated to be slow lets bursts of them through.
    """
    total = load.total or 0.0
    if capacity and total - (load.moved or 0.0) > _ABOVE * capacity:
        stated = _format_measured_rate(capacity)
        return f"{_format_measured_rate(total)} of traffic, {total / capacity:.0f} times its capacity of {stated}"
    if load.moved is not None and load.moved != load.copied and load.moved > _ABOVE * total:
        return f"{_format_measured_rate(load.moved)} of copies in {_format_measured_rate(total)} of traffic"
    return ""


def _format_measured_rate(value: float | None) -> str:
    return format_rate(int(value or 0))


LIMIT_BYTES = 1 << 20
MB = 1_000_000
_MAX_MB = 10_000_000
_KEYS = ("brokers", "instance_types")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacities:
    """Bytes/s in each direction, by broker and by instance type; a broker's own goes before what was measured."""

    of_broker: Mapping[int, float] = field(default_factory=dict)
    of_type: Mapping[str, float] = field(default_factory=dict)

    def over(self, others: "Capacities") -> "Capacities":
        """Both; these count where the others state the same."""
        return Capacities(of_broker={**others.of_broker, **self.of_broker}, of_type={**others.of_type, **self.of_type})

    def known(self, seen: SeenBroker) -> SeenBroker:
        """The broker with the capacity of its network, as far as it is stated."""
        own, by_type = self.of_broker.get(seen.broker), self.of_type.get(seen.instance_type)
        into, out = (replace(load, capacity=own or load.capacity or by_type) for load in (seen.into, seen.out))
        return replace(seen, into=into, out=out)

    def informed(self, observed: TrafficObservation) -> TrafficObservation:
        """The observation with the capacities of all brokers."""
        return replace(observed, brokers={b: self.known(seen) for b, seen in observed.brokers.items()})


def with_capacities(law: Law, capacities: Capacities) -> Law:
    """The law, told the capacities; a broker of unknown type is named, and the law decides what that means for it."""

    def informed(observed: TrafficObservation, memory: Memory) -> RateDecision:
        brokers = observed.brokers
        moving = sorted({b for f in observed.flows for b in (f.source, f.destination)} & brokers.keys())
        lacking = [
            f"{b} ({brokers[b].instance_type or 'no type'})"
            for b in moving
            if brokers[b].instance_type not in capacities.of_type and b not in capacities.of_broker
        ]
        decision = law(capacities.informed(observed), memory)
        if not lacking or not capacities.of_type:
            return decision
        words = f"no capacity is stated for the instance type of broker {few_of(lacking)}"
        return replace(decision, warnings=(words, *decision.warnings))

    return informed


def read_cap_map(text: str) -> Capacities:
    """kafka-kit's JSON object from instance types to MB/s; `InputError` for anything else."""
    found = decode_json(text.encode("utf-8", "surrogatepass"), dict[str, float], "--cap-map")
    for name, rate in found.items():
        if not math.isfinite(rate) or not 0 < rate <= _MAX_MB:
            raise InputError("--cap-map", f"{name[:40]!r}: {rate:g} MB/s is not a valid capacity")
    return Capacities(of_type={name: rate * MB for name, rate in found.items()})


def read_capacity_file(data: bytes, source: str) -> Capacities:
    """YAML or JSON with `brokers` (by id) and `instance_types`, each a mapping to rates (`1.25GB`).

    Raises `InputError` with the line of what cannot be read.
    """
    found: dict[str, dict[str, float]] = {}
    document = sound_document(data, source)
    for section, line, node in document.items(document.root, ""):
        if section not in _KEYS:
            raise InputError(f"{source}:{line}", f"unknown key {section[:60]!r}{did_you_mean(section, _KEYS)}")
        found[section] = {}
        for name, at, child in document.items(node, section):
            if section == "brokers" and not _is_broker(name):
                raise InputError(f"{source}:{at}", f"{name[:60]!r} is not a broker ID")
            found[section][name] = _parse_capacity_rate(document.scalar_text(child, name), f"{source}:{at}")
    if not any(found.values()):
        raise InputError(source, "states no capacities", hint=f"keys: {', '.join(_KEYS)}")
    of_broker = {int(name): rate for name, rate in found.get("brokers", {}).items()}
    return Capacities(of_broker=of_broker, of_type=found.get("instance_types", {}))


def tagged_capacities(brokers: Mapping[int, Mapping[str, str]], key: str) -> Capacities:
    """The rates in the tag `key` of brokers (`1.25GB`).

    Raises `UsageError` where no broker has the tag, and `InputError` where one has another value.
    """
    found = {
        broker: _parse_capacity_rate(tags[key], f"tag {key} of broker {broker}")
        for broker, tags in brokers.items()
        if key in tags
    }
    if not found:
        tagged = shell_command("registry tag", f"{key}:1.25GB", brokers="ID")
        raise UsageError(f"--capacity-tag: no broker has a tag {key!r:.140}", hint=f"give brokers one with: {tagged}")
    return Capacities(of_broker=found)


def read_broker_capacity(text: str) -> tuple[int, float]:
    """`1003:1GB` as a broker and its capacity; `UsageError` for anything else."""
    broker, colon, rate = text.partition(":")
    if not colon or not _is_broker(broker):
        raise UsageError(f"--broker-capacity {text!r:.60} names no broker", hint="write 1003:1GB")
    return int(broker), float(parse_rate(rate))


def _is_broker(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31


def _parse_capacity_rate(text: str, place: str) -> float:
    try:
        return float(parse_rate(text))
    except UsageError as error:
        raise InputError(place, error.message, hint=error.hint) from None
