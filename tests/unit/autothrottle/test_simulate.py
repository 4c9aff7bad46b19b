"""Scenarios from observations, plans and files, and what is kept of a simulation."""

from dataclasses import replace

import numpy as np
import pytest

from kafkakit.autothrottle.decide import simulate as cases
from kafkakit.autothrottle.decide.law import Law, Memory, RateDecision, fixed_law
from kafkakit.autothrottle.decide.measurements import Flow, NetworkLoad, SeenBroker, TrafficObservation
from kafkakit.autothrottle.decide.scenario import (
    Scenario,
    encode_scenario,
    ideal_seconds,
    least_seconds,
    read_scenario,
    with_factors,
)
from kafkakit.autothrottle.decide.simulate import (
    SimulationResult,
    StatedRates,
    merge_samples,
    plan_flows,
    scenario_of,
    simulate,
)
from kafkakit.core.errors import InputError, UsageError
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster

MB = 1_000_000
LOADS = {
    1: SeenBroker(broker=1, out=NetworkLoad(total=70e6, moved=20e6), into=NetworkLoad(total=10e6)),
    2: SeenBroker(broker=2, out=NetworkLoad(total=5e6), into=NetworkLoad(total=40e6, moved=20e6), is_alive=False),
    9: SeenBroker(broker=9),
}
MOVE = Flow(source=1, destination=2, partitions=3, left_bytes=600 * MB, ingest_per_s=1e6)
OBSERVED = TrafficObservation(at_ms=5000, measured_ms=5000, brokers=LOADS, flows=(MOVE,))
STATED = StatedRates(capacity=125e6, capacity_of={2: 250e6}, client_rate=30e6)


def scenario(seconds: int = 1000) -> Scenario:
    return scenario_of(replace(OBSERVED, brokers={1: LOADS[1]}), STATED, "c", seconds)


def run(scenario: Scenario, *laws: tuple[str, Law]) -> SimulationResult:
    return simulate(scenario, laws, reserve=0.1, tick_s=30, window_s=60)


def test_clients_are_what_copies_leave_of_the_measured_traffic() -> None:
    found = scenario_of(OBSERVED, STATED, "c", 60)
    assert found.broker_ids == (1, 2)
    assert found.line.tolist() == [[125e6, 250e6], [125e6, 250e6]]
    assert found.clients[..., 0].tolist() == [[50e6, 5e6], [10e6, 20e6]]
    assert (found.alive[:, 0].tolist(), found.is_measured, found.at_ms) == ([True, False], True, 5000)
    assert (found.left.tolist(), found.ingest.tolist(), found.partitions.tolist()) == ([6e8], [1e6], [3])


def test_what_is_not_measured_must_be_stated() -> None:
    dark = replace(OBSERVED, brokers={})
    found = scenario_of(dark, STATED, "c", 60)
    assert (found.clients == 30e6).all()
    assert not found.is_measured
    with pytest.raises(UsageError, match="capacity of broker 1 is not known"):
        scenario_of(dark, StatedRates(client_rate=1e6), "c", 60)
    with pytest.raises(UsageError, match="client traffic of broker 1 is not known"):
        scenario_of(dark, StatedRates(capacity=1e6), "c", 60)


def test_a_plan_gives_a_flow_for_each_pair_of_brokers() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2), 1: (1, 2), 2: (2, 1)}, size_bytes=7)
    plan = make_plan(cluster, {("t", 0): (1, 3), ("t", 1): (3, 1), ("t", 2): (1, 2)})
    assert plan_flows(plan) == (Flow(source=1, destination=3, partitions=2, left_bytes=14),)
    unsized = replace(plan, moves=tuple(replace(m, size_bytes=None) for m in plan.moves))
    with pytest.raises(UsageError, match="does not know the size of t-0"):
        plan_flows(unsized)


def test_factors_begin_in_the_second_that_is_named() -> None:
    two = replace(
        scenario(),
        starts_s=np.array([0, 50]),
        clients=np.array([10.0, 20.0]) * np.ones((2, 2, 1)),
        real=np.full((2, 2, 2), 1e6),
        alive=np.ones((2, 2), dtype=bool),
    )
    found = with_factors(two, ((0, 1.0), (30, 2.0), (60, 0.5)))
    at = found.pieces(0, 1000)
    seconds = found.clients[0, 0, at]
    assert [float(seconds[t]) for t in (0, 29, 30, 49, 50, 59, 60, 999)] == [10, 10, 20, 20, 40, 40, 10, 10]


def test_bounds_are_those_of_a_single_flow() -> None:
    alone = scenario()
    assert least_seconds(alone, 0.0) == 9  # 75 MB/s free, 74 of them beside what is written
    assert least_seconds(alone, 0.2) == 13  # 50 MB/s
    assert ideal_seconds(alone, 0.2) == 13
    assert least_seconds(replace(alone, seconds=5), 0.0) == 5
    assert ideal_seconds(replace(alone, seconds=5), 0.0) == 5
    later = with_factors(alone, ((0, 2.5), (100, 1.0)))  # nothing is free for 100 s
    assert least_seconds(later, 0.0) == 100 + ideal_seconds(replace(alone, left=alone.left + 100e6), 0.0)


def test_a_simulation_tells_time_breaches_and_samples() -> None:
    found = run(scenario(), ("slow", fixed_law(20 * MB)), ("fast", fixed_law(500 * MB)))
    slow, fast = found.laws
    assert (slow.played.finished, slow.played.breach_s, slow.played.changes) == (True, 0, 1)
    assert slow.played.seconds == pytest.approx(600 / (0.8 * 20 - 1), rel=0.1)
    assert fast.played.waited[0, 0] == fast.played.longest[0, 0] > 0
    copied = sum(float(s.copied[0].sum()) * s.seconds for s in slow.samples)
    assert copied == pytest.approx(600e6 + 1e6 * slow.played.seconds, rel=1e-6)
    assert sum(s.seconds for s in slow.samples) == slow.played.seconds
    assert found.least_s <= fast.played.seconds


