"""`kafkakit registry history`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_ID, TOPIC_NAME
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.registry.commands.client_options import RegistryPlace


@with_option_groups
def history(
    ctx: typer.Context,
    registry: RegistryPlace,
    topic: Annotated[
        str | None,
        typer.Option("--topic", **TOPIC_NAME, help="Only this topic."),
    ] = None,
    broker: Annotated[
        int | None, typer.Option("--broker", min=0, **BROKER_ID, help="Only this broker.", show_default=False)
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="How far back.")] = "90d",
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many changes.")] = 100,
) -> int:
    """Show who changed which tags, the newest change first; of topics and brokers that are gone, too.

    A change by another program, such as kafka-kit's registry, is named as such.

    Examples:

    \b
    kafkakit --profile prod registry history --topic orders --since 7d
    """
    from datetime import timedelta

    from kafkakit.cli.session import finish
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import UsageError
    from kafkakit.registry.decide.tags import Kind
    from kafkakit.registry.show.listing import history_report
    from kafkakit.wiring import system_clock

    cli = cli_context(ctx)
    if topic is not None and broker is not None:
        raise UsageError("give --topic or --broker, not both")
    first = system_clock().now() - timedelta(seconds=parse_duration(since, "--since"))
    kind, name = (Kind.TOPIC, topic) if topic is not None else (Kind.BROKER, str(broker))
    named = topic is not None or broker is not None
    with registry.open(cli) as client:
        found = client.history(kind if named else None, name if named else "", since=first.isoformat(), most=limit)
    return finish(cli, history_report(found))
