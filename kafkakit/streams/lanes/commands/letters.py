"""`kafkakit streams dlq list|show`: what was rejected, and why."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.record_options import MaxBytes
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.lanes.commands import options
from kafkakit.streams.lanes.commands.opening import clusters_of

MOST_LISTED = 100_000


def list_(
    ctx: typer.Context,
    stream: options.Stream,
    where: options.Where = "",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, max=MOST_LISTED, help="Show at most N records; count all.")
    ] = 100,
) -> None:
    """List rejected records: those of the DLQ lane, and references to records that still lie in their topic.

    Reads the DLQ lane and the reject ledger (topic __kafkakit_rejects) from their beginning to their end. Reads only,
    and joins no group.

    Examples:

    \b
    kafkakit --profile prod streams dlq list orders
    kafkakit --profile prod streams dlq list orders --where 'reason = timeout and group = billing and age_s < 3600'
    kafkakit --profile prod streams dlq list orders --where 'key like "customer-7*"' -o json
    """
    from kafkakit.core.durations import epoch_ms
    from kafkakit.streams.lanes.act.letters import LetterReader
    from kafkakit.streams.lanes.decide.dead_letters import letter_filter
    from kafkakit.streams.lanes.show.letters import letters_report, tally
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        matches = letter_filter(where, epoch_ms(opened.clock.now()))
        clusters = clusters_of(ctx, stack, read_only=True)
        reader = LetterReader(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        first, reasons = tally(reader.matching(RouteStore(opened.control).existing(stream).route, matches), limit)
        report = letters_report(stream, first, reasons, reader.strange)
    finish(cli, report)


def show(
    ctx: typer.Context,
    stream: options.Stream,
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record, as in the list.", show_default=False)
    ],
    max_bytes: MaxBytes = 1_000,
) -> None:
    """Show one rejected record: where it came from, why it was rejected, key, value and headers.

    Records may hold secrets: they go to the result and nowhere else. Exits 1 when the record is gone.

    Examples:

    \b
    kafkakit --profile prod streams dlq show orders orders.dlq.1/0@17
    """
    from kafkakit.streams.lanes.act.letters import LetterReader
    from kafkakit.streams.lanes.show.letters import letter_report
    from kafkakit.streams.records.api import parse_place
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    key, offset = parse_place(place)
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(cli, read_only=True))
        clusters = clusters_of(ctx, stack, read_only=True)
        reader = LetterReader(clusters, opened.clock, wait_s=opened.settings.request_timeout_s)
        letter, found = reader.one(RouteStore(opened.control).existing(stream).route, key, offset)
    finish(cli, letter_report(letter, found, max_bytes))
