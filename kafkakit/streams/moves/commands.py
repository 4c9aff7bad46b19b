"""`kafkakit streams evacuate` and `kafkakit streams balance`, with their options and the session that they work in."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.completion import complete_profile_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.cli.run_options import Approval, Consent
from kafkakit.cli.session import ProfileSessions, finish, open_session
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions, operation_ports
from kafkakit.core.options import duration_option, not_typed, option, typed_as
from kafkakit.streams.failover.api import DeadLetterChoice, FailoverRequest, OperationKind, dead_letters_option
from kafkakit.streams.moves.decide import MeasureRule, MovePace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.acting import Clock
    from kafkakit.streams.failover.api_act import OperationPorts
    from kafkakit.streams.moves.act import Journal, SeriesIntent, SeriesPlanner, SeriesRun
    from kafkakit.streams.moves.decide import Series


Targets = Annotated[
    list[str],
    typer.Option(
        "--to",
        metavar="PROFILE",
        help="A cluster that streams go to. Repeatable: the write load is then spread evenly.",
        autocompletion=complete_profile_names,
    ),
]
Capacities = Annotated[
    list[str],
    typer.Option(
        "--capacity",
        metavar="PROFILE=RATE",
        help="A cluster that takes part, and its capacity: east=50MB/s, or with --by records east=20000. Repeatable.",
    ),
]


UNNAMED = {"stream": not_typed(""), "to": not_typed(""), "lanes": not_typed(()), "is_emergency": not_typed(False)}
MoveTemplate = Annotated[FailoverRequest, typed_as(**UNNAMED, kind=not_typed(OperationKind.MOVE))]
Evacuation = Annotated[
    FailoverRequest,
    typed_as(**UNNAMED, kind=not_typed(OperationKind.MOVE), dead_letters=dead_letters_option(DeadLetterChoice.COPY)),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesOptions:
    """Whether a series is planned anew, and when a stream of it is left open."""

    replan: bool = option(False, "--replan", help="Plan anew instead of continuing the series that is under way.")
    wait_s: float = duration_option(
        "10m",
        "--wait",
        may_be_zero=True,
        help="Leave a stream open, and list it, when nothing could be done for it for this long.",
    )


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
    pace: MovePace,
    following: SeriesOptions,
    template: Evacuation,
    rule: MeasureRule,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    emergency: Annotated[
        bool, typer.Option("--emergency", help="The cluster is down: producers leave before it is checked.")
    ] = False,
) -> int:
    """Move every stream off a cluster, a few at a time, each by its own operation, like `streams move`.

    The plan and what has begun are in the control store, so the same command continues after any interruption, and
    keeps to the pace. What could not be moved is listed at the end. Exits with 0 when no stream is left on the
    cluster, 75 when some are, 2 when a move was refused, and 1 when a record came after a seal.

    Examples:

    \b
    kafkakit --profile prod streams evacuate west --to east --dry-run
    kafkakit --profile prod streams evacuate west --to east --at-once 8 --per-hour 100 --yes
    """
    from kafkakit.streams.moves.act import SeriesIntent
    from kafkakit.streams.moves.decide import SeriesKind, series_key

    request = replace(template, is_emergency=emergency)
    with open_moves(cli_context(ctx), "streams evacuate", events, read_only=consent.dry_run) as session:
        planner = session.planner(request, rule)
        key = series_key(SeriesKind.EVACUATE, planner.evacuated(cluster))
        intent = SeriesIntent(key, tuple(to), lambda: planner.evacuation(cluster, to))
        return carry_out(ctx, session, planner, intent, pace, following, consent, approval)


@with_option_groups
def balance(
    ctx: typer.Context,
    capacity: Capacities,
    pace: MovePace,
    following: SeriesOptions,
    template: MoveTemplate,
    rule: MeasureRule,
    consent: Consent,
    approval: Approval,
    events: EventOptions,
    within: Annotated[
        str,
        typer.Option(
            "--within", metavar="PERCENT", help="How far above the best possible use the fullest cluster may end."
        ),
    ] = "5%",
) -> int:
    """Spread streams over clusters by their write load, moving as little as possible.

    The fullest cluster ends within a margin of the best possible spread; the margin saves moves, and the plan states
    the best possible value. The plan is carried out like `streams evacuate`. Streams with lanes on several clusters
    stay.

    Examples:

    \b
    kafkakit --profile prod streams balance --capacity east=50MB/s --capacity west=100MB/s --dry-run
    kafkakit --profile prod streams balance --capacity east=50MB/s --capacity west=100MB/s --at-once 2 --yes
    """
    from kafkakit.core.quantities import parse_percent
    from kafkakit.streams.moves.act import SeriesIntent
    from kafkakit.streams.moves.decide import SeriesKind, read_capacities, series_key

    rule = replace(rule, within_ppm=int(parse_percent(within, "--within") * 1_000_000))
    capacities = read_capacities(capacity, rule.unit)
    with open_moves(cli_context(ctx), "streams balance", events, read_only=consent.dry_run) as session:
        planner = session.planner(template, rule)
        targets = tuple(profile for profile, _ in capacities)
        intent = SeriesIntent(series_key(SeriesKind.BALANCE), targets, lambda: planner.balance(capacities))
        return carry_out(ctx, session, planner, intent, pace, following, consent, approval)


class MovesSession:
    """The control store of the profile in use, the clusters of others, and the lease of one series."""

    def __init__(
        self,
        cli: CliContext,
        home: ClusterSession,
        stack: ExitStack,
        command: str,
        events: EventOptions,
        *,
        read_only: bool,
    ) -> None:
        self.cli, self.home, self.command = cli, home, command
        self._stack = stack
        self._clusters = ProfileSessions(cli, stack, read_only=read_only)
        self._put_events = (NO_EVENTS if read_only else events).open(stack, cli)

    def ports(self, clock: Clock | None = None) -> OperationPorts:
        """What operations work with; `clock` in place of the machine's."""

        found = operation_ports(self.cli, self.home, self._clusters, self.command, self._put_events)
        return found if clock is None else replace(found, clock=clock)

    def planner(self, template: FailoverRequest, rule: MeasureRule) -> SeriesPlanner:
        """What plans series; it writes nothing."""
        from kafkakit.streams.moves.act import SeriesPlanner

        return SeriesPlanner(self.ports(), template, rule)

    def begin(self, series: Series) -> Journal:
        """The journal of a new series."""
        from kafkakit.streams.moves.act import SeriesJournals

        return SeriesJournals(self.home.control, self.home.clock, series.key).begin(series)

    def newest(self, key: str) -> Journal | None:
        """The newest series of a key."""
        from kafkakit.streams.moves.act import SeriesJournals

        return SeriesJournals(self.home.control, self.home.clock, key).newest()

    def claim(self, key: str) -> None:
        """Take the lease of a series until the session ends; `TryLaterError` names the process that has it."""
        from kafkakit.streams.moves.act import series_lease
        from kafkakit.wiring import open_lease

        path, what = series_lease(key), f"moves of streams ({key})"
        self._lease = open_lease(self.home.control, self.home.clock, key, self.command, self.cli.output.say, path, what)
        self._lease.acquire()
        self._stack.callback(self._lease.release)

    def run(self, journal: Journal) -> SeriesRun:
        """What carries a series out; `claim` comes first."""
        from kafkakit.streams.moves.act import SeriesRun
        from kafkakit.streams.routes.api_act import RouteStore

        routes = RouteStore(self.home.control)
        return SeriesRun(self.ports, self.home.clock, self._lease, journal, routes)


