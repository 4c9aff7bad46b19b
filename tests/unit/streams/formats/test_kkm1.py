"""Writers of KKM1.

Readers of KKM1. Offset maps of parallel-consumer. KKM1 against the cases of `tests/cases/streams/kkm1.json`.
`DoneSet`. `OffsetRanges` and identities.
"""

import base64
import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
import zstandard

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.binary import crc32c, uvarint
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    PayloadProblem,
    Range,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
    topic_id_bytes,
    topic_id_text,
)
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.done_set import DoneSet
from kafkakit.streams.model.kkm1.decode import Flag, OpenedPayload, identity_bytes, open_text, read_kkm1, seal
from kafkakit.streams.model.kkm1.encode import Fill, advise, encode_commit
from kafkakit.streams.model.kkm1.text import MAX_CHARS, Alphabet, to_text
from tests.places import ROOT

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
    seen: list[Fill] = []
    for count in range(0, 3000, 60):
        encoded = encode_commit(
            CommitState(base=0, done=islands(count)), IDENTITY, limit_chars=700, alphabets=("b", "w")
        )
        advice = advise(encoded, ("b", "w"))
        assert advice.should_pause == (advice.step is not Fill.FREE)
        assert advice.duplicates == encoded.forgotten
        assert advice.text
        if not seen or seen[-1] is not advice.step:
            seen.append(advice.step)
    assert seen == [Fill.FREE, Fill.PAUSE, Fill.CLOSE_HOLES, Fill.WIDEN, Fill.COARSEN]


DONE = OffsetRanges(((101, 103), (105, 110)))
RANGES = bytes.fromhex("0107640a0001020205")


def sealed(body: bytes, flags: int = 0, identity: CommitIdentity = IDENTITY) -> str:
    return to_text(Alphabet.BASE64, seal(identity, flags, body))


def section(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + uvarint(len(data)) + data


@pytest.mark.parametrize(
    "other",
    [
        replace(IDENTITY, cluster_id="c-2"),
        replace(IDENTITY, topic_id=bytes(16)),
        replace(IDENTITY, partition=1),
        replace(IDENTITY, group="h"),
    ],
    ids=["cluster", "topic", "partition", "group"],
)
def test_a_payload_of_something_else_is_claimed_and_not_used(other: CommitIdentity) -> None:
    state = CommitState(base=100, done=DONE)
    for alphabet in "bwj":
        text = encode_commit(state, other, limit_chars=4095, alphabets=(alphabet,)).text
        reading = read_kkm1(text, 100, IDENTITY)
        assert (reading.problem, reading.is_bound, reading.claimed) == (PayloadProblem.FOREIGN, False, state)
        assert reading.state == CommitState(base=100)
        opened = open_text(text)
        assert isinstance(opened, OpenedPayload)
        assert [opened.is_bound_to(one) for one in (IDENTITY, other)] == [False, True]


def test_a_payload_under_another_offset_is_claimed_and_not_used() -> None:
    state = CommitState(base=100, done=DONE)
    reading = read_kkm1(encode_commit(state, IDENTITY, limit_chars=4095).text, 104, IDENTITY)
    assert (reading.problem, reading.is_bound, reading.claimed) == (PayloadProblem.BASE_MISMATCH, True, state)
    assert "100" in reading.reason
    assert "104" in reading.reason


def test_without_an_identity_nothing_is_proven() -> None:
    text = encode_commit(CommitState(base=100, done=DONE), IDENTITY, limit_chars=4095).text
    reading = read_kkm1(text, 100, None)
    assert (reading.problem, reading.is_bound, reading.state.done) == (None, None, DONE)


def test_an_even_section_of_a_newer_writer_is_skipped_and_an_odd_one_is_not() -> None:
    newer = RANGES + section(40, b"whatever")
    assert read_kkm1(sealed(newer), 100, IDENTITY).state == CommitState(base=100, done=DONE)
    assert read_kkm1(sealed(RANGES + section(41, b"")), 100, IDENTITY).problem is PayloadProblem.UNKNOWN_SECTION


def test_fields_that_a_newer_writer_adds_to_a_section_are_skipped() -> None:
    body = RANGES + section(4, bytes((7, 2, 99)))
    assert read_kkm1(sealed(body), 100, IDENTITY).state.route == RouteMark(epoch=7, segment=2)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (section(2, bytes((5,))), "WATERMARK"),
        (section(2, uvarint(2**63) + b"\0"), "WATERMARK"),
        (section(2, b"\x05\x0b"), "WATERMARK"),
        (section(6, b"\x02\x00\x10"), "DISPOSITION"),
        (section(6, b"\x02\x01\xf0"), "DISPOSITION"),
        (section(6, b"\x02\x01\x30" + uvarint(2**40)), "DISPOSITION"),
        (section(6, uvarint(2**63) + b"\x01\x20"), "DISPOSITION"),
        (section(10, b"\x01\x02"), "WRITER"),
        (section(12, b"\x00\x00\x01"), "REPLAY"),
        (section(14, b"\xff" * 11), "FORGOTTEN"),
    ],
)
def test_a_section_that_cannot_be_is_ignored_and_said(body: bytes, word: str) -> None:
    reading = read_kkm1(sealed(RANGES + body, Flag.LOSSY), 100, IDENTITY)
    assert reading.problem is None
    assert reading.state == CommitState(base=100, done=DONE)
    assert word in reading.reason


