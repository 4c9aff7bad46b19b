"""Groups as text, rows and JSON fields: looks, what changed between two of them, hazards as findings, and headroom.

Two commits, or two saved looks at a group, are compared side by side. Findings of many groups are for CI and cron.
Headroom is how much of the brokers' limit the commits use.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import ExitCode, InputError, UsageError
from kafkakit.core.findings import (
    COLUMNS,
    FailOn,
    Finding,
    Severity,
    fails,
    finding_rows,
    findings_data,
    fingerprint_of,
    in_order,
)
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import few_of, sanitize, shell_command, shown_name
from kafkakit.report.report import Part, Remarks, Report, ResultTable, attributes, findings_sections, records, text_of
from kafkakit.streams.commits.decide.documents import ShownDocument, state_of
from kafkakit.streams.commits.decide.group_look import (
    LIMIT_KEY,
    RIGHT_HINT,
    GroupLook,
    Headroom,
    MetadataLimits,
    by_fullness,
    headroom_of,
    is_unstable,
)
from kafkakit.streams.commits.decide.hazards import hazards_of
from kafkakit.streams.commits.decide.offset_states import Difference, difference
from kafkakit.streams.commits.report.commits import (
    COMMIT_COLUMNS,
    DrawingStyle,
    commit_data,
    commit_row,
    commit_sections,
    commit_table,
    oldest_age_s,
)
from kafkakit.streams.model.commit import CommitState, OffsetRanges, ranges_text, utc_text
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata

IN_FULL = 8  # commits that are told in full beside the table
TABLE_ROWS = 60


def group_sections(look: GroupLook, *, width: int, style: DrawingStyle) -> Iterator[Part]:
    """A single commit in full; several as a table, and in full those that hold more than an offset or a hazard."""
    yield _head(look)
    if len(look.commits) == 1:
        yield from ("", *commit_sections(look.commits[0], width=width, style=style))
    elif look.commits:
        yield from ("", _most_interesting(look, TABLE_ROWS))
        if len(look.commits) > TABLE_ROWS:
            yield f"and {count_of(len(look.commits) - TABLE_ROWS, 'more commit')}: see -o tsv, or name a topic"
        full = [facts for facts in sorted(look.commits, key=_interest) if _interest(facts)[0] < 2]
        for facts in full[:IN_FULL]:
            yield from ("", *commit_sections(facts, width=width, style=style))
        if len(full) > IN_FULL:
            yield from (
                "",
                f"and {len(full) - IN_FULL} more that hold something: name one with --topic and --partition",
            )
    for key, error in sorted(look.refused.items()):
        if is_unstable(error):
            yield f"pending: {key}: a transaction that commits offsets is open, and there is no commit before it"
        else:
            yield f"cannot be read: {key}: {error}"
    if look.uncommitted:
        yield f"no commit: {_uncommitted_text(look)}"
    yield Remarks("note", map(sanitize, look.notes))


def _most_interesting(look: GroupLook, most: int) -> ResultTable:
    shown = sorted(look.commits, key=_interest)[:most]
    return commit_table(sorted(shown, key=lambda facts: facts.key or ("", 0)))


def group_report(verb: str, look: GroupLook, *, columns: int, style: DrawingStyle) -> Report:
    """A look at a group as the result of a command; `columns` is the width to draw in."""
    return Report(
        command=f"streams commits {verb}",
        data=group_data(look),
        sections=group_sections(look, width=columns, style=style),
        table=ResultTable(COMMIT_COLUMNS, tuple(commit_row(facts) for facts in look.commits)),
    )


def screen_text(look: GroupLook, *, rows: int) -> str:
    """The head and the table, for a screen of so many rows."""
    return text_of((_head(look), "", _most_interesting(look, max(1, rows - 4))))


def group_data(look: GroupLook) -> dict[str, object]:
    """The look as JSON fields."""
    return {
        **attributes(look, "group cluster_id"),
        "at": utc_text(look.at_ms),
        **attributes(look, "type state"),
        "members": [
            {"member_id": m.member_id, "client_id": m.client_id, "host": m.host, "partitions": len(m.partitions)}
            for m in look.members
        ],
        "limit_chars": look.limits.strictest,
        "limit_known": look.limits.is_known,
        "commits": [commit_data(facts) for facts in look.commits],
        "refused": [
            {"topic": key.topic, "partition": key.partition, "error": str(error)}
            for key, error in sorted(look.refused.items())
        ],
        "uncommitted": [
            {
                **attributes(key, "topic partition"),
                "log_start": None if span is None else span.start,
                "log_end": None if span is None else span.end,
            }
            for key, span in look.uncommitted.items()
        ],
        "notes": list(look.notes),
    }


def _uncommitted_text(look: GroupLook) -> str:
    """What members own without a commit, and how many records lie there."""
    number = count_of(_unread_count(look), "record")
    return sanitize(f"members own {few_of(look.uncommitted)}; {number} there, read from where auto.offset.reset says")


def _unread_count(look: GroupLook) -> int:
    return sum(max(0, span.end - span.start) for span in look.uncommitted.values() if span is not None)


def _head(look: GroupLook) -> str:
    members = count_of(len(look.members), "member")
    return (
        f"group {shown_name(look.group)} ({look.type.value}, {look.state.value}, {members}) "
        f"of cluster {look.cluster_id}, at {utc_text(look.at_ms)}: {count_of(len(look.commits), 'commit')}"
    )


def _interest(facts: CommitFacts) -> tuple[int, str, int]:
    """Commits to tell first: hazards, then holes, then the rest, each by partition."""
    worst = min((list(Severity).index(hazard.severity) for hazard in hazards_of(facts)), default=9)
    rank = 0 if worst < 2 else 1 if facts.state.done or facts.reading.problem else 2
    topic, partition = facts.key or ("", 0)
    return rank, topic, partition


CHANGE_COLUMNS = ("where", "what", "start", "end", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One commit before and after; one of the two is None for a commit that came or went. `where` names it."""

    where: str
    before: CommitState | None
    after: CommitState | None

    @property
    def difference(self) -> Difference | None:
        """What is different; None where one of the two is missing."""
        return None if self.before is None or self.after is None else difference(self.before, self.after)

    @property
    def is_empty(self) -> bool:
        """True when nothing changed."""
        found = self.difference
        return found is not None and found.is_empty


