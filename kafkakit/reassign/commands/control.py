"""`kafkakit reassign pause`, `continue` and `abort`: said to the run at work, or written down where none is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of
from kafkakit.reassign.commands import options

if TYPE_CHECKING:
    from contextlib import ExitStack

    from kafkakit.core.errors import TryLaterError
    from kafkakit.reassign.act.control import Told
    from kafkakit.reassign.commands.session import Job, Options

Wait = Annotated[
    str, typer.Option("--wait", metavar="DURATION", help="How long the run at work may take to answer and to end.")
]
MaybePlan = Annotated[
    str | None,
    typer.Argument(
        metavar="PLAN", help="Plan file of the run; the run at work, or the only unfinished one, if not given."
    ),
]
COLUMNS = ("plan", "what", "run")


def pause(ctx: typer.Context, plan_file: MaybePlan = None, wait: Wait = "1m") -> None:
    """Let a run start nothing new; what is in flight goes on, under its throttle.

    The run at work is told and answers. Where none is at work, an unfinished run is marked: it stays paused until
    `reassign continue`. Exits with 75 when the run at work does not answer in time, or is of another plan.

    Examples:

    \b
    kafkakit --profile prod reassign pause
    kafkakit --profile prod reassign pause p.json --wait 5m
    """
    _tell(kit_of(ctx), plan_file, wait, paused=True)


def go_on(ctx: typer.Context, plan_file: MaybePlan = None, wait: Wait = "1m") -> None:
    """Let a paused run go on.

    The run at work goes on by itself. Where none is at work the mark is taken away, and `reassign resume` goes on.

    Examples:

    \b
    kafkakit --profile prod reassign continue
    kafkakit --profile prod reassign continue p.json
    """
    _tell(kit_of(ctx), plan_file, wait, paused=False)


def abort(
    ctx: typer.Context,
    plan_file: options.PlanFile,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    wait: Wait = "5m",
) -> None:
    """Stop a plan for good: cancel its moves in flight, leave finished ones, take its throttles away.

    Lists that a cancel leaves in another order are put back in theirs; no data moves for that. A run at work is told
    to end first, and waited for. What was finished stays; `reassign rollback` takes that back, too.

    Examples:

    \b
    kafkakit --profile prod reassign abort p.json
    kafkakit --profile prod reassign abort p.json --yes
    """
    from contextlib import ExitStack

    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import OperationFailedError, TryLaterError
    from kafkakit.reassign.act.run import Run
    from kafkakit.reassign.commands.session import Options, finish, open_job

    kit = kit_of(ctx)
    wait_s = parse_duration(wait, "--wait")
    given = Options(yes=yes, dry_run=dry_run)
    with ExitStack() as stack:
        try:
            job = stack.enter_context(open_job(kit, plan_file, given, command="abort"))
        except TryLaterError as busy:
            if not (yes or kit.output.ask_typed("Stop the run at work and cancel its moves?")):
                raise OperationFailedError("not confirmed, nothing was changed") from busy
            _ask(kit, plan_file, busy, wait_s, abort=True)
            given = Options(yes=True)
            job = _when_free(kit, plan_file, given, wait_s, stack)
        run = Run(job.plan, job.admin, job.clock, job.journal, kit.output, job.request, job.leftovers, job.orders)
        finish(job, run.abort())


def _when_free(kit: Kit, plan_file: str, given: Options, wait_s: float, stack: ExitStack) -> Job:
    """Take the lease as soon as the run that was told to end has given it back."""
    from kafkakit.core.errors import TryLaterError
    from kafkakit.reassign.commands.session import open_job
    from kafkakit.wiring import system_clock

    clock = system_clock()
    end = clock.monotonic() + wait_s
    while True:
        try:
            return stack.enter_context(open_job(kit, plan_file, given, command="abort"))
        except TryLaterError:
            if clock.monotonic() >= end:
                raise
            clock.sleep(0.5)


def _tell(kit: Kit, given: str | None, wait: str, *, paused: bool) -> None:
    from kafkakit.core.durations import parse_duration
    from kafkakit.core.errors import TryLaterError
    from kafkakit.reassign.act.control import note_pause
    from kafkakit.reassign.commands.session import Options, open_job
    from kafkakit.report.report import Report

    wait_s = parse_duration(wait, "--wait")
    word = "pause" if paused else "continue"
    plan_file = given or _plan_meant(kit, word)
    try:
        with open_job(kit, plan_file, Options(), command=word) as job:
            told = note_pause(job.journal, job.request, paused=paused)
    except TryLaterError as busy:
        told = _ask(kit, plan_file, busy, wait_s, paused=paused)
    kit.output.result(
        Report(
            command=f"reassign {word}",
            data={"plan": plan_file, "paused": paused, "run": told.run, "next_commands": list(told.next_commands)},
            text="\n".join([told.words, *(["next:", *told.next_commands] if told.next_commands else [])]) + "\n",
            columns=COLUMNS,
            rows=((plan_file, "paused" if paused else "continued", told.run),),
        )
    )


def _plan_meant(kit: Kit, word: str) -> str:
    """The plan file of the run at work, else of the only unfinished one; raises `UsageError` when there is none."""
    from contextlib import closing

    from kafkakit.core.errors import UsageError
    from kafkakit.execution.act.leases import lease_path, read_lease
    from kafkakit.execution.act.run_journal import journal_files, read_run_state
    from kafkakit.reassign.act.control import plan_meant
    from kafkakit.wiring import open_admin, open_control

    with closing(open_admin(kit.settings, read_only=True)) as admin:
        cluster_id = admin.cluster().cluster_id
    with closing(open_control(kit.settings)) as store:
        lease = read_lease(store, lease_path(cluster_id))
    files = journal_files(kit.settings.state_dir, cluster_id)
    states = [read_run_state(f) for f in files]
    token = lease.token if lease is not None and lease.holder is not None else None
    plan, why = plan_meant(states, token)
    if plan is None:
        raise UsageError(why, hint=f"name the plan file: kafkakit reassign {word} PLAN")
    return plan


def _ask(
    kit: Kit,
    plan_file: str,
    busy: TryLaterError,
    wait_s: float,
    *,
    paused: bool | None = None,
    abort: bool | None = None,
) -> Told:
    """Tell the run at work; raises `busy` again when there is none that could be told."""
    from contextlib import closing

    from kafkakit.adapters.own_process import this_holder
    from kafkakit.core.plan import identity_of
    from kafkakit.execution.act.control_requests import Wishes
    from kafkakit.execution.act.journal_file import DiskFile
    from kafkakit.execution.act.leases import lease_path, read_lease
    from kafkakit.execution.act.run_journal import journal_path, read_run_state
    from kafkakit.reassign.act.control import ask
    from kafkakit.reassign.commands.session import read_plan
    from kafkakit.wiring import open_control, system_clock

    plan = read_plan(plan_file)
    file = DiskFile(journal_path(kit.settings.state_dir, plan.cluster_id, identity_of(plan)))
    state = read_run_state(file)
    with closing(open_control(kit.settings)) as store:
        lease = read_lease(store, lease_path(plan.cluster_id))
        if lease is None or lease.holder is None or lease.token != state.token:
            raise busy
        me = this_holder("reassign")
        by = f"{me.user} on {me.host}"
        wishes = Wishes(store, system_clock(), plan.cluster_id)
        return ask(wishes, lease.token, by, str(lease.holder), wait_s, paused=paused, abort=abort)
