"""`kafkakit streams commits`: the commands that edit what a group committed.

`reset`, `replay` and `translate` edit whole windows of commits; `skip`, `unack` and `reject` edit records that are
named by their offsets; `delete` removes commits of topics that a group no longer reads, or the whole group; `undo` and
`finish` follow the journal of an earlier edit. All of them run the same way: connect, lock the group, plan, show the
plan, ask, carry out, report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.quantities import epoch_ms
from kafkakit.streams.commits.commands import options
from kafkakit.streams.commits.commands.options import RecordEditOptions, opening_of
from kafkakit.streams.commits.decide.editing.edit import (
    MAX_BYTES,
    Delete,
    DialectWord,
    EditAllowances,
    EditPlan,
    EditRequest,
    Reject,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    Translate,
    Unack,
    parse_moment,
    parse_offsets,
    parse_target,
    read_offset_file,
    verb_name,
)

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.editing import EditedCluster
    from kafkakit.streams.commits.act.reading import PartitionScope
    from kafkakit.streams.commits.commands.options import EditConsent


def edit(
    ctx: typer.Context,
    group: str,
    scope: PartitionScope,
    request: EditRequest,
    words: tuple[str, ...],
    consent: EditConsent,
    reason: str,
) -> None:
    """Plan an edit, show it, and with consent carry it out."""
    from kafkakit.core.text import shell_command
    from kafkakit.streams.commits.report.edits import outcome_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True, edits_commits=not consent.dry_run) as opened:
        cluster = edited_cluster(ctx, opened)
        lock_group(ctx, opened, group, consent)
        plan = cluster.plan(group, scope, request, words)
        consent.check_expected(plan)
        cluster.check_no_interrupted(group, applies=not consent.dry_run)
        if consent.dry_run:
            return show_plan(ctx, plan, verb_name(request.verb), group)
        outcome = cluster.carry_out(plan, opening_of(plan, reason), prepare_question(ctx, plan, consent))
    undo = shell_command("streams commits undo", "last", program=cli.program, group=group)
    session.finish(cli, outcome_report(outcome, str(undo)))
    return None


def edited_cluster(ctx: typer.Context, opened: session.ClusterSession) -> EditedCluster:
    """The cluster of the session, with what an edit needs."""
    from kafkakit.streams.commits.act.editing import EditedCluster

    cli = cli_context(ctx)
    return EditedCluster(
        opened.groups,
        opened.log,
        opened.admin,
        opened.clock,
        cli.output,
        state_dir=cli.settings.state_dir,
        program=cli.program,
    )


def lock_group(ctx: typer.Context, opened: session.ClusterSession, group: str, consent: EditConsent) -> None:
    """Keep other edits of the group on this host off; only a plan takes no lock and leaves no file."""
    from kafkakit.core.text import shown_name
    from kafkakit.streams.commits.act.editing import edit_lock

    if not consent.dry_run:
        path = edit_lock(cli_context(ctx).settings.state_dir, opened.cluster_id, group)
        opened.lock(path, f"commits of group {shown_name(group)}", "streams commits")


def show_plan(ctx: typer.Context, plan: EditPlan, verb: str, argument: str) -> None:
    """Print a plan that is not carried out, with the command that carries just this one out."""
    from kafkakit.cli.context import given_words
    from kafkakit.core.text import ShellCommand
    from kafkakit.streams.commits.report.edits import plan_report

    cli = cli_context(ctx)
    typed = (*given_words(ctx, ("apply", "dry_run", "expect")), "--expect", plan.fingerprint)
    again = ShellCommand(f"streams commits {verb}", (argument,), program=cli.program, typed=typed)
    session.finish(cli, plan_report(plan, str(again)))


def prepare_question(ctx: typer.Context, plan: EditPlan, consent: EditConsent) -> Callable[[str], bool] | None:
    """Print the plan that is about to be written, and give the question; None if no question is asked."""
    from kafkakit.streams.commits.report.edits import plan_text

    output = cli_context(ctx).output
    output.say(plan_text(plan))
    return None if consent.yes else output.ask_typed


@with_option_groups
def reset(
    ctx: typer.Context,
    *,
    group: options.EditedGroup,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="earliest|latest|OFFSET|TIME|-DURATION|-N|+N",
            help="The new offset: an end of the log, an offset, the first record of a time (14:00 is today's, local; "
            "-2h is two hours ago), or N offsets before or after the commit.",
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
    allowances: EditAllowances,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Move the committed offset. A partition without a commit gets one, when its topic is named.

    Shows the plan first: what will be delivered again, and what never will. The old commits, with their metadata, are
    in the journal for undo.

    --from-csv reads what kafka-consumer-groups.sh exports and takes with --from-file: rows of topic,partition,offset,
    or of group,topic,partition,offset, of which only GROUP's rows count. Offsets outside of the log are refused. To
    export a group's commits, use one of the last two examples.

    Examples:

    \b
    kafkakit --profile prod streams commits reset orders --topic payments --to 14:00
    kafkakit --profile prod streams commits reset orders --topic payments --to -2h
    kafkakit --profile prod streams commits reset orders --topic payments --partition 3 --to -1000
    kafkakit --profile prod streams commits reset orders --all-topics --to latest --yes
    kafkakit --profile prod streams commits reset orders --from-csv orders.csv
    kafkakit --profile prod streams commits show orders -o tsv | cut -f1-3 | tr '\\t' , > orders.csv
    kafka-consumer-groups.sh --bootstrap-server broker1:9092 --group orders --all-topics \\
      --reset-offsets --to-current --export > orders.csv
    """
    from kafkakit.core.errors import UsageError
    from kafkakit.wiring import read_input, system_clock

    if bool(to) == bool(from_csv):
        raise UsageError("give --to or --from-csv")
    if from_csv:
        topic, source = choice.topic_of_rows, "stdin" if from_csv == "-" else from_csv
        targets = read_offset_file(read_input(from_csv, MAX_BYTES), source, group, topic)
        verb = Reset(landing=ResetTarget.FILE, targets=targets, keep_done=keep_done)
        scope, words = options.named_scope(targets), f"the offsets of {source}"
    else:
        landing, value, words = parse_target(to, system_clock().now(), options.local_time)
        verb = Reset(landing=landing, value=value, keep_done=keep_done)
        scope = choice.scope(uncommitted=True)
    edit(ctx, group, scope, EditRequest(verb=verb, allows=allowances), (f"to {words}",), consent, reason)


