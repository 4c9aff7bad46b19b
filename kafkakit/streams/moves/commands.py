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
from kafkakit.cli.stream_operations import NO_EVENTS, EventOptions, MoveLimits, operation_ports
from kafkakit.core.options import option
from kafkakit.streams.moves.decide import LoadUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.acting import Clock
    from kafkakit.streams.failover.api import FailoverRequest
    from kafkakit.streams.failover.api_act import OperationPorts
    from kafkakit.streams.moves.act import Journal, MeasureRule, SeriesIntent, SeriesPlanner, SeriesRun
    from kafkakit.streams.moves.decide import Pace, Series


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceOptions:
    """How many streams are moved at a time."""

    at_once: int = option(
        4, "--at-once", min=1, max=1000, metavar="N", help="Maximum number of streams that move at a time."
    )
    per_hour: int | None = option(
        None, "--per-hour", min=1, metavar="N", help="Maximum number of streams started within any hour."
    )
    replan: bool = option(False, "--replan", help="Plan anew instead of continuing the series that is under way.")
    wait: str = option(
        "10m",
        "--wait",
        metavar="DURATION",
        help="Leave a stream open, and list it, when nothing could be done for it for this long.",
    )

    def pace(self) -> Pace:
        """The options as a pace."""
        from kafkakit.streams.moves.decide import Pace

        return Pace(at_once=self.at_once, per_hour=self.per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How loads are measured."""

    by: LoadUnit = option(LoadUnit.BYTES, "--by", help="What is measured: bytes of one copy, or records.")
    window: str = option("10s", "--window", metavar="DURATION", help="How long to measure the write load.")

    def rule(self, within: str = "0%") -> MeasureRule:
        """The options as a rule; `UsageError` for a duration or a share that cannot be read."""
        from kafkakit.core.quantities import parse_duration, parse_percent
        from kafkakit.streams.moves.act import MeasureRule

        share = parse_percent(within, "--within")
        return MeasureRule(
            unit=self.by, window_s=parse_duration(self.window, "--window"), within_ppm=int(share * 1_000_000)
        )

    def capacities(self, texts: list[str]) -> list[tuple[str, int]]:
        """Profiles with their capacities; `UsageError` for a text that cannot be read, or a profile that is twice
        there."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.quantities import parse_rate

        found: dict[str, int] = {}
        for text in texts:
            profile, equals, amount = text.partition("=")
            is_number = amount.isascii() and amount.isdigit() and int(amount[:15]) > 0
            if not profile or not equals:
                raise UsageError(f"--capacity: {text!r:.60} is not PROFILE=RATE", hint="east=50MB/s, west=100MB/s")
            if profile in found:
                raise UsageError(f"--capacity names profile {profile:.60} twice")
            if self.by is LoadUnit.RECORDS and not is_number:
                raise UsageError(f"--capacity: {text!r:.60} is not a number of records a second", hint="east=20000")
            found[profile] = int(amount[:15]) if self.by is LoadUnit.RECORDS else parse_rate(amount)
        if len(found) < 2:
            raise UsageError("balance needs two clusters or more", hint="--capacity PROFILE=RATE for each")
        return list(found.items())


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
    from kafkakit.streams.failover.api import DeadLetters, OperationKind
    from kafkakit.streams.moves.act import SeriesIntent
    from kafkakit.streams.moves.decide import SeriesKind, series_key

    kind, rule = OperationKind.MOVE, measuring.rule()
    request = limits.template(kind, is_emergency=emergency, dead_letters=DeadLetters.COPY)
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
    from kafkakit.streams.failover.api import OperationKind
    from kafkakit.streams.moves.act import SeriesIntent
    from kafkakit.streams.moves.decide import SeriesKind, series_key

    request, rule = limits.template(OperationKind.MOVE), measuring.rule(within)
    capacities = measuring.capacities(capacity)
    with open_moves(cli_context(ctx), "streams balance", events, read_only=consent.dry_run) as session:
        planner = session.planner(request, rule)
        targets = tuple(profile for profile, _ in capacities)
        intent = SeriesIntent(series_key(SeriesKind.BALANCE), targets, lambda: planner.balance(capacities))
        return carry_out(ctx, session, planner, intent, pace, consent, approval)


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
    pace: PaceOptions,
    consent: Consent,
    approval: Approval,
) -> int:
    """Plan a series, or continue the one that is under way, until nothing more can be done."""
    from kafkakit.core.quantities import parse_duration_or_zero
    from kafkakit.streams.moves.report import end_report, series_report

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


@contextmanager
def open_moves(cli: CliContext, command: str, events: EventOptions, *, read_only: bool) -> Iterator[MovesSession]:
    """A session about series of moves; with `read_only` no cluster can be changed, and no event is sent."""
    with ExitStack() as stack:
        home = stack.enter_context(open_session(cli, read_only=read_only))
        yield MovesSession(cli, home, stack, command, events, read_only=read_only)
