"""A metrics source in other units than bytes per second.

Capacities by broker and by instance type. kafka-kit's law. Who may pass what.
"""

import pytest

from kafkakit.autothrottle.decide.law import (
    Capacities,
    HeadroomSettings,
    Law,
    Memory,
    RateDecision,
    RateMemory,
    Side,
    headroom,
    headroom_law,
    peers_of,
    read_broker_capacity,
    read_cap_map,
    read_capacity_file,
    sides_of,
    with_capacities,
    within_peers,
)
from kafkakit.autothrottle.decide.measurements import Flow, NetworkLoad, SeenBroker, TrafficObservation
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.core.errors import InputError, UsageError

MB = 1_000_000
WINDOW_S = 20
FLOW = Flow(source=1, destination=2, partitions=1, left_bytes=10**10)
LAWS = pytest.mark.parametrize(
    "law",
    [slo_law(SloSettings(capacity=100 * MB)), headroom_law(HeadroomSettings(capacity=100 * MB, min_rate=MB))],
    ids=["slo", "headroom"],
)
EITHER = pytest.mark.parametrize("copies_too", [True, False], ids=["copies of the source", "copies of log dirs"])


def look(
    at_s: float, unit: float, *, clients: float = 30, copied: float = 20, copies_too: bool = False
) -> TrafficObservation:
    """Brokers 1 and 2 with this traffic in MB/s, which the source multiplies by `unit`; log dirs do not."""
    moved = copied * unit if copies_too else copied
    load = NetworkLoad(total=(clients + copied) * unit * MB, moved=moved * MB, copied=copied * MB)
    at_ms = round(at_s * 1000)
    brokers = {1: SeenBroker(broker=1, out=load), 2: SeenBroker(broker=2, into=load)}
    return TrafficObservation(at_ms=at_ms, measured_ms=at_ms, window_ms=WINDOW_S * 1000, brokers=brokers, flows=(FLOW,))


def rates(decision: RateDecision) -> dict[tuple[int, Side], int]:
    return {side: kept.rate for side, kept in decision.memory.rates.items()}


def until(law: Law, end_s: int, unit: float, memory: Memory, *, copies_too: bool, begin_s: int = 0) -> RateDecision:
    """The decision at the end of looks each 5 s."""
    decision = RateDecision(rates=None, memory=memory)
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
        "does the metrics source give bytes/s? broker 1 out has 50 kB/s of traffic, but copies of moves take 20 MB/s "
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
    brokers = {b: SeenBroker(broker=b) for b in (1, 2)}
    away = law(TrafficObservation(at_ms=35_000, brokers=brokers, flows=(FLOW,)), certain.memory)
    again = law(look(40, 1 / 1000), away.memory)
    assert (set(rates(again).values()), len(again.warnings)) == ({MB}, 1)


@LAWS
def test_copies_in_another_unit_than_traffic(law: Law) -> None:
    load = NetworkLoad(total=50 * MB, moved=8 * 20 * MB, copied=20 * MB)
    brokers = {1: SeenBroker(broker=1, out=load), 2: SeenBroker(broker=2, into=load)}
    decision = law(TrafficObservation(at_ms=0, measured_ms=0, window_ms=1, brokers=brokers, flows=(FLOW,)), Memory())
    assert set(rates(decision).values()) == {MB}
    assert "160 MB/s of copies in 50 MB/s of traffic" in decision.warnings[0]


def test_the_minimum_is_no_more_than_the_capacity_less_reserve() -> None:
    law = slo_law(SloSettings(capacity=100 * MB, min_rate=200 * MB))
    assert set(rates(law(look(0, 8), Memory())).values()) == {90 * MB}
    law = headroom_law(HeadroomSettings(capacity=100 * MB, min_rate=200 * MB))
    assert set(rates(law(look(0, 8), Memory())).values()) == {90 * MB}


STATED = Capacities(of_broker={2: 300.0 * MB}, of_type={"big": 100.0 * MB})
LOAD = NetworkLoad(total=40.0 * MB, moved=0.0)


def look_capacities(*types: str) -> TrafficObservation:
    """Broker 1 sends to all others; the types are those of brokers 1, 2, ..."""
    brokers = {n: SeenBroker(broker=n, into=LOAD, out=LOAD, instance_type=t) for n, t in enumerate(types, 1)}
    flows = [Flow(source=1, destination=n, partitions=1, left_bytes=MB) for n in range(2, len(types) + 1)]
    return TrafficObservation(at_ms=0, measured_ms=0, brokers=brokers, flows=tuple(flows))