def changes_report(changes: Sequence[StateChange]) -> Report:
    """All that changed as the result of a command."""
    return Report(
        command="streams commits diff",
        data={"changes": [change_data(change) for change in changes]},
        sections=changed_lines(changes),
        table=ResultTable(CHANGE_COLUMNS, tuple(row for change in changes for row in change_rows(change))),
    )


def changed_lines(changes: Sequence[StateChange]) -> Iterator[str]:
    """All that changed, a commit after another; one line for those that did not."""
    for change in changes:
        if not change.is_empty:
            yield from [f"{sanitize(change.where)}:"] if change.where else []
            yield from (f"  {line}" for line in _lines(change))
    same = sum(1 for change in changes if change.is_empty)
    if same or not changes:
        yield f"{count_of(same, 'commit')} unchanged"


def change_line(change: StateChange) -> str:
    """One change in one line, for a log."""
    return f"{sanitize(change.where)}: {'; '.join(_lines(change))}"


def change_data(change: StateChange) -> dict[str, object]:
    """One change as JSON fields; ranges are [start, end] pairs with the end left out."""
    found = change.difference
    if found is None:
        return {"where": change.where, "came": change.before is None, "went": change.after is None}
    return {
        "where": change.where,
        "came": False,
        "went": False,
        **attributes(found, "base_before base_after"),
        **{name: [list(pair) for pair in ranges] for name, ranges in _sets(found)},
        "retried": [{"start": a, "end": b, "before": old, "after": new} for a, b, old, new in found.retried],
        **attributes(found, "oldest_moved_ms newest_moved_ms"),
    }


def change_rows(change: StateChange) -> Iterator[tuple[object, ...]]:
    """One row a range, in the order of `CHANGE_COLUMNS`; the committed offset comes first."""
    found = change.difference
    if found is None:
        yield (change.where, "came" if change.before is None else "went", None, None, None)
        return
    if found.base_before != found.base_after:
        yield (change.where, "committed", found.base_before, found.base_after, None)
    for name, ranges in _sets(found):
        for start, end in ranges:
            yield (change.where, name, start, end, None)
    for start, end, old, new in found.retried:
        yield (change.where, "retried", start, end, f"{old} -> {new}")


def _sets(found: Difference) -> tuple[tuple[str, OffsetRanges], ...]:
    return (
        ("became_done", found.became_done),
        ("reopened", found.reopened),
        ("rejected", found.rejected),
        ("skipped", found.skipped),
        ("deferred", found.deferred),
    )


