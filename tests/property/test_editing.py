"""Edits of random commits: against plain sets of offsets, and any of them taken back to the last character."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError, RefusedError
from kafkakit.core.journal_lines import (
    FIRST_PREV,
    Line,
    RecordKind,
    decode_lines,
    encode_line,
    line_data,
    line_hash,
    replay_lines,
)
from kafkakit.streams.commits.decide.editing.changes import all_done, first_pending, fit_marks, mark_offsets
from kafkakit.streams.commits.decide.editing.decision import undo_plan
from kafkakit.streams.commits.decide.editing.edit import (
    GRAMMAR,
    EditOpening,
    EditSubject,
    Reject,
    Replay,
    Reset,
    ResetTarget,
    Skip,
    Translate,
    Unack,
    Verb,
    fold,
    same_commit,
)
from kafkakit.streams.model.commit import CommitState, Mark, MarkState, OffsetRanges, Watermark
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from tests.rigs.editing import GROUP, NOW, START_MS, Rig

END = 64
offsets = st.frozensets(st.integers(0, END - 1), max_size=12)
some = st.frozensets(st.integers(0, END - 1), min_size=1, max_size=12)


@st.composite
def states(draw: st.DrawFn) -> CommitState:
    base = draw(st.integers(0, END - 4))
    done = draw(offsets) - set(range(base + 1))
    pairs = OffsetRanges.of((n, n + 1) for n in done)
    marks = [
        Mark(start=n, end=n + 1, state=kind)
        for n in range(base, END)
        if (kind := draw(st.sampled_from([None, None, None, *MarkState]))) is not None
    ]
    time = draw(st.booleans())
    return CommitState(
        base=base,
        done=pairs,
        marks=fit_marks(marks, base, pairs),
        watermark=Watermark(oldest_ms=START_MS + 1000 * base, newest_done_ms=START_MS + 1000 * (END - 1))
        if time
        else None,
    )


def verbs() -> st.SearchStrategy[Verb]:
    ranges = some.map(lambda held: OffsetRanges.of((n, n + 1) for n in held))
    window = st.tuples(st.integers(0, END - 2), st.integers(1, 20)).map(
        lambda w: OffsetRanges.of([(w[0], min(END, w[0] + w[1]))])
    )
    return st.one_of(
        ranges.map(lambda held: Skip(offsets=held)),
        ranges.map(lambda held: Unack(offsets=held)),
        ranges.map(lambda held: Reject(offsets=held)),
        window.map(lambda held: Replay(request_id=1, offsets=held)),
        st.tuples(st.integers(0, END), st.booleans()).map(
            lambda r: Reset(landing=ResetTarget.OFFSET, value=r[0], keep_done=r[1])
        ),
        st.sampled_from(["plain", "kkm1", "parallel-consumer"]).map(lambda d: Translate(to=d)),
    )


def flat(held: OffsetRanges) -> set[int]:
    return {n for start, end in held for n in range(start, end)}


def expected(state: CommitState, verb: Verb) -> tuple[set[int], set[int]]:
    """Offsets that must be done after the verb, and those that may be."""
    done = set(range(state.base)) | flat(state.done)
    decided = {
        n for m in state.marks if m.state in (MarkState.SKIPPED, MarkState.REJECTED) for n in range(m.start, m.end)
    }
    if isinstance(verb, Skip | Reject):
        return set(), done | flat(verb.offsets)
    if isinstance(verb, Unack):
        return done - flat(verb.offsets), done - flat(verb.offsets)
    if isinstance(verb, Replay):
        assert verb.offsets is not None
        left = done - (flat(verb.offsets) - decided)
        return left, left
    if isinstance(verb, Reset):
        left = set(range(verb.value)) | (flat(state.done) if verb.keep_done else set())
        return left, left
    return set(range(state.base)), done


def seed(rig: Rig, state: CommitState, dialect: str) -> None:
    if dialect == "kkm1":
        rig.commit_kkm1(rig.keys[0], state)
        return
    text = write_parallel_consumer(state) if dialect == "parallel-consumer" else ""
    assert text is not None
    rig.groups.seed(GROUP, rig.keys[0], state.base, text)


@given(
    state=states(),
    verb=verbs(),
    dialect=st.sampled_from(["kkm1", "kkm1", "parallel-consumer", "plain"]),
)
def test_an_edit_does_what_sets_say_and_undo_restores_it(state: CommitState, verb: Verb, dialect: str) -> None:
    with TemporaryDirectory() as folder:
        rig = Rig(Path(folder), partitions=1, records=END)
        seed(rig, state, dialect)
        before = rig.committed(rig.keys[0])
        old = rig.state(rig.keys[0])
        try:
            plan = rig.plan(verb)
        except RefusedError:
            assert rig.groups.commits == []
            return
        if not plan.changes:
            return
        outcome = rig.apply(plan)
        assert outcome.failed == ()
        new = rig.state(rig.keys[0])
        must, may = expected(old, verb)
        done = set(range(new.base)) | flat(new.done)
        assert must <= done <= may
        if isinstance(verb, Skip | Reject):
            lost = (set(range(old.base)) | flat(old.done) | flat(verb.offsets)) - done
            assert len(lost) <= 1, "at most the one record that base stands at below a rejected offset"
            assert not lost or any(m.state is MarkState.REJECTED for m in new.marks)
        (edit,) = plan.edits
        assert flat(edit.reopened) == set(range(END)) & (set(range(old.base)) | flat(old.done)) - done
        assert flat(edit.passed) == set(range(END)) & done - set(range(old.base)) - flat(old.done)
        assert new.base not in new.done
        rejected = {n for m in old.marks if m.state is MarkState.REJECTED for n in range(m.start, m.end)}
        if not isinstance(verb, Reset | Translate | Unack):
            assert all(n >= new.base for n in rejected & done if n >= old.base), "base passed a rejected offset"
        rig.clock.advance(1)
        journal = rig.edits.last()
        assert journal.record is not None
        back = undo_plan(journal.record, journal.name, rig.observer.look_at(GROUP, rig.keys, rig.clock.now()))
        assert rig.apply(back).failed == ()
        assert same_commit(rig.committed(rig.keys[0]), before)


@given(held=states(), offsets_=some, kind=st.sampled_from([None, *MarkState]))
def test_marks_stay_sorted_disjoint_and_agree_with_the_set(
    held: CommitState, offsets_: frozenset[int], kind: MarkState | None
) -> None:
    changed = mark_offsets(held.marks, OffsetRanges.of((n, n + 1) for n in offsets_), kind)
    assert all(a.end <= b.start for a, b in pairwise(changed))
    for n in range(END):
        states_of = [m.state for m in changed if m.start <= n < m.end]
        was = [m.state for m in held.marks if m.start <= n < m.end]
        assert states_of == ([kind] if kind is not None else []) if n in offsets_ else states_of == was


@given(held=states())
def test_the_first_hole_is_the_base(held: CommitState) -> None:
    assert first_pending(all_done(held)) == held.base


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["changes", "answers", "partitions", "verdict", "old", "offset"]), inner)
    ),
    max_leaves=8,
)


@given(
    what=st.sampled_from(list(EditSubject)),
    kind=st.sampled_from(list(RecordKind)),
    body=st.dictionaries(
        st.sampled_from(["changes", "answers", "partitions", "verdict", "words", "group"]), json_values
    ),
)
def test_a_journal_that_somebody_made_up_is_refused_in_words(
    what: EditSubject, kind: RecordKind, body: dict[str, object]
) -> None:
    opening = EditOpening(cluster_id="c", group="g", verb="skip", who="me")
    first = encode_line(line(0, FIRST_PREV, EditSubject.OPEN, RecordKind.CHECK, line_data(opening)), GRAMMAR)
    second = encode_line(line(1, line_hash(first), what, kind, body), GRAMMAR)
    text = decode_lines(first + second, "made-up", GRAMMAR)
    try:
        record = replay_lines(text.records, "made-up", None, fold)
    except InputError:
        return
    assert record is not None
    assert record.story


def line(seq: int, prev: str, what: EditSubject, kind: RecordKind, data: Mapping[str, object]) -> Line[EditSubject]:
    return Line(seq=seq, time=NOW, prev=prev, kind=kind, what=what, data=data)