def test_marks_that_disagree_with_the_done_set_never_change_it() -> None:
    # Rejected at 100 to 101 (half of it pending), retrying at 104 (pending), skipped at 105 (done), deferred at 106.
    body = section(6, b"\x00\x02\x10" + b"\x02\x01\x25" + b"\x00\x01\x40" + b"\x00\x01\x30\x01")
    reading = read_kkm1(sealed(RANGES + body), 100, IDENTITY)
    assert reading.state.done == DONE
    assert reading.state.marks == (
        Mark(start=104, end=105, state=MarkState.RETRYING, count=5),
        Mark(start=105, end=106, state=MarkState.SKIPPED),
    )
    assert "2 marks" in reading.reason


def test_a_spill_needs_flag_and_section() -> None:
    pointer = section(8, b"\x01\x02" + bytes(8))
    spill = Spill(partition=1, offset=2, digest=bytes(8))
    assert read_kkm1(sealed(RANGES + pointer, Flag.SPILLED), 100, IDENTITY).state.spill == spill
    for body, flags in ((RANGES + pointer, 0), (RANGES, Flag.SPILLED)):
        reading = read_kkm1(sealed(body, flags), 100, IDENTITY)
        assert (reading.state, "spill" in reading.reason) == (CommitState(base=100, done=DONE), True)


def test_a_forgotten_count_without_the_flag_is_ignored() -> None:
    body = RANGES + section(14, b"\x05")
    assert read_kkm1(sealed(body), 100, IDENTITY).state.forgotten == 0
    lossy = read_kkm1(sealed(body, Flag.LOSSY), 100, IDENTITY)
    assert (lossy.state.forgotten, lossy.is_lossy) == (5, True)


def test_zero_bytes_may_follow_and_others_may_not() -> None:
    assert read_kkm1(to_text(Alphabet.BASE64, seal(IDENTITY, Flag.NONE, RANGES) + bytes(3)), 100, IDENTITY).is_bound
    text = to_text(Alphabet.BASE64, seal(IDENTITY, Flag.NONE, RANGES) + b"\0\1")
    assert read_kkm1(text, 100, IDENTITY).problem is PayloadProblem.BAD_BODY


def test_a_huge_text_is_refused_before_it_is_read() -> None:
    for letter in "bwj":
        reading = read_kkm1(f"~{letter}" + "A" * MAX_CHARS, 5, IDENTITY)
        assert (reading.problem, reading.chars) == (PayloadProblem.TOO_LARGE, MAX_CHARS + 2)


def test_text_that_nests_or_counts_without_end_is_no_payload() -> None:
    for text in (
        "~j" + "[" * 100_000,
        "~j" + "9" * 100_000,
        '~j{"version":1,"bind":"x","base":1e400,"done":[]}',
        "~j\ud800",
    ):
        reading = read_kkm1(text, 5, IDENTITY)
        assert reading.problem in (PayloadProblem.BAD_BODY, PayloadProblem.UNKNOWN_VERSION)


def test_characters_are_counted_as_brokers_count_them() -> None:
    assert read_kkm1("~b\U0001f600", 5, IDENTITY).chars == 4


def test_a_watermark_goes_with_a_commit_that_has_nothing_above_base() -> None:
    state = CommitState(base=7, watermark=Watermark(oldest_ms=5, newest_done_ms=3))
    text = encode_commit(state, IDENTITY, limit_chars=4095).text
    # Without RANGES the payload does not tell its base: it holds for whatever it was committed with.
    assert read_kkm1(text, 8, IDENTITY).state == replace(state, base=8)