def _lines(change: StateChange) -> Iterator[str]:
    found = change.difference
    if found is None:
        state = change.after if change.before is None else change.before
        at = "" if state is None else f" at {state.base}"
        yield f"committed{at} for the first time" if change.before is None else f"no commit any more (it was{at})"
        return
    if found.base_before != found.base_after:
        moved = found.base_after - found.base_before
        back = "" if moved > 0 else ", BACK"
        yield f"committed {found.base_before} -> {found.base_after} ({moved:+,}{back})"
    words = {
        "became_done": "became done",
        "reopened": "done before, pending again",
        "rejected": "rejected",
        "skipped": "skipped by an operator",
        "deferred": "put off",
    }
    for name, ranges in _sets(found):
        if ranges:
            yield f"{words[name]}: {ranges.count:,}: {ranges_text(ranges)}"
    for start, end, old, new in found.retried[:6]:
        yield f"tried again: {ranges_text(OffsetRanges(((start, end),)))} ({old} -> {new})"
    if len(found.retried) > 6:
        yield f"tried again: {count_of(len(found.retried) - 6, 'more range')}"
    if found.oldest_moved_ms:
        way = "later" if found.oldest_moved_ms > 0 else "EARLIER"
        yield f"the oldest pending record is {format_rough_time(abs(found.oldest_moved_ms) / 1000)} {way}"
    if found.is_empty:
        yield "unchanged"


_STRING = re.compile(r"([0-9]{1,19}):(.*)", re.DOTALL)


def split_argument(text: str) -> tuple[int, str] | None:
    """`OFFSET:STRING` in its two parts; None for anything else, which is then a file's name."""
    match = _STRING.fullmatch(text)
    return None if match is None else (int(match[1]), match[2])


def compare_strings(before: str, after: str) -> tuple[StateChange, ...] | None:
    """Two commits given as `OFFSET:STRING`; None for two names of files, `UsageError` for one of each."""
    old, new = split_argument(before), split_argument(after)
    if (old is None) != (new is None):
        raise UsageError(
            "a string is compared with a string, a file with a file", hint="write strings as OFFSET:STRING"
        )
    if old is None or new is None:
        return None
    return compare_states(_usable_state(before, *old), _usable_state(after, *new))


def _usable_state(argument: str, offset: int, metadata: str) -> CommitState:
    """The state in a string; a payload that cannot be used is refused, since all in it would look forgotten."""
    reading = read_metadata(metadata, offset)
    if reading.problem is not None:
        reason = f" ({reading.reason})" if reading.reason else ""
        raise InputError(
            f"{argument:.60}",
            f"the {reading.dialect} payload cannot be used: {reading.problem.value}{reason}",
            hint=f"look at it with: {shell_command('streams commits decode', metadata, offset=offset)}",
        )
    return reading.state


def compare_states(before: CommitState, after: CommitState) -> tuple[StateChange, ...]:
    """Two states of one commit."""
    return (StateChange(where="", before=before, after=after),)


def compare_shown(before: ShownDocument, after: ShownDocument) -> tuple[StateChange, ...]:
    """Two looks at one group, partition by partition, in order; `UsageError` for two groups or clusters."""
    if (before.group, before.cluster_id) != (after.group, after.cluster_id):
        raise UsageError(
            f"the files are of group {before.group} in cluster {before.cluster_id} and of group {after.group} in "
            f"cluster {after.cluster_id}",
            hint="give two looks at the same group",
        )
    states = _states(before), _states(after)
    keys = sorted(states[0].keys() | states[1].keys())
    return tuple(
        StateChange(where=f"{topic}-{partition}", before=states[0].get(key), after=states[1].get(key))
        for key in keys
        for topic, partition in (key,)
    )


def _states(shown: ShownDocument) -> dict[tuple[str, int], CommitState]:
    return {
        (commit.topic or "", commit.partition or 0): state_of(commit, f"{commit.topic}-{commit.partition}")
        for commit in shown.commits
    }


