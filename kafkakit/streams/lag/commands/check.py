"""`kafkakit streams lag check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.streams.lag.commands.check_options import (
    CritLag,
    CritRetention,
    CritStatus,
    CritTime,
    JudgeBy,
    WarnLag,
    WarnRetention,
    WarnStatus,
    WarnTime,
)
from kafkakit.streams.lag.commands.options import (
    Clusters,
    GroupGlobs,
    Groups,
    Internal,
    Skew,
    TopicGlobs,
    WaitFor,
    look_of,
)
from kafkakit.streams.lag.decide.views.thresholds import JudgedBound

if TYPE_CHECKING:
    from kafkakit.core.errors import KafkakitError
    from kafkakit.report.report import Report
    from kafkakit.streams.lag.act.looks import Look
    from kafkakit.streams.lag.decide.views.thresholds import CheckResult, LagLimits, Verdict


def check(
    ctx: typer.Context,
    groups: Groups = None,
    clusters: Clusters = None,
    group: GroupGlobs = None,
    topic: TopicGlobs = None,
    internal: Internal = False,
    warn_lag: WarnLag = None,
    crit_lag: CritLag = None,
    warn_time: WarnTime = None,
    crit_time: CritTime = None,
    warn_retention: WarnRetention = None,
    crit_retention: CritRetention = None,
    warn_status: WarnStatus = "stalled,rewind",
    crit_status: CritStatus = "stopped,lost",
    judge: JudgeBy = JudgedBound.LOW,
    nagios: Annotated[
        bool, typer.Option("--nagios", help="Exit as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown.")
    ] = False,
    wait: WaitFor = "30s",
    skew: Skew = "1s",
) -> None:
    """Judge the lag of groups by thresholds, for cron and monitoring: one line with performance data.

    Exit 0 when all is within limits, 1 on a warning or worse, 75 when the lag is not known (a cluster that does not
    answer, say). With --nagios the codes are those of monitoring plugins.

    Examples:

    \b
    kafkakit --profile prod streams lag check --crit-time 10m --warn-time 2m
    kafkakit --profile prod streams lag check 'orders-*' --crit-lag 1M --crit-retention 6h --nagios
    kafkakit streams lag check --clusters prod-a,prod-b --crit-time 10m -o json
    """
    from kafkakit.core.errors import KafkakitError
    from kafkakit.streams.lag.decide.views.selecting import selected
    from kafkakit.streams.lag.decide.views.thresholds import Thresholds
    from kafkakit.streams.lag.decide.views.thresholds import check as judged

    kit = kit_of(ctx)
    try:
        thresholds = Thresholds(
            critical=_limits("crit", crit_lag, crit_time, crit_retention, crit_status),
            warning=_limits("warn", warn_lag, warn_time, warn_retention, warn_status),
            judge=judge,
        )
        look = look_of(kit, clusters, wait, skew)
        globs = [*(groups or []), *(group or [])]
        tables = [selected(t, groups=globs, topics=topic or [], internal=internal or bool(topic)) for t in look.tables]
        found = judged(tables, thresholds)
    except KafkakitError as error:
        if not nagios:
            raise
        kit.output.result(_failed(error))
        raise typer.Exit(3) from None
    kit.output.result(_result(found, look))
    raise typer.Exit(_exit_code(found, look, nagios=nagios))


def _limits(side: str, lag: str | None, time: str | None, retention: str | None, statuses: str) -> LagLimits:
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.lag.decide.measure.status import LagStatus
    from kafkakit.streams.lag.decide.views.thresholds import LagLimits, parse_count

    words = [word.strip() for word in statuses.split(",") if word.strip() not in ("", "none")]
    known = {status.word: status for status in LagStatus}
    for word in words:
        if word not in known:
            raise UsageError(
                f"--{side}-status: {word!r:.40} is no status", hint=f"there are {', '.join(sorted(known))}"
            )
    return LagLimits(
        max_lag=None if lag is None else parse_count(lag, f"--{side}-lag"),
        max_time_lag_ms=None if time is None else round(parse_duration(time, f"--{side}-time") * 1000),
        min_retention_left_ms=(
            None if retention is None else round(parse_duration(retention, f"--{side}-retention") * 1000)
        ),
        statuses=frozenset(known[word] for word in words),
    )


def _result(found: CheckResult, look: Look) -> Report:
    from kafkakit.report.report import Report
    from kafkakit.streams.lag.show.views import condition_data

    summary = _summary(found, look)
    columns = ("verdict", "cluster", "group", "topic", "partition", "reason")
    rows = tuple(
        (b.verdict.name.lower(), b.cluster, b.group, b.topic, None if b.partition < 0 else b.partition, b.text)
        for b in found.breaches
    )
    return Report(
        command="streams lag check",
        data={
            "verdict": _verdict(found, look).name.lower(),
            "summary": summary,
            "performance": found.performance,
            "breaches": [dict(zip(columns, row, strict=True)) for row in rows],
            "more": found.more,
            "clusters": [condition_data(c) for c in look.conditions],
        },
        text=f"{summary} | {found.performance}",
        columns=columns,
        rows=rows,
    )


def _verdict(found: CheckResult, look: Look) -> Verdict:
    """The verdict over all clusters: one that is not known may be critical, so it outweighs a warning."""
    from kafkakit.streams.lag.decide.views.thresholds import GRAVITY, Verdict

    verdict = Verdict.UNKNOWN if look.missing else Verdict.OK
    return max(found.verdict, verdict, key=GRAVITY.index)


def _summary(found: CheckResult, look: Look) -> str:
    if not look.missing:
        return found.summary
    name, reason = look.missing[0]
    if found.verdict is _verdict(found, look) and found.breaches:
        return f"{found.summary}; {name} is not known: {reason}"
    return f"LAG UNKNOWN - {name}: {reason}"


def _exit_code(found: CheckResult, look: Look, *, nagios: bool) -> int:
    from kafkakit.core.errors import ExitCode
    from kafkakit.streams.lag.decide.views.thresholds import Verdict

    verdict = _verdict(found, look)
    if nagios:
        return int(verdict)
    codes = {Verdict.OK: ExitCode.DONE, Verdict.UNKNOWN: ExitCode.TRY_LATER}
    return int(codes.get(verdict, ExitCode.FAILED))


def _failed(error: KafkakitError) -> Report:
    from kafkakit.report.report import Report

    summary = f"LAG UNKNOWN - {' '.join(error.message.split())}"
    return Report(
        command="streams lag check", data={"verdict": "unknown", "summary": summary}, text=summary, columns=(), rows=()
    )
