"""Capacities by broker and by instance type: what can be read, and what both laws make of them."""

import pytest

from kafkakit.autothrottle.decide.law import (
    Capacities,
    HeadroomSettings,
    Law,
    Memory,
    Side,
    headroom_law,
    read_broker_capacity,
    read_cap_map,
    read_capacity_file,
    with_capacities,
)
from kafkakit.autothrottle.decide.measurements import BrokerSeen, Flow, Load, Observed
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.core.errors import InputError, UsageError

MB = 1_000_000
STATED = Capacities(of_broker={2: 300.0 * MB}, of_type={"big": 100.0 * MB})
LOAD = Load(total=40.0 * MB, moved=0.0)


def look(*types: str) -> Observed:
    """Broker 1 sends to all others; the types are those of brokers 1, 2, ..."""
    brokers = {n: BrokerSeen(broker=n, into=LOAD, out=LOAD, instance_type=t) for n, t in enumerate(types, 1)}
    flows = [Flow(source=1, destination=n, partitions=1, left_bytes=MB) for n in range(2, len(types) + 1)]
    return Observed(at_ms=0, measured_ms=0, brokers=brokers, flows=tuple(flows))


@pytest.mark.parametrize("law", [headroom_law(HeadroomSettings()), slo_law(SloSettings())])
def test_both_laws_take_a_brokers_own_capacity_before_that_of_its_type(law: Law) -> None:
    decision = with_capacities(law, STATED)(look("big", "big"), Memory())
    assert decision.rates is not None
    reasons = {(r.broker, r.side): r.text for r in decision.reasons}
    assert "100 MB/s" in reasons[1, Side.OUT]
    assert decision.warnings == ()


@pytest.mark.parametrize("law", [headroom_law(HeadroomSettings()), slo_law(SloSettings())])
def test_a_broker_of_unknown_type_is_named_and_the_others_get_rates(law: Law) -> None:
    decision = with_capacities(law, STATED)(look("big", "big", "odd", ""), Memory())
    assert decision.rates is not None
    assert decision.rates.out_of[1] >= 40 * MB
    assert decision.rates.into_of[2] >= 40 * MB
    assert decision.warnings[0] == "no capacity is stated for the instance type of broker 3 (odd), 4 (no type)"


def test_what_was_measured_goes_before_the_type_and_no_types_need_no_words() -> None:
    seen = BrokerSeen(broker=5, into=Load(capacity=7.0), instance_type="big")
    assert STATED.known(seen).into.capacity == 7.0
    assert STATED.known(seen).out.capacity == 100.0 * MB
    quiet = with_capacities(headroom_law(HeadroomSettings(capacity=100.0 * MB)), Capacities())
    assert quiet(look("", ""), Memory()).warnings == ()


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
        ("brokers:\n  one: 5MB\n", "c.yaml:2: 'one' is no broker's id"),
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
