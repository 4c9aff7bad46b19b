"""`kafkakit registry topics`, `brokers`, `mappings`, `unmapped` and `translate-offsets`: what reads."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_CHOICE, BROKER_ID, GROUP_NAME, TOPIC_CHOICE, TOPIC_NAME
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.registry.commands.client_options import RegistryPlace, SyncPlace

Broker = Annotated[
    int | None,
    typer.Option("--broker", min=0, **BROKER_ID, help="The topics on this broker."),
]


@with_option_groups
def topics(
    ctx: typer.Context,
    registry: RegistryPlace,
    names: Annotated[
        str | None,
        typer.Argument(
            **TOPIC_CHOICE,
            help="Topics, such as 'where team = pay'; all without it.",
            show_default=False,
        ),
    ] = None,
    with_replicas: Annotated[bool, typer.Option("--with-replicas", help="Data has the replica lists, too.")] = False,
) -> int:
    """List topics with their tags.

    Examples:

    \b
    kafkakit --profile prod registry topics 'where team = pay and replication < 3'
    kafkakit registry topics --server http://localhost:8080 -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.client_options import listed_topics
    from kafkakit.registry.show.listing import topics_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = listed_topics(client, names, with_replicas=with_replicas)
    return finish(cli, topics_report(found))


@with_option_groups
def brokers(
    ctx: typer.Context,
    registry: RegistryPlace,
    ids: Annotated[
        str | None,
        typer.Argument(
            **BROKER_CHOICE,
            help="Brokers, such as 'where rack = a'; all without it.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """List live brokers with their tags.

    Examples:

    \b
    kafkakit --profile prod registry brokers 'where tier = hot'
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.commands.client_options import listed_brokers
    from kafkakit.registry.show.listing import brokers_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = listed_brokers(client, ids)
    return finish(cli, brokers_report(found))


@with_option_groups
def mappings(
    ctx: typer.Context,
    registry: RegistryPlace,
    topic: Annotated[
        str | None,
        typer.Option("--topic", **TOPIC_NAME, help="The brokers of this topic."),
    ] = None,
    broker: Broker = None,
) -> int:
    """List the brokers with a replica of a topic, or the topics with a replica on a broker.

    Examples:

    \b
    kafkakit --profile prod registry mappings --broker 1003
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.errors import UsageError
    from kafkakit.registry.show.listing import names_report

    cli = cli_context(ctx)
    if (topic is None) == (broker is None):
        raise UsageError("give either --topic or --broker")
    with registry.open(cli) as client:
        if topic is not None:
            return finish(cli, names_report("registry mappings", "brokers", client.brokers_of_topic(topic)))
        return finish(cli, names_report("registry mappings", "topics", client.topics_of_broker(broker or 0)))


@with_option_groups
def unmapped(
    ctx: typer.Context,
    registry: RegistryPlace,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", **TOPIC_NAME, help="A topic that does not count. Repeatable."),
    ] = None,
) -> int:
    """List the live brokers that hold no replica.

    Examples:

    \b
    kafkakit --profile prod registry unmapped --exclude __consumer_offsets
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.show.listing import names_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = client.unmapped_brokers(exclude or ())
    return finish(cli, names_report("registry unmapped", "brokers", found))


@with_option_groups
def translate_offsets(
    ctx: typer.Context,
    registry: RegistryPlace,
    syncs: SyncPlace,
    group: Annotated[str, typer.Argument(**GROUP_NAME, help="The consumer group.", show_default=False)],
    alias: Annotated[
        str, typer.Option("--alias", metavar="NAME", help="MirrorMaker 2's alias of the upstream cluster.")
    ] = "source",
) -> int:
    """Show which offsets here stand for those of a group upstream, from MirrorMaker 2's checkpoints.

    MirrorMaker translates down to the last offset sync. local_end_offset is how far up the true offset may be, and
    may_repeat how many records are read twice at most, where its syncs are kept on this cluster, or with --upstream.

    Examples:

    \b
    kafkakit --profile dr registry translate-offsets billing --alias prod
    kafkakit --profile dr registry translate-offsets billing --alias prod --upstream prod --local-alias dr -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.registry.show.listing import offsets_report

    cli = cli_context(ctx)
    with registry.open(cli) as client:
        found = client.offset_intervals(group, alias, syncs.read(cli))
    return finish(cli, offsets_report(found))
