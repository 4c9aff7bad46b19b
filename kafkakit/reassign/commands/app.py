"""`kafkakit reassign`: carry a plan out, look at what runs, verify, undo; and play a plan on a simulated cluster.

`simulate` compares throttles and orders of moves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import ExecutionOptions, PlanFile, RunChoice, run_request
from kafkakit.cli.session import finish, open_access, open_session
from kafkakit.execution.decide.run_rules import SimulateRequest
from kafkakit.reassign.commands.active_runs import (
    AppliedPlan,
    abort,
    cleanup,
    close,
    continue_run,
    list_moves,
    pause,
    status,
    throttle,
)

if TYPE_CHECKING:
    from kafkakit.cli.run_options import NamedPlan
    from kafkakit.reassign.act.run import MapPlan


AllowFindings = Annotated[
    bool,
    typer.Option("--allow-findings", help="Carry out a map that breaks the rack rule or min.insync.replicas."),
]

app = new_group("Carry out a plan: apply, pause, status, verify, abort, rollback.")


@app.command("apply", cls=CliCommand)
@with_option_groups
def apply(
    ctx: typer.Context, chosen: AppliedPlan, options: ExecutionOptions, allow_findings: AllowFindings = False
) -> None:
    """Carry out a plan, and verify that every replica arrived.

    The cluster is read again first: another cluster, or one that changed since the plan, is refused. Then the moves
    are put in an order that never fills a log dir, and the forecast time is shown before the first byte is copied.
    The changes are shown and must be confirmed with a typed `yes`. It can be stopped at any time and run again: it
    resumes. A second run of a finished plan does nothing. Every change is journaled before it is made.

    A reassignment map of any tool (Kafka's own, kafka-kit, Cruise Control) is audited first and becomes a plan: its
    rollback leads back to the present replica lists. The plan is kept and named, for the other commands of this group.

    Examples:

    \b
    kafkakit --profile prod reassign apply p.json --dry-run
    kafkakit --profile prod reassign apply p.json --throttle 20MB
    kafkakit --profile prod reassign apply map.json --throttle 20MB
    """
    from kafkakit.cli.run_options import name_plan
    from kafkakit.core.documents import PLAN_LIMIT_BYTES, is_partition_map
    from kafkakit.core.errors import UsageError
    from kafkakit.core.plan_rules import sound_plan
    from kafkakit.reassign.act.run import take_map
    from kafkakit.wiring import read_input

    cli, plan_file = cli_context(ctx), chosen.plan_file
    if plan_file is None or chosen.run:
        if not chosen.run:
            raise UsageError("no plan is given", hint="give a plan file, or a run with --run ID")
        _run(ctx, "apply", chosen, options)
        return
    data, source = read_input(plan_file, PLAN_LIMIT_BYTES), "stdin" if plan_file == "-" else plan_file
    if not is_partition_map(data):
        _run_named(ctx, "apply", name_plan(sound_plan(data, source), plan_file), options)
        return
    with open_session(cli, read_only=True) as session:
        kept = take_map(
            data,
            source,
            session,
            cli.settings.state_dir,
            cli.output,
            allow_findings=allow_findings,
            program=cli.program,
        )
    _run_named(ctx, "apply", name_plan(kept.plan, kept.path), options, kept)


@app.command("resume", cls=CliCommand, short_help="Restart a run whose process was stopped or killed.")
@with_option_groups
def resume(ctx: typer.Context, chosen: RunChoice, options: ExecutionOptions) -> None:
    """Restart a run whose process was stopped or killed, in its direction, with its throttle.

    Refused when no run of the plan was started on this host, and when it is paused (use `reassign continue` then).

    Examples:

    \b
    kafkakit --profile prod reassign resume
    kafkakit --profile prod reassign resume p.json --yes --throttle 50MB
    """
    _run(ctx, "resume", chosen, options)


@app.command("rollback", cls=CliCommand, short_help="Undo a plan: put every replica list back as it was.")
@with_option_groups
def rollback(ctx: typer.Context, chosen: RunChoice, options: ExecutionOptions) -> None:
    """Undo a plan: cancel its running moves, put every replica list back as it was, in its old order.

    Works while a destination broker is dead. A partition whose old list needs a copy on a dead broker is left as it
    is and named. The moves are scheduled as in an apply: no log dir is filled. Throttles of an apply are removed.

    Examples:

    \b
    kafkakit --profile prod reassign rollback --run 1a2b3c4d
    kafkakit --profile prod reassign rollback p.json --yes --throttle 50MB
    """
    _run(ctx, "rollback", chosen, options)


app.command("abort", cls=CliCommand, short_help="Cancel the running moves of a plan; keep finished ones.")(abort)
app.command("pause", cls=CliCommand, short_help="Pause a run: it starts no new moves.")(pause)
app.command("continue", cls=CliCommand)(continue_run)
app.command("close", cls=CliCommand, short_help="Close an unfinished run that has nothing on the cluster.")(close)


@app.command("verify", cls=CliCommand, short_help="Check that all is in place, in order and in sync.")
@with_option_groups
def verify(ctx: typer.Context, chosen: RunChoice) -> None:
    """Check that every planned partition is in place, in order, and with all copies in sync.

    Exits with 0 if so and if no throttle of kafkakit is left, otherwise with 1. Throttles that a run could not
    remove are removed here, once all moves are complete.

    Examples:

    \b
    kafkakit --profile prod reassign verify p.json
    kafkakit --profile prod reassign verify p.json -o tsv
    """
    from kafkakit.execution.act.run_journal import plan_journal
    from kafkakit.reassign.act.cleanup import verify as run_verify
    from kafkakit.reassign.report.run import outcome_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        named = chosen.read(cli, session, "verify")
    plan = named.plan
    request = run_request(cli, named, plan.cluster_id, ExecutionOptions())
    with open_access(cli, "reassign run", cluster_id=plan.cluster_id, must_claim=False) as access:
        journal, _ = plan_journal(plan, cli.settings.state_dir, access.clock)
        outcome = run_verify(plan, access, journal, cli.output, request)
    finish(cli, outcome_report(outcome))


Snapshot = Annotated[
    Path | None, typer.Option(help="Read this cluster-snapshot file instead of a live cluster.", metavar="FILE")
]


@with_option_groups
def simulate(
    ctx: typer.Context,
    plan_file: PlanFile,
    request: SimulateRequest,
    snapshot: Snapshot = None,
) -> None:
    """Simulate a plan: how long it takes, which log dir fills up, what happens when a broker dies.

    Changes nothing. Every throttle is simulated with every order: `schedule` is what apply would do, `plan` starts
    moves in the plan's order without checking disks, `all-at-once` sends everything at the start. Brokers apply
    throttles like real ones, with their bursts and stalls.

    Examples:

    \b
    kafkakit --profile prod reassign simulate p.json --throttle 20MB --throttle 50MB
    kafkakit reassign simulate p.json --snapshot prod.json --order schedule --order plan --kill 1002@10m
    """
    from kafkakit.cli.run_options import read_plan
    from kafkakit.reassign.act.rounds import play_cases
    from kafkakit.reassign.decide.simulate import build_scene, check_faults
    from kafkakit.reassign.report.simulate import simulate_report
    from kafkakit.topicmappr.api_act import observe

    cli = cli_context(ctx)
    plan = read_plan(plan_file)
    with open_session(cli, read_only=True) as session:
        scene = build_scene(plan, observe(session, snapshot), request)
    cli.cluster_id = plan.cluster_id
    check_faults(scene, request)
    cases = play_cases(scene, request, cli.output)
    finish(cli, simulate_report(cases, scene.notes, plain=cli.output.plain_stdout))


app.command("status", cls=CliCommand, short_help="Show running moves: progress, rate, ETA and stalls.")(status)
app.command("list", cls=CliCommand, short_help="List all running moves, one a line.")(list_moves)
app.command("throttle", cls=CliCommand, short_help="Change the throttle of the active run.")(throttle)
app.command("cleanup", cls=CliCommand, short_help="Remove throttles that runs on this host left behind.")(cleanup)
app.command("simulate", cls=CliCommand, short_help="Simulate a plan without changing the cluster.")(simulate)


def _run(ctx: typer.Context, verb: str, chosen: RunChoice, options: ExecutionOptions) -> None:

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        named = chosen.read(cli, session, verb)
    _run_named(ctx, verb, named, options)


def _run_named(
    ctx: typer.Context, verb: str, named: NamedPlan, options: ExecutionOptions, kept: MapPlan | None = None
) -> None:
    from kafkakit.reassign.act.run import prepare_run, warn_of_cordons
    from kafkakit.reassign.report.run import outcome_report

    cli, plan = cli_context(ctx), named.plan
    request = run_request(cli, named, plan.cluster_id, options)
    request = request if kept is None else kept.announced_by(request)
    dry_run, without_lease = options.consent.dry_run, options.rules.without_lease
    options.others.require_quiet(cli, plan.cluster_id, dry_run=dry_run)
    with open_access(
        cli, f"reassign {verb}", cluster_id=plan.cluster_id, dry_run=dry_run, without_lease=without_lease
    ) as access:
        if verb in ("apply", "resume"):
            warn_of_cordons(plan, access.control, cli.output.warn)
        outcome = prepare_run(plan, request, access, cli.settings.state_dir, cli.output).carry_out(verb)
    finish(cli, outcome_report(outcome))
