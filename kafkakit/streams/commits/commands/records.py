"""`kafkakit streams commits skip|unack|reject`: edits of records that are named by their offsets."""

from __future__ import annotations

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_arguments import edit_as_given, one_partition


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
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.decide.editing.request import Skip

    verb = Skip(offsets=parse_offsets(offsets))
    edit_as_given(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), one_partition(topic, partition))


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
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.decide.editing.request import Unack

    verb = Unack(offsets=parse_offsets(offsets))
    edit_as_given(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), one_partition(topic, partition))


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
    from kafkakit.streams.commits.decide.editing.offset_text import parse_offsets
    from kafkakit.streams.commits.decide.editing.request import Reject

    verb = Reject(offsets=parse_offsets(offsets))
    edit_as_given(ctx, kit_of(ctx), group, verb, locals(), (f"offsets {offsets}",), one_partition(topic, partition))
