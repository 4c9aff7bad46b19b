"""One `reassign` command at work on one plan: reading it, connecting, locking, and telling the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkakit.cli.command_classes import Kit

if TYPE_CHECKING:
    from kafkakit.core.plan import Plan
    from kafkakit.execution.act.leftovers import Leftovers
    from kafkakit.execution.act.received_requests import Orders
    from kafkakit.execution.act.run_journal import RunJournal
    from kafkakit.execution.decide.outcome import Outcome, Request
    from kafkakit.execution.decide.schedule.work import Limits
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.clock import Clock

PLAN_LIMIT_BYTES = 512 * 2**20
DEFAULT_IN_EACH = DEFAULT_OUT_EACH = 5  # as in schedule/work.py, which is not imported before a command runs
DEFAULT_MOVES = 1000
DEFAULT_DISK_USE = "95%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the commands that run a plan were given; texts as they were typed."""

    yes: bool = False
    dry_run: bool = False
    throttle: str | None = None
    throttle_broker: Sequence[str] = ()
    throttle_dirs: str | None = None
    max_in: int = DEFAULT_IN_EACH
    max_out: int = DEFAULT_OUT_EACH
    max_moves: int = DEFAULT_MOVES
    one_replica: bool = False
    max_disk_use: str = DEFAULT_DISK_USE
    disk_headroom: str = "0"
    ingest_sample: str = "5s"
    wait_for_others: bool = False
    allow_drift: bool = False
    stall_timeout: str = "5m"


