"""`kafkakit streams commits reset|replay|translate`: edits of whole windows of commits."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.durations import epoch_ms
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_run import edit
from kafkakit.streams.commits.commands.word_options import DialectWord


@with_option_groups
def reset(
    ctx: typer.Context,
    *,
    group: options.Group,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="earliest|latest|OFFSET|TIME|-DURATION|-N|+N",
            help="Where to: an end of the log, an offset, the first record of a time (14:00 is today's, local; -2h is "
            "two hours ago), or N offsets before or after the commit.",
            show_default=False,
        ),
    ] = "",
    from_csv: Annotated[
        str,
        typer.Option(
            "--from-csv",
            metavar="FILE",
            help="Instead of --to: the offsets of this CSV file, - for stdin. Its rows name the partitions.",
        ),
    ] = "",
    choice: options.TopicChoice,
    keep_done: Annotated[
        bool,
        typer.Option("--keep-done", help="Keep what is done above the new offset; otherwise it is delivered again."),
    ] = False,
    allowances: options.EditAllowances,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Move the committed offset. A partition without a commit gets one, when its topic is named.

    Prints the plan: what will be delivered again, and what never. With --apply it is carried out; the old commits,
    with their metadata, are in the journal for undo.

    --from-csv reads what kafka-consumer-groups.sh exports and takes with --from-file: rows of topic,partition,offset,
    or of group,topic,partition,offset, of which those of GROUP count. Offsets outside of the log are refused. To
    export a group's commits, use one of the last two examples.

    Examples:

    \b
    kafkakit --profile prod streams commits reset orders --topic payments --to 14:00
    kafkakit --profile prod streams commits reset orders --topic payments --to -2h
    kafkakit --profile prod streams commits reset orders --topic payments --partition 3 --to -1000 --apply
    kafkakit --profile prod streams commits reset orders --all-topics --to latest --apply --yes
    kafkakit --profile prod streams commits reset orders --from-csv orders.csv
    kafkakit --profile prod streams commits show orders -o tsv | cut -f1-3 | tr '\\t' , > orders.csv
    kafka-consumer-groups.sh --bootstrap-server broker1:9092 --group orders --all-topics \\
      --reset-offsets --to-current --export > orders.csv
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.streams.commits.decide.editing.offset_file import MAX_BYTES, read_offset_file
    from kafkakit.streams.commits.decide.editing.request import Landing, Reset
    from kafkakit.streams.commits.decide.editing.targets import parse_target
    from kafkakit.wiring import read_input, system_clock

    if bool(to) == bool(from_csv):
        raise UsageError("name where to: --to or --from-csv")
    if from_csv:
        topic, source = choice.topic_of_rows, "stdin" if from_csv == "-" else from_csv
        targets = read_offset_file(read_input(from_csv, MAX_BYTES), source, group, topic)
        verb = Reset(landing=Landing.FILE, targets=targets, keep_done=keep_done)
        scope, words = options.named_scope(targets), f"the offsets of {source}"
    else:
        landing, value, words = parse_target(to, system_clock().now(), options.local_time)
        verb = Reset(landing=landing, value=value, keep_done=keep_done)
        scope = choice.scope(uncommitted=True)
    edit(ctx, group, scope, allowances.request(verb), (f"to {words}",), consent, reason)


@with_option_groups
def replay(
    ctx: typer.Context,
    *,
    group: options.Group,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="The window's first time: 14:00 (today, local), -2h or ISO 8601."),
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Where the window ends; records of this time are not in it.")
    ] = "",
    offsets: Annotated[
        str, typer.Option("--offsets", metavar="N-N", help="The window as offsets, both ends included.")
    ] = "",
    choice: options.TopicChoice,
    allowances: options.EditAllowances,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Deliver a window of records again; everything done outside of it stays done.

    The window is from the first record at or after --from to the first one at or after --to, by the records' times.
    For applications that read metadata with many offsets; a tag marks the records that are delivered again.

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
        scope = choice.one_partition
    else:
        first, last = (parse_moment(t, f, now, options.local_time) for t, f in ((from_, "--from"), (to, "--to")))
        if first.ms >= last.ms:
            raise UsageError(f"--to {last.words} is not after --from {first.words}")
        verb = Replay(request_id=request_id, from_ms=first.ms, to_ms=last.ms)
        words = (f"records from {first.words} to {last.words}",)
        scope = choice.scope()
    edit(ctx, group, scope, allowances.request(verb), (*words, f"request id {request_id}"), consent, reason)


@with_option_groups
def translate(
    ctx: typer.Context,
    *,
    group: options.Group,
    to: Annotated[DialectWord, typer.Option("--to", help="The kind of metadata to write.")],
    choice: options.TopicChoice,
    allowances: options.TranslateAllowances,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Convert commits to another kind of metadata, for an application that changes its client library.

    Reports what the new kind cannot hold. pc is the map of parallel-consumer; plain is only an offset, so that all
    records above it are delivered again.

    Examples:

    \b
    kafkakit --profile prod streams commits translate orders --to pc --all-topics
    kafkakit --profile prod streams commits translate orders --to plain --topic payments --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Translate

    verb = Translate(to=options.dialect_name(to))
    edit(ctx, group, choice.scope(), allowances.request(verb), (f"to {to}",), consent, reason)
