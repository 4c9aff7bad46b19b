"""Views of lag as text for people, as rows for scripts, and as plain data for JSON, with members beside their lines.

Also what changed between two looks, as lines; what `lag check` prints (one line with performance data, the reasons as
rows, and the exit code); and where share groups stand.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkakit.core.cluster_facts import GroupState, ItemError, ShareOffset
from kafkakit.core.errors import ExitCode, KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.text import sanitize, shown_name
from kafkakit.report.report import Part, Report, ResultTable, attributes, records
from kafkakit.streams.lag.decide.limits import GRAVITY, Breach, CheckResult, LagVerdict
from kafkakit.streams.lag.decide.measure.table import LagStatus
from kafkakit.streams.lag.decide.measure.time_lag import NOT_KNOWN, range_text, span_text, utc_text
from kafkakit.streams.lag.decide.monitors import MonitorCondition, MonitorPhase, MonitorsLook
from kafkakit.streams.lag.decide.views import KINDS, LagView, Readers, ViewLevel, ViewLine

VIEW_COLUMNS: tuple[str, ...] = (
    "cluster", "group", "topic", "stream", "partition", "partitions", "status", "lag", "pending", "lost", "time_lag_ms",
    "low_ms", "high_ms", "source", "live_ms", "eta_s", "retention_left_s", "unknown", "stale", "lag_as_of_ms",
    "as_of_ms",
)  # fmt: skip
_ONE_MOMENT_MS = 1_000
MAX_NOTES = 20


def view_report(
    command: str,
    look: MonitorsLook,
    view: LagView,
    failure: KafkakitError | None = None,
    readers: Readers | None = None,
) -> Report:
    """A view of a look as the report of a command; with `readers` the members stand beside the lines."""
    data = view_data(view, look.conditions, look.at_ms)
    columns, rows = VIEW_COLUMNS, view_rows(view)
    if readers is not None:
        beside = [member_data(line, readers) for line in view.lines]
        lines = [{**line_data(line), **own} for line, own in zip(view.lines, beside, strict=True)]
        data = {**data, "lines": lines or data["lines"], **readers_data(readers)}
        columns += tuple(beside[0]) if beside else ()
        rows = tuple((*row, *own.values()) for row, own in zip(rows, beside, strict=True))
    return Report(
        command=command,
        data=data,
        sections=view_sections(view, look.conditions, look.at_ms, readers),
        table=ResultTable(columns, rows),
        failure=failure,
    )


def view_sections(
    view: LagView, conditions: Sequence[MonitorCondition], at_ms: int, readers: Readers | None = None
) -> Iterator[Part]:
    """A table with the worst lines first, and below it what is not known."""
    kinds = KINDS[view.level]
    if len({c.cluster for c in conditions}) < 2:
        kinds = tuple(k for k in kinds if k != "cluster" or view.level is ViewLevel.CLUSTER)
    lines = [*view.lines, *([view.others] if view.others is not None else [])]
    counted = view.level is not ViewLevel.PARTITION
    members = () if readers is None else member_columns(view.level)
    columns = [*kinds, *members, *(name for name in _CELLS if counted or name != "partitions")]
    rows = []
    for number, line in enumerate(lines):
        is_rest = number == len(view.lines)
        names = [f"({view.others_count:,} more)", *[""] * (len(kinds) - 1)] if is_rest else _name_cells(line, kinds)
        rows.append(
            [
                *names,
                *(() if readers is None else [""] * len(members) if is_rest else member_cells(line, readers)),
                *(_CELLS[name](line, at_ms) for name in columns[len(kinds) + len(members) :]),
            ]
        )
    for name, cells in (("lost", 0), ("retention left", "")):
        at = columns.index(name)
        if all(row[at] == cells for row in rows):
            columns.pop(at)
            for row in rows:
                row.pop(at)
    yield ResultTable(columns, rows, empty="no commits found" if is_known(conditions) else "not known")
    notes = _status_notes(view.lines)
    notes += [f"{c.cluster}: {note}" for c in conditions for note in c.notes]
    notes += [] if readers is None else readers.notes
    yield from ["", *notes] if notes else []


def _status_notes(lines: Sequence[ViewLine]) -> list[str]:
    """What a status means that the figures beside it do not show."""
    ahead, unread, without = Counter[str](), Counter[str](), Counter[str]()
    held: list[str] = []
    for line in lines:
        counts = dict(line.counts)
        # Many partitions of one group and topic have one reason.
        name = " ".join(_line_names(replace(line, partition=-1)))
        ahead[name] += counts.get(LagStatus.AHEAD, 0)
        without[name] += counts.get(LagStatus.NO_COMMIT, 0)
        unread[name] += line.unread
        if line.held_ms is not None:
            held.append(
                f"{' '.join(_line_names(line))}: readers of committed data wait for a transaction open since "
                f"{utc_text(line.held_ms)}; for readers of uncommitted data the lag is {line.uncommitted:,}"
            )
    found = [
        f"{name}: commits beyond the end of the log, so the lag is not known: {number:,}"
        for name, number in ahead.items()
        if number
    ]
    found += [
        f"{name}: partitions that members own and for which the group never committed: {number:,}; "
        f"{unread[name]:,} records lie in them, and the lag depends on auto.offset.reset of the consumers"
        for name, number in without.items()
        if number
    ]
    found += held
    if len(found) > MAX_NOTES:
        found[MAX_NOTES:] = [f"and {len(found) - MAX_NOTES:,} more such notes"]
    return found


def is_known(conditions: Sequence[MonitorCondition]) -> bool:
    """True when an answer without lines means that there are no commits: all clusters were read."""
    return bool(conditions) and all(c.phase is MonitorPhase.LIVE for c in conditions)


def status_text(line: ViewLine) -> str:
    """The worst status, and how many partitions have it where not all do."""
    count = dict(line.counts).get(line.status, 0)
    word = line.status.word
    return word if count == line.partitions else f"{word} ({count})"


def eta_text(line: ViewLine) -> str:
    """When a line will have caught up at present rates, `?` for never or unknown; empty when it has."""
    if line.lag == 0:
        return ""
    return NOT_KNOWN if line.eta_ms is None else span_text(line.eta_ms)


def age_text(line: ViewLine, at_ms: int) -> str:
    """How old the oldest figure of a line is: of both lag and time lag, where they are of different moments."""
    lag_ms, time_ms = line.lag_as_of_ms, line.oldest_as_of_ms
    known = [ms for ms in (lag_ms, time_ms) if ms >= 0]
    if not known:
        return "never"
    if lag_ms >= 0 and time_ms >= 0 and abs(lag_ms - time_ms) >= _ONE_MOMENT_MS:
        return f"{_ago_text(at_ms, lag_ms)}, time lag {_ago_text(at_ms, time_ms)}"
    return _ago_text(at_ms, min(known))


# What people see of a line, by the title of its column.
_CELLS: Mapping[str, Callable[[ViewLine, int], object]] = {
    "partitions": lambda line, _: line.partitions,
    "status": lambda line, _: status_text(line),
    "lag": lambda line, _: NOT_KNOWN if line.unknown == line.partitions else line.lag,
    "lost": lambda line, _: line.lost,
    "time lag": lambda line, _: span_text(line.backlog.estimate_ms),
    "error bound": lambda line, _: range_text(line.backlog),
    "measured from": lambda line, _: line.backlog.source.word,
    "live lag": lambda line, _: span_text(line.live.estimate_ms),
    "eta": lambda line, _: eta_text(line),
    "retention left": lambda line, _: "" if line.retention_left_ms is None else span_text(line.retention_left_ms),
    "as of": age_text,
}


def view_rows(view: LagView) -> tuple[tuple[object, ...], ...]:
    """The lines as cells of `VIEW_COLUMNS`."""
    return tuple(tuple(line_data(line)[name] for name in VIEW_COLUMNS) for line in view.lines)


def view_data(view: LagView, conditions: Sequence[MonitorCondition], at_ms: int) -> dict[str, object]:
    """A view with all that its readers must know."""
    return {
        "at_ms": at_ms,
        "level": view.level.value,
        "known": is_known(conditions),
        "lines": [line_data(line) for line in view.lines] if view.lines or is_known(conditions) else None,
        "others": None if view.others is None else {"count": view.others_count, **line_data(view.others)},
        "clusters": [condition_data(c) for c in conditions],
    }


def line_data(line: ViewLine) -> dict[str, Any]:
    """One line as plain data; names that do not apply are empty, figures that are not known null."""
    known = line.unknown < line.partitions
    return {
        **attributes(line, "cluster group topic stream"),
        "partition": None if line.partition < 0 else line.partition,
        "partitions": line.partitions,
        "status": line.status.word,
        "counts": {status.word: count for status, count in line.counts},
        "status_over_s": _seconds(line.window_ms),
        "last_commit_ms": _or_none(line.committed_ms),
        "lag": line.lag if known else None,
        "uncommitted": line.uncommitted if known else None,
        "held_back_since_ms": line.held_ms,
        "pending": line.pending if known else None,
        "max_lag": line.max_lag if known else None,
        "lost": line.lost,
        "records_without_commit": line.unread,
        "time_lag_ms": line.backlog.estimate_ms,
        **attributes(line.backlog, "low_ms high_ms"),
        "max_low_ms": line.max_low_ms,
        "source": line.backlog.source.word,
        "flags": list(line.backlog.flags.words),
        "arrival_ms": line.arrival.estimate_ms,
        "arrival_low_ms": line.arrival.low_ms,
        "arrival_high_ms": line.arrival.high_ms,
        "live_ms": line.live.estimate_ms,
        "live_low_ms": line.live.low_ms,
        "live_high_ms": line.live.high_ms,
        "live_source": line.live.source.word,
        "worst": f"{line.worst.group} {line.worst.topic}-{line.worst.partition}",
        "eta_s": _seconds(line.eta_ms),
        "retention_left_s": _seconds(line.retention_left_ms),
        "retention_low_s": _seconds(line.retention_low_ms),
        "retention_basis": line.retention_basis.word,
        "consumed_per_s": _round_rate(line.consumed_per_s),
        "produced_per_s": _round_rate(line.produced_per_s),
        **attributes(line, "unknown stale"),
        "lag_as_of_ms": _or_none(line.lag_as_of_ms),
        "as_of_ms": _or_none(line.oldest_as_of_ms),
    }


def condition_data(c: MonitorCondition) -> dict[str, object]:
    """How one monitor is doing, as plain data."""
    return {
        **attributes(c, "cluster cluster_id phase reason"),
        "since_ms": _or_none(c.since_ms),
        "as_of_ms": _or_none(c.as_of_ms),
        "ends_as_of_ms": _or_none(c.ends_as_of_ms),
        "read_offsets": c.done,
        "past_offsets": c.total,
        **attributes(c, "group_partitions partitions"),
        "blind": [{"partition": b.partition, "reason": b.reason, "as_of_ms": _or_none(b.as_of_ms)} for b in c.blind],
        "open_transactions": [
            {
                "partition": h.partition,
                **attributes(h.transaction, "producer_id since_offset"),
                "since_ms": _or_none(h.transaction.since_ms),
                **attributes(h.transaction, "commits groups"),
            }
            for h in c.held_back
        ],
        "open_transaction_count": c.held_back_count,
        **attributes(c, "held_back_commits missing_topics end_errors"),
        "records": c.totals.records,
        "records_by_type": {str(k): n for k, n in sorted(c.totals.by_type.items())},
        **attributes(c.totals, "opaque undecodable unreadable_batches started_over skipped_offsets dropped_commits"),
        "left_out_commits": c.left_out,
        "left_out_metadata": c.refused_metadata,
        "left_out_partitions": c.refused_partitions,
        "record_reads": c.record_reads,
        "record_read_failures": c.record_failures,
        "restored_from_ms": _or_none(c.warm_since_ms),
        **attributes(c, "clock_steps notes"),
    }


def _name_cells(line: ViewLine, kinds: Sequence[str]) -> list[object]:
    found: Mapping[str, object] = attributes(line, "cluster group topic stream partition")  # fmt: skip
    return [shown_name(line.group) if kind == "group" else found[kind] for kind in kinds]


def _ago_text(at_ms: int, then_ms: int) -> str:
    return f"{span_text(max(0, at_ms - then_ms))} ago"


def _or_none(ms: int) -> int | None:
    return None if ms < 0 else ms


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else round(ms / 1000, 3)


def _round_rate(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)


NO_OWNER = "no member"


def member_columns(level: ViewLevel) -> tuple[str, ...]:
    """The columns of the table."""
    return ("client", "host") if level is ViewLevel.PARTITION else ("members",)


def member_cells(line: ViewLine, readers: Readers) -> tuple[object, ...]:
    """The cells of a line; members without partitions are counted."""
    found, owner = readers.of(line), readers.owner(line)
    if line.partition >= 0:
        if owner is None:
            return (NOT_KNOWN, "") if found is None else (NO_OWNER, "")
        return owner.client_id, owner.host
    if found is None:
        return (NOT_KNOWN,)
    idle = f" ({found.idle} idle)" if found.idle and not line.topic else ""
    return (f"{readers.count(line)}{idle}",)


def member_data(line: ViewLine, readers: Readers) -> dict[str, object]:
    """What a line has beside its figures; null where it is not known, or where no member holds the partition."""
    found, owner = readers.of(line), readers.owner(line)
    if line.partition >= 0:
        held = {} if owner is None else attributes(owner, "member_id client_id host")
        return {"described": found is not None, "member_id": None, "client_id": None, "host": None, **held}
    idle = None if found is None or line.topic else found.idle
    return {"described": found is not None, "members": readers.count(line), "idle_members": idle}


def readers_data(readers: Readers) -> dict[str, object]:
    """All groups with their members, and what is not known."""
    groups = [
        {"cluster": cluster, **attributes(one.group, "group type state coordinator members"), "idle_members": one.idle}
        for (cluster, _), one in readers.groups.items()
    ]
    return {"groups": groups, "member_notes": list(readers.notes)}


Statuses = Mapping[tuple[str, ...], LagStatus]


def statuses_of(view: LagView) -> dict[tuple[str, ...], LagStatus]:
    """The status of each line by its names."""
    return {_line_names(line): line.status for line in view.lines}


def change_lines(before: Statuses, view: LagView) -> tuple[str, ...]:
    """A sentence for each line whose status is another one than before; of new lines, for those that are not well."""
    found = []
    for line in view.lines:
        earlier = before.get(_line_names(line), LagStatus.OK)
        if line.status is not earlier:
            found.append(
                f"{' '.join(_line_names(line))}: {earlier.word} -> {line.status.word}, {line.lag:,} behind, "
                f"{span_text(line.backlog.estimate_ms)} {range_text(line.backlog)}"
            )
    return tuple(found)


def _line_names(line: ViewLine) -> tuple[str, ...]:
    partition = "" if line.partition < 0 else str(line.partition)
    return tuple(word for word in (line.cluster, line.group, line.stream or line.topic, partition) if word)


COMMAND = "streams lag check"
CHECK_COLUMNS = ("verdict", "cluster", "group", "topic", "partition", "reason", "owner")


def check_report(found: CheckResult, look: MonitorsLook, *, nagios: bool) -> Report:
    """The verdict over all clusters: one that is not known may be critical, so it outweighs a warning.

    With `nagios` the exit code is the verdict's number.
    """
    verdict = max(found.verdict, LagVerdict.UNKNOWN if look.missing else LagVerdict.OK, key=GRAVITY.index)
    summary = _summary(found, verdict, look)
    rows = tuple(_row(b, b.text) for b in found.breaches)
    silenced = tuple(_row(b, f"{b.text}; run {b.run} moves the topic") for b in found.silenced)
    owners = [
        {"owner": owner or None, "verdict": gravest.name.lower(), "breaches": count}
        for owner, (gravest, count) in sorted(found.owners.items())
    ]
    unknown = ExitCode.TRY_LATER if look.failure is None else look.failure.exit_code
    codes = {LagVerdict.OK: ExitCode.DONE, LagVerdict.UNKNOWN: unknown}
    return Report(
        command=COMMAND,
        data={
            "verdict": verdict.name.lower(),
            "summary": summary,
            "performance": found.performance,
            "breaches": records(CHECK_COLUMNS, rows),
            "more": found.more,
            "owners": owners,
            "silenced": records(CHECK_COLUMNS, silenced),
            "silenced_count": found.silenced_count,
            "clusters": [condition_data(c) for c in look.conditions],
        },
        sections=(f"{summary} | {found.performance}",),
        table=ResultTable(CHECK_COLUMNS, (*rows, *(("silenced", *row[1:]) for row in silenced))),
        code=int(verdict) if nagios else codes.get(verdict, ExitCode.FAILED),
    )


def _row(breach: Breach, reason: str) -> tuple[object, ...]:
    partition = None if breach.partition < 0 else breach.partition
    verdict = breach.verdict.name.lower()
    return verdict, breach.cluster, breach.group, breach.topic, partition, reason, breach.owner or None


def report_or_unknown(checked: Callable[[], Report]) -> Report:
    """The report, or for any failure one that a monitoring plugin takes for UNKNOWN."""
    try:
        return checked()
    except KafkakitError as error:
        summary = f"LAG UNKNOWN - {' '.join(error.message.split())}"
        data = {"verdict": "unknown", "summary": summary}
        return Report(command=COMMAND, data=data, sections=(summary,), code=int(LagVerdict.UNKNOWN))


def _summary(found: CheckResult, verdict: LagVerdict, look: MonitorsLook) -> str:
    if not look.missing:
        return found.summary
    name, reason = look.gravest_missing
    if found.verdict is verdict and found.breaches:
        return f"{found.summary}; {name} is not known: {reason}"
    return f"LAG UNKNOWN - {name}: {reason}"


SHARE_GROUP_COLUMNS = ("group", "state", "topic", "partition", "start_offset", "lag", "error")


def share_group_report(
    states: Mapping[str, GroupState], found: Mapping[str, tuple[ShareOffset, ...] | ItemError]
) -> Report:
    """One line for each partition of each group; groups that cannot be read are the failure."""
    rows: list[tuple[object, ...]] = []
    refused: dict[str, ItemError] = {}
    for group, offsets in sorted(found.items()):
        if isinstance(offsets, ItemError):
            refused[group] = offsets
            continue
        for one in offsets:
            error = None if one.error is None else str(one.error)
            place = (one.place.topic, one.place.partition)
            rows.append((group, states[group].value, *place, one.start, one.lag, error))
        if not offsets:
            rows.append((group, states[group].value, None, None, None, None, None))
    columns: tuple[str, ...] = SHARE_GROUP_COLUMNS
    lines = rows
    if all(row[-1] is None for row in rows):
        columns, lines = SHARE_GROUP_COLUMNS[:-1], [row[:-1] for row in rows]
    empty = "no share groups found" if not refused else "not known"
    return Report(
        command="streams lag share-groups",
        data={
            "groups": [{"group": g, "state": states[g].value, "partitions": _data(found[g])} for g in sorted(found)],
        },
        sections=(ResultTable(columns, lines, empty=empty),),
        table=ResultTable(SHARE_GROUP_COLUMNS, tuple(rows)),
        failure=_failure(refused),
    )


def _data(offsets: tuple[ShareOffset, ...] | ItemError) -> list[dict[str, object]] | None:
    if isinstance(offsets, ItemError):
        return None
    return [
        {
            **attributes(one.place, "topic partition"),
            "start_offset": one.start,
            "lag": one.lag,
            "error": None if one.error is None else str(one.error),
        }
        for one in offsets
    ]


def _failure(refused: Mapping[str, ItemError]) -> KafkakitError | None:
    if not refused:
        return None
    group, error = min(refused.items())
    others = f" (and {len(refused) - 1} more groups)" if len(refused) > 1 else ""
    message = f"share group {sanitize(group)} cannot be read: {error}{others}"
    if any(e.retriable for e in refused.values()):
        return TryLaterError(message)
    is_denied = any(e.is_denied for e in refused.values())
    hint = "reading a group needs the right DESCRIBE on it and on its topics" if is_denied else None
    return OperationFailedError(message, hint=hint)
