"""`kafkakit metricsfetcher show`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.metricsfetcher.commands.options import ZooKeeperOptions


@with_option_groups
def show(
    ctx: typer.Context,
    where: ZooKeeperOptions,
    place: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="What is read: zookeeper, topic:NAME or file:PATH.")
    ] = "zookeeper",
    largest: Annotated[
        int, typer.Option("--largest", min=0, max=10_000, metavar="N", help="Show this many partitions and brokers.")
    ] = 10,
) -> int:
    """Show what is stored: source, age, numbers, the largest partitions and the brokers with the least free storage.

    Examples:

    \b
    kafkakit metricsfetcher show --zk-addr zk1:2181
    kafkakit metricsfetcher show --from file:/var/lib/kafkakit/sizes.json -o json
    """
    from contextlib import closing

    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.errors import UsageError
    from kafkakit.metricsfetcher.decide import StoreKind, parse_place
    from kafkakit.metricsfetcher.show import stored_report

    cli = cli_context(ctx)
    named = parse_place(place, "--from")
    if named.kind is StoreKind.STDOUT:
        raise UsageError("--from - is no place", hint="file:- reads stdin")
    with open_session(cli, read_only=True) as session:
        with closing(where.open_store(session, named)) as store:
            reading = store.read()
        now = session.clock.now()
    return finish(cli, stored_report(reading, now, largest))
