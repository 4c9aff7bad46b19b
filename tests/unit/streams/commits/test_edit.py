"""Edits carried out on a cluster in memory.

Offsets, times and targets as people type them. Offsets from the CSV of Kafka's own tool.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkakit.core.cluster_facts import CommittedOffset, ItemError
from kafkakit.core.errors import (
    InputError,
    KafkakitError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.execution.act.journal_files import DiskFile
from kafkakit.streams.commits.act.editing import EditJournal, Edits, edits_folder
from kafkakit.streams.commits.decide.editing.decision import finish_plan, undo_plan
from kafkakit.streams.commits.decide.editing.edit import (
    MAX_OFFSET,
    CommitStanding,
    EditOutcome,
    EditPlan,
    EditRecord,
    EditVerdict,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    parse_moment,
    parse_offsets,
    parse_target,
    read_offset_file,
)
from kafkakit.streams.model.commit import CommitState
from tests.invariants.edit_journal import commits_of, verify_edit_journal, verify_writes
from tests.rigs.editing import CLUSTER, GROUP, Rig, journals, only, ranges


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def seed(rig: Rig) -> None:
    rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=ranges((101, 103), (105, 110))))
    rig.groups.seed(GROUP, rig.keys[1], 50, "")


def record_of(journal: EditJournal) -> EditRecord:
    assert journal.record is not None
    return journal.record


def plan_undo(rig: Rig, journal: EditJournal, **options: bool) -> EditPlan:
    record = record_of(journal)
    observed = rig.observer.look_at(GROUP, record.changes, rig.clock.now())
    return undo_plan(record, journal.name, observed, **options)


def undo(rig: Rig, journal: EditJournal, **options: bool) -> EditOutcome:
    plan = plan_undo(rig, journal, **options)
    outcome = rig.apply(plan) if plan.changes else EditOutcome(plan=plan)
    journal.end(EditVerdict.UNDONE)
    return outcome


def finish(rig: Rig, journal: EditJournal) -> EditOutcome:
    record = record_of(journal)
    plan = finish_plan(record, rig.observer.look_at(GROUP, record.changes, rig.clock.now()))
    if not plan.changes:
        journal.end(EditVerdict.COMPLETE)
        return EditOutcome(plan=plan)
    return rig.editor().carry_out(plan, journal, None)


def stored(rig: Rig) -> dict[tuple[str, int], tuple[int, str] | None]:
    found = {key: rig.committed(key) for key in rig.keys}
    return {tuple(key): None if c is None else (c.offset, c.metadata) for key, c in found.items()}  # type: ignore[misc]


def test_skip_then_undo_gives_every_character_back(rig: Rig, tmp_path: Path) -> None:
    metadata = rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=ranges((101, 103))))
    rig.groups.seed(GROUP, rig.keys[0], 100, metadata + "\0")
    before = stored(rig)
    outcome = rig.do(Skip(offsets=only(100)), 0)
    assert (outcome.verdict, outcome.failed) == (EditVerdict.COMPLETE, ())
    assert stored(rig) != before
    rig.clock.advance(1)
    back = undo(rig, rig.edits.last())
    assert back.verdict is EditVerdict.COMPLETE
    assert stored(rig) == before
    assert len(list(journals(tmp_path))) == 2
    for path in journals(tmp_path):
        verify_edit_journal(path.read_bytes())


def test_the_journal_holds_the_old_commit_before_anything_is_written(rig: Rig, tmp_path: Path) -> None:
    seed(rig)
    before = stored(rig)
    seen: list[dict[Any, Any]] = []

    def look(group: str) -> None:
        del group
        (path,) = journals(tmp_path)
        lines = verify_edit_journal(path.read_bytes())
        seen.append(commits_of(lines, "old"))

    rig.groups.on_commit = look
    rig.do(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1)
    assert seen == [before]
    (path,) = journals(tmp_path)
    lines = verify_edit_journal(path.read_bytes())
    assert [line["what"] for line in lines] == ["open", "write", "write", "found", "end"]
    writes = [{tuple(k): (c.offset, c.metadata) for k, c in held.items()} for _, held in rig.groups.commits]
    verify_writes(lines, writes)  # type: ignore[arg-type]


def test_a_commit_that_changed_since_the_plan_is_not_written_over(rig: Rig, tmp_path: Path) -> None:
    seed(rig)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    rig.groups.seed(GROUP, rig.keys[0], 101, "")
    with pytest.raises(RefusedError, match=r"changed since the plan \(at 100, now at 101\)"):
        rig.apply(plan)
    assert rig.groups.commits == []
    (path,) = journals(tmp_path)
    assert verify_edit_journal(path.read_bytes())[-1]["data"]["verdict"] == "nothing written"
    assert rig.edits.interrupted(GROUP) == ()


def test_the_same_offset_with_other_metadata_counts_as_changed(rig: Rig) -> None:
    seed(rig)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    rig.commit_kkm1(rig.keys[0], CommitState(base=100, done=only(250)))
    with pytest.raises(RefusedError, match="changed since the plan"):
        rig.apply(plan)


def test_a_group_that_comes_alive_before_the_write_is_refused(rig: Rig) -> None:
    seed(rig)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    rig.groups.join(GROUP, rig.keys[0])
    with pytest.raises(RefusedError, match="is live"):
        rig.apply(plan)


def test_a_group_that_comes_alive_within_the_write_is_told_by_partition(rig: Rig) -> None:
    seed(rig)
    plan = rig.plan(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1)
    rig.groups.on_commit = lambda group: rig.groups.join(group, *rig.keys)
    outcome = rig.apply(plan)
    assert outcome.verdict is EditVerdict.NOTHING
    assert [result.problem for result in outcome.failed] == ["not written: UnknownMemberIdError"] * 2


def test_one_refused_partition_does_not_hide_the_others(rig: Rig) -> None:
    seed(rig)
    plan = rig.plan(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1)
    real = rig.groups.commit

    def refuse_one(
        group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Mapping[TopicPartition, ItemError | None]:
        kept = {key: held for key, held in offsets.items() if key != rig.keys[1]}
        return {**real(group, kept), rig.keys[1]: ItemError(name="OffsetMetadataTooLargeError")}

    rig.groups.commit = refuse_one  # type: ignore[method-assign]
    outcome = rig.apply(plan)
    assert outcome.verdict is EditVerdict.INCOMPLETE
    assert [(r.partition, r.standing) for r in outcome.results] == [
        (rig.keys[0], CommitStanding.NEW),
        (rig.keys[1], CommitStanding.OLD),
    ]
    assert [r.problem for r in outcome.failed] == ["not written: OffsetMetadataTooLargeError"]


def test_a_topic_made_anew_is_refused(rig: Rig) -> None:
    seed(rig)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    journal = rig.edits.begin("skip", GROUP)
    rig.editor().carry_out(plan, journal, rig.opening(plan))
    rig.log.add_topic("payments", 2)
    with pytest.raises(RefusedError, match="recreated"):
        plan_undo(rig, journal)


def test_undo_leaves_somebody_elses_commit_alone(rig: Rig) -> None:
    seed(rig)
    rig.do(Skip(offsets=only(100)), 0)
    rig.groups.seed(GROUP, rig.keys[0], 150, "")
    with pytest.raises(RefusedError, match="is not the one that the edit wrote"):
        plan_undo(rig, rig.edits.last())
    undo(rig, rig.edits.last(), over_others=True)
    assert rig.state(rig.keys[0]).base == 100


def test_undo_of_a_first_commit_forgets_it(rig: Rig) -> None:
    plan = rig.plan(Reset(landing=ResetTarget.OFFSET, value=40), 0, uncommitted=True)
    rig.apply(plan)
    undo(rig, rig.edits.last())
    assert stored(rig)[("payments", 0)] is None


def test_an_undo_can_be_undone_and_last_means_the_last_edit(rig: Rig) -> None:
    seed(rig)
    rig.do(Skip(offsets=only(100)), 0)
    skipped = stored(rig)
    rig.clock.advance(1)
    first = rig.edits.last()
    outcome = undo(rig, first)
    with pytest.raises(UsageError, match="no edit"):
        rig.edits.last()
    assert outcome.journal is not None
    rig.clock.advance(1)
    undo(rig, rig.edits.named(outcome.journal))
    assert stored(rig) == skipped


def test_a_damaged_journal_is_refused_and_a_torn_line_is_not(rig: Rig, tmp_path: Path) -> None:
    seed(rig)
    rig.do(Skip(offsets=only(100)), 0)
    (path,) = journals(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    record = record_of(rig.edits.named(path.name))
    assert record.verdict is EditVerdict.OPEN
    path.write_bytes(data.replace(b'"verdict":"complete"', b'"verdict":"nothing!"'))
    with pytest.raises(InputError, match="is invalid"):
        rig.edits.named(path.name)
    path.write_bytes(data.replace(b'"offset":100', b'"offset":107'))
    with pytest.raises(InputError, match="does not continue"):
        rig.edits.named(path.name)


class Cut(BaseException):
    """Stands for `kill -9`."""


class Wire:
    """Counts effects and stops at one of them: after it was made when `after`, else before."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.count = at, after, 0

    def pass_(self, effect: Callable[[], Any]) -> Any:
        number, self.count = self.count, self.count + 1
        if number == self.at and not self.after:
            raise Cut
        answer = effect()
        if number == self.at:
            raise Cut
        return answer


