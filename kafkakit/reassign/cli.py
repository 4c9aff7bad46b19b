"""`kafkakit reassign`: carry a plan out, look at what runs, verify, undo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kafkakit.command import Kit, KitCommand, kit_of, new_group

if TYPE_CHECKING:
    from kafkakit.ports import Clock, ClusterAdmin
    from kafkakit.reassign.outcome import Outcome, Request
    from kafkakit.reassign.store_journal import Journal
    from kafkakit.reassign.store_leftovers import Leftovers
    from kafkakit.topicmappr.plan import Plan

PLAN_LIMIT_BYTES = 512 * 2**20
DEFAULT_BATCH = 500  # as in schedule.py, which is not imported before a command runs

app = new_group("Carry out a plan: apply, status, verify, rollback.")

PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN", help="Plan file made by `topicmappr rebuild --plan`; - for stdin.")
]
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
    options = _Options(yes, dry_run, throttle, batch_size, allow_drift, stall_timeout)
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
    options = _Options(yes, dry_run, throttle, batch_size, allow_drift, stall_timeout)
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

    with _job(kit_of(ctx), plan_file, _Options(), must_lock=False) as job:
        outcome = run_verify(
            job.plan, job.admin, job.clock, job.journal, job.kit.output, job.request, may_clean=job.locked
        )
        _finish(job, outcome)


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


class _Options(NamedTuple):
    """What `apply` and `rollback` were given."""

    yes: bool = False
    dry_run: bool = False
    throttle: str | None = None
    batch_size: int = DEFAULT_BATCH
    allow_drift: bool = False
    stall_timeout: str = "5m"


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One command at work on one plan."""

    kit: Kit
    plan: Plan
    admin: ClusterAdmin
    clock: Clock
    journal: Journal
    leftovers: Leftovers
    request: Request
    locked: bool


def _run(kit: Kit, plan_file: str, options: _Options, direction: str) -> None:
    from kafkakit.reassign.run import Run

    with _job(kit, plan_file, options) as job:
        run = Run(job.plan, job.admin, job.clock, job.journal, kit.output, job.request, job.leftovers)
        _finish(job, run.apply() if direction == "apply" else run.rollback())


def _read_request(kit: Kit, plan: Plan, plan_file: str, options: _Options) -> Request:
    """The options as a request; raises `UsageError` for a rate or duration that cannot be read."""
    from kafkakit.durations import parse_duration
    from kafkakit.quantities import parse_rate
    from kafkakit.reassign.outcome import Commands, Request

    throttle = options.throttle
    off = throttle is not None and throttle.strip().lower() == "none"
    return Request(
        commands=Commands(program=_program(kit), plan=_quoted(plan_file)),
        plan_path=str(Path(plan_file).absolute()) if plan_file != "-" else "-",
        confirm=lambda: options.yes or kit.output.ask_typed(f"Change cluster {plan.cluster_id}?"),
        pinned_cluster_id=kit.settings.cluster_id,
        rate=None if throttle is None or off else parse_rate(throttle),
        throttle_off=off,
        batch_size=options.batch_size,
        allow_drift=options.allow_drift,
        dry_run=options.dry_run,
        stall_timeout_s=parse_duration(options.stall_timeout, "--stall-timeout"),
    )


@contextmanager
def _job(kit: Kit, plan_file: str, options: _Options, *, must_lock: bool = True) -> Iterator[_Job]:
    """Read the plan, connect, and lock the cluster on this host; everything is let go of at the end."""
    from contextlib import ExitStack, closing

    from kafkakit.adapters.lock import FileLock
    from kafkakit.documents import decode_plan
    from kafkakit.errors import TryLaterError
    from kafkakit.reassign.store_journal import DiskFile, Journal, journal_files, journal_path, lock_path
    from kafkakit.reassign.store_leftovers import Leftovers
    from kafkakit.topicmappr.plan_rules import check_plan
    from kafkakit.wiring import open_admin, read_input, system_clock

    source = "stdin" if plan_file == "-" else plan_file
    plan = decode_plan(read_input(plan_file, PLAN_LIMIT_BYTES), source)
    check_plan(plan, source)
    request = _read_request(kit, plan, plan_file, options)
    state_dir = kit.settings.state_dir
    with ExitStack() as stack:
        locked = not options.dry_run
        if locked:
            try:
                stack.enter_context(FileLock(lock_path(state_dir, plan.cluster_id), f"cluster {plan.cluster_id}"))
            except TryLaterError:
                if must_lock:
                    raise
                locked = False
        admin = stack.enter_context(closing(open_admin(kit.settings, read_only=options.dry_run)))
        clock = system_clock()
        file = DiskFile(journal_path(state_dir, plan.cluster_id, plan.fingerprint))
        journal = Journal(file, clock, cluster_id=plan.cluster_id, fingerprint=plan.fingerprint)
        others = [f for f in journal_files(state_dir, plan.cluster_id) if f.path != file.path]
        yield _Job(
            kit=kit,
            plan=plan,
            admin=admin,
            clock=clock,
            journal=journal,
            leftovers=Leftovers(others, admin, clock, kit.output, request.commands),
            request=request,
            locked=locked,
        )


def _finish(job: _Job, outcome: Outcome) -> None:
    """Print the result; an outcome that is not whole then ends with exit code 1."""
    from kafkakit.errors import OperationFailedError
    from kafkakit.output import Result
    from kafkakit.reassign.outcome import Direction
    from kafkakit.reassign.render import PARTITION_COLUMNS, outcome_data, partition_rows, render_outcome

    job.kit.output.result(
        Result(
            command=f"reassign {outcome.direction.value}",
            data=outcome_data(outcome),
            text=render_outcome(outcome),
            columns=PARTITION_COLUMNS,
            rows=partition_rows(outcome.partitions),
        )
    )
    if outcome.verdict == "declined":
        raise OperationFailedError("not confirmed, nothing was changed")
    if not outcome.ok:
        what = outcome.direction.value if outcome.direction is not Direction.VERIFY else "the plan"
        facts = [*outcome.problems, *outcome.owed]
        raise OperationFailedError(f"{what} is not complete: {facts[0]}", hint=next(iter(outcome.next_commands), None))


def _program(kit: Kit) -> str:
    """How to call kafkakit again for the same cluster, without secrets: these are never on a command line."""
    settings = kit.settings
    words = ["kafkakit"]
    given = kit.given
    if given.config is not None:
        words += ["--config", _quoted(str(given.config))]
    if settings.profile is not None:
        words += ["--profile", _quoted(settings.profile)]
    if (settings.origin_of("bootstrap_server") or "").startswith("flag"):
        words += ["--bootstrap-server", _quoted(settings.bootstrap_servers)]
    if given.command_config is not None:
        words += ["--command-config", _quoted(str(given.command_config))]
    return " ".join(words)


def _quoted(word: str) -> str:
    from shlex import quote

    return quote(word)
