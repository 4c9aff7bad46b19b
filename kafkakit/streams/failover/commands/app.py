"""`kafkakit streams failover` and its neighbours `streams move`, `streams repartition` and `streams verify-drain`.

`plan`, `run`, `resume` and `abort` carry an operation out, `return_stream` moves a stream home, `certify`, `retire` and
`reclaim` end it with proof, `rehearse` tries it on a shadow stream, `status` and `history` look at it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Approval, Consent
from kafkakit.cli.session import finish
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions
from kafkakit.core.text import shell_command
from kafkakit.streams.failover.commands.options import (
    BackRequest,
    LaneNames,
    LiveOptions,
    MoveRequest,
    RehearsalOptions,
    RepartitionRequest,
    StreamName,
    Wait,
    open_failover,
)
from kafkakit.streams.failover.decide.operation import FailoverRequest


@with_option_groups
def plan(ctx: typer.Context, request: FailoverRequest) -> int:
    """Show what a failover would do and need: a verdict for each precondition, fences, windows, and duplicates.

    Nothing is written. Exits with 2 if a precondition is not met.

    Examples:

    \b
    kafkakit --profile prod streams failover plan orders --to east
    """
    from kafkakit.streams.failover.report import plan_report

    cli = cli_context(ctx)
    with open_failover(cli, request.stream) as session:
        found = session.planner(session.parts()).plan(request, measured=True)
    return finish(cli, plan_report(found))


@with_option_groups
def run(
    ctx: typer.Context,
    request: FailoverRequest,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    wait: Wait = "10m",
) -> int:
    """Move a stream to another cluster: new topics, producers sent there, the old topics read to their ends.

    Groups get their first offsets in the new topics, consumers read both, then one change of the route moves all
    lanes. The old topics are fenced, sealed when their ends stay the same, drained, certified, and taken out of the
    route; `reclaim` deletes them. The same command continues after any interruption. Exits with 0 when the old topics
    are retired, 75 while something has to be waited for, 2 when refused, and 1 when a record came after the seal.

    Examples:

    \b
    kafkakit --profile prod streams failover run orders --to east --yes
    kafkakit --profile prod streams failover run orders --to east --emergency --yes
    """
    return carry_out(ctx, "streams failover run", request, consent, approval, wait, events)


@with_option_groups
def resume(ctx: typer.Context, stream: StreamName, consent: Consent, events: EventOptions, wait: Wait = "10m") -> int:
    """Continue the open operation of a stream as it was begun.

    Examples:

    \b
    kafkakit --profile prod streams failover resume orders --dry-run
    kafkakit --profile prod streams failover resume orders --yes
    """
    return carry_on(ctx, stream, wait, "retired", "resume", consent, events)


@with_option_groups
def abort(ctx: typer.Context, stream: StreamName, consent: Consent) -> int:
    """Abort an operation before producers have moved: its new topics are deleted if they are still empty.

    Examples:

    \b
    kafkakit --profile prod streams failover abort orders --yes
    """
    from kafkakit.streams.failover.act.closing import abort as take_back
    from kafkakit.streams.failover.act.closing import read_abortable
    from kafkakit.streams.failover.report import closing_report

    cli = cli_context(ctx)
    with open_failover(cli, stream, "" if consent.dry_run else "streams failover abort") as session:
        parts = session.parts()
        found = read_abortable(parts, stream, session.cluster)
        if not consent.dry_run and consent.confirm(cli, f"Abort the operation of stream {stream}?"):
            found = take_back(parts, session.cluster, stream)
        else:
            session.audit.note_not_begun("")
    return finish(cli, closing_report("streams failover abort", found))


@with_option_groups
def return_stream(
    ctx: typer.Context,
    request: BackRequest,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    lane: LaneNames = None,
    wait: Wait = "10m",
) -> int:
    """Return a stream to the cluster that it left, as a new operation: `failover run` with that cluster as `--to`.

    The history of the route names the cluster. Repeated after it is done, the command changes nothing.

    Examples:

    \b
    kafkakit --profile prod streams failover back orders --yes
    """
    request = replace(request, lanes=tuple(sorted(set(lane or ()))))
    return carry_out(ctx, "streams failover back", request, consent, approval, wait, events)


Id = Annotated[
    str,
    typer.Option("--operation", metavar="ID", help="The operation; the newest with a certificate if not given."),
]


@with_option_groups
def certify(
    ctx: typer.Context,
    stream: StreamName,
    consent: Consent,
    wait: Wait = "10m",
    operation: Id = "",
    show: Annotated[bool, typer.Option("--print", help="Print the certificate, as a file for verify-drain.")] = False,
) -> int:
    """Continue an open operation until its old topics are drained, or print the certificate of one that is.

    Examples:

    \b
    kafkakit --profile prod streams failover certify orders --yes
    kafkakit --profile prod streams failover certify orders --print > orders.cert
    """
    from kafkakit.streams.failover.act.closing import newest_certificate
    from kafkakit.streams.failover.report import certificate_report

    cli = cli_context(ctx)
    if not show:
        return carry_on(ctx, stream, wait, "drained", "certify", consent)
    with open_failover(cli, stream) as session:
        _, data = newest_certificate(session.parts().journals, operation)
    return finish(cli, certificate_report(data))


@with_option_groups
def retire(ctx: typer.Context, stream: StreamName, consent: Consent, wait: Wait = "10m") -> int:
    """Continue an open operation until its old topics are out of the route; ends and offsets are read once more.

    Examples:

    \b
    kafkakit --profile prod streams failover retire orders --yes
    """
    return carry_on(ctx, stream, wait, "retired", "retire", consent)


USUAL_GRACE = "24h"


@with_option_groups
def reclaim(
    ctx: typer.Context,
    stream: StreamName,
    consent: Consent,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long after they were retired topics stay.")
    ] = USUAL_GRACE,
    keep: Annotated[bool, typer.Option("--keep", help="Delete nothing: close the operation.")] = False,
    recover: Annotated[
        bool,
        typer.Option(
            "--recover",
            help="First copy records that came after the seal, and dead letters that were left, to the current topics "
            "of their lanes.",
        ),
    ] = False,
    operation: Id = "",
) -> int:
    """Delete the old topics of a retired operation by their ids, unless a record came after the seal.

    Exits with 1 and deletes nothing if one did; with 75 within the grace period, and as long as a topic is kept for
    its dead letters, while the others are deleted.

    Examples:

    \b
    kafkakit --profile prod streams failover reclaim orders --yes
    kafkakit --profile prod streams failover reclaim orders --recover --yes
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.core.quantities import parse_duration_or_zero
    from kafkakit.streams.failover.act.closing import read_reclaimable
    from kafkakit.streams.failover.act.closing import reclaim as delete_old
    from kafkakit.streams.failover.report import closing_report

    cli, grace_s = cli_context(ctx), parse_duration_or_zero(grace, "--grace")
    if keep and recover:
        raise UsageError("--keep leaves the old topics as they are, and --recover copies from them: give one of them")
    with open_failover(cli, stream, "" if consent.dry_run else "streams failover reclaim") as session:
        session.require_known()
        parts = session.parts()
        found = read_reclaimable(parts, session.cluster, operation)
        if not consent.dry_run and consent.confirm(cli, f"Delete the old topics of stream {stream}?"):
            name = found.record.operation.id
            found = delete_old(parts, session.cluster, name, grace_s=grace_s, keep=keep, recover=recover)
            session.audit.note_closing(found)
        else:
            session.audit.note_not_begun("")
    report = closing_report("streams failover reclaim", found, cli.program, "" if grace == USUAL_GRACE else grace)
    return finish(cli, report)