def options_of(given: Mapping[str, Any]) -> Options:
    """The options among a command's parameters, by name; those that the command does not have are as usual."""
    known = {f.name: given[f.name] for f in fields(Options) if f.name in given}
    return Options(**{**known, "throttle_broker": tuple(given.get("throttle_broker") or ())})


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command at work on one plan."""

    kit: Kit
    plan: Plan
    admin: ClusterAdmin
    clock: Clock
    journal: RunJournal
    leftovers: Leftovers
    request: Request
    orders: Orders
    locked: bool


def _read_request(kit: Kit, plan: Plan, plan_file: str, options: Options) -> Request:
    """The options as a request; raises `UsageError` for a rate or duration that cannot be read."""
    from kafkakit.core.durations import parse_duration, parse_duration_or_zero
    from kafkakit.execution.decide.outcome import Commands, Request
    from kafkakit.execution.decide.rates import read_request

    return Request(
        commands=Commands(
            program=_program_of(kit),
            plan=_quoted(plan_file),
            run_options=_run_options(options),
            throttle_options=_throttle_options(options),
        ),
        plan_path=str(Path(plan_file).absolute()) if plan_file != "-" else "-",
        confirm=lambda: options.yes or kit.output.ask_typed(f"Change cluster {plan.cluster_id}?"),
        pinned_cluster_id=kit.settings.cluster_id,
        rates=read_request(options.throttle, options.throttle_broker, options.throttle_dirs),
        limits=read_limits(options),
        wait_for_others=options.wait_for_others,
        ingest_sample_s=parse_duration_or_zero(options.ingest_sample, "--ingest-sample"),
        allow_drift=options.allow_drift,
        dry_run=options.dry_run,
        stall_timeout_s=parse_duration(options.stall_timeout, "--stall-timeout"),
    )


def read_limits(options: Options) -> Limits:
    """What a schedule must keep; raises `UsageError` for a size or a percentage that cannot be read."""
    from kafkakit.core.percent import parse_percent
    from kafkakit.core.quantities import parse_size
    from kafkakit.execution.decide.schedule.work import Limits

    return Limits(
        into_each=options.max_in,
        out_each=options.max_out,
        cluster=options.max_moves,
        max_use=parse_percent(options.max_disk_use, "--max-disk-use"),
        headroom_bytes=parse_size(options.disk_headroom, "--disk-headroom"),
        one_replica_at_a_time=options.one_replica,
    )


def read_plan(plan_file: str) -> Plan:
    """The plan of a file, `-` for stdin; raises `InputError` for one that makes no sense."""
    from kafkakit.core.documents import decode_plan
    from kafkakit.core.plan_rules import check_plan
    from kafkakit.wiring import read_input

    source = "stdin" if plan_file == "-" else plan_file
    plan = decode_plan(read_input(plan_file, PLAN_LIMIT_BYTES), source)
    check_plan(plan, source)
    return plan


@contextmanager
def open_job(
    kit: Kit, plan_file: str, options: Options, *, command: str = "run", must_lock: bool = True
) -> Iterator[Job]:
    """Read the plan, connect, and take the cluster's lease; everything is let go of at the end.

    `TryLaterError` says who has the lease. Without `must_lock` the job then goes on without it (`locked` is False).
    """
    from contextlib import ExitStack, closing

    from kafkakit.adapters.lock import FileLock
    from kafkakit.adapters.own_process import this_holder
    from kafkakit.core.errors import TryLaterError
    from kafkakit.core.lease import DEFAULT_TTL_S
    from kafkakit.core.plan import identity_of
    from kafkakit.execution.act.control_requests import Wishes
    from kafkakit.execution.act.journal_file import DiskFile
    from kafkakit.execution.act.lease_guard import GuardedAdmin, HeldClock
    from kafkakit.execution.act.leftovers import Leftovers
    from kafkakit.execution.act.received_requests import Orders
    from kafkakit.execution.act.run_journal import RunJournal, journal_files, journal_path, lock_path
    from kafkakit.wiring import open_admin, open_control, open_lease, system_clock

    plan = read_plan(plan_file)
    request = _read_request(kit, plan, plan_file, options)
    state_dir = kit.settings.state_dir
    with ExitStack() as stack:
        clock = system_clock()
        admin: ClusterAdmin = stack.enter_context(closing(open_admin(kit.settings, read_only=options.dry_run)))
        orders = Orders(None, None, kit.output)
        locked = not options.dry_run
        try:
            if locked:
                who = str(this_holder(f"reassign {command}"))
                lock = FileLock(lock_path(state_dir, plan.cluster_id), f"cluster {plan.cluster_id}", who)
                stack.enter_context(lock)
                store = stack.enter_context(closing(open_control(kit.settings)))
                lease = open_lease(store, clock, plan.cluster_id, f"reassign {command}", kit.output.say)
                token = lease.acquire()
                stack.callback(lease.release)
                orders = Orders(Wishes(store, clock, plan.cluster_id), token, kit.output)
                admin, clock = GuardedAdmin(admin, lease.require_held), HeldClock(clock, lease, DEFAULT_TTL_S / 10)
        except TryLaterError:
            if must_lock:
                raise
            locked = False
        identity = identity_of(plan)
        file = DiskFile(journal_path(state_dir, plan.cluster_id, identity))
        journal = RunJournal(file, clock, cluster_id=plan.cluster_id, fingerprint=identity)
        others = [f for f in journal_files(state_dir, plan.cluster_id) if f.path != file.path]
        yield Job(
            kit=kit,
            plan=plan,
            admin=admin,
            clock=clock,
            journal=journal,
            leftovers=Leftovers(others, admin, clock, kit.output, request.commands),
            request=request,
            orders=orders,
            locked=locked,
        )


def finish(job: Job, outcome: Outcome) -> None:
    """Print the result; an outcome that is not whole then ends with exit code 1."""
    from kafkakit.core.errors import OperationFailedError
    from kafkakit.execution.decide.outcome import Direction
    from kafkakit.execution.decide.verdict import NOT_ALIVE
    from kafkakit.reassign.show.run import PARTITION_COLUMNS, outcome_data, partition_rows, render_outcome
    from kafkakit.report.report import Report

    job.kit.output.result(
        Report(
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
        told = facts[0] if outcome.direction is Direction.ABORT else f"{what} is not complete: {facts[0]}"
        again = next(iter(outcome.next_commands), None)
        if again and any(NOT_ALIVE in p for p in outcome.problems):
            again = f"start the brokers that are not alive, then: {again}"
        raise OperationFailedError(told, hint=again)


def _run_options(options: Options) -> tuple[str, ...]:
    """Options that a run which resumes this one needs, too; the throttle is remembered in the journal."""
    usual = Options()
    words = ["--allow-drift"] if options.allow_drift else []
    words += ["--wait-for-others"] if options.wait_for_others else []
    words += ["--one-replica-at-a-time"] if options.one_replica else []
    for flag, value, default in (
        ("--max-in", options.max_in, usual.max_in),
        ("--max-out", options.max_out, usual.max_out),
        ("--max-moves-in-flight", options.max_moves, usual.max_moves),
        ("--max-disk-use", options.max_disk_use, usual.max_disk_use),
        ("--disk-headroom", options.disk_headroom, usual.disk_headroom),
        ("--ingest-sample", options.ingest_sample, usual.ingest_sample),
        ("--stall-timeout", options.stall_timeout, usual.stall_timeout),
    ):
        if value != default:
            words.append(f"{flag} {_quoted(str(value))}")
    return tuple(words)


def _throttle_options(options: Options) -> tuple[str, ...]:
    words = [("--throttle", options.throttle), *(("--throttle-broker", w) for w in options.throttle_broker)]
    return tuple(f"{k} {_quoted(v)}" for k, v in (*words, ("--throttle-dirs", options.throttle_dirs)) if v)


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
