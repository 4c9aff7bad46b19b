"""`kafkakit streams commits show|explain|watch`: one group's commits on a live cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.inspecting import inspector_of


@with_option_groups
def show(
    ctx: typer.Context,
    *,
    group: options.Group,
    within: options.LookScope,
    also: options.Also = None,
    drawing: options.DrawingOptions,
) -> None:
    """Show what a group committed: done, pending, retrying and rejected offsets, their age, size and hazards.

    Reads the commits, the ends of the logs, the time of the oldest pending record, the brokers' limit and which
    member holds each partition. For several commits a table comes first, then those that hold more than an offset.
    Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits show payments
    kafkakit --profile prod streams commits show payments --topic orders --partition 3 -o json
    """
    from kafkakit.streams.commits.show.group_text import group_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        look = inspector_of(ctx, opened, also).look_existing(group, within.scope)
    report = group_report("show", look, columns=drawing.columns, style=drawing.style(cli))
    session.finish(cli, report)


@with_option_groups
def explain(
    ctx: typer.Context,
    *,
    group: options.Group,
    offset: Annotated[
        int | None,
        typer.Argument(
            metavar="OFFSET", min=0, help="The offset; the oldest pending one when not given.", show_default=False
        ),
    ] = None,
    within: options.OneCommitScope,
) -> None:
    """Explain why an offset is pending or done, since when, and what a restart would do to it.

    Examples:

    \b
    kafkakit --profile prod streams commits explain payments --topic orders --partition 3
    kafkakit --profile prod streams commits explain payments 1048576 --topic orders --partition 3
    """
    from kafkakit.streams.commits.decide.explanation import explain as explain_offset
    from kafkakit.streams.commits.decide.group_look import only_commit
    from kafkakit.streams.commits.show.explained import explained_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        look = inspector.look_existing(group, within.scope)
        cli.cluster_id, facts = look.cluster_id, only_commit(look)
        at = facts.first_pending if offset is None else offset
        written = None
        if facts.key is not None and facts.span is not None and facts.span.start <= at < facts.span.end:
            written = inspector.written(facts.key, at)
    found = explain_offset(facts, at, written)
    addresses = cli.settings.bootstrap_servers or "HOST:PORT"
    session.finish(cli, explained_report(facts, found, written, addresses))


@with_option_groups
def watch(
    ctx: typer.Context,
    *,
    group: options.Group,
    within: options.LookScope,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two refreshes.")] = "5s",
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="End after this many refreshes; 0: not before Ctrl-C.")
    ] = 0,
) -> None:
    """Watch a group's commits: a table that refreshes on a terminal, otherwise one line a change.

    Ctrl-C ends it. While the cluster cannot be reached, a warning says so and the command continues; the table
    shows the time of its figures. The result is the last state read.

    Examples:

    \b
    kafkakit --profile prod streams commits watch payments --interval 2s
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.commits.act.watch import Shown, watch_group
    from kafkakit.streams.commits.show.group_text import group_report

    cli = cli_context(ctx)
    every_s = parse_duration(interval, "--interval")
    with session.open_session(cli, read_only=True) as opened:
        inspector = inspector_of(ctx, opened)
        first = inspector.look_existing(group, within.scope)
        with cli.output.screen() as screen:
            look = watch_group(
                lambda: inspector.look(group, within.scope),
                opened.clock,
                cli.output,
                Shown(screen, rows=options.DrawingOptions().rows, in_place=cli.output.animate),
                first=first,
                every_s=every_s,
                count=count,
            )
    drawing = options.DrawingOptions()
    report = group_report("watch", look, columns=drawing.columns, style=drawing.style(cli))
    session.finish(cli, report)
