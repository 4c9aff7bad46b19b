"""`kafkakit streams bombs`: batches that become too large when they are decompressed."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.bombs.commands import options
from kafkakit.streams.bombs.commands.quarantine import quarantine

app = new_group("Find batches that become too large when they are decompressed, and quarantine them.")
app.command("quarantine", cls=CliCommand, short_help="Keep such batches in files, and let a group pass them.")(
    quarantine
)


@app.command("scan", cls=CliCommand, short_help="Look for such batches in topics.")
@with_option_groups
def scan(
    ctx: typer.Context,
    *,
    topics: options.Topics,
    from_: options.From = None,
    since: options.Since = "",
    which: options.BatchLimit,
) -> int:
    """Look for batches in topics that become larger than a limit when they are decompressed.

    Reads the logs up to their present ends and looks at headers: zstd, lz4 and snappy batches are bounded by their
    blocks. Gzip has no sizes that can be relied on: a batch that may exceed the limit is inflated up to it, and
    nothing of it is kept. Reads only, and joins no group. Exits 1 when a batch is found, 0 when none is, 75 when none
    is found and a partition was not read to its end.

    Examples:

    \b
    kafkakit --profile prod streams bombs scan payments
    kafkakit --profile prod streams bombs scan payments orders --since -2h --limit 33MB
    kafkakit --profile prod streams bombs scan payments --partition 3 --from 1000000 -o json
    """
    from kafkakit.streams.bombs.show import scan_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True) as opened:
        start = options.scan_start(from_, since, opened.clock.now())
        scanner = which.scanner(opened)
        keys = scanner.partitions(topics, which.numbers)
        with cli.output.progress("reading batch headers") as bar:
            found = scanner.scan(list(keys), start, bar)
    return session.finish(cli, scan_report(found, cli.program))


@app.command("watch", cls=CliCommand, short_help="Report such batches as they come.")
@with_option_groups
def watch(
    ctx: typer.Context,
    *,
    topics: options.Topics,
    which: options.BatchLimit,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two looks.")] = "5s",
    once: Annotated[
        bool, typer.Option("--once", help="Look once at the records of the last interval and end, for timers.")
    ] = False,
) -> int:
    """Report batches that become too large as they come into topics: a line each.

    Begins at the ends of the logs, and reads what came since every --interval. New partitions are read from their
    start. While a leader does not answer, a warning says so and the command continues. Ctrl-C ends it. With --once
    the records of the last interval are looked at, by their times; it ends like scan.

    Examples:

    \b
    kafkakit --profile prod streams bombs watch payments orders --limit 33MB
    kafkakit --profile prod streams bombs watch payments --once --interval 10m
    """
    from kafkakit.core.durations import epoch_ms, parse_duration
    from kafkakit.streams.bombs.decide import ScanStart
    from kafkakit.streams.bombs.show import found_line, scan_report

    cli = cli_context(ctx)
    every_s = parse_duration(interval, "--interval")
    with session.open_session(cli, read_only=True) as opened:
        scanner = which.scanner(opened)
        if not once:
            scanner.watch(topics, which.numbers, cli.output, found_line, every_s=every_s)
        start = ScanStart(since_ms=epoch_ms(opened.clock.now()) - round(1000 * every_s))
        with cli.output.progress("reading batch headers") as bar:
            found = scanner.scan(list(scanner.partitions(topics, which.numbers)), start, bar)
    return session.finish(cli, scan_report(found, cli.program))
