"""`kafkakit reassign list`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context


def list_moves(
    ctx: typer.Context,
    ours: Annotated[bool, typer.Option("--ours", help="Only moves that runs on this host sent.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Only moves that no run on this host sent.")] = False,
) -> None:
    """List all running moves of the cluster, one a line, with the run that sent each.

    Reads the moving topics and their brokers once, so it is quick on any cluster. Prints nothing and exits with 0
    when nothing moves. `reassign status` shows rates, reasons and more.

    Examples:

    \b
    kafkakit --profile prod reassign list
    kafkakit --profile prod reassign list --foreign -o tsv | cut -f1,2
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.execution.act.known_runs import KnownRuns
    from kafkakit.execution.act.status_loop import Observer
    from kafkakit.reassign.show.listing import chosen, list_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        runs = KnownRuns(cli.settings.state_dir, session.cluster_id)
        observer = Observer(
            session.admin, session.clock, runs, lambda: None, window_s=0.0, program=cli.program, whole=False
        )
        view = observer.look()
    moves = chosen(view.moves, ours=ours, foreign=foreign)
    finish(cli, list_report(view.cluster_id, moves, view.damaged))
