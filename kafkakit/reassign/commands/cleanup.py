"""`kafkakit reassign cleanup`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.plan_file import RunChoice, RunId
from kafkakit.cli.run_options import WithoutLease

if TYPE_CHECKING:
    from kafkakit.execution.act.journal_file import LineFile


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
    plan: Annotated[
        str,
        typer.Option(
            metavar="PLAN",
            help="Also remove throttles that name exactly this plan's replicas, even if its journal is lost.",
        ),
    ] = "",
    run: RunId = "",
    without_lease: WithoutLease = False,
) -> None:
    """Remove throttles that runs on this host left behind, and nothing else.

    The journals record what kafkakit set, so the plan file is not needed. Rates get their earlier values back, list
    entries of these runs are removed, and lists that become empty are deleted. Throttles that others set are shown
    and not changed. Throttles of moves that still run stay. Shows the changes first, and makes them after a typed
    `yes` or with --yes. Exits with 0 when no throttle of these runs is left, with 1 when one is, with 75 while
    another kafkakit process changes the cluster.

    Where a journal is lost or damaged, name the plan: entries that name exactly its replicas are recognised, and rates
    on its brokers are unset.

    Examples:

    \b
    kafkakit --profile prod reassign cleanup
    kafkakit --profile prod reassign cleanup --yes
    kafkakit --profile prod reassign cleanup --plan p.json
    """
    from kafkakit.cli.run_options import change_question
    from kafkakit.cli.session import finish, open_session
    from kafkakit.execution.act.run_journal import journal_files, plan_journal_file
    from kafkakit.execution.act.store_lines import pacer_lines
    from kafkakit.execution.decide.precheck import require_same_cluster
    from kafkakit.reassign.act.cleanup import CleanupRequest, clean
    from kafkakit.reassign.show.cleanup import cleanup_report

    cli = cli_context(ctx)
    only_shows = dry_run or not (yes or cli.input_allowed)
    with open_session(cli, read_only=only_shows) as session:
        access = session.claim("reassign cleanup", without_lease=without_lease)
        journals: tuple[LineFile, ...] = journal_files(cli.settings.state_dir, access.cluster_id)
        named = RunChoice(plan_file=plan or None, run=run).read(cli, session, "cleanup").plan if plan or run else None
        if named is not None:
            require_same_cluster(named, access.cluster_id, cli.settings.cluster_id)
            file = plan_journal_file(named, cli.settings.state_dir)
            journals = (*(j for j in journals if j.name != file.name), file)
        if access.control is not None:
            journals = (*journals, pacer_lines(access.control, access.cluster_id))
        question = change_question(cli, access.cluster_id)
        request = CleanupRequest(
            confirm=None if only_shows else lambda: yes or cli.output.ask_typed(question),
            unthrottle_running=unthrottle_running,
            plan=named,
        )
        cleaned = clean(access.admin, access.clock, journals, cli.output, request)
    finish(cli, cleanup_report(cleaned, cli.program, unthrottle_running=unthrottle_running))