FILE = ROOT / "tests" / "cases" / "streams" / "parallel_consumer.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
WRITTEN = [case for case in CASES if case.get("written")]


def ranges(pairs: list[list[int]]) -> OffsetRanges:
    return OffsetRanges.of((start, end) for start, end in pairs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_string_means_what_the_client_means_by_it(case: dict[str, Any]) -> None:
    reading = read_metadata(case["text"], case["offset"])
    assert reading.dialect == case["dialect"]
    assert reading.encoding == case["encoding"]
    assert reading.state == CommitState(base=case["offset"], done=ranges(case["done"]))
    assert (reading.problem or "") == case.get("problem", "")
    assert case.get("reason", "") in reading.reason
    assert (reading.reason == "") == (not case.get("problem") and not case.get("reason"))
    assert reading.chars == case.get("chars", len(case["text"]))
    assert reading.is_compressed == (case["encoding"].endswith("Compressed") and not case.get("problem"))
    claimed = reading.claimed.done if reading.claimed else OffsetRanges()
    assert claimed == ranges(case.get("claimed", []))


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case["name"])
def test_the_vectors_are_written_byte_for_byte(case: dict[str, Any]) -> None:
    assert write_parallel_consumer(CommitState(base=case["offset"], done=ranges(case["done"]))) == case["text"]


def test_one_stuck_offset_leaves_one_pending() -> None:
    state = read_metadata("ZQAAAAEAAMNL", 5).state
    assert state.pending.ranges == ((5, 6),)
    assert (state.done.count, state.end) == (49_995, 50_001)


def test_a_map_counts_from_the_offset_it_was_committed_with() -> None:
    here, there = read_metadata("bAAK5gMA", 100).state, read_metadata("bAAK5gMA", 1_000).state
    assert [(a + 900, b + 900) for a, b in here.done] == list(there.done)


def test_nothing_done_is_no_metadata() -> None:
    assert write_parallel_consumer(CommitState(base=100)) == ""


def every(step: int, length: int, base: int = 100) -> CommitState:
    """One pending offset in every `step`."""
    done = OffsetRanges.of((base + at + 1, base + min(at + step, length)) for at in range(0, length, step))
    return CommitState(base=base, done=done)


def test_a_small_map_is_not_compressed() -> None:
    state = every(3, 800)
    text = write_parallel_consumer(state)
    assert text is not None
    assert read_metadata(text, 100).encoding == "BitSetV2"
    assert read_metadata(text, 100).state == state


@pytest.mark.parametrize(("step", "length"), [(2, 100_000), (1_000, 1_000_000), (7, 16_000)])
def test_a_large_map_is_compressed(step: int, length: int) -> None:
    state = every(step, length)
    text = write_parallel_consumer(state)
    assert text is not None
    reading = read_metadata(text, 100)
    assert reading.is_compressed
    assert reading.state == state


def test_a_compressed_map_does_not_declare_its_size_as_the_client_does_not_either() -> None:
    text = write_parallel_consumer(every(2, 100_000))
    assert text is not None
    frame = zstandard.get_frame_parameters(base64.b64decode(text)[1:])
    assert frame.content_size == zstandard.CONTENTSIZE_UNKNOWN


def test_a_map_of_more_than_the_limit_is_not_written() -> None:
    state = every(3, 800)
    text = write_parallel_consumer(state)
    assert text is not None
    assert write_parallel_consumer(state, limit_chars=len(text)) == text
    assert write_parallel_consumer(state, limit_chars=len(text) - 1) is None


def test_runs_that_no_field_holds_are_not_written() -> None:
    assert write_parallel_consumer(CommitState(base=0, done=OffsetRanges.of([(1, 2**31 + 1)]))) is None
    assert write_parallel_consumer(CommitState(base=0, done=OffsetRanges.of([(1, 2**31)]))) is not None


def test_a_long_map_is_written_as_runs_without_unrolling_it() -> None:
    state = CommitState(base=1, done=OffsetRanges.of([(2_000_000_000, 4_000_000_000)]))
    text = write_parallel_consumer(state)
    assert text is not None
    assert read_metadata(text, 1).state == state


def test_more_ranges_than_are_read_are_not_written() -> None:
    assert write_parallel_consumer(every(2, 2 * 131_073)) is None


