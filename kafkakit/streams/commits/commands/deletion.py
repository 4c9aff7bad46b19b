"""`kafkakit streams commits delete`: commits of topics that a group reads no more, or the whole group."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_run import edit


@with_option_groups
def delete(
    ctx: typer.Context,
    *,
    group: options.Group,
    choice: options.PartitionChoice,
    everything: Annotated[bool, typer.Option("--all", help="All commits of the group, and the group itself.")] = False,
    reason: options.Reason = "",
    consent: options.EditConsent,
) -> None:
    """Delete a group's commits for one topic, or the whole group. The group must have no members.

    Prints the plan. With --apply it is carried out; the deleted commits, with their metadata, are in the journal, and
    undo commits them again, which also creates the group again. A member that starts without a commit follows its
    auto.offset.reset.

    Examples:

    \b
    kafkakit --profile prod streams commits delete orders --topic payments
    kafkakit --profile prod streams commits delete orders --topic payments --partition 3,7-9 --apply
    kafkakit --profile prod streams commits delete orders --all --apply --yes
    kafkakit --profile prod streams commits undo last --group orders --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Delete, EditRequest

    scope = choice.scope_or_all(everything=everything)
    words = "the whole group" if everything else f"commits for topic {choice.topic}"
    edit(ctx, group, scope, EditRequest(verb=Delete(whole_group=everything)), (words,), consent, reason)