@with_option_groups
def rehearse(
    ctx: typer.Context,
    stream: StreamName,
    options: RehearsalOptions,
    consent: Consent,
    wait: Wait = "2m",
    only_remove: Annotated[
        bool, typer.Option("--only-remove", help="Remove what a rehearsal that was killed has left, and end.")
    ] = False,
) -> int:
    """Rehearse a failover on a shadow stream, and keep how long each step took with a readiness score.

    A stream kafkakit-rehearsal.STREAM with the same lanes, partitions, replicas and topic settings is made on the same
    clusters, written and read at the rate, and failed over as `run` does it. Its topics, group, ACLs and documents are
    removed at the end, even after Ctrl-C; the next rehearsal removes what a killed one has left. The stream itself is
    not touched, but its brokers have the load.

    The score is 0 unless the shadow was retired, its certificate held and every answered record was handled; else 100,
    less 2 for each second of the failover above 10 s (40 at most), less 10 for each second above 1 s of the longest
    time without an answer (30 at most), less 20 if more records came again than the plan said, less 20 times the share
    of the rate that was not written. `history --rehearsals` takes off one more for each day since.

    Exits with 0 when the shadow was retired without loss, 1 when records were lost, 2 when the plan was refused, and 75
    when something had to be waited for too long.

    Examples:

    \b
    kafkakit --profile prod streams failover rehearse orders --to east --yes
    kafkakit --profile prod streams failover rehearse orders --to east --rate 2000 --load 30s --yes
    """
    from kafkakit.core.errors import RefusedError
    from kafkakit.core.quantities import parse_duration_or_zero
    from kafkakit.streams.failover.act.rehearsal import forget_lease, remove_leftovers
    from kafkakit.streams.failover.act.rehearsal import rehearse as carry_out
    from kafkakit.streams.failover.decide.history import shadow_of
    from kafkakit.streams.failover.report import leftovers_report, rehearsal_report
    from kafkakit.streams.routes.api_act import RouteStore

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    if consent.dry_run:
        planned = shell_command("streams failover plan", stream, to=options.to)
        raise RefusedError("a rehearsal has no dry run", hint=f"this writes nothing: {planned}")
    with open_failover(cli, shadow_of(stream), "streams failover rehearse", audited_as=stream) as session:
        route = RouteStore(session.home.control).existing(stream).route
        cli.load_settings(options.to)
        question = f"Make a shadow of stream {stream}, and write to its clusters and to {options.to}?"
        if not only_remove and not consent.confirm(cli, question):
            return finish(cli, leftovers_report(stream, ()))
        session.after_release(lambda: forget_lease(session.home.control, session.stream))
        parts = options.parts(session, stream, session.parts())
        sources = tuple(segment.cluster for _, segment in route.segments())
        left = remove_leftovers(parts, (*sources, options.to))
        cli.output.say(f"removed: {', '.join(left)}" if left else "no earlier rehearsal has left anything")
        if only_remove:
            return finish(cli, leftovers_report(stream, left))
        rehearsal = options.rehearsal(session, stream, route, parts)
        cli.operation_words = ("stopped; the shadow stream may be there", "--only-remove removes it")
        done = carry_out(parts, rehearsal, route, wait_s)
    return finish(cli, rehearsal_report(done))


