"""`kafkakit metricsfetcher unit`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import option_words, with_option_groups
from kafkakit.metricsfetcher.commands.options import SourceOptions, StoreOptions, UnitFormat


@with_option_groups
def print_unit(
    ctx: typer.Context,
    scheduler: Annotated[UnitFormat, typer.Option("--format", help="What starts it.")],
    source: SourceOptions,
    store: StoreOptions,
    every: Annotated[
        int,
        typer.Option("--every", min=1, max=59, metavar="MINUTES", help="How often; topicmappr refuses an hour's age."),
    ] = 20,
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="The program as the scheduler finds it.")
    ] = "/usr/local/bin/kafkakit",
) -> int:
    """Print a systemd service with its timer, or a cron line, that runs fetch with the options given.

    It holds no secrets: files are named, and variables with keys belong into /etc/kafkakit/metricsfetcher.env, which
    the service reads.

    Examples:

    \b
    kafkakit --profile prod metricsfetcher unit --format systemd --zk-addr zk1:2181
    kafkakit metricsfetcher unit --format cron --source prometheus --to file:/var/lib/kafkakit/sizes.json
    """
    from shlex import split

    from kafkakit.cli.session import finish
    from kafkakit.metricsfetcher.show import unit_report

    cli = cli_context(ctx)
    place, words = store.place, (*option_words(source), *option_words(store))
    called = (program, *split(cli.program)[1:])
    as_cron = scheduler is UnitFormat.CRON
    return finish(cli, unit_report(called, words, place, every, as_cron=as_cron))
