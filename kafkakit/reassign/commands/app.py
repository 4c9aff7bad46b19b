"""`kafkakit reassign`: carry a plan out, look at what runs, verify, undo."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import Kit, KitCommand, kit_of, new_group
from kafkakit.reassign.commands import options
from kafkakit.reassign.commands.cleanup import cleanup
from kafkakit.reassign.commands.control import abort, go_on, pause
from kafkakit.reassign.commands.listing import list_moves
from kafkakit.reassign.commands.session import (
    DEFAULT_DISK_USE,
    DEFAULT_IN_EACH,
    DEFAULT_MOVES,
    DEFAULT_OUT_EACH,
    Options,
    finish,
    open_job,
    options_of,
)
from kafkakit.reassign.commands.simulate import simulate
from kafkakit.reassign.commands.status import status
from kafkakit.reassign.commands.throttle import throttle

app = new_group("Carry out a plan: apply, pause, status, verify, abort, rollback.")


@app.command("apply", cls=KitCommand)
def apply(
    ctx: typer.Context,
    plan_file: options.PlanFile,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    throttle: options.Throttle = None,
    throttle_broker: options.ThrottleBroker = None,
    throttle_dirs: options.ThrottleDirs = None,
    max_in: options.MaxIn = DEFAULT_IN_EACH,
    max_out: options.MaxOut = DEFAULT_OUT_EACH,
    max_moves: options.MaxMoves = DEFAULT_MOVES,
    one_replica: options.OneReplica = False,
    max_disk_use: options.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: options.DiskHeadroom = "0",
    ingest_sample: options.IngestSample = "5s",
    wait_for_others: options.Others = False,
    allow_drift: options.AllowDrift = False,
    stall_timeout: options.StallTimeout = "5m",
) -> None:
    """Move replicas as the plan says, and make sure that they arrived.

    The cluster is read again first: another cluster, or one that changed since the plan, is refused. Then the
    moves are put in an order that never fills a log dir, and the time they will take is told before the first
    byte. The changes are shown and need a typed `yes`. Can be stopped at any time and run again: it resumes. A
    second run of a finished plan does nothing. Every effect is journaled before it is made.

    Examples:

    \b
    kafkakit --profile prod reassign apply p.json --dry-run
    kafkakit --profile prod reassign apply p.json --throttle 20MB
    """
    _run(kit_of(ctx), plan_file, options_of(locals()), "apply")


@app.command("resume", cls=KitCommand, short_help="Go on with a run that was stopped or killed.")
def resume(
    ctx: typer.Context,
    plan_file: options.PlanFile,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    throttle: options.Throttle = None,
    throttle_broker: options.ThrottleBroker = None,
    throttle_dirs: options.ThrottleDirs = None,
    max_in: options.MaxIn = DEFAULT_IN_EACH,
    max_out: options.MaxOut = DEFAULT_OUT_EACH,
    max_moves: options.MaxMoves = DEFAULT_MOVES,
    one_replica: options.OneReplica = False,
    max_disk_use: options.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: options.DiskHeadroom = "0",
    ingest_sample: options.IngestSample = "5s",
    wait_for_others: options.Others = False,
    allow_drift: options.AllowDrift = False,
    stall_timeout: options.StallTimeout = "5m",
) -> None:
    """Go on with a run that was stopped or killed, in its direction, with its throttle.

    Refused when no run of the plan was begun here, and when it is paused (`reassign continue` lets it go on).

    Examples:

    \b
    kafkakit --profile prod reassign resume p.json
    kafkakit --profile prod reassign resume p.json --yes --throttle 50MB
    """
    _run(kit_of(ctx), plan_file, options_of(locals()), "resume")


@app.command("rollback", cls=KitCommand, short_help="Undo a plan: put every replica list back as it was.")
def rollback(
    ctx: typer.Context,
    plan_file: options.PlanFile,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    throttle: options.Throttle = None,
    throttle_broker: options.ThrottleBroker = None,
    throttle_dirs: options.ThrottleDirs = None,
    max_in: options.MaxIn = DEFAULT_IN_EACH,
    max_out: options.MaxOut = DEFAULT_OUT_EACH,
    max_moves: options.MaxMoves = DEFAULT_MOVES,
    one_replica: options.OneReplica = False,
    max_disk_use: options.MaxDiskUse = DEFAULT_DISK_USE,
    disk_headroom: options.DiskHeadroom = "0",
    ingest_sample: options.IngestSample = "5s",
    wait_for_others: options.Others = False,
    allow_drift: options.AllowDrift = False,
    stall_timeout: options.StallTimeout = "5m",
) -> None:
    """Undo a plan: cancel its running moves, put every replica list back as it was, in its old order.

    Works while a destination broker is dead. A partition whose old list needs a copy on a dead broker is
    left as it is and named. The way back is ordered like the way there: no log dir is filled. Throttles of an
    apply are removed.

    Examples:

    \b
    kafkakit --profile prod reassign rollback p.json
    kafkakit --profile prod reassign rollback p.json --yes --throttle 50MB
    """
    _run(kit_of(ctx), plan_file, options_of(locals()), "rollback")


app.command("abort", cls=KitCommand, short_help="Stop a plan for good; leave finished moves.")(abort)
app.command("pause", cls=KitCommand, short_help="Let a run start nothing new.")(pause)
app.command("continue", cls=KitCommand)(go_on)


@app.command("verify", cls=KitCommand, short_help="Check that all is in place, in order and in sync.")
def verify(ctx: typer.Context, plan_file: options.PlanFile) -> None:
    """Check that every planned partition is in place, in order, and with all copies in sync.

    Exits with 0 only then, and when no throttle of ours is left; with 1 otherwise. Throttles that a run
    could not remove are removed here, once all moves are complete.

    Examples:

    \b
    kafkakit --profile prod reassign verify p.json
    kafkakit --profile prod reassign verify p.json -o tsv
    """
    from kafkakit.reassign.act.verify import verify as run_verify

    with open_job(kit_of(ctx), plan_file, Options(), must_lock=False) as job:
        outcome = run_verify(
            job.plan, job.admin, job.clock, job.journal, job.kit.output, job.request, may_clean=job.locked
        )
        finish(job, outcome)


app.command("status", cls=KitCommand, short_help="Show what moves, how fast, until when, and what stalls.")(status)
app.command("list", cls=KitCommand, short_help="List the moves that run, by whomever, one a line.")(list_moves)
app.command("throttle", cls=KitCommand, short_help="Change the throttle of the run at work.")(throttle)
app.command("cleanup", cls=KitCommand, short_help="Remove throttles that runs on this host left behind.")(cleanup)
app.command("simulate", cls=KitCommand, short_help="Play a plan on a simulated cluster, without touching it.")(simulate)


def _run(kit: Kit, plan_file: str, given: Options, command: str) -> None:
    from kafkakit.reassign.act.run import Run

    with open_job(kit, plan_file, given, command=command) as job:
        run = Run(job.plan, job.admin, job.clock, job.journal, kit.output, job.request, job.leftovers, job.orders)
        verbs = {"apply": run.apply, "rollback": run.rollback, "resume": run.resume}
        finish(job, verbs[command]())
