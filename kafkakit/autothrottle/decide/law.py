"""What a law of rates answers: rates for brokers, why each is what it is, and what it remembers until the next tick."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.execution.decide.schedule.work import Rates


class Side(StrEnum):
    """The direction of a rate: what a broker receives, or what it sends."""

    INTO = "in"
    OUT = "out"


BrokerSide = tuple[int, Side]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateMemory:
    """One rate between ticks, bytes/s: since when it holds, and when a breach last lowered it (-1 never).

    `seen_ms` is when metrics last spoke of it (-1 never), `learnt` what the network is believed to carry, from totals
    with and without a breach (0 for nothing learnt), and `clients` what they took on average then (-1 unknown).
    """

    rate: int
    changed_ms: int
    calm_since_ms: int
    seen_ms: int = -1
    learnt: float = 0.0
    clients: float = -1.0


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
class Reason:
    """Why one rate is what it is: `binding` names the limit that holds it (`capacity`, `floor`, ...)."""

    broker: int
    side: Side
    rate: int
    binding: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The rates from now on, None to leave all as they are."""

    rates: Rates | None
    memory: Memory
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()


Law = Callable[[Observed, Memory], Decision]


def rates_of(now: Mapping[BrokerSide, RateMemory], memory: Memory, *, default: int | None = None) -> Rates | None:
    """The rates as the acting side takes them, None where each is set already; `default` is for all other brokers."""
    if {s: r.rate for s, r in now.items()} == {s: r.rate for s, r in memory.rates.items()}:
        return None
    by_side = {way: {b: r.rate for (b, w), r in now.items() if w is way} for way in Side}
    return Rates(into=default, out=default, into_of=by_side[Side.INTO], out_of=by_side[Side.OUT])
