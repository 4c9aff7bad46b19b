"""`kafkakit streams evacuate` and `kafkakit streams balance`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Approval, Consent
from kafkakit.cli.session import finish
from kafkakit.cli.stream_operations import EventOptions, MoveLimits
from kafkakit.streams.moves.commands.options import (
    Capacities,
    MeasureOptions,
    MovesSession,
    PaceOptions,
    Targets,
    open_moves,
)

if TYPE_CHECKING:
    from kafkakit.streams.moves.act.planning import SeriesIntent, SeriesPlanner


@with_option_groups
def evacuate(
    ctx: typer.Context,
    cluster: Annotated[
        str,
        typer.Argument(
            metavar="CLUSTER",
            help="The profile of the cluster that streams leave.",
            autocompletion=complete_profile_names,
            show_default=False,
        ),
    ],
    to: Targets,
    pace: PaceOptions,
    limits: MoveLimits,
    measuring: MeasureOptions,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    emergency: Annotated[
        bool, typer.Option("--emergency", help="The cluster is away: producers leave before it is looked at.")
    ] = False,
) -> int:
    """Move every stream off a cluster, a few at a time: each by an operation of its own, as `streams move` does it.

    The plan and what has begun are in the control store, so the same command continues after any interruption, and
    keeps to the pace. What could not be moved is listed at the end. Exits with 0 when no stream is left on the
    cluster, 75 when some are, 2 when a move was refused, and 1 when a record came after a seal.

    Examples:

    \b
    kafkakit --profile prod streams evacuate west --to east --dry-run
    kafkakit --profile prod streams evacuate west --to east --at-once 8 --per-hour 100 --yes
    """
    from kafkakit.streams.failover.api import OperationKind
    from kafkakit.streams.moves.act.planning import SeriesIntent
    from kafkakit.streams.moves.decide.series import SeriesKind, series_key

    request, rule = limits.template(OperationKind.MOVE, is_emergency=emergency), measuring.rule()
    consent.require_possible(cli_context(ctx))
    with open_moves(cli_context(ctx), "streams evacuate", events, read_only=consent.dry_run) as session:
        planner = session.planner(request, rule)
        key = series_key(SeriesKind.EVACUATE, planner.evacuated(cluster))
        intent = SeriesIntent(key, tuple(to), lambda: planner.evacuation(cluster, to))
        return carry_out(ctx, session, planner, intent, pace, consent, approval)


@with_option_groups
def balance(
    ctx: typer.Context,
    capacity: Capacities,
    pace: PaceOptions,
    limits: MoveLimits,
    measuring: MeasureOptions,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    within: Annotated[
        str,
        typer.Option(
            "--within", metavar="PERCENT", help="How far above the best spread the fullest cluster may be used."
        ),
    ] = "5%",
) -> int:
    """Spread streams over clusters by what is written to them, with as little moved as possible.

    The largest use of a stated capacity becomes as small as it can be, within a share that saves moves; the plan says
    what no plan is below. It is carried out as `streams evacuate` does it. Streams with lanes on several clusters stay.

    Examples:

    \b
    kafkakit --profile prod streams balance --capacity east=50MB/s --capacity west=100MB/s --dry-run
    kafkakit --profile prod streams balance --capacity east=50MB/s --capacity west=100MB/s --at-once 2 --yes
    """
    from kafkakit.streams.failover.api import OperationKind
    from kafkakit.streams.moves.act.planning import SeriesIntent
    from kafkakit.streams.moves.decide.series import SeriesKind, series_key

    request, rule = limits.template(OperationKind.MOVE), measuring.rule(within)
    capacities = measuring.capacities(capacity)
    consent.require_possible(cli_context(ctx))
    with open_moves(cli_context(ctx), "streams balance", events, read_only=consent.dry_run) as session:
        planner = session.planner(request, rule)
        targets = tuple(profile for profile, _ in capacities)
        intent = SeriesIntent(series_key(SeriesKind.BALANCE), targets, lambda: planner.balance(capacities))
        return carry_out(ctx, session, planner, intent, pace, consent, approval)


def carry_out(
    ctx: typer.Context,
    session: MovesSession,
    planner: SeriesPlanner,
    intent: SeriesIntent,
    pace: PaceOptions,
    consent: Consent,
    approval: Approval,
) -> int:
    """Plan a series, or continue the one that is under way, until nothing more can be done."""
    from kafkakit.core.durations import parse_duration_or_zero
    from kafkakit.streams.moves.show import end_report, series_report

    cli, wait_s = cli_context(ctx), parse_duration_or_zero(pace.wait, "--wait")
    if not consent.dry_run:
        session.claim(intent.key)
    journal, series = planner.series_for(session.newest(intent.key), intent, is_replanned=pace.replan)
    if consent.dry_run:
        judged = planner.judged(series, journal)
        return finish(cli, series_report(session.command, series, pace.pace(), judged, "nothing is done"))
    if not series.moves:
        return finish(cli, end_report(session.command, planner.unmoved(series)))
    if journal is None:
        report = series_report(session.command, series, pace.pace(), {})
        cli.output.say(report.text)
        if not consent.confirm(cli, f"Move {len(series.moves)} streams?"):
            return finish(cli, series_report(session.command, series, pace.pace(), {}, "nothing is done"))
        journal = session.begin(replace(series, approval=approval.words(cli, series.sha256, report.data)))
    else:
        planner.amend(journal, intent)
    cli.operation_words = ("stopped; what is under way stays open", "run the same command again to continue")
    return finish(cli, end_report(session.command, session.run(journal).run(pace.pace(), wait_s)))
