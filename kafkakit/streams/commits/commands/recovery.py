"""`kafkakit streams commits undo|finish`: what can be done about an edit by its journal."""

from __future__ import annotations

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_run import asking, edited_cluster, lock_group, show_plan


@with_option_groups
def undo(
    ctx: typer.Context,
    *,
    journal: options.JournalName,
    group: options.OfGroup = "",
    even_if_changed: options.EvenIfChanged = False,
    outside_log: options.OutsideLog = False,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Restore the commits that an edit replaced, with exactly their metadata.

    Reports first how far the edit came, if it was interrupted. An undo is an edit too, and can be undone.

    Examples:

    \b
    kafkakit --profile prod streams commits undo last
    kafkakit --profile prod streams commits undo last --group orders --apply
    kafkakit --profile prod streams commits undo 20261122T140000.123Z-skip-1f3a90c2 --apply
    """
    from kafkakit.streams.commits.show.edits import outcome_report

    cli = cli_context(ctx)
    consent.check(is_answerable=cli.input_allowed)
    with session.open_session(cli, read_only=True, edits_commits=consent.apply) as opened:
        cluster = edited_cluster(ctx, opened)
        found, record = cluster.journal_to_undo(journal, group)
        lock_group(ctx, opened, record.opening.group, consent)
        found, record = cluster.reopened(found)
        plan = cluster.undo_plan(found, record, over_others=even_if_changed, outside_log=outside_log)
        consent.check_expected(plan)
        if not consent.apply:
            return show_plan(ctx, plan, "undo", journal)
        opening = options.opening_of(plan, reason)
        outcome = cluster.undo(found, record, plan, opening, asking(ctx, plan, consent))
    session.finish(cli, outcome_report(outcome))
    return None


@with_option_groups
def finish(
    ctx: typer.Context, journal: options.JournalName, group: options.OfGroup = "", *, consent: options.EditConsent
) -> None:
    """Finish an edit that was interrupted: write what is missing, and verify all of it.

    Commits that another process made since are left as they are. `last` is the newest edit, or undo, that is
    incomplete.

    Examples:

    \b
    kafkakit --profile prod streams commits finish last
    kafkakit --profile prod streams commits finish 20261122T140000.123Z-skip-1f3a90c2 --apply
    """
    from kafkakit.streams.commits.show.edits import outcome_report

    cli = cli_context(ctx)
    consent.check(is_answerable=cli.input_allowed)
    with session.open_session(cli, read_only=True, edits_commits=consent.apply) as opened:
        cluster = edited_cluster(ctx, opened)
        found, record = cluster.journal_to_finish(journal, group)
        lock_group(ctx, opened, record.opening.group, consent)
        found, record = cluster.reopened(found)
        plan = cluster.finish_plan(record)
        consent.check_expected(plan)
        if not consent.apply:
            return show_plan(ctx, plan, "finish", journal)
        outcome = cluster.finish(found, record, plan, asking(ctx, plan, consent))
    session.finish(cli, outcome_report(outcome))
    return None
