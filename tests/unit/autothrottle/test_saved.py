"""What a law remembers comes back from the control store as it was."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.autothrottle.decide.law import Memory, RateMemory, Side
from kafkakit.autothrottle.decide.pacer import (
    LIMIT_BYTES,
    SavedTick,
    decode_tick,
    encode_tick,
    memory_of,
    memory_rest,
    memory_rows,
)

NUMBER = st.integers(0, 2**50)
RATES = st.dictionaries(
    st.tuples(st.integers(0, 9000), st.sampled_from(Side)),
    st.builds(RateMemory, rate=NUMBER, changed_ms=NUMBER, calm_since_ms=NUMBER, learnt=st.floats(0, 1e12)),
    max_size=20,
)


def saved(memory: Memory, **more: object) -> SavedTick:
    tick = SavedTick(
        at=datetime(2026, 1, 1, tzinfo=UTC),
        by="op on h",
        law="slo",
        token=3,
        learnt=memory_rest(memory),
        memory=memory_rows(memory),
        **more,  # type: ignore[arg-type]
    )
    return decode_tick(encode_tick(tick), "it")


@given(st.builds(Memory, rates=RATES, failures=st.integers(0, 9)))
def test_a_memory_comes_back(memory: Memory) -> None:
    assert memory_of(saved(memory)) == memory


def test_what_another_version_saved_is_forgotten_and_not_an_error() -> None:
    tick = saved(Memory())
    object.__setattr__(tick, "memory", ([1, "in", "x"],))
    assert memory_of(tick) == Memory()


def test_a_document_stays_below_the_limit_of_the_store() -> None:
    memory = Memory(rates={(1, Side.INTO): RateMemory(rate=1, changed_ms=2, calm_since_ms=3)})
    found = saved(memory, reasons=tuple((b, "in", 1, "floor", "x" * 100) for b in range(1000)))
    assert found.reasons == ()
    assert memory_of(found) == memory
    huge = Memory(rates={(b, Side.INTO): RateMemory(rate=1, changed_ms=2, calm_since_ms=3) for b in range(9000)})
    assert memory_of(saved(huge)).rates == {}
    assert LIMIT_BYTES < 65536
