"""Carrying an edit of commits out: journal, look once more, write, look whether it stands."""

from collections.abc import Callable, Mapping, Sequence

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.ports.reporter import Reporter
from kafkakit.streams.commits.act.edit_journals import EditJournal
from kafkakit.streams.commits.decide.editing.gate import check_quiet, refusal_words, settled
from kafkakit.streams.commits.decide.editing.journal import CommitChange, CommitStanding, Opening, Verdict
from kafkakit.streams.commits.decide.editing.outcome import EditOutcome, PartitionResult
from kafkakit.streams.commits.decide.editing.plan import EditPlan, PartitionEdit, same_commit
from kafkakit.streams.commits.decide.editing.undoing import standings_after

AT_ONCE = 500
ATTEMPTS = 4
MOVED_NAMES = ("CoordinatorLoadInProgressError", "CoordinatorNotAvailableError", "NotCoordinatorError")
Answers = dict[TopicPartition, ItemError | None]


class Editor:
    """Writes plans to one cluster. Kafka has no compare-and-set for commits: each group of partitions is read again
    right before it is written, and all of them afterwards."""

    def __init__(self, groups: GroupAdmin, log: LogReader, reporter: Reporter, ways_on: Callable[[str], str]) -> None:
        """`ways_on` gives the commands that finish or undo the edit of a journal."""
        self._groups, self._log, self._reporter, self._ways_on = groups, log, reporter, ways_on

    def carry_out(self, plan: EditPlan, journal: EditJournal, opening: Opening | None) -> EditOutcome:
        """Make the plan's changes; `opening` is None where the journal is one that continues.

        Raises `RefusedError` when the group is live or a commit is not as planned and nothing was written yet, and
        `TryLaterError` when it cannot be learnt what stands: the journal stays open then. So it does when it cannot be
        written any more (`OperationFailedError`).
        """
        edits = plan.changes
        if opening is not None:
            journal.open(opening)
        try:
            return self._carry_out(plan, edits, journal)
        except KeyboardInterrupt:
            self._reporter.warn(f"stopped; {self._ways_on(journal.name)}")
            raise
        except OperationFailedError as error:
            if journal.record is None or not journal.record.is_open:
                raise  # nothing was written
            raise OperationFailedError(
                f"it is unknown whether the edit was written: {error.message}", hint=self._ways_on(journal.name)
            ) from None

    def remove_group(self, group: str) -> str:
        """Delete a group whose commits are deleted; returns why it is still there, "" when it is gone."""
        try:
            # The coordinator would delete a newer commit with the group, and no journal holds that.
            if settled(group, self._groups.committed(group)):
                return "another process committed for it since"
            error = self._groups.delete(group)
        except KafkakitError as failure:
            return failure.message
        return "" if error is None or error.name == "GroupIdNotFoundError" else refusal_words(error)

    def _carry_out(self, plan: EditPlan, edits: Sequence[PartitionEdit], journal: EditJournal) -> EditOutcome:
        ended = journal.record.verdict if journal.record and journal.record.changes else Verdict.NOTHING
        intent = journal.intend([_change(edit) for edit in edits])
        answers: Answers = {}
        refusal: KafkakitError | None = None
        for start in range(0, len(edits), AT_ONCE):
            part = edits[start : start + AT_ONCE]
            reported, refusal = self._write_part(plan.group, part)
            if reported:
                journal.answered(intent, reported)
                answers |= reported
            if refusal is not None:
                break
        if refusal is not None and not answers:
            journal.answered(intent, {edit.partition: f"not written: {refusal.message}" for edit in edits})
            if ended is not Verdict.OPEN:  # one that continues may have written before
                journal.end(ended)
            raise refusal
        standings = self._look(plan.group, edits, journal.name)
        if journal.record is not None:
            standings = standings_after(plan, journal.record) | standings
        journal.found(standings)
        verdict = _verdict(standings, answers)
        journal.end(verdict)
        return EditOutcome(
            plan=plan,
            results=tuple(_result(edit.partition, standings, answers, refusal) for edit in edits),
            journal=journal.name,
            verdict=verdict,
        )

    def _write_part(self, group: str, edits: Sequence[PartitionEdit]) -> tuple[Answers, KafkakitError | None]:
        """Look and write; both again where the coordinator moved in between, for others may have committed there."""
        answers: Answers = {}
        left = edits
        for _ in range(ATTEMPTS):
            try:
                self._check_as_planned(group, left, is_again=bool(answers))
            except KafkakitError as error:
                return answers, error
            answers |= self._write(group, left)
            left = [edit for edit in left if _moved(answers.get(edit.partition))]
            if not left:
                break
        return answers, None

    def _check_as_planned(self, group: str, edits: Sequence[PartitionEdit], *, is_again: bool) -> None:
        check_quiet(group, self._groups.describe([group])[group])
        places = self._log.places({edit.partition.topic for edit in edits})
        for edit in edits:
            place = places.get(edit.partition.topic)
            if place is None or place.topic_id != edit.topic_id:
                raise RefusedError(f"{edit.partition}: its topic was deleted or recreated since the plan")
        now = settled(group, self._groups.committed(group, [edit.partition for edit in edits]))
        for edit in edits:
            held = now.get(edit.partition)
            if not same_commit(held, edit.before) and not (is_again and same_commit(held, edit.after)):
                raise RefusedError(
                    f"{edit.partition}: the commit changed since the plan ({_at(edit.before)}, now {_at(held)})",
                    hint="another process commits for this group; look again and plan again",
                )

    def _write(self, group: str, edits: Sequence[PartitionEdit]) -> Answers:
        """The answers for each partition; a request without an answer counts as an error that may be none."""
        commits = {edit.partition: edit.after for edit in edits if edit.after is not None}
        gone = [edit.partition for edit in edits if edit.after is None]
        answers: Answers = {}
        try:
            if commits:
                answers |= self._groups.commit(group, commits)
            if gone:
                answers |= self._groups.forget(group, gone)
        except KafkakitError as error:
            unknown = ItemError(name="NoAnswer", message=error.message, retriable=True)
            answers = {edit.partition: answers.get(edit.partition, unknown) for edit in edits}
        return answers

    def _look(self, group: str, edits: Sequence[PartitionEdit], journal: str) -> dict[TopicPartition, CommitStanding]:
        try:
            now = settled(group, self._groups.committed(group, [edit.partition for edit in edits]))
        except TryLaterError as error:
            raise TryLaterError(
                f"it is unknown whether the edit was written: {error.message}", hint=self._ways_on(journal)
            ) from None
        return {edit.partition: _standing(edit, now.get(edit.partition)) for edit in edits}