@pytest.mark.parametrize("done", [((100, 105),), ((99, 103),), ((103, 105), (101, 102)), ((101, 101),)])
def test_a_done_set_that_is_not_above_its_base_is_never_written(done: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="do not lie above"):
        write_parallel_consumer(CommitState(base=100, done=OffsetRanges(done)))


CASES_KKM1_CASES: dict[str, Any] = json.loads((ROOT / "tests" / "cases" / "streams" / "kkm1.json").read_text())
IDENTITY_KKM1_CASES = CommitIdentity(
    **CASES_KKM1_CASES["identity"] | {"topic_id": bytes.fromhex(CASES_KKM1_CASES["identity"]["topic_id"])}
)


def state_of(facts: dict[str, Any]) -> CommitState:
    spill = facts.get("spill")
    return CommitState(
        base=facts["base"],
        done=OffsetRanges(tuple((start, end) for start, end in facts["done"])),
        watermark=Watermark(**facts["watermark"]) if "watermark" in facts else None,
        route=RouteMark(**facts["route"]) if "route" in facts else None,
        marks=tuple(Mark(**m | {"state": MarkState[m["state"].upper()]}) for m in facts.get("marks", [])),
        spill=Spill(**spill | {"digest": bytes.fromhex(spill["digest"])}) if spill else None,
        writer=Writer(**facts["writer"]) if "writer" in facts else None,
        replay=ReplayWindow(**facts["replay"]) if "replay" in facts else None,
        forgotten=facts.get("forgotten", 0),
    )


@pytest.mark.parametrize("case", CASES_KKM1_CASES["crc32c"], ids=lambda case: case["text"] or "nothing")
def test_the_checksum_is_castagnolis(case: dict[str, str]) -> None:
    assert f"{crc32c(case['text'].encode()):08x}" == case["crc"]


def test_a_checksum_can_be_continued() -> None:
    data = bytes(range(256)) * 3
    assert all(crc32c(data[at:], crc32c(data[:at])) == crc32c(data) for at in (0, 1, 5, 256, 768))


def test_the_identity_is_written_as_the_format_says() -> None:
    assert identity_bytes(IDENTITY_KKM1_CASES).hex() == CASES_KKM1_CASES["identity_bytes"]


