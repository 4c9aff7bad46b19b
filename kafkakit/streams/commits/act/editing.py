"""Editing the commits of one cluster: write the journal, look once more, write, look whether the new commits stand.

Journals of edits are kept on this host, one file an edit, in the order of their names. What an edit needs to know is
read by `GroupObserver` in `kafkakit/streams/commits/act/reading.py`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from kafkakit.core.cluster_facts import CommittedOffset, ItemError, cluster_id_problem
from kafkakit.core.errors import (
    InputError,
    KafkakitError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.journal_lines import RecordKind, line_data
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import shell_command, shown_name
from kafkakit.execution.act.journal_files import DiskFile, LineFile, LineJournal
from kafkakit.ports.acting import Clock, Reporter
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import GroupAdmin, LogReader
from kafkakit.streams.commits.act.reading import GroupObserver, PartitionScope, read_broker_limits
from kafkakit.streams.commits.decide.editing.decision import (
    check_left,
    check_quiet,
    check_removable,
    decide_edit,
    finish_plan,
    refusal_words,
    require_settled,
    standings_after,
    times_wanted,
    undo_plan,
)
from kafkakit.streams.commits.decide.editing.edit import (
    DELETE,
    GRAMMAR,
    CommitChange,
    CommitStanding,
    EditOpening,
    EditOutcome,
    EditPlan,
    EditRecord,
    EditRequest,
    EditSubject,
    EditVerdict,
    PartitionEdit,
    PartitionResult,
    change_data,
    fold,
    same_commit,
    times_of,
)

Confirm = Callable[[str], bool]


class EditJournal(LineJournal[EditSubject, EditRecord | None]):
    """One edit's journal, open for writing."""

    def __init__(self, file: LineFile, clock: Clock) -> None:
        super().__init__(file, clock, GRAMMAR, fold, None)

    @property
    def record(self) -> EditRecord | None:
        """What the lines so far mean; None before the first."""
        return self.state

    def open(self, opening: EditOpening) -> None:
        """Record whose edit it is; the first line."""
        self.check(EditSubject.OPEN, line_data(opening))

    def intend(self, changes: Collection[CommitChange]) -> int:
        """Record what is about to be written, with what it replaces; returns the number that `answered` refers to."""
        return self.intent(EditSubject.WRITE, {"changes": [change_data(change) for change in changes]})

    def answered(self, intent: int, answers: Mapping[TopicPartition, ItemError | str | None]) -> None:
        """Record the brokers' answers (None: accepted)."""
        rows = [[*key, None if error is None else str(error)] for key, error in sorted(answers.items())]
        self._write(RecordKind.EFFECT, EditSubject.WRITE, {"answers": rows}, intent)

    def found(self, standings: Mapping[TopicPartition, CommitStanding]) -> None:
        """Record which commits stand."""
        rows = [[*key, standing.value] for key, standing in sorted(standings.items())]
        self.check(EditSubject.FOUND, {"partitions": rows})

    def end(self, verdict: EditVerdict) -> None:
        """Record how it came out."""
        self.check(EditSubject.END, {"verdict": verdict.value})