ABOUT: dict[str, str] = {
    "burrow-misreads": "metadata is short enough for Burrow",
    "coarsened": "no payload was made coarser to fit",
    "committed-below-log-start": "retention took nothing that was not done",
    "committed-beyond-log-end": "the log reaches the committed offset",
    "done-beyond-log-end": "the log reaches everything that counts as done",
    "foreign-payload": "a payload belongs to its commit",
    "group-unread": "the group can be read",
    "limit-near": "metadata fills less than 60 % of the brokers' limit",
    "limits-differ": "all brokers have the same limit",
    "newer-payload": "this version of kafkakit knows the payload's version",
    "no-commit": "the group committed for every partition that members own and that holds records",
    "no-leader": "every partition has a leader",
    "nul-terminated": "metadata ends without a NUL",
    "open-transaction": "no open transaction holds a commit back",
    "payload-of-another-offset": "a payload was written for its committed offset",
    "pending-too-long": "nothing is pending for longer than --max-age",
    "rejected-without-ledger": "rejected offsets are also kept elsewhere",
    "replay-open": "no replay is in progress",
    "shifted-map": "no map of parallel-consumer was copied onto another offset",
    "time-in-the-future": "times in payloads are not in the future",
    "topic-gone": "the topic of every commit exists",
    "unreadable-payload": "a payload can be read",
    "watermark-differs": "a payload and the log give the oldest record the same time",
}


def findings_report(
    looks: Sequence[GroupLook], limits: MetadataLimits, cluster_id: str, max_age_s: float | None, fail_on: FailOn
) -> Report:
    """All findings as the result of a command, which fails for those of `fail_on` or worse."""
    findings = findings_of(looks, max_age_s=max_age_s)
    commits = sum(len(look.commits) for look in looks)
    head = f"cluster {cluster_id}: {count_of(len(looks), 'group')}, {count_of(commits, 'commit')}"
    return Report(
        command="streams commits verify",
        data={
            "cluster_id": cluster_id,
            "groups": len(looks),
            "commits": commits,
            "limit_chars": limits.strictest,
            **findings_data(findings),
            "rules": [{"rule": rule, "about": about} for rule, about in ABOUT.items()],
        },
        sections=(head, "", *findings_sections(findings)),
        table=ResultTable(COLUMNS, finding_rows(findings)),
        code=ExitCode.FAILED if fails(findings, fail_on) else ExitCode.DONE,
    )


def findings_of(looks: Iterable[GroupLook], *, max_age_s: float | None) -> tuple[Finding, ...]:
    """All that is wrong with these groups, worst first; one finding for each rule and partition."""
    held = list(looks)
    found = [finding for look in held for finding in _of_group(look, max_age_s)]
    limits = held[0].limits if held else None
    if limits is not None and limits.is_mixed:
        words = ", ".join(f"broker {broker}: {limit}" for broker, limit in limits.of_broker.items())
        where = f"cluster {held[0].cluster_id}"
        found.append(
            _make_finding(
                "limits-differ",
                Severity.WARNING,
                where,
                f"offset.metadata.max.bytes differs, so that a commit's fate depends on its coordinator: {words}",
                "set the same offset.metadata.max.bytes on all brokers",
            )
        )
    return in_order(found)


def _of_group(look: GroupLook, max_age_s: float | None) -> Iterator[Finding]:
    group = shown_name(look.group)
    yield from _find_unread(look)
    if _unread_count(look):
        yield _make_finding(
            "no-commit",
            Severity.WARNING,
            f"group {group}",
            f"no commit: {_uncommitted_text(look)}",
            "see whether the members of these partitions get on: a consumer commits when it has done its first record",
            count=len(look.uncommitted),
        )
    for facts in look.commits:
        where = f"group {group} {sanitize(str(facts.key))}"
        for hazard in hazards_of(facts):
            yield _make_finding(hazard.rule, hazard.severity, where, hazard.message, hazard.hint)
        age = oldest_age_s(facts)
        if max_age_s is not None and age is not None and age > max_age_s:
            yield _make_finding(
                "pending-too-long",
                Severity.ERROR,
                where,
                f"offset {facts.first_pending} is pending; its record is {format_rough_time(age)} old",
                facts.command("explain"),
            )


