"""`kafkakit audit status|list|logs|fetch|cancel`: look after runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.audit.act.runs import cancel, fetch, look, look_all, place_of
from kafkakit.audit.commands.options import RunFolderArgument
from kafkakit.audit.show.run_texts import list_report, run_report, text_report
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.common_options import absolute, driver_ports
from kafkakit.cli.session import finish
from kafkakit.core.findings import FailOn
from kafkakit.wiring import open_run_store


def show_status(
    ctx: typer.Context,
    run: RunFolderArgument,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 with findings of this severity or worse.")
    ] = FailOn.NEVER,
) -> int:
    """Show where a run is: its jobs, or why it has no result.

    Exits 0 when it is done, 1 when it or a job of it failed or was stopped, 75 while it runs.
    """
    cli = cli_context(ctx)
    place = place_of(absolute(run), cli.settings.state_dir)
    state = look(place, open_run_store(place.location), driver_ports(cli))
    return finish(cli, run_report("audit status", state, fail_on, is_asked=True))


def list_runs(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR|URI", help="What audits were given as --output.")],
) -> int:
    """List the runs of an output with their states."""
    cli = cli_context(ctx)
    states = look_all(absolute(folder), open_run_store, driver_ports(cli), cli.settings.state_dir)
    return finish(cli, list_report(folder, states))


def show_logs(
    ctx: typer.Context,
    run: RunFolderArgument,
    lines: Annotated[int, typer.Option("--lines", min=1, metavar="N", help="How many lines of the end.")] = 200,
) -> int:
    """Print the end of the driver's log, which lies on the host that started the run."""
    from kafkakit.audit.act.driver import log_tail

    cli = cli_context(ctx)
    place = place_of(absolute(run), cli.settings.state_dir)
    text = "".join(f"{line}\n" for line in log_tail(place.folder, lines))
    return finish(cli, text_report("audit logs", text, run=place.run))


def fetch_run(
    ctx: typer.Context,
    run: RunFolderArgument,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty folder.")],
) -> int:
    """Copy the results of a run that is done to a folder of this host."""
    files = fetch(open_run_store(absolute(run)), to)
    text = "".join(f"{to / name}\n" for name in files)
    return finish(cli_context(ctx), text_report("audit fetch", text, run=run, folder=str(to)))


def cancel_run(ctx: typer.Context, run: RunFolderArgument) -> int:
    """Stop the driver of a run that was started on this host; it leaves no result."""
    cli = cli_context(ctx)
    place = place_of(absolute(run), cli.settings.state_dir)
    state = cancel(place, open_run_store(place.location), driver_ports(cli))
    text = f"run {state.run} is {state.phase.value}\n"
    return finish(cli, text_report("audit cancel", text, run=state.run, state=state.phase.value))
