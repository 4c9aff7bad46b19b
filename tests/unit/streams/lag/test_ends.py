import numpy as np

from kafkakit.streams.lag.decide.measure.ends import MAX_TOOK_MS, NONE, SAMPLES, EndSamples, SampleBracket


def record(ends: EndSamples, slot: int, at: int, end: int, *, took: int = 10, start: int = 0) -> None:
    one = [np.array([v], dtype=np.int64) for v in (slot, at, at + took, end, end, start)]
    ends.record(one[0], before_ms=one[1], after_ms=one[2], end=one[3], stable=one[4], start=one[5])


def bracket(ends: EndSamples, slot: int, offset: int) -> SampleBracket:
    return ends.bracket(np.array([slot], dtype=np.int64), np.array([offset], dtype=np.int64))


def test_an_offset_lies_between_the_samples_around_it() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    for at, end in ((1_000, 10), (2_000, 20), (3_000, 30)):
        record(ends, slot, at, end)
    found = bracket(ends, slot, 20)
    assert (found.low_before_ms[0], found.low_end[0]) == (2_000, 20)
    assert (found.high_after_ms[0], found.high_end[0]) == (3_010, 30)
    assert bracket(ends, slot, 9).low_before_ms[0] == NONE
    assert bracket(ends, slot, 30).high_after_ms[0] == NONE


def test_old_samples_stay_at_growing_distances() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    day = 86_400_000
    for at in range(0, day, 10_000):
        record(ends, slot, at, at)
    now = day - 10_000
    for age in (60_000, 600_000, 3_600_000, 6 * 3_600_000):
        found = bracket(ends, slot, now - age)
        width = int(found.high_after_ms[0] - found.low_before_ms[0])
        assert found.low_before_ms[0] >= 0
        assert width <= age, (age, width)


def test_samples_of_an_idle_partition_keep_the_moments_of_change() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    record(ends, slot, 0, 5)
    for turn in range(1, 5 * SAMPLES):
        record(ends, slot, turn * 1_000, 7)
    found = bracket(ends, slot, 6)
    assert (found.low_before_ms[0], found.high_after_ms[0]) == (0, 1_010)


def test_nothing_survives_a_topic_made_anew() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    assert not ends.see_topic("t", b"1" * 16, 500)
    record(ends, slot, 1_000, 10)
    ends.note_effective_end(slot, 9, 10, is_data=True)
    assert not ends.see_topic("t", b"1" * 16, 1_500)
    before = int(ends.generation[slot])
    assert ends.see_topic("t", b"2" * 16, 2_000)
    assert ends.end[slot] == ends.before_ms[slot] == ends.effective[slot] == NONE
    assert ends.generation[slot] == before + 1
    assert bracket(ends, slot, 5).high_after_ms[0] == NONE


def test_an_end_or_start_that_went_back_clears_what_was() -> None:
    for first, second in (((10, 0), (9, 0)), ((10, 5), (11, 4))):
        ends = EndSamples()
        slot = ends.slot("t", 0)
        record(ends, slot, 1_000, first[0], start=first[1])
        record(ends, slot, 2_000, second[0], start=second[1])
        assert ends.end[slot] == second[0]
        assert bracket(ends, slot, 0).high_after_ms[0] == 2_010
        assert ends.generation[slot] == 1


def test_late_and_slow_answers_are_ignored() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    record(ends, slot, 2_000, 10)
    record(ends, slot, 1_000, 8)
    record(ends, slot, 3_000, 12, took=MAX_TOOK_MS + 1)
    record(ends, slot, 3_000, -1)
    assert ends.end[slot] == 10


def test_an_effective_end_holds_for_its_end_alone() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    rows = np.array([slot], dtype=np.int64)
    record(ends, slot, 1_000, 10)
    ends.note_effective_end(slot, 8, 10)
    assert ends.effective_end(rows).tolist() == [8]
    record(ends, slot, 2_000, 11)
    assert ends.effective_end(rows).tolist() == [NONE]


def test_partitions_beyond_the_limit_have_no_slot() -> None:
    ends = EndSamples(max_partitions=2)
    assert [ends.slot("t", p) for p in range(4)] == [0, 1, NONE, NONE]
    assert ends.slot("t", 1) == 1


def test_the_movement_of_the_start_is_measured_over_ten_minutes_and_more() -> None:
    ends = EndSamples()
    slot = ends.slot("t", 0)
    rows = np.array([slot], dtype=np.int64)
    for minute in range(31):
        record(ends, slot, minute * 60_000, 10_000, start=minute * 6, took=0)
    moved, span = ends.start_movement(rows)
    assert 600_000 <= span[0] <= 1_200_000
    assert moved[0] * 10_000 == span[0]
