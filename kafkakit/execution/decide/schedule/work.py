"""What a schedule is made of: tasks, disks, limits and rates on one side, steps with their times on the other.

A *task* is what is left to do for one partition. The scheduler cuts tasks into *steps*: one request to Kafka each (or
one copy that changes its log dir inside a broker). Most tasks are one step; a task is several if one new replica at a
time is wanted, or if a cycle of full disks is broken by a detour over a spare.

Operators give one rate for all brokers, exceptions by broker and direction, and one for log dirs. What is given is
laid over what an earlier run had (`RateRequest.over`), so a resumed or changed run keeps every rate that was not
named.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import MAX_RATE, format_rate, parse_rate

# What a control request may hold.
_Rate = Annotated[int, Meta(ge=1, le=2**62)]
_RateOf = Annotated[Mapping[Annotated[int, Meta(ge=0, le=2**31 - 1)], _Rate], Meta(max_length=2000)]


@dataclass(frozen=True, slots=True, order=True)
class LogDirPlace:
    """One log dir of one broker; `log_dir` is empty where the broker does not tell its dirs."""

    broker: int
    log_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a log dir holds at the start, in bytes; `total_bytes` None: unknown, and then not limited.

    `usable_bytes` is what the broker reports now (files waiting for deletion still count as used).
    `growth_bytes_per_s` is what all copies in it together take in. A closed dir (cordoned, broken) gets nothing new.
    """

    place: LogDirPlace
    total_bytes: int | None
    usable_bytes: int | None
    growth_bytes_per_s: float = 0.0
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """What is left for one partition: from the full copies in `holders` to the list `target`.

    `dirs` says where each copy of `holders` is (by broker), `wanted_dirs` where new copies are to go, as far as the
    plan says. `leader` serves all new copies (None: no broker can now). `size_bytes` is one copy's, 0 when unknown;
    `ingest_bytes_per_s` what the log takes in meanwhile. Urgent ones (under min ISR) go first. `running` is on the
    cluster already, with `copied_bytes` of all its new copies there.
    """

    key: TopicPartition
    holders: tuple[int, ...]
    target: tuple[int, ...]
    leader: int | None
    size_bytes: int
    dirs: Mapping[int, str] = field(default_factory=dict)
    wanted_dirs: Mapping[int, str] = field(default_factory=dict)
    ingest_bytes_per_s: float = 0.0
    urgent: bool = False
    running: bool = False
    copied_bytes: int = 0

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.target if b not in self.holders)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(b for b in self.holders if b not in self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirTask:
    """One copy that is to change its log dir inside its broker."""

    key: TopicPartition
    broker: int
    source_dir: str
    target_dir: str
    size_bytes: int
    ingest_bytes_per_s: float = 0.0
    running: bool = False
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRates:
    """Bytes per second of a broker: what it may send (`out`), take in (`into`), and copy between its own dirs.

    None: not limited by a throttle. The mappings hold what differs from the default, by broker.
    """

    into: _Rate | None = None
    out: _Rate | None = None
    inside: _Rate | None = None
    into_of: _RateOf = field(default_factory=dict)
    out_of: _RateOf = field(default_factory=dict)

    def into_broker(self, broker: int) -> int | None:
        """What the broker may take in."""
        return self.into_of.get(broker, self.into)

    def out_of_broker(self, broker: int) -> int | None:
        """What the broker may send."""
        return self.out_of.get(broker, self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast things go, for times only: bytes per second of a link that no throttle limits (`is_measured`: earlier
    copies reached it), and the share of a throttle that brokers really reach (`efficiency`; see
    `simulator.efficiency_of`).

    The controller ends `steps_per_s` reassignments a second (measured with empty partitions on 4.1). A step keeps its
    places for `step_s` beside its copying: until the new copies fetch, are back in the ISR, and the next look finds it.
    """

    line_bytes_per_s: float = 200e6
    is_measured: bool = False
    disk_bytes_per_s: float = 200e6
    efficiency: float = 0.8
    steps_per_s: float = 100.0
    step_s: float = 0.5


class StepKind(StrEnum):
    """`move`: straight to the task's target. `part`: one of several requests of a task on its way there.
    `detour`: to a spare place that is not in the target. `inside`: a copy changes dir inside its broker."""

    MOVE = "move"
    PART = "part"
    DETOUR = "detour"
    INSIDE = "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStep:
    """One request, with its predicted times in seconds from the start of the run.

    `target` is the list to send (empty for `inside`). `adding` and `removing` are the log dirs of copies that come
    and go; dirs are named where the broker tells them. `size_bytes` is one copy's. `after` is the index of the same
    partition's step that must be finished first (None: none). `why` says why it is not a plain move, for people.
    """

    key: TopicPartition
    kind: StepKind
    target: tuple[int, ...]
    leader: int | None
    adding: tuple[LogDirPlace, ...]
    removing: tuple[LogDirPlace, ...]
    size_bytes: int
    start_s: float
    end_s: float
    running: bool = False
    after: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What keeps a run from being faster: a broker's direction (`into`, `out`, `inside`) and its bytes and rate."""

    broker: int
    direction: str
    bytes: int
    bytes_per_s: float

    @property
    def seconds(self) -> float:
        """How long this alone takes."""
        return self.bytes / self.bytes_per_s if self.bytes_per_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps in the order of their start, how long they take, and why no order is faster.

    `bound_s` is the busiest broker's bytes over its rate, or what so many requests take: no schedule of these tasks
    ends earlier. It is never above `makespan_s`; `bottleneck` is None where requests and not bytes make it.
    Sending steps in this order, each log dir's arrivals in the order of the list, never fills a disk.
    `immovable` names partitions that no order serves, with the reason: then `steps` brings all others.
    """

    steps: tuple[ScheduleStep, ...]
    makespan_s: float
    bound_s: float
    bottleneck: Bottleneck | None = None
    immovable: Mapping[TopicPartition, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def detours(self) -> tuple[ScheduleStep, ...]:
        """The steps to spare places."""
        return tuple(s for s in self.steps if s.kind is StepKind.DETOUR)


NONE = "none"
SAME = "same"
MAX_BROKER = 2**31 - 1
SHOWN = 8
GRAMMAR = "ID:RATE, ID:in=RATE, ID:out=RATE or ID:in=RATE,out=RATE"
_HINT = f"write {GRAMMAR}, such as 3:in=10MB,out=40MB"
_BROKER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRequest:
    """What the options ask for, in bytes/s; None is no limit.

    `rate` counts where `given`, `dirs_rate` where `dirs_given`. `into_of` and `out_of` are exceptions, by broker.
    """

    given: bool = False
    rate: int | None = None
    dirs_given: bool = False
    dirs_rate: int | None = None
    into_of: Mapping[int, int] = field(default_factory=dict)
    out_of: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when nothing at all was asked for."""
        return not (self.given or self.dirs_given or self.into_of or self.out_of)

    def over(self, earlier: BrokerRates) -> BrokerRates:
        """The rates that hold from now on: a new rate for all drops earlier exceptions, the rest stays."""
        rates = earlier
        if self.given:
            rates = BrokerRates(into=self.rate, out=self.rate, inside=earlier.inside)
        if self.dirs_given:
            rates = replace(rates, inside=self.dirs_rate)
        return replace(rates, into_of={**rates.into_of, **self.into_of}, out_of={**rates.out_of, **self.out_of})


def read_request(throttle: str | None, brokers: Sequence[str], dirs: str | None) -> RateRequest:
    """The texts of `--throttle`, `--throttle-broker` (repeatable) and `--throttle-dirs` as one request.

    Raises `UsageError` for what cannot be read, and for a broker's direction that is given twice.
    """
    into_of: dict[int, int] = {}
    out_of: dict[int, int] = {}
    for text in brokers:
        broker, into, out = parse_broker_rate(text)
        for there, rate, word in ((into_of, into, "in"), (out_of, out, "out")):
            if rate is None:
                continue
            if broker in there:
                raise UsageError(f"--throttle-broker gives broker {broker} two rates for {word}")
            there[broker] = rate
    same = throttle is None or throttle.strip().lower() == SAME
    return RateRequest(
        given=not same,
        rate=None if same or throttle is None else _rate_or_none(throttle),
        dirs_given=dirs is not None,
        dirs_rate=None if dirs is None else _rate_or_none(dirs),
        into_of=dict(sorted(into_of.items())),
        out_of=dict(sorted(out_of.items())),
    )


def parse_broker_rate(text: str) -> tuple[int, int | None, int | None]:
    """Read `3:10MB` (both directions) or `3:in=10MB,out=40MB` as (broker, in, out); None for what is not named.

    Raises `UsageError` that names the text.
    """
    name, colon, rest = text.partition(":")
    if not colon or not _BROKER.fullmatch(name.strip()) or int(name) > MAX_BROKER:
        raise UsageError(f"--throttle-broker {text!r:.60} names no broker", hint=_HINT)
    broker = int(name)
    if "=" not in rest:
        rate = _broker_rate(text, rest)
        return broker, rate, rate
    found: dict[str, int] = {}
    for part in rest.split(","):
        word, _, value = part.partition("=")
        word = word.strip().lower()
        if word not in ("in", "out"):
            raise UsageError(f"--throttle-broker {text!r:.60}: {word!r:.20} is neither in nor out", hint=_HINT)
        if word in found:
            raise UsageError(f"--throttle-broker {text!r:.60} gives two rates for {word}", hint=_HINT)
        found[word] = _broker_rate(text, value)
    return broker, found.get("in"), found.get("out")


def rates_to_data(rates: BrokerRates) -> dict[str, Any]:
    """Rates as JSON data, for the journal and for a running executor."""
    return {
        "into": rates.into,
        "out": rates.out,
        "inside": rates.inside,
        "into_of": {str(b): r for b, r in sorted(rates.into_of.items())},
        "out_of": {str(b): r for b, r in sorted(rates.out_of.items())},
    }


def rates_from_data(data: Mapping[str, Any]) -> BrokerRates:
    """Read what `rates_to_data` wrote; raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    return BrokerRates(
        into=_check_rate(data["into"]),
        out=_check_rate(data["out"]),
        inside=_check_rate(data["inside"]),
        into_of={_broker(b): _positive(r) for b, r in sorted(dict(data["into_of"]).items())},
        out_of={_broker(b): _positive(r) for b, r in sorted(dict(data["out_of"]).items())},
    )


def is_unlimited(rates: BrokerRates) -> bool:
    """True when no throttle is wanted anywhere."""
    limits = (rates.into, rates.out, rates.inside)
    return all(r is None for r in limits) and not rates.into_of and not rates.out_of


def rate_words(rates: BrokerRates) -> str:
    """The rates in one line for people: `20 MB/s per broker; broker 3: in 10 MB/s, out 40 MB/s`."""
    if rates.into == rates.out:
        words = [] if rates.into is None else [f"{format_rate(rates.into)} per broker"]
    else:
        words = [f"in {_rate_text(rates.into)} and out {_rate_text(rates.out)} per broker"]
    brokers = sorted({*rates.into_of, *rates.out_of})
    for broker in brokers[:SHOWN]:
        sides = [("in", rates.into_of.get(broker)), ("out", rates.out_of.get(broker))]
        words.append(f"broker {broker}: " + ", ".join(f"{w} {format_rate(r)}" for w, r in sides if r is not None))
    if len(brokers) > SHOWN:
        words.append(f"{len(brokers) - SHOWN} more brokers with rates of their own")
    if rates.inside is not None:
        words.append(f"between log dirs {format_rate(rates.inside)}")
    return "; ".join(words) or "none"


def lifting_options(rates: BrokerRates) -> tuple[str, ...]:
    """The options of a next run that lift these rates."""
    between = any(r is not None for r in (rates.into, rates.out)) or bool(rates.into_of or rates.out_of)
    found = (("--throttle none", between), ("--throttle-dirs none", rates.inside is not None))
    return tuple(option for option, given in found if given)


def without_rates(command: str) -> str:
    """A command line without options that set throttles."""
    return re.sub(r" --throttle(?:-broker|-dirs)?[ =](?:'[^']*'|[^ ])+", "", command)


def require_known(request: RateRequest, brokers: Iterable[int]) -> None:
    """Raise `UsageError` for a rate of a broker that the cluster does not have: most likely a typing error."""
    unknown = sorted({*request.into_of, *request.out_of} - set(brokers))
    if unknown:
        names = ", ".join(map(str, unknown))
        raise UsageError(f"--throttle-broker: broker {names} is not in the cluster", hint="check the ids")


def _rate_or_none(text: str) -> int | None:
    return None if text.strip().lower() == NONE else parse_rate(text)


def _broker_rate(text: str, value: str) -> int:
    if value.strip().lower() == NONE:
        raise UsageError(
            f"--throttle-broker {text!r:.60}: a single broker cannot be without a limit",
            hint="give it a rate that is higher than its link",
        )
    try:
        return parse_rate(value)
    except UsageError as error:
        raise UsageError(f"--throttle-broker {text!r:.60}: {error.message}", hint=_HINT) from None


def _check_rate(value: Any) -> int | None:
    return None if value is None else _positive(value)


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_RATE:
        raise ValueError
    return value


def _broker(name: str) -> int:
    if not _BROKER.fullmatch(name):
        raise ValueError
    return int(name)


def _rate_text(rate: int | None) -> str:
    return "without limit" if rate is None else format_rate(rate)
