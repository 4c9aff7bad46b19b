"""`kafkakit autothrottle`: throttles for the moves of any tool, adapted while they run."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.options import OverridePlace, TrafficChoice
from kafkakit.autothrottle.commands.overrides import remove_override, set_override
from kafkakit.autothrottle.commands.serve import serve
from kafkakit.autothrottle.commands.unit import print_unit
from kafkakit.cli.command_classes import cli_context, new_group
from kafkakit.cli.kafka_kit_commands import KafkaKitCommand
from kafkakit.cli.option_groups import with_option_groups

app = new_group("Throttle the moves of any tool, adapt the rates while they run, and remove the throttles.")
app.command("run", cls=KafkaKitCommand)(serve)
app.command("set", cls=KafkaKitCommand)(set_override)
app.command("remove", cls=KafkaKitCommand)(remove_override)
app.command("unit", cls=KafkaKitCommand)(print_unit)


@app.command("once", cls=KafkaKitCommand)
@with_option_groups
def once(ctx: typer.Context, law: LawChoice, traffic: TrafficChoice, place: OverridePlace) -> int:
    """Look at the moves once, set or change their throttles, or remove them when the moves have ended.

    For a timer: it prints nothing where nothing changed. Only moves that another tool began are throttled here, by
    exact replica lists and rates that stand in a journal in the control store, so that the next run of any host takes
    them over and removes them. A run of kafkakit that changes the cluster gets the rates as a control request instead.
    Throttles that others set are named and left as they are. Exits with 75 while another pacer of the cluster works,
    and with 1 when throttles could not be removed.

    Examples:

    \b
    kafkakit --profile prod autothrottle once --rate 40MB
    """
    from kafkakit.autothrottle.commands.options import leading, open_pacer
    from kafkakit.autothrottle.show.tick import once_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    traffic.kafka_kit.apply(cli)
    with open_session(cli, read_only=True) as session, leading(cli, session, "autothrottle once") as lead:
        tick = open_pacer(cli, session, law, traffic, place, lead, "10s").tick()
        cluster_id = session.cluster_id
    return finish(cli, once_report(tick, cluster_id))


@app.command("explain", cls=KafkaKitCommand)
@with_option_groups
def explain(ctx: typer.Context, law: LawChoice, traffic: TrafficChoice, place: OverridePlace) -> int:
    """Show which rates the law would set now, and which limit each of them comes from; change nothing.

    Examples:

    \b
    kafkakit --profile prod autothrottle explain --rate 40MB
    """
    from kafkakit.autothrottle.commands.options import open_pacer
    from kafkakit.autothrottle.show.tick import once_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    traffic.kafka_kit.apply(cli)
    with open_session(cli, read_only=True) as session:
        tick = open_pacer(cli, session, law, traffic, place, None).preview()
        cluster_id = session.cluster_id
    return finish(cli, once_report(tick, cluster_id, is_dry=True))


@app.command("show", cls=KafkaKitCommand)
@with_option_groups
def show(
    ctx: typer.Context,
    place: OverridePlace,
    every: Annotated[
        bool, typer.Option("--all", help="Name every throttle of others, not only the first ones.")
    ] = False,
) -> int:
    """Show what is set now and by which process: throttles of the pacer, those of others, overrides, the last tick.

    Examples:

    \b
    kafkakit --profile prod autothrottle show
    """
    from kafkakit.autothrottle.act.status import read_status
    from kafkakit.autothrottle.show.status import status_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    place.apply(cli)
    with open_session(cli, read_only=True) as session:
        found = read_status(session.admin, session.control, session.clock, session.cluster_id, place.open(session))
    return finish(cli, status_report(found, every=every))
