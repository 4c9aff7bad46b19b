"""`kafkakit streams lag`: how far consumer groups are behind, in records and in time."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.lag.commands.check import check
from kafkakit.streams.lag.commands.options import ClusterChoice, RowChoice, TableLayout, WaitLimit
from kafkakit.streams.lag.commands.serve import serve
from kafkakit.streams.lag.commands.share_groups import share_groups

app = new_group("Measure how far consumer groups are behind, in records and in time.")


@app.command("once", cls=CliCommand, short_help="Show the lag of all groups now.")
@with_option_groups
def once(
    ctx: typer.Context,
    which: ClusterChoice,
    layout: TableLayout,
    rows: RowChoice,
    limit: WaitLimit,
    members: Annotated[
        bool, typer.Option("--members", help="Show who reads: the owner of each partition, or how many members.")
    ] = False,
) -> int:
    """Show the lag of all groups now, with an interval that contains the time lag, and its source.

    Reads the cluster's commits from the offsets topic (from where the last run stopped), samples the log ends
    twice, and reads the next record of each lagging group. Nothing is written to the cluster, and no group is
    joined. Time lag is that of the oldest record not done; live lag is that of the newest one done. With --members the
    coordinators of the groups shown describe them, which needs DESCRIBE on each; -o json lists all members with
    their partitions.

    Examples:

    \b
    kafkakit --profile prod streams lag once
    kafkakit --profile prod streams lag once 'orders-*' --by partition --members
    kafkakit streams lag once --clusters prod-a,prod-b --by stream -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.streams.lag.act.fleet import running_fleet
    from kafkakit.streams.lag.act.looks import ONCE_PACE, look_once
    from kafkakit.streams.lag.act.members import read_members
    from kafkakit.streams.lag.decide.views.members import groups_by_cluster, require_groups
    from kafkakit.streams.lag.show.views import view_report

    cli, wait_s = cli_context(ctx), limit.seconds
    request = layout.request(cli, which, rows)
    if members:
        require_groups(request.level)
    clusters = which.monitored(cli)
    with running_fleet(clusters, which.context(cli, ONCE_PACE)) as fleet:
        look = look_once(fleet, cli.output, wait_s=wait_s)
    if len(look.conditions) == 1:
        cli.cluster_id = look.conditions[0].cluster_id
    view = request.of(look.tables)
    open_groups = {cluster.name: cluster.open_groups for cluster in clusters}
    readers = read_members(open_groups, groups_by_cluster(view)) if members else None
    return finish(cli, view_report("streams lag once", look, view, look.failure, readers))


@app.command("watch", cls=CliCommand, short_help="Watch the lag of groups.")
@with_option_groups
def watch(
    ctx: typer.Context,
    which: ClusterChoice,
    layout: TableLayout,
    rows: RowChoice,
    limit: WaitLimit,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two refreshes.")] = "2s",
    count: Annotated[
        int | None,
        typer.Option("--count", min=1, metavar="N", help="End after this many refreshes.", show_default=False),
    ] = None,
) -> int:
    """Watch the lag of groups: a table that refreshes in place, or a line for each change of a status.

    A terminal gets the table, any other output gets lines. Ctrl-C ends it. With --count the last state is the
    result.

    Examples:

    \b
    kafkakit --profile prod streams lag watch
    kafkakit --profile prod streams lag watch 'orders-*' --by partition --interval 5s
    kafkakit streams lag watch --clusters prod-a,prod-b --count 10 -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.lag.act.fleet import running_fleet
    from kafkakit.streams.lag.act.looks import LookDisplay, look_once, watch_looks
    from kafkakit.streams.lag.show.views import view_report

    cli = cli_context(ctx)
    request = layout.request(cli, which, rows)
    wait_s, interval_s = limit.seconds, parse_duration(interval, "--interval")
    with running_fleet(which.monitored(cli), which.context(cli)) as fleet:
        look_once(fleet, cli.output, wait_s=wait_s, rounds=1)
        with cli.output.screen() as screen:
            display = LookDisplay(screen, request, in_place=cli.output.animate)
            look = watch_looks(fleet, display.show, interval_s=interval_s, count=count)
    return finish(cli, view_report("streams lag watch", look, request.of(look.tables)))


app.command("serve", cls=CliCommand, short_help="Serve the lag of all groups as metrics and JSON.")(serve)
app.command("check", cls=CliCommand, short_help="Check lag against thresholds, for cron and monitoring.")(check)
app.command("share-groups", cls=CliCommand, short_help="Show the lag of share groups.")(share_groups)