class WiredFile(DiskFile):
    def __init__(self, path: Path, wire: Wire) -> None:
        super().__init__(path)
        self.wire = wire

    def append(self, line: bytes) -> None:
        self.wire.pass_(lambda: super(WiredFile, self).append(line))


@contextmanager
def wired(rig: Rig, folder: Path, wire: Wire) -> Iterator[Edits]:
    """Journals and commits on a wire."""
    real = rig.groups.commit
    rig.groups.commit = lambda group, offsets: wire.pass_(lambda: real(group, offsets))  # type: ignore[method-assign]
    try:
        yield Edits(edits_folder(folder, CLUSTER), rig.clock, lambda path: WiredFile(path, wire))
    finally:
        rig.groups.commit = real  # type: ignore[method-assign]


def cut_run(rig: Rig, folder: Path, wire: Wire, verb: Any, numbers: Collection[int]) -> bool:
    """Run an edit with its effects on a wire; True when it was cut."""
    plan = rig.plan(verb, *numbers)
    try:
        with wired(rig, folder, wire) as edits:
            rig.editor().carry_out(plan, edits.begin(plan.verb, GROUP), rig.opening(plan))
    except Cut:
        return True
    return False


VERBS = (Skip(offsets=only(100)), Replay(request_id=5, offsets=ranges((20, 30))))
EFFECTS = 6  # open, intent, commit, answers, found, end


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", ["undo", "finish"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(EFFECTS))
def test_cut_at_every_effect_an_edit_can_be_taken_back_or_finished(
    tmp_path: Path, at: int, after: bool, way: str, verb: Any
) -> None:
    rig = Rig(tmp_path)
    seed(rig)
    before, old = stored(rig), rig.state(rig.keys[0])
    assert cut_run(rig, tmp_path, Wire(at, after=after), verb, (0,))
    written = stored(rig) != before
    paths = list(journals(tmp_path))
    if not written and not any(EditJournal(DiskFile(p), rig.clock).record for p in paths):
        return  # nothing was begun
    journal = rig.edits.named(str(paths[0]))
    record = record_of(journal)
    assert not written or record.changes, "a commit was written that no journal knows of"
    if not record.changes:
        assert "before anything was written" in record.story
        assert rig.edits.interrupted(GROUP) == ()
        return
    ended = at == EFFECTS - 1 and after
    assert bool(rig.edits.interrupted(GROUP)) == (not ended)
    rig.clock.advance(1)
    outcome = undo(rig, journal) if way == "undo" else finish(rig, journal)
    assert outcome.failed == ()
    assert rig.edits.interrupted(GROUP) == ()
    if way == "undo":
        assert stored(rig) == before
    else:
        new = rig.state(rig.keys[0])
        requested = only(100) if isinstance(verb, Skip) else ranges()
        assert pending(old) - pending(new) <= set(offsets(requested)), "base passed a pending offset unasked"
    for path in journals(tmp_path):
        verify_edit_journal(path.read_bytes())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(EFFECTS))
