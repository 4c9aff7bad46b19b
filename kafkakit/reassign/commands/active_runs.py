"""`kafkakit reassign pause`, `continue`, `abort`, `throttle`, `status`, `list` and `cleanup`, and options of the group.

`pause`, `continue` and `abort` are requested from the active run, or recorded if there is none. The options of every
run are in `cli/run_options.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import TOPIC_NAME
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import (
    Consent,
    DryRun,
    ExecutionOptions,
    RunChoice,
    RunId,
    ThrottleBroker,
    ThrottleDirs,
    WithoutLease,
    run_request,
)
from kafkakit.cli.session import finish, open_access, open_session
from kafkakit.core.options import option
from kafkakit.core.quantities import parse_duration
from kafkakit.core.text import shell_command
from kafkakit.execution.decide.run_rules import RunRules

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.execution.act.journal_files import LineFile
    from kafkakit.reassign.decide.foreign import ForeignSelection


RunWait = Annotated[
    str,
    typer.Option("--wait", metavar="DURATION", help="How long to wait until the running executor answers and ends."),
]


@with_option_groups
def pause(
    ctx: typer.Context,
    chosen: RunChoice,
    wait: RunWait = "1m",
    without_lease: WithoutLease = False,
    dry_run: DryRun = False,
) -> None:
    """Pause a run: it starts no new moves; running ones continue, under their throttle.

    A running executor is requested to pause, and answers. If none is running, an unfinished run is marked: it stays
    paused until `reassign continue`. Exits with 75 when the executor does not answer in time, or runs another plan.

    Examples:

    \b
    kafkakit --profile prod reassign pause
    kafkakit --profile prod reassign pause p.json --wait 5m
    """
    _set_paused(ctx, chosen, wait, paused=True, without_lease=without_lease, dry_run=dry_run)


@with_option_groups
def continue_run(
    ctx: typer.Context,
    chosen: RunChoice,
    wait: RunWait = "1m",
    without_lease: WithoutLease = False,
    dry_run: DryRun = False,
) -> None:
    """Unpause a run.

    A running executor continues at once. If none is running, the pause mark is removed, and `reassign resume`
    restarts the run.

    Examples:

    \b
    kafkakit --profile prod reassign continue
    kafkakit --profile prod reassign continue p.json
    """
    _set_paused(ctx, chosen, wait, paused=False, without_lease=without_lease, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOptions:
    """Which moves or throttles of others are meant, as typed."""

    topic: list[str] | None = option(
        None,
        "--topic",
        **TOPIC_NAME,
        help="What others began on this topic, by its exact name. Repeatable, or names joined by commas.",
    )
    partition: list[str] | None = option(
        None,
        "--partition",
        metavar="TOPIC-N",
        help="What others began on this partition (orders-3). Repeatable, or joined by commas.",
    )
    everything: bool = option(False, "--all", help="All that others began on this cluster.")

    def selection(self) -> ForeignSelection | None:
        """The options as a value, None if none was given; raises `UsageError`."""
        from kafkakit.reassign.decide.foreign import read_selection

        return read_selection(self.topic or (), self.partition or (), everything=self.everything)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedPlan(RunChoice):
    """A plan file, a map of another tool, or a run by its id."""

    plan_file: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="Plan file of the run, - for stdin, or the reassignment map (Kafka's JSON) of moves that another tool "
            "began. If not given, the active run, or the only unfinished one.",
        ),
    ] = None


@with_option_groups
def abort(
    ctx: typer.Context,
    chosen: AbortedPlan,
    foreign: ForeignOptions,
    consent: Consent,
    wait: RunWait = "5m",
    without_lease: WithoutLease = False,
) -> None:
    """Abort a plan: cancel its running moves, keep finished ones, remove its throttles.

    Replica lists that a cancellation leaves in another order get their old order back; no data moves for that. A
    running executor is first requested to end, and the command waits for it. Finished moves stay; `reassign
    rollback` also undoes them.

    Moves that another tool or host began are cancelled by its reassignment map, by topic, by partition, or with
    --all: they are shown first, and recorded. Moves of unfinished runs on this host are left out. Their throttles
    are removed by `reassign cleanup`, which takes the same options.

    Examples:

    \b
    kafkakit --profile prod reassign abort p.json
    kafkakit --profile prod reassign abort p.json --yes
    kafkakit --profile prod reassign abort map.json
    kafkakit --profile prod reassign abort --partition orders-3 --yes
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.reassign.act.control import RunRequester, abort_plan
    from kafkakit.reassign.report.run import outcome_report

    cli = cli_context(ctx)
    wait_s = parse_duration(wait, "--wait")
    selection, choice = _resolve_choice(cli, chosen, foreign)
    if selection is not None:
        _abort_foreign(cli, selection, consent, without_lease=without_lease)
        return
    with open_session(cli, read_only=True) as session:
        requester = RunRequester(
            lambda: session.control, session.clock, cli.settings.state_dir, session.requester, wait_s=wait_s
        )
        try:
            named = choice.read(
                cli, session, "abort", lambda: None if without_lease else requester.token(session.cluster_id)
            )
        except UsageError as error:
            if choice.plan_file or choice.run or not session.admin.reassignments():
                raise
            every = shell_command("reassign abort", program=cli.program, all=True)
            hint = f"moves of no unfinished run are in flight; abort them with: {every}"
            raise UsageError(error.message, hint=hint) from None
        plan = named.plan
        request = run_request(
            cli,
            named,
            plan.cluster_id,
            ExecutionOptions(consent=consent, rules=RunRules(without_lease=without_lease)),
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


def _resolve_choice(
    cli: CliContext, chosen: RunChoice, foreign: ForeignOptions
) -> tuple[ForeignSelection | None, RunChoice]:
    """(what of others is meant, None if a run is; the run). A map means its moves, or the unfinished run of that map.

    Raises `UsageError` if both are named.
    """
    from kafkakit.core.documents import PLAN_LIMIT_BYTES, is_partition_map
    from kafkakit.core.errors import UsageError
    from kafkakit.execution.act.run_journal import KnownRuns
    from kafkakit.reassign.act.run import select_by_map
    from kafkakit.wiring import read_input

    selection = foreign.selection()
    if selection is not None and (chosen.plan_file or chosen.run):
        raise UsageError("a plan or run cannot be combined with --topic, --partition or --all", hint="give one of them")
    if not chosen.plan_file or chosen.run:
        return selection, chosen
    if chosen.plan_file == "-":
        return None, chosen
    data = read_input(chosen.plan_file, PLAN_LIMIT_BYTES)
    if not is_partition_map(data):
        return None, chosen
    with open_session(cli, read_only=True) as session:
        runs = KnownRuns(cli.settings.state_dir, session.cluster_id).read()
    mapped, state = select_by_map(data, chosen.plan_file, chosen.plan_file, runs)
    return (mapped, chosen) if state is None else (None, RunChoice(run=state.run_id))


def _abort_foreign(cli: CliContext, selection: ForeignSelection, consent: Consent, *, without_lease: bool) -> None:
    from kafkakit.cli.run_options import change_question
    from kafkakit.execution.act.run_journal import KnownRuns, foreign_journal
    from kafkakit.reassign.act.control import abort_foreign
    from kafkakit.reassign.report.run import foreign_report

    with open_access(cli, "reassign abort", dry_run=consent.dry_run, without_lease=without_lease) as access:
        question = change_question(cli, access.cluster_id)
        result = abort_foreign(
            access,
            selection,
            KnownRuns(cli.settings.state_dir, access.cluster_id).read(),
            cli.output,
            program=cli.program,
            confirm=None if consent.dry_run else lambda: consent.confirm(cli, question),
            open_journal=lambda: foreign_journal(cli.settings.state_dir, access.cluster_id, access.clock),
        )
    finish(cli, foreign_report(result, cli.program))


@with_option_groups
def close(ctx: typer.Context, chosen: RunChoice, without_lease: WithoutLease = False, dry_run: DryRun = False) -> None:
    """Close an unfinished run that is not to be finished: `reassign status` names it no more.

    Changes nothing on the cluster, and is refused while moves of the run are in flight or its throttles are set. Its
    plan may be applied again later, as a new run.

    Examples:

    \b
    kafkakit --profile prod reassign close
    kafkakit --profile prod reassign close --run 1a2b3c4d
    """
    from kafkakit.reassign.act.control import close_run
    from kafkakit.reassign.report.run import control_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        file, state = chosen.journal(cli, session, "close")
    cluster_id = state.cluster_id or None
    with open_access(
        cli, "reassign close", cluster_id=cluster_id, dry_run=dry_run, without_lease=without_lease
    ) as access:
        result = close_run(file, access, cli.output, f"{cli.program} reassign", dry_run=dry_run)
    finish(cli, control_report("close", state.plan_path, result, "planned" if dry_run else "closed"))


def _set_paused(
    ctx: typer.Context, chosen: RunChoice, wait: str, *, paused: bool, without_lease: bool, dry_run: bool
) -> None:

    from kafkakit.reassign.act.control import RunRequester, plan_pause, set_paused
    from kafkakit.reassign.report.run import control_report

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
        if dry_run:
            result = plan_pause(named.plan, commands, requester, paused=paused, without_lease=without_lease)
            finish(cli, control_report(word, named.path, result, "planned"))
            return
        access = partial(open_access, cli, f"reassign {word}", cluster_id=cluster_id, without_lease=without_lease)
        result = set_paused(named.plan, commands, access, requester, paused=paused)
    finish(cli, control_report(word, named.path, result, "paused" if paused else "continued"))


def throttle(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[PLAN] RATE",
            help="Rate for each broker and direction (20MB), `none` to remove the throttle, or `same` to change "
            "only what the options name; a plan file before it selects the run.",
        ),
    ],
    throttle_broker: ThrottleBroker = None,
    throttle_dirs: ThrottleDirs = None,
    run: RunId = "",
    without_lease: WithoutLease = False,
    wait: Annotated[
        str, typer.Option("--wait", metavar="DURATION", help="How long the running executor may take to answer.")
    ] = "1m",
    dry_run: DryRun = False,
) -> None:
    """Change the throttle of the active run, or of moves that an interrupted run left running.

    A running executor is requested to apply the rates, and does so at its next tick; if none is running, this
    command sets them, and a resumed run keeps them. A new rate for all brokers removes earlier exceptions, log dirs
    keep their rate. Brokers average over about 10 s: a higher rate begins with a burst of the difference times 10 s
    at line speed, a lower one with up to 10 s in which nothing is copied. Exits with 75 when the run does not
    answer in time.

    Examples:

    \b
    kafkakit --profile prod reassign throttle 40MB
    kafkakit --profile prod reassign throttle 40MB --dry-run
    kafkakit --profile prod reassign throttle p.json 40MB --throttle-broker 1003:in=10MB
    kafkakit --profile prod reassign throttle same --throttle-dirs 50MB
    kafkakit --profile prod reassign throttle none
    """

    from kafkakit.core.errors import UsageError
    from kafkakit.execution.decide.schedule.work import read_request
    from kafkakit.reassign.act.control import RunRequester, change_throttle, plan_throttle
    from kafkakit.reassign.report.run import throttle_report

    cli = cli_context(ctx)
    if len(words) > 2:
        raise UsageError(f"one plan file and one rate, not {len(words)} words", hint="kafkakit reassign throttle 40MB")
    request = read_request(words[-1], throttle_broker or [], throttle_dirs)
    if request.is_empty:
        raise UsageError("nothing to change", hint="give a rate, --throttle-broker or --throttle-dirs")
    wait_s = parse_duration(wait, "--wait")
    state_dir = cli.settings.state_dir
    with open_session(cli, read_only=True) as session:
        chosen = RunChoice(plan_file=words[0] if len(words) == 2 else None, run=run)
        named = chosen.journal(cli, session, "throttle")[0].name if len(words) == 2 or run else None
        requester = RunRequester(lambda: session.control, session.clock, state_dir, session.requester, wait_s=wait_s)
        if dry_run:
            access = session.access()
            result = plan_throttle(request, access, requester, cli.output, journal=named, without_lease=without_lease)
        else:
            claim = partial(open_access, cli, "reassign throttle", without_lease=without_lease)
            result = change_throttle(request, claim, requester, session.admin, cli.output, journal=named)
    finish(cli, throttle_report(result))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWatchOptions:
    """How long and how often `status` looks."""

    watch: bool = option(False, "--watch", "-w", help="Refresh until nothing moves and no run is active.")
    window: str | None = option(
        None,
        "--window",
        metavar="DURATION",
        help="Measure rates over this long, 10s or more: throttled copies arrive in bursts. 12s for one look, 20s "
        "with --watch. 0 reads once, without rates.",
    )
    interval: str = option("5s", "--interval", metavar="DURATION", help="Time between two refreshes of --watch.")
    metrics: str | None = option(
        None,
        "--metrics",
        metavar="FILE",
        help="Write Prometheus metrics to this file after each look, as a whole, for node_exporter's textfile "
        "collector; - prints them in place of the result.",
    )

    @property
    def window_s(self) -> float:
        """Seconds that rates are taken over, 0 for one look; raises `UsageError`."""
        from kafkakit.core.quantities import parse_duration_or_zero

        if self.window is None:
            return WATCH_WINDOW_S if self.watch else ONCE_WINDOW_S
        return parse_duration_or_zero(self.window, "--window")

    @property
    def interval_s(self) -> float:
        """Seconds between two looks; raises `UsageError`."""

        return parse_duration(self.interval, "--interval")

    @property
    def metrics_file(self) -> Path | None:
        """The file for metrics, None where none is written."""
        return None if self.metrics in (None, "-") else Path(str(self.metrics))


