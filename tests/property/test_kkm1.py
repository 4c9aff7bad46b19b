"""KKM1 over random states and damage: read back equal or smaller, never larger, and never an error."""

import base64

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
)
from kafkakit.streams.model.kkm1.decode import bind_of, read_kkm1
from kafkakit.streams.model.kkm1.encode import Encoded, columns, encode_commit, ranges_size
from kafkakit.streams.model.kkm1.sections import FEW_BYTES, pack_bitmap, pack_rice, pack_runs, runs_of, unpack
from kafkakit.streams.model.kkm1.text import Cursor, uvarint, uvarint_size

IDENTITY = CommitIdentity(cluster_id="c-1", topic_id=bytes(range(16)), partition=3, group="orders")
TOP = 2**63 - 1
SMALL = st.integers(1, 6)
LENGTHS = st.one_of(SMALL, st.integers(1, 300), st.integers(1, 2**40))
BASES = st.one_of(st.integers(0, 300), st.integers(0, 2**45))


@st.composite
def done_sets(draw: st.DrawFn, base: int, *, lengths: st.SearchStrategy[int] = LENGTHS, most: int = 30) -> OffsetRanges:
    """Islands above base; sometimes the same two lengths again and again."""
    pairs = draw(st.lists(st.tuples(lengths, lengths), max_size=most))
    pairs *= draw(st.sampled_from([1, 1, 1, 7]))
    ranges, at = [], base
    for pending, done in pairs:
        ranges.append((at + pending, at + pending + done))
        at += pending + done
    return OffsetRanges(tuple(ranges))


@st.composite
def states(draw: st.DrawFn) -> CommitState:
    """Any state that a payload can hold."""
    base = draw(BASES)
    done = draw(done_sets(base))
    marks: list[Mark] = []
    for start, end in done.ranges[: draw(st.integers(0, 4))]:
        state = draw(st.sampled_from([MarkState.REJECTED, MarkState.SKIPPED]))
        first = draw(st.integers(start, end - 1))
        marks.append(
            Mark(start=first, end=draw(st.integers(first + 1, end)), state=state, count=draw(st.integers(0, 15)))
        )
    for start, end in (*done.gaps(base, done.end or base), (done.end or base, (done.end or base) + 9)):
        if draw(st.integers(0, 3)) == 0 and len(marks) < 12:
            deferred = draw(st.booleans())
            first = draw(st.integers(start, end - 1))
            marks.append(
                Mark(
                    start=first,
                    end=draw(st.integers(first + 1, end)),
                    state=MarkState.DEFERRED if deferred else MarkState.RETRYING,
                    count=draw(st.integers(0, 15)),
                    deferred_s=draw(st.integers(0, 2**32 - 1)) if deferred else 0,
                )
            )
    times = st.integers(0, 2 * 10**12)
    numbers = st.integers(0, 2**64 - 1)
    window = draw(st.tuples(st.integers(base, base + 500), st.integers(1, 500)))
    return CommitState(
        base=base,
        done=done,
        watermark=draw(st.none() | st.builds(Watermark, oldest_ms=times, newest_done_ms=times)),
        route=draw(st.none() | st.builds(RouteMark, epoch=numbers, segment=numbers)),
        marks=tuple(sorted(marks, key=lambda mark: mark.start)),
        spill=draw(
            st.none()
            | st.builds(
                Spill,
                partition=st.integers(0, 99),
                offset=st.integers(0, TOP),
                digest=st.binary(min_size=8, max_size=8),
            )
        ),
        writer=draw(st.none() | st.builds(Writer, member_hash=st.integers(0, 2**32 - 1), generation=numbers)),
        replay=draw(
            st.none() | st.builds(ReplayWindow, start=st.just(window[0]), end=st.just(sum(window)), request_id=numbers)
        ),
        forgotten=draw(st.sampled_from([0, 0, 1, 2**40])),
    )


def check(encoded: Encoded, state: CommitState, limit: int) -> None:
    """What holds for every encoding, whatever had to be left out."""
    assert encoded.chars == len(encoded.text) <= max(limit, 0)
    written = encoded.written
    assert written.done.is_subset_of(state.done)
    assert encoded.forgotten == state.done.count - written.done.count
    assert encoded.lost_marks == len(state.marks) - len(written.marks)
    assert set(written.marks) <= set(state.marks)
    if not encoded.is_lossy:
        assert written == state
    if not encoded.text:
        assert written == CommitState(base=state.base)
        return
    assert written.forgotten == state.forgotten + encoded.forgotten
    reading = read_kkm1(encoded.text, state.base, IDENTITY)
    assert (reading.problem, reading.reason, reading.state) == (None, "", written)
    assert reading.is_lossy == (written.forgotten > 0)
    assert (reading.raw_bytes, reading.is_compressed) == (encoded.raw_bytes, encoded.is_compressed)
    # A rejected offset that is still done is still known as rejected.
    rejected = OffsetRanges.of((m.start, m.end) for m in state.marks if m.state is MarkState.REJECTED)
    known = OffsetRanges.of((m.start, m.end) for m in written.marks if m.state is MarkState.REJECTED)
    assert rejected.intersection(written.done) == known


