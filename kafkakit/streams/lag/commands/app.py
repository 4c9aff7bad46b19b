"""`kafkakit streams lag`: how far consumer groups are behind, in records and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import KitCommand, kit_of, new_group
from kafkakit.streams.lag.commands.check import check
from kafkakit.streams.lag.commands.options import (
    CLOSE_S,
    ByLevel,
    Clusters,
    GroupGlobs,
    Groups,
    Internal,
    Skew,
    SortBy,
    SortOrder,
    Top,
    TopicGlobs,
    ViewBy,
    WaitFor,
    look_of,
    means_of,
    settings_of,
    sources_of,
)
from kafkakit.streams.lag.commands.serve import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkakit.ports.reporter import Screen
    from kafkakit.report.report import Report
    from kafkakit.streams.lag.act.looks import Look
    from kafkakit.streams.lag.decide.views.views import LagView
    from kafkakit.streams.lag.show.changes import Statuses

app = new_group("Measure how far consumer groups are behind, in records and in time.")


def once(
    ctx: typer.Context,
    groups: Groups = None,
    clusters: Clusters = None,
    by: ByLevel = ViewBy.GROUP_TOPIC,
    sort: SortOrder = SortBy.WORST,
    group: GroupGlobs = None,
    topic: TopicGlobs = None,
    top: Top = 50,
    internal: Internal = False,
    wait: WaitFor = "60s",
    skew: Skew = "1s",
) -> None:
    """Show the lag of all groups now, with the interval that surely holds the time lag and where it comes from.

    Reads the cluster's commits from their log (or on from where the last run stopped), samples the ends of the logs
    twice, and reads the record at which each lagging group stands. Nothing is written to the cluster, and no group is
    joined. Time lag is that of the oldest record not done; live lag is that of the newest one done.

    Examples:

    \b
    kafkakit --profile prod streams lag once
    kafkakit --profile prod streams lag once 'orders-*' --by partition
    kafkakit streams lag once --clusters prod-a,prod-b --by stream -o json
    """
    from kafkakit.core.errors import TryLaterError

    kit = kit_of(ctx)
    look = look_of(kit, clusters, wait, skew)
    view = _view(look, by, sort, [*(groups or []), *(group or [])], topic or [], top, internal)
    kit.output.result(_result("streams lag once", look, view))
    if look.missing:
        name, reason = look.missing[0]
        raise TryLaterError(f"{len(look.missing)} of {len(look.conditions)} clusters are not known; {name}: {reason}")


def watch(
    ctx: typer.Context,
    groups: Groups = None,
    clusters: Clusters = None,
    by: ByLevel = ViewBy.GROUP_TOPIC,
    sort: SortOrder = SortBy.WORST,
    group: GroupGlobs = None,
    topic: TopicGlobs = None,
    top: Top = 50,
    internal: Internal = False,
    wait: WaitFor = "60s",
    skew: Skew = "1s",
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="The time between two looks.")] = "2s",
    count: Annotated[
        int | None,
        typer.Option("--count", min=1, metavar="N", help="End after so many looks.", show_default=False),
    ] = None,
) -> None:
    """Keep looking at the lag of groups: a table that is replaced in place, or a line for each change of a status.

    The table stands on a terminal; elsewhere there are lines. Ctrl-C ends the watching. With --count the last look is
    the result.

    Examples:

    \b
    kafkakit --profile prod streams lag watch
    kafkakit --profile prod streams lag watch 'orders-*' --by partition --interval 5s
    kafkakit streams lag watch --clusters prod-a,prod-b --count 10 -o json
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.streams.lag.act.clusters import Fleet
    from kafkakit.streams.lag.act.looks import look_once
    from kafkakit.streams.lag.act.looks import watch as watch_looks

    kit = kit_of(ctx)
    wait_s, interval_s = parse_duration(wait, "--wait"), parse_duration(interval, "--interval")
    means = means_of(kit, skew)
    fleet = Fleet(sources_of(settings_of(kit, clusters)), means)

    def chosen(look: Look) -> LagView:
        return _view(look, by, sort, [*(groups or []), *(group or [])], topic or [], top, internal)

    try:
        with kit.output.progress("reading commits") as bar:
            fleet.start(carrying=True)
            look_once(fleet, means.clock, bar, wait_s=wait_s, rounds=1)
        with kit.output.screen() as screen:
            shown = _Shown(screen, chosen, is_screen=kit.output.animate)
            look = watch_looks(fleet, means.clock, shown.show, interval_s=interval_s, times=count)
    finally:
        fleet.close(CLOSE_S)
    kit.output.result(_result("streams lag watch", look, chosen(look)))


class _Shown:
    """Looks on the terminal, or a line for each change."""

    def __init__(self, screen: Screen, chosen: Callable[[Look], LagView], *, is_screen: bool) -> None:
        self._screen, self._chosen, self._is_screen = screen, chosen, is_screen
        self._before: Statuses = {}
        self._notes: frozenset[str] = frozenset()

    def show(self, look: Look) -> None:
        from kafkakit.streams.lag.show.changes import change_lines, statuses_of
        from kafkakit.streams.lag.show.views import view_text

        found = self._chosen(look)
        if self._is_screen:
            self._screen.show(view_text(found, look.conditions, look.at_ms), "")
            return
        notes = frozenset(f"{c.cluster}: {note}" for c in look.conditions for note in c.notes)
        for line in (*change_lines(self._before, found), *sorted(notes - self._notes)):
            self._screen.show("", line)
        self._before, self._notes = statuses_of(found), notes


def _view(
    look: Look, by: ViewBy, sort: SortBy, groups: Sequence[str], topics: Sequence[str], top: int, internal: bool
) -> LagView:
    from kafkakit.streams.lag.decide.views.selecting import selected, sorted_by
    from kafkakit.streams.lag.decide.views.views import ViewLevel, view

    tables = [selected(t, groups=groups, topics=topics, internal=internal or bool(topics)) for t in look.tables]
    level = ViewLevel(by.value.replace("-", "_"))
    return sorted_by(view(tables, level), sort.value, top) if sort is not SortBy.WORST else view(tables, level, top=top)


def _result(command: str, look: Look, view: LagView) -> Report:
    from kafkakit.report.report import Report
    from kafkakit.streams.lag.show.views import COLUMNS, view_data, view_rows, view_text

    return Report(
        command=command,
        data=view_data(view, look.conditions, look.at_ms),
        text=view_text(view, look.conditions, look.at_ms),
        columns=COLUMNS,
        rows=view_rows(view),
    )


app.command("once", cls=KitCommand, short_help="Show the lag of all groups now.")(once)
app.command("watch", cls=KitCommand, short_help="Keep looking at the lag of groups.")(watch)
app.command("serve", cls=KitCommand, short_help="Serve the lag of all groups as metrics and JSON.")(serve)
app.command("check", cls=KitCommand, short_help="Judge lag by thresholds, for cron and monitoring.")(check)
