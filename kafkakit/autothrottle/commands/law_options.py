"""The options of the laws of rates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option

if TYPE_CHECKING:
    from kafkakit.autothrottle.decide.capacities import Capacities
    from kafkakit.autothrottle.decide.law import Law
    from kafkakit.autothrottle.decide.simulate.cases import Stated


class LawName(StrEnum):
    """How rates are decided: to keep clients' objectives, by kafka-kit's formula, or one rate for all."""

    SLO = "slo"
    HEADROOM = "headroom"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LawChoice:
    """How rates are decided; the usual numbers are those of the laws."""

    law: LawName | None = option(None, "--law", help="The law of rates; slo when not given, fixed with --rate.")
    rate: str | None = option(None, "--rate", metavar="RATE", help="fixed: the rate for each broker.")
    min_rate: str | None = option(
        None,
        "--min-rate",
        envvar="AUTOTHROTTLE_MIN_RATE",
        metavar="RATE",
        help="No rate below this (slo 1MB, headroom 10MB); a bare number is MB.",
    )
    capacity: str | None = option(None, "--capacity", metavar="RATE", help="A broker's network in each direction.")
    broker_capacity: list[str] | None = option(
        None, "--broker-capacity", metavar="ID:RATE", help="That of one broker. Repeatable."
    )
    client_rate: str | None = option(
        None, "--client-rate", metavar="RATE", help="slo: what clients may take, without metrics."
    )
    reserve: str = option("10%", "--reserve", metavar="PERCENT", help="slo: the share of a capacity that stays free.")
    p99: str | None = option(None, "--p99", metavar="DURATION", help="slo: the most that produce requests may take.")
    queue: str | None = option(None, "--queue", metavar="DURATION", help="slo: the most they may wait in the queue.")
    rule: list[str] | None = option(
        None, "--rule", metavar="RULE", help="slo: a limit at times of the day, in UTC. Repeatable."
    )
    max_tx_rate: float = option(
        90.0,
        "--max-tx-rate",
        envvar="AUTOTHROTTLE_MAX_TX_RATE",
        min=0.1,
        max=99.9,
        help="headroom: percent of what is free to send.",
    )
    max_rx_rate: float = option(
        90.0,
        "--max-rx-rate",
        envvar="AUTOTHROTTLE_MAX_RX_RATE",
        min=0.1,
        max=99.9,
        help="headroom: percent of what is free to receive.",
    )
    change_threshold: float = option(
        10.0,
        "--change-threshold",
        envvar="AUTOTHROTTLE_CHANGE_THRESHOLD",
        min=0,
        max=100,
        help="headroom: percent of change worth a write.",
    )
    failure_threshold: int = option(
        1,
        "--failure-threshold",
        envvar="AUTOTHROTTLE_FAILURE_THRESHOLD",
        min=0,
        max=1000,
        help="headroom: looks without metrics to pass over.",
    )
    hold: str = option("2m", "--hold", metavar="DURATION", help="slo: how long rates stay without metrics.")
    sample: str = option("5s", "--sample", metavar="DURATION", help="Time between the first two looks at the log dirs.")

    @property
    def name(self) -> LawName:
        """The law's name."""
        return self.law or (LawName.SLO if self.rate is None else LawName.FIXED)

    def build(self, stale_ms: int = 45_000) -> Law:
        """The law, for metrics that are used up to an age of `stale_ms`; raises `UsageError` for an unreadable text."""
        from kafkakit.autothrottle.decide.fixed import fixed_law
        from kafkakit.autothrottle.decide.headroom import HeadroomSettings, headroom_law
        from kafkakit.autothrottle.decide.slo import slo_law
        from kafkakit.autothrottle.decide.slo_settings import SloSettings
        from kafkakit.autothrottle.decide.time_rules import parse_time_rule
        from kafkakit.core.durations import parse_duration
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_percent, parse_rate

        if (self.name is LawName.FIXED) != (self.rate is not None):
            raise UsageError("--rate is for --law fixed, which needs it")
        if self.rate is not None:
            return fixed_law(parse_rate(self.rate))
        capacity = _rate(self.capacity)
        least = _least_rate(self.min_rate or ("10MB" if self.name is LawName.HEADROOM else "1MB"))
        if self.name is LawName.HEADROOM:
            return headroom_law(
                HeadroomSettings(
                    capacity=capacity,
                    max_tx_percent=self.max_tx_rate,
                    max_rx_percent=self.max_rx_rate,
                    change_percent=self.change_threshold,
                    failure_threshold=self.failure_threshold,
                    min_rate=least,
                )
            )
        return slo_law(
            SloSettings(
                stale_ms=stale_ms,
                reserve=float(parse_percent(self.reserve, "--reserve")),
                capacity=capacity,
                client_rate=_rate(self.client_rate),
                p99_ms=_ms(self.p99, "--p99"),
                queue_ms=_ms(self.queue, "--queue"),
                rules=tuple(parse_time_rule(text) for text in self.rule or ()),
                min_rate=least,
                hold_ms=round(parse_duration(self.hold, "--hold") * 1000),
            )
        )

    def stated(self, capacities: Capacities) -> Stated:
        """What is stated of brokers, for a simulation; raises `UsageError` for a text that cannot be read."""
        from kafkakit.autothrottle.decide.simulate.cases import Stated

        return Stated(
            capacity=_rate(self.capacity),
            capacity_of=capacities.of_broker,
            client_rate=_rate(self.client_rate),
        )


def _rate(text: str | None) -> float | None:
    from kafkakit.core.quantities import parse_rate

    return None if text is None else float(parse_rate(text))


def _ms(text: str | None, flag: str) -> float | None:
    from kafkakit.core.durations import parse_duration

    return None if text is None else parse_duration(text, flag) * 1000


def _least_rate(text: str) -> int:
    """A rate, or a small bare number of MB, which is how kafka-kit takes it."""
    from kafkakit.core.quantities import BARE_RATE_MIN, parse_rate

    bare = text.strip()
    is_bare = bare.replace(".", "", 1).isascii() and bare.replace(".", "", 1).isdigit()
    if is_bare and float(bare) >= BARE_RATE_MIN:
        from kafkakit.core.errors import UsageError

        raise UsageError(f"--min-rate {bare:.40} has no unit", hint=f"write {bare:.40}B or {bare:.40}MB")
    return parse_rate(f"{bare}MB" if is_bare else text)