def test_cut_at_every_effect_an_undo_can_be_repeated(tmp_path: Path, at: int, after: bool) -> None:
    rig = Rig(tmp_path)
    seed(rig)
    before = stored(rig)
    rig.do(Skip(offsets=only(100)), 0)
    rig.clock.advance(1)
    first = rig.edits.last()
    plan = plan_undo(rig, first)
    with wired(rig, tmp_path, Wire(at, after=after)) as edits, pytest.raises(Cut):
        rig.editor().carry_out(plan, edits.begin("undo", GROUP), rig.opening(plan))
    rig.clock.advance(1)
    assert undo(rig, rig.edits.named(first.name)).failed == ()
    assert stored(rig) == before
    with pytest.raises(UsageError, match="no edit"):
        rig.edits.last()
    for path in rig.edits.interrupted(GROUP):
        assert finish(rig, rig.edits.named(path)).failed == ()
    assert stored(rig) == before


def test_the_schema_of_journals_accepts_what_is_written_and_nothing_odd(rig: Rig, tmp_path: Path) -> None:
    seed(rig)
    rig.do(Reset(landing=ResetTarget.OFFSET, value=10), 0, 1)
    rig.clock.advance(1)
    undo(rig, rig.edits.last())
    text = (
        resources.files("kafkakit").joinpath("core", "schemas", "commit-edit.schema.json").read_text(encoding="utf-8")
    )
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    lines = [json.loads(line) for path in journals(tmp_path) for line in path.read_bytes().splitlines()]
    assert {line["what"] for line in lines} == {"open", "write", "found", "end"}
    for line in lines:
        Draft202012Validator(schema).validate(line)
        wrong: tuple[dict[str, object], ...] = ({"what": "else"}, {"data": {}}, {"seq": -1}, {"prev": "x"})
        for odd in wrong:
            assert not Draft202012Validator(schema).is_valid(line | odd), (line, odd)