@with_option_groups
def replay(
    ctx: typer.Context,
    *,
    group: options.EditedGroup,
    from_: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="The window's first time: 14:00 (today, local), -2h or ISO 8601."),
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="TIME", help="The window's end; records of this time are not in it.")
    ] = "",
    offsets: Annotated[
        str, typer.Option("--offsets", metavar="N-N", help="The window as offsets, both ends included.")
    ] = "",
    choice: options.TopicChoice,
    allowances: EditAllowances,
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
      --from 2026-11-22T14:00:00Z --to 2026-11-22T14:05:00Z
    """
    from kafkakit.core.errors import UsageError
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
    edit(
        ctx,
        group,
        scope,
        EditRequest(verb=verb, allows=allowances),
        (*words, f"request id {request_id}"),
        consent,
        reason,
    )


@with_option_groups
def translate(
    ctx: typer.Context,
    *,
    group: options.EditedGroup,
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
    kafkakit --profile prod streams commits translate orders --to plain --topic payments
    """

    verb = Translate(to=options.dialect_name(to))
    edit(ctx, group, choice.scope(), EditRequest(verb=verb, allows=allowances), (f"to {to}",), consent, reason)


@with_option_groups
def skip(ctx: typer.Context, options: RecordEditOptions) -> None:
    """Mark records as done so that they are not delivered any more, such as a poison pill.

    A plain commit is one offset, so there only records from the committed offset on can be skipped. Metadata that
    holds many offsets marks them as skipped.

    Examples:

    \b
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102,200-210
    """

    _edit_records(ctx, options, Skip)


@with_option_groups
def unack(ctx: typer.Context, options: RecordEditOptions) -> None:
    """Deliver done records again; all other done records stay done.

    Offsets below the committed one move it back to the lowest of them. This also undoes a skip or a rejection.

    Examples:

    \b
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 90,95-99
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 102
    """

    _edit_records(ctx, options, Unack)


@with_option_groups
def reject(ctx: typer.Context, options: RecordEditOptions) -> None:
    """Mark records as rejected: for metadata that can hold this (kkm1).

    The committed offset stays below the first rejected one, since only the commit records the rejection. To commit
    past it, without that record, use skip.

    Examples:

    \b
    kafkakit --profile prod streams commits reject orders --topic payments --partition 3 --offsets 102
    kafkakit --profile prod streams commits reject orders --topic payments --partition 3 --offsets 102 \\
      --reason 'broken schema, ticket 4711'
    """

    _edit_records(ctx, options, Reject)


