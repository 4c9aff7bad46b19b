"""What a simulation is asked for: throttles and orders to compare, faults, and how the cluster behaves."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from kafkakit.core.durations import format_duration, parse_duration
from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_rate
from kafkakit.execution.decide.schedule.work import Limits

MOST_CASES = 24
_FAULT = re.compile(r"([0-9]{1,9})@(.+)")


class Order(StrEnum):
    """What decides which move starts when: the disk-safe schedule, the plan's order under the same limits on copies in
    flight but without regard to disks, or everything at the start."""

    SCHEDULE = "schedule"
    PLAN = "plan"
    ALL = "all-at-once"


class FaultKind(StrEnum):
    """What happens to a broker."""

    KILL = "kill"
    REVIVE = "revive"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fault:
    """A broker that dies, or comes back, so many seconds after the start."""

    at_s: int
    broker: int
    kind: FaultKind

    def __str__(self) -> str:
        return f"{self.kind.value} {self.broker}@{format_duration(max(1, self.at_s))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """Throttles (None: none) and orders to compare, and what holds for all cases; rates in bytes per second.

    `ingest` is what producers write to the whole cluster. `efficiency` is the share of a throttle that is reached.
    """

    throttles: tuple[int | None, ...] = (None,)
    orders: tuple[Order, ...] = (Order.SCHEDULE,)
    faults: tuple[Fault, ...] = ()
    ingest: int = 0
    line_rate: int = 200_000_000
    efficiency: Fraction = Fraction(4, 5)
    quota_window: int = 11
    limits: Limits = field(default_factory=Limits)
    most_s: int = 7 * 86_400


def parse_throttles(given: Sequence[str]) -> tuple[int | None, ...]:
    """Rates in the order given, each once; `none` stands for no throttle. Nothing given: no throttle."""
    found = [None if word.strip().lower() == "none" else parse_rate(word) for word in given]
    return tuple(dict.fromkeys(found)) or (None,)


def parse_orders(given: Sequence[str]) -> tuple[Order, ...]:
    """Orders as given, each once; nothing given: the schedule."""
    for word in given:
        if word not in list(Order):
            raise UsageError(f"--order: {word[:40]!r} is none of {', '.join(Order)}")
    return tuple(dict.fromkeys(Order(word) for word in given)) or (Order.SCHEDULE,)


def parse_faults(kills: Sequence[str], revives: Sequence[str]) -> tuple[Fault, ...]:
    """Read `BROKER@TIME` words, in the order of their times."""
    return tuple(
        sorted([_fault(word, FaultKind.KILL) for word in kills] + [_fault(word, FaultKind.REVIVE) for word in revives])
    )


def _fault(word: str, kind: FaultKind) -> Fault:
    match = _FAULT.fullmatch(word.strip())
    if match is None:
        raise UsageError(
            f"--{kind.value}: {word[:40]!r} is not a broker and a time", hint="write it like 1002@10m (after the start)"
        )
    return Fault(at_s=round(parse_duration(match[2], f"--{kind.value}")), broker=int(match[1]), kind=kind)


def check_request(request: SimulateRequest) -> None:
    """Raise `UsageError` for more cases than anybody reads, or an efficiency of nothing."""
    if not request.efficiency:
        raise UsageError("--efficiency 0%: nothing would ever move")
    cases = len(request.throttles) * len(request.orders)
    if cases > MOST_CASES:
        raise UsageError(f"{cases} cases are more than {MOST_CASES}", hint="give fewer throttles or orders")
