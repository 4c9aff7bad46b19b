"""A metrics source in other units than bytes per second: one line says so, and rates are the minimum."""

import pytest

from kafkakit.autothrottle.decide.law import Decision, HeadroomSettings, Law, Memory, Side, headroom_law
from kafkakit.autothrottle.decide.measurements import BrokerSeen, Flow, Load, Observed
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law

MB = 1_000_000
WINDOW_S = 20
FLOW = Flow(source=1, destination=2, partitions=1, left_bytes=10**10)
LAWS = pytest.mark.parametrize(
    "law",
    [slo_law(SloSettings(capacity=100 * MB)), headroom_law(HeadroomSettings(capacity=100 * MB, min_rate=MB))],
    ids=["slo", "headroom"],
)
EITHER = pytest.mark.parametrize("copies_too", [True, False], ids=["copies of the source", "copies of log dirs"])


def look(at_s: float, unit: float, *, clients: float = 30, copied: float = 20, copies_too: bool = False) -> Observed:
    """Brokers 1 and 2 with this traffic in MB/s, which the source multiplies by `unit`; log dirs do not."""
    moved = copied * unit if copies_too else copied
    load = Load(total=(clients + copied) * unit * MB, moved=moved * MB, copied=copied * MB)
    at_ms = round(at_s * 1000)
    brokers = {1: BrokerSeen(broker=1, out=load), 2: BrokerSeen(broker=2, into=load)}
    return Observed(at_ms=at_ms, measured_ms=at_ms, window_ms=WINDOW_S * 1000, brokers=brokers, flows=(FLOW,))


def rates(decision: Decision) -> dict[tuple[int, Side], int]:
    return {side: kept.rate for side, kept in decision.memory.rates.items()}


def until(law: Law, end_s: int, unit: float, memory: Memory, *, copies_too: bool, begin_s: int = 0) -> Decision:
    """The decision at the end of looks each 5 s."""
    decision = Decision(rates=None, memory=memory)
    for at_s in range(begin_s, end_s + 1, 5):
        decision = law(look(at_s, unit, copies_too=copies_too), decision.memory)
    return decision


@LAWS
@EITHER
@pytest.mark.parametrize("unit", [8, 1000])
def test_units_that_are_smaller_than_bytes(law: Law, unit: float, copies_too: bool) -> None:
    before = law(look(0, 1), Memory())
    decision = law(look(15, unit, copies_too=copies_too), before.memory)
    assert set(rates(decision).values()) == {MB}
    (line,) = decision.warnings
    traffic = "400 MB/s" if unit == 8 else "50 GB/s"
    assert line == (
        f"does the metrics source give bytes/s? broker 1 out has {traffic} of traffic, {unit // 2} times its capacity "
        "of 100 MB/s (and 1 more like it); rates there are the minimum"
    )
    assert all("times its capacity" in reason.text for reason in decision.reasons)
    after = law(look(30, 1), decision.memory)
    assert after.warnings == ()
    assert min(rates(after).values()) > MB
    assert max(rates(after).values()) <= 0.9 * 70 * MB


@LAWS
@EITHER
def test_units_that_are_larger_than_bytes(law: Law, copies_too: bool) -> None:
    before = law(look(0, 1), Memory())
    doubted = until(law, 20, 1 / 1000, before.memory, copies_too=copies_too, begin_s=5)
    assert doubted.warnings == ()
    assert rates(doubted) == rates(before)  # clients would seem to leave all of it
    certain = until(law, 25, 1 / 1000, doubted.memory, copies_too=copies_too, begin_s=25)
    assert set(rates(certain).values()) == {MB}
    (line,) = certain.warnings
    assert line == (
        "does the metrics source give bytes/s? broker 1 out has 50 kB/s of traffic, copies of moves alone take 20 MB/s "
        "(and 1 more like it); rates there are the minimum"
    )
    # Copies are slow by now, so that they are no tenth of what is measured; it stays certain.
    slow = law(look(30, 1 / 1000, clients=149, copied=1, copies_too=copies_too), certain.memory)
    assert (set(rates(slow).values()), len(slow.warnings)) == ({MB}, 1)
    after = law(look(35, 1, copied=1, copies_too=copies_too), slow.memory)
    assert after.warnings == ()
    assert min(rates(after).values()) > MB


@LAWS
def test_without_rates_from_before_copies_get_no_more_than_they_take(law: Law) -> None:
    assert set(rates(law(look(0, 1 / 1000), Memory())).values()) == {20 * MB}


@LAWS
def test_averages_that_do_not_have_a_move_in_them_yet_are_no_fault(law: Law) -> None:
    memory = Memory()
    for at_s in range(0, 60, 5):
        part = min(1.0, at_s / WINDOW_S)
        decision = law(look(at_s, part * 50 / 51 + 1 / 51, clients=1, copied=50), memory)
        memory = decision.memory
        assert decision.warnings == ()
    assert min(rates(decision).values()) > 50 * MB


@LAWS
def test_a_failed_read_ends_no_doubt(law: Law) -> None:
    certain = until(law, 30, 1 / 1000, Memory(), copies_too=False)
    brokers = {b: BrokerSeen(broker=b) for b in (1, 2)}
    away = law(Observed(at_ms=35_000, brokers=brokers, flows=(FLOW,)), certain.memory)
    again = law(look(40, 1 / 1000), away.memory)
    assert (set(rates(again).values()), len(again.warnings)) == ({MB}, 1)


@LAWS
def test_copies_in_another_unit_than_traffic(law: Law) -> None:
    load = Load(total=50 * MB, moved=8 * 20 * MB, copied=20 * MB)
    brokers = {1: BrokerSeen(broker=1, out=load), 2: BrokerSeen(broker=2, into=load)}
    decision = law(Observed(at_ms=0, measured_ms=0, window_ms=1, brokers=brokers, flows=(FLOW,)), Memory())
    assert set(rates(decision).values()) == {MB}
    assert "160 MB/s of copies in 50 MB/s of traffic" in decision.warnings[0]


def test_the_minimum_is_no_more_than_the_capacity_less_reserve() -> None:
    law = slo_law(SloSettings(capacity=100 * MB, min_rate=200 * MB))
    assert set(rates(law(look(0, 8), Memory())).values()) == {90 * MB}
    law = headroom_law(HeadroomSettings(capacity=100 * MB, min_rate=200 * MB))
    assert set(rates(law(look(0, 8), Memory())).values()) == {90 * MB}
