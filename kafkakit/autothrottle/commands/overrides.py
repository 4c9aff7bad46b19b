"""`kafkakit autothrottle set` and `remove`: overrides of the rates that the law decides."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.autothrottle.commands.options import OverridePlace
from kafkakit.cli.cluster_words import BROKER_ID
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups

Broker = Annotated[
    int | None,
    typer.Option("--broker", min=0, **BROKER_ID, help="Only for this broker; all when not given.", show_default=False),
]


@with_option_groups
def set_override(
    ctx: typer.Context,
    place: OverridePlace,
    rate: Annotated[
        str | None,
        typer.Argument(metavar="[RATE]", help="The rate in each direction, such as 40MB.", show_default=False),
    ] = None,
    broker: Broker = None,
    into: Annotated[
        str | None, typer.Option("--in", metavar="RATE", help="The rate of what it receives.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="RATE", help="The rate of what it sends.", show_default=False)
    ] = None,
    autoremove: Annotated[
        bool, typer.Option("--autoremove", help="Remove the override once the moves have ended.")
    ] = False,
) -> int:
    """Set a rate by hand, for all brokers or for one; it goes before what the law decides.

    A pacer that runs takes it up within about 5 s, `once` at its next run. A broker's own override goes before the one
    for all. It replaces an earlier override as a whole. On a broker without moves it limits the copies that catch up.

    Examples:

    \b
    kafkakit --profile prod autothrottle set 40MB --autoremove
    kafkakit --profile prod autothrottle set --broker 1003 --in 10MB
    """
    from kafkakit.autothrottle.commands.options import read_override
    from kafkakit.autothrottle.show.overrides import overrides_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    override = read_override(rate, into, out, autoremove=autoremove)
    with open_session(cli, read_only=True) as session:
        store = place.open(session)
        store.put(broker, override)
        found = store.read()
        cluster_id = session.cluster_id
    return finish(cli, overrides_report("autothrottle set", found, cluster_id))


@with_option_groups
def remove_override(
    ctx: typer.Context,
    place: OverridePlace,
    broker: Broker = None,
    all_brokers: Annotated[
        bool, typer.Option("--all-brokers", help="Remove the overrides of all single brokers.")
    ] = False,
) -> int:
    """Remove the override for all brokers, or that of one broker; the law decides again.

    Examples:

    \b
    kafkakit --profile prod autothrottle remove
    kafkakit --profile prod autothrottle remove --broker 1003
    """
    from kafkakit.autothrottle.act.overrides import remove_each
    from kafkakit.autothrottle.show.overrides import overrides_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        store = place.open(session)
        before = store.read()
        if all_brokers:
            remove_each(store)
        else:
            store.put(broker, None)
        found = store.read()
        cluster_id = session.cluster_id
    return finish(cli, overrides_report("autothrottle remove", found, cluster_id, before))
