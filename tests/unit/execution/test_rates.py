"""Rates as they are asked for: the grammar of exceptions, what holds after a change, and the words for it."""

import json

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.execution.decide.schedule.work import (
    Rates,
    is_unlimited,
    lifting_options,
    parse_broker_rate,
    rate_words,
    rates_from_data,
    rates_to_data,
    read_request,
    require_known,
)

MB = 1_000_000


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("3:10MB", (3, 10 * MB, 10 * MB)),
        ("3:in=10MB", (3, 10 * MB, None)),
        ("3:out=500kB", (3, None, 500_000)),
        ("3:in=10MB,out=40MB", (3, 10 * MB, 40 * MB)),
        (" 3 : OUT = 40MB , in = 1k ", (3, 1000, 40 * MB)),
    ],
)
def test_exceptions_are_read(text: str, read: tuple[int, int | None, int | None]) -> None:
    assert parse_broker_rate(text) == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no broker"),
        ("3", "names no broker"),
        ("x:10MB", "names no broker"),
        ("-3:10MB", "names no broker"),
        ("99999999999:10MB", "names no broker"),
        ("2147483648:10MB", "names no broker"),
        ("3:", "is not a rate"),
        ("3:fast", "is not a rate"),
        ("3:0", "below 1 byte/s"),
        ("3:up=10MB", "'up' is neither in nor out"),
        ("3:in=10MB,", "'' is neither in nor out"),
        ("3:in=1B,in=2B", "two rates for in"),
        ("3:in=none", "cannot be without a limit"),
        ("3:in=9223373T", "above what Kafka can hold"),
    ],
)
def test_what_is_no_exception_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="--throttle-broker") as caught:
        parse_broker_rate(text)
    assert words in caught.value.message
    assert caught.value.hint


def test_two_rates_for_one_direction_are_refused() -> None:
    with pytest.raises(UsageError, match="broker 3 two rates for out"):
        read_request(None, ["3:10MB", "3:out=4MB"], None)
    assert read_request(None, ["3:in=1MB", "3:out=4MB"], None).out_of == {3: 4 * MB}


def test_nothing_asked_for_keeps_everything() -> None:
    earlier = Rates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    requested = read_request(None, [], None)
    assert requested.is_empty
    assert requested.over(earlier) == earlier
    assert read_request("same", [], None).over(earlier) == earlier


def test_a_rate_for_all_drops_exceptions_and_leaves_log_dirs_alone() -> None:
    earlier = Rates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    assert read_request("10B", [], None).over(earlier) == Rates(into=10, out=10, inside=3)
    assert read_request("none", [], None).over(earlier) == Rates(inside=3)
    assert read_request("none", [], "none").over(earlier) == Rates()
    assert is_unlimited(Rates())
    assert not is_unlimited(Rates(inside=3))
    assert not is_unlimited(Rates(out_of={1: 1}))


def test_an_exception_changes_its_broker_and_direction_alone() -> None:
    earlier = Rates(into=1, out=2, inside=3, into_of={4: 5}, out_of={6: 7})
    after = read_request(None, ["4:in=50B", "8:9B"], "30B").over(earlier)
    assert after == Rates(into=1, out=2, inside=30, into_of={4: 50, 8: 9}, out_of={6: 7, 8: 9})


def test_data_gives_back_the_rates_and_refuses_nonsense() -> None:
    rates = Rates(into=1, out=None, inside=3, into_of={4: 5, 30: 1}, out_of={6: 7})
    text = json.dumps(rates_to_data(rates))
    assert rates_from_data(json.loads(text)) == rates
    good = rates_to_data(Rates())
    for bad in (True, 0, -1, 1.5, "1", [1], 2**63):
        for changed in ({"into": bad}, {"into_of": {"1": bad}}):
            with pytest.raises((ValueError, TypeError)):
                rates_from_data({**good, **changed})
    for name in ("x", "-1", "", "1" * 11):
        with pytest.raises(ValueError):
            rates_from_data({**good, "out_of": {name: 1}})
    with pytest.raises(KeyError):
        rates_from_data({"into": 1})


def test_options_lift_just_what_is_set() -> None:
    assert rate_words(Rates(inside=5 * MB)) == "between log dirs 5 MB/s"
    assert lifting_options(Rates(inside=5 * MB)) == ("--throttle-dirs none",)
    assert lifting_options(Rates(into_of={3: MB})) == ("--throttle none",)
    assert lifting_options(Rates(into=MB, out=MB, inside=MB)) == ("--throttle none", "--throttle-dirs none")
    assert lifting_options(Rates()) == ()


def test_words() -> None:
    assert rate_words(Rates()) == "none"
    assert rate_words(Rates(into=20 * MB, out=20 * MB)) == "20 MB/s per broker"
    assert rate_words(Rates(into=20 * MB)) == "in 20 MB/s and out without limit per broker"
    assert rate_words(Rates(inside=5 * MB, into_of={3: 10 * MB}, out_of={3: 40 * MB})) == (
        "broker 3: in 10 MB/s, out 40 MB/s; between log dirs 5 MB/s"
    )
    assert rate_words(Rates(out_of=dict.fromkeys(range(10), MB))).endswith("2 more brokers with rates of their own")


def test_brokers_that_the_cluster_does_not_have_are_refused() -> None:
    requested = read_request(None, ["3:1MB", "9:in=1MB", "7:out=1MB"], None)
    require_known(requested, [3, 7, 9])
    with pytest.raises(UsageError, match="broker 7, 9 is not in the cluster"):
        require_known(requested, [3, 4])
