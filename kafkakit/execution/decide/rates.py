"""Rates as operators ask for them: one for all brokers, exceptions by broker and direction, one for log dirs.

What is asked for is laid over what an earlier run had (`RateRequest.over`), so that a resumed or changed run keeps
every rate that was not named.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import MAX_RATE, format_rate, parse_rate
from kafkakit.execution.decide.schedule.work import Rates

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

    def over(self, earlier: Rates) -> Rates:
        """The rates that hold from now on: a new rate for all drops earlier exceptions, the rest stays."""
        rates = earlier
        if self.given:
            rates = Rates(into=self.rate, out=self.rate, inside=earlier.inside)
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


def rates_to_data(rates: Rates) -> dict[str, Any]:
    """Rates as JSON data, for the journal and for a running executor."""
    return {
        "into": rates.into,
        "out": rates.out,
        "inside": rates.inside,
        "into_of": {str(b): r for b, r in sorted(rates.into_of.items())},
        "out_of": {str(b): r for b, r in sorted(rates.out_of.items())},
    }


def rates_from_data(data: Mapping[str, Any]) -> Rates:
    """Read what `rates_to_data` wrote; raises `ValueError`, `KeyError` or `TypeError` for anything else."""
    return Rates(
        into=_checked(data["into"]),
        out=_checked(data["out"]),
        inside=_checked(data["inside"]),
        into_of={_broker(b): _positive(r) for b, r in sorted(dict(data["into_of"]).items())},
        out_of={_broker(b): _positive(r) for b, r in sorted(dict(data["out_of"]).items())},
    )


def is_unlimited(rates: Rates) -> bool:
    """True when no throttle is wanted anywhere."""
    limits = (rates.into, rates.out, rates.inside)
    return all(r is None for r in limits) and not rates.into_of and not rates.out_of


def rate_words(rates: Rates) -> str:
    """The rates in one line for people: `20 MB/s per broker; broker 3: in 10 MB/s, out 40 MB/s`."""
    if rates.into == rates.out:
        words = [] if rates.into is None else [f"{format_rate(rates.into)} per broker"]
    else:
        words = [f"in {_told(rates.into)} and out {_told(rates.out)} per broker"]
    brokers = sorted({*rates.into_of, *rates.out_of})
    for broker in brokers[:SHOWN]:
        sides = [("in", rates.into_of.get(broker)), ("out", rates.out_of.get(broker))]
        words.append(f"broker {broker}: " + ", ".join(f"{w} {format_rate(r)}" for w, r in sides if r is not None))
    if len(brokers) > SHOWN:
        words.append(f"{len(brokers) - SHOWN} more brokers with rates of their own")
    if rates.inside is not None:
        words.append(f"between log dirs {format_rate(rates.inside)}")
    return "; ".join(words) or "none"


def lifting_options(rates: Rates) -> tuple[str, ...]:
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


def _checked(value: Any) -> int | None:
    return None if value is None else _positive(value)


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_RATE:
        raise ValueError
    return value


def _broker(name: str) -> int:
    if not _BROKER.fullmatch(name):
        raise ValueError
    return int(name)


def _told(rate: int | None) -> str:
    return "without limit" if rate is None else format_rate(rate)