@with_option_groups
def status(ctx: typer.Context, stream: StreamName, options: LiveOptions) -> int:
    """Show the state of a stream's newest operation, and which process works on it.

    Without --watch the route and the journal are read, and no cluster. With it the clusters are read again and again
    until no operation is open: what is written to each segment, what each group has left to read of the old topics,
    what is waited for, and the time left. A terminal gets a screen that is replaced, any other output a line for each
    phase; the result is the last look. Ctrl-C ends only the watching.

    Examples:

    \b
    kafkakit --profile prod streams failover status orders
    kafkakit --profile prod streams failover status orders --watch --metrics /var/lib/node_exporter/failover.prom
    """
    from kafkakit.streams.failover.act.operations import OperationWatcher, find_newest
    from kafkakit.streams.failover.commands.options import watch_operation
    from kafkakit.streams.failover.decide.operation import step_by_route
    from kafkakit.streams.failover.report import live_report, status_report

    cli = cli_context(ctx)
    options.refuse_unused()
    with open_failover(cli, stream) as session:
        if options.watch:
            watcher = OperationWatcher(stream, session.parts(), session.cluster, session.lease_words)
            return finish(cli, live_report(watch_operation(cli, session.home.clock, stream, watcher, options)))
        route = session.route
        record = find_newest(session.parts().journals, route)
        lease = session.lease_words()
    step = None if record is None else step_by_route(record.operation, route)
    return finish(cli, status_report(stream, record, step, lease))


