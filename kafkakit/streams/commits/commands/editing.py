"""`kafkakit streams commits reset|replay|translate`, and the mounting of all commands that edit."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import KitCommand, kit_of
from kafkakit.core.durations import epoch_ms
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_arguments import (
    dialect_of,
    edit_as_given,
    local_time,
    one_partition,
    scope_of,
)
from kafkakit.streams.commits.commands.records import reject, skip, unack
from kafkakit.streams.commits.commands.recovery import finish, undo
from kafkakit.streams.commits.commands.word_options import DialectWord


def reset(
    ctx: typer.Context,
    group: options.Group,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="earliest|latest|OFFSET|TIME|-N|+N",
            help="Where to: an end of the log, an offset, the first record of a time (14:00 is today's, local), or N "
            "offsets back or forth from the commit.",
        ),
    ],
    topic: options.Topic = "",
    partition: options.Partitions = "",
    all_topics: options.AllTopics = False,
    keep_done: Annotated[
        bool, typer.Option("--keep-done", help="Keep what is done above the new offset; else it is delivered again.")
    ] = False,
    dialect: options.As = None,
    adopt: options.Adopt = False,
    outside_log: options.OutsideLog = False,
    coarsen: options.Coarsen = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Move the committed offset. A partition without a commit gets one, when its topic is named.

    Prints the plan: what will be delivered again, what never. With --apply it is carried out; the old commits, with
    their metadata, are in the journal for undo.

    Examples:

    \b
    kafkakit --profile prod streams commits reset orders --topic payments --to 14:00
    kafkakit --profile prod streams commits reset orders --topic payments --partition 3 --to -1000 --apply
    kafkakit --profile prod streams commits reset orders --all-topics --to latest --apply --yes
    """
    from kafkakit.streams.commits.decide.editing.request import Reset
    from kafkakit.streams.commits.decide.editing.targets import parse_target
    from kafkakit.wiring import system_clock

    kit = kit_of(ctx)
    landing, value, words = parse_target(to, system_clock().now(), local_time)
    verb = Reset(landing=landing, value=value, keep_done=keep_done)
    edit_as_given(
        ctx, kit, group, verb, locals(), (f"to {words}",), scope_of(topic, partition, all_topics, uncommitted=True)
    )


def replay(
    ctx: typer.Context,
    group: options.Group,
    from_: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The window's first time: 14:00 (today, local) or ISO 8601.")
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Where the window ends; records of this time are not in it.")
    ] = "",
    offsets: Annotated[
        str, typer.Option("--offsets", metavar="N-N", help="The window as offsets, both ends included.")
    ] = "",
    topic: options.Topic = "",
    partition: options.Partitions = "",
    all_topics: options.AllTopics = False,
    dialect: options.As = None,
    adopt: options.Adopt = False,
    coarsen: options.Coarsen = False,
    outside_log: options.OutsideLog = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Open a window of records again, while everything done outside of it stays done.

    The window is from the first record at or after --from to the first one at or after --to, by the records' times.
    For applications that read metadata with many offsets; they see by a tag which records are delivered again.

    Examples:

    \b
    kafkakit --profile prod streams commits replay orders --topic payments --from 14:00 --to 14:05
    kafkakit --profile prod streams commits replay orders --topic payments \\
      --from 2026-11-22T14:00:00Z --to 2026-11-22T14:05:00Z --apply
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.decide.editing.moments import parse_moment
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.decide.editing.request import Replay
    from kafkakit.wiring import system_clock

    now = system_clock().now()
    request_id = epoch_ms(now)
    if bool(offsets) == bool(from_ or to) or bool(from_) != bool(to):
        raise UsageError("a window is --from TIME --to TIME, or --offsets N-N")
    if offsets:
        window = parse_offsets(offsets)
        if len(window.ranges) > 1:
            raise UsageError("--offsets: a replay is one window", hint="unack takes several")
        verb, words = Replay(request_id=request_id, offsets=window), (f"offsets {offsets}",)
        scope = one_partition(topic, partition)
    else:
        first, last = (parse_moment(t, f, now, local_time) for t, f in ((from_, "--from"), (to, "--to")))
        if first.ms >= last.ms:
            raise UsageError(f"--to {last.words} is not after --from {first.words}")
        verb = Replay(request_id=request_id, from_ms=first.ms, to_ms=last.ms)
        words = (f"records from {first.words} to {last.words}",)
        scope = scope_of(topic, partition, all_topics)
    edit_as_given(ctx, kit_of(ctx), group, verb, locals(), (*words, f"request id {request_id}"), scope)


def translate(
    ctx: typer.Context,
    group: options.Group,
    to: Annotated[DialectWord, typer.Option("--to", help="The kind of metadata to write.")],
    topic: options.Topic = "",
    partition: options.Partitions = "",
    all_topics: options.AllTopics = False,
    adopt: options.Adopt = False,
    coarsen: options.Coarsen = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Write the same commits in another kind of metadata, for an application that changes its library.

    Says what the new kind cannot hold. pc is the map of parallel-consumer; plain is an offset alone, so that all
    records above it are delivered again.

    Examples:

    \b
    kafkakit --profile prod streams commits translate orders --to pc --all-topics
    kafkakit --profile prod streams commits translate orders --to plain --topic payments --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Translate

    verb = Translate(to=dialect_of(to))
    edit_as_given(ctx, kit_of(ctx), group, verb, locals(), (f"to {to}",), scope_of(topic, partition, all_topics))


def mount(app: typer.Typer) -> None:
    """Add these commands to the group `streams commits`."""
    for function, about in (
        (reset, "Move the committed offset of a group without members."),
        (skip, "Count records as done, such as a poison pill."),
        (unack, "Let records that are done be delivered again."),
        (reject, "Give records up, and keep that on record."),
        (replay, "Open a window of records again."),
        (translate, "Write commits in another kind of metadata."),
        (undo, "Bring back the commits that an edit replaced."),
        (finish, "Finish an edit that was interrupted."),
    ):
        app.command(function.__name__, cls=KitCommand, short_help=about)(function)