def _find_unread(look: GroupLook) -> Iterator[Finding]:
    """What could not be read of a group, by what is the matter: a right is missing only where Kafka says so."""
    group = f"group {shown_name(look.group)}"
    errors = [*sorted(look.refused.items()), *sorted(look.unread_logs.items())]
    leaderless = [str(key) for key, error in errors if error.is_leaderless]
    if leaderless:
        yield _make_finding(
            "no-leader",
            Severity.WARNING,
            group,
            f"no leader: {few_of(leaderless)}; what the group has to do there is not known",
            "start one of the brokers that hold its replicas; the other partitions were checked",
            count=len(leaderless),
        )
    for key, error in errors:
        if is_unstable(error):
            yield _make_finding(
                "open-transaction",
                Severity.NOTE,
                f"{group} {sanitize(str(key))}",
                "a transaction that commits offsets is open, and there is no commit before it",
                "look again when it has ended; one that hangs shows in kafka-transactions.sh find-hanging",
            )
    left = [(key, error) for key, error in errors if not error.is_leaderless and not is_unstable(error)]
    unread = [look.fault.message] if look.fault is not None else []
    unread += [f"{key}: {error}" for key, error in left]
    if unread:
        is_denied = any(error.is_denied for _, error in left)
        hint = RIGHT_HINT if is_denied else None if look.fault is None else look.fault.hint
        yield _make_finding(
            "group-unread",
            Severity.WARNING,
            group,
            unread[0] + (f", and {count_of(len(unread) - 1, 'more fault')}" if len(unread) > 1 else ""),
            hint or "it may pass: look again, or check the brokers with: kafkakit doctor",
            count=len(unread),
        )


def _make_finding(rule: str, severity: Severity, where: str, message: str, hint: str, count: int = 1) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        message=sanitize(message),
        where=where,
        hint=sanitize(hint),
        fingerprint=fingerprint_of(rule, where),
        count=count,
    )


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


def limits_report(limits: MetadataLimits, cluster_id: str, looks: Sequence[GroupLook], *, is_named: bool) -> Report:
    """Limits and headroom as the result of a command; groups without commits appear only where groups were named."""
    found = by_fullness(
        headroom_of(look.group, look.commits, limits.strictest) for look in looks if look.commits or is_named
    )
    unread = tuple(f"group {look.group}: {look.fault.message}" for look in looks if look.fault is not None)
    return Report(
        command="streams commits limits",
        data=limits_data(limits, cluster_id, found, unread),
        sections=limits_sections(limits, cluster_id, found, unread),
        table=ResultTable(HEADROOM_COLUMNS, tuple(headroom_row(headroom) for headroom in found)),
    )


def limits_sections(
    limits: MetadataLimits, cluster_id: str, groups: Sequence[Headroom], unread: Sequence[str]
) -> Iterator[Part]:
    """The limit, where brokers differ, then the groups, fullest first."""
    yield f"cluster {cluster_id}: {_limit_words(limits)}"
    if limits.unknown:
        yield f"brokers that did not report it: {', '.join(map(str, limits.unknown))}"
    yield from [""] if groups else []
    yield ResultTable(_SHOWN, [_table_row(headroom) for headroom in groups], empty="no group has committed anything")
    yield Remarks("cannot be read", map(sanitize, unread))


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
    limits: MetadataLimits, cluster_id: str, groups: Sequence[Headroom], unread: Sequence[str]
) -> dict[str, object]:
    """Everything as JSON fields."""
    return {
        "cluster_id": cluster_id,
        "limit_chars": limits.strictest,
        "limit_known": limits.is_known,
        "limits_differ": limits.is_mixed,
        "brokers": [{"broker": broker, "limit_chars": limit} for broker, limit in limits.of_broker.items()],
        "unknown_brokers": list(limits.unknown),
        "groups": records(HEADROOM_COLUMNS, map(headroom_row, groups)),
        "unread": list(unread),
    }


def _limit_words(limits: MetadataLimits) -> str:
    if not limits.is_known:
        return f"no broker reports {LIMIT_KEY}; Kafka's default of {limits.strictest:,} characters is taken"
    if not limits.is_mixed:
        return f"{LIMIT_KEY} is {limits.strictest:,} characters on all brokers that report it"
    words = ", ".join(f"{limit:,} on broker {broker}" for broker, limit in limits.of_broker.items())
    return f"{LIMIT_KEY} DIFFERS: {words}; {limits.strictest:,} is what holds for sure"


def _table_row(headroom: Headroom) -> tuple[object, ...]:
    fullest = headroom.fullest
    has = fullest is not None and fullest.chars > 0
    return (
        shown_name(headroom.group),
        headroom.partitions,
        headroom.with_metadata,
        sanitize(str(fullest.key)) if has and fullest is not None else None,
        fullest.reading.dialect if has and fullest is not None else None,
        0 if fullest is None else fullest.chars,
        f"{headroom.fill:.0%}",
        headroom.free_chars,
    )
