"""The inspector's sums against plain sets of offsets, and everything it shows for any metadata at all."""

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import plain_value
from kafkakit.streams.commits.decide.documents import CommitDocument, state_of
from kafkakit.streams.commits.decide.offset_states import difference, duplicates_of, explain, tally_of
from kafkakit.streams.commits.report.commits import (
    ASCII,
    COMMIT_COLUMNS,
    commit_data,
    commit_row,
    commit_text,
    draw,
    state_data,
)
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Mark, MarkState, OffsetRanges
from kafkakit.streams.model.dialects.dialect import CommitFacts
from kafkakit.streams.model.dialects.registry import read_metadata

ROUNDS = settings(max_examples=300, deadline=None, derandomize=True)
LETTERS = {MarkState.REJECTED: "x", MarkState.SKIPPED: "s", MarkState.RETRYING: "r", MarkState.DEFERRED: "d"}


@st.composite
def states(draw_from: st.DrawFn) -> CommitState:
    """A state of up to 40 offsets, each with a letter of its own."""
    base = draw_from(st.integers(0, 20))
    letters = draw_from(st.lists(st.sampled_from("#.xsrd"), max_size=40))
    if letters:
        letters[0] = draw_from(st.sampled_from(".rd"))
    done = OffsetRanges.of((base + i, base + i + 1) for i, letter in enumerate(letters) if letter in "#xs")
    kinds = {letter: kind for kind, letter in LETTERS.items()}
    marks = tuple(
        Mark(start=base + i, end=base + i + 1, state=kinds[letter], count=3 if letter == "r" else 0)
        for i, letter in enumerate(letters)
        if letter in kinds
    )
    return CommitState(base=base, done=done, marks=marks)


def letter_of(state: CommitState, offset: int) -> str:
    mark = next((m for m in state.marks if m.start <= offset < m.end), None)
    if mark is not None:
        return LETTERS[mark.state]
    return "#" if offset in state.done else "."


@ROUNDS
@given(states())
def test_each_offset_has_its_own_cell_and_is_counted_once(state: CommitState) -> None:
    end = max([state.end, *(m.end for m in state.marks)])
    expected = "".join(letter_of(state, offset) for offset in range(state.base, end))
    picture = draw(state, width=200, style=ASCII)
    assert (picture.rows[0].split()[1] if picture else "") == expected
    tally = tally_of(state, end + 5)
    assert (tally.done, tally.rejected, tally.skipped, tally.pending, tally.retrying, tally.deferred) == tuple(
        expected.count(letter) for letter in "#xs.rd"
    )
    assert (tally.span, tally.untouched) == (len(expected), 5)


def done_of(state: CommitState) -> set[int]:
    return {*range(state.base), *(offset for start, end in state.done for offset in range(start, end))}


def marked(state: CommitState, kind: MarkState) -> set[int]:
    return {offset for m in state.marks if m.state is kind for offset in range(m.start, m.end)}


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@ROUNDS
@given(states(), states())
def test_a_difference_is_that_of_sets(before: CommitState, after: CommitState) -> None:
    found = difference(before, after)
    rejected = marked(after, MarkState.REJECTED) - marked(before, MarkState.REJECTED)
    skipped = marked(after, MarkState.SKIPPED) - marked(before, MarkState.SKIPPED)
    assert offsets(found.reopened) == done_of(before) - done_of(after)
    assert offsets(found.rejected) == rejected
    assert offsets(found.became_done) == done_of(after) - done_of(before) - rejected - skipped
    newly = marked(after, MarkState.RETRYING) - marked(before, MarkState.RETRYING)
    assert {offset for start, end, *_ in found.retried for offset in range(start, end)} == newly
    assert difference(before, before).is_empty


@ROUNDS
@given(states())
def test_a_state_survives_json(state: CommitState) -> None:
    document = msgspec.convert({"offset": state.base, "state": msgspec.to_builtins(state_data(state))}, CommitDocument)
    assert state_of(document, "test") == state


VECTORS = (
    "~bEBiF-6gBB2QKAAECAgUCCLawy6eWM-gHBAIHAgYGAgEQAAIj",
    "ZQAAAAEAAMNL",
    "bAAK5gMA",
    "AgAAAZlk8tg2AAAAAQAAAANrLTEAAAAAAAAAKg==",
    "",
)
SPANS = st.one_of(
    st.none(),
    st.tuples(st.integers(-1, 300), st.integers(0, 300)).map(
        lambda pair: LogSpan(start=pair[0], stable=pair[0] + pair[1], end=pair[0] + pair[1])
    ),
)


@st.composite
def hostile_metadata(draw_from: st.DrawFn) -> str:
    """Any text, or a real payload with something changed in it."""
    if draw_from(st.booleans()):
        return draw_from(st.text(max_size=60))
    text = draw_from(st.sampled_from(VECTORS))
    at = draw_from(st.integers(0, len(text)))
    return text[:at] + draw_from(st.text(max_size=2)) + text[at + draw_from(st.integers(0, 2)) :]


@ROUNDS
@given(hostile_metadata(), st.integers(0, 2**63 - 1) | st.integers(0, 200), SPANS, st.booleans())
def test_whatever_was_committed_can_be_shown(text: str, offset: int, span: LogSpan | None, exists: bool) -> None:
    identity = CommitIdentity(cluster_id="c", topic_id=bytes(16), partition=0, group="g\x1b")
    facts = CommitFacts(
        offset=offset,
        metadata=text,
        reading=read_metadata(text, offset, identity),
        at_ms=1_758_335_260_726,
        key=TopicPartition("t", 0),
        group="g\x1b",
        identity=identity,
        span=span,
        topic_exists=exists,
        owner="o\x07",
    )
    shown = commit_text(facts, width=60, style=ASCII)
    assert shown.replace("\n", "").isprintable()
    assert json.loads(json.dumps(plain_value(commit_data(facts))))["offset"] == offset
    assert len(commit_row(facts)) == len(COMMIT_COLUMNS)
    again = duplicates_of(facts)
    assert 0 <= again.low <= (again.low if again.high is None else again.high)
    assert explain(facts).sentences
