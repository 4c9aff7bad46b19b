"""Taking an edit back, or finishing one that was interrupted: plans from its journal and the commits of now."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from kafkakit.core.errors import RefusedError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.editing.changes import all_done
from kafkakit.streams.commits.decide.editing.journal import CommitChange, CommitStanding, EditRecord, Verdict
from kafkakit.streams.commits.decide.editing.observed import Observed, SeenPartition
from kafkakit.streams.commits.decide.editing.plan import EditPlan, PartitionEdit, same_commit
from kafkakit.streams.model.commit import CommitState, OffsetRanges, Reading
from kafkakit.streams.model.dialects.registry import WITHOUT_METADATA, read_metadata


def undo_plan(
    record: EditRecord, name: str, observed: Observed, *, over_others: bool = False, outside_log: bool = False
) -> EditPlan:
    """Bring back every commit as it was before the edit, to the last character.

    Raises `RefusedError` where a commit is neither the edit's nor the one before it (`over_others` writes over it), or
    its topic was recreated, or the old offset is not in the log any more (`outside_log` restores it anyway).
    Commits of a topic that is gone went with it, and are left out.
    """
    edits = []
    for seen, change in _pairs(record, observed):
        if seen.identity.topic_id != change.topic_id:
            raise RefusedError(
                f"{seen.partition}: its topic was recreated since the edit", hint="the old offset is void: use reset"
            )
        if same_commit(seen.committed, change.old):
            edits.append(replacing(seen, seen.committed, "is as it was before the edit"))
            continue
        if not same_commit(seen.committed, change.new) and not over_others:
            raise RefusedError(
                f"{seen.partition}: its commit is not the one that the edit wrote ({_words(seen.committed)})",
                hint="another process committed since; --even-if-changed restores the old one anyway",
            )
        old = change.old
        if old is not None and not seen.span.start <= old.offset <= seen.span.end and not outside_log:
            raise RefusedError(
                f"{seen.partition}: the old offset {old.offset} is outside of the log "
                f"({seen.span.start} to {seen.span.end})",
                hint="--allow-outside-log restores it anyway",
            )
        edits.append(replacing(seen, old))
    return _plan("undo", record, observed, edits, undoes=name)


def finish_plan(record: EditRecord, observed: Observed) -> EditPlan:
    """Write what an interrupted edit did not get to write, and leave alone what is another process's by now.

    Every interrupted edit has its way to an end by this; one that ended is not made again (`RefusedError`).
    """
    edits = []
    for seen, change in _pairs(record, observed):
        if seen.identity.topic_id != change.topic_id:
            edits.append(_left(seen, "its topic was recreated since the edit"))
        elif same_commit(seen.committed, change.new):
            edits.append(replacing(seen, seen.committed, "is written already"))
        elif same_commit(seen.committed, change.old):
            edits.append(replacing(seen, change.new))
        else:
            edits.append(_left(seen, f"another process committed since the edit ({_words(seen.committed)})"))
    plan = _plan(record.opening.verb, record, observed, edits, undoes=record.opening.undoes)
    if plan.changes and record.verdict not in (Verdict.OPEN, Verdict.INCOMPLETE):
        raise RefusedError(f"there is nothing to finish: {record.story}", hint="plan the edit again")
    return plan


def standings_after(plan: EditPlan, record: EditRecord) -> dict[TopicPartition, CommitStanding]:
    """What stands of an edit once the plan is carried out, by the plan alone; OTHER where it leaves a commit alone."""
    led = {edit.partition: edit for edit in plan.edits}
    return {
        key: CommitStanding.NEW
        if key in led and led[key].topic_id == change.topic_id and same_commit(led[key].after, change.new)
        else CommitStanding.OTHER
        for key, change in sorted(record.changes.items())
    }


def _pairs(record: EditRecord, observed: Observed) -> list[tuple[SeenPartition, CommitChange]]:
    seen: Mapping[TopicPartition, SeenPartition] = {item.partition: item for item in observed.partitions}
    return [(seen[key], change) for key, change in sorted(record.changes.items()) if key in seen]


def _plan(
    verb: str, record: EditRecord, observed: Observed, edits: list[PartitionEdit], undoes: str | None
) -> EditPlan:
    at: datetime = record.at
    words = [f"{record.opening.verb} of {at.isoformat(timespec='seconds')} by {record.opening.who}", record.story]
    seen = {item.partition for item in observed.partitions}
    words += [f"{key}: its topic is not there any more, left out" for key in sorted(record.changes) if key not in seen]
    return EditPlan(
        verb=verb,
        cluster_id=observed.cluster_id,
        group=record.opening.group,
        taken_at=observed.taken_at,
        limit_chars=observed.limit_chars,
        edits=tuple(edits),
        words=tuple(words),
        request_id=record.opening.request_id,
        undoes=undoes,
    )


def _left(seen: SeenPartition, why: str) -> PartitionEdit:
    return replace(replacing(seen, seen.committed), warnings=(f"{why}: left as it is",))


def replacing(seen: SeenPartition, after: CommittedOffset | None, note: str = "") -> PartitionEdit:
    """The edit that puts another commit in the place of the one that was seen, None for none."""
    found = None if after is None else read_metadata(after.metadata, after.offset, seen.identity)
    was, becomes = _done(seen.state), _done(found.state if found else None)
    edit = PartitionEdit(
        partition=seen.partition,
        topic_id=seen.identity.topic_id,
        before=seen.committed,
        after=after,
        dialect_before=seen.dialect,
        dialect_after=_dialect(found),
        state_before=seen.state,
        state_after=found.state if found else None,
        notes=(note,) if note else (),
    )
    return replace(
        edit,
        reopened=was.minus(becomes).within(seen.span.start, seen.span.end),
        passed=becomes.minus(was).within(seen.span.start, seen.span.end),
    )


def _dialect(reading: Reading | None) -> str:
    return WITHOUT_METADATA.name if reading is None else reading.dialect


def _done(state: CommitState | None) -> OffsetRanges:
    return OffsetRanges() if state is None else all_done(state)


def _words(commit: CommittedOffset | None) -> str:
    return "there is none" if commit is None else f"it is at {commit.offset}"
