"""The limits that `kafkakit streams lag check` takes, each as a warning and as critical."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkakit.cli.option_groups import option
from kafkakit.streams.lag.decide.views.limits import LIMIT_KEYS, JudgedBound, LimitRules, option_of, parse_thresholds

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.streams.lag.decide.looks import Look

SAME_CRITICAL = "The same, as the critical threshold."


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of lag, of time, of what retention leaves, and the statuses."""

    warn_lag: str | None = option(
        None,
        "--warn-lag",
        metavar="N",
        help="Warn above this many records of a group in a topic (10k, 1.5M).",
    )
    crit_lag: str | None = option(None, "--crit-lag", metavar="N", help=SAME_CRITICAL)
    warn_time: str | None = option(
        None, "--warn-time", metavar="DURATION", help="Warn above this time lag of a partition."
    )
    crit_time: str | None = option(None, "--crit-time", metavar="DURATION", help=SAME_CRITICAL)
    warn_retention: str | None = option(
        None,
        "--warn-retention",
        metavar="DURATION",
        help="Warn when pending records will be deleted within this time.",
    )
    crit_retention: str | None = option(None, "--crit-retention", metavar="DURATION", help=SAME_CRITICAL)
    warn_status: str = option(
        "stalled,rewind", "--warn-status", metavar="STATUS,...", help="Statuses to warn of; none: no status."
    )
    crit_status: str = option(
        "stopped,lost", "--crit-status", metavar="STATUS,...", help="Statuses that are critical; none: no status."
    )
    judge: JudgedBound = option(
        JudgedBound.LOW, "--judge", help="Which end of a time lag's interval is compared; low gives no false alarms."
    )

    limits: Path | None = option(
        None,
        "--limits",
        metavar="FILE",
        help="YAML file of rules with limits by group, topic or owner; options are for what no rule matches.",
    )

    def rules(self) -> LimitRules:
        """The limits as numbers; `UsageError` names the option, or the line of the file, that cannot be read."""
        from kafkakit.streams.lag.decide.views.limits_file import LIMIT_BYTES, read_limit_rules
        from kafkakit.wiring import read_input

        words = {key: getattr(self, key) for key in LIMIT_KEYS}
        default = parse_thresholds(words, self.judge, option_of)
        if self.limits is None:
            return LimitRules(default=default)
        return read_limit_rules(read_input(self.limits, LIMIT_BYTES), str(self.limits), words, self.judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceOptions:
    """Whether lag that our own moves explain is silenced, and for how long."""

    silence_own_moves: bool = option(
        False,
        "--silence-own-moves",
        help="Leave out slow reading of topics that an unfinished run of this host moves; it is counted.",
    )
    silence_limit: str = option(
        "4h", "--silence-limit", metavar="DURATION", help="Silence for no longer after a run began."
    )

    @property
    def limit_s(self) -> float:
        """The limit in seconds."""
        from kafkakit.core.durations import parse_duration

        return parse_duration(self.silence_limit, "--silence-limit")

    def moved(self, cli: CliContext, look: Look) -> dict[tuple[str, str], str]:
        """The runs that move topics, by cluster and topic; none where nothing is to be silenced."""
        from kafkakit.streams.lag.act.own_moves import moves_of_look
        from kafkakit.wiring import system_clock

        if not self.silence_own_moves:
            return {}
        return moves_of_look(look, cli.settings.state_dir, system_clock().now(), self.limit_s, cli.output.warn)
