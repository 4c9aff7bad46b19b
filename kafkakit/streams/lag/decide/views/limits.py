"""The limits that lag is held against: one set for all groups, or a set by rule, and who owns which groups."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from kafkakit.core.durations import parse_duration
from kafkakit.core.errors import UsageError
from kafkakit.streams.lag.decide.measure.status import LagStatus

_COUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([kKmMgG]?)")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
LIMIT_KEYS = tuple(f"{side}_{what}" for what in ("lag", "time", "retention", "status") for side in ("warn", "crit"))
"""The words for limits, as options and the limits file spell them."""


class JudgedBound(StrEnum):
    """Which bound of a time lag is held against the limit: LOW gives no false alarm."""

    LOW = "low"
    ESTIMATE = "estimate"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLimits:
    """Limits of one severity; None for none. `max_lag` is of a group in one topic, the others of a partition."""

    max_lag: int | None = None
    max_time_lag_ms: int | None = None
    min_retention_left_ms: int | None = None
    statuses: frozenset[LagStatus] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is critical, what is a warning, and which bound of a time lag counts."""

    critical: LagLimits = field(default_factory=LagLimits)
    warning: LagLimits = field(default_factory=LagLimits)
    judge: JudgedBound = JudgedBound.LOW


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """The thresholds of the groups and topics whose names match the globs; `owner` empty: of any owner."""

    thresholds: Thresholds
    group: str = "*"
    topic: str = "*"
    owner: str = ""

    def fits(self, group: str, topic: str, owner: str) -> bool:
        """True when the rule is about this group in this topic."""
        return self.owner in ("", owner) and fnmatchcase(group, self.group) and fnmatchcase(topic, self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """The first rule that fits counts, and `default` where none does; `owners` name their groups by globs, in order."""

    default: Thresholds
    rules: tuple[LimitRule, ...] = ()
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def owner_of(self, group: str) -> str:
        """The first owner that names the group, empty when none does."""
        named = (owner for owner, globs in self.owners.items() if any(fnmatchcase(group, glob) for glob in globs))
        return next(named, "")

    def of(self, group: str, topic: str, owner: str) -> Thresholds:
        """The thresholds of a group in a topic."""
        return next((rule.thresholds for rule in self.rules if rule.fits(group, topic, owner)), self.default)


def parse_count(text: str, name: str = "count") -> int:
    """Read a number of records: `500`, `10k`, `1.5M`; k, M and G are powers of 1000."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{name} {text[:40]!r} is not a number of records", hint="write 500, 10k or 1.5M")
    return round(float(match[1]) * _TIMES[match[2].lower()])


def parse_thresholds(words: Mapping[str, str | None], judge: JudgedBound, named: Callable[[str], str]) -> Thresholds:
    """Thresholds from the words of `LIMIT_KEYS`; `UsageError` calls a word that cannot be read what `named` says."""

    def limits(side: str) -> LagLimits:
        count = words[f"{side}_lag"]
        return LagLimits(
            max_lag=None if count is None else parse_count(count, named(f"{side}_lag")),
            max_time_lag_ms=milliseconds(f"{side}_time"),
            min_retention_left_ms=milliseconds(f"{side}_retention"),
            statuses=_statuses(words[f"{side}_status"] or "", named(f"{side}_status")),
        )

    def milliseconds(key: str) -> int | None:
        text = words[key]
        return None if text is None else round(parse_duration(text, named(key)) * 1000)

    return Thresholds(critical=limits("crit"), warning=limits("warn"), judge=judge)


def option_of(key: str) -> str:
    """The option of a word of `LIMIT_KEYS`."""
    return f"--{key.replace('_', '-')}"


def _statuses(text: str, name: str) -> frozenset[LagStatus]:
    words = [word.strip() for word in text.split(",") if word.strip() not in ("", "none")]
    known = {status.word: status for status in LagStatus}
    for word in words:
        if word not in known:
            raise UsageError(f"{name}: {word!r:.40} is no status", hint=f"there are {', '.join(sorted(known))}")
    return frozenset(known[word] for word in words)
