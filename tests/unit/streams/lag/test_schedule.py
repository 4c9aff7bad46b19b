"""When things are due, and the steps of the wall clock."""

from datetime import timedelta

from kafkakit.streams.lag.act.monitor import Schedule, WallClockSteps
from tests.rigs.lag import SteppingClock


def test_what_is_new_is_due_and_then_after_its_interval() -> None:
    clock = SteppingClock()
    schedule = Schedule(clock)
    assert schedule.is_due("ends", 5)
    assert not schedule.is_due("ends", 5)
    assert schedule.is_due("facts", 60)
    clock.advance(5)
    assert schedule.is_due("ends", 5)
    assert not schedule.is_due("facts", 60)


def test_a_time_can_be_set_and_only_brought_forward() -> None:
    clock = SteppingClock()
    schedule = Schedule(clock)
    schedule.set_due("summary", 60)
    schedule.bring_forward("summary", 90)
    clock.advance(59)
    assert not schedule.is_due("summary", 60)
    schedule.bring_forward("summary", 0.5)
    clock.advance(0.5)
    assert schedule.is_due("summary", 60)
    schedule.set_due("summary", 0)
    assert schedule.is_due("summary", 60)


def test_a_wall_clock_that_is_set_is_noticed_once() -> None:
    clock = SteppingClock()
    steps = WallClockSteps(clock)
    clock.advance(3600)
    assert not steps.was_set()
    clock.shift = timedelta(seconds=-30)
    assert steps.was_set()
    assert not steps.was_set()
    clock.shift = timedelta(seconds=-29.5)
    assert not steps.was_set()
    assert steps.count == 1