def _change(edit: PartitionEdit) -> CommitChange:
    return CommitChange(partition=edit.partition, topic_id=edit.topic_id, old=edit.before, new=edit.after)


def _standing(edit: PartitionEdit, now: CommittedOffset | None) -> CommitStanding:
    if same_commit(now, edit.after):
        return CommitStanding.NEW
    return CommitStanding.OLD if same_commit(now, edit.before) else CommitStanding.OTHER


def _verdict(
    standings: Mapping[TopicPartition, CommitStanding], answers: Mapping[TopicPartition, ItemError | None]
) -> Verdict:
    kinds = set(standings.values())
    if kinds <= {CommitStanding.NEW}:
        return Verdict.COMPLETE
    may_come = any(_may_come(answer) for answer in answers.values())
    return Verdict.NOTHING if kinds == {CommitStanding.OLD} and not may_come else Verdict.INCOMPLETE


def _may_come(answer: ItemError | None) -> bool:
    """A request without an answer may be carried out after it was looked."""
    return answer is not None and answer.retriable


def _moved(answer: ItemError | None) -> bool:
    return answer is not None and answer.name in MOVED_NAMES


def _result(
    key: TopicPartition,
    standings: Mapping[TopicPartition, CommitStanding],
    answers: Mapping[TopicPartition, ItemError | None],
    refusal: KafkakitError | None,
) -> PartitionResult:
    standing = standings[key]
    if standing is CommitStanding.NEW:
        return PartitionResult(partition=key, standing=standing)
    if standing is CommitStanding.OTHER:
        problem = "another process's commit is there"
    elif _may_come(answers.get(key)):
        problem = f"not written so far, and may still come: {answers[key]}"
    elif key in answers:
        answer = answers[key]
        words = refusal_words(answer) if answer else "accepted, but the old commit is still there"
        problem = f"not written: {words}"
    else:
        problem = f"not written: {refusal.message if refusal else 'no answer'}"
    return PartitionResult(partition=key, standing=standing, problem=problem)


def _at(commit: CommittedOffset | None) -> str:
    return "none" if commit is None else f"at {commit.offset}"