class EditedCluster:
    """Plans edits of one cluster and carries them out; `program` is how to call kafkakit for this cluster."""

    def __init__(
        self,
        groups: GroupAdmin,
        log: LogReader,
        admin: ClusterAdmin,
        clock: Clock,
        reporter: Reporter,
        *,
        state_dir: Path,
        program: str,
    ) -> None:
        info = admin.cluster()
        if problem := cluster_id_problem(info.cluster_id):
            raise InputError("the cluster", problem)
        limit = read_broker_limits(admin, info).strictest
        self.cluster_id, self._reporter, self._clock, self._program = info.cluster_id, reporter, clock, program
        self._observer = GroupObserver(groups, log, cluster_id=info.cluster_id, limit_chars=limit)
        self._edits = Edits(edits_folder(state_dir, info.cluster_id), clock)
        self._editor = Editor(groups, log, reporter, self.recovery_commands)

    def recovery_commands(self, journal: str) -> str:
        """The commands that finish or undo an interrupted edit, each on a line of its own."""
        lines = (
            str(shell_command(f"streams commits {verb}", journal, program=self._program)) for verb in ("finish", "undo")
        )
        return "\n".join(("finish it, or undo it:", *lines))

    def plan(self, group: str, scope: PartitionScope, request: EditRequest, words: tuple[str, ...]) -> EditPlan:
        """Plan an edit; `words` state how the request was understood."""
        observed = self._observer.look(group, scope, times_of(request.verb), self._clock.now())
        plan = decide_edit(observed, request, words)
        if wanted := times_wanted(plan):
            plan = decide_edit(observed.with_times(self._observer.record_times(wanted)), request, words)
        return plan

    def check_no_interrupted(self, group: str, *, applies: bool) -> None:
        """Refuse to write while an edit of the group is unfinished (`RefusedError`); warn where only a plan is made."""
        interrupted = self._edits.interrupted(group)
        if not interrupted:
            return
        words = f"an edit of group {shown_name(group)} was interrupted"
        if applies:
            raise RefusedError(words, hint=self.recovery_commands(interrupted[0]))
        self._reporter.warn(f"{words}; {self.recovery_commands(interrupted[0])}")

    def carry_out(self, plan: EditPlan, opening: EditOpening, confirm: Confirm | None) -> EditOutcome:
        """Write a plan in a journal of its own, if `confirm` (None: no question) agrees."""
        journal = self._edits.begin(plan.verb, plan.group)
        return self._carry_out(plan, journal, opening, confirm)

    def journal_to_undo(self, name: str, group: str | None) -> tuple[EditJournal, EditRecord]:
        """The journal by its name, or the newest one (of the group, which may have the empty name) that can be undone
        (`last`).

        Raises `RefusedError` for `last` where a newer edit or undo is incomplete or cannot be read.
        """
        if name != "last":
            return self._checked(self._edits.named(name))
        journal = self._edits.last(group)
        found = self._edits.in_doubt(journal, group)
        if found is None:
            return self._checked(journal)
        path, is_damaged = found
        if is_damaged:
            hint = f"name the one to undo; the last one that can be read is {journal.name}"
            raise RefusedError(f"the journal of a newer edit is damaged: {path}", hint=hint)
        raise RefusedError(f"a newer edit is incomplete: {path}", hint=self.recovery_commands(path))

    def journal_to_finish(self, name: str, group: str | None) -> tuple[EditJournal, EditRecord]:
        """The journal by its name, or the newest one that is unfinished (`last`)."""
        return self._checked(self._edits.last_unfinished(group) if name == "last" else self._edits.named(name))

    def reopened(self, journal: EditJournal) -> tuple[EditJournal, EditRecord]:
        """The journal read again under the lock: until it was taken, another process may have added lines."""
        return self._checked(self._edits.named(journal.name))

    def undo_plan(self, journal: EditJournal, record: EditRecord, *, over_others: bool, outside_log: bool) -> EditPlan:
        """The plan that brings back what the edit replaced."""
        observed = self._observer.look_at(record.opening.group, record.changes, self._clock.now())
        return undo_plan(record, journal.name, observed, over_others=over_others, outside_log=outside_log)

    def finish_plan(self, record: EditRecord) -> EditPlan:
        """The plan that writes what an interrupted edit did not."""
        deletes = record.opening.verb == DELETE
        observed = self._observer.look_at(record.opening.group, record.changes, self._clock.now(), deletes=deletes)
        return finish_plan(record, observed)

    def undo(
        self, journal: EditJournal, record: EditRecord, plan: EditPlan, opening: EditOpening, confirm: Confirm | None
    ) -> EditOutcome:
        """Carry out the undo of a journal, and record there that it is undone."""
        outcome = self.carry_out(plan, opening, confirm)
        if not outcome.declined and not outcome.failed:
            self._record_undone(journal, record)
        return outcome

    def finish(self, journal: EditJournal, record: EditRecord, plan: EditPlan, confirm: Confirm | None) -> EditOutcome:
        """Carry on in the journal of an interrupted edit, up to its end."""
        outcome = self._carry_out(plan, journal, None, confirm)
        if not plan.changes and record.is_open:
            standings = standings_after(plan, record)
            journal.found(standings)
            is_whole = set(standings.values()) <= {CommitStanding.NEW}
            journal.end(EditVerdict.COMPLETE if is_whole else EditVerdict.INCOMPLETE)
        return outcome

    def _carry_out(
        self, plan: EditPlan, journal: EditJournal, opening: EditOpening | None, confirm: Confirm | None
    ) -> EditOutcome:
        if plan.is_empty:
            return EditOutcome(plan=plan)
        if confirm is not None and not confirm(f"Write this to cluster {self.cluster_id}?"):
            return EditOutcome(plan=plan, declined=True)
        if not plan.changes:
            return self._editor.remove_bare_group(plan, journal, opening)
        outcome = self._editor.carry_out(plan, journal, opening)
        if plan.removes_group and not outcome.failed:
            outcome = replace(outcome, group_problem=self._editor.remove_group(plan.group))
        return outcome

    def _checked(self, journal: EditJournal) -> tuple[EditJournal, EditRecord]:
        return journal, self._record(journal)

    def _record(self, journal: EditJournal) -> EditRecord:
        record = journal.record
        if record is None:
            raise InputError(journal.name, "holds no edit")
        if record.opening.cluster_id != self.cluster_id:
            raise RefusedError(
                f"{journal.name} is of cluster {record.opening.cluster_id}, this is cluster {self.cluster_id}"
            )
        if not record.changes:
            raise InputError(journal.name, record.story, hint="there is nothing to undo or finish")
        return record

    def _record_undone(self, undone: EditJournal, record: EditRecord) -> None:
        """Add the end of their edits to the other journals: the commits stand, and the undo's own journal has it."""
        try:
            undone.end(EditVerdict.UNDONE)
            for name in self._edits.interrupted(record.opening.group):
                other = self._edits.named(name)
                # An earlier undo of the same edit that was interrupted wanted just what stands now.
                if other.record is not None and other.record.opening.undoes == undone.name:
                    other.end(EditVerdict.COMPLETE)
            if record.opening.undoes is not None:
                self._edits.named(record.opening.undoes).end(EditVerdict.COMPLETE)
        except KafkakitError as error:
            self._reporter.warn(f"the old commits are back, but an older journal cannot record it: {error.message}")


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

    def carry_out(self, plan: EditPlan, journal: EditJournal, opening: EditOpening | None) -> EditOutcome:
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

    def remove_bare_group(self, plan: EditPlan, journal: EditJournal, opening: EditOpening | None) -> EditOutcome:
        """Delete a group that has no commits; its journal says so, and has nothing that could be undone."""
        check_removable(plan.group, self._groups.describe([plan.group])[plan.group])
        if opening is not None:
            journal.open(opening)
        problem = self.remove_group(plan.group)
        verdict = EditVerdict.NOTHING if problem else EditVerdict.COMPLETE
        journal.end(verdict)
        return EditOutcome(plan=plan, journal=journal.name, verdict=verdict, group_problem=problem)

    def remove_group(self, group: str) -> str:
        """Delete a group whose commits are deleted; returns why it is still there, "" when it is gone."""
        try:
            # The coordinator would delete a newer commit with the group, and no journal holds that.
            if require_settled(group, self._groups.committed(group)):
                return "another process committed for it since"
            error = self._groups.delete(group)
        except KafkakitError as failure:
            return failure.message
        return "" if error is None or error.name == "GroupIdNotFoundError" else refusal_words(error)

    def _carry_out(self, plan: EditPlan, edits: Sequence[PartitionEdit], journal: EditJournal) -> EditOutcome:
        ended = journal.record.verdict if journal.record and journal.record.changes else EditVerdict.NOTHING
        intent = journal.intend([_change(edit) for edit in edits])
        answers: Answers = {}
        refusal: KafkakitError | None = None
        # Brokers refuse to delete single commits of the group with the empty name, and those of partitions that are
        # gone, but delete the group with them.
        with_group = plan.removes_group and (not plan.group or any(edit.is_gone for edit in edits))
        at_once = len(edits) if with_group else AT_ONCE
        for start in range(0, len(edits), at_once):
            part = edits[start : start + at_once]
            reported, refusal = self._write_part(plan, part, with_group=with_group)
            if reported:
                journal.answered(intent, reported)
                answers |= reported
            if refusal is not None:
                break
        if refusal is not None and not answers:
            journal.answered(intent, {edit.partition: f"not written: {refusal.message}" for edit in edits})
            if ended is not EditVerdict.OPEN:  # one that continues may have written before
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

    def _write_part(
        self, plan: EditPlan, edits: Sequence[PartitionEdit], *, with_group: bool
    ) -> tuple[Answers, KafkakitError | None]:
        """Look and write; both again where the coordinator moved in between, for others may have committed there."""
        answers: Answers = {}
        left = edits
        for _ in range(ATTEMPTS):
            try:
                self._check_as_planned(plan, left, is_again=bool(answers))
            except KafkakitError as error:
                return answers, error
            answers |= self._write(plan.group, left, with_group=with_group)
            left = [edit for edit in left if _is_moved(answers.get(edit.partition))]
            if not left:
                break
        return answers, None

    def _check_as_planned(self, plan: EditPlan, edits: Sequence[PartitionEdit], *, is_again: bool) -> None:
        group = plan.group
        described = self._groups.describe([group])[group]
        if plan.allows_members:
            check_left(group, described, {edit.partition.topic for edit in edits})
        else:
            check_quiet(group, described)
        places = self._log.places({edit.partition.topic for edit in edits})
        for edit in edits:
            place = places.get(edit.partition.topic)
            if edit.is_gone and (place is None or edit.partition.partition not in place.leaders):
                continue
            if place is None or place.topic_id != edit.topic_id:
                raise RefusedError(f"{edit.partition}: its topic was deleted or recreated since the plan")
        now = require_settled(group, self._groups.committed(group, [edit.partition for edit in edits]))
        for edit in edits:
            held = now.get(edit.partition)
            if not same_commit(held, edit.before) and not (is_again and same_commit(held, edit.after)):
                raise RefusedError(
                    f"{edit.partition}: the commit changed since the plan "
                    f"({_offset_text(edit.before)}, now {_offset_text(held)})",
                    hint="another process commits for this group; look again and plan again",
                )

    def _write(self, group: str, edits: Sequence[PartitionEdit], *, with_group: bool) -> Answers:
        """The answers for each partition; a request without an answer counts as an error that may be none.

        `with_group` deletes all commits by deleting the group.
        """
        commits = {edit.partition: edit.after for edit in edits if edit.after is not None}
        gone = [edit.partition for edit in edits if edit.after is None]
        answers: Answers = {}
        try:
            if commits:
                answers |= self._groups.commit(group, commits)
            if gone and with_group:
                answers |= dict.fromkeys(gone, self._groups.delete(group))
            elif gone:
                answers |= self._groups.forget(group, gone)
        except KafkakitError as error:
            unknown = ItemError(name="NoAnswer", message=error.message, retriable=True)
            answers = {edit.partition: answers.get(edit.partition, unknown) for edit in edits}
        return answers

    def _look(self, group: str, edits: Sequence[PartitionEdit], journal: str) -> dict[TopicPartition, CommitStanding]:
        try:
            now = require_settled(group, self._groups.committed(group, [edit.partition for edit in edits]))
        except TryLaterError as error:
            raise TryLaterError(
                f"it is unknown whether the edit was written: {error.message}", hint=self._ways_on(journal)
            ) from None
        return {edit.partition: _standing_of(edit, now.get(edit.partition)) for edit in edits}


