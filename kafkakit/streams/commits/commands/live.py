"""`kafkakit streams commits show|explain|watch`: one group's commits on a live cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import Kit, kit_of
from kafkakit.streams.commits.commands import options

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.reading import Inspector, Known
    from kafkakit.streams.commits.decide.group_look import GroupLook, Scope

Also = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="PROFILE",
        help="Look into this cluster too for the owner of a payload that belongs to another commit. Repeatable.",
        show_default=False,
    ),
]


@contextmanager
def open_inspector(kit: Kit, also: list[str] | None = None) -> Iterator[Inspector]:
    """Connect with clients that cannot write; the clusters of `also` are asked only when there is a need."""
    from contextlib import ExitStack, closing

    from kafkakit.streams.commits.act.reading import Inspector
    from kafkakit.wiring import open_admin, open_groups, open_log, system_clock

    with ExitStack() as stack:
        admin = stack.enter_context(closing(open_admin(kit.settings, read_only=True)))
        groups = stack.enter_context(closing(open_groups(kit.settings, read_only=True)))
        log = stack.enter_context(closing(open_log(kit.settings)))
        yield Inspector(groups, log, admin, system_clock(), lambda: _known_elsewhere(kit, also or []), kit.program)


def show(
    ctx: typer.Context,
    group: options.Group,
    topic: options.Topic = "",
    partition: options.Partition = None,
    also: Also = None,
    width: options.Width = None,
    ascii_only: options.Ascii = False,
) -> None:
    """Show what a group committed: done, pending, retrying and rejected offsets, their age, size and hazards.

    Reads the commits, the ends of the logs, the time of the oldest pending record, the brokers' limit and who holds
    each partition. Of several commits a table comes first, then those that hold more than an offset. Reads only.

    Examples:

    \b
    kafkakit --profile prod streams commits show payments
    kafkakit --profile prod streams commits show payments --topic orders --partition 3 -o json
    """
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.decide.group_look import Scope
    from kafkakit.streams.commits.show.group_text import group_data, group_text
    from kafkakit.streams.commits.show.table import COMMIT_COLUMNS, commit_row

    kit = kit_of(ctx)
    with open_inspector(kit, also) as inspector:
        look = _found(kit, inspector, group, Scope(topic=topic, partition=partition))
    kit.output.result(
        Report(
            command="streams commits show",
            data=group_data(look),
            text=group_text(look, width=options.width_of(width), style=options.style_of(kit, ascii_only)),
            columns=COMMIT_COLUMNS,
            rows=tuple(commit_row(facts) for facts in look.commits),
        )
    )


def explain(
    ctx: typer.Context,
    group: options.Group,
    offset: Annotated[
        int | None,
        typer.Argument(
            metavar="OFFSET", min=0, help="The offset; the oldest pending one when not given.", show_default=False
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option("--topic", metavar="NAME", help="The topic; may be left out if there is one.")
    ] = "",
    partition: options.Partition = None,
) -> None:
    """Say in plain words why an offset is pending or done, since when, and what a restart would do to it.

    Examples:

    \b
    kafkakit --profile prod streams commits explain payments --topic orders --partition 3
    kafkakit --profile prod streams commits explain payments 1048576 --topic orders --partition 3
    """
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.decide.explanation import explain as explain_offset
    from kafkakit.streams.commits.decide.group_look import Scope, only_commit
    from kafkakit.streams.commits.show.explained import EXPLAINED_COLUMNS, explained_data, explained_text

    kit = kit_of(ctx)
    with open_inspector(kit) as inspector:
        look = _found(kit, inspector, group, Scope(topic=topic, partition=partition))
        facts = only_commit(look)
        at = facts.first_pending if offset is None else offset
        written = None
        if facts.key is not None and facts.span is not None and facts.span.start <= at < facts.span.end:
            written = inspector.written(facts.key, at)
    found = explain_offset(facts, at, written)
    kit.output.result(
        Report(
            command="streams commits explain",
            data=explained_data(facts, found, written),
            text=explained_text(facts, found, kit.settings.bootstrap_servers or "HOST:PORT"),
            columns=EXPLAINED_COLUMNS,
            rows=tuple((found.offset, found.standing.value, sentence) for sentence in found.sentences),
        )
    )


def watch(
    ctx: typer.Context,
    group: options.Group,
    topic: options.Topic = "",
    partition: options.Partition = None,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="The time between two looks.")] = "5s",
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="End after so many looks; 0 goes on until Ctrl-C.")
    ] = 0,
) -> None:
    """Keep looking at a group's commits: a table that refreshes on a terminal, one line a change elsewhere.

    Ctrl-C ends it. While the cluster cannot be reached it says so and goes on; a table then shows when it was true.
    The result is the last look.

    Examples:

    \b
    kafkakit --profile prod streams commits watch payments --interval 2s
    """
    from kafkakit.core.durations import parse_duration
    from kafkakit.report.report import Report
    from kafkakit.streams.commits.act.watch import Shown, watch_group
    from kafkakit.streams.commits.decide.group_look import Scope
    from kafkakit.streams.commits.show.group_text import group_data, group_text
    from kafkakit.streams.commits.show.table import COMMIT_COLUMNS, commit_row
    from kafkakit.wiring import system_clock

    kit = kit_of(ctx)
    every_s = parse_duration(interval, "--interval")
    with open_inspector(kit) as inspector:
        first = _found(kit, inspector, group, Scope(topic=topic, partition=partition))
        with kit.output.screen() as screen:
            look = watch_group(
                lambda: inspector.look(group, Scope(topic=topic, partition=partition)),
                system_clock(),
                kit.output,
                Shown(screen, rows=options.height(), in_place=kit.output.animate),
                first=first,
                every_s=every_s,
                count=count,
            )
    kit.output.result(
        Report(
            command="streams commits watch",
            data=group_data(look),
            text=group_text(look, width=options.width_of(None), style=options.style_of(kit, False)),
            columns=COMMIT_COLUMNS,
            rows=tuple(commit_row(facts) for facts in look.commits),
        )
    )


def _found(kit: Kit, inspector: Inspector, group: str, scope: Scope) -> GroupLook:
    """The group, or the failure that says which names are like it."""
    from kafkakit.streams.commits.decide.group_look import no_such_group, nothing_in_scope

    look = inspector.look(group, scope)
    if not look.exists:
        raise no_such_group(group, inspector.group_names(), kit.program)
    if not look.commits and not look.refused:
        raise nothing_in_scope(inspector.look(group), scope)
    return look


def _known_elsewhere(kit: Kit, profiles: list[str]) -> Known:
    """Topics and groups of the clusters of other profiles."""
    from contextlib import closing

    from kafkakit.streams.formats.dialects.bind_search import KnownTopic
    from kafkakit.wiring import open_groups, open_log

    topics: list[KnownTopic] = []
    names: list[str] = []
    for profile in profiles:
        settings = kit.load_settings(profile)
        with closing(open_log(settings)) as log, closing(open_groups(settings, read_only=True)) as groups:
            cluster_id = log.cluster_id()
            topics += [
                KnownTopic(cluster_id=cluster_id, topic=name, topic_id=place.topic_id, partitions=len(place.leaders))
                for name, place in sorted(log.places().items())
            ]
            names += [listing.group for listing in groups.groups()]
    return topics, names
