"""`kafkakit broker drain`, `replace` and `decommission`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.broker.commands.options import DrainOptions, Ids, New, Old, PlacementOptions
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.command_line import given_words
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent, ExecutionOptions

if TYPE_CHECKING:
    from kafkakit.broker.decide.plans import OperationGoal

_PLANNING = ("to", "exclude_receivers", "placement", "min_rack_ids", "spread", "with_", "ignore_warns")


@with_option_groups
def drain(ctx: typer.Context, brokers: Ids, options: DrainOptions, execution: ExecutionOptions) -> None:
    """Move everything off brokers: leaderships first, then every replica, and verify that none is left.

    Plans like `topicmappr drain`, shows the plan and its forecast, asks for confirmation, and carries it out like
    `reassign apply`. It can be stopped at any time and run again: it resumes. Exits with 0 only when the brokers
    hold and lead nothing.

    Examples:

    \b
    kafkakit --profile prod broker drain 1004 --dry-run
    kafkakit --profile prod broker drain 1004 --throttle 20MB
    kafkakit --profile prod broker drain 1004,1007 --to 1001,1002,1003 --yes
    """
    _move(ctx, options.goal("drain", brokers, execution.rates.throttle), options, execution)


@with_option_groups
def replace(ctx: typer.Context, old: Old, with_: New, options: PlacementOptions, execution: ExecutionOptions) -> None:
    """Move every replica of one broker to another, each to the same place of its list.

    Once its copies are in sync, the new broker also leads where the old one was the preferred leader. Exits with 4
    when the new broker's rack or disks do not allow it, or when it holds a copy of one of the partitions already.
    Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker replace 1004 --with 1009 --dry-run
    kafkakit --profile prod broker replace 1004 --with 1009 --throttle 20MB --yes
    """
    _move(ctx, options.replacement(old, with_, execution.rates.throttle), options, execution)


@with_option_groups
def decommission(ctx: typer.Context, brokers: Ids, options: DrainOptions, execution: ExecutionOptions) -> None:
    """Drain brokers, report whether they may be stopped for good, and unregister those that are stopped.

    Brokers may be stopped when they hold no replica, lead no partition and do not report to be controllers.
    Cautions name what the cluster cannot do without them. Planning commands leave the brokers out from the start on.
    Once their processes are stopped, the same command again takes them off the cluster's list. Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker decommission 1004 --dry-run
    kafkakit --profile prod broker decommission 1004 --throttle 20MB
    """
    _move(ctx, options.goal("decommission", brokers, execution.rates.throttle), options, execution)


def _move(ctx: typer.Context, goal: OperationGoal, options: PlacementOptions, execution: ExecutionOptions) -> None:
    from dataclasses import replace as replace_fields
    from functools import partial

    from kafkakit.broker.act.elections import Elections, Pace
    from kafkakit.broker.act.leaving import Unregister
    from kafkakit.broker.act.move_off import MoveOff
    from kafkakit.broker.act.operation_files import open_records, operation_lock
    from kafkakit.broker.act.plan_runner import ReassignRunner
    from kafkakit.broker.decide.operation import Kind, Operation, base_name
    from kafkakit.broker.decide.request import MoveRequest
    from kafkakit.broker.show import outcome_report
    from kafkakit.cli.plan_file import read_plan
    from kafkakit.cli.run_options import run_request
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.shell_words import quote
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    consent.require_possible(cli)
    kind = Kind(goal.words["command"].removeprefix("broker "))
    listed = goal.words["brokers"]
    again = " ".join([cli.program, "broker", kind.value, listed, *given_words(ctx), "--yes"])
    back = " ".join([*given_words(ctx, _PLANNING), "--yes"])
    cli.operation_words = (f"stopped; the {kind} is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        records = open_records(state_dir, cluster_id, write_file, session.clock)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, base_name(kind, goal.brokers, goal.onto)))

        def undo_of(operation: Operation) -> str:
            record = quote(str(records.path_of(operation)))
            return f"{cli.program} broker rejoin {listed} --restore {record} {back}"

        request = MoveRequest(
            kind=kind,
            goal=goal,
            again=again,
            undo_of=undo_of,
            cleanup=f"{cli.program} reassign cleanup --yes",
            confirm=partial(consent.confirm_on, cli, cluster_id),
            bootstrap=cli.settings.bootstrap_servers,
            asks=not consent.yes,
            dry_run=consent.dry_run,
            replan=options.replan,
            ignore_warns=getattr(options, "ignore_warns", False),
        )
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.running.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=undo_of
        )
        elections = Elections(partial(access, f"broker {kind}"), cli.output, Pace(), request.retry_limit_s)
        unregister = Unregister(partial(access, "broker decommission"), cli.output, request.retry_limit_s)
        outcome = MoveOff(
            session.admin,
            session.clock,
            cli.output,
            records,
            runner,
            elections,
            request,
            unregister=unregister,
            planning=partial(answered_at_once, None),
        ).run()
    finish(cli, outcome_report(outcome))