def _change(edit: PartitionEdit) -> CommitChange:
    return CommitChange(partition=edit.partition, topic_id=edit.topic_id, old=edit.before, new=edit.after)


def _standing_of(edit: PartitionEdit, now: CommittedOffset | None) -> CommitStanding:
    if same_commit(now, edit.after):
        return CommitStanding.NEW
    return CommitStanding.OLD if same_commit(now, edit.before) else CommitStanding.OTHER


def _verdict(
    standings: Mapping[TopicPartition, CommitStanding], answers: Mapping[TopicPartition, ItemError | None]
) -> EditVerdict:
    kinds = set(standings.values())
    if kinds <= {CommitStanding.NEW}:
        return EditVerdict.COMPLETE
    may_come = any(_may_come(answer) for answer in answers.values())
    return EditVerdict.NOTHING if kinds == {CommitStanding.OLD} and not may_come else EditVerdict.INCOMPLETE


def _may_come(answer: ItemError | None) -> bool:
    """A request without an answer may be carried out after it was looked."""
    return answer is not None and answer.retriable


def _is_moved(answer: ItemError | None) -> bool:
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


def _offset_text(commit: CommittedOffset | None) -> str:
    return "none" if commit is None else f"at {commit.offset}"


SUFFIX = ".journal"
OpenFile = Callable[[Path], LineFile]


