"""Writers of KKM1: the limit, the alphabets, what is given up first, and the ladder's advice."""

import random
import re
from dataclasses import replace

import pytest

from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Range,
    ReplayWindow,
    RouteMark,
    Watermark,
    Writer,
)
from kafkakit.streams.model.kkm1.decode import read_kkm1
from kafkakit.streams.model.kkm1.encode import Step, advise, encode_commit

IDENTITY = CommitIdentity(cluster_id="c-1", topic_id=bytes(range(16)), partition=0, group="g")


def islands(count: int, *, size: int = 1, every: int = 10) -> OffsetRanges:
    """Islands at places that no compression can tell by a rule."""
    draw = random.Random(3)
    places = [every * n + 1 + draw.randrange(every - size) for n in range(count)]
    return OffsetRanges(tuple((at, at + size) for at in places))


def with_big_ones(small: OffsetRanges, big: list[Range]) -> OffsetRanges:
    return small.union(OffsetRanges.of(big))


def test_the_biggest_islands_stay() -> None:
    big = [(100_000, 140_000), (150_000, 155_000)]
    state = CommitState(base=0, done=with_big_ones(islands(6_000), big))
    encoded = encode_commit(state, IDENTITY, limit_chars=500)
    assert encoded.fill > 1
    assert OffsetRanges(tuple(big)).is_subset_of(encoded.written.done)
    assert encoded.forgotten == state.done.count - encoded.written.done.count > 0
    # What fits is used, also where only compression makes the room.
    assert encoded.chars > 450


def test_rejected_and_skipped_islands_stay_longest() -> None:
    done = with_big_ones(islands(6_000, size=2, every=12), [(100_000, 140_000)])
    kept = [done.ranges[at] for at in (7, 1000, 5999)]
    kinds = (MarkState.REJECTED, MarkState.SKIPPED, MarkState.REJECTED)
    marks = tuple(Mark(start=a, end=b, state=kind) for (a, b), kind in zip(kept, kinds, strict=True))
    encoded = encode_commit(CommitState(base=0, done=done, marks=marks), IDENTITY, limit_chars=80)
    assert encoded.written.marks == marks
    assert all(a in encoded.written.done for a, _ in kept)
    assert encoded.lost_marks == 0


def test_a_dense_set_is_cut_at_its_top_where_that_forgets_less() -> None:
    draw = random.Random(6)
    done = OffsetRanges.of((n, n + 1) for n in range(1, 60_000) if draw.random() < 0.5)
    encoded = encode_commit(CommitState(base=0, done=done), IDENTITY, limit_chars=4095)
    assert encoded.encoding == "bitmap"
    # Smallest islands first forgets 60.8 % of such a set.
    assert encoded.forgotten / done.count < 0.6
    assert encoded.written.done == done.within(0, encoded.written.end)


def test_a_few_marks_stay_and_thousands_do_not_crowd_out_what_is_done() -> None:
    done = OffsetRanges(((50_000, 900_000),))
    draw = random.Random(4)
    starts = [n + draw.randrange(9) for n in range(0, 50_000, 10)]
    marks = tuple(Mark(start=n, end=n + 1, state=MarkState.RETRYING, count=draw.randrange(1, 4)) for n in starts)
    state = CommitState(base=0, done=done, marks=marks)
    encoded = encode_commit(state, IDENTITY, limit_chars=1000)
    assert encoded.forgotten == 0
    assert encoded.lost_marks == len(marks) - len(encoded.written.marks) > 0
    # Those that were tried most are the ones that stay.
    assert {mark.count for mark in encoded.written.marks} == {3}
    assert encoded.is_lossy
    assert read_kkm1(encoded.text, 0, IDENTITY).state == encoded.written


def test_a_rejected_offset_that_cannot_keep_its_mark_is_pending_again() -> None:
    done = OffsetRanges(((1, 900_000),))
    draw = random.Random(5)
    starts = [n + draw.randrange(9) for n in range(5, 50_000, 10)]
    marks = tuple(Mark(start=n, end=n + 1, state=MarkState.REJECTED) for n in starts)
    encoded = encode_commit(CommitState(base=0, done=done, marks=marks), IDENTITY, limit_chars=2000)
    lost = set(marks) - set(encoded.written.marks)
    assert lost
    assert not any(mark.start in encoded.written.done for mark in lost)


@pytest.mark.parametrize("limit", range(-1, 120))
def test_any_limit_is_kept(limit: int) -> None:
    state = CommitState(
        base=10,
        done=OffsetRanges(((11, 20), (30, 31), (1000, 5000))),
        watermark=Watermark(oldest_ms=10**12, newest_done_ms=10**12 + 5),
        route=RouteMark(epoch=5, segment=6),
        marks=(
            Mark(start=10, end=11, state=MarkState.RETRYING, count=3),
            Mark(start=30, end=31, state=MarkState.REJECTED),
        ),
        writer=Writer(member_hash=77, generation=8),
        replay=ReplayWindow(start=21, end=29, request_id=3),
    )
    encoded = encode_commit(state, IDENTITY, limit_chars=limit)
    assert encoded.chars == len(encoded.text) <= max(limit, 0)
    assert encoded.is_lossy == (limit < 72)
    if limit == 50:
        assert encoded.left_out == ("replay",)
    if encoded.text:
        assert read_kkm1(encoded.text, 10, IDENTITY).state == encoded.written
    else:
        assert encoded.left_out == ("replay", "writer", "route", "watermark")
        assert encoded.forgotten == state.done.count


