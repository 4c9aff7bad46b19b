"""The limits that `kafkakit streams lag check` takes, each as a warning and as critical."""

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkakit.core.durations import parse_duration
from kafkakit.core.errors import UsageError
from kafkakit.streams.lag.decide.measure.status import LagStatus
from kafkakit.streams.lag.decide.views.thresholds import JudgedBound, LagLimits, Thresholds, parse_count

SAME_CRITICAL = "The same, as the critical threshold."


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of lag, of time, of what retention leaves, and the statuses."""

    warn_lag: Annotated[
        str | None,
        typer.Option(
            "--warn-lag",
            metavar="N",
            help="Warn above this many records of a group in a topic (10k, 1.5M).",
            show_default=False,
        ),
    ] = None
    crit_lag: Annotated[str | None, typer.Option("--crit-lag", metavar="N", help=SAME_CRITICAL, show_default=False)] = (
        None
    )
    warn_time: Annotated[
        str | None,
        typer.Option(
            "--warn-time", metavar="DURATION", help="Warn above this time lag of a partition.", show_default=False
        ),
    ] = None
    crit_time: Annotated[
        str | None, typer.Option("--crit-time", metavar="DURATION", help=SAME_CRITICAL, show_default=False)
    ] = None
    warn_retention: Annotated[
        str | None,
        typer.Option(
            "--warn-retention",
            metavar="DURATION",
            help="Warn when pending records will be deleted within this time.",
            show_default=False,
        ),
    ] = None
    crit_retention: Annotated[
        str | None, typer.Option("--crit-retention", metavar="DURATION", help=SAME_CRITICAL, show_default=False)
    ] = None
    warn_status: Annotated[
        str, typer.Option("--warn-status", metavar="STATUS,...", help="Statuses to warn of; none: no status.")
    ] = "stalled,rewind"
    crit_status: Annotated[
        str, typer.Option("--crit-status", metavar="STATUS,...", help="Statuses that are critical; none: no status.")
    ] = "stopped,lost"
    judge: Annotated[
        JudgedBound,
        typer.Option("--judge", help="Which end of a time lag's interval is compared; low gives no false alarms."),
    ] = JudgedBound.LOW

    def thresholds(self) -> Thresholds:
        """The limits as numbers; `UsageError` names the option that cannot be read."""
        return Thresholds(
            critical=_limits("crit", self.crit_lag, self.crit_time, self.crit_retention, self.crit_status),
            warning=_limits("warn", self.warn_lag, self.warn_time, self.warn_retention, self.warn_status),
            judge=self.judge,
        )


def _limits(side: str, lag: str | None, time: str | None, retention: str | None, statuses: str) -> LagLimits:
    words = [word.strip() for word in statuses.split(",") if word.strip() not in ("", "none")]
    known = {status.word: status for status in LagStatus}
    for word in words:
        if word not in known:
            raise UsageError(
                f"--{side}-status: {word!r:.40} is no status", hint=f"there are {', '.join(sorted(known))}"
            )
    return LagLimits(
        max_lag=None if lag is None else parse_count(lag, f"--{side}-lag"),
        max_time_lag_ms=_milliseconds(time, f"--{side}-time"),
        min_retention_left_ms=_milliseconds(retention, f"--{side}-retention"),
        statuses=frozenset(known[word] for word in words),
    )


def _milliseconds(text: str | None, name: str) -> int | None:
    return None if text is None else round(parse_duration(text, name) * 1000)
