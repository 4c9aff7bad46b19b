"""`kafkakit broker`: empty a broker, replace it, take it out for good, bring it back."""

from __future__ import annotations

import typer

from kafkakit.broker.commands.moving import decommission, drain, replace
from kafkakit.broker.commands.options import Comers, RejoinOptions
from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.command_line import given_words
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Consent, ExecutionOptions

app = new_group("Drain, replace, decommission and rejoin brokers, each in one resumable step.")

app.command("drain", cls=CliCommand, short_help="Move everything off brokers, and verify that nothing is left.")(drain)
app.command("replace", cls=CliCommand, short_help="Move every replica of one broker to another.")(replace)
app.command("decommission", cls=CliCommand, short_help="Drain brokers and report whether they may be stopped.")(
    decommission
)


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
    from functools import partial

    from kafkakit.broker.act.elections import Elections
    from kafkakit.broker.act.operation_files import open_records, operation_lock
    from kafkakit.broker.act.plan_runner import ReassignRunner
    from kafkakit.broker.act.rejoin import Rejoin
    from kafkakit.broker.commands.options import broker_ids
    from kafkakit.broker.decide.operation import base_name
    from kafkakit.broker.decide.request import RejoinRequest
    from kafkakit.broker.show import outcome_report
    from kafkakit.cli.plan_file import read_plan
    from kafkakit.cli.run_options import run_request
    from kafkakit.cli.session import finish, open_access, open_session
    from kafkakit.core.shell_words import quote
    from kafkakit.wiring import write_file

    cli, consent = cli_context(ctx), execution.consent
    state_dir = cli.settings.state_dir
    ids = broker_ids(brokers, "ID")
    listed = ",".join(map(str, ids))
    command = [cli.program, "broker", "rejoin", listed]
    again = " ".join([*command, *given_words(ctx), "--yes"])
    request = RejoinRequest(
        brokers=ids,
        again=again,
        confirm=lambda question: consent.confirm_on(cli, cluster_id, question),
        wait_s=options.wait_s,
        asks=not consent.yes,
        dry_run=consent.dry_run,
    )
    pace = options.pace
    consent.require_possible(cli)
    cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
    with open_session(cli, read_only=True) as session:
        cluster_id = session.cluster_id
        records = open_records(state_dir, cluster_id, write_file, session.clock)
        if not consent.dry_run:
            session.lock(*operation_lock(state_dir, cluster_id, f"rejoin-{listed[:80]}"))
        record = records.to_restore(options.restore, ids)
        if record is not None:  # by its path: another operation may be the last one by then
            named = quote(str(records.path_of(record)))
            again = " ".join([*command, "--restore", named, *given_words(ctx, ("restore",)), "--yes"])
            request = replace_fields(request, again=again)
            cli.operation_words = ("stopped; the rejoin is not finished", f"to resume: {again}")
        if record is not None and not consent.dry_run:  # its own command must not be running on it
            session.lock(*operation_lock(state_dir, cluster_id, base_name(record.kind, record.brokers, record.onto)))
        template = run_request(cli, None, cluster_id, replace_fields(execution, consent=Consent(yes=True)))
        access = partial(open_access, cli, cluster_id=cluster_id, without_lease=execution.running.without_lease)
        runner = ReassignRunner(
            records, state_dir, cli.output, template, access, read_plan, again=again, undo_of=lambda _: again
        )
        elections = Elections(partial(access, "broker rejoin"), cli.output, pace, request.retry_limit_s)
        rejoining = Rejoin(session.admin, session.clock, cli.output, records, runner, elections, request)
        outcome = rejoining.run(record)
    finish(cli, outcome_report(outcome))
