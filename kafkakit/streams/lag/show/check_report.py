"""What `lag check` prints: one line with performance data, the reasons as rows, and the exit code."""

from collections.abc import Callable

from kafkakit.core.errors import ExitCode, KafkakitError
from kafkakit.report.blocks import records
from kafkakit.report.report import Report
from kafkakit.streams.lag.decide.looks import Look
from kafkakit.streams.lag.decide.views.thresholds import GRAVITY, Breach, CheckResult, Verdict
from kafkakit.streams.lag.show.views import condition_data

COMMAND = "streams lag check"
COLUMNS = ("verdict", "cluster", "group", "topic", "partition", "reason", "owner")


def check_report(found: CheckResult, look: Look, *, nagios: bool) -> Report:
    """The verdict over all clusters: one that is not known may be critical, so it outweighs a warning.

    With `nagios` the exit code is the verdict's number.
    """
    verdict = max(found.verdict, Verdict.UNKNOWN if look.missing else Verdict.OK, key=GRAVITY.index)
    summary = _summary(found, verdict, look)
    rows = tuple(_row(b, b.text) for b in found.breaches)
    silenced = tuple(_row(b, f"{b.text}; run {b.run} moves the topic") for b in found.silenced)
    owners = [
        {"owner": owner or None, "verdict": gravest.name.lower(), "breaches": count}
        for owner, (gravest, count) in sorted(found.owners.items())
    ]
    codes = {Verdict.OK: ExitCode.DONE, Verdict.UNKNOWN: ExitCode.TRY_LATER}
    return Report(
        command=COMMAND,
        data={
            "verdict": verdict.name.lower(),
            "summary": summary,
            "performance": found.performance,
            "breaches": records(COLUMNS, rows),
            "more": found.more,
            "owners": owners,
            "silenced": records(COLUMNS, silenced),
            "silenced_count": found.silenced_count,
            "clusters": [condition_data(c) for c in look.conditions],
        },
        text=f"{summary} | {found.performance}",
        columns=COLUMNS,
        rows=(*rows, *(("silenced", *row[1:]) for row in silenced)),
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
        return Report(command=COMMAND, data=data, text=summary, code=int(Verdict.UNKNOWN))


def _summary(found: CheckResult, verdict: Verdict, look: Look) -> str:
    if not look.missing:
        return found.summary
    name, reason = look.missing[0]
    if found.verdict is verdict and found.breaches:
        return f"{found.summary}; {name} is not known: {reason}"
    return f"LAG UNKNOWN - {name}: {reason}"
