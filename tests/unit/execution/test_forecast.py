"""How sure a forecast is: an interval where rates are assumed or a run is short, a point where a throttle is known."""

from dataclasses import replace

import pytest

from kafkakit.execution.decide.schedule.forecast import (
    eta_line,
    forecast_of,
    is_free,
    measured_link,
    speeds_of,
    suggested_throttle,
)
from kafkakit.execution.decide.schedule.work import BrokerRates, DirTask, PartitionTask, Speeds
from tests.unit.execution.test_schedule import GB, NO_DELAY, RATES, disk, plan, task

MB = 10**6
FREE = BrokerRates()
DISKS = [disk(b, 10 * GB) for b in (1, 2, 3)]
COPY = [task(0, (1, 2), (3, 2))]


def test_a_throttle_gives_a_point() -> None:
    found = plan(COPY, DISKS)
    forecast = forecast_of(found, RATES, Speeds())
    assert (forecast.least_s, forecast.most_s, forecast.basis) == (found.makespan_s, found.makespan_s, ())
    assert (
        eta_line(found, forecast)
        == eta_line(found)
        == ("ETA 1 min 40 s (1 min 40 s is the theoretical minimum), bottleneck broker 3 into: 9.31 GiB at 100 MB/s")
    )


def test_a_rate_that_is_assumed_is_named_and_gives_an_interval() -> None:
    found = plan(COPY, DISKS, rates=FREE)
    forecast = forecast_of(found, FREE, Speeds())
    assert forecast.basis == ("assumed, since no throttle limits it: 200 MB/s a broker",)
    assert (forecast.least_s, forecast.most_s) == (12.5, 210)  # 50 s at 200 MB/s
    assert eta_line(found, forecast) == ("ETA 12 s to 3 min 30 s, bottleneck broker 3 into: 9.31 GiB at 200 MB/s")


def test_what_earlier_copies_reached_narrows_the_interval() -> None:
    forecast = forecast_of(plan(COPY, DISKS, rates=FREE), FREE, Speeds(is_measured=True))
    assert forecast.basis == ("measured, since no throttle limits it: 200 MB/s a broker",)
    assert forecast.least_s == pytest.approx(50 / 1.5)
    assert forecast.most_s == 85


def test_a_throttle_on_one_end_of_each_copy_is_enough() -> None:
    for rates in (BrokerRates(into=100 * MB), BrokerRates(out=100 * MB), BrokerRates(into_of={3: 100 * MB})):
        found = plan(COPY, DISKS, rates=rates)
        assert forecast_of(found, rates, Speeds()).basis == ()
        assert not is_free(found.steps, rates)
    other = BrokerRates(into_of={2: 100 * MB})
    assert is_free(plan(COPY, DISKS, rates=other).steps, other)


def test_a_short_run_is_an_interval_under_a_throttle_too() -> None:
    found = plan([task(0, (1, 2), (3, 2), GB)], DISKS)  # 10 s
    forecast = forecast_of(found, RATES, Speeds())
    assert (forecast.least_s, forecast.most_s, forecast.basis) == (2.5, 20, ())
    # With the burst of a throttle the minimum of 10 s does not hold for short runs, so it is not told.
    assert eta_line(found, forecast) == "ETA 2 s to 20 s, bottleneck broker 3 into: 954 MiB at 100 MB/s"


def test_copies_inside_a_broker_are_assumed_on_their_own() -> None:
    inside = DirTask(key=COPY[0].key, broker=1, source_dir="/a", target_dir="/b", size_bytes=10 * GB)
    disks = [disk(1, 20 * GB), disk(1, 0, log_dir="/b")]
    free = BrokerRates(into=100 * MB, out=100 * MB)
    found = plan([], disks, dir_tasks=(inside,), rates=free)
    basis = ("assumed, since no throttle limits it: 200 MB/s inside a broker",)
    assert forecast_of(found, free, Speeds()).basis == basis
    assert not is_free(found.steps, free)
    assert forecast_of(plan([], disks, dir_tasks=(inside,)), RATES, Speeds()).basis == ()


def test_what_copies_nothing_has_no_interval() -> None:
    found = plan([task(0, (1, 2), (2, 1))], DISKS, rates=FREE)
    assert not forecast_of(found, FREE, Speeds()).is_interval


def test_speeds_are_measured_by_runs_or_by_what_logs_take_in_now() -> None:
    quiet = [disk(1, 0), replace(disk(2, 0), growth_bytes_per_s=3e6)]
    assert speeds_of(0.9, quiet, None) == Speeds(efficiency=0.9)
    assert speeds_of(0.9, quiet, 7e7) == Speeds(line_bytes_per_s=7e7, is_measured=True, efficiency=0.9)
    busy = [replace(disk(1, 0, log_dir=d), growth_bytes_per_s=2e8) for d in ("/a", "/b")]
    assert speeds_of(0.9, busy, None) == Speeds(line_bytes_per_s=4e8, is_measured=True, efficiency=0.9)


def test_a_suggestion_leaves_room_for_clients_and_catches_up_with_what_logs_take_in() -> None:
    assert suggested_throttle(COPY, NO_DELAY, Speeds()) == 50 * MB
    assert suggested_throttle(COPY, NO_DELAY, Speeds(line_bytes_per_s=8e6)) == 10 * MB
    busy: list[PartitionTask] = [replace(COPY[0], ingest_bytes_per_s=100e6)]
    assert suggested_throttle(busy, NO_DELAY, Speeds(efficiency=0.8)) == 140 * MB


def test_only_copies_without_throttle_that_took_a_while_measure_a_link() -> None:
    found = plan(COPY, DISKS, rates=FREE)
    assert measured_link(found, FREE, 100) == 100 * MB
    assert measured_link(found, FREE, 1) is None
    assert measured_link(found, RATES, 100) is None
    assert measured_link(plan([task(0, (1, 2), (3, 2), MB)], DISKS, rates=FREE), FREE, 100) is None
