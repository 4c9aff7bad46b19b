"""`kafkakit reassign list`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.reassign.commands.status import open_observer


def list_moves(
    ctx: typer.Context,
    ours: Annotated[bool, typer.Option("--ours", help="Only moves that runs on this host sent.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Only moves that no run on this host sent.")] = False,
) -> None:
    """List the moves that run on the cluster, by whomever, one a line, with the run that sent each.

    Looks once, at the moving topics and their brokers only, so it is quick on any cluster. Prints nothing and exits
    with 0 when nothing moves. Rates, reasons and everything else: `reassign status`.

    Examples:

    \b
    kafkakit --profile prod reassign list
    kafkakit --profile prod reassign list --foreign -o tsv | cut -f1,2
    """
    from kafkakit.reassign.show.listing import COLUMNS, chosen, list_rows, render_list
    from kafkakit.reassign.show.status_data import move_data
    from kafkakit.report.report import Report

    kit = kit_of(ctx)
    with open_observer(kit, window_s=0.0, whole=False) as observer:
        view = observer.look()
    for damaged in view.damaged:
        kit.output.warn(f"a journal cannot be read, its moves count as foreign: {damaged}")
    moves = chosen(view.moves, ours=ours, foreign=foreign)
    kit.output.result(
        Report(
            command="reassign list",
            data={"cluster_id": view.cluster_id, "moves": [move_data(m) for m in moves]},
            text=render_list(moves),
            columns=COLUMNS,
            rows=list_rows(moves),
        )
    )