class Edits:
    """The edits of one cluster on this host."""

    def __init__(self, folder: Path, clock: Clock, open_file: OpenFile = DiskFile) -> None:
        self._folder, self._clock, self._open_file = folder, clock, open_file

    def begin(self, verb: str, group: str) -> EditJournal:
        """A journal for a new edit, not on disk yet; names sort by time. Only one edit of a group may begin at once."""
        stamp = self._clock.now().strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        number = 0
        while True:
            tail = f".{number}" if number else ""
            path = self._folder / f"{stamp}{tail}-{verb}-{short_name(group)}{SUFFIX}"
            if not path.exists():
                return EditJournal(self._open_file(path), self._clock)
            number += 1

    def named(self, name: str) -> EditJournal:
        """The journal of a file, by path or by name in the folder; `UsageError` when there is none."""
        for path in (Path(name), self._folder / name, self._folder / f"{name}{SUFFIX}"):
            if path.is_file():
                journal = EditJournal(self._open_file(path.absolute()), self._clock)  # other journals name it
                if journal.record is None:
                    raise InputError(str(path), "holds no edit: it was stopped before its first line was written")
                return journal
        raise UsageError(f"journal {name!r:.80} does not exist", hint=f"journals of this host are in {self._folder}")

    def records(self) -> tuple[tuple[str, EditRecord], ...]:
        """Every edit with the path of its journal, oldest first; empty and damaged journals are passed over."""
        found = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else ():
            try:
                record = EditJournal(self._open_file(path), self._clock).record
            except InputError:
                continue
            if record is not None:
                found.append((str(path), record))
        return tuple(found)

    def last(self, group: str | None = None) -> EditJournal:
        """The newest edit that can be undone: no undo itself, and not undone yet; `UsageError` when there is none."""
        records = self.records()
        undone = _undone_edits(records)
        for path, record in reversed(records):
            is_asked = group is None or record.opening.group == group
            may_have_written = record.changes and record.verdict is not EditVerdict.NOTHING
            if is_asked and record.opening.undoes is None and may_have_written and Path(path).name not in undone:
                return self.named(path)
        raise self._none(group, "undone")

    def in_doubt(self, since: EditJournal, group: str | None = None) -> tuple[str, bool] | None:
        """The newest edit or undo after that one that did not get to write everything, or whose journal is damaged.

        Its path, and whether it is damaged; None when there is none. Where one is, `last` may not be the edit meant. An
        undo of that very edit is not in doubt: it is repeated.
        """
        undone = _undone_edits(self.records())
        for path in sorted(self._folder.glob(f"*{SUFFIX}"), reverse=True):
            if path.name <= Path(since.name).name:
                return None
            try:
                record = EditJournal(self._open_file(path), self._clock).record
            except InputError:
                if group is None or path.stem.endswith(short_name(group)):
                    return str(path), True
                continue
            if record is None or path.name in undone or group not in (None, record.opening.group):
                continue
            if record.opening.undoes is not None and Path(record.opening.undoes).name == Path(since.name).name:
                continue
            if record.is_open or record.verdict is EditVerdict.INCOMPLETE:
                return str(path), False
        return None

    def last_unfinished(self, group: str | None = None) -> EditJournal:
        """The newest edit, or undo, that did not get to write everything; `UsageError` when there is none."""
        records = self.records()
        undone = _undone_edits(records)
        for path, record in reversed(records):
            is_asked = group is None or record.opening.group == group
            is_unfinished = record.is_open or record.verdict is EditVerdict.INCOMPLETE
            if is_asked and is_unfinished and Path(path).name not in undone:
                return self.named(path)
        raise self._none(group, "finished")

    def interrupted(self, group: str) -> tuple[str, ...]:
        """The journals of edits of a group that may have written and did not end, oldest first."""
        records = self.records()
        undone = _undone_edits(records)
        return tuple(
            path
            for path, record in records
            if record.opening.group == group and record.is_open and Path(path).name not in undone
        )

    def _none(self, group: str | None, what: str) -> UsageError:
        of_group = "" if group is None else f" of group {shown_name(group)}"
        return UsageError(f"no edit{of_group} is on record here that could be {what}", hint=f"looked in {self._folder}")


def _undone_edits(records: Iterable[tuple[str, EditRecord]]) -> frozenset[str]:
    """The file names of edits that were taken back, whether or not their own journals got to say so."""
    names = set()
    for path, record in records:
        if record.verdict is EditVerdict.UNDONE:
            names.add(Path(path).name)
        elif record.opening.undoes is not None and record.verdict is EditVerdict.COMPLETE:
            names.add(Path(record.opening.undoes).name)
    return frozenset(names)


def short_name(group: str) -> str:
    """A few characters that tell groups apart in the names of files, whatever characters the groups' names have."""
    return sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def edits_folder(state_dir: Path, cluster_id: str) -> Path:
    """Where the journals of a cluster's edits are; the cluster id was checked."""
    return state_dir / "commit-edits" / cluster_id


def edit_lock(state_dir: Path, cluster_id: str, group: str) -> Path:
    """The file that an edit of a group locks, so that another one on this host waits."""
    return state_dir / "locks" / f"{cluster_id}.commits-{short_name(group)}.lock"