@pytest.mark.parametrize("alphabet", ["b", "w", "j"])
@pytest.mark.parametrize("case", CASES_KKM1_CASES["cases"], ids=lambda case: case["name"])
def test_a_state_is_written_and_read_as_the_case_says(case: dict[str, Any], alphabet: str) -> None:
    state, text = state_of(case["state"]), case["texts"][alphabet]
    encoded = encode_commit(state, IDENTITY_KKM1_CASES, limit_chars=4095, alphabets=(alphabet,))
    assert encoded.text == text
    assert (encoded.alphabet, encoded.chars, encoded.written) == (alphabet, len(text), state)
    assert not encoded.is_lossy
    for stored in (text, f"{text}\0"):
        reading = read_kkm1(stored, state.base, IDENTITY_KKM1_CASES)
        assert (reading.problem, reading.reason, reading.state) == (None, "", state)
        assert (reading.alphabet, reading.is_bound, reading.chars) == (alphabet, True, len(stored))
        assert reading.is_lossy == bool(state.forgotten)
        assert alphabet == "j" or (reading.encoding, reading.raw_bytes) == (case["encoding"], len(case["hex"]) // 2)


@pytest.mark.parametrize("case", CASES_KKM1_CASES["cases"], ids=lambda case: case["name"])
def test_base64_text_is_that_of_the_bytes(case: dict[str, Any]) -> None:
    text = base64.urlsafe_b64encode(bytes.fromhex(case["hex"])).decode().rstrip("=")
    assert case["texts"]["b"] == f"~b{text}"


@pytest.mark.parametrize("case", CASES_KKM1_CASES["refused"], ids=lambda case: case["name"])
def test_what_cannot_be_relied_upon_leaves_the_done_set_empty(case: dict[str, Any]) -> None:
    reading = read_kkm1(case["text"], case["offset"], IDENTITY_KKM1_CASES)
    assert reading.problem is PayloadProblem(case["problem"])
    assert reading.reason
    assert reading.state == CommitState(base=case["offset"])


def test_base_advances_when_the_oldest_is_done_at_last() -> None:
    done = DoneSet(100)
    assert [done.mark(n) for n in (102, 101, 101)] == [True, True, False]
    assert (done.base, done.end, done.count) == (100, 103, 2)
    assert done.mark(100)
    assert (done.base, done.end, done.count, done.ranges()) == (103, 103, 0, OffsetRanges())


def test_what_lies_below_base_is_done_already() -> None:
    done = DoneSet(100)
    assert not done.mark(99)
    assert done.mark_range(0, 100) == 0
    assert 99 in done
    assert 100 not in done
    assert "99" not in done


def test_huge_ranges_stay_ranges() -> None:
    done = DoneSet(5)
    top = 2**63 - 1
    assert done.mark_range(6, top) == top - 6
    assert done.mark_range(0, top) == 1
    assert done.base == top
    assert done.reopen(7, top - 1) == top - 8
    assert done.base == 7
    assert done.ranges() == OffsetRanges(((top - 1, top),))
    assert done.pending() == OffsetRanges(((7, top - 1),))


def test_offsets_far_apart_cost_a_chunk_each() -> None:
    done = DoneSet(0)
    offsets = [n * 10**12 + 1 for n in range(1000)]
    assert all(done.mark(n) for n in reversed(offsets))
    assert done.count == 1000
    assert done.ranges() == OffsetRanges(tuple((n, n + 1) for n in offsets))


def test_a_window_below_base_can_be_opened_again_while_the_rest_stays_done() -> None:
    done = DoneSet(1000, OffsetRanges(((1001, 1010),)))
    assert done.reopen(300, 700) == 400
    assert done.base == 300
    assert done.ranges() == OffsetRanges(((700, 1000), (1001, 1010)))
    assert done.mark_range(300, 700) == 400
    assert done.base == 1000
    assert done.count == 9


def test_one_offset_can_be_unmarked() -> None:
    done = DoneSet(0, OffsetRanges(((1, 600),)))
    assert done.reopen(599, 600) == 1
    assert done.reopen(599, 600) == 0
    assert (done.end, done.count) == (599, 598)
    assert done.reopen(300, 301) == 1
    assert done.pending() == OffsetRanges(((0, 1), (300, 301)))


def test_no_base_is_negative() -> None:
    with pytest.raises(ValueError, match="-1"):
        DoneSet(-1)


def test_a_range_that_is_none_changes_nothing() -> None:
    done = DoneSet(10, OffsetRanges(((20, 30),)))
    assert [done.reopen(25, 25), done.reopen(-5, 3), done.mark_range(40, 40)] == [0, 0, 0]
    assert done.ranges() == OffsetRanges(((20, 30),))


def test_ranges_are_sorted_and_joined() -> None:
    found = OffsetRanges.of([(5, 9), (1, 3), (3, 4), (8, 12), (20, 20), (30, 29)])
    assert found.ranges == ((1, 4), (5, 12))
    assert (found.count, found.first, found.end, bool(found)) == (10, 1, 12, True)
    assert (OffsetRanges().count, OffsetRanges().first, OffsetRanges().end, bool(OffsetRanges())) == (
        0,
        None,
        None,
        False,
    )


def test_members_are_found_at_the_edges() -> None:
    found = OffsetRanges.of([(1, 4), (2**63 - 2, 2**63 - 1)])
    assert [n in found for n in (0, 1, 3, 4, 2**63 - 2, 2**63 - 1, -1)] == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert "1" not in found


def test_gaps_are_what_is_missing() -> None:
    assert OffsetRanges.of([(3, 5), (7, 8)]).gaps(0, 10).ranges == ((0, 3), (5, 7), (8, 10))
    assert OffsetRanges().gaps(4, 4).ranges == ()


def test_a_topic_id_is_read_as_kafka_prints_it() -> None:
    plain = bytes(range(16))
    assert topic_id_text(plain) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    for text in (topic_id_text(plain), plain.hex(), "AAECAwQFBgcICQoLDA0ODw"):
        assert topic_id_bytes(text) == plain
    # Base64url has dashes of its own.
    assert topic_id_bytes("--------------------__") == bytes.fromhex("fbefbe" * 5 + "ff")
    for text in (
        "",
        "abc",
        "x" * 22 + "!",
        "Ä" * 22,
        "00010203-0405-0607-0809-0a0b0c0d0e0",
        "!" * 22,
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
    ):
        with pytest.raises(UsageError):
            topic_id_bytes(text)