def _edit_records(ctx: typer.Context, options: RecordEditOptions, verb: type[Skip | Unack | Reject]) -> None:

    request = EditRequest(verb=verb(offsets=parse_offsets(options.offsets)), allows=options.allowances)
    words = (f"offsets {options.offsets}",)
    edit(ctx, options.group, options.choice.one_partition, request, words, options.consent, options.reason)


@with_option_groups
def delete(
    ctx: typer.Context,
    *,
    group: options.DeletedGroup,
    choice: options.PartitionChoice,
    everything: Annotated[bool, typer.Option("--all", help="All commits of the group, and the group itself.")] = False,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Delete a group's commits for a topic that it does not read any more, or the whole group.

    With --topic the group may be live, if no member is subscribed to the topic: the brokers decide (Kafka 2.4 and
    later). With --all it must have no members; groups of every protocol are deleted, also those without commits.

    Shows the plan first. The deleted commits, with their metadata, are in the journal, and undo commits them again,
    which also creates the group again. A member that starts without a commit follows its auto.offset.reset.

    Examples:

    \b
    kafkakit --profile prod streams commits delete orders --topic payments
    kafkakit --profile prod streams commits delete orders --topic payments --partition 3,7-9
    kafkakit --profile prod streams commits delete orders --all --yes
    kafkakit --profile prod streams commits undo last --group orders
    """

    scope = choice.scope_or_all(everything=everything)
    words = "the whole group" if everything else f"commits for topic {choice.topic}"
    edit(ctx, group, scope, EditRequest(verb=Delete(whole_group=everything)), (words,), consent, reason)


@with_option_groups
def undo(
    ctx: typer.Context,
    *,
    journal: options.JournalName,
    group: options.OfGroup = None,
    even_if_changed: options.EvenIfChanged = False,
    outside_log: options.OutsideLog = False,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Restore the commits that an edit replaced, with exactly their metadata.

    Reports first how far the edit came, if it was interrupted. An undo is itself an edit, and can be undone.

    Examples:

    \b
    kafkakit --profile prod streams commits undo last
    kafkakit --profile prod streams commits undo last --group orders
    kafkakit --profile prod streams commits undo 20261122T140000.123Z-skip-1f3a90c2
    """
    from kafkakit.streams.commits.report.edits import outcome_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True, edits_commits=not consent.dry_run) as opened:
        cluster = edited_cluster(ctx, opened)
        found, record = cluster.journal_to_undo(journal, group)
        lock_group(ctx, opened, record.opening.group, consent)
        found, record = cluster.reopened(found)
        plan = cluster.undo_plan(found, record, over_others=even_if_changed, outside_log=outside_log)
        consent.check_expected(plan)
        if consent.dry_run:
            return show_plan(ctx, plan, "undo", journal)
        opening = options.opening_of(plan, reason)
        outcome = cluster.undo(found, record, plan, opening, prepare_question(ctx, plan, consent))
    session.finish(cli, outcome_report(outcome))
    return None


@with_option_groups
def finish(
    ctx: typer.Context, journal: options.JournalName, group: options.OfGroup = None, *, consent: options.EditConsent
) -> None:
    """Finish an edit that was interrupted: write what is missing, and verify all of it.

    Commits that another process made since are left as they are. `last` is the newest edit, or undo, that is
    incomplete.

    Examples:

    \b
    kafkakit --profile prod streams commits finish last
    kafkakit --profile prod streams commits finish 20261122T140000.123Z-skip-1f3a90c2
    """
    from kafkakit.streams.commits.report.edits import outcome_report

    cli = cli_context(ctx)
    with session.open_session(cli, read_only=True, edits_commits=not consent.dry_run) as opened:
        cluster = edited_cluster(ctx, opened)
        found, record = cluster.journal_to_finish(journal, group)
        lock_group(ctx, opened, record.opening.group, consent)
        found, record = cluster.reopened(found)
        plan = cluster.finish_plan(record)
        consent.check_expected(plan)
        if consent.dry_run:
            return show_plan(ctx, plan, "finish", journal)
        outcome = cluster.finish(found, record, plan, prepare_question(ctx, plan, consent))
    session.finish(cli, outcome_report(outcome))
    return None
