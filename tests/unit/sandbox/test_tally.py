"""Counting records in and out."""

from kafkakit.sandbox.decide.workload import tally


def test_nothing_lost_although_read_twice() -> None:
    counted = tally([1, 2, 3], [1, 2, 2, 3])
    assert counted.is_whole
    assert (counted.acknowledged, counted.read, counted.repeated) == (3, 4, 1)


def test_what_was_acknowledged_and_never_read_is_lost() -> None:
    assert tally([1, 2, 3], [3, 1]).lost == (2,)
    assert not tally([1], []).is_whole
    assert tally([], [7]).is_whole