def test_the_wire_meets_every_effect(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    seed(rig)
    wire = Wire(99, after=False)
    assert not cut_run(rig, tmp_path, wire, VERBS[0], (0,))
    assert wire.count == EFFECTS


def test_no_answer_is_looked_into(rig: Rig) -> None:
    """The request got through, its answer did not: what stands decides."""
    seed(rig)
    real = rig.groups.commit

    def lose_answer(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Any:
        real(group, offsets)
        raise TryLaterError("the connection broke")

    rig.groups.commit = lose_answer  # type: ignore[method-assign]
    assert rig.do(Skip(offsets=only(100)), 0).verdict is EditVerdict.COMPLETE


def test_when_nobody_answers_at_all_the_journal_stays_open(rig: Rig) -> None:
    seed(rig)

    def go_away(group: str) -> None:
        del group
        rig.groups.unreachable = True
        raise TryLaterError("the connection broke")

    rig.groups.on_commit = go_away
    with pytest.raises(TryLaterError, match="unknown whether the edit was written"):
        rig.do(Skip(offsets=only(100)), 0)
    rig.groups.unreachable, rig.groups.on_commit = False, None
    (name,) = rig.edits.interrupted(GROUP)
    assert undo(rig, rig.edits.named(name)).failed == ()
    assert rig.state(rig.keys[0]).base == 100


def test_a_full_disk_stops_an_edit_before_it_writes(rig: Rig, tmp_path: Path) -> None:
    seed(rig)

    class Full(DiskFile):
        def append(self, line: bytes) -> None:
            if json.loads(line)["what"] == "write":
                raise OperationFailedError("no space left")
            super().append(line)

    edits = Edits(edits_folder(tmp_path, CLUSTER), rig.clock, Full)
    plan = rig.plan(Skip(offsets=only(100)), 0)
    with pytest.raises(KafkakitError, match="no space"):
        rig.editor().carry_out(plan, edits.begin("skip", GROUP), rig.opening(plan))
    assert rig.groups.commits == []


def test_many_partitions_are_written_in_parts_and_told_one_by_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=1203, records=3)
    for key in rig.keys:
        rig.groups.seed(GROUP, key, 1)
    outcome = rig.do(Reset(landing=ResetTarget.LATEST))
    assert outcome.verdict is EditVerdict.COMPLETE
    assert [len(held) for _, held in rig.groups.commits] == [500, 500, 203]
    assert len(outcome.results) == 1203


def test_a_change_in_a_later_part_leaves_the_first_ones_told(tmp_path: Path) -> None:
    rig = Rig(tmp_path, partitions=600, records=3)
    for key in rig.keys:
        rig.groups.seed(GROUP, key, 1)
    plan = rig.plan(Reset(landing=ResetTarget.LATEST))
    rig.groups.seed(GROUP, rig.keys[599], 2)
    outcome = rig.apply(plan)
    assert outcome.verdict is EditVerdict.INCOMPLETE
    problems = {result.partition: result.problem for result in outcome.failed}
    assert len(problems) == 100
    assert problems[rig.keys[599]] == "another process's commit is there"
    assert "changed since the plan" in problems[rig.keys[500]]


def pending(state: CommitState) -> set[int]:
    return set(range(state.base, 400)) - set(offsets(state.done))


def offsets(held: Iterable[tuple[int, int]]) -> list[int]:
    return [n for start, end in held for n in range(start, end)]


EAST = timezone(timedelta(hours=9))
NOW = datetime(2026, 11, 22, 20, 30, tzinfo=UTC)  # in the east it is 05:30 of the next day


def east(moment: datetime) -> datetime:
    return moment.replace(tzinfo=EAST) if moment.tzinfo is None else moment.astimezone(EAST)


@pytest.mark.parametrize(
    ("text", "at", "was_local"),
    [
        ("05:00", datetime(2026, 11, 22, 20, 0, tzinfo=UTC), True),
        ("5:00", datetime(2026, 11, 22, 20, 0, tzinfo=UTC), True),
        ("00:00:30", datetime(2026, 11, 22, 15, 0, 30, tzinfo=UTC), True),
        ("2026-11-22T14:00", datetime(2026, 11, 22, 5, 0, tzinfo=UTC), True),
        ("2026-11-22 14:00:01.5", datetime(2026, 11, 22, 5, 0, 1, 500_000, tzinfo=UTC), True),
        ("2026-11-22T14:00Z", datetime(2026, 11, 22, 14, 0, tzinfo=UTC), False),
        ("2026-11-22T14:00:00+01:00", datetime(2026, 11, 22, 13, 0, tzinfo=UTC), False),
    ],
)
def test_a_moment_is_local_unless_it_says_otherwise(text: str, at: datetime, was_local: bool) -> None:
    moment = parse_moment(text, "--from", NOW, east)
    assert (moment.at, moment.was_local) == (at, was_local)
    assert moment.ms == round(at.timestamp() * 1000)
    assert ("(local time)" in moment.words) == was_local


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a time"),
        ("noon", "is not a time"),
        ("25:00", "is not a time"),
        ("14:60", "is not a time"),
        ("05:31", "is in the future"),
        ("2026-11-22", "has no time of day"),
        ("2027-01-01T00:00Z", "is in the future"),
        ("1969-12-31T00:00Z", "is before 1970"),
        ("0001-01-01T00:00", "is not a time|is before 1970"),
        ("x" * 5000, "is not a time"),
    ],
)
def test_what_is_no_moment_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refusal:
        parse_moment(text, "--from", NOW, east)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", (ResetTarget.EARLIEST, 0)),
        (" latest ", (ResetTarget.LATEST, 0)),
        ("0", (ResetTarget.OFFSET, 0)),
        ("17", (ResetTarget.OFFSET, 17)),
        ("-17", (ResetTarget.SHIFT, -17)),
        ("+17", (ResetTarget.SHIFT, 17)),
        ("2026-11-22T14:00Z", (ResetTarget.TIME, 1_795_356_000_000)),
        ("-2h", (ResetTarget.TIME, epoch_ms(NOW) - 7_200_000)),
        ("-1.5s", (ResetTarget.TIME, epoch_ms(NOW) - 1_500)),
    ],
)
def test_targets(text: str, expected: tuple[ResetTarget, int]) -> None:
    assert parse_target(text, NOW, east)[:2] == expected


