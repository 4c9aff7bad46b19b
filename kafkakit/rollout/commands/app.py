"""`kafkakit config`: plan a change of configuration, carry it out, and look at what was changed.

`plan` and `diff` show what would change and what differs; `apply`, `resume`, `abort` and `rollback` carry a change
out or take it back; `watch` and `history` show how a cluster does and what was changed.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import complete_settings
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish, open_access, open_session
from kafkakit.core.text import shell_command
from kafkakit.rollout.commands.options import (
    ChangeOptions,
    HealthWatchOptions,
    PlanPath,
    RestartOptions,
    RunName,
    TrialOptions,
    confirm,
    confirm_begin,
    open_lag,
    open_mirror,
    ports_of,
    read_plan,
    rehearsal_stopped,
    side_of,
    stopped_text,
)

Side = Annotated[
    str,
    typer.Argument(
        help="live (the cluster in use), profile:NAME, time:2026-11-24T01:30:00Z (as journals of this host tell), or a "
        "file or folder that lint reads."
    ),
]
ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit 3 when there is a difference.")]


@with_option_groups
def plan(
    ctx: typer.Context,
    change: ChangeOptions,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Values to set.", autocompletion=complete_settings, show_default=False
        ),
    ] = None,
    steps: Annotated[
        str,
        typer.Option(
            "--steps",
            metavar="STEPS",
            help="grow: one, its rack, the others; each: one by one; rack: rack by rack; all: at once; or how many "
            "have the change after each step, the last one all, such as 1,10%,rest.",
        ),
    ] = "grow",
    plan: Annotated[Path | None, typer.Option("--plan", help="Write the plan for `config apply` to this file.")] = None,
    exit_code: ExitCodeOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also write a plan that brings findings of level error, and exit 0.")
    ] = False,
) -> int:
    """Show what a change of configuration would do: values before and after, steps, restarts, lint findings.

    Nothing is written to the cluster. Restarts of brokers are always one at a time. If the change introduces a lint
    error, such as a value that brokers refuse, the command writes no plan and exits with 4.

    Examples:

    \b
    kafkakit --profile prod config plan retention.ms=86400000 --topics orders --plan change.json
    kafkakit --profile prod config plan log.retention.ms=86400000 --cluster-default --plan change.json
    kafkakit --profile prod config plan --file clusters/prod.yaml --plan change.json
    kafkakit --profile prod config plan --finding KKR201 --plan change.json
    kafkakit --profile prod config plan compression.type=lz4 --topics 'where partitions > 6' --steps 1,10%,rest
    """
    from kafkakit.rollout.act.rollouts import plan_change
    from kafkakit.rollout.decide.plan import encode_config_plan
    from kafkakit.rollout.decide.settings import parse_steps
    from kafkakit.rollout.report import plan_report, refused_plan
    from kafkakit.wiring import system_clock, write_file

    cli = cli_context(ctx)
    task = change.task(cli, system_clock(), values or [], parse_steps(steps))
    with open_session(cli, read_only=True) as session:
        cli.cluster_id = session.cluster_id
        made = plan_change(task, session.admin, session.clock, lambda: change.tags.read(session))
    notes, is_refused = [], bool(made.errors) and not force
    if plan is not None and not is_refused:
        write_file(plan, encode_config_plan(made))
        notes.append(
            f"wrote {plan}; carry it out with: {shell_command('config apply', str(plan), program=cli.program)}"
        )
    report = plan_report(made, "config plan", fail_on_changes=exit_code, notes=notes)
    return finish(cli, refused_plan(report, made, writes=plan is not None) if is_refused else report)


def diff(ctx: typer.Context, a: Side, b: Side, exit_code: ExitCodeOption = False) -> int:
    """Show the settings that differ between clusters, files and times.

    Of a file, only the resources that it names are compared. A time is what is set now, without what journals of this
    host have written since.

    Examples:

    \b
    kafkakit --profile prod config diff live profile:staging
    kafkakit --profile prod config diff clusters/prod.yaml live
    kafkakit --profile prod config diff time:2026-11-24T01:30:00Z live
    """
    from kafkakit.rollout.decide.plan import difference
    from kafkakit.rollout.report import diff_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        one, other = side_of(cli, session, a), side_of(cli, session, b)
    return finish(cli, diff_report(one.name, other.name, difference(one, other), exit_code=exit_code))


@with_option_groups
def apply(
    ctx: typer.Context,
    plan: PlanPath,
    rehearsal: TrialOptions,
    restarts: RestartOptions,
    watch: HealthWatchOptions,
    consent: Consent,
) -> int:
    """Carry out a plan step by step; a step that makes the cluster worse than its baseline is rolled back.

    Each step is watched for a window: offline partitions, partitions under min ISR, ISR shrinks and expands, leader
    changes, with a metrics service latency and client errors, and with --group the lag of consumer groups.
    docs/config.md has the test. Exits with 1 if values were rolled back. The same command continues after any
    interruption.

    Examples:

    \b
    kafkakit --profile prod config apply change.json --rehearse mirror
    kafkakit --profile prod config apply change.json --yes --metrics prometheus --prometheus-url http://prom:9090
    """
    from kafkakit.rollout.act.rollouts import (
        Rollouts,
        refused_change,
        refused_there,
        rehearse,
        require_cluster,
        require_fresh,
        require_mirror,
        usable_plan,
    )
    from kafkakit.rollout.act.writing import read_configs
    from kafkakit.rollout.decide.rollout import RolloutEnd
    from kafkakit.rollout.report import nothing_report, plan_report, run_report, step_lines

    cli, command = cli_context(ctx), restarts.command()
    wanted = usable_plan(read_plan(plan), leave_restarts=restarts.leave_restarts, can_restart=bool(command))
    settings, service = watch.settings(cli, command, restarts.settle), watch.service(cli)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=consent.dry_run))
        require_cluster(wanted, session.cluster_id)
        if consent.dry_run:
            rollouts = Rollouts(session.access(), ports_of(session, service, command))
            found = rollouts.check(wanted)
            refused = list(found.refused)
            if rehearsal.rehearse is not None:
                mirror = stack.enter_context(open_mirror(cli, rehearsal.rehearse, read_only=True))
                require_mirror(session.cluster_id, mirror.cluster_id, rehearsal.rehearse)
                live, profile = read_configs(session.admin, session.clock), rehearsal.rehearse
                refused += refused_there(
                    mirror.access(), wanted, live, profile=profile, accept_unlike=rehearsal.accept_unlike
                )
            report = plan_report(wanted, "config apply", notes=found.notes)
            return finish(cli, replace(report, failure=refused_change(refused) if refused else None))
        access = session.claim("config apply", session.cluster_id)
        rollouts = Rollouts(access, ports_of(session, service, command))
        is_new = rollouts.journals.of_plan(wanted).is_empty
        if rehearsal.rehearse is not None and is_new:
            consent.require_possible(cli)  # the rehearsal changes a cluster before the question
            live = read_configs(access.admin, access.clock)
            require_fresh(wanted, live)
            rollouts.require_accepted(wanted, live)
            mirror = stack.enter_context(open_mirror(cli, rehearsal.rehearse))
            require_mirror(session.cluster_id, mirror.cluster_id, rehearsal.rehearse)
            mirrored = mirror.claim("config apply", mirror.cluster_id)
            cli.output.say(f"rehearsing on profile {rehearsal.rehearse}")
            profile, unlike = rehearsal.rehearse, rehearsal.accept_unlike
            tried = Rollouts(mirrored, ports_of(mirror, None, command, profile))
            cli.operation_words = rehearsal_stopped(cli, profile)
            rehearse(wanted, live, tried, mirrored, settings, profile=profile, accept_unlike=unlike)
        cli.operation_words = None if is_new else stopped_text(cli)  # until it is begun, nothing stays open
        done = rollouts.apply(
            wanted, settings, lambda: confirm_begin(cli, consent, session.cluster_id, step_lines(wanted))
        )
    if done is None:
        return finish(cli, nothing_report("config apply", wanted.cluster_id))
    return finish(cli, run_report("config apply", done.name, done.state, cli.program, wanted=RolloutEnd.APPLIED))


@with_option_groups
def resume(
    ctx: typer.Context, restarts: RestartOptions, watch: HealthWatchOptions, consent: Consent, run: RunName = None
) -> int:
    """Continue an open rollout, in its direction: the remaining steps, or the rollback.

    It keeps the window, interval, baseline and groups that it began with.

    Examples:

    \b
    kafkakit --profile prod config resume --yes
    """
    from kafkakit.rollout.act.rollouts import Rollouts
    from kafkakit.rollout.decide.rollout import RolloutEnd
    from kafkakit.rollout.report import run_report, steps_left

    cli, command = cli_context(ctx), restarts.command()
    with open_session(cli, read_only=consent.dry_run) as session:
        access = session.access() if consent.dry_run else session.claim("config resume")
        rollouts = Rollouts(access, ports_of(session, watch.service(cli), command))
        journal = rollouts.journals.only_open() if run is None else rollouts.journals.named(run)
        cli.operation_words = stopped_text(cli)
        left = steps_left(journal.rollout)
        if consent.dry_run or not confirm(cli, consent, session.cluster_id, lambda: left or ["taking back continues"]):
            return finish(cli, run_report("config resume", journal.run, journal.rollout, cli.program, wanted=None))
        done = rollouts.proceed(journal)
    return finish(cli, run_report("config resume", done.name, done.state, cli.program, wanted=RolloutEnd.APPLIED))


@with_option_groups
def abort(ctx: typer.Context, restarts: RestartOptions, consent: Consent, run: RunName = None) -> int:
    """Roll back an open rollout; a process that works on it is asked to do it.

    Examples:

    \b
    kafkakit --profile prod config abort --yes
    """
    from kafkakit.rollout.act.rollouts import ABORTED, Rollouts, abort_or_request
    from kafkakit.rollout.decide.rollout import RolloutEnd
    from kafkakit.rollout.report import requested_report, run_report

    cli, command = cli_context(ctx), restarts.command()
    with open_session(cli, read_only=True) as session:
        cluster_id, ports = session.cluster_id, ports_of(session, None, command)
        here = Rollouts(session.access(), ports)
        if consent.dry_run or not confirm(cli, consent, cluster_id, lambda: here.abort_lines(run)):
            journal = here.journals.to_abort(run)
            state, undo = journal.rollout, here.undoing(journal)
            return finish(cli, run_report("config abort", journal.run, state, cli.program, wanted=None, undo=undo))
        cli.operation_words = stopped_text(cli)
        done = abort_or_request(
            partial(open_access, cli, "config abort", cluster_id=cluster_id),
            lambda: session.control,
            session.clock,
            cluster_id,
            lambda access: Rollouts(access, ports).take_back_open(run, ABORTED),
            session.requester,
            wait_s=60.0,
        )
    if isinstance(done, str):
        return finish(cli, requested_report(cluster_id, done))
    return finish(cli, run_report("config abort", done.name, done.state, cli.program, wanted=RolloutEnd.TAKEN_BACK))


@with_option_groups
def rollback(ctx: typer.Context, restarts: RestartOptions, consent: Consent, run: RunName = None) -> int:
    """Roll back a rollout that ended; the newest that is in force if none is given.

    A value that another process has changed since is kept, and reported.

    Examples:

    \b
    kafkakit --profile prod config rollback --yes
    """
    from kafkakit.rollout.act.rollouts import Rollouts
    from kafkakit.rollout.decide.rollout import RolloutEnd
    from kafkakit.rollout.report import run_report

    cli, command = cli_context(ctx), restarts.command()
    with open_session(cli, read_only=consent.dry_run) as session:
        access = session.access() if consent.dry_run else session.claim("config rollback")
        rollouts = Rollouts(access, ports_of(session, None, command))
        journal = rollouts.journals.to_roll_back(run)
        if consent.dry_run or not confirm(cli, consent, session.cluster_id, lambda: rollouts.undoing(journal).lines):
            state, undo = journal.rollout, rollouts.undoing(journal)
            return finish(cli, run_report("config rollback", journal.run, state, cli.program, wanted=None, undo=undo))
        cli.operation_words = stopped_text(cli)
        done = rollouts.take_back(journal, "rolled back by an operator")
    return finish(cli, run_report("config rollback", done.name, done.state, cli.program, wanted=RolloutEnd.TAKEN_BACK))


@with_option_groups
def watch(
    ctx: typer.Context,
    options: HealthWatchOptions,
    windows: Annotated[int, typer.Option("--windows", min=1, max=1000, help="How many windows to watch.")] = 1,
) -> int:
    """Watch a cluster as a rollout does, and change nothing: measure the baseline, then judge each window.

    Exits with 1 if a window is worse than the baseline.

    Examples:

    \b
    kafkakit --profile prod config watch --baseline 10m --window 2m --windows 5
    """
    from kafkakit.rollout.act.rollouts import HealthWatch, watch_windows
    from kafkakit.rollout.act.writing import PartitionWatch
    from kafkakit.rollout.report import watch_report

    cli = cli_context(ctx)
    settings = options.settings(cli)
    with open_session(cli, read_only=True) as session:
        partitions = PartitionWatch(session.admin, session.clock)
        lag = open_lag(session, settings.groups) if settings.groups else None
        watching = HealthWatch(partitions, options.service(cli), session.clock, settings, cli.output, lag=lag)
        cluster_id, verdicts = session.cluster_id, watch_windows(watching, windows)
    return finish(cli, watch_report(cluster_id, verdicts))


def history(ctx: typer.Context, run: RunName = None) -> int:
    """List the rollouts of a cluster from this host's journals, or what one of them wrote and why it was rolled back.

    Works while the cluster is down: if the profile, or -X, sets cluster_id, no cluster is asked; if the cluster does
    not answer, the rollouts of all clusters are listed.

    Examples:

    \b
    kafkakit --profile prod config history
    kafkakit --profile prod config history 3f2a90c21b7d
    kafkakit -X cluster_id=vPzsQJBnTdC2kXxE7BJJtg config history
    """
    from kafkakit.rollout.act.writing import RolloutJournals
    from kafkakit.rollout.report import changes_report, history_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        cluster_id = session.known_cluster_id("these are this host's rollouts of all clusters")
        journals = RolloutJournals(session.settings.state_dir, cluster_id, session.clock)
    if run is not None:
        return finish(cli, changes_report(run, journals.named(run).rollout))
    found = [(path.stem, state) for path, state in journals.states()]
    return finish(cli, history_report(cluster_id, found, journals.damages()))


app = new_group("Change configuration step by step: rehearsed, watched, taken back.")
app.command("plan", cls=CliCommand, short_help="Show what a change would do.")(plan)
app.command("apply", cls=CliCommand, short_help="Carry out a plan, watched step by step.")(apply)
app.command("resume", cls=CliCommand, short_help="Continue an open rollout.")(resume)
app.command("abort", cls=CliCommand, short_help="Take an open rollout back.")(abort)
app.command("rollback", cls=CliCommand, short_help="Take back a rollout that ended.")(rollback)
app.command("watch", cls=CliCommand, short_help="Watch a cluster's health, and change nothing.")(watch)
app.command("history", cls=CliCommand, short_help="List rollouts, or what one wrote.")(history)
app.command("diff", cls=CliCommand, short_help="Show settings that differ.")(diff)