@pytest.mark.parametrize("law", [headroom_law(HeadroomSettings()), slo_law(SloSettings())])
def test_both_laws_take_a_brokers_own_capacity_before_that_of_its_type(law: Law) -> None:
    decision = with_capacities(law, STATED)(look_capacities("big", "big"), Memory())
    assert decision.rates is not None
    reasons = {(r.broker, r.side): r.text for r in decision.reasons}
    assert "100 MB/s" in reasons[1, Side.OUT]
    assert decision.warnings == ()


@pytest.mark.parametrize("law", [headroom_law(HeadroomSettings()), slo_law(SloSettings())])
def test_a_broker_of_unknown_type_is_named_and_the_others_get_rates(law: Law) -> None:
    decision = with_capacities(law, STATED)(look_capacities("big", "big", "odd", ""), Memory())
    assert decision.rates is not None
    assert decision.rates.out_of[1] >= 40 * MB
    assert decision.rates.into_of[2] >= 40 * MB
    assert decision.warnings[0] == "no capacity is stated for the instance type of broker 3 (odd), 4 (no type)"


def test_what_was_measured_goes_before_the_type_and_no_types_need_no_words() -> None:
    seen = SeenBroker(broker=5, into=NetworkLoad(capacity=7.0), instance_type="big")
    assert STATED.known(seen).into.capacity == 7.0
    assert STATED.known(seen).out.capacity == 100.0 * MB
    quiet = with_capacities(headroom_law(HeadroomSettings(capacity=100.0 * MB)), Capacities())
    assert quiet(look_capacities("", ""), Memory()).warnings == ()


def test_kafka_kits_map_is_in_megabytes() -> None:
    assert read_cap_map('{"i3.large": 90, "big": 0.5}').of_type == {"i3.large": 90.0 * MB, "big": 0.5 * MB}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"a": "x"}', '{"a": 0}', '{"a": -5}', '{"a": 1e400}', '{"a": null}', '{"\udcff": 1}'],
)
def test_a_map_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--cap-map"):
        read_cap_map(text)


