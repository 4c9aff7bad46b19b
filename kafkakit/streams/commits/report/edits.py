"""Plans and outcomes of edits as text, as rows and as data."""

from collections.abc import Iterator, Sequence

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize, shown_name
from kafkakit.report.report import Part, Report, ResultTable, attributes, lines_of
from kafkakit.streams.commits.decide.editing.edit import EditOutcome, EditPlan, PartitionEdit, PartitionResult
from kafkakit.streams.model.commit import CommitState, OffsetRanges, ranges_text, topic_id_text
from kafkakit.streams.model.kkm1.text import utf16_units

COLUMNS = (
    "topic", "partition", "offset", "new_offset", "dialect", "new_dialect", "delivered_again", "passed", "forgotten",
    "changes", "stands", "problem",
)  # fmt: skip
MOST_SHOWN = 50


def plan_sections(plan: EditPlan, next_command: str = "") -> Iterator[Part]:
    """The plan for people; `next_command` is what applies it, "" where that is asked or done anyway."""
    yield f"{plan.verb} for group {shown_name(plan.group)} on cluster {plan.cluster_id}"
    yield from (f"  {sanitize(words)}" for words in plan.words)
    shown = [edit for edit in plan.edits if edit.is_change or edit.notes or edit.warnings]
    for edit in shown[:MOST_SHOWN]:
        yield from _edit_lines(edit)
    if len(shown) > MOST_SHOWN:
        yield f"and {count_of(len(shown) - MOST_SHOWN, 'more partition')}; -o tsv lists all"
    yield from ("", *_sum_lines(plan))
    if not plan.is_empty and next_command:
        yield from ("Nothing is written yet. To apply exactly this plan:", f"  {sanitize(next_command)}")


def plan_text(plan: EditPlan) -> str:
    """The plan as it is shown before an answer, without the end of its last line."""
    return "\n".join(lines_of(plan_sections(plan)))


def outcome_sections(outcome: EditOutcome, undo: str = "") -> Iterator[Part]:
    """What came of it, for people; `undo` is the command that takes it back."""
    plan = outcome.plan
    what = f"{plan.verb} for group {shown_name(plan.group)}"
    if outcome.declined:
        yield f"{what}: not confirmed, nothing was changed"
        return
    if outcome.journal is None:
        yield f"nothing to do: {what}"
        return
    yield f"{what} on cluster {plan.cluster_id}: {outcome.verdict}"
    after = {edit.partition: edit.after for edit in plan.edits}
    for result in outcome.results[:MOST_SHOWN]:
        kept = after[result.partition]
        stands = result.problem or ("no commit any more" if kept is None else f"{_commit_words(kept)} is committed")
        yield f"  {sanitize(str(result.partition))}: {stands}"
    if len(outcome.results) > MOST_SHOWN:
        yield f"  and {count_of(len(outcome.results) - MOST_SHOWN, 'more partition')}; -o tsv lists all"
    if plan.removes_group and not outcome.failed:
        still = f"is still there: {outcome.group_problem}" if outcome.group_problem else "is deleted"
        yield f"  the group {still}"
    yield f"Journal: {outcome.journal}"
    if undo:
        yield from ("To undo it:", f"  {sanitize(undo)}")


def plan_report(plan: EditPlan, next_command: str) -> Report:
    """A plan that is not carried out; `next_command` carries out just this one."""
    return Report(
        command=f"streams commits {plan.verb}",
        data={**plan_data(plan), "next": None if plan.is_empty else next_command},
        sections=plan_sections(plan, next_command),
        table=ResultTable(COLUMNS, rows_of(plan)),
    )


def outcome_report(outcome: EditOutcome, undo: str = "") -> Report:
    """What came of an edit; it fails when the edit was declined or is not whole."""
    return Report(
        command=f"streams commits {outcome.plan.verb}",
        data=outcome_data(outcome),
        sections=outcome_sections(outcome, undo if outcome.journal and outcome.results and not outcome.failed else ""),
        table=ResultTable(COLUMNS, rows_of(outcome.plan, outcome.results)),
        failure=_failure(outcome),
    )


def _failure(outcome: EditOutcome) -> OperationFailedError | None:
    if outcome.declined:
        return OperationFailedError("not confirmed, nothing was changed")
    if outcome.group_problem:
        name = shown_name(outcome.plan.group)
        are_deleted = f"the commits of group {name} are deleted, the group is not"
        return OperationFailedError(
            f"{are_deleted if outcome.plan.changes else f'group {name} is not deleted'}: "
            f"{sanitize(outcome.group_problem)}",
            hint="Kafka deletes a group without members and commits by itself",
        )
    if not outcome.failed:
        return None
    first = outcome.failed[0]
    return OperationFailedError(
        f"{len(outcome.failed)} of {len(outcome.results)} commits are not as planned: "
        f"{first.partition}: {first.problem}",
        hint="look at the group again, then plan again; undo takes back what was written",
    )


