"""Hours of the week in which copies may take more or less: a table of rules, the first that fits counts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_percent

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RULE = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))? )?([0-9]{1,2})-([0-9]{1,2}) (reserve )?([0-9.]+ *%)")
_HINT = "write [DAY[-DAY] ]HOUR-HOUR PERCENT, such as 'mon-fri 8-20 50%', or 'mon-fri 8-20 reserve 30%'"
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRule:
    """From `first_hour` up to `end_hour` of the `days` (0 is Monday; past midnight where the end is the lower one).

    `factor` multiplies what copies may take; `reserve` replaces the share of a capacity that stays free.
    """

    days: frozenset[int]
    first_hour: int
    end_hour: int
    factor: float = 1.0
    reserve: float | None = None

    def holds(self, day: int, hour: int) -> bool:
        """True when the rule speaks of this hour; hours after midnight belong to the day before."""
        if self.first_hour < self.end_hour:
            return day in self.days and self.first_hour <= hour < self.end_hour
        return (day in self.days and hour >= self.first_hour) or ((day - 1) % 7 in self.days and hour < self.end_hour)


def parse_time_rule(text: str) -> TimeRule:
    """Read `mon-fri 8-20 50%`, `22-6 100%` or `sat 0-24 reserve 5%`; raises `UsageError` for anything else."""
    match = _RULE.fullmatch(text.strip().lower())
    days = [d for d in match.groups()[:2] if d] if match else []
    if match is None or not set(days) <= set(DAYS) or int(match[3]) > 23 or int(match[4]) > 24:
        raise UsageError(f"{text!r:.60} is not a time rule", hint=_HINT)
    first, last = (DAYS.index(days[0]), DAYS.index(days[-1])) if days else (0, 6)
    share: Fraction = parse_percent(match[6], text[:40])
    if share == (1 if match[5] else 0):
        raise UsageError(f"{text!r:.60} leaves nothing for copies", hint=_HINT)
    return TimeRule(
        days=frozenset((first + n) % 7 for n in range((last - first) % 7 + 1)),
        first_hour=int(match[3]),
        end_hour=int(match[4]),
        factor=1.0 if match[5] else float(share),
        reserve=float(share) if match[5] else None,
    )


def rule_at(rules: Iterable[TimeRule], at_ms: int, utc_offset_s: int) -> TimeRule | None:
    """The first rule that holds at this moment (milliseconds since 1970, UTC) at this offset from UTC."""
    hours = (at_ms + utc_offset_s * 1000) // _HOUR_MS
    day = (hours // 24 + 3) % 7  # 1 January 1970 was a Thursday
    return next((rule for rule in rules if rule.holds(day, hours % 24)), None)
