"""Operations on `OffsetRanges` are those of sets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.streams.model.commit import OffsetRanges

SETS = st.frozensets(st.integers(0, 40), max_size=30)


def ranges(offsets: frozenset[int]) -> OffsetRanges:
    return OffsetRanges.of((n, n + 1) for n in offsets)


@settings(max_examples=100)
@given(one=SETS, other=SETS, start=st.integers(0, 41), end=st.integers(0, 41))
def test_operations_are_those_of_sets(one: frozenset[int], other: frozenset[int], start: int, end: int) -> None:
    a, b, span = ranges(one), ranges(other), frozenset(range(start, end))
    assert a.union(b) == ranges(one | other)
    assert a.minus(b) == ranges(one - other)
    assert a.intersection(b) == ranges(one & other)
    assert a.within(start, end) == ranges(one & span)
    assert a.gaps(start, end) == ranges(span - one)
    assert a.is_subset_of(b) == (one <= other)
    assert a.count == len(one)
    assert all((n in a) == (n in one) for n in range(42))
