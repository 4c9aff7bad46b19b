"""`kafkakit streams failover plan|run|resume|abort`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Approval, Consent
from kafkakit.cli.session import finish
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions
from kafkakit.streams.failover.commands.options import FailoverOptions, StreamName, Wait, open_failover

if TYPE_CHECKING:
    from kafkakit.streams.failover.decide.operation import FailoverRequest


@with_option_groups
def plan(ctx: typer.Context, stream: StreamName, options: FailoverOptions) -> int:
    """Show what a failover would do and need: a verdict for each precondition, fences, windows, and duplicates.

    Nothing is written. Exits with 2 where a precondition is refused.

    Examples:

    \b
    kafkakit --profile prod streams failover plan orders --to east
    """
    from kafkakit.streams.failover.show.plan import plan_report

    cli = cli_context(ctx)
    request = options.request(stream)
    with open_failover(cli, stream) as session:
        found = session.planner(session.parts()).plan(request, measured=True)
    return finish(cli, plan_report(found))


@with_option_groups
def run(
    ctx: typer.Context,
    stream: StreamName,
    options: FailoverOptions,
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
    return carry_out(ctx, "streams failover run", options.request(stream), consent, approval, wait, events)


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
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.report.report import cluster_words
    from kafkakit.streams.failover.act.operations import aimed
    from kafkakit.streams.failover.decide.operation import Step
    from kafkakit.streams.failover.show.plan import plan_report
    from kafkakit.streams.failover.show.runs import run_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    consent.require_possible(cli)
    with open_failover(cli, request.stream, "" if consent.dry_run else command, events) as session:
        parts = session.parts()
        planner, request = session.planner(parts), aimed(parts, request)
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


@with_option_groups
def resume(ctx: typer.Context, stream: StreamName, events: EventOptions, wait: Wait = "10m") -> int:
    """Continue the open operation of a stream as it was begun.

    Examples:

    \b
    kafkakit --profile prod streams failover resume orders
    """
    return carry_on(ctx, stream, wait, "retired", "resume", events)


def carry_on(
    ctx: typer.Context, stream: str, wait: str, until: str, verb: str, events: EventOptions = NO_EVENTS
) -> int:
    """Continue the open operation of a stream until a step is reached."""
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.core.errors import RefusedError
    from kafkakit.streams.failover.decide.operation import Step
    from kafkakit.streams.failover.show.runs import run_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(wait, "--wait")
    with open_failover(cli, stream, f"streams failover {verb}", events) as session:
        begun = session.planner(session.parts()).open_run(session.route)
        if begun is None:
            raise RefusedError(f"stream {stream} has no open operation", hint="kafkakit streams failover history")
        cli.operation_words = ("stopped; the operation stays open", "run the same command again to continue")
        end = begun.run(Step(until), wait_s)
        session.audit.note(end)
    return finish(cli, run_report(f"streams failover {verb}", end, cli.program))


@with_option_groups
def abort(ctx: typer.Context, stream: StreamName, consent: Consent) -> int:
    """Take an operation back before producers have moved: its new topics are deleted where they are still empty.

    Examples:

    \b
    kafkakit --profile prod streams failover abort orders --yes
    """
    from kafkakit.streams.failover.act.closing import abort as take_back
    from kafkakit.streams.failover.act.closing import abortable
    from kafkakit.streams.failover.show.runs import closing_report

    cli = cli_context(ctx)
    consent.require_possible(cli)
    with open_failover(cli, stream, "" if consent.dry_run else "streams failover abort") as session:
        parts = session.parts()
        found = abortable(parts, stream, session.cluster)
        if not consent.dry_run and consent.confirm(cli, f"Abort the operation of stream {stream}?"):
            found = take_back(parts, session.cluster, stream)
    return finish(cli, closing_report("streams failover abort", found))
