"""`kafkakit broker`: empty a broker (`drain`), `replace` it, `decommission` it for good, bring it back (`rejoin`).

The options of every run are in `cli/run_options.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from kafkakit.broker.decide.operation import BrokerOperationKind, ElectionPace, OperationGoal, broker_ids
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.completion import BROKER_IDS
from kafkakit.cli.context import given_words
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent, ExecutionOptions
from kafkakit.core.options import (
    Completion,
    duration_option,
    not_typed,
    option,
    required_argument,
    required_option,
    typed_as,
)

app = new_group("Drain, replace, decommission and rejoin brokers, each in one resumable step.")

Comers = Annotated[str, typer.Argument(**BROKER_IDS, help="The brokers that came back.")]
Replacement = Annotated[
    OperationGoal,
    typed_as(
        brokers=required_argument(
            parse=partial(broker_ids, flag="OLD", most=1),
            metavar="ID",
            completion=Completion.BROKERS,
            help="The broker to replace; it may be dead.",
        ),
        onto=required_option(
            "--with",
            parse=lambda text: broker_ids(text, "--with", most=1)[0],
            metavar="ID",
            completion=Completion.BROKERS,
            help="The broker that takes its place.",
        ),
        receiving=not_typed(None),
        exclude_receivers=not_typed(None),
        spread=not_typed(False),
        ignore_warns=not_typed(False),
    ),
]


@with_option_groups
def drain(ctx: typer.Context, goal: OperationGoal, execution: ExecutionOptions) -> None:
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
    _move(ctx, BrokerOperationKind.DRAIN, goal, execution)


@with_option_groups
def replace(ctx: typer.Context, goal: Replacement, execution: ExecutionOptions) -> None:
    """Move every replica of one broker to another, each to the same place of its list.

    Once its copies are in sync, the new broker also leads where the old one was the preferred leader. Exits with 4
    when the new broker's rack or disks do not allow it, or when it holds a copy of one of the partitions already.
    Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker replace 1004 --with 1009 --dry-run
    kafkakit --profile prod broker replace 1004 --with 1009 --throttle 20MB --yes
    """
    _move(ctx, BrokerOperationKind.REPLACE, goal, execution)


@with_option_groups
def decommission(ctx: typer.Context, goal: OperationGoal, execution: ExecutionOptions) -> None:
    """Drain brokers, report whether they may be stopped for good, and unregister those that are stopped.

    Brokers may be stopped when they hold no replica, lead no partition and do not report to be controllers.
    Cautions name what the cluster cannot do without them. Planning commands leave the brokers out from the start on.
    Once their processes are stopped, the same command again takes them off the cluster's list. Resumes like `drain`.

    Examples:

    \b
    kafkakit --profile prod broker decommission 1004 --dry-run
    kafkakit --profile prod broker decommission 1004 --throttle 20MB
    """
    _move(ctx, BrokerOperationKind.DECOMMISSION, goal, execution)


_PLANNING = ("to", "exclude_receivers", "placement", "min_rack_ids", "spread", "onto", "ignore_warns")


def _move(ctx: typer.Context, kind: BrokerOperationKind, goal: OperationGoal, execution: ExecutionOptions) -> None:
    from dataclasses import replace as replace_fields

    from kafkakit.broker.act.move_off import MoveOff, ReassignRunner
    from kafkakit.broker.act.operation_files import Elections, Unregister, open_records, operation_lock
    from kafkakit.broker.decide.operation import BrokerOperation, base_name
    from kafkakit.broker.decide.plans import MoveRequest
    from kafkakit.broker.report import outcome_report
    from kafkakit.cli.run_options import read_plan, run_request
    from kafkakit.cli.search_watch import answered_at_once
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.text import ShellCommand, shell_command
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    goal = goal.recorded(kind, execution.rates.throttle)
    listed = goal.words["brokers"]
    typed = (*given_words(ctx), "--yes")
    again = str(ShellCommand(f"broker {kind.value}", (listed,), program=cli.program, typed=typed))
    back = [*given_words(ctx, _PLANNING), "--yes"]
    cli.operation_words = (f"stopped; the {kind} is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        records = open_records(state_dir, cluster_id, write_file, session.clock)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, base_name(kind, goal.brokers, goal.onto)))

        def undo_of(operation: BrokerOperation) -> str:
            record = str(records.path_of(operation))
            made = shell_command("broker rejoin", listed, program=cli.program, restore=record)
            return str(replace_fields(made, typed=tuple(back)))

        request = MoveRequest(
            kind=kind,
            goal=goal,
            again=again,
            undo_of=undo_of,
            cleanup=str(shell_command("reassign cleanup", program=cli.program, yes=True)),
            confirm=partial(consent.confirm_on, cli, cluster_id),
            bootstrap=cli.settings.bootstrap_servers,
            asks=not consent.yes,
            dry_run=consent.dry_run,
        )
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.rules.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=undo_of
        )
        elections = Elections(partial(access, f"broker {kind}"), cli.output, ElectionPace(), request.retry_limit_s)
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


app.command("drain", cls=CliCommand, short_help="Move everything off brokers, and verify that nothing is left.")(drain)
app.command("replace", cls=CliCommand, short_help="Move every replica of one broker to another.")(replace)
app.command("decommission", cls=CliCommand, short_help="Drain brokers and report whether they may be stopped.")(
    decommission
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinOptions:
    """What is taken back, how long brokers may take, and how fast leaderships pass."""

    restore: str = option(
        "",
        metavar="RECORD",
        help="Undo the operation of this record, the file that `drain` printed at its end; `last`: the last one "
        "on exactly these brokers.",
    )
    wait_s: float = duration_option(
        "30m", "--wait", help="How long to wait for the brokers, and then for their copies."
    )
    pace: ElectionPace = ElectionPace()


@app.command("rejoin", cls=CliCommand, short_help="Return brokers to service, with their leaderships.")
@with_option_groups
def rejoin(ctx: typer.Context, brokers: Comers, options: RejoinOptions, execution: ExecutionOptions) -> None:
    """Return brokers to service that were down or drained, and move their leaderships back in groups.

    Waits until they are registered and unfenced and every copy on them is in sync, then elects them where they are
    the preferred leader. With --restore the plans of a drain are rolled back first: every replica returns, in the
    old order. If it was stopped, run it again: it does what is left. Exits with 75 when a broker or a copy is not
    there in time.

    Examples:

    \b
    kafkakit --profile prod broker rejoin 1004
    kafkakit --profile prod broker rejoin 1004 --leaders-at-once 10 --leaders-pause 30s --yes
    kafkakit --profile prod broker rejoin 1004 --restore last --throttle 20MB
    """
    from dataclasses import replace as replace_fields

    from kafkakit.broker.act.move_off import ReassignRunner, Rejoin
    from kafkakit.broker.act.operation_files import Elections, open_records, operation_lock
    from kafkakit.broker.decide.operation import base_name
    from kafkakit.broker.decide.plans import RejoinRequest
    from kafkakit.broker.report import outcome_report
    from kafkakit.cli.run_options import read_plan, run_request
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.text import shell_command
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    ids = broker_ids(brokers, "ID")
    listed = ",".join(map(str, ids))
    command = shell_command("broker rejoin", listed, program=cli.program)
    again = str(replace_fields(command, typed=(*given_words(ctx), "--yes")))
    request = RejoinRequest(
        brokers=ids,
        again=again,
        confirm=lambda question: consent.confirm_on(cli, cluster_id, question),
        wait_s=options.wait_s,
        asks=not consent.yes,
        dry_run=consent.dry_run,
    )
    cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        records = open_records(state_dir, cluster_id, write_file, session.clock)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, f"rejoin-{listed[:80]}"))
        record = records.to_restore(options.restore, ids)
        if record is not None:  # by its path: another operation may be the last one by then
            named = (("--restore", str(records.path_of(record))),)
            typed = (*given_words(ctx, ("restore",)), "--yes")
            again = str(replace_fields(command, options=named, typed=typed))
            request = replace_fields(request, again=again)
            cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
        if record is not None and not consent.dry_run:  # its own command must not be running on it
            session.lock(*operation_lock(state_dir, cluster_id, base_name(record.kind, record.brokers, record.onto)))
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.rules.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=lambda _: again
        )
        elections = Elections(partial(access, "broker rejoin"), cli.output, options.pace, request.retry_limit_s)
        rejoining = Rejoin(session.admin, session.clock, cli.output, records, runner, elections, request)
        outcome = rejoining.run(record)
    finish(cli, outcome_report(outcome))
