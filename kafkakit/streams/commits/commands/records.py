"""`kafkakit streams commits skip|unack|reject`: edits of records that are named by their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.commits.commands.edit_options import RecordEditOptions
from kafkakit.streams.commits.commands.edit_run import edit

if TYPE_CHECKING:
    from kafkakit.streams.commits.decide.editing.request import Reject, Skip, Unack


@with_option_groups
def skip(ctx: typer.Context, options: RecordEditOptions) -> None:
    """Mark records as done so that they are not delivered any more, such as a poison pill.

    A plain commit is one offset, so there only records from the committed offset on can be skipped. Metadata that
    holds many offsets marks them as skipped.

    Examples:

    \b
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102
    kafkakit --profile prod streams commits skip orders --topic payments --partition 3 --offsets 102,200-210 --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Skip

    _edit_records(ctx, options, Skip)


@with_option_groups
def unack(ctx: typer.Context, options: RecordEditOptions) -> None:
    """Deliver done records again; all other done records stay done.

    Offsets below the committed one move it back to the lowest of them. This also undoes a skip or a rejection.

    Examples:

    \b
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 90,95-99
    kafkakit --profile prod streams commits unack orders --topic payments --partition 3 --offsets 102 --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Unack

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
      --reason 'broken schema, ticket 4711' --apply
    """
    from kafkakit.streams.commits.decide.editing.request import Reject

    _edit_records(ctx, options, Reject)


def _edit_records(ctx: typer.Context, options: RecordEditOptions, verb: type[Skip | Unack | Reject]) -> None:
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets

    request = options.allowances.request(verb(offsets=parse_offsets(options.offsets)))
    words = (f"offsets {options.offsets}",)
    edit(ctx, options.group, options.choice.one_partition, request, words, options.consent, options.reason)