@with_option_groups
def status(ctx: typer.Context, options: StatusWatchOptions) -> None:
    """Show all running moves of the cluster: progress, rate, ETA, and what is stalled and why.

    For runs of kafkakit it shows the time left now and as forecast at the start, and what the run is doing. It also
    shows moves between log dirs, throttles, counts of under-replicated partitions, and which process may change the
    cluster. While something moves, the command reads twice to measure rates; with --watch it continues until
    nothing moves and no process may change the cluster, and Ctrl-C ends only the watching. A tick reads the moving
    topics and their brokers, not the whole cluster; counts, and moves between log dirs, are read once a minute at most.

    Examples:

    \b
    kafkakit --profile prod reassign status
    kafkakit --profile prod reassign status --watch --metrics /var/lib/node_exporter/kafkakit.prom
    kafkakit --profile prod reassign status -o json --window 30s
    """
    from kafkakit.adapters.host import life_of
    from kafkakit.adapters.lock import locked_by
    from kafkakit.cli.output import OutputFormat
    from kafkakit.core.errors import UsageError
    from kafkakit.execution.act.leases import LeaseReader
    from kafkakit.execution.act.retrier import Retrier
    from kafkakit.execution.act.run_journal import KnownRuns
    from kafkakit.execution.act.status_loop import READ_TIMEOUT_S, StatusObserver, look_once
    from kafkakit.execution.act.status_loop import watch as watch_moves
    from kafkakit.execution.decide.status import StatusView
    from kafkakit.execution.decide.status_looks import QUIET_S
    from kafkakit.reassign.report.status import render_metrics, screen_sections, status_line, status_report
    from kafkakit.report.report import text_of
    from kafkakit.wiring import write_file

    cli = cli_context(ctx)
    if options.metrics == "-" and cli.output.output_format is not OutputFormat.TEXT:
        raise UsageError("--metrics - is a format of its own, without -o", hint="name a file for the metrics")
    window_s, interval_s, metrics_file = options.window_s, options.interval_s, options.metrics_file
    if 0 < window_s < QUIET_S:
        cli.output.warn(f"throttled copies arrive in bursts: rates over less than {QUIET_S:g} s mean little")

    def write_metrics(view: StatusView) -> None:
        if metrics_file is not None:
            write_file(metrics_file, render_metrics(view).encode())

    with open_session(cli, read_only=True) as session, cli.output.screen() as screen:
        lock_holder = partial(locked_by, session.host_lock(session.cluster_id))
        observer = StatusObserver(
            session.admin,
            session.clock,
            KnownRuns(cli.settings.state_dir, session.cluster_id),
            LeaseReader(lambda: session.control, session.cluster_id, life_of, lock_holder, cli.output).read,
            window_s=window_s,
            program=cli.program,
        )
        if options.watch:
            view = watch_moves(
                observer,
                session.clock,
                Retrier(session.clock, cli.output, READ_TIMEOUT_S),
                interval_s=interval_s,
                after_look=write_metrics,
                show=lambda view: screen.show(text_of(screen_sections(view)), status_line(view)),
            )
        else:
            view = look_once(observer, session.clock, window_s)
            write_metrics(view)
    finish(cli, status_report(view, as_metrics=options.metrics == "-"))


