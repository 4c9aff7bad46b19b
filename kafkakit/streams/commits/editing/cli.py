"""`kafkakit streams commits reset|skip|unack|reject|replay|translate`, and the mounting of all that edit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkakit.command import Kit, KitCommand, kit_of
from kafkakit.streams.commits.editing import options
from kafkakit.streams.commits.editing.after.cli import finish, undo
from kafkakit.streams.commits.editing.options import WriteAs

if TYPE_CHECKING:
    from kafkakit.streams.commit import Dialect
    from kafkakit.streams.commits.editing.request import Verb
    from kafkakit.streams.commits.editing.store_observation import Scope

MOST_PARTITIONS = 1_000_000


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
    from kafkakit.streams.commits.editing.request import Reset
    from kafkakit.streams.commits.editing.targets import parse_target
    from kafkakit.wiring import system_clock

    kit = kit_of(ctx)
    landing, value, words = parse_target(to, system_clock().now(), _local)
    verb = Reset(landing=landing, value=value, keep_done=keep_done)
    _edit(ctx, kit, group, verb, locals(), (f"to {words}",), _scope(topic, partition, all_topics, uncommitted=True))


def skip(
    ctx: typer.Context,
    group: options.Group,
    offsets: options.Offsets,
    topic: options.Topic = "",
    partition: options.Partitions = "",
    dialect: options.As = None,
    adopt: options.Adopt = False,
    outside_log: options.OutsideLog = False,
    coarsen: options.Coarsen = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Count records as done that are not to be delivered any more, such as a poison pill.

    A plain consumer holds one offset, so there only the records from the committed offset on can be skipped. Metadata
    that holds many offsets marks them as skipped.

    Examples:

    \b
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102,200-210 --apply
    """
    from kafkakit.streams.commits.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.editing.request import Skip

    verb = Skip(offsets=parse_offsets(offsets))
    _edit(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), _one_partition(topic, partition))


def unack(
    ctx: typer.Context,
    group: options.Group,
    offsets: options.Offsets,
    topic: options.Topic = "",
    partition: options.Partitions = "",
    dialect: options.As = None,
    adopt: options.Adopt = False,
    outside_log: options.OutsideLog = False,
    coarsen: options.Coarsen = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Let records that are done be delivered again; what else is done stays so.

    Offsets below the committed one take it back to the lowest of them. Also takes back a skip or a rejection.

    Examples:

    \b
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 90,95-99
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 102 --apply
    """
    from kafkakit.streams.commits.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.editing.request import Unack

    verb = Unack(offsets=parse_offsets(offsets))
    _edit(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), _one_partition(topic, partition))


def reject(
    ctx: typer.Context,
    group: options.Group,
    offsets: options.Offsets,
    topic: options.Topic = "",
    partition: options.Partitions = "",
    dialect: options.As = None,
    adopt: options.Adopt = False,
    outside_log: options.OutsideLog = False,
    coarsen: options.Coarsen = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Give records up, and keep on record that they were: for metadata that can hold this (kkm1).

    The committed offset stays below the first rejected one, since nothing else remembers it yet. To let it pass, and
    forget the record, use skip.

    Examples:

    \b
    kafkakit --profile prod streams commits reject orders --topic payments --partition 3 --offsets 102
    kafkakit --profile prod streams commits reject orders --topic payments --partition 3 --offsets 102 \\
      --reason 'broken schema, ticket 4711' --apply
    """
    from kafkakit.streams.commits.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.editing.request import Reject

    verb = Reject(offsets=parse_offsets(offsets))
    _edit(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), _one_partition(topic, partition))


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
    from kafkakit.errors import UsageError
    from kafkakit.streams.commits.editing.moments import parse_moment
    from kafkakit.streams.commits.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.editing.request import Replay
    from kafkakit.wiring import system_clock

    now = system_clock().now()
    request_id = round(now.timestamp() * 1000)
    if bool(offsets) == bool(from_ or to) or bool(from_) != bool(to):
        raise UsageError("a window is --from TIME --to TIME, or --offsets N-N")
    if offsets:
        window = parse_offsets(offsets)
        if len(window.ranges) > 1:
            raise UsageError("--offsets: a replay is one window", hint="unack takes several")
        verb, words = Replay(request_id=request_id, offsets=window), (f"offsets {offsets}",)
        scope = _one_partition(topic, partition)
    else:
        first, last = (parse_moment(t, f, now, _local) for t, f in ((from_, "--from"), (to, "--to")))
        if first.ms >= last.ms:
            raise UsageError(f"--to {last.words} is not after --from {first.words}")
        verb = Replay(request_id=request_id, from_ms=first.ms, to_ms=last.ms)
        words = (f"records from {first.words} to {last.words}",)
        scope = _scope(topic, partition, all_topics)
    _edit(ctx, kit_of(ctx), group, verb, locals(), (*words, f"request id {request_id}"), scope)


def translate(
    ctx: typer.Context,
    group: options.Group,
    to: Annotated[WriteAs, typer.Option("--to", help="The kind of metadata to write.")],
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
    from kafkakit.streams.commits.editing.request import Translate

    verb = Translate(to=_dialect(to))
    _edit(ctx, kit_of(ctx), group, verb, locals(), (f"to {to.value}",), _scope(topic, partition, all_topics))


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


def _edit(
    ctx: typer.Context,
    kit: Kit,
    group: str,
    verb: Verb,
    given: dict[str, Any],
    words: tuple[str, ...],
    scope: Scope,
) -> None:
    from kafkakit.streams.commits.editing.job.cli import consent_of, edit
    from kafkakit.streams.commits.editing.request import EditRequest, verb_name

    request = EditRequest(
        verb=verb,
        dialect=_dialect(given["dialect"]) if given.get("dialect") else None,
        adopt=given["adopt"],
        outside_log=given.get("outside_log", False),
        coarsen=given["coarsen"],
    )
    edit(kit, group, scope, request, words, consent_of(ctx, kit, verb_name(verb), group, given))


def _scope(topic: str, partition: str, all_topics: bool, *, uncommitted: bool = False) -> Scope:
    from kafkakit.errors import UsageError
    from kafkakit.streams.commits.editing.store_observation import Scope

    if bool(topic) == all_topics:
        raise UsageError("name what is meant: --topic NAME, or --all-topics")
    if partition and not topic:
        raise UsageError("--partition goes with --topic")
    return Scope(topic=topic, partitions=_numbers(partition), uncommitted=uncommitted)


def _one_partition(topic: str, partition: str) -> Scope:
    from kafkakit.errors import UsageError

    scope = _scope(topic, partition, all_topics=False)
    if len(scope.partitions) != 1:
        raise UsageError("offsets belong to one partition", hint="name it: --topic NAME --partition N")
    return scope


def _numbers(text: str) -> tuple[int, ...]:
    from kafkakit.errors import UsageError
    from kafkakit.streams.commits.editing.offset_text import parse_offsets

    if not text:
        return ()
    ranges = parse_offsets(text, "--partition")
    if (ranges.end or 0) > MOST_PARTITIONS:
        raise UsageError(f"--partition: {text!r:.40} is above the highest partition there can be")
    return tuple(number for start, end in ranges for number in range(start, end))


def _dialect(written: WriteAs) -> Dialect:
    from kafkakit.streams.commit import Dialect

    return {WriteAs.KKM1: Dialect.KKM1, WriteAs.PC: Dialect.PARALLEL_CONSUMER, WriteAs.PLAIN: Dialect.PLAIN}[written]


def _local(moment: datetime) -> datetime:
    return moment.astimezone()
