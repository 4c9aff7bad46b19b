"""One command that edits commits: connecting, locking, planning, asking, and its ending."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from kafkakit.cli import session
from kafkakit.cli.command_classes import cli_context
from kafkakit.streams.commits.commands.edit_options import opening_of

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.edit_observation import PartitionScope
    from kafkakit.streams.commits.act.edited_cluster import EditedCluster
    from kafkakit.streams.commits.commands.edit_options import EditConsent
    from kafkakit.streams.commits.decide.editing.plan import EditPlan
    from kafkakit.streams.commits.decide.editing.request import EditRequest


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
    from kafkakit.core.shell_words import quote
    from kafkakit.streams.commits.decide.editing.request import verb_name
    from kafkakit.streams.commits.show.edits import outcome_report

    cli = cli_context(ctx)
    consent.check(is_answerable=cli.input_allowed)
    with session.open_session(cli, read_only=True, edits_commits=consent.apply) as opened:
        cluster = edited_cluster(ctx, opened)
        lock_group(ctx, opened, group, consent)
        plan = cluster.plan(group, scope, request, words)
        consent.check_expected(plan)
        cluster.check_no_interrupted(group, applies=consent.apply)
        if not consent.apply:
            return show_plan(ctx, plan, verb_name(request.verb), group)
        outcome = cluster.carry_out(plan, opening_of(plan, reason), asking(ctx, plan, consent))
    undo = f"{cli.program} streams commits undo last --group {quote(group)} --apply"
    session.finish(cli, outcome_report(outcome, undo))
    return None


def edited_cluster(ctx: typer.Context, opened: session.ClusterSession) -> EditedCluster:
    """The cluster of the session, with what an edit needs."""
    from kafkakit.streams.commits.act.edited_cluster import EditedCluster

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
    """Keep other edits of the group on this host off; a plan alone takes no lock and leaves no file."""
    from kafkakit.core.printable import printable
    from kafkakit.streams.commits.act.edit_journals import edit_lock

    if consent.apply:
        path = edit_lock(cli_context(ctx).settings.state_dir, opened.cluster_id, group)
        opened.lock(path, f"commits of group {printable(group)}", "streams commits")


def show_plan(ctx: typer.Context, plan: EditPlan, verb: str, argument: str) -> None:
    """Print a plan that is not carried out, with the command that carries just this one out."""
    from kafkakit.cli.command_line import given_words
    from kafkakit.core.shell_words import quote
    from kafkakit.streams.commits.show.edits import plan_report

    cli = cli_context(ctx)
    words = given_words(ctx, ("apply", "expect"))
    again = " ".join([cli.program, "streams commits", verb, quote(argument), *words])
    session.finish(cli, plan_report(plan, f"{again} --apply --expect {plan.fingerprint}"))


def asking(ctx: typer.Context, plan: EditPlan, consent: EditConsent) -> Callable[[str], bool] | None:
    """Print the plan that is about to be written, and give the question; None where no question is asked."""
    from kafkakit.streams.commits.show.edits import render_plan

    output = cli_context(ctx).output
    if plan.changes:
        output.say(render_plan(plan))
    return None if consent.yes else output.ask_typed
