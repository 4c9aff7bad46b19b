"""`kafkakit streams commits undo|finish`: what can be done about an edit by its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import Kit, kit_of
from kafkakit.streams.commits.commands import edit_options as options
from kafkakit.streams.commits.commands.edit_session import (
    Consent,
    Desk,
    alone,
    check_consent,
    check_expected,
    consent_of,
    open_desk,
    opening_of,
    settle,
    tell,
)

if TYPE_CHECKING:
    from kafkakit.streams.commits.act.edit_journals import EditJournal
    from kafkakit.streams.commits.decide.editing.journal import EditRecord


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
    consent = consent_of(ctx, kit_of(ctx), "undo", journal, locals())
    _take_back(kit_of(ctx), journal, group, consent, over_others=even_if_changed, outside_log=outside_log)


def finish(
    ctx: typer.Context,
    journal: options.JournalName,
    group: options.OfGroup = "",
    apply: options.Apply = False,
    yes: options.Yes = False,
    expect: options.Expect = "",
) -> None:
    """Finish an edit that was interrupted: write what it did not get to write, and look whether all of it stands.

    Commits that somebody else made since are left as they are. `last` is the newest edit, or undo, that is not whole.

    Examples:

    \b
    kafkakit --profile prod streams commits finish last
    kafkakit --profile prod streams commits finish 20261122T140000.123Z-skip-1f3a90c2 --apply
    """
    _go_on(kit_of(ctx), journal, group, consent_of(ctx, kit_of(ctx), "finish", journal, locals()))


def _take_back(
    kit: Kit, name: str, group: str, consent: Consent, *, over_others: bool = False, outside_log: bool = False
) -> None:
    """Undo an edit by its journal."""
    from kafkakit.streams.commits.decide.editing.undoing import undo_plan

    check_consent(kit, consent)
    with open_desk(kit, writes=consent.apply) as desk:
        found = desk.edits.last(group or None) if name == "last" else desk.edits.named(name)
        with alone(desk, _record(found, desk).opening.group, consent):
            journal = desk.edits.named(found.name)  # anew: until the lock was ours, another process may have added
            record = _record(journal, desk)
            observed = desk.observer.look_at(record.opening.group, record.changes, desk.clock.now())
            plan = undo_plan(record, journal.name, observed, over_others=over_others, outside_log=outside_log)
            check_expected(plan, consent)
            outcome = settle(desk, plan, consent, desk.edits.begin("undo", plan.group), opening_of(desk, plan, consent))
            if outcome is not None and not outcome.declined and not outcome.failed:
                _note_undone(desk, journal, record)
    if outcome is not None:
        tell(kit, outcome)


def _go_on(kit: Kit, name: str, group: str, consent: Consent) -> None:
    """Finish an interrupted edit by its journal."""
    from kafkakit.streams.commits.decide.editing.journal import Standing, Verdict
    from kafkakit.streams.commits.decide.editing.undoing import finish_plan, standings_after

    check_consent(kit, consent)
    with open_desk(kit, writes=consent.apply) as desk:
        found = desk.edits.last_unfinished(group or None) if name == "last" else desk.edits.named(name)
        with alone(desk, _record(found, desk).opening.group, consent):
            journal = desk.edits.named(found.name)  # anew: until the lock was ours, another process may have added
            record = _record(journal, desk)
            observed = desk.observer.look_at(record.opening.group, record.changes, desk.clock.now())
            plan = finish_plan(record, observed)
            check_expected(plan, consent)
            outcome = settle(desk, plan, consent, journal, None)
            if outcome is not None and not plan.changes and record.is_open:
                standings = standings_after(plan, record)
                journal.found(standings)
                is_whole = set(standings.values()) <= {Standing.NEW}
                journal.end(Verdict.COMPLETE if is_whole else Verdict.INCOMPLETE)
    if outcome is not None:
        tell(kit, outcome)


def _record(journal: EditJournal, desk: Desk) -> EditRecord:
    from kafkakit.core.errors import InputError, RefusedError

    record = journal.record
    if record is None:
        raise InputError(journal.name, "holds no edit")
    if record.opening.cluster_id != desk.cluster_id:
        raise RefusedError(
            f"{journal.name} is of cluster {record.opening.cluster_id}, this is cluster {desk.cluster_id}"
        )
    if not record.changes:
        raise InputError(journal.name, record.story, hint="there is nothing to undo or finish")
    return record


def _note_undone(desk: Desk, undone: EditJournal, record: EditRecord) -> None:
    """Tell the other journals what came of their edits: the commits stand, and the undo's own journal has it all."""
    from kafkakit.core.errors import KafkakitError
    from kafkakit.streams.commits.decide.editing.journal import Verdict

    try:
        undone.end(Verdict.UNDONE)
        for name in desk.edits.interrupted(record.opening.group):
            other = desk.edits.named(name)
            # An earlier undo of the same edit that was interrupted wanted just what stands now.
            if other.record is not None and other.record.opening.undoes == undone.name:
                other.end(Verdict.COMPLETE)
        if record.opening.undoes is not None:
            desk.edits.named(record.opening.undoes).end(Verdict.COMPLETE)
    except KafkakitError as error:
        desk.kit.output.warn(f"the old commits are back, but an older journal cannot tell so: {error.message}")
