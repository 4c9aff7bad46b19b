"""One `reassign` command at work on one plan: reading it, connecting, locking, and telling the result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.command import Kit

if TYPE_CHECKING:
    from kafkakit.ports import Clock, ClusterAdmin
    from kafkakit.reassign.outcome import Outcome, Request
    from kafkakit.reassign.store_journal import Journal
    from kafkakit.reassign.store_leftovers import Leftovers
    from kafkakit.topicmappr.plan import Plan

PLAN_LIMIT_BYTES = 512 * 2**20
DEFAULT_BATCH = 500  # as in goals.py, which is not imported before a command runs


class Options(NamedTuple):
    """What `apply` and `rollback` were given."""

    yes: bool = False
    dry_run: bool = False
    throttle: str | None = None
    batch_size: int = DEFAULT_BATCH
    allow_drift: bool = False
    stall_timeout: str = "5m"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command at work on one plan."""

    kit: Kit
    plan: Plan
    admin: ClusterAdmin
    clock: Clock
    journal: Journal
    leftovers: Leftovers
    request: Request
    locked: bool


def _read_request(kit: Kit, plan: Plan, plan_file: str, options: Options) -> Request:
    """The options as a request; raises `UsageError` for a rate or duration that cannot be read."""
    from kafkakit.durations import parse_duration
    from kafkakit.quantities import parse_rate
    from kafkakit.reassign.outcome import Commands, Request

    throttle = options.throttle
    off = throttle is not None and throttle.strip().lower() == "none"
    return Request(
        commands=Commands(program=_program_of(kit), plan=_quoted(plan_file), run_options=_run_options(options)),
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
def open_job(kit: Kit, plan_file: str, options: Options, *, must_lock: bool = True) -> Iterator[Job]:
    """Read the plan, connect, and lock the cluster on this host; everything is let go of at the end."""
    from contextlib import ExitStack, closing

    from kafkakit.adapters.lock import FileLock
    from kafkakit.documents import decode_plan
    from kafkakit.errors import TryLaterError
    from kafkakit.reassign.store_journal import DiskFile, Journal, journal_files, journal_path, lock_path
    from kafkakit.reassign.store_leftovers import Leftovers
    from kafkakit.topicmappr.plan import identity_of
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
        identity = identity_of(plan)
        file = DiskFile(journal_path(state_dir, plan.cluster_id, identity))
        journal = Journal(file, clock, cluster_id=plan.cluster_id, fingerprint=identity)
        others = [f for f in journal_files(state_dir, plan.cluster_id) if f.path != file.path]
        yield Job(
            kit=kit,
            plan=plan,
            admin=admin,
            clock=clock,
            journal=journal,
            leftovers=Leftovers(others, admin, clock, kit.output, request.commands),
            request=request,
            locked=locked,
        )


def finish(job: Job, outcome: Outcome) -> None:
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


def _run_options(options: Options) -> tuple[str, ...]:
    """Options that a run which resumes this one needs, too; the throttle is remembered in the journal."""
    words = ["--allow-drift"] if options.allow_drift else []
    if options.batch_size != DEFAULT_BATCH:
        words.append(f"--batch-size {options.batch_size}")
    if options.stall_timeout != Options().stall_timeout:
        words.append(f"--stall-timeout {_quoted(options.stall_timeout)}")
    return tuple(words)


def _program_of(kit: Kit) -> str:
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
