"""What operators set for a run: the limits that its schedule keeps, how it deals with its surroundings, and for a
simulation the orders and throttles to compare, with what happens to brokers meanwhile.

Commands load this module before they know whether they will run anything, so it needs little.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial

from kafkakit.core.errors import UsageError
from kafkakit.core.options import REPEATED, duration_option, not_typed, option, options_given, parsed_option
from kafkakit.core.quantities import format_duration, parse_duration, parse_percent, parse_rate, parse_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLimits:
    """What a schedule must keep, and what is sent: `ScheduleState.fits` plans by it, `progress.py` starts moves by it.

    At most `into_each` new copies arrive at a broker at a time, `out_each` leave a leader, `inside_each` change dir
    inside a broker, `cluster` partitions are in flight. No log dir is ever filled above `max_use` of its size, nor
    closer to full than `headroom_bytes`. Space of a removed copy is free only `deletion_delay_s` after the step.
    With `one_replica_at_a_time` a partition never has two new copies in flight.
    """

    into_each: int = option(5, "--max-in", min=1, max=1000, help="New copies that a broker receives at the same time.")
    out_each: int = option(5, "--max-out", min=1, max=1000, help="New copies that a broker sends at the same time.")
    inside_each: int = not_typed(1)
    cluster: int = option(
        1000,
        "--max-moves-in-flight",
        "--batch-size",
        min=1,
        max=5000,
        help="Partitions that move at the same time in the whole cluster.",
    )
    one_replica_at_a_time: bool = option(
        False, "--one-replica-at-a-time", help="Make the new copies of a partition one after the other."
    )
    max_use: Fraction = parsed_option(
        "95%",
        "--max-disk-use",
        parse=partial(parse_percent, flag="--max-disk-use"),
        metavar="PERCENT",
        help="Never fill a log dir above this share of its size (95%), even during the moves.",
    )
    headroom_bytes: int = parsed_option(
        "0",
        "--disk-headroom",
        parse=partial(parse_size, flag="--disk-headroom"),
        metavar="SIZE",
        help="Always leave this much free in each log dir.",
    )
    deletion_delay_s: float = not_typed(60.0)
    given: tuple[tuple[str, str | None], ...] = options_given()

    def limit_of(self, total_bytes: int) -> int:
        """The most bytes that a log dir of that size may hold."""
        return min(int(total_bytes * self.max_use), total_bytes - self.headroom_bytes)


WITHOUT_LEASE_HELP = (
    "Continue if the control store does not answer, to repair what it depends on; only processes of this host are kept "
    "away then. A lease that another process holds is respected."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """How a run deals with its surroundings.

    `wait_for_others`: wait until no other process moves partitions, instead of refusing; `join`: carry on beside such
    moves, and set rates over those that another process has set. `ingest_sample_s` is how long is measured what logs
    take in (0: not at all).
    """

    ingest_sample_s: float = duration_option(
        "5s",
        "--ingest-sample",
        may_be_zero=True,
        help="How long to measure the growth of logs, for the forecast of time and disk use; 0: assume no growth.",
    )
    wait_for_others: bool = option(
        False,
        "--wait-for-others/--refuse-others",
        help="Wait while moves not started by this run are in flight, or refuse; a move of another process is "
        "never overwritten.",
    )
    join: bool = option(
        False,
        "--join",
        help="Continue even if other moves are in flight or other replication throttles are set; those rates are "
        "put back as they were.",
    )
    without_lease: bool = option(False, "--without-lease", help=WITHOUT_LEASE_HELP)
    allow_drift: bool = option(
        False, "--allow-drift", help="Continue even if other partitions or racks changed since the plan."
    )
    stall_timeout_s: float = duration_option("5m", "--stall-timeout", help="Stop if no byte was copied for this long.")
    given: tuple[tuple[str, str | None], ...] = options_given()


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


MOST_CASES = 24


_FAULT = re.compile(r"([0-9]{1,9})@(.+)")


def _throttles(given: Sequence[str] | None) -> tuple[int | None, ...]:
    found = [None if word.strip().lower() == "none" else parse_rate(word) for word in given or ()]
    return tuple(dict.fromkeys(found)) or (None,)


def _orders(given: Sequence[str] | None) -> tuple[Order, ...]:
    for word in given or ():
        if word not in list(Order):
            raise UsageError(f"--order: {word[:40]!r} is none of {', '.join(Order)}")
    return tuple(dict.fromkeys(Order(word) for word in given or ())) or (Order.SCHEDULE,)


def _faults(given: Sequence[str] | None, *, kind: FaultKind) -> tuple[Fault, ...]:
    return tuple(_fault(word, kind) for word in given or ())


def _fault(word: str, kind: FaultKind) -> Fault:
    match = _FAULT.fullmatch(word.strip())
    if match is None:
        raise UsageError(
            f"--{kind.value}: {word[:40]!r} is not a broker and a time", hint="write it like 1002@10m (after the start)"
        )
    return Fault(at_s=round(parse_duration(match[2], f"--{kind.value}")), broker=int(match[1]), kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """Throttles (None: none) and orders to compare, and what holds for all cases; rates in bytes per second.

    `ingest` is what producers write to the whole cluster. `efficiency` is the share of a throttle that is reached.
    """

    throttles: tuple[int | None, ...] = parsed_option(
        None,
        "--throttle",
        typed=REPEATED,
        parse=_throttles,
        metavar="RATE",
        help="Throttle on each broker, or `none`; repeat it to compare.",
    )
    orders: tuple[Order, ...] = parsed_option(
        None,
        "--order",
        typed=REPEATED,
        parse=_orders,
        metavar="ORDER",
        help="`schedule`, `plan` or `all-at-once`; repeat it to compare.",
    )
    kills: tuple[Fault, ...] = parsed_option(
        None,
        "--kill",
        typed=REPEATED,
        parse=partial(_faults, kind=FaultKind.KILL),
        metavar="BROKER@TIME",
        help="Kill a broker this long after the start.",
    )
    revivals: tuple[Fault, ...] = parsed_option(
        None,
        "--revive",
        typed=REPEATED,
        parse=partial(_faults, kind=FaultKind.REVIVE),
        metavar="BROKER@TIME",
        help="Start a dead broker again.",
    )
    ingest: int = parsed_option(
        "",
        "--ingest",
        parse=lambda text: parse_rate(text) if text else 0,
        metavar="RATE",
        help="What producers write to the whole cluster, divided by partition size; retention deletes nothing.",
    )
    line_rate: int = parsed_option(
        "200MB",
        "--line-rate",
        parse=parse_rate,
        metavar="RATE",
        help="Network bandwidth of a broker in each direction.",
    )
    efficiency: Fraction = parsed_option(
        "80%",
        "--efficiency",
        parse=partial(parse_percent, flag="--efficiency"),
        metavar="PERCENT",
        help="Share of a throttle that brokers reach on average.",
    )
    quota_window: int = option(
        11, "--quota-window", min=2, max=1000, help="replication.quota.window.num of the brokers."
    )
    limits: ScheduleLimits = ScheduleLimits()
    most_s: int = not_typed(7 * 86_400)

    def __post_init__(self) -> None:
        if not self.efficiency:
            raise UsageError("--efficiency 0%: nothing would ever move")
        cases = len(self.throttles) * len(self.orders)
        if cases > MOST_CASES:
            raise UsageError(f"{cases} cases are more than {MOST_CASES}", hint="give fewer throttles or orders")

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What happens to brokers, in the order of its times."""
        return tuple(sorted((*self.kills, *self.revivals)))
