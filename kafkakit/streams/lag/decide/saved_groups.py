"""The figures of groups that a lag monitor leaves behind for other commands, beside the state that it reads on from.

The state has commits and ends, and no times: how far behind in time a group was is known only while records are read.
So the view of each group in a topic, the worst first, is a small document of its own, written whenever the state is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.quantities import format_duration, format_rough_time
from kafkakit.streams.lag.decide.limits import GRAVITY, JudgedBound, LagLimits, LagVerdict, LimitRules, Thresholds
from kafkakit.streams.lag.decide.views import ViewLevel, ViewLine, view

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.measure.table import LagTable

MOST_SAVED = 5_000
SAVED_LIMIT_BYTES = 8 << 20
_Text = Annotated[str, Meta(max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroup:
    """A group in one topic: the worst status of its partitions, and the bounds of its time lag where they are known.

    `lag` counts records of partitions whose end is known, and `unknown` the other partitions.
    """

    group: _Text
    topic: _Text
    status: _Text
    lag: int
    unknown: int = 0
    low_ms: int | None = None
    estimate_ms: int | None = None
    high_ms: int | None = None
    retention_left_ms: int | None = None

    def time_lag_ms(self, judge: JudgedBound = JudgedBound.ESTIMATE) -> int | None:
        """One bound of its time lag; for the estimate the surest that there is."""
        if judge is JudgedBound.HIGH:
            return self.high_ms
        known = self.estimate_ms if judge is JudgedBound.ESTIMATE else None
        return self.low_ms if known is None else known


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroups:
    """All of a cluster at `at_ms`, the worst first; of more than `MOST_SAVED` the others are only counted."""

    cluster_id: _Text
    at_ms: int
    groups: tuple[SavedGroup, ...] = ()
    left_out: int = 0


GROUPS_DOCUMENT = DocumentKind("lag-groups", SavedGroups)


def groups_of(table: "LagTable", cluster_id: str) -> SavedGroups:
    """What is left behind of a table; O(rows)."""
    found = view([table], ViewLevel.GROUP_TOPIC, top=MOST_SAVED)
    return SavedGroups(
        cluster_id=cluster_id,
        at_ms=table.at_ms,
        groups=tuple(_figures_of(line) for line in found.lines),
        left_out=found.others_count,
    )


def _figures_of(line: ViewLine) -> SavedGroup:
    lag = line.backlog
    is_known = lag.estimate_ms is not None or line.max_low_ms > 0
    return SavedGroup(
        group=line.group,
        topic=line.topic,
        status=line.status.word,
        lag=line.lag,
        unknown=line.unknown,
        low_ms=line.max_low_ms if is_known else None,
        estimate_ms=lag.estimate_ms,
        high_ms=lag.high_ms,
        retention_left_ms=line.retention_left_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """What a group comes to by the limits; `text` says which of them is passed, empty for none."""

    group: str
    verdict: LagVerdict
    text: str = ""


def judge_groups(found: Sequence[SavedGroup], rules: LimitRules) -> dict[str, GroupVerdict]:
    """The gravest verdict on each group over its topics; statuses are left to the reader."""
    judged: dict[str, GroupVerdict] = {}
    for one in found:
        thresholds = rules.of(one.group, one.topic, rules.owner_of(one.group))
        verdict = _judge_group(one, thresholds)
        before = judged.get(one.group)
        if before is None or GRAVITY.index(verdict.verdict) > GRAVITY.index(before.verdict):
            judged[one.group] = verdict
    return judged


def _judge_group(one: SavedGroup, thresholds: Thresholds) -> GroupVerdict:
    for verdict, limits in (
        (LagVerdict.CRITICAL, thresholds.critical),
        (LagVerdict.WARNING, thresholds.warning),
    ):
        text = _breach_of(one, limits, thresholds.judge)
        if text:
            return GroupVerdict(group=one.group, verdict=verdict, text=f"{text} in {one.topic}")
    return GroupVerdict(group=one.group, verdict=LagVerdict.OK)


def _breach_of(one: SavedGroup, limits: LagLimits, judge: JudgedBound) -> str:
    time_ms, left_ms = one.time_lag_ms(judge), one.retention_left_ms
    if limits.max_time_lag_ms is not None and time_ms is not None and time_ms > limits.max_time_lag_ms:
        limit = format_duration(limits.max_time_lag_ms / 1000)
        return f"{format_rough_time(time_ms / 1000)} behind, above its limit of {limit}"
    if limits.max_lag is not None and one.lag > limits.max_lag:
        return f"{one.lag:,} records behind, above its limit of {limits.max_lag:,}"
    if limits.min_retention_left_ms is not None and left_ms is not None and left_ms < limits.min_retention_left_ms:
        limit = format_duration(limits.min_retention_left_ms / 1000)
        return f"records expire in {format_rough_time(left_ms / 1000)}, below its limit of {limit}"
    return ""