def history(
    ctx: typer.Context,
    stream: StreamName,
    rehearsals: Annotated[
        bool, typer.Option("--rehearsals", help="Show the rehearsals of the stream, and how ready it is by the newest.")
    ] = False,
) -> int:
    """Show all operations of a stream, and every command that could change it: when, by which operator, on which plan.

    The plan is the hash of the operation with the limits that the command gave. Commands are in the audit log of the
    stream, in the control store.

    Examples:

    \b
    kafkakit --profile prod streams failover history orders
    kafkakit --profile prod streams failover history orders --rehearsals
    """
    from kafkakit.core.quantities import epoch_ms
    from kafkakit.streams.failover.act.operations import commands_of
    from kafkakit.streams.failover.act.rehearsal import RehearsalHistory
    from kafkakit.streams.failover.report import history_report, rehearsals_report

    cli = cli_context(ctx)
    with open_failover(cli, stream) as session:
        session.require_known()
        if rehearsals:
            kept = RehearsalHistory(session.home.control, session.stream).read()
            return finish(cli, rehearsals_report(stream, kept, epoch_ms(session.home.clock.now())))
        found = tuple(session.parts().journals.records())
        commands, damaged = commands_of(session.home.control, session.stream)
    return finish(cli, history_report(stream, found, commands, damaged))


def carry_out(
    ctx: typer.Context,
    command: str,
    request: FailoverRequest,
    consent: Consent,
    approval: Approval,
    wait: str,
    events: EventOptions,
) -> int:
    """Begin the operation of a request, or continue it, until the old topics are retired."""
    from kafkakit.core.quantities import parse_duration_or_zero
    from kafkakit.report.report import cluster_words
    from kafkakit.streams.failover.act.operations import aim_request
    from kafkakit.streams.failover.decide.operation import Step
    from kafkakit.streams.failover.report import plan_report, run_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    with open_failover(cli, request.stream, "" if consent.dry_run else command, events) as session:
        parts = session.parts()
        planner, request = session.planner(parts), aim_request(parts, request)
        begun = None if consent.dry_run else planner.resume(request, session.route)
        done = None if begun or consent.dry_run else planner.finished(request, session.route)
        if done is not None:
            return finish(cli, run_report(command, done, cli.program))
        if begun is None:
            found = planner.plan(request)
            report, place = plan_report(found, command), cluster_words(found.operation.cluster_id, request.to)
            if found.refused or consent.dry_run:
                session.audit.note_not_begun(found.refused[0].check if found.refused else "")
                return finish(cli, plan_report(found, command, "nothing is done"))
            cli.output.say(report.text)
            aim = f"new topics on {place}" if request.partitions else place
            if not consent.confirm(cli, f"Send the producers of stream {request.stream} to {aim}?"):
                session.audit.note_not_begun("")
                return finish(cli, plan_report(found, command, "nothing is done"))
            begun = planner.begin(found, approval.words(cli, found.sha256, report.data))
        cli.operation_words = ("stopped; the operation stays open", "run the same command again to continue")
        end = begun.run(Step.RETIRED, wait_s)
        session.audit.note(end)
    return finish(cli, run_report(command, end, cli.program))


def carry_on(
    ctx: typer.Context,
    stream: str,
    wait: str,
    until: str,
    verb: str,
    consent: Consent,
    events: EventOptions = NO_EVENTS,
) -> int:
    """Show the open operation of a stream, and continue it until a step is reached."""
    from functools import partial

    from kafkakit.core.errors import RefusedError
    from kafkakit.core.quantities import parse_duration_or_zero
    from kafkakit.streams.failover.decide.operation import Step, step_by_route
    from kafkakit.streams.failover.report import run_report, status_report

    cli, wait_s, command = cli_context(ctx), parse_duration_or_zero(wait, "--wait"), f"streams failover {verb}"
    with open_failover(cli, stream, "" if consent.dry_run else command, events) as session:
        lease, parts, route = session.lease_words(), session.parts(), session.route
        begun = session.planner(parts).open_run(route)
        if begun is None:
            hint = f"its operations: {shell_command('streams failover history', stream)}"
            raise RefusedError(f"stream {stream} has no open operation", hint=hint)
        shown = partial(status_report, stream, begun.record, step_by_route(begun.record.operation, route), lease)
        if not (consent.dry_run or consent.yes):
            cli.output.say(shown().text.rstrip("\n"))
        if consent.dry_run or not consent.confirm(
            cli, f"Continue until the old topics of stream {stream} are {until}?"
        ):
            session.audit.note_not_begun("")
            return finish(cli, shown(command))
        cli.operation_words = ("stopped; the operation stays open", "run the same command again to continue")
        end = begun.run(Step(until), wait_s)
        session.audit.note(end)
    return finish(cli, run_report(command, end, cli.program))


