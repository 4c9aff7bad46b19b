"""`kafkakit streams lag`: how far consumer groups are behind, in records and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.command import KitCommand, kit_of, new_group
from kafkakit.streams.lag.options import (
    By,
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
    WaitFor,
    means_of,
    settings_of,
    sources_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.output import Result
    from kafkakit.streams.lag.look.run import Look
    from kafkakit.streams.lag.views import View

app = new_group("Measure how far consumer groups are behind, in records and in time.")


def once(
    ctx: typer.Context,
    groups: Groups = None,
    clusters: Clusters = None,
    by: ByLevel = By.GROUP_TOPIC,
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
    from kafkakit.durations import parse_duration
    from kafkakit.errors import TryLaterError
    from kafkakit.streams.lag.look.run import ONCE_PACE, look_once
    from kafkakit.streams.lag.service import Fleet

    kit = kit_of(ctx)
    wait_s = parse_duration(wait, "--wait")
    means = means_of(kit, skew, ONCE_PACE)
    fleet = Fleet(sources_of(settings_of(kit, clusters)), means)
    try:
        with kit.output.progress("reading commits") as bar:
            fleet.start(carrying=True)
            look = look_once(fleet, means.clock, bar, wait_s=wait_s)
    finally:
        fleet.close()
    view = _view(look, by, sort, [*(groups or []), *(group or [])], topic or [], top, internal)
    kit.output.result(_result("streams lag once", look, view))
    if look.missing:
        name, reason = look.missing[0]
        raise TryLaterError(f"{len(look.missing)} of {len(look.conditions)} clusters are not known; {name}: {reason}")


def _view(
    look: Look, by: By, sort: SortBy, groups: Sequence[str], topics: Sequence[str], top: int, internal: bool
) -> View:
    from kafkakit.streams.lag.selecting import selected, sorted_by
    from kafkakit.streams.lag.views import Level, view

    tables = [selected(t, groups=groups, topics=topics, internal=internal or bool(topics)) for t in look.tables]
    level = Level(by.value.replace("-", "_"))
    return sorted_by(view(tables, level), sort.value, top) if sort is not SortBy.WORST else view(tables, level, top=top)


def _result(command: str, look: Look, view: View) -> Result:
    from kafkakit.output import Result
    from kafkakit.streams.lag.shown import COLUMNS, view_data, view_rows, view_text

    return Result(
        command=command,
        data=view_data(view, look.conditions, look.at_ms),
        text=view_text(view, look.conditions, look.at_ms),
        columns=COLUMNS,
        rows=view_rows(view),
    )


app.command("once", cls=KitCommand, short_help="Show the lag of all groups now.")(once)
