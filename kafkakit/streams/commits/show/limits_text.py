"""Limits of brokers and the headroom of groups as text, rows and JSON fields."""

from collections.abc import Sequence

from kafkakit.core.printable import printable
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.group_look import GroupLook
from kafkakit.streams.commits.decide.headroom import LIMIT_KEY, Headroom, Limits, by_fullness, headroom_of

HEADROOM_COLUMNS = (
    "group",
    "commits",
    "with_metadata",
    "fullest",
    "dialect",
    "chars",
    "limit_chars",
    "share",
    "free_chars",
)
_SHOWN = ("group", "commits", "with metadata", "fullest", "dialect", "chars", "used", "free")


def limits_report(limits: Limits, cluster_id: str, looks: Sequence[GroupLook], *, is_named: bool) -> Report:
    """Limits and headroom as the result of a command; groups without commits appear only where groups were named."""
    found = by_fullness(
        headroom_of(look.group, look.commits, limits.strictest) for look in looks if look.commits or is_named
    )
    unread = tuple(f"group {look.group}: {look.fault.message}" for look in looks if look.fault is not None)
    return Report(
        command="streams commits limits",
        data=limits_data(limits, cluster_id, found, unread),
        text=limits_text(limits, cluster_id, found, unread),
        columns=HEADROOM_COLUMNS,
        rows=tuple(headroom_row(headroom) for headroom in found),
    )


def limits_text(limits: Limits, cluster_id: str, groups: Sequence[Headroom], unread: Sequence[str]) -> str:
    """The limit, where brokers differ, then the groups, fullest first."""
    lines = [f"cluster {cluster_id}: {_limit_words(limits)}"]
    if limits.unknown:
        lines.append(f"brokers that did not report it: {', '.join(map(str, limits.unknown))}")
    if groups:
        lines += ["", text_table(_SHOWN, [_shown(headroom) for headroom in groups])]
    else:
        lines.append("no group has committed anything")
    lines += [f"cannot be read: {printable(fault)}" for fault in unread]
    return "\n".join(lines) + "\n"


def headroom_row(headroom: Headroom) -> tuple[object, ...]:
    """The cells of `HEADROOM_COLUMNS`."""
    fullest = headroom.fullest
    return (
        headroom.group,
        headroom.partitions,
        headroom.with_metadata,
        None if fullest is None or fullest.key is None else str(fullest.key),
        None if fullest is None else fullest.reading.dialect,
        0 if fullest is None else fullest.chars,
        headroom.limit_chars,
        round(headroom.fill, 4),
        headroom.free_chars,
    )


def limits_data(
    limits: Limits, cluster_id: str, groups: Sequence[Headroom], unread: Sequence[str]
) -> dict[str, object]:
    """Everything as JSON fields."""
    return {
        "cluster_id": cluster_id,
        "limit_chars": limits.strictest,
        "limit_known": limits.is_known,
        "limits_differ": limits.is_mixed,
        "brokers": [{"broker": broker, "limit_chars": limit} for broker, limit in limits.of_broker.items()],
        "unknown_brokers": list(limits.unknown),
        "groups": [dict(zip(HEADROOM_COLUMNS, headroom_row(headroom), strict=True)) for headroom in groups],
        "unread": list(unread),
    }


def _limit_words(limits: Limits) -> str:
    if not limits.is_known:
        return f"no broker reports {LIMIT_KEY}; Kafka's default of {limits.strictest:,} characters is taken"
    if not limits.is_mixed:
        return f"{LIMIT_KEY} is {limits.strictest:,} characters on all brokers that report it"
    words = ", ".join(f"{limit:,} on broker {broker}" for broker, limit in limits.of_broker.items())
    return f"{LIMIT_KEY} DIFFERS: {words}; {limits.strictest:,} is what holds for sure"


def _shown(headroom: Headroom) -> tuple[object, ...]:
    fullest = headroom.fullest
    has = fullest is not None and fullest.chars > 0
    return (
        printable(headroom.group),
        headroom.partitions,
        headroom.with_metadata,
        printable(str(fullest.key)) if has and fullest is not None else None,
        fullest.reading.dialect if has and fullest is not None else None,
        0 if fullest is None else fullest.chars,
        f"{headroom.fill:.0%}",
        headroom.free_chars,
    )
