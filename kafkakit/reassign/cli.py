"""`kafkakit reassign`: carry a plan out, look at what runs, verify, undo."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.command import Kit, KitCommand, kit_of, new_group
from kafkakit.reassign.cleanup.cli import cleanup
from kafkakit.reassign.job.cli import DEFAULT_BATCH, Options, finish, open_job
from kafkakit.reassign.retune.cli import throttle
from kafkakit.reassign.simulate.cli import simulate

app = new_group("Carry out a plan: apply, status, verify, rollback.")
app.command("simulate", cls=KitCommand)(simulate)

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file made with --plan; - for stdin.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking; needed where nobody can be asked.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Run every check and show the changes, with a client that cannot write.")
]
Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="RATE",
        help="Limit the copying on each broker to this many bytes a second (20MB, 20MiB, 500kB), on the moved "
        "replicas only; `none` drops a throttle that an interrupted run left. Without it an interrupted run's is kept.",
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, max=5000, help="Partitions that move at the same time.")]
AllowDrift = Annotated[
    bool, typer.Option("--allow-drift", help="Go on although other partitions or racks changed since the plan.")
]
StallTimeout = Annotated[
    str, typer.Option("--stall-timeout", metavar="DURATION", help="Stop when no byte was copied for this long.")
]


@app.command("apply", cls=KitCommand)
def apply(
    ctx: typer.Context,
    plan_file: PlanFile,
    yes: Yes = False,
    dry_run: DryRun = False,
    throttle: Throttle = None,
    batch_size: BatchSize = DEFAULT_BATCH,
    allow_drift: AllowDrift = False,
    stall_timeout: StallTimeout = "5m",
) -> None:
    """Move replicas as the plan says, and make sure that they arrived.

    The cluster is read again first: another cluster, or one that changed since the plan, is refused. The
    changes are shown and need a typed `yes`. Can be stopped at any time and run again: it resumes. A
    second run of a finished plan does nothing. Every effect is journaled before it is made.

    Examples:

    \b
    kafkakit --profile prod reassign apply p.json --dry-run
    kafkakit --profile prod reassign apply p.json --throttle 20MB
    """
    options = Options(yes, dry_run, throttle, batch_size, allow_drift, stall_timeout)
    _run(kit_of(ctx), plan_file, options, "apply")


@app.command("rollback", cls=KitCommand)
def rollback(
    ctx: typer.Context,
    plan_file: PlanFile,
    yes: Yes = False,
    dry_run: DryRun = False,
    throttle: Throttle = None,
    batch_size: BatchSize = DEFAULT_BATCH,
    allow_drift: AllowDrift = False,
    stall_timeout: StallTimeout = "5m",
) -> None:
    """Undo a plan: cancel its running moves, put every replica list back as it was, in its old order.

    Works while a destination broker is dead. A partition whose old list needs a copy on a dead broker is
    left as it is and named. Throttles of an apply are removed.

    Examples:

    \b
    kafkakit --profile prod reassign rollback p.json
    kafkakit --profile prod reassign rollback p.json --yes --throttle 50MB
    """
    options = Options(yes, dry_run, throttle, batch_size, allow_drift, stall_timeout)
    _run(kit_of(ctx), plan_file, options, "rollback")


@app.command("verify", cls=KitCommand)
def verify(ctx: typer.Context, plan_file: PlanFile) -> None:
    """Check that every planned partition is in place, in order, and with all copies in sync.

    Exits with 0 only then, and when no throttle of ours is left; with 1 otherwise. Throttles that a run
    could not remove are removed here, once all moves are complete.

    Examples:

    \b
    kafkakit --profile prod reassign verify p.json
    kafkakit --profile prod reassign verify p.json -o tsv
    """
    from kafkakit.reassign.status.run import verify as run_verify

    with open_job(kit_of(ctx), plan_file, Options(), must_lock=False) as job:
        outcome = run_verify(
            job.plan, job.admin, job.clock, job.journal, job.kit.output, job.request, may_clean=job.locked
        )
        finish(job, outcome)


@app.command("status", cls=KitCommand)
def status(
    ctx: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Keep looking until no move runs.")] = False,
) -> None:
    """Show the moves that run on the cluster and the replication throttles set on it, by whomever.

    Examples:

    \b
    kafkakit --profile prod reassign status
    kafkakit --profile prod reassign status --watch
    """
    from kafkakit.output import Result
    from kafkakit.reassign.status.run import read_status, watch_status
    from kafkakit.reassign.status.view import MOVE_COLUMNS, render_status, status_data, status_rows
    from kafkakit.reassign.store_journal import read_states
    from kafkakit.wiring import open_admin, system_clock

    kit = kit_of(ctx)
    admin = open_admin(kit.settings, read_only=True)
    try:
        states = read_states(kit.settings.state_dir, admin.cluster().cluster_id)
        clock = system_clock()
        look = watch_status(admin, clock, states, kit.output) if watch else read_status(admin, clock, states)
    finally:
        admin.close()
    kit.output.result(
        Result(
            command="reassign status",
            data=status_data(look),
            text=render_status(look),
            columns=MOVE_COLUMNS,
            rows=status_rows(look),
        )
    )


app.command("throttle", cls=KitCommand)(throttle)
app.command("cleanup", cls=KitCommand)(cleanup)


def _run(kit: Kit, plan_file: str, options: Options, direction: str) -> None:
    from kafkakit.reassign.run import Run

    with open_job(kit, plan_file, options) as job:
        run = Run(job.plan, job.admin, job.clock, job.journal, kit.output, job.request, job.leftovers)
        finish(job, run.apply() if direction == "apply" else run.rollback())
