"""`kafkakit streams assigner show|drain|explain|simulate`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import complete_group_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.session import finish, open_session
from kafkakit.streams.assigner.commands.options import FleetOptions


def show(ctx: typer.Context) -> int:
    """Show the Assigner in charge, the clusters as it sees them, and its workers.

    Examples:

    \b
    kafkakit --profile prod streams assigner show
    """
    from kafkakit.streams.assigner.act.reading import AssignerReader
    from kafkakit.streams.assigner.show.standing import standing_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        found = AssignerReader(session.control)
        report = standing_report(
            found.standing(), found.lease(), found.workers(), found.grants(), found.draining(), found.history()
        )
    return finish(cli, report)


def drain(
    ctx: typer.Context,
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The worker, by its name or id of `show`.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let it have partitions again.")] = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="End with 75 when it still has some after this long.")
    ] = "1m",
) -> int:
    """Take all partitions from a worker, so that its process can be ended without a pause.

    Examples:

    \b
    kafkakit --profile prod streams assigner drain 3fa1
    """
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.core.errors import ExitCode
    from kafkakit.streams.assigner.act.drains import Drains
    from kafkakit.streams.assigner.show.standing import drain_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    with open_session(cli) as session:
        drains = Drains(session.control, session.clock)
        found = drains.worker(worker)
        if undo:
            drains.undo(found)
            left, code = drains.held(found), ExitCode.DONE
        else:
            drains.request(found, session.requester)
            left = drains.wait(found, wait_s)
            code = ExitCode.TRY_LATER if left else ExitCode.DONE
    return finish(cli, drain_report(found, left, code, is_undone=undo))


def explain(
    ctx: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream.")],
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group that reads it.", autocompletion=complete_group_names)
    ],
) -> int:
    """Show which worker reads each partition of a stream for a group, with its epoch, and why.

    Examples:

    \b
    kafkakit --profile prod streams assigner explain orders billing
    """
    from kafkakit.streams.assigner.act.reading import AssignerReader
    from kafkakit.streams.assigner.decide.explaining import explained
    from kafkakit.streams.assigner.show.standing import explain_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        reader = AssignerReader(session.control)
        route = RouteStore(session.control).existing(stream).route
        found = explained(route, group, reader.workers(), reader.grants(), reader.draining())
    return finish(cli, explain_report(stream, group, found))


@with_option_groups
def simulate(
    ctx: typer.Context,
    fleet: FleetOptions,
    kill: Annotated[
        list[int] | None,
        typer.Option("--kill", min=1, metavar="N", help="Kill so many workers at once. Repeatable: one after another."),
    ] = None,
    kill_cluster: Annotated[
        list[int] | None,
        typer.Option("--kill-cluster", min=0, metavar="N", help="Fail over from the cluster of this number."),
    ] = None,
) -> int:
    """Show what the Assigner would do with a fleet of this size when workers and clusters die; nothing is read.

    Examples:

    \b
    kafkakit streams assigner simulate --workers 500 --streams 100 --partitions 100 --kill 1 --kill 10
    """
    from kafkakit.streams.assigner.decide.simulation import SimulatedFleet, simulated
    from kafkakit.streams.assigner.show.simulation import simulation_report

    cli, shape = cli_context(ctx), fleet.shape()
    return finish(cli, simulation_report(shape, simulated(SimulatedFleet(shape), kill or (), kill_cluster or ())))