app = new_group("Move a stream to another cluster without loss, and prove it.")
app.command("plan", cls=CliCommand, short_help="Show what a failover would do and need.")(plan)
app.command("run", cls=CliCommand, short_help="Move a stream to another cluster.")(run)
app.command("back", cls=CliCommand, short_help="Return a stream to the cluster that it left.")(return_stream)
app.command("status", cls=CliCommand, short_help="Show where the newest operation stands.")(status)
app.command("resume", cls=CliCommand, short_help="Continue the open operation.")(resume)
app.command("abort", cls=CliCommand, short_help="Take an operation back before producers have moved.")(abort)
app.command("certify", cls=CliCommand, short_help="Continue until the old topics are drained.")(certify)
app.command("retire", cls=CliCommand, short_help="Continue until the old topics are retired.")(retire)
app.command("reclaim", cls=CliCommand, short_help="Delete the old topics of a retired operation.")(reclaim)
app.command("rehearse", cls=CliCommand, short_help="Rehearse a failover on a shadow stream.")(rehearse)
app.command("history", cls=CliCommand, short_help="Show all operations and commands of a stream.")(history)


@with_option_groups
def move(
    ctx: typer.Context,
    request: MoveRequest,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    lane: LaneNames = None,
    wait: Wait = "10m",
) -> int:
    """Move a stream to another cluster while both work, like `failover run` without --emergency.

    Examples:

    \b
    kafkakit --profile prod streams move orders --to east --dry-run
    kafkakit --profile prod streams move orders --to east --yes
    """
    request = replace(request, lanes=tuple(sorted(set(lane or ()))))
    return carry_out(ctx, "streams move", request, consent, approval, wait, events)


@with_option_groups
def repartition(
    ctx: typer.Context,
    request: RepartitionRequest,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    wait: Wait = "10m",
) -> int:
    """Give a lane another number of partitions: a new topic on the same cluster takes its writes, the old one drains.

    A key may belong to another partition then. With `--order strict` consumers read the new topic only once the old one
    is retired, so records of a key stay in order; refused if members of a group are plain clients.

    Examples:

    \b
    kafkakit --profile prod streams repartition orders --lane live --partitions 24 --order strict --yes
    """
    return carry_out(ctx, "streams repartition", request, consent, approval, wait, events)


def verify_drain(
    ctx: typer.Context,
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="The certificate's file; - for stdin.")],
    offline: Annotated[bool, typer.Option("--offline", help="Check only the file; read no cluster.")] = False,
) -> int:
    """Check a drain certificate: its hash, then the ends and offsets of the topics that are still there.

    Records that came after a seal are not counted as late once `failover reclaim --recover` has copied them.

    Exits with 2 for a certificate that was changed, with 1 if records or offsets have changed since, and with 75 if a
    cluster could not be read.

    Examples:

    \b
    kafkakit --profile prod streams verify-drain orders.cert
    """
    from kafkakit.streams.failover.act.closing import check_again
    from kafkakit.streams.failover.decide.history import LIMIT_BYTES, CertificateCheck, decode_certificate
    from kafkakit.streams.failover.report import check_report
    from kafkakit.wiring import read_input

    cli = cli_context(ctx)
    found = decode_certificate(read_input(certificate, LIMIT_BYTES), str(certificate))
    if offline:
        return finish(cli, check_report(CertificateCheck(certificate=found)))
    with open_failover(cli, found.stream) as session:
        check = check_again(found, session.parts().journals, session.cluster)
    return finish(cli, check_report(check))
