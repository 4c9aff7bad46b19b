"""`kafkakit streams list`, `show`, `history`, `topology` and `resolve`: what routes say, and what is behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish
from kafkakit.streams.routes.commands.pathway_options import PathwayOptions
from kafkakit.streams.routes.commands.stream_options import StreamName, open_streams


def list_streams(ctx: typer.Context) -> int:
    """List the streams of the control store; exits 1 when a route cannot be read.

    Examples:

    \b
    kafkakit --profile prod streams list
    """
    from kafkakit.streams.routes.show.routes import list_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        found = streams.all()
    return finish(cli, list_report(found))


def show(ctx: typer.Context, stream: StreamName) -> int:
    """Show a stream: its lanes, the state of each topic, and the groups that read them.

    Looks at every cluster of the stream. A topic that is gone, that was created again under another id, or whose
    cluster is not reached is named; then the command exits 1.

    Examples:

    \b
    kafkakit --profile prod streams show orders
    kafkakit --profile prod streams show orders -o json
    """
    from kafkakit.streams.routes.show.routes import show_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        route = streams.existing(stream)
        facts = streams.observer.look(route)
    return finish(cli, show_report(route, facts))


def history(ctx: typer.Context, stream: StreamName) -> int:
    """Show the changes of a stream: epoch, time, who made it and what it was; also of a deleted stream.

    Examples:

    \b
    kafkakit --profile prod streams history orders
    kafkakit --profile prod streams history orders -o json
    """
    from kafkakit.streams.routes.show.routes import history_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        kept = streams.routes.history(stream)
        if not kept:
            streams.existing(stream)
    return finish(cli, history_report(stream, kept))


@with_option_groups
def topology(
    ctx: typer.Context,
    seen: PathwayOptions,
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="[STREAM]...", help="Only these streams.", show_default=False)
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flow chart in place of the table.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with the picture and the table to this file, too."),
    ] = None,
) -> int:
    """Show the graph of streams: lanes, topics, clusters, and the groups that read them.

    With --pathways, edges between streams too: the newest records of each topic are read, and the hashes in their
    pathway headers prove which service read one stream and wrote another. A hash cannot be taken apart, so only
    services that are named, or whose name is that of their group, are found.

    Examples:

    \b
    kafkakit --profile prod streams topology
    kafkakit --profile prod streams topology --pathways --service checkout --service billing --env prod
    kafkakit --profile prod streams topology orders payments --mermaid --output-file streams.mmd
    kafkakit --profile prod streams topology --html streams.html
    """
    from kafkakit.streams.routes.show.topology import topology_report
    from kafkakit.streams.routes.show.topology_page import topology_page
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as opened:
        observed = opened.observer.look_at(opened.chosen(streams))
        edges, problems = seen.look(opened, observed)
    if html is not None:
        write_file(html, topology_page(observed, edges))
        cli.output.say(f"page: {html}")
    return finish(cli, topology_report(observed, edges, problems, as_mermaid=mermaid))


def resolve(
    ctx: typer.Context,
    stream: StreamName,
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="LANE", help="Only this lane.", show_default=False)
    ] = None,
) -> int:
    """Print the addresses and topics of a stream for clients that do not follow routes, as Java properties.

    Addresses are those of the profiles that the route names; each is checked to reach the cluster that the route
    means, as far as it answers. Credentials are not printed. What such clients lose goes to stderr.

    Examples:

    \b
    kafkakit --profile prod streams resolve orders --lane live > orders.properties
    kafkakit --profile prod streams resolve orders -o json
    """
    from kafkakit.streams.model.route_edits import existing_lane
    from kafkakit.streams.routes.act.resolving import resolve_clusters
    from kafkakit.streams.routes.show.resolve import resolve_report

    cli = cli_context(ctx)
    with open_streams(cli, read_only=True) as streams:
        route = streams.existing(stream)
        lanes = route.lanes if lane is None else (existing_lane(route, lane),)
        clusters, warnings = resolve_clusters(lanes, streams.address)
    return finish(cli, resolve_report(route, lanes, clusters, warnings))