def test_the_wide_alphabet_is_taken_only_where_the_first_does_not_hold_the_state() -> None:
    state = CommitState(base=0, done=islands(2_000))
    narrow = encode_commit(state, IDENTITY, limit_chars=4095, alphabets=("b", "w"))
    wide = encode_commit(state, IDENTITY, limit_chars=900, alphabets=("b", "w"))
    short = encode_commit(state, IDENTITY, limit_chars=90, alphabets=("b", "w"))
    assert [one.alphabet for one in (narrow, wide, short)] == ["b", "w", "w"]
    assert [one.is_lossy for one in (narrow, wide, short)] == [False, False, True]
    assert narrow.raw_bytes == wide.raw_bytes


def test_the_longest_wide_text_can_be_read_back() -> None:
    """Its last character may hold a byte more than was written, which must not be one too many for the reader."""
    bits = random.Random(1).getrandbits(524_217) | 1 << 524_216
    runs = [(n.start(), n.end()) for n in re.finditer("1+", f"{bits & ~1:b}"[::-1])]
    state = CommitState(base=0, done=OffsetRanges(tuple(runs)))
    encoded = encode_commit(state, IDENTITY, limit_chars=100_000, alphabets=("w",))
    reading = read_kkm1(encoded.text, 0, IDENTITY)
    assert (reading.problem, reading.state) == (None, encoded.written)


def test_a_pattern_that_repeats_is_compressed_and_a_random_one_is_not() -> None:
    regular = OffsetRanges(tuple((n, n + 1) for n in range(1, 60_000, 2)))
    encoded = encode_commit(CommitState(base=0, done=regular), IDENTITY, limit_chars=4095)
    assert encoded.is_compressed
    assert encoded.chars < 100
    assert read_kkm1(encoded.text, 0, IDENTITY).state.done == regular
    assert not encode_commit(CommitState(base=0, done=islands(300)), IDENTITY, limit_chars=4095).is_compressed


def test_many_islands_at_huge_offsets_take_no_time_and_no_memory() -> None:
    step = 2**44
    done = OffsetRanges(tuple((n * step + 1, (n + 1) * step - n) for n in range(100_000)))
    encoded = encode_commit(CommitState(base=0, done=done), IDENTITY, limit_chars=4095, alphabets=("b", "w"))
    assert encoded.chars <= 4095
    assert encoded.fill > 60
    assert encoded.written.done.is_subset_of(done)


@pytest.mark.parametrize(
    "state",
    [
        CommitState(base=-1),
        CommitState(base=5, done=OffsetRanges(((5, 6),))),
        CommitState(base=5, done=OffsetRanges(((7, 9), (9, 10)))),
        CommitState(base=5, done=OffsetRanges(((7, 2**63),))),
        CommitState(base=5, marks=(Mark(start=6, end=7, state=MarkState.REJECTED),)),
        CommitState(base=5, done=OffsetRanges(((6, 8),)), marks=(Mark(start=7, end=9, state=MarkState.RETRYING),)),
        CommitState(base=5, marks=(Mark(start=9, end=9, state=MarkState.RETRYING),)),
        CommitState(base=5, marks=(Mark(start=9, end=10, state=MarkState.RETRYING, deferred_s=4),)),
        CommitState(base=5, route=RouteMark(epoch=-1, segment=0)),
        CommitState(base=5, writer=Writer(member_hash=2**32, generation=0)),
        CommitState(base=5, replay=ReplayWindow(start=9, end=9, request_id=0)),
        CommitState(base=5, forgotten=-1),
    ],
)
def test_a_state_that_cannot_be_is_a_mistake_of_the_program(state: CommitState) -> None:
    with pytest.raises(ValueError):
        encode_commit(state, IDENTITY, limit_chars=4095)


def test_an_alphabet_must_be_known_and_given() -> None:
    for alphabets in ((), ("x",)):
        with pytest.raises(ValueError):
            encode_commit(CommitState(base=5), IDENTITY, limit_chars=4095, alphabets=alphabets)


def test_a_state_is_brought_into_the_form_that_can_be_written() -> None:
    state = CommitState(
        base=100,
        watermark=Watermark(oldest_ms=-1, newest_done_ms=-1),
        marks=(
            Mark(start=90, end=95, state=MarkState.SKIPPED),
            Mark(start=98, end=102, state=MarkState.RETRYING, count=99),
        ),
        replay=ReplayWindow(start=80, end=110, request_id=1),
    )
    written = encode_commit(state, IDENTITY, limit_chars=4095).written
    assert written == CommitState(
        base=100,
        marks=(Mark(start=100, end=102, state=MarkState.RETRYING, count=15),),
        replay=ReplayWindow(start=100, end=110, request_id=1),
    )
    gone = replace(state, replay=ReplayWindow(start=80, end=100, request_id=1))
    assert encode_commit(gone, IDENTITY, limit_chars=4095).written.replay is None


def test_the_ladder_is_climbed_as_metadata_fill_up() -> None:
    seen: list[Step] = []
    for count in range(0, 3000, 60):
        encoded = encode_commit(
            CommitState(base=0, done=islands(count)), IDENTITY, limit_chars=700, alphabets=("b", "w")
        )
        advice = advise(encoded, ("b", "w"))
        assert advice.should_pause == (advice.step is not Step.FREE)
        assert advice.duplicates == encoded.forgotten
        assert advice.text
        if not seen or seen[-1] is not advice.step:
            seen.append(advice.step)
    assert seen == [Step.FREE, Step.PAUSE, Step.CLOSE_HOLES, Step.WIDEN, Step.COARSEN]