@pytest.mark.parametrize("text", ["--5", "-2w", "-0s", "-h", "-1e3s", "1e3", "9" * 19, "9" * 30, "\u0663", "end"])
def test_what_is_no_target_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--to"):
        parse_target(text, NOW, east)


def test_offsets_include_both_ends_and_join() -> None:
    assert parse_offsets("102,200-210, 211,5") == ranges((5, 6), (102, 103), (200, 212))
    assert parse_offsets(str(MAX_OFFSET)) == ranges((MAX_OFFSET, MAX_OFFSET + 1))


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "-5", "5-", "1-2-3", "7-6", "a", "\u0663", str(MAX_OFFSET + 1), "1," * 10_001]
)
def test_what_is_no_offset_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--offsets") as refusal:
        parse_offsets(text)
    assert len(str(refusal.value)) < 300


LONG = "a-topic-with-a-name-that-is-quoted-for-its-length"


def offsets_offset_file(text: str, group: str = "g", topic: str = "") -> dict[TopicPartition, int]:
    read = read_offset_file(text.encode(), "o.csv", group, topic)
    return {key: target.offset for key, target in read.items()}


def test_rows_of_one_group_as_kafka_exports_them() -> None:
    assert offsets_offset_file(f'orders,0,15\norders,1,0\n"{LONG}",0,7\n') == {
        TopicPartition("orders", 0): 15,
        TopicPartition("orders", 1): 0,
        TopicPartition(LONG, 0): 7,
    }


