"""`DoneSet`: the cases that a random test hardly meets, and huge ranges that must stay ranges."""

import pytest

from kafkakit.streams.model.commit import OffsetRanges
from kafkakit.streams.model.done_set import DoneSet


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
