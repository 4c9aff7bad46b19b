"""`kafkakit autothrottle`: throttles for the moves of any tool, adapted while they run."""

from __future__ import annotations

import typer

from kafkakit.autothrottle.commands.options import LawChoice, OverridePlace
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups

app = new_group("Throttle the moves of any tool, adapt the rates while they run, and remove the throttles.")


@app.command("once", cls=CliCommand)
@with_option_groups
def once(ctx: typer.Context, law: LawChoice, place: OverridePlace) -> int:
    """Look at the moves once, set or change their throttles, or remove them when the moves have ended.

    For a timer: prints nothing where nothing changed. Exits with 75 while another pacer of the cluster works.

    Examples:

    \b
    kafkakit --profile prod autothrottle once --rate 40MB
    """
    from kafkakit.autothrottle.act.run import LEAD_TTL_S
    from kafkakit.autothrottle.commands.options import open_lead, open_pacer
    from kafkakit.autothrottle.show.tick import once_report
    from kafkakit.cli.session import finish, open_session

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        lead = open_lead(cli, session, "autothrottle once")
        lead.acquire(LEAD_TTL_S)
        try:
            tick = open_pacer(cli, session, law, place, lead, "10s").tick()
        finally:
            lead.release()
        cluster_id = session.cluster_id
    return finish(cli, once_report(tick, cluster_id))


@app.command("run", cls=CliCommand)
@with_option_groups
def run(ctx: typer.Context, law: LawChoice, place: OverridePlace) -> None:
    """Run."""
