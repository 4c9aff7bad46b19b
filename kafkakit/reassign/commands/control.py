"""`kafkakit reassign pause`, `continue` and `abort`: requested from the active run, or recorded where none is."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.plan_file import RunChoice
from kafkakit.cli.run_options import Consent, ExecutionOptions, RunOptions, WithoutLease, run_request
from kafkakit.cli.session import finish, open_access, open_session
from kafkakit.core.durations import parse_duration
from kafkakit.reassign.commands.options import RunWait


@with_option_groups
def pause(ctx: typer.Context, chosen: RunChoice, wait: RunWait = "1m", without_lease: WithoutLease = False) -> None:
    """Pause a run: it starts no new moves; running ones continue, under their throttle.

    A running executor is requested to pause, and answers. If none is running, an unfinished run is marked: it stays
    paused until `reassign continue`. Exits with 75 when the executor does not answer in time, or runs another plan.

    Examples:

    \b
    kafkakit --profile prod reassign pause
    kafkakit --profile prod reassign pause p.json --wait 5m
    """
    _set_paused(ctx, chosen, wait, paused=True, without_lease=without_lease)


@with_option_groups
def continue_run(
    ctx: typer.Context, chosen: RunChoice, wait: RunWait = "1m", without_lease: WithoutLease = False
) -> None:
    """Continue a paused run.

    A running executor continues at once. If none is running, the pause mark is removed, and `reassign resume`
    continues the run.

    Examples:

    \b
    kafkakit --profile prod reassign continue
    kafkakit --profile prod reassign continue p.json
    """
    _set_paused(ctx, chosen, wait, paused=False, without_lease=without_lease)


@with_option_groups
def abort(
    ctx: typer.Context,
    chosen: RunChoice,
    consent: Consent,
    wait: RunWait = "5m",
    without_lease: WithoutLease = False,
) -> None:
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

    from kafkakit.reassign.act.abort import abort_plan
    from kafkakit.reassign.act.control import RunRequester
    from kafkakit.reassign.show.run import outcome_report

    cli = cli_context(ctx)
    wait_s = parse_duration(wait, "--wait")
    with open_session(cli, read_only=True) as session:
        requester = RunRequester(
            lambda: session.control, session.clock, cli.settings.state_dir, session.requester, wait_s=wait_s
        )
        named = chosen.read(
            cli, session, "abort", lambda: None if without_lease else requester.token(session.cluster_id)
        )
        plan = named.plan
        request = run_request(
            cli,
            named,
            plan.cluster_id,
            ExecutionOptions(consent=consent, running=RunOptions(without_lease=without_lease)),
        )
        access = partial(
            open_access,
            cli,
            "reassign abort",
            cluster_id=plan.cluster_id,
            dry_run=consent.dry_run,
            without_lease=without_lease,
        )
        outcome = abort_plan(
            plan,
            request,
            access,
            requester,
            cli.output,
            confirm_stop=lambda: consent.confirm_on(cli, plan.cluster_id, "Stop the active run and cancel its moves?"),
        )
    finish(cli, outcome_report(outcome))


@with_option_groups
def close(ctx: typer.Context, chosen: RunChoice, without_lease: WithoutLease = False) -> None:
    """Close an unfinished run that is not to be finished: `reassign status` names it no more.

    Changes nothing on the cluster, and is refused while moves of the run are in flight or its throttles are set. Its
    plan may be applied again later, as a new run.

    Examples:

    \b
    kafkakit --profile prod reassign close
    kafkakit --profile prod reassign close --run 1a2b3c4d
    """
    from kafkakit.reassign.act.control import close_run
    from kafkakit.reassign.show.control import control_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        file, state = chosen.journal(cli, session, "close")
    cluster_id = state.cluster_id or None
    with open_access(cli, "reassign close", cluster_id=cluster_id, without_lease=without_lease) as access:
        result = close_run(file, access, cli.output, f"{cli.program} reassign")
    finish(cli, control_report("close", state.plan_path, result, "closed"))


def _set_paused(ctx: typer.Context, chosen: RunChoice, wait: str, *, paused: bool, without_lease: bool) -> None:
    from functools import partial

    from kafkakit.reassign.act.control import RunRequester, set_paused
    from kafkakit.reassign.show.control import control_report

    cli = cli_context(ctx)
    wait_s = parse_duration(wait, "--wait")
    word = "pause" if paused else "continue"
    with open_session(cli, read_only=True) as session:
        requester = RunRequester(
            lambda: session.control, session.clock, cli.settings.state_dir, session.requester, wait_s=wait_s
        )
        named = chosen.read(cli, session, word, lambda: None if without_lease else requester.token(session.cluster_id))
        cluster_id = named.plan.cluster_id
        commands = run_request(cli, named, cluster_id, ExecutionOptions()).commands
        access = partial(open_access, cli, f"reassign {word}", cluster_id=cluster_id, without_lease=without_lease)
        result = set_paused(named.plan, commands, access, requester, paused=paused)
    finish(cli, control_report(word, named.path, result, "paused" if paused else "continued"))
