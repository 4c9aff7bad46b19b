"""Groups that do not keep up: what is seen of them now, and what a lag monitor measured, in records and in time.

A monitor's figures are of the moment at which they were saved. Whether a group has members is seen now, so that a group
that stopped since is told, and one that runs again is not told any more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import GroupListing, GroupState
from kafkakit.core.findings import Finding, Rule, Severity, shorten
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.status.decide.ignore import IgnoreRules

if TYPE_CHECKING:
    from kafkakit.streams.lag.api import LimitRules, SavedGroups

STOPPED, EXPIRED, UNREADABLE = "stopped", "lost", "unknown"
MOST_EMPTY_GROUPS = 200
"""Of more groups without members than these, only a monitor tells which have something left to read."""
OLD_S = 300.0
"""A monitor saves each minute: older figures are of one that has stopped, or of another command."""
_GRAVEST = (EXPIRED, STOPPED, "stalled", "rewind", "ahead")

GROUP_LOST = Rule("group-lost", Severity.ERROR, "no records expire before they are read")
GROUP_STOPPED = Rule("group-stopped", Severity.WARNING, "groups with work to do make progress")
GROUP_LAG = Rule("group-lag", Severity.WARNING, "groups are not further behind than their limit")
GROUP_STATE = Rule("group-state", Severity.NOTE, "groups are stable")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelay:
    """A group that is behind: its status, by how much, and which of its limits is passed, empty for none."""

    group: str
    status: str
    time_lag_ms: int | None = None
    lag: int | None = None
    retention_left_ms: int | None = None
    over_limit: str = ""
    is_critical: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDelays:
    """What a lag monitor measured at `at`; `is_now` where it was measured for this reading. `left_out` groups in topics
    are further down its list than it saves."""

    at: datetime
    groups: tuple[GroupDelay, ...] = ()
    is_now: bool = False
    left_out: int = 0

    def age_s(self, now: datetime) -> float:
        """How old the figures are; 0 for those of this reading."""
        return 0.0 if self.is_now else max(0.0, (now - self.at).total_seconds())

    def is_old(self, now: datetime) -> bool:
        """Whether no monitor saves them any more."""
        return self.age_s(now) > OLD_S


def delays_of(found: "SavedGroups", rules: "LimitRules | None" = None, *, is_now: bool = False) -> MeasuredDelays:
    """Each group over its topics, held against its limits; those that are caught up are not among them."""
    from kafkakit.streams.lag.api import LagVerdict, judge_groups

    judged = {} if rules is None else judge_groups(found.groups, rules)
    groups = dict[str, GroupDelay]()
    for one in found.groups:
        verdict, before = judged.get(one.group), groups.get(one.group)
        delay = GroupDelay(
            group=one.group,
            status=one.status,
            time_lag_ms=one.time_lag_ms(),
            lag=one.lag,
            retention_left_ms=one.retention_left_ms,
            over_limit="" if verdict is None else verdict.text,
            is_critical=verdict is not None and verdict.verdict is LagVerdict.CRITICAL,
        )
        groups[one.group] = delay if before is None else _join(before, delay)
    kept = tuple(one for _, one in sorted(groups.items()) if one.lag or one.over_limit or one.status in _GRAVEST)
    return MeasuredDelays(
        at=datetime.fromtimestamp(found.at_ms / 1000, UTC), groups=kept, is_now=is_now, left_out=found.left_out
    )


def _join(one: GroupDelay, other: GroupDelay) -> GroupDelay:
    ranks = {status: rank for rank, status in enumerate(_GRAVEST)}
    return replace(
        one,
        status=min(one.status, other.status, key=lambda status: ranks.get(status, len(ranks))),
        time_lag_ms=max((t for t in (one.time_lag_ms, other.time_lag_ms) if t is not None), default=None),
        lag=(one.lag or 0) + (other.lag or 0),
        retention_left_ms=min(
            (t for t in (one.retention_left_ms, other.retention_left_ms) if t is not None), default=None
        ),
    )


def merged_delays(
    seen: Sequence[GroupDelay] | None,
    measured: MeasuredDelays | None,
    listed: Sequence[GroupListing] | None,
    *,
    is_partial: bool = False,
) -> tuple[GroupDelay, ...] | None:
    """What a monitor measured with what is seen now; None where neither is known.

    `seen` are groups without members that have something left to read. A group that a monitor saw stop and that has
    members again, or nothing left to read, is not stopped. With `is_partial` a group that is not listed may be there.
    """
    if measured is None:
        return None if seen is None else tuple(seen)
    if seen is None:
        return measured.groups
    states = {listing.group: listing.state for listing in listed or ()}
    compared, found = frozenset(groups_compared(listed or ())), {one.group: one for one in seen}
    for one in measured.groups:
        now = found.get(one.group)
        if now is not None and now.status == UNREADABLE:
            found[one.group] = one
        elif now is not None:
            found[one.group] = replace(one, status=EXPIRED if one.status == EXPIRED else now.status, lag=now.lag)
        elif one.group not in states and is_partial:
            found[one.group] = one
        elif one.group not in states or one.group in compared:
            continue  # it is deleted, or has nothing left to read
        elif one.status == STOPPED and states[one.group] is not GroupState.EMPTY:
            found[one.group] = replace(one, status="ok")
        else:
            found[one.group] = one
    return tuple(one for _, one in sorted(found.items()))


def groups_compared(listed: Sequence[GroupListing]) -> list[str]:
    """The groups without members whose commits are compared with the ends of logs at each reading."""
    return [g.group for g in listed if g.state is GroupState.EMPTY][:MOST_EMPTY_GROUPS]


def uncompared_words(listed: Sequence[GroupListing]) -> str:
    """How many groups without members are not compared; empty for none."""
    left = sum(g.state is GroupState.EMPTY for g in listed) - MOST_EMPTY_GROUPS
    return f"{left} of the empty groups not compared with their logs (a lag monitor does that)" if left > 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrouble:
    """What the findings about groups rest on; `show` makes the command for one group."""

    now: datetime
    delays: Sequence[GroupDelay]
    measured: MeasuredDelays | None
    listed: Sequence[GroupListing]
    ignore: IgnoreRules
    show: Callable[[str], str]
    retention_left_s: float

    def findings(self) -> Iterator[Finding]:
        """Each group that loses records, stands still or passes its limit, and those that rebalance."""
        for one in self.delays:
            yield from self._of_group(one)
        yield from self._rebalancing()

    def _of_group(self, one: GroupDelay) -> Iterator[Finding]:
        where, show, is_old = f"group {one.group}", self.show(one.group), False
        if self.measured is not None:
            is_old = self.measured.is_old(self.now)
        ago = f" ({format_rough_time(self.measured.age_s(self.now))} ago)" if self.measured and is_old else ""
        if one.status == EXPIRED:
            yield _as(GROUP_LOST, is_old).finding(
                where, f"{one.group}: records expired before they were read{ago}", show
            )
        elif one.status in (STOPPED, "stalled"):
            left_s = None if one.retention_left_ms is None else one.retention_left_ms / 1000
            is_urgent = one.is_critical or (left_s is not None and left_s < self.retention_left_s)
            expire = "" if left_s is None else f"; records expire in {format_rough_time(left_s)}"
            rule = Rule(GROUP_STOPPED.name, Severity.ERROR, GROUP_STOPPED.about) if is_urgent else GROUP_STOPPED
            message = f"{one.group} {one.status}{_behind(one)}{expire}{ago}"
            yield _as(rule, is_old).finding(where, message, show)
        elif one.over_limit:
            rule = Rule(GROUP_LAG.name, Severity.ERROR, GROUP_LAG.about) if one.is_critical else GROUP_LAG
            yield _as(rule, is_old).finding(where, f"{one.group}: {one.over_limit}{ago}", show)

    def _rebalancing(self) -> Iterator[Finding]:
        names = [g.group for g in self.listed if g.state.value in ("preparing_rebalance", "completing_rebalance")]
        for part in self.ignore.split(GROUP_STATE.name, names, names):
            if part:
                yield GROUP_STATE.finding(
                    "groups", f"{count_of(len(part), 'group')} rebalancing: {shorten(part)}", self.show(part[0]),
                    len(part), tuple(part), tuple(part),
                )  # fmt: skip


def _behind(one: GroupDelay) -> str:
    parts = [count_of(one.lag, "record")] if one.lag else []
    if one.time_lag_ms is not None:
        parts.append(format_rough_time(one.time_lag_ms / 1000))
    members = "no members, " if one.status == STOPPED else ""
    words = one.over_limit or (f"{', '.join(parts)} behind" if parts else "")
    return f": {members}{words}" if words else ""


def _as(rule: Rule, is_old: bool) -> Rule:
    """Old figures are no reason for alarm: they may be mended since."""
    return Rule(rule.name, Severity.WARNING, rule.about) if is_old else rule


def furthest(delays: Sequence[GroupDelay] | None) -> GroupDelay | None:
    """The group that is furthest behind in time; None where no time is known."""
    timed = [one for one in delays or () if one.time_lag_ms is not None]
    return max(timed, key=lambda one: one.time_lag_ms or 0, default=None)
