"""A `DoneSet` is what a plain set of offsets is, whatever is marked and opened again in whatever order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.streams.model.commit import OffsetRanges
from kafkakit.streams.model.done_set import DoneSet

# Around the edges of chunks of 256, and wide enough for whole chunks to be full.
OFFSETS = st.one_of(st.integers(0, 40), st.integers(240, 270), st.integers(500, 530), st.integers(0, 2200))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("mark"), OFFSETS, st.just(1)),
        st.tuples(st.just("mark"), OFFSETS, st.sampled_from([2, 12, 256, 300, 1100])),
        st.tuples(st.just("range"), OFFSETS, st.sampled_from([0, 1, 17, 256, 511, 1500])),
        st.tuples(st.just("reopen"), OFFSETS, st.sampled_from([0, 1, 17, 256, 511, 1500])),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Plain:
    """The same with a set of integers: everything below `floor` is done."""

    def __init__(self, base: int) -> None:
        self.done = set(range(base))

    @property
    def base(self) -> int:
        return next(n for n in range(10_000) if n not in self.done)


@settings(max_examples=250, deadline=None)
@given(base=OFFSETS, steps=STEPS)
def test_it_is_what_a_plain_set_is(base: int, steps: list[tuple[str, int, int]]) -> None:
    ours, plain = DoneSet(base), Plain(base)
    for verb, offset, length in steps:
        span = set(range(offset, offset + length))
        if verb == "mark":
            # One by one, upwards and downwards by turns.
            for one in sorted(span, reverse=length % 2 == 0):
                assert ours.mark(one) == (one not in plain.done)
                plain.done.add(one)
        elif verb == "range":
            assert ours.mark_range(offset, offset + length) == len(span - plain.done)
            plain.done |= span
        elif verb == "reopen":
            assert ours.reopen(offset, offset + length) == len(span & plain.done)
            plain.done -= span
        else:
            assert ours.base == plain.base
    agrees(ours, plain)


def agrees(ours: DoneSet, plain: Plain) -> None:
    base, top = plain.base, max(plain.done, default=-1)
    above = {n for n in plain.done if n > base}
    assert ours.base == base
    assert ours.end == max(base, top + 1)
    assert ours.count == len(above)
    found = ours.ranges()
    assert found == OffsetRanges.of((n, n + 1) for n in above)
    assert {n for start, end in ours.pending() for n in range(start, end)} == set(range(base, ours.end)) - above
    assert all((n in ours) == (n in plain.done) for n in range(0, 3600, 7))
    assert DoneSet(base, found).ranges() == found