def list_moves(
    ctx: typer.Context,
    ours: Annotated[bool, typer.Option("--ours", help="Only moves that runs on this host sent.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Only moves that no run on this host sent.")] = False,
) -> None:
    """List all running moves of the cluster, one a line, with the run that sent each.

    Reads the moving topics and their brokers once, so it is quick on any cluster. Prints nothing and exits with 0
    when nothing moves. `reassign status` shows rates, reasons and more.

    Examples:

    \b
    kafkakit --profile prod reassign list
    kafkakit --profile prod reassign list --foreign -o tsv | cut -f1,2
    """
    from kafkakit.execution.act.run_journal import KnownRuns
    from kafkakit.execution.act.status_loop import StatusObserver
    from kafkakit.reassign.report.status import choose_moves, list_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        runs = KnownRuns(cli.settings.state_dir, session.cluster_id)
        observer = StatusObserver(
            session.admin, session.clock, runs, lambda: None, window_s=0.0, program=cli.program, whole=False
        )
        view = observer.look()
    moves = choose_moves(view.moves, ours=ours, foreign=foreign)
    finish(cli, list_report(view.cluster_id, moves, view.around.damaged))


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPlan:
    """Whose throttles go: a plan's or map's, as an argument or an option, or a run's."""

    plan_file: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="As --plan; or the reassignment map (Kafka's JSON) of another tool, to remove throttles of its moves.",
        ),
    ] = None
    plan: str = option(
        "",
        "--plan",
        metavar="PLAN",
        help="Also remove throttles that name exactly this plan's replicas, even if its journal is lost.",
    )
    run: RunId = ""

    def choice(self) -> RunChoice:
        """The one that was named; raises `UsageError` for two."""
        from kafkakit.core.errors import UsageError

        if self.plan_file and self.plan:
            raise UsageError("the plan is given twice, as an argument and with --plan", hint="give it once")
        return RunChoice(plan_file=self.plan_file or self.plan or None, run=self.run)


