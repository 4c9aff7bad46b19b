"""The limits that lag is held against, and the verdict of `lag check` with reasons and performance data.

There is one set of limits for all groups, or a set by rule, and the first rule that fits a group counts. Owners name
their groups by globs.

The format of the data is that of monitoring plugins: `'label'=value[unit];warn;crit;min` with seconds as `s`
(https://www.monitoring-plugins.org/doc/guidelines.html).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import format_duration, parse_duration
from kafkakit.core.text import few_of
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import FigureFlag, TimeLag, span_text, utc_text
from kafkakit.streams.lag.decide.views import ViewLevel, ViewLine, view

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.measure.table import LagTable


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
            raise UsageError(f"{name}: {word!r:.40} is not a status", hint=f"choose from {', '.join(sorted(known))}")
    return frozenset(known[word] for word in words)


MAX_BREACHES = 20
PACE = (LagStatus.WARNING, LagStatus.STALLED)
"""Statuses of a group that still commits, but reads too slowly."""


class LagVerdict(IntEnum):
    """The outcome, numbered as the exit codes of monitoring plugins are."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


GRAVITY = (LagVerdict.OK, LagVerdict.WARNING, LagVerdict.UNKNOWN, LagVerdict.CRITICAL)
"""The gravest last: what is not known may be critical, so it outweighs a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One reason for a verdict that is not OK; `text` is a sentence without its full stop.

    `owner` is that of the group, empty where none is known. `is_of_pace` says that slow reading explains it, as a move
    of partitions causes; `run` is the run whose moves silence it, empty where none does.
    """

    verdict: LagVerdict
    cluster: str
    group: str
    topic: str
    partition: int
    text: str
    owner: str = ""
    is_of_pace: bool = False
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict, the gravest reasons (at most 20, `more` beyond them), one line of text, and performance data.

    `owners` are the gravest verdict and the number of reasons of each owner, over all reasons. Of the
    `silenced_count` reasons that moves of our own silence, `silenced` holds the gravest 20.
    """

    verdict: LagVerdict
    breaches: tuple[Breach, ...]
    more: int
    summary: str
    performance: str
    owners: Mapping[str, tuple[LagVerdict, int]] = field(default_factory=dict)
    silenced: tuple[Breach, ...] = ()
    silenced_count: int = 0


def check_lag(
    tables: "Sequence[LagTable]", rules: LimitRules, moved: Mapping[tuple[str, str], str] | None = None
) -> CheckResult:
    """Judge every group-partition of the tables; none at all is UNKNOWN. Cost: one object for each of them.

    `moved` maps a cluster and a topic to the run of kafkakit that moves its partitions: reasons that slow reading
    explains are silenced there. What is lost, stopped, about to be deleted or not known never is.
    """
    topics = view(tables, ViewLevel.GROUP_TOPIC)
    partitions = view(tables, ViewLevel.PARTITION)
    found: list[Breach] = []
    limits: dict[tuple[str, str], tuple[Thresholds, str]] = {}
    for line in (*topics.lines, *partitions.lines):
        key = line.group, line.topic
        if key not in limits:
            owner = rules.owner_of(line.group)
            limits[key] = rules.of(*key, owner), owner
        thresholds, owner = limits[key]
        judge = _of_records if line.partition < 0 else _of_partition
        run = (moved or {}).get((line.cluster, line.topic), "")
        found += (replace(b, owner=owner, run=run if b.is_of_pace else "") for b in judge(line, thresholds))
    found.sort(key=lambda b: (-GRAVITY.index(b.verdict), b.cluster, b.group, b.topic, b.partition, b.text))
    silenced = [b for b in found if b.run]
    found = [b for b in found if not b.run]
    owners: dict[str, tuple[LagVerdict, int]] = {}
    for breach in found:  # the gravest of each owner comes first
        gravest, count = owners.get(breach.owner, (breach.verdict, 0))
        owners[breach.owner] = gravest, count + 1
    verdict = found[0].verdict if found else LagVerdict.OK
    if not partitions.lines:
        verdict = LagVerdict.UNKNOWN
    return CheckResult(
        verdict=verdict,
        breaches=tuple(found[:MAX_BREACHES]),
        more=max(0, len(found) - MAX_BREACHES),
        summary=_summary(verdict, found, len(partitions.lines)) + _silenced_text(silenced),
        # Limits that differ by rule have no place in performance data.
        performance=_performance(topics.lines, partitions.lines, Thresholds() if rules.rules else rules.default),
        owners=owners,
        silenced=tuple(silenced[:MAX_BREACHES]),
        silenced_count=len(silenced),
    )


def _of_records(line: ViewLine, thresholds: Thresholds) -> Iterator[Breach]:
    for verdict, limits in _sides(thresholds):
        if limits.max_lag is not None and line.lag > limits.max_lag:
            yield _breach(line, verdict, f"lag {line.lag:,} is above {limits.max_lag:,}", is_of_pace=True)
            return
        if limits.max_lag is not None and line.held_ms is not None and line.uncommitted > limits.max_lag:
            text = f"lag {line.uncommitted:,} up to the end of the log, past an open transaction, is above"
            yield _breach(line, verdict, f"{text} {limits.max_lag:,}")
            return

    at_most = line.lag + line.unread
    if line.unread and any(at_most > limits.max_lag for _, limits in _sides(thresholds) if limits.max_lag is not None):
        yield _breach(
            line, LagVerdict.UNKNOWN, f"lag is between {line.lag:,} and {at_most:,}: some partitions have no commit"
        )


def _of_partition(line: ViewLine, thresholds: Thresholds) -> Iterator[Breach]:
    """All breaches of one partition, each kind once, the gravest."""
    by_status = _of_status(line, thresholds)
    if line.status is LagStatus.NO_COMMIT:
        if by_status is not None:
            yield by_status
        if any(limits.max_time_lag_ms is not None for _, limits in _sides(thresholds)):
            yield _breach(line, LagVerdict.UNKNOWN, "the time lag is not known (no commit)")
        return
    if line.status is LagStatus.AHEAD and by_status is not None:
        yield by_status
        return
    is_vague = bool(line.backlog.flags & (FigureFlag.STALE | FigureFlag.NO_END | FigureFlag.OTHER_TOPIC))
    if line.unknown or is_vague:
        why = ", ".join(_VAGUE.get(word, word).replace("_", " ") for word in line.backlog.flags.words) or "unknown"
        yield _breach(line, LagVerdict.UNKNOWN, f"the lag is not known now ({why})")
        if not line.backlog.is_exact:
            return
    lag_ms = _judged_bound(line.backlog, thresholds.judge)
    for verdict, limits in _sides(thresholds):
        limit = limits.max_time_lag_ms
        if limit is not None and (lag_ms is None or lag_ms > limit):
            found = LagVerdict.UNKNOWN if lag_ms is None else verdict
            text = f"time lag {_interval_text(line.backlog)} is above {format_duration(limit / 1000)}"
            yield _breach(line, found, text, is_of_pace=found is not LagVerdict.UNKNOWN)
            break
    for verdict, limits in _sides(thresholds):
        limit, left = limits.min_retention_left_ms, line.retention_left_ms
        if limit is not None and left is not None and left < limit:
            soon = span_text(left)
            yield _breach(line, verdict, f"records are lost in {soon}, below {format_duration(limit / 1000)}")
            break
    if by_status is not None:
        yield by_status


_VAGUE = {"no_end": "no answer about the end of the log"}
"""Words of flags that say too little in a sentence."""


def _of_status(line: ViewLine, thresholds: Thresholds) -> Breach | None:
    """The gravest breach by the status of one partition."""
    for verdict, limits in _sides(thresholds):
        if line.status in limits.statuses:
            return _breach(line, verdict, _status_text(line), is_of_pace=line.status in PACE)
    return None


def _status_text(line: ViewLine) -> str:
    if line.status is LagStatus.AHEAD:
        return "status ahead: the commit is beyond the end of the log"
    if line.status is LagStatus.NO_COMMIT:
        return f"status no_commit: a member owns it, and {line.unread:,} records lie in it"
    if line.status is LagStatus.STOPPED and line.held_ms is not None:
        since = utc_text(line.held_ms)
        return f"status stopped: the group has no members, and stands at a transaction open since {since}"
    if line.status is LagStatus.HELD_BACK and line.held_ms is not None:
        return f"status held_back: readers of committed data wait for a transaction open since {utc_text(line.held_ms)}"
    return f"status {line.status.word}, judged over {format_duration(line.window_ms / 1000)}"


def _judged_bound(lag: TimeLag, judge: JudgedBound) -> int | None:
    if judge is JudgedBound.LOW:
        return lag.low_ms
    return lag.estimate_ms if judge is JudgedBound.ESTIMATE else lag.high_ms


def _interval_text(lag: TimeLag) -> str:
    if lag.is_exact:
        return span_text(lag.low_ms)
    high = "unknown" if lag.high_ms is None else span_text(lag.high_ms)
    return f"from {span_text(lag.low_ms)} to {high}"


def _sides(thresholds: Thresholds) -> tuple[tuple[LagVerdict, LagLimits], ...]:
    return (LagVerdict.CRITICAL, thresholds.critical), (LagVerdict.WARNING, thresholds.warning)


def _breach(line: ViewLine, verdict: LagVerdict, text: str, *, is_of_pace: bool = False) -> Breach:
    return Breach(
        verdict=verdict,
        cluster=line.cluster,
        group=line.group,
        topic=line.topic,
        partition=line.partition,
        text=text,
        is_of_pace=is_of_pace,
    )


def _summary(verdict: LagVerdict, found: list[Breach], partitions: int) -> str:
    if not partitions:
        return "LAG UNKNOWN - no group has a commit that matches the request"
    if not found:
        return f"LAG OK - {partitions:,} group-partitions within limits"
    first = found[0]
    part = "" if first.partition < 0 else f"/{first.partition}"
    owner = f" (owner {first.owner})" if first.owner else ""
    rest = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
    return f"LAG {verdict.name} - {first.cluster} {first.group} {first.topic}{part}{owner}: {first.text}{rest}"


def _silenced_text(silenced: Sequence[Breach]) -> str:
    if not silenced:
        return ""
    runs = sorted({b.run for b in silenced})
    runs_text = f"run {runs[0]} moves" if len(runs) == 1 else f"runs {few_of(runs)} move"
    return f"; {len(silenced):,} silenced while {runs_text} their topics"


def _performance(topics: Sequence[ViewLine], partitions: Sequence[ViewLine], thresholds: Thresholds) -> str:
    critical, warning = thresholds.critical, thresholds.warning
    parts = [
        f"lag_max={max((n.lag for n in topics), default=0)};{_or_none(warning.max_lag)};{_or_none(critical.max_lag)};0",
        f"lost={sum(n.lost for n in topics if not n.stale)};;;0",
    ]
    ages = [n.backlog for n in partitions if n.backlog.estimate_ms is not None]
    limits = ";".join(_seconds_or_none(side.max_time_lag_ms) for side in (warning, critical))
    if ages:
        parts.append(f"time_lag_low_max={max(a.low_ms for a in ages) / 1000:.12g}s;{limits};0")
        parts.append(f"time_lag_max={max(a.estimate_ms or 0 for a in ages) / 1000:.12g}s;{limits};0")
    left = [n.retention_left_ms for n in partitions if n.retention_left_ms is not None]
    if left:
        parts.append(f"retention_left_min={min(left) / 1000:.12g}s;;;0")
    return " ".join(parts)


def _or_none(limit: int | None) -> str:
    return "" if limit is None else str(limit)


def _seconds_or_none(limit_ms: int | None) -> str:
    return "" if limit_ms is None else f"{limit_ms / 1000:.12g}"
