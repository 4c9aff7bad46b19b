"""What `lag check` prints: one line with performance data, the reasons as rows, and the exit code."""

from collections.abc import Callable

from kafkakit.core.errors import ExitCode, KafkakitError
from kafkakit.report.report import Report
from kafkakit.streams.lag.decide.looks import Look
from kafkakit.streams.lag.decide.views.thresholds import GRAVITY, CheckResult, Verdict
from kafkakit.streams.lag.show.views import condition_data

COMMAND = "streams lag check"
COLUMNS = ("verdict", "cluster", "group", "topic", "partition", "reason")


def check_report(found: CheckResult, look: Look, *, nagios: bool) -> Report:
    """The verdict over all clusters: one that is not known may be critical, so it outweighs a warning.

    With `nagios` the exit code is the verdict's number.
    """
    verdict = max(found.verdict, Verdict.UNKNOWN if look.missing else Verdict.OK, key=GRAVITY.index)
    summary = _summary(found, verdict, look)
    rows = tuple(
        (b.verdict.name.lower(), b.cluster, b.group, b.topic, None if b.partition < 0 else b.partition, b.text)
        for b in found.breaches
    )
    codes = {Verdict.OK: ExitCode.DONE, Verdict.UNKNOWN: ExitCode.TRY_LATER}
    return Report(
        command=COMMAND,
        data={
            "verdict": verdict.name.lower(),
            "summary": summary,
            "performance": found.performance,
            "breaches": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
            "more": found.more,
            "clusters": [condition_data(c) for c in look.conditions],
        },
        text=f"{summary} | {found.performance}",
        columns=COLUMNS,
        rows=rows,
        code=int(verdict) if nagios else codes.get(verdict, ExitCode.FAILED),
    )


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
