"""`kafkakit streams lag check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.lag.commands.check_options import LimitOptions, SilenceOptions
from kafkakit.streams.lag.commands.options import CheckWaitLimit, ClusterChoice, RowChoice

if TYPE_CHECKING:
    from kafkakit.report.report import Report


@with_option_groups
def check(
    ctx: typer.Context,
    which: ClusterChoice,
    rows: RowChoice,
    limits: LimitOptions,
    limit: CheckWaitLimit,
    silence: SilenceOptions,
    nagios: Annotated[
        bool, typer.Option("--nagios", help="Exit as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown.")
    ] = False,
) -> int:
    """Check the lag of groups against thresholds, for cron and monitoring: one line with performance data.

    Exit 0 when all is within limits, 1 on a warning or worse, 75 when the lag is not known (for example, a cluster
    does not answer). With --nagios the codes are those of monitoring plugins.

    The file of --limits has owners (of each the globs of its groups) and rules, the first of which that matches
    counts. The keys of a rule are group and topic (globs), owner, and the limits as the options spell them, with _
    for -; a limit that it does not name is that of the command line. --silence-own-moves is about lag, time lag and
    the statuses warning and stalled alone, and ends with the run.

    Examples:

    \b
    kafkakit --profile prod streams lag check --crit-time 10m --warn-time 2m
    kafkakit --profile prod streams lag check 'orders-*' --crit-lag 1M --crit-retention 6h --nagios
    kafkakit streams lag check --clusters prod-a,prod-b --crit-time 10m -o json
    kafkakit --profile prod streams lag check --limits limits.yaml --silence-own-moves --silence-limit 2h
    """
    from kafkakit.cli.session import finish
    from kafkakit.streams.lag.act.fleet import running_fleet
    from kafkakit.streams.lag.act.looks import ONCE_PACE, look_once
    from kafkakit.streams.lag.decide.views.thresholds import check_lag
    from kafkakit.streams.lag.show.check_report import check_report, report_or_unknown

    cli = cli_context(ctx)

    def checked() -> Report:
        limit_rules, wait_s, _ = limits.rules(), limit.seconds, silence.limit_s
        chosen = rows.filter(cli, which)
        with running_fleet(which.monitored(cli), which.context(cli, ONCE_PACE)) as fleet:
            look = look_once(fleet, cli.output, wait_s=wait_s)
        found = check_lag(chosen.of(look.tables), limit_rules, silence.moved(cli, look))
        return check_report(found, look, nagios=nagios)

    return finish(cli, report_or_unknown(checked) if nagios else checked())
