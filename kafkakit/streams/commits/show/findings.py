"""The hazards of many groups as findings, for CI and cron."""

from collections.abc import Iterable, Iterator, Sequence

from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import (
    COLUMNS,
    FailOn,
    Finding,
    Severity,
    fails,
    finding_rows,
    findings_data,
    findings_text,
    fingerprint_of,
    in_order,
)
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.group_look import GroupLook
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.decide.headroom import Limits
from kafkakit.streams.commits.show.table import oldest_age_s

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
    "nul-terminated": "metadata ends without a NUL",
    "open-transaction": "no open transaction holds a commit back",
    "payload-of-another-offset": "a payload was written for its committed offset",
    "pending-too-long": "nothing is pending for longer than --max-age",
    "rejected-without-ledger": "rejected offsets are kept somewhere else too",
    "replay-open": "no replay is in progress",
    "shifted-map": "no map of parallel-consumer was copied onto another offset",
    "time-in-the-future": "times in payloads are not in the future",
    "topic-gone": "the topic of every commit exists",
    "unreadable-payload": "a payload can be read",
    "watermark-differs": "a payload's time of the oldest record is that of the log",
}


def findings_report(
    looks: Sequence[GroupLook], limits: Limits, cluster_id: str, max_age_s: float | None, fail_on: FailOn
) -> Report:
    """All findings as the result of a command, which fails for those of `fail_on` or worse."""
    findings = findings_of(looks, max_age_s=max_age_s)
    commits = sum(len(look.commits) for look in looks)
    head = f"cluster {cluster_id}: {counted(len(looks), 'group')}, {counted(commits, 'commit')}"
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
        text=f"{head}\n\n{findings_text(findings)}",
        columns=COLUMNS,
        rows=finding_rows(findings),
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
            _finding(
                "limits-differ",
                Severity.WARNING,
                where,
                f"offset.metadata.max.bytes differs, so that a commit's fate depends on its coordinator: {words}",
                "set the same offset.metadata.max.bytes on all brokers",
            )
        )
    return in_order(found)


def _of_group(look: GroupLook, max_age_s: float | None) -> Iterator[Finding]:
    group = printable(look.group)
    unread = [look.fault.message] if look.fault is not None else []
    unread += [f"{key}: {error}" for key, error in sorted(look.refused.items())]
    unread += look.notes
    if unread:
        yield _finding(
            "group-unread",
            Severity.WARNING,
            f"group {group}",
            unread[0] + (f", and {counted(len(unread) - 1, 'more fault')}" if len(unread) > 1 else ""),
            "reading a group needs the right DESCRIBE on it and on its topics",
            count=len(unread),
        )
    for facts in look.commits:
        where = f"group {group} {printable(str(facts.key))}"
        for hazard in hazards_of(facts):
            yield _finding(hazard.rule, hazard.severity, where, hazard.message, hazard.hint)
        age = oldest_age_s(facts)
        if max_age_s is not None and age is not None and age > max_age_s:
            yield _finding(
                "pending-too-long",
                Severity.ERROR,
                where,
                f"offset {facts.first_pending} is pending; its record is {format_rough_time(age)} old",
                facts.command("explain"),
            )


def _finding(rule: str, severity: Severity, where: str, message: str, hint: str, count: int = 1) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        message=printable(message),
        where=where,
        hint=printable(hint),
        fingerprint=fingerprint_of(rule, where),
        count=count,
    )