@settings(max_examples=120, deadline=None)
@given(state=states(), alphabet=st.sampled_from("bbwj"))
def test_what_is_written_is_read_back(state: CommitState, alphabet: str) -> None:
    encoded = encode_commit(state, IDENTITY, limit_chars=60_000, alphabets=(alphabet,))
    assert not encoded.is_lossy
    assert encoded.fill <= 1
    check(encoded, state, 60_000)


@settings(max_examples=120, deadline=None)
@given(state=states(), limit=st.integers(-1, 200), alphabets=st.sampled_from(["b", "w", "j", "bw"]))
def test_what_does_not_fit_is_left_out_and_counted(state: CommitState, limit: int, alphabets: str) -> None:
    encoded = encode_commit(state, IDENTITY, limit_chars=limit, alphabets=tuple(alphabets))
    check(encoded, state, limit)
    assert (encoded.fill > 1) == encoded.is_lossy or not encoded.text


@settings(max_examples=150, deadline=None)
@given(base=st.integers(0, 2**45), data=st.data())
def test_sizes_are_those_of_the_smallest_packing(base: int, data: st.DataObject) -> None:
    done = data.draw(done_sets(base, most=60))
    runs = runs_of(base, done)
    if not runs:
        return
    span = sum(runs)
    packings = [pack_runs(runs), pack_rice(runs), *([pack_bitmap(runs)] if span < 10_000 else [])]
    for packed in packings:
        assert unpack(packed.encoding, Cursor(packed.data), base, span) == done
    few = len(packings[0].data) <= FEW_BYTES  # which stay runs
    data_bytes = min(len(packed.data) for packed in packings[: 1 if few else None])
    size = data_bytes + uvarint_size(base) + uvarint_size(span) + 1
    assert ranges_size(base, *columns(done)) == 1 + uvarint_size(size) + size


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(max_size=60).map("~b".__add__),
        st.text(alphabet="ABCDEFabcdef0123-_", max_size=60).map("~bE".__add__),
        st.text(alphabet=st.characters(min_codepoint=0x3400, max_codepoint=0xD7FF), max_size=40).map("~w".__add__),
        st.text(alphabet='{}[]:,"0123456789.e-abvinds', max_size=60).map("~j".__add__),
    ),
    offset=st.sampled_from([-1, 0, 100, TOP, 2**70]),
    bound=st.booleans(),
)
@example(text="", offset=0, bound=True)
@example(text="~b\0\0", offset=0, bound=True)
def test_no_text_is_an_error_and_none_is_believed(text: str, offset: int, bound: bool) -> None:
    reading = read_kkm1(text, offset, IDENTITY if bound else None)
    assert reading.state.base == offset
    if bound:
        assert not reading.state.done
        assert reading.problem is not None


@settings(max_examples=100, deadline=None)
@given(state=states(), alphabet=st.sampled_from("bwj"), data=st.data())
def test_damaged_text_never_holds_more_than_was_written(state: CommitState, alphabet: str, data: st.DataObject) -> None:
    text = encode_commit(state, IDENTITY, limit_chars=60_000, alphabets=(alphabet,)).text
    at = data.draw(st.integers(2, len(text) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "drop", "twice"]))
    if kind == "flip":
        text = text[:at] + chr(ord(text[at]) ^ 1 << data.draw(st.integers(0, 6))) + text[at + 1 :]
    else:
        text = {"cut": text[:at], "drop": text[:at] + text[at + 1 :], "twice": text[:at] + text[at - 1 :]}[kind]
    reading = read_kkm1(text, state.base, IDENTITY)
    assert reading.state.done.is_subset_of(state.done)
    assert reading.state == (state if reading.problem is None else CommitState(base=state.base))


@settings(max_examples=100, deadline=None)
@given(state=states(), data=st.data())
def test_damaged_bytes_that_are_bound_anew_stay_within_the_format(state: CommitState, data: st.DataObject) -> None:
    text = encode_commit(state, IDENTITY, limit_chars=60_000).text
    raw = bytearray(base64.urlsafe_b64decode(text[2:] + "=="))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    raw[1:5] = bind_of(IDENTITY, bytes(raw[:1] + raw[5:])).to_bytes(4, "little")
    text = "~b" + base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    reading = read_kkm1(text, state.base, IDENTITY)
    if reading.problem is not None:
        assert reading.state == CommitState(base=state.base)
        return
    # It is now what a writer may have written, so it must be a state like any other: written and read again as is.
    again = encode_commit(reading.state, IDENTITY, limit_chars=80_000)
    assert again.written == reading.state
    assert read_kkm1(again.text, state.base, IDENTITY).state == reading.state


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=80))
def test_random_bodies_that_are_bound_never_fail(raw: bytes) -> None:
    for first in (0x10, 0x11, 0x12, 0x14, 0x17):
        sealed = bytes((first,)) + bind_of(IDENTITY, bytes((first,)) + raw).to_bytes(4, "little") + raw
        read_kkm1("~b" + base64.urlsafe_b64encode(sealed).decode().rstrip("="), 100, IDENTITY)


@given(value=st.integers(0, 2**64 - 1))
def test_numbers_are_read_back(value: int) -> None:
    data = uvarint(value)
    assert len(data) == uvarint_size(value)
    assert Cursor(data).uvarint() == value
