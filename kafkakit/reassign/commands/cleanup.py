"""`kafkakit reassign cleanup`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context


def cleanup(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is to be done, with a client that cannot write.")
    ] = False,
    unthrottle_running: Annotated[
        bool,
        typer.Option(
            "--unthrottle-running",
            help="Also remove throttles that running moves still need; these then continue at full speed.",
        ),
    ] = False,
) -> None:
    """Remove throttles that runs on this host left behind, and nothing else.

    The journals record what kafkakit set, so the plan file is not needed. Rates get their earlier values back, list
    entries of these runs are removed, and lists that become empty are deleted. Throttles that others set are shown
    and not changed. Throttles of moves that still run stay. Shows the changes first, and makes them after a typed
    `yes` or with --yes. Exits with 0 when no throttle of these runs is left, with 1 when one is, with 75 while
    another kafkakit process changes the cluster.

    Examples:

    \b
    kafkakit --profile prod reassign cleanup
    kafkakit --profile prod reassign cleanup --yes
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.execution.act.run_journal import journal_files
    from kafkakit.reassign.act.cleanup import CleanupRequest, clean
    from kafkakit.reassign.show.cleanup import cleanup_report

    cli = cli_context(ctx)
    only_shows = dry_run or not (yes or cli.input_allowed)
    with open_session(cli, read_only=only_shows) as session:
        access = session.claim("reassign cleanup")
        journals = journal_files(cli.settings.state_dir, access.cluster_id)
        question = f"Change cluster {access.cluster_id}?"
        request = CleanupRequest(
            confirm=None if only_shows else lambda: yes or cli.output.ask_typed(question),
            unthrottle_running=unthrottle_running,
        )
        cleaned = clean(access.admin, access.clock, journals, cli.output, request)
    finish(cli, cleanup_report(cleaned, cli.program, unthrottle_running=unthrottle_running))
