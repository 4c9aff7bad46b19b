"""Edits that end badly: what their journals then say, and that there is always a way on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.cluster_facts import CommittedOffset, ItemError
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act import journal_files as store_lines
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.streams.commits.act.editing import EditJournal, Edits, edits_folder
from kafkakit.streams.commits.decide.editing.decision import check_quiet, finish_plan, require_settled, undo_plan
from kafkakit.streams.commits.decide.editing.edit import (
    CommitStanding,
    EditPlan,
    EditRecord,
    EditVerdict,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    Translate,
    Unack,
)
from kafkakit.streams.model.commit import CommitState, Spill, Watermark, Writer
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from tests.rigs.editing import CLUSTER, GROUP, START_MS, TOPIC, Rig, only, ranges


class Cut(BaseException):
    """Stands for `kill -9`."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def seed(rig: Rig) -> None:
    rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=ranges((101, 103), (105, 110))))
    rig.groups.seed(GROUP, rig.keys[1], 50, "")


def record_of(journal: EditJournal) -> EditRecord:
    assert journal.record is not None
    return journal.record


def plan_finish(rig: Rig, journal: EditJournal) -> EditPlan:
    record = record_of(journal)
    return finish_plan(record, rig.observer.look_at(GROUP, record.changes, rig.clock.now()))


def cut_in_part(rig: Rig, plan: EditPlan, part: int) -> EditJournal:
    """Carry the plan out until this part's commit is sent, and be killed there."""
    count = 0

    def stop(group: str) -> None:
        nonlocal count
        del group
        count += 1
        if count == part:
            raise Cut

    rig.groups.on_commit = stop
    with pytest.raises(Cut):
        rig.apply(plan)
    rig.groups.on_commit = None
    (name,) = rig.edits.interrupted(GROUP)
    return rig.edits.named(name)


def test_a_refused_finish_does_not_call_a_written_edit_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=600, records=3)
    for key in rig.keys:
        rig.groups.seed(GROUP, key, 1)
    journal = cut_in_part(rig, rig.plan(Reset(landing=ResetTarget.LATEST)), 2)
    plan = plan_finish(rig, journal)
    assert len(plan.changes) == 100
    rig.groups.join(GROUP, rig.keys[0])
    with pytest.raises(RefusedError, match="is live"):
        rig.editor().carry_out(plan, journal, None)
    assert record_of(rig.edits.named(journal.name)).verdict is EditVerdict.OPEN
    assert len(rig.edits.interrupted(GROUP)) == 1


def test_a_finish_that_writes_nothing_leaves_the_edit_incomplete(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=600, records=3)
    for key in rig.keys:
        rig.groups.seed(GROUP, key, 1)
    journal = cut_in_part(rig, rig.plan(Reset(landing=ResetTarget.LATEST)), 2)
    rig.groups.on_commit = lambda group: rig.groups.join(group, *rig.keys)
    outcome = rig.editor().carry_out(plan_finish(rig, journal), journal, None)
    assert outcome.verdict is EditVerdict.INCOMPLETE
    assert record_of(journal).verdict is EditVerdict.INCOMPLETE


