"""`kafkakit streams reconcile`: the two sides of a dual write compared."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.lanes.commands.opening import clusters_of


def reconcile(
    ctx: typer.Context,
    primary: Annotated[str, typer.Argument(metavar="STREAM", help="The primary stream.", show_default=False)],
    secondary: Annotated[str, typer.Argument(metavar="SECONDARY", help="The secondary.", show_default=False)],
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Records made at this time or later: 14:00, -2h or ISO 8601.")
    ] = "-1h",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Records made before this time; leave time for repairs.")
    ] = "-1m",
    margin: Annotated[
        str,
        typer.Option(
            "--margin",
            metavar="DURATION",
            help="Read records whose time in Kafka is so much outside; longer where applications set times themselves.",
        ),
    ] = "10m",
) -> int:
    """Compare the two streams of a dual write by the ids of their records (header kafkakit-id).

    Counts records that only one stream has, that both have, and that have another key. Duplicates are no difference;
    records without an id are not compared. Reads every lane but dlq, up to 2,000,000 records of each stream, with 300
    bytes of memory each; writes nothing and joins no group. Exits 1 when the streams differ.

    Examples:

    \b
    kafkakit --profile prod streams reconcile orders orders-copy
    kafkakit --profile prod streams reconcile orders orders-copy --since -25h --until -1h -o json
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.api import parse_moment
    from kafkakit.streams.lanes.act.reconciling import ComparedRange, Reconciler
    from kafkakit.streams.lanes.show.reconciling import reconciliation_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    if primary == secondary:
        raise UsageError(f"stream {primary} would be compared with itself")
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        now = opened.clock.now()
        moments = (("--since", since), ("--until", until))
        start, end = (parse_moment(text, flag, now, lambda at: at.astimezone()).ms for flag, text in moments)
        compared = ComparedRange(from_ms=start, to_ms=end, margin_ms=round(parse_duration(margin, "--margin") * 1000))
        routes = [RouteStore(opened.control).existing(stream).route for stream in (primary, secondary)]
        clusters = clusters_of(ctx, stack, read_only=True)
        reconciler = Reconciler(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        found = reconciler.compare(routes[0], routes[1], compared)
    return finish(cli, reconciliation_report(primary, secondary, start, end, found))
