"""Parts of rebalance: who takes over from whom, tolerances, sources, what a search tried, Ctrl-C."""

import signal
import time

import pytest

from kafkakit.cli.context import CliContext
from kafkakit.cli.search_watch import watching
from kafkakit.core.errors import TerminationRequested, UsageError
from kafkakit.core.selection import BrokerList
from kafkakit.topicmappr.decide.rebalance import pairs, smallest_tolerance
from kafkakit.topicmappr.decide.rebalance_goal import choose_sources
from kafkakit.topicmappr.decide.requests import GIB, RebalanceRequest

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: None}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1, 3), (2, 3), [(1, 2)]),
        ((1, 3), (2, 4), [(1, 2), (3, 4)]),
        ((1, 3), (4, 2), [(1, 4), (3, 2)]),  # each in the other's place of the list
        ((1, 3, 5), (5, 2, 4), [(1, 2), (3, 4)]),  # reordered: then by rack
        ((1, 5), (5, 4), [(1, 4)]),
        ((1, 3), (3, 1), []),
    ],
)
def test_who_takes_over_from_whom(
    before: tuple[int, ...], after: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert sorted(pairs(before, after, RACKS)) == sorted(expected)


def test_the_tolerance_is_the_least_whole_percent_that_fits_both_sides() -> None:
    mean = 200.0
    assert smallest_tolerance(mean, {1: 207, 2: 190}, [1], [2]) == 0.05
    assert smallest_tolerance(mean, {1: 211, 2: 190}, [1], [2]) == 0.06
    assert smallest_tolerance(mean, {1: 150, 2: 300}, [1], [2]) == 0.01  # the right way: no limit
    assert smallest_tolerance(mean, {1: 214}, [1], []) == 0.07
    assert smallest_tolerance(mean, {}, [], []) == 0.01
    assert smallest_tolerance(0.0, {1: 5}, [1], []) == 0.01


def request(**given: float) -> RebalanceRequest:
    return RebalanceRequest(brokers=BrokerList(ids=(1,)), topics=("t",), words={}, **given)  # type: ignore[arg-type]


def test_sources_by_each_threshold() -> None:
    free = {1: 100 * GIB, 2: 250 * GIB, 3: 300 * GIB, 4: 220 * GIB, 5: 90 * GIB}
    assert choose_sources(free, {5}, request(storage_threshold_gb=230)).brokers == (1, 4)
    assert choose_sources(free, {5}, request(storage_threshold=0)).brokers == (1, 4, 2, 3)
    assert choose_sources(free, {5}, request(storage_threshold=0.2)).brokers == (5, 1)  # new ones too, as in kafka-kit
    assert choose_sources(free, (), request(storage_threshold=0.9)).brokers == ()


def test_means_are_over_brokers_with_space_left() -> None:
    found = choose_sources({1: 0, 2: 2 * GIB, 3: 6 * GIB}, (), request())
    assert (found.mean, found.harmonic_mean) == (4 * GIB, 3 * GIB)
    assert choose_sources({1: 0}, (), request()).mean == 0.0


def test_numbers_that_are_none_are_refused() -> None:
    for words in ({"storage_threshold": float("nan")}, {"storage_threshold_gb": float("inf")}, {"tolerance": -0.1}):
        with pytest.raises(UsageError):
            request(**words)


@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminationRequested)]
)
def test_the_handlers_of_signals_are_put_back(
    first: signal.Signals, second: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with watching(CliContext()) as watch:
        watch.phase("plan 1")
        assert not watch.stopped()
        signal.raise_signal(first)
        assert watch.stopped()
        with pytest.raises(second):
            signal.raise_signal(first)
    assert {number: signal.getsignal(number) for number in earlier} == earlier
    assert capsys.readouterr().err.splitlines() == [
        "planning",
        "planning: plan 1",
        "stopping: the best plan found so far will be used; press Ctrl-C again to end at once",
    ]


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watching(CliContext()) as watch:
            signal.raise_signal(signal.SIGINT)
            assert not watch.stopped()
    finally:
        signal.signal(signal.SIGINT, earlier)


def test_a_search_ends_while_there_is_time_for_its_report() -> None:
    cli = CliContext()
    cli.take("timeout", "1h", "option")
    with watching(cli) as watch:
        assert not watch.stopped()
    cli = CliContext()
    cli.take("timeout", "0.001s", "option")
    with watching(cli) as watch:
        time.sleep(0.002)
        assert watch.stopped()
