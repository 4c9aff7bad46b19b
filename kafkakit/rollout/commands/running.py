"""`kafkakit config apply|resume|abort|rollback`."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent
from kafkakit.cli.session import finish, open_access, open_session
from kafkakit.rollout.commands.options import PlanPath, RunName, open_mirror, read_plan
from kafkakit.rollout.commands.run_options import (
    RehearsalOptions,
    RestartOptions,
    WatchOptions,
    confirmed,
    ports_of,
    stopped,
)


@with_option_groups
def apply(
    ctx: typer.Context,
    plan: PlanPath,
    rehearsal: RehearsalOptions,
    restarts: RestartOptions,
    watch: WatchOptions,
    consent: Consent,
) -> int:
    """Carry out a plan step by step; what makes the cluster worse than usual is taken back.

    Each step is watched for a window: offline partitions, partitions under min ISR, ISR shrinks and expands, leader
    changes, and with a metrics service latency and client errors. docs/config.md has the test. Exits with 1 where
    values were taken back. The same command continues after any interruption.

    Examples:

    \b
    kafkakit --profile prod config apply change.json --rehearse mirror
    kafkakit --profile prod config apply change.json --yes --metrics prometheus --prometheus-url http://prom:9090
    """
    from kafkakit.rollout.act.reading import read_configs
    from kafkakit.rollout.act.rollouts import (
        Rollouts,
        rehearsal_on,
        rehearse,
        require_cluster,
        require_fresh,
        require_mirror,
        usable_plan,
    )
    from kafkakit.rollout.decide.journal import RolloutEnd
    from kafkakit.rollout.show.plan import plan_report, step_lines
    from kafkakit.rollout.show.run import nothing_report, run_report

    cli, command = cli_context(ctx), restarts.command()
    consent.require_possible(cli)
    wanted = usable_plan(read_plan(plan), leave_restarts=restarts.leave_restarts, can_restart=bool(command))
    settings, service = watch.settings(cli, command, restarts.settle), watch.service(cli)
    with ExitStack() as stack:
        session = stack.enter_context(open_session(cli, read_only=consent.dry_run))
        require_cluster(wanted, session.cluster_id)
        if consent.dry_run:
            found = Rollouts(session.access(), ports_of(session, service, command)).check(wanted)
            if rehearsal.rehearse is not None:
                mirror = stack.enter_context(open_mirror(cli, rehearsal.rehearse, read_only=True))
                require_mirror(session.cluster_id, mirror.cluster_id, rehearsal.rehearse)
                live, profile = read_configs(session.admin, session.clock), rehearsal.rehearse
                rehearsal_on(mirror.access(), wanted, live, profile=profile, accept_unlike=rehearsal.accept_unlike)
            return finish(cli, plan_report(wanted, "config apply", notes=(found,)))
        access = session.claim("config apply", session.cluster_id)
        cli.operation_words = stopped(cli)
        rollouts = Rollouts(access, ports_of(session, service, command))
        if rehearsal.rehearse is not None and rollouts.journals.of_plan(wanted).is_empty:
            live = read_configs(access.admin, access.clock)
            require_fresh(wanted, live)
            mirror = stack.enter_context(open_mirror(cli, rehearsal.rehearse))
            require_mirror(session.cluster_id, mirror.cluster_id, rehearsal.rehearse)
            mirrored = mirror.claim("config apply", mirror.cluster_id)
            cli.output.say(f"rehearsing on profile {rehearsal.rehearse}")
            tried = Rollouts(mirrored, ports_of(mirror, None, command))
            profile, unlike = rehearsal.rehearse, rehearsal.accept_unlike
            rehearse(wanted, live, tried, mirrored, settings, profile=profile, accept_unlike=unlike)
        done = rollouts.apply(
            wanted, settings, lambda: confirmed(cli, consent, session.cluster_id, lambda: step_lines(wanted))
        )
    if done is None:
        return finish(cli, nothing_report("config apply", wanted.cluster_id))
    return finish(cli, run_report("config apply", done.name, done.state, cli.program, wanted=RolloutEnd.APPLIED))


@with_option_groups
def resume(
    ctx: typer.Context, restarts: RestartOptions, watch: WatchOptions, consent: Consent, run: RunName = None
) -> int:
    """Continue an open rollout, in its direction: the steps that are left, or taking back.

    Window, looks and baseline are those that it was begun with.

    Examples:

    \b
    kafkakit --profile prod config resume --yes
    """
    from kafkakit.rollout.act.rollouts import Rollouts
    from kafkakit.rollout.decide.journal import RolloutEnd
    from kafkakit.rollout.show.run import run_report, steps_left

    cli, command = cli_context(ctx), restarts.command()
    consent.require_possible(cli)
    with open_session(cli, read_only=consent.dry_run) as session:
        access = session.access() if consent.dry_run else session.claim("config resume")
        rollouts = Rollouts(access, ports_of(session, watch.service(cli), command))
        journal = rollouts.journals.only_open() if run is None else rollouts.journals.named(run)
        cli.operation_words = stopped(cli)
        left = steps_left(journal.rollout)
        if consent.dry_run or not confirmed(
            cli, consent, session.cluster_id, lambda: left or ["taking back continues"]
        ):
            return finish(cli, run_report("config resume", journal.run, journal.rollout, cli.program, wanted=None))
        done = rollouts.proceed(journal)
    return finish(cli, run_report("config resume", done.name, done.state, cli.program, wanted=RolloutEnd.APPLIED))


@with_option_groups
def abort(ctx: typer.Context, restarts: RestartOptions, consent: Consent, run: RunName = None) -> int:
    """Take an open rollout back; a process that works on it is asked to.

    Examples:

    \b
    kafkakit --profile prod config abort --yes
    """
    from kafkakit.rollout.act.rollouts import Rollouts, abort_or_request
    from kafkakit.rollout.act.run import ABORTED
    from kafkakit.rollout.decide.journal import RolloutEnd
    from kafkakit.rollout.show.run import requested_report, run_report

    cli, command = cli_context(ctx), restarts.command()
    consent.require_possible(cli)
    with open_session(cli, read_only=True) as session:
        cluster_id, ports = session.cluster_id, ports_of(session, None, command)
        here = Rollouts(session.access(), ports)
        if consent.dry_run or not confirmed(cli, consent, cluster_id, lambda: here.abort_lines(run)):
            journal = here.journals.to_abort(run)
            state, undo = journal.rollout, here.undoing(journal)
            return finish(cli, run_report("config abort", journal.run, state, cli.program, wanted=None, undo=undo))
        cli.operation_words = stopped(cli)
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
    """Take the values of a rollout back after it ended; the newest that is in force if none is named.

    A value that another process has changed since is left alone, and reported.

    Examples:

    \b
    kafkakit --profile prod config rollback --yes
    """
    from kafkakit.rollout.act.rollouts import Rollouts
    from kafkakit.rollout.decide.journal import RolloutEnd
    from kafkakit.rollout.show.run import run_report

    cli, command = cli_context(ctx), restarts.command()
    consent.require_possible(cli)
    with open_session(cli, read_only=consent.dry_run) as session:
        access = session.access() if consent.dry_run else session.claim("config rollback")
        rollouts = Rollouts(access, ports_of(session, None, command))
        journal = rollouts.journals.to_roll_back(run)
        cli.operation_words = stopped(cli)
        if consent.dry_run or not confirmed(cli, consent, session.cluster_id, lambda: rollouts.undoing(journal).lines):
            state, undo = journal.rollout, rollouts.undoing(journal)
            return finish(cli, run_report("config rollback", journal.run, state, cli.program, wanted=None, undo=undo))
        done = rollouts.take_back(journal, "rolled back by an operator")
    return finish(cli, run_report("config rollback", done.name, done.state, cli.program, wanted=RolloutEnd.TAKEN_BACK))
