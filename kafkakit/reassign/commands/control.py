"""`kafkakit reassign pause`, `continue` and `abort`: requested from the active run, or recorded where none is."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.plan_file import PlanFile
from kafkakit.cli.run_options import Consent
from kafkakit.reassign.commands.options import MaybePlan, RunWait


def pause(ctx: typer.Context, plan_file: MaybePlan = None, wait: RunWait = "1m") -> None:
    """Pause a run: it starts no new moves; running ones continue, under their throttle.

    A running executor is requested to pause, and answers. If none is running, an unfinished run is marked: it stays
    paused until `reassign continue`. Exits with 75 when the executor does not answer in time, or runs another plan.

    Examples:

    \b
    kafkakit --profile prod reassign pause
    kafkakit --profile prod reassign pause p.json --wait 5m
    """
    _set_paused(ctx, plan_file, wait, paused=True)


def continue_run(ctx: typer.Context, plan_file: MaybePlan = None, wait: RunWait = "1m") -> None:
    """Continue a paused run.

    A running executor continues at once. If none is running, the pause mark is removed, and `reassign resume`
    continues the run.

    Examples:

    \b
    kafkakit --profile prod reassign continue
    kafkakit --profile prod reassign continue p.json
    """
    _set_paused(ctx, plan_file, wait, paused=False)


@with_option_groups
def abort(ctx: typer.Context, plan_file: PlanFile, consent: Consent, wait: RunWait = "5m") -> None:
    """Abort a plan: cancel its running moves, keep finished ones, remove its throttles.

    Replica lists that a cancellation leaves in another order get their old order back; no data moves for that. A
    running executor is first requested to end, and the command waits for it. Finished moves stay; `reassign
    rollback` undoes them, too.

    Examples:

    \b
    kafkakit --profile prod reassign abort p.json
    kafkakit --profile prod reassign abort p.json --yes
    """
    from functools import partial

    from kafkakit.cli.plan_file import read_plan
    from kafkakit.cli.run_options import ExecutionOptions, run_request
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.durations import parse_duration
    from kafkakit.reassign.act.abort import abort_plan
    from kafkakit.reassign.act.control import RunRequester
    from kafkakit.reassign.show.run import outcome_report

    cli = cli_context(ctx)
    wait_s = parse_duration(wait, "--wait")
    plan = read_plan(plan_file)
    request = run_request(cli, plan_file, plan.cluster_id, ExecutionOptions(consent=consent))
    access = partial(open_access, cli, "reassign abort", cluster_id=plan.cluster_id, dry_run=consent.dry_run)
    with open_session(cli, read_only=True) as session:
        requester = RunRequester(
            lambda: session.control, session.clock, cli.settings.state_dir, session.requester, wait_s=wait_s
        )
        outcome = abort_plan(
            plan,
            request,
            access,
            requester,
            cli.output,
            confirm_stop=lambda: consent.confirm(cli, "Stop the active run and cancel its moves?"),
        )
    finish(cli, outcome_report(outcome))


def _set_paused(ctx: typer.Context, plan_file: str | None, wait: str, *, paused: bool) -> None:
    from functools import partial

    from kafkakit.cli.plan_file import read_plan
    from kafkakit.cli.run_options import ExecutionOptions, run_request
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.durations import parse_duration
    from kafkakit.reassign.act.control import RunRequester, set_paused
    from kafkakit.reassign.show.control import pause_report

    cli = cli_context(ctx)
    wait_s = parse_duration(wait, "--wait")
    word = "pause" if paused else "continue"
    with open_session(cli, read_only=True) as session:
        requester = RunRequester(
            lambda: session.control, session.clock, cli.settings.state_dir, session.requester, wait_s=wait_s
        )
        path = plan_file or requester.plan_at_work(session.cluster_id, word)
        plan = read_plan(path)
        commands = run_request(cli, path, plan.cluster_id, ExecutionOptions()).commands
        access = partial(open_access, cli, f"reassign {word}", cluster_id=plan.cluster_id)
        result = set_paused(plan, commands, access, requester, paused=paused)
    finish(cli, pause_report(path, result, paused=paused))
