"""kafka-kit's law: its table, and the errors that are mended."""

import pytest

from kafkakit.autothrottle.decide.law import HeadroomSettings, Memory, RateMemory, Side, headroom, headroom_law
from kafkakit.autothrottle.decide.measurements import BrokerSeen, Flow, Load, Observed

MB = 1_000_000
LAW = headroom_law(HeadroomSettings(capacity=100 * MB))
FLOW = Flow(source=1, destination=2, partitions=1, left_bytes=MB)


@pytest.mark.parametrize(
    ("total", "throttle", "leader", "follower"),
    [(70, 0, 24, 18), (80, 70, 72, 54), (110, 70, 40, 30), (200, 70, 10, 10)],
)
def test_the_table_of_kafka_kit_holds(total: float, throttle: float, leader: float, follower: float) -> None:
    for percent, rate in ((80, leader), (60, follower)):
        assert headroom(Load(total=total), 100, throttle, percent, 10) == pytest.approx(rate)


def test_what_copies_did_not_use_of_their_throttle_is_client_traffic() -> None:
    assert headroom(Load(total=80, moved=20), 100, 70, 100, 10) == 40  # kafka-kit: 90, on top of 60 of clients


def look(at_ms: int, out: float | None, into: float | None) -> Observed:
    seen = {
        1: BrokerSeen(broker=1, out=Load(total=out, moved=0 if out else None)),
        2: BrokerSeen(broker=2, into=Load(total=into, moved=0 if into else None)),
    }
    return Observed(at_ms=at_ms, measured_ms=at_ms, brokers=seen, flows=(FLOW,))


def test_a_broker_without_metrics_keeps_its_rate_for_a_while_and_stops_no_other() -> None:
    first = LAW(look(0, 40 * MB, 60 * MB), Memory())
    assert first.rates is not None
    assert (first.rates.out_of, first.rates.into_of) == ({1: 54 * MB}, {2: 36 * MB})
    second = LAW(look(180_000, 10 * MB, None), first.memory)
    assert second.rates is not None
    assert (second.rates.out_of, second.rates.into_of) == ({1: 81 * MB}, {2: 36 * MB})
    assert "broker 2" in second.warnings[0]
    third = LAW(look(540_000, 10 * MB, None), second.memory)
    assert third.rates is not None
    assert third.rates.into_of == {2: 10 * MB}


def test_without_any_metrics_rates_stay_once_and_then_fall_to_the_minimum() -> None:
    first = LAW(look(0, 40 * MB, 60 * MB), Memory())
    second = LAW(look(180_000, None, None), first.memory)
    assert (second.rates, second.memory.failures) == (None, 1)
    third = LAW(look(360_000, None, None), second.memory)
    assert third.rates is not None
    assert (third.rates.out_of, third.rates.into_of) == ({1: 10 * MB}, {2: 10 * MB})
    assert LAW(look(540_000, 40 * MB, 60 * MB), third.memory).memory.failures == 0


def test_a_small_change_is_not_written() -> None:
    first = LAW(look(0, 40 * MB, 60 * MB), Memory())
    again = LAW(look(180_000, 42 * MB, 58 * MB), first.memory)
    assert again.rates is None
    assert again.memory.rates[1, Side.OUT] == RateMemory(
        rate=54 * MB, changed_ms=0, calm_since_ms=180_000, seen_ms=180_000
    )