@with_option_groups
def cleanup(
    ctx: typer.Context,
    named: CleanedPlan,
    foreign: ForeignOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, with a client that cannot write.")
    ] = False,
    unthrottle_running: Annotated[
        bool,
        typer.Option(
            "--unthrottle-running",
            help="Also remove throttles that running moves still need; these then continue at full speed.",
        ),
    ] = False,
    without_lease: WithoutLease = False,
) -> None:
    """Remove throttles that runs on this host left behind; with --all also those that others set.

    The journals record what kafkakit set, so the plan file is not needed. Rates get their earlier values back, list
    entries of these runs are removed, and lists that become empty are deleted. Throttles of moves that still run
    stay. Shows the changes first, and makes them after a typed `yes` or with --yes. Exits with 0 when none of these
    throttles is left, with 1 when one is, with 75 while another kafkakit process changes the cluster.

    Throttles that others set are shown and not changed, unless they are named: by the map of their moves, by topic,
    by partition, or with --all. Each value is recorded before it is removed, and only values that were shown are. A
    rate limits all topics of its broker: with topics, partitions or a map it goes if no list that stays needs it.

    If a journal is lost or damaged, name the plan: entries that name exactly its replicas are recognised, and rates
    on its brokers are unset.

    Examples:

    \b
    kafkakit --profile prod reassign cleanup
    kafkakit --profile prod reassign cleanup p.json --yes
    kafkakit --profile prod reassign cleanup --all
    kafkakit --profile prod reassign cleanup map.json
    """
    from kafkakit.cli.run_options import change_question
    from kafkakit.execution.act.journal_files import pacer_lines
    from kafkakit.execution.act.run_journal import foreign_journal, journal_files, plan_journal_file
    from kafkakit.execution.decide.plan_state import require_same_cluster
    from kafkakit.reassign.act.cleanup import CleanupRequest, clean
    from kafkakit.reassign.report.run import cleanup_report

    cli = cli_context(ctx)
    state_dir = cli.settings.state_dir
    only_shows = dry_run or not (yes or cli.input_allowed)
    selection, choice = _resolve_choice(cli, named.choice(), foreign)
    with open_session(cli, read_only=only_shows) as session:
        access = session.claim("reassign cleanup", without_lease=without_lease)
        journals: tuple[LineFile, ...] = journal_files(state_dir, access.cluster_id)
        is_named = bool(choice.plan_file or choice.run) and selection is None
        plan = choice.read(cli, session, "cleanup").plan if is_named else None
        if plan is not None:
            require_same_cluster(plan, access.cluster_id, cli.settings.cluster_id)
            file = plan_journal_file(plan, state_dir)
            journals = (*(j for j in journals if j.name != file.name), file)
        if access.control is not None:
            journals = (*journals, pacer_lines(access.control, access.cluster_id))
        question = change_question(cli, access.cluster_id)
        request = CleanupRequest(
            confirm=None if only_shows else lambda: yes or cli.output.ask_typed(question),
            unthrottle_running=unthrottle_running,
            plan=plan,
            others=selection,
            ours=selection is None or selection.everything,
            note_others=lambda: foreign_journal(state_dir, access.cluster_id, access.clock),
        )
        cleaned = clean(access.admin, access.clock, journals, cli.output, request)
    finish(cli, cleanup_report(cleaned, cli.program, unthrottle_running=unthrottle_running))


ONCE_WINDOW_S = 12.0
WATCH_WINDOW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan(RunChoice):
    """A plan file, a map, or a run by its id."""

    plan_file: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN", help="Plan file made with --plan, or a reassignment map as Kafka's JSON; - for stdin."
        ),
    ] = None