def test_a_write_that_lands_late_is_not_called_nothing(rig: Rig) -> None:
    """The request timed out, the old commit stood when it was looked, and the broker wrote the new one afterwards."""
    seed(rig)
    real, sent = rig.groups.commit, []

    def slow(
        group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        sent.append((group, offsets))
        return dict.fromkeys(offsets, ItemError(name="KafkaTimeoutError", message="no answer", retriable=True))

    rig.groups.commit = slow  # type: ignore[method-assign]
    outcome = rig.do(Skip(offsets=only(100)), 0)
    rig.groups.commit = real  # type: ignore[method-assign]
    assert outcome.verdict is EditVerdict.INCOMPLETE
    assert "may still come" in outcome.failed[0].problem
    real(*sent[0])
    journal = rig.edits.last()
    record = record_of(journal)
    plan = undo_plan(record, journal.name, rig.observer.look_at(GROUP, record.changes, rig.clock.now()))
    assert [edit.after and edit.after.offset for edit in plan.changes] == [100]


@pytest.mark.parametrize("stolen", [False, True])
def test_a_coordinator_that_moves_is_read_again_before_it_is_written(rig: Rig, stolen: bool) -> None:
    seed(rig)
    real, moved = rig.groups.commit, ItemError(name="NotCoordinatorError", retriable=True)

    def move(
        group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        rig.groups.commit = real  # type: ignore[method-assign]
        if stolen:
            rig.groups.seed(GROUP, rig.keys[0], 200, "")
        return dict.fromkeys(offsets, moved)

    rig.groups.commit = move  # type: ignore[method-assign]
    outcome = rig.do(Skip(offsets=only(100)), 0)
    held = rig.committed(rig.keys[0])
    assert held is not None
    assert (outcome.verdict, held.offset) == ((EditVerdict.INCOMPLETE, 200) if stolen else (EditVerdict.COMPLETE, 103))


def test_last_passes_over_an_edit_that_wrote_nothing(rig: Rig) -> None:
    seed(rig)
    first = rig.do(Skip(offsets=only(100)), 0)
    rig.clock.advance(1)
    plan = rig.plan(Skip(offsets=only(103)), 0)
    rig.groups.join(GROUP, rig.keys[0])
    with pytest.raises(RefusedError):
        rig.apply(plan)
    assert rig.edits.last().name == first.journal


def test_finish_last_means_the_undo_that_was_interrupted(rig: Rig) -> None:
    seed(rig)
    with pytest.raises(UsageError, match="no edit"):
        rig.edits.last_unfinished()
    rig.do(Skip(offsets=only(100)), 0)
    rig.clock.advance(1)
    journal = rig.edits.last()
    record = record_of(journal)
    plan = undo_plan(record, journal.name, rig.observer.look_at(GROUP, record.changes, rig.clock.now()))
    undo = cut_in_part(rig, plan, 1)
    assert rig.edits.last_unfinished().name == undo.name
    assert rig.edits.last_unfinished(GROUP).name == undo.name
    with pytest.raises(UsageError, match="no edit of group other"):
        rig.edits.last_unfinished("other")


def test_an_edit_that_was_undone_is_not_finished(rig: Rig) -> None:
    seed(rig)
    rig.do(Skip(offsets=only(100)), 0)
    journal = rig.edits.last()
    record = record_of(journal)
    rig.clock.advance(1)
    assert plan_finish(rig, journal).changes == ()
    rig.apply(undo_plan(record, journal.name, rig.observer.look_at(GROUP, record.changes, rig.clock.now())))
    journal.end(EditVerdict.UNDONE)
    with pytest.raises(RefusedError, match="nothing to finish: skip ended: undone"):
        plan_finish(rig, journal)


@pytest.mark.parametrize("what", ["answered", "found", "end"])
def test_a_disk_that_fills_after_the_write_does_not_hide_it(rig: Rig, tmp_path: Path, what: str) -> None:
    seed(rig)

    class Full(DiskFile):
        def append(self, line: bytes) -> None:
            body = json.loads(line)
            if body["what"] == what or (what == "answered" and body["kind"] == "effect"):
                raise OperationFailedError("no space left", hint="nothing is done without a journal")
            super().append(line)

    edits = Edits(edits_folder(tmp_path, CLUSTER), rig.clock, Full)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    with pytest.raises(OperationFailedError, match=r"unknown whether the edit was written: no space left") as caught:
        rig.editor().carry_out(plan, edits.begin("skip", GROUP), rig.opening(plan))
    assert len(rig.groups.commits) == 1
    assert (caught.value.hint or "").startswith("finish or undo")


def test_finish_leaves_what_somebody_else_committed_and_ends(rig: Rig) -> None:
    seed(rig)
    journal = cut_in_part(rig, rig.plan(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1), 1)
    rig.groups.seed(GROUP, rig.keys[0], 200, "")
    plan = plan_finish(rig, journal)
    assert [edit.partition for edit in plan.changes] == [rig.keys[1]]
    assert [edit.warnings for edit in plan.edits if not edit.is_change] == [
        ("another process committed since the edit (it is at 200): left as it is",)
    ]
    outcome = rig.editor().carry_out(plan, journal, None)
    assert outcome.verdict is EditVerdict.INCOMPLETE
    assert record_of(journal).found == {rig.keys[0]: CommitStanding.OTHER, rig.keys[1]: CommitStanding.NEW}
    held = rig.committed(rig.keys[0])
    assert held is not None
    assert held.offset == 200
    assert rig.edits.interrupted(GROUP) == ()


def test_finish_gets_by_without_a_topic_that_is_gone_or_made_anew(rig: Rig) -> None:
    seed(rig)
    journal = cut_in_part(rig, rig.plan(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1), 1)
    rig.log.delete_topic(TOPIC)
    plan = plan_finish(rig, journal)
    assert plan.edits == ()
    assert [words for words in plan.words if "its topic is not there any more" in words]
    rig.log.add_topic(TOPIC, 2)
    plan = plan_finish(rig, journal)
    assert plan.changes == ()
    assert [edit.warnings for edit in plan.edits] == [("its topic was recreated since the edit: left as it is",)] * 2


def test_undo_restores_the_others_when_a_topic_is_gone(rig: Rig) -> None:
    seed(rig)
    rig.do(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1)
    rig.log.delete_topic(TOPIC)
    journal = rig.edits.last()
    record = record_of(journal)
    plan = undo_plan(record, journal.name, rig.observer.look_at(GROUP, record.changes, rig.clock.now()))
    assert plan.edits == ()
    assert any("its topic is not there any more" in words for words in plan.words)


@pytest.mark.parametrize("verb", [Skip(offsets=only(101)), Unack(offsets=only(100))])
def test_an_edit_with_nothing_to_do_forgets_nothing(rig: Rig, verb: Any) -> None:
    spill, writer = Spill(partition=0, offset=5, digest=b"12345678"), Writer(member_hash=1, generation=2)
    state = CommitState(base=100, done=ranges((101, 103)), spill=spill, writer=writer, forgotten=9)
    rig.commit_kkm1(rig.keys[0], state)
    assert rig.plan(verb, 0).changes == ()


def test_what_coarsening_forgot_before_stays_counted(rig: Rig) -> None:
    rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=ranges((101, 103)), forgotten=9))
    rig.do(Skip(offsets=only(150)), 0)
    assert rig.state(rig.keys[0]).forgotten == 9
    rig.clock.advance(1)
    rig.do(Reset(landing=ResetTarget.EARLIEST), 0)
    assert rig.state(rig.keys[0]).forgotten == 0


