"""The picture of a done set: every offset in its cell, marks never lost, and readable without colour."""

import pytest

from kafkakit.streams.commits.report.commits import ASCII, BLOCKS, MAX_ROWS, draw
from kafkakit.streams.model.commit import CommitState, Mark, MarkState, OffsetRanges


def state(base: int, *done: tuple[int, int], marks: tuple[Mark, ...] = ()) -> CommitState:
    return CommitState(base=base, done=OffsetRanges(done), marks=marks)


def test_nothing_above_the_base_is_no_picture() -> None:
    assert draw(state(5), width=80) is None


def test_one_offset_each_in_rows_that_begin_with_their_first_offset() -> None:
    picture = draw(state(98, (99, 120)), width=20, style=ASCII)
    assert picture is not None
    assert picture.rows == ("   98 .############", "  111 #########")
    assert picture.legend == "# done  . pending  (one offset each)"


def test_a_hole_among_many_is_seen_at_any_scale() -> None:
    picture = draw(state(0, (1, 500_000), (500_001, 1_000_000)), width=80, style=BLOCKS)
    assert picture is not None
    assert len(picture.rows) == 1
    cells = picture.rows[0].split()[1]
    assert cells == "▓" + "█" * 24 + "▓" + "█" * 24
    assert picture.legend == "█ done  ▓ partly done  (20,000 offsets each)"


def test_a_mark_is_seen_at_any_scale_and_rejected_goes_first() -> None:
    marks = (
        Mark(start=10, end=11, state=MarkState.RETRYING, count=2),
        Mark(start=12, end=13, state=MarkState.REJECTED),
        Mark(start=60_000, end=60_001, state=MarkState.DEFERRED),
        Mark(start=90_000, end=90_001, state=MarkState.SKIPPED),
    )
    picture = draw(state(0, (12, 13), (90_000, 100_000), marks=marks), width=30, style=ASCII)
    assert picture is not None
    cells = picture.rows[0].split()[1]
    assert (cells[0], cells.count("d"), cells.count("s"), cells.count("X")) == ("X", 1, 1, 1)
    assert "X rejected beside pending" in picture.legend


def test_marks_above_the_highest_done_offset_are_drawn_too() -> None:
    picture = draw(state(7, marks=(Mark(start=7, end=9, state=MarkState.RETRYING, count=1),)), width=40, style=ASCII)
    assert picture is not None
    assert picture.rows == ("  9 rr".replace("9", "7", 1),)


def test_what_a_coarse_payload_calls_pending_is_drawn_as_unsure() -> None:
    picture = draw(state(0, (2, 4)), width=40, style=ASCII, lossy=True)
    assert picture is not None
    assert picture.rows[0].endswith("??##")
    assert "? pending, or done and forgotten" in picture.legend


@pytest.mark.parametrize("width", [20, 21, 40, 80, 200])
@pytest.mark.parametrize("span", [1, 7, 100, 801, 12_345, 10**9, 2**62])
def test_no_row_is_wider_than_the_terminal(width: int, span: int) -> None:
    picture = draw(state(3, (4, 4 + span)), width=width, style=ASCII)
    assert picture is not None
    assert max(map(len, picture.rows)) <= max(width, 12 + len(str(span + 4)))
    assert len(picture.rows) <= MAX_ROWS


def test_what_cannot_be_told_apart_without_colour_is_not_drawn() -> None:
    for style in (ASCII, BLOCKS):
        assert len({style.done, style.pending, style.unsure, style.half, *"xrds"}) == 8
    assert all(char.isascii() for char in (ASCII.done, ASCII.most, ASCII.half, ASCII.little, ASCII.pending))
