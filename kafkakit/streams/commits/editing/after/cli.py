"""`kafkakit streams commits undo|finish`: what can be done about an edit by its journal."""

from __future__ import annotations

import typer

from kafkakit.command import kit_of
from kafkakit.streams.commits.editing import options


def undo(
    ctx: typer.Context,
    journal: options.JournalName,
    group: options.OfGroup = "",
    even_if_changed: options.EvenIfChanged = False,
    outside_log: options.OutsideLog = False,
    reason: options.Reason = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Bring the commits back that an edit replaced, to the last character of their metadata.

    Says first how far the edit came, if it was interrupted. An undo is an edit too, and can be undone.

    Examples:

    \b
    kafkakit --profile prod streams commits undo last
    kafkakit --profile prod streams commits undo last --group orders --apply
    kafkakit --profile prod streams commits undo 20261122T140000.123Z-skip-1f3a90c2 --apply
    """
    from kafkakit.streams.commits.editing.job.cli import consent_of, take_back

    consent = consent_of(ctx, kit_of(ctx), "undo", journal, locals())
    take_back(kit_of(ctx), journal, group, consent, over_others=even_if_changed, outside_log=outside_log)


def finish(
    ctx: typer.Context,
    journal: options.JournalName,
    group: options.OfGroup = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Finish an edit that was interrupted: write what it did not get to write, and look whether all of it stands.

    Examples:

    \b
    kafkakit --profile prod streams commits finish last
    kafkakit --profile prod streams commits finish 20261122T140000.123Z-skip-1f3a90c2 --apply
    """
    from kafkakit.streams.commits.editing.job.cli import consent_of, go_on

    go_on(kit_of(ctx), journal, group, consent_of(ctx, kit_of(ctx), "finish", journal, locals()))
