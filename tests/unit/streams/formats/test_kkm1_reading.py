"""Readers of KKM1: whose payload it is, what newer writers may add, and sections that are ignored for a reason."""

from dataclasses import replace

import pytest

from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Problem,
    RouteMark,
    Spill,
    Watermark,
)
from kafkakit.streams.model.kkm1.decode import Flag, OpenedPayload, open_text, read_kkm1, seal
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.kkm1.text import MAX_CHARS, Alphabet, to_text, uvarint

IDENTITY = CommitIdentity(cluster_id="c-1", topic_id=bytes(range(16)), partition=0, group="g")
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
        assert (reading.problem, reading.is_bound, reading.claimed) == (Problem.FOREIGN, False, state)
        assert reading.state == CommitState(base=100)
        opened = open_text(text)
        assert isinstance(opened, OpenedPayload)
        assert [opened.is_bound_to(one) for one in (IDENTITY, other)] == [False, True]


def test_a_payload_under_another_offset_is_claimed_and_not_used() -> None:
    state = CommitState(base=100, done=DONE)
    reading = read_kkm1(encode_commit(state, IDENTITY, limit_chars=4095).text, 104, IDENTITY)
    assert (reading.problem, reading.is_bound, reading.claimed) == (Problem.BASE_MISMATCH, True, state)
    assert "100" in reading.reason
    assert "104" in reading.reason


def test_without_an_identity_nothing_is_proven() -> None:
    text = encode_commit(CommitState(base=100, done=DONE), IDENTITY, limit_chars=4095).text
    reading = read_kkm1(text, 100, None)
    assert (reading.problem, reading.is_bound, reading.state.done) == (None, None, DONE)


def test_an_even_section_of_a_newer_writer_is_skipped_and_an_odd_one_is_not() -> None:
    newer = RANGES + section(40, b"whatever")
    assert read_kkm1(sealed(newer), 100, IDENTITY).state == CommitState(base=100, done=DONE)
    assert read_kkm1(sealed(RANGES + section(41, b"")), 100, IDENTITY).problem is Problem.UNKNOWN_SECTION


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
    assert read_kkm1(text, 100, IDENTITY).problem is Problem.BAD_BODY


def test_a_huge_text_is_refused_before_it_is_read() -> None:
    for letter in "bwj":
        reading = read_kkm1(f"~{letter}" + "A" * MAX_CHARS, 5, IDENTITY)
        assert (reading.problem, reading.chars) == (Problem.TOO_LARGE, MAX_CHARS + 2)


def test_text_that_nests_or_counts_without_end_is_no_payload() -> None:
    for text in (
        "~j" + "[" * 100_000,
        "~j" + "9" * 100_000,
        '~j{"version":1,"bind":"x","base":1e400,"done":[]}',
        "~j\ud800",
    ):
        reading = read_kkm1(text, 5, IDENTITY)
        assert reading.problem in (Problem.BAD_BODY, Problem.UNKNOWN_VERSION)


def test_characters_are_counted_as_brokers_count_them() -> None:
    assert read_kkm1("~b\U0001f600", 5, IDENTITY).chars == 4


def test_a_watermark_goes_with_a_commit_that_has_nothing_above_base() -> None:
    state = CommitState(base=7, watermark=Watermark(oldest_ms=5, newest_done_ms=3))
    text = encode_commit(state, IDENTITY, limit_chars=4095).text
    # Without RANGES the payload does not tell its base: it holds for whatever it was committed with.
    assert read_kkm1(text, 8, IDENTITY).state == replace(state, base=8)
