"""One cluster as an edit of commits needs it: its groups and logs, and this host's journals of edits there."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kafkakit.core.cluster_id import cluster_id_problem
from kafkakit.core.errors import InputError, KafkakitError, RefusedError
from kafkakit.core.printable import printable
from kafkakit.core.shell_words import quote
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.ports.reporter import Reporter
from kafkakit.streams.commits.act.edit_journals import EditJournal, Edits, edits_folder
from kafkakit.streams.commits.act.edit_observation import Observer, PartitionScope
from kafkakit.streams.commits.act.editing import Editor
from kafkakit.streams.commits.act.reading import read_broker_limits
from kafkakit.streams.commits.decide.editing.decision import decide_edit, times_wanted
from kafkakit.streams.commits.decide.editing.journal import CommitStanding, EditRecord, Opening, Verdict
from kafkakit.streams.commits.decide.editing.outcome import EditOutcome
from kafkakit.streams.commits.decide.editing.plan import EditPlan
from kafkakit.streams.commits.decide.editing.request import EditRequest, times_of
from kafkakit.streams.commits.decide.editing.undoing import finish_plan, standings_after, undo_plan

Confirm = Callable[[str], bool]


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
        self._observer = Observer(groups, log, cluster_id=info.cluster_id, limit_chars=limit)
        self._edits = Edits(edits_folder(state_dir, info.cluster_id), clock)
        self._editor = Editor(groups, log, reporter, self.recovery_commands)

    def recovery_commands(self, journal: str) -> str:
        """The commands that finish or undo an interrupted edit."""
        base = f"{self._program} streams commits"
        return f"finish it: {base} finish {quote(journal)} --apply; or undo it: {base} undo {quote(journal)} --apply"

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
        words = f"an edit of group {printable(group)} was interrupted"
        if applies:
            raise RefusedError(words, hint=self.recovery_commands(interrupted[0]))
        self._reporter.warn(f"{words}; {self.recovery_commands(interrupted[0])}")

    def carry_out(self, plan: EditPlan, opening: Opening, confirm: Confirm | None) -> EditOutcome:
        """Write a plan in a journal of its own, if `confirm` (None: no question) agrees."""
        journal = self._edits.begin(plan.verb, plan.group)
        return self._carry_out(plan, journal, opening, confirm)

    def journal_to_undo(self, name: str, group: str) -> tuple[EditJournal, EditRecord]:
        """The journal by its name, or the newest one that can be undone (`last`).

        Raises `RefusedError` for `last` where a newer edit or undo is incomplete or cannot be read.
        """
        if name != "last":
            return self._checked(self._edits.named(name))
        journal = self._edits.last(group or None)
        found = self._edits.in_doubt(journal, group or None)
        if found is None:
            return self._checked(journal)
        path, is_damaged = found
        if is_damaged:
            hint = f"name the one to undo; the last one that can be read is {journal.name}"
            raise RefusedError(f"the journal of a newer edit is damaged: {path}", hint=hint)
        raise RefusedError(f"a newer edit is incomplete: {path}", hint=self.recovery_commands(path))

    def journal_to_finish(self, name: str, group: str) -> tuple[EditJournal, EditRecord]:
        """The journal by its name, or the newest one that is unfinished (`last`)."""
        return self._checked(self._edits.last_unfinished(group or None) if name == "last" else self._edits.named(name))

    def reopened(self, journal: EditJournal) -> tuple[EditJournal, EditRecord]:
        """The journal read again under the lock: until it was taken, another process may have added lines."""
        return self._checked(self._edits.named(journal.name))

    def undo_plan(self, journal: EditJournal, record: EditRecord, *, over_others: bool, outside_log: bool) -> EditPlan:
        """The plan that brings back what the edit replaced."""
        observed = self._observer.look_at(record.opening.group, record.changes, self._clock.now())
        return undo_plan(record, journal.name, observed, over_others=over_others, outside_log=outside_log)

    def finish_plan(self, record: EditRecord) -> EditPlan:
        """The plan that writes what an interrupted edit did not."""
        return finish_plan(record, self._observer.look_at(record.opening.group, record.changes, self._clock.now()))

    def undo(
        self, journal: EditJournal, record: EditRecord, plan: EditPlan, opening: Opening, confirm: Confirm | None
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
            journal.end(Verdict.COMPLETE if is_whole else Verdict.INCOMPLETE)
        return outcome

    def _carry_out(
        self, plan: EditPlan, journal: EditJournal, opening: Opening | None, confirm: Confirm | None
    ) -> EditOutcome:
        if not plan.changes:
            return EditOutcome(plan=plan)
        if confirm is not None and not confirm(f"Write this to cluster {self.cluster_id}?"):
            return EditOutcome(plan=plan, declined=True)
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
            undone.end(Verdict.UNDONE)
            for name in self._edits.interrupted(record.opening.group):
                other = self._edits.named(name)
                # An earlier undo of the same edit that was interrupted wanted just what stands now.
                if other.record is not None and other.record.opening.undoes == undone.name:
                    other.end(Verdict.COMPLETE)
            if record.opening.undoes is not None:
                self._edits.named(record.opening.undoes).end(Verdict.COMPLETE)
        except KafkakitError as error:
            self._reporter.warn(f"the old commits are back, but an older journal cannot record it: {error.message}")
