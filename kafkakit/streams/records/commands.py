"""`kafkakit streams records`: the records that offsets stand for."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.record_options import MaxBytes

MOST_RECORDS = 1_000

app = new_group("Show the records that offsets stand for.")


@app.command("show", cls=CliCommand, short_help="Show the record at an offset.")
def show(
    ctx: typer.Context,
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record.", show_default=False)],
    count: Annotated[
        int,
        typer.Option("--count", metavar="N", min=1, max=MOST_RECORDS, help="This many records, markers included."),
    ] = 1,
    max_bytes: MaxBytes = 1_000,
) -> None:
    """Show the record at an offset: time, key, value and headers, and what became of its transaction.

    Bytes that are UTF-8 are shown as text, others as hexadecimal digits, with -o json as base64. Of an offset without
    a record it reports why: a transaction marker, deleted by retention, compacted away (the next record is shown), or
    beyond the end. Records may hold secrets: they go to the result and nowhere else. Reads only, and joins no group.
    Exits 1 when there is nothing to show.

    Examples:

    \b
    kafkakit --profile prod streams records show payments/3@102
    kafkakit --profile prod streams records show payments/3@102 --count 10 --max-bytes 100
    kafkakit --profile prod streams records show payments/3@102 --max-bytes 10000000 -o json
    """
    from kafkakit.streams.records.act import RecordReader
    from kafkakit.streams.records.decide import parse_place
    from kafkakit.streams.records.show import records_report

    cli = cli_context(ctx)
    key, offset = parse_place(place)
    with session.open_session(cli, read_only=True) as opened:
        reader = RecordReader(opened.log, opened.data, opened.clock, wait_s=opened.settings.request_timeout_s)
        found, cluster_id = reader.read(key, offset, count), opened.log.cluster_id()
    session.finish(cli, records_report(found, cluster_id, max_bytes))