def test_samples_stay_few_and_even() -> None:
    long = replace(scenario(5_000), left=np.array([1e15]))
    law = run(long, ("slow", fixed_law(MB))).laws[0]
    assert len(law.samples) <= 240
    assert len({s.seconds for s in law.samples[:-1]}) == 1
    assert sum(s.seconds for s in merge_samples(law.samples, 7)) == 5_000
    assert (law.played.finished, law.played.seconds) == (False, 5_000)
    copied = sum(float(s.copied[0].sum()) * s.seconds for s in law.samples)
    assert law.played.left_bytes == pytest.approx(1e15 + 5_000 * 1e6 - copied, rel=1e-9)


def test_work_is_limited_and_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MAX_WORK", 303 * 12)
    found = run(scenario(), ("slow", fixed_law(MB)))
    assert (found.is_cut, found.scenario.seconds, found.laws[0].played.finished) == (True, 12, False)
    assert not run(replace(scenario(), seconds=12)).is_cut


def test_no_flows_take_no_time() -> None:
    nothing = scenario_of(replace(OBSERVED, flows=()), STATED, "c", 60)
    assert run(nothing, ("slow", fixed_law(MB))).laws == ()


def test_a_law_is_told_no_totals_where_nothing_measures_them() -> None:
    told: list[TrafficObservation] = []

    def law(observed: TrafficObservation, memory: Memory) -> RateDecision:
        told.append(observed)
        return RateDecision(rates=None, memory=memory, warnings=("same", f"at {observed.at_ms}"))

    found = run(replace(scenario(100), is_measured=False), ("law", law))
    assert [o.at_ms for o in told] == [5000]
    assert told[0].brokers[1].out == NetworkLoad(moved=0.0)
    assert told[0].brokers[1].produce_p99_ms is None
    assert found.laws[0].warnings == ("same", "at 5000")


YAML = """
kafkakit: {kind: autothrottle-scenario, schema: 1}
at: 2026-11-23T18:00:00Z
step: 1h
brokers:
  - {id: 1, capacity: 125MB, clients_out: [60MB/s, 8e7], clients_in: 1.5e6}
  - {id: 2, capacity_out: 125000000, capacity_in: "250MB"}
flows:
  - {source: 1, destination: 2, bytes: 2GB, ingest: 1MB, partitions: 3}
"""


def test_a_scenario_is_read_from_yaml_and_written_as_json() -> None:
    found = read_scenario(YAML.encode(), "f", 100)
    assert found.line.tolist() == [[125e6, 125e6], [125e6, 250e6]]
    assert found.clients.tolist() == [[[60e6, 80e6], [0, 0]], [[1.5e6, 1.5e6], [0, 0]]]
    assert (found.starts_s.tolist(), found.at_ms) == ([0, 3600], 1_795_456_800_000)
    assert (found.left.tolist(), found.ingest.tolist(), found.partitions.tolist()) == ([2e9], [1e6], [3])
    written = encode_scenario(scenario())
    again = read_scenario(written, "f", 1000)
    assert encode_scenario(again) == written
    assert again.clients.tolist() == scenario().clients.tolist()
    assert again.is_measured is scenario().is_measured


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: 2", "id: 1", "f: broker 1 is listed twice"),
        ("source: 1", "source: 7", "f: flows[0].source: broker 7 is not among the brokers"),
        ("source: 1", "source: 2", "f: flows[0] is from broker 2 to itself"),
        ("125MB,", "125Mb,", "f: brokers[0].capacity: '125Mb' is not a size"),
        ("capacity: 125MB,", "", "f: brokers[0].capacity: broker 1 has no capacity for each direction"),
        ("capacity: 125MB", "capacity: 0", "f: brokers[0].capacity: 0 bytes/s is below 1000"),
        ("bytes: 2GB", "bytes: -1", "f: flows[0].bytes: -1 is not from 0 up to 2^63"),
        ("bytes: 2GB", "bytes: 1e300", "f: flows[0].bytes: 1e+300 is not from 0 up to 2^63"),
        ("bytes: 2GB", "bites: 2GB", "f:9:33: Object contains unknown field `bites` - at `$.flows[0]`"),
        ("partitions: 3", "partitions: many", "Expected `int`, got `str` - at `$.flows[0].partitions`"),
        ("partitions: 3", "partitions: 0", "Expected `int` >= 1 - at `$.flows[0].partitions`"),
        ("[60MB/s, 8e7]", "[]", "f: brokers[0].clients_out is empty"),
        ("step: 1h\n", "", "f: step is missing"),
        ("step: 1h", "step: 1500ms", "f: step '1500ms' is not a number of whole seconds"),
        ("step: 1h", "step: soon", "f: step 'soon' is not a duration"),
        ("2026-11-23T18:00:00Z", "today", "Invalid RFC3339 encoded datetime - at `$.at`"),
        ("kafkakit: {kind: autothrottle-scenario, schema: 1}", "", 'no "kafkakit" header'),
        ("autothrottle-scenario", "plan", "is a 'plan' file"),
        ("{id: 2,", "{id: 2, id: 3,", "f:7:13: the key 'id' is given twice"),
        ("flows:", "flows: {", ": not valid YAML"),
    ],
)
def test_a_scenario_that_cannot_be_meant_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in YAML
    with pytest.raises(InputError) as caught:
        read_scenario(YAML.replace(old, new, 1).encode(), "f", 100)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