def test_the_newest_done_time_goes_back_with_the_records(rig: Rig) -> None:
    mark = Watermark(oldest_ms=START_MS + 100_000, newest_done_ms=START_MS + 109_000)
    rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=ranges((101, 103), (105, 110)), watermark=mark))
    rig.do(Unack(offsets=ranges((105, 110))), 0)
    assert rig.state(rig.keys[0]).watermark == Watermark(oldest_ms=mark.oldest_ms, newest_done_ms=START_MS + 102_000)
    rig.clock.advance(1)
    rig.do(Reset(landing=ResetTarget.OFFSET, value=10), 0)
    assert rig.state(rig.keys[0]).watermark == Watermark(oldest_ms=START_MS + 10_000, newest_done_ms=START_MS + 9_000)


@pytest.mark.parametrize("dialect", ["parallel-consumer", "kkm1"])
def test_done_offsets_beyond_the_log_are_not_written_anew(rig: Rig, dialect: str) -> None:
    """A copied map, or a log that was cut: what it says of offsets to come would be bound, and skip those records."""
    state = CommitState(base=100, done=ranges((101, 103), (290, 310)))
    if dialect == "kkm1":
        rig.commit_kkm1(rig.keys[0], state)
    else:
        rig.groups.seed(GROUP, rig.keys[0], 100, write_parallel_consumer(state) or "")
    verbs = (Skip(offsets=only(100)), Unack(offsets=only(101)), Replay(request_id=1, offsets=only(50)))
    for verb in verbs:
        with pytest.raises(RefusedError, match=r"up to 309 as done, but the log ends at 300"):
            rig.plan(verb, 0)
    if dialect == "parallel-consumer":
        with pytest.raises(RefusedError, match="the log ends at 300"):
            rig.plan(Translate(to="kkm1"), 0)
    assert len(rig.plan(verbs[0], 0, outside_log=True).changes) == 1
    assert len(rig.plan(Translate(to="plain"), 0).changes) == 1
    assert len(rig.plan(Reset(landing=ResetTarget.OFFSET, value=100), 0).changes) == 1


def test_a_map_that_is_bound_for_the_first_time_is_warned_of(rig: Rig) -> None:
    state = CommitState(base=100, done=ranges((101, 103)))
    rig.groups.seed(GROUP, rig.keys[0], 100, write_parallel_consumer(state) or "")
    (edit,) = rig.plan(Translate(to="kkm1"), 0).changes
    assert any("bound to nothing" in words for words in edit.warnings)


def test_to_try_later_is_only_said_where_it_may_help(rig: Rig) -> None:
    denied, busy = ItemError(name="GroupAuthorizationFailedError"), ItemError(name="KafkaTimeoutError", retriable=True)
    for answer, kind in ((denied, OperationFailedError), (busy, TryLaterError)):
        with pytest.raises(kind):
            check_quiet(GROUP, answer)
        with pytest.raises(kind):
            require_settled(GROUP, {rig.keys[0]: answer})


def test_every_folder_that_a_journal_made_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(store_lines, "_sync_folder", synced.append)
    file = DiskFile(tmp_path / "commit-edits" / "cluster" / "one.journal")
    file.append(b"x")
    assert set(synced) == {tmp_path, tmp_path / "commit-edits", tmp_path / "commit-edits" / "cluster"}


def test_hints_name_what_will_work(rig: Rig) -> None:
    rig.groups.seed(GROUP, rig.keys[0], 400, "")
    with pytest.raises(RefusedError) as beyond:
        rig.plan(Translate(to="kkm1"), 0)
    assert (beyond.value.hint or "").endswith("skipped; reset drops what is done")
    rig.log.trim(rig.keys[1], 50)
    rig.groups.seed(GROUP, rig.keys[1], 20, "")
    with pytest.raises(RefusedError) as below:
        rig.plan(Skip(offsets=ranges((50, 60))), 1)
    assert (below.value.hint or "").endswith("or commits reset --to 50 (the log's start), and then skip")
    rig.do(Reset(landing=ResetTarget.OFFSET, value=50), 1)
    rig.clock.advance(1)
    assert rig.do(Skip(offsets=ranges((50, 60))), 1).failed == ()