@pytest.mark.parametrize(
    "text",
    [
        "brokers:\n  1001: 1.25GB\n  7: 500MB\ninstance_types:\n  i3.large: 90MB\n",
        '{"brokers": {"1001": "1.25GB", "7": "500MB"}, "instance_types": {"i3.large": "90MB"}}',
    ],
)
def test_a_file_is_yaml_or_json_with_units(text: str) -> None:
    found = read_capacity_file(text.encode(), "c.yaml")
    assert found == Capacities(of_broker={1001: 1250.0 * MB, 7: 500.0 * MB}, of_type={"i3.large": 90.0 * MB})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "states no capacities"),
        ("brokers:\n", "states no capacities"),
        ("broker:\n  1: 5MB\n", r"c.yaml:1: unknown key 'broker'.*brokers"),
        ("brokers:\n  one: 5MB\n", "c.yaml:2: 'one' is not a broker ID"),
        ("brokers:\n  1: fast\n", "c.yaml:2: 'fast' is not a rate"),
        ("brokers:\n  1: 90\n", "c.yaml:2: the rate 90 has no unit"),
        ("brokers:\n  1: 5MB\n  1: 6MB\n", "given twice"),
        ("brokers: [1]\n", "mapping"),
        ("\xff", "not valid UTF-8"),
        ("a: &x 1\nb: *x\n", "anchors"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_capacity_file(text.encode("latin-1"), "c.yaml")


def test_later_words_count_less() -> None:
    both = Capacities(of_broker={1: 1.0}).over(Capacities(of_broker={1: 2.0, 3: 3.0}, of_type={"a": 4.0}))
    assert both == Capacities(of_broker={1: 1.0, 3: 3.0}, of_type={"a": 4.0})
    assert read_broker_capacity("1003:1GB") == (1003, 1000.0 * MB)
    for text in ("x:1MB", "1003", "1003:", "-1:1MB", "99999999999:1MB"):
        with pytest.raises(UsageError):
            read_broker_capacity(text)


LAW = headroom_law(HeadroomSettings(capacity=100 * MB))
FLOW_HEADROOM = Flow(source=1, destination=2, partitions=1, left_bytes=MB)


@pytest.mark.parametrize(
    ("total", "throttle", "leader", "follower"),
    [(70, 0, 24, 18), (80, 70, 72, 54), (110, 70, 40, 30), (200, 70, 10, 10)],
)
def test_the_table_of_kafka_kit_holds(total: float, throttle: float, leader: float, follower: float) -> None:
    for percent, rate in ((80, leader), (60, follower)):
        assert headroom(NetworkLoad(total=total), 100, throttle, percent, 10) == pytest.approx(rate)


def test_what_copies_did_not_use_of_their_throttle_is_client_traffic() -> None:
    assert headroom(NetworkLoad(total=80, moved=20), 100, 70, 100, 10) == 40  # kafka-kit: 90, on top of 60 of clients


def look_headroom(at_ms: int, out: float | None, into: float | None) -> TrafficObservation:
    seen = {
        1: SeenBroker(broker=1, out=NetworkLoad(total=out, moved=0 if out else None)),
        2: SeenBroker(broker=2, into=NetworkLoad(total=into, moved=0 if into else None)),
    }
    return TrafficObservation(at_ms=at_ms, measured_ms=at_ms, brokers=seen, flows=(FLOW_HEADROOM,))


def test_a_broker_without_metrics_keeps_its_rate_for_a_while_and_stops_no_other() -> None:
    first = LAW(look_headroom(0, 40 * MB, 60 * MB), Memory())
    assert first.rates is not None
    assert (first.rates.out_of, first.rates.into_of) == ({1: 54 * MB}, {2: 36 * MB})
    second = LAW(look_headroom(180_000, 10 * MB, None), first.memory)
    assert second.rates is not None
    assert (second.rates.out_of, second.rates.into_of) == ({1: 81 * MB}, {2: 36 * MB})
    assert "broker 2" in second.warnings[0]
    third = LAW(look_headroom(540_000, 10 * MB, None), second.memory)
    assert third.rates is not None
    assert third.rates.into_of == {2: 10 * MB}


def test_without_any_metrics_rates_stay_once_and_then_fall_to_the_minimum() -> None:
    first = LAW(look_headroom(0, 40 * MB, 60 * MB), Memory())
    second = LAW(look_headroom(180_000, None, None), first.memory)
    assert (second.rates, second.memory.failures) == (None, 1)
    third = LAW(look_headroom(360_000, None, None), second.memory)
    assert third.rates is not None
    assert (third.rates.out_of, third.rates.into_of) == ({1: 10 * MB}, {2: 10 * MB})
    assert LAW(look_headroom(540_000, 40 * MB, 60 * MB), third.memory).memory.failures == 0


def test_a_small_change_is_not_written() -> None:
    first = LAW(look_headroom(0, 40 * MB, 60 * MB), Memory())
    again = LAW(look_headroom(180_000, 42 * MB, 58 * MB), first.memory)
    assert again.rates is None
    assert again.memory.rates[1, Side.OUT] == RateMemory(
        rate=54 * MB, changed_ms=0, calm_since_ms=180_000, seen_ms=180_000
    )


IN, OUT = Side.INTO, Side.OUT


def flow(source: int, destination: int, ingest: float = 0.0) -> Flow:
    return Flow(source=source, destination=destination, partitions=1, left_bytes=1, ingest_per_s=ingest)


def test_ingest_adds_up_on_both_sides() -> None:
    assert sides_of([flow(1, 2, 3.0), flow(1, 3, 4.0)]) == {(1, OUT): 7.0, (2, IN): 3.0, (3, IN): 4.0}


def test_one_sender_to_many_and_many_to_one() -> None:
    flows = [flow(1, 2), flow(1, 3), flow(4, 3)]
    limits = {(1, OUT): 100.0, (4, OUT): 100.0, (2, IN): 10.0, (3, IN): 20.0}
    assert within_peers(limits, peers_of(flows)) == {(1, OUT): 30.0, (4, OUT): 20.0, (2, IN): 10.0, (3, IN): 20.0}


def test_a_limit_passes_along_a_chain_of_peers() -> None:
    flows = [flow(1, 2), flow(3, 2), flow(3, 4)]
    limits = {(1, OUT): 5.0, (2, IN): 100.0, (3, OUT): 7.0, (4, IN): 50.0}
    assert within_peers(limits, peers_of(flows)) == {(1, OUT): 5.0, (2, IN): 12.0, (3, OUT): 7.0, (4, IN): 7.0}