def carry_out(
    ctx: typer.Context,
    session: MovesSession,
    planner: SeriesPlanner,
    intent: SeriesIntent,
    pace: MovePace,
    following: SeriesOptions,
    consent: Consent,
    approval: Approval,
) -> int:
    """Plan a series, or continue the one that is under way, until nothing more can be done."""
    from kafkakit.streams.moves.report import end_report, series_report

    cli = cli_context(ctx)
    if not consent.dry_run:
        session.claim(intent.key)
    journal, series = planner.series_for(session.newest(intent.key), intent, is_replanned=following.replan)
    if consent.dry_run:
        judged = planner.judged(series, journal)
        return finish(cli, series_report(session.command, series, pace, judged, "nothing is done"))
    if not series.moves:
        return finish(cli, end_report(session.command, planner.unmoved(series)))
    if journal is None:
        report = series_report(session.command, series, pace, {})
        cli.output.say(report.text)
        if not consent.confirm(cli, f"Move {len(series.moves)} streams?"):
            return finish(cli, series_report(session.command, series, pace, {}, "nothing is done"))
        journal = session.begin(replace(series, approval=approval.words(cli, series.sha256, report.data)))
    else:
        planner.amend(journal, intent)
    cli.operation_words = ("stopped; what is under way stays open", "run the same command again to continue")
    return finish(cli, end_report(session.command, session.run(journal).run(pace, following.wait_s)))


@contextmanager
def open_moves(cli: CliContext, command: str, events: EventOptions, *, read_only: bool) -> Iterator[MovesSession]:
    """A session about series of moves; with `read_only` no cluster can be changed, and no event is sent."""
    with ExitStack() as stack:
        home = stack.enter_context(open_session(cli, read_only=read_only))
        yield MovesSession(cli, home, stack, command, events, read_only=read_only)