def plan_data(plan: EditPlan) -> dict[str, object]:
    """The plan for JSON and YAML; offsets in ranges are half-open pairs."""
    return {
        **attributes(plan, "verb cluster_id group taken_at fingerprint words request_id undoes limit_chars"),
        "changes": len(plan.changes),
        "deletes_group": plan.removes_group,
        "delivered_again": plan.reopened,
        "passed": plan.passed,
        "partitions": [_edit_data(edit) for edit in plan.edits],
    }


def outcome_data(outcome: EditOutcome) -> dict[str, object]:
    """The plan and what came of it."""
    return {
        **plan_data(outcome.plan),
        "verdict": "declined" if outcome.declined else outcome.verdict,
        "journal": outcome.journal,
        "group_deleted": outcome.plan.removes_group and not (outcome.failed or outcome.group_problem),
        "results": [
            {
                **attributes(result.partition, "topic partition"),
                "stands": result.standing,
                "problem": result.problem or None,
            }
            for result in outcome.results
        ],
    }


def rows_of(plan: EditPlan, results: Sequence[PartitionResult] = ()) -> tuple[tuple[object, ...], ...]:
    """One row a partition, under `COLUMNS`."""
    found = {result.partition: result for result in results}
    rows = []
    for edit in plan.edits:
        result = found.get(edit.partition)
        rows.append(
            (
                *edit.partition,
                None if edit.before is None else edit.before.offset,
                None if edit.after is None else edit.after.offset,
                edit.dialect_before,
                edit.dialect_after,
                edit.reopened.count,
                edit.passed.count,
                edit.forgotten,
                edit.is_change,
                None if result is None else result.standing,
                None if result is None else result.problem,
            )
        )
    return tuple(rows)


def _edit_lines(edit: PartitionEdit) -> Iterator[str]:
    yield from ("", sanitize(str(edit.partition)))
    if edit.is_change:
        yield f"  now    {_commit_words(edit.before, edit.state_before, edit.dialect_before)}"
        yield f"  after  {_commit_words(edit.after, edit.state_after, edit.dialect_after)}"
        if edit.passed:
            yield f"  not delivered any more: {ranges_text(edit.passed)} ({_offsets(edit.passed)})"
        if edit.reopened:
            yield f"  delivered again: {ranges_text(edit.reopened)} (at most {_records(edit.reopened)})"
    else:
        yield f"  stays  {_commit_words(edit.before, edit.state_before, edit.dialect_before)}"
    yield from (f"  {sanitize(note)}" for note in edit.notes)
    yield from (f"  warning: {sanitize(warning)}" for warning in edit.warnings)


def _sum_lines(plan: EditPlan) -> list[str]:
    changes = len(plan.changes)
    if plan.is_empty:
        return ["Nothing changes."]
    if not changes:
        return ["The group is deleted.", f"Plan {plan.fingerprint}."]
    words = [f"{changes} of {count_of(len(plan.edits), 'commit')} change{'s' if changes == 1 else ''}"]
    words.append(f"at most {count_of(plan.reopened, 'record')} delivered again")
    words.append(f"{count_of(plan.passed, 'offset')} not delivered any more")
    if forgotten := sum(edit.forgotten for edit in plan.edits):
        words.append(f"{count_of(forgotten, 'acknowledgement')} forgotten")
    return [f"Together: {', '.join(words)}.", f"Plan {plan.fingerprint}."]


def _commit_words(commit: CommittedOffset | None, state: CommitState | None = None, dialect: str = "") -> str:
    if commit is None:
        return "no commit"
    words = [f"offset {commit.offset}"]
    if dialect:
        words.append(dialect)
    if commit.metadata:
        words.append(count_of(utf16_units(commit.metadata), "character"))
    if state is not None and state.done:
        words.append(f"pending {ranges_text(state.pending, 3)}, done up to {state.end - 1}")
    return ", ".join(words)


def _edit_data(edit: PartitionEdit) -> dict[str, object]:
    return {
        **attributes(edit.partition, "topic partition"),
        "topic_id": topic_id_text(edit.topic_id),
        "changes": edit.is_change,
        "before": _commit_data(edit.before, edit.state_before, edit.dialect_before),
        "after": _commit_data(edit.after, edit.state_after, edit.dialect_after),
        "delivered_again": [list(pair) for pair in edit.reopened],
        "passed": [list(pair) for pair in edit.passed],
        **attributes(edit, "forgotten notes warnings"),
    }


def _commit_data(commit: CommittedOffset | None, state: CommitState | None, dialect: str) -> dict[str, object] | None:
    if commit is None:
        return None
    data: dict[str, object] = {"offset": commit.offset, "metadata": commit.metadata, "dialect": str(dialect)}
    if state is not None:
        window = state.replay
        data |= {
            "pending": [list(pair) for pair in state.pending],
            "done": [list(pair) for pair in state.done],
            "marks": [{"start": m.start, "end": m.end, "state": m.state.name.lower()} for m in state.marks],
            "replay": None if window is None else [window.start, window.end, window.request_id],
        }
    return data


def _offsets(offsets: OffsetRanges) -> str:
    return count_of(offsets.count, "offset")


def _records(offsets: OffsetRanges) -> str:
    return count_of(offsets.count, "record")