def test_of_several_groups_those_of_the_named_one_are_taken() -> None:
    text = 'g,orders,0,15\nother,orders,0,-3\n"odd ""group"", x",orders,1,4\n'
    assert offsets_offset_file(text) == {TopicPartition("orders", 0): 15}
    assert offsets_offset_file(text, 'odd "group", x') == {TopicPartition("orders", 1): 4}
    with pytest.raises(InputError, match=r"o\.csv: it has no row of group none, only of g, odd \"group\", x, other"):
        offsets_offset_file(text, "none")


def test_line_ends_of_windows_a_byte_order_mark_and_blank_lines_are_accepted() -> None:
    assert offsets_offset_file("\ufefforders,0,15\r\n\r\norders,1, 3 \r\n") == {
        TopicPartition("orders", 0): 15,
        TopicPartition("orders", 1): 3,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "o.csv: it has no rows"),
        ("topic,partition,offset\norders,0,1", "o.csv line 1: 'partition' is not a valid partition"),
        ("orders,0,1\n\norders,0,2", "o.csv line 3: orders-0 is named before, in o.csv line 1"),
        ("orders,0,1\norders,1,-1", "o.csv line 2: offset -1 is negative"),
        ("orders,-1,1", "o.csv line 1: partition -1 is negative"),
        ("orders,2147483648,1", "o.csv line 1: 2147483648 is above the highest partition there can be"),
        ("orders,0,9223372036854775807", "above the highest offset there can be"),
        ("orders,0," + "9" * 5000, "above the highest offset there can be"),
        ("orders,0,1.5", "o.csv line 1: '1.5' is not a valid offset"),
        ("orders,0,\u0663", "is not a valid offset"),
        ("orders,0", "o.csv line 1: it has 2 fields"),
        ("orders,0,1\ng,orders,1,1", "o.csv line 2: it has 4 fields, not 3"),
        ('orders,0,1\n"orders,1,1', "o.csv line 2: it is not CSV"),
        ("orders,0,1\npay\x1b[2J,0,1", r"o.csv line 2: topic pay\x1b[2J is not orders"),
    ],
)
def test_a_row_that_cannot_be_used_is_one_line_with_its_number(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        offsets_offset_file(text, topic="orders")
    assert problem in caught.value.message
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_name_their_line() -> None:
    with pytest.raises(InputError, match=r"o\.csv line 2: it is not UTF-8"):
        read_offset_file(b"orders,0,1\norders,1,\xff", "o.csv", "g")
