"""Whatever is observed, rates of the slo law keep their bounds, and more client traffic never gives more to copies.

Whatever moves beside whatever clients. Whatever Datadog answers and whatever is stated as a capacity.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.autothrottle.decide.law import (
    BrokerSide,
    HeadroomSettings,
    Law,
    Memory,
    RateDecision,
    RateMemory,
    Side,
    fixed_law,
    headroom_law,
    load_of,
    read_cap_map,
    read_capacity_file,
    sides_of,
)
from kafkakit.autothrottle.decide.measurements import (
    Flow,
    HostQueriesAsked,
    HostTags,
    NetworkLoad,
    SeenBroker,
    TrafficObservation,
    hosts_of,
    measured_by_host,
    read_tags,
)
from kafkakit.autothrottle.decide.scenario import Scenario, ideal_seconds, least_seconds, with_factors
from kafkakit.autothrottle.decide.simulate import play
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.core.cluster_facts import MetricSample
from kafkakit.core.errors import InputError
from kafkakit.core.quantities import epoch_ms
from kafkakit.simulator.flows import LoadedCopies

MB = 1_000_000
SETTINGS = SloSettings(p99_ms=100)
LAW = slo_law(SETTINGS)
BROKERS = range(5)

shares = st.floats(0, 1.1)
loads = st.builds(
    lambda line, clients, moved: NetworkLoad(total=(clients + moved) * line, moved=moved * line, capacity=line),
    st.sampled_from([125e6, 312e6, 1250e6]),
    shares,
    st.floats(0, 0.9),
)
seen = st.builds(
    lambda into, out, p99: (into, out, p99), loads, loads, st.one_of(st.none(), st.sampled_from([5.0, 5.0, 150.0]))
)
flows = st.lists(
    st.tuples(st.sampled_from(BROKERS), st.integers(1, 4), st.sampled_from([0.0, 2e6, 200e6])), min_size=1, max_size=8
)
memories = st.one_of(
    st.just({}),
    st.dictionaries(st.tuples(st.sampled_from(BROKERS), st.sampled_from(Side)), st.integers(1, 1000 * MB), max_size=10),
)


@st.composite
def looks(draw: st.DrawFn) -> tuple[TrafficObservation, Memory]:
    """A look at 100 s and what the law remembers of rates that hold since 0 s."""
    brokers = {}
    for b in BROKERS:
        into, out, p99 = draw(seen)
        brokers[b] = SeenBroker(broker=b, into=into, out=out, produce_p99_ms=p99)
    found = tuple(
        Flow(source=s, destination=(s + d) % 5, partitions=1, left_bytes=10**9, ingest_per_s=g)
        for s, d, g in draw(flows)
    )
    look = TrafficObservation(at_ms=100_000, measured_ms=100_000, window_ms=11_000, brokers=brokers, flows=found)
    rates = {s: RateMemory(rate=r, changed_ms=0, calm_since_ms=-1, seen_ms=95_000) for s, r in draw(memories).items()}
    return look, Memory(rates=rates, at_ms=95_000 if rates else -1)


def rates(decision: RateDecision) -> dict[BrokerSide, float]:
    """What copies may really take by the decision, bytes/s."""
    return {s: r.rate * decision.memory.reached for s, r in decision.memory.rates.items()}


@settings(max_examples=150, deadline=None)
@given(looks())
def test_rates_keep_their_bounds(given_look: tuple[TrafficObservation, Memory]) -> None:
    look, memory = given_look
    decision = LAW(look, memory)
    for side, rate in rates(decision).items():
        load = load_of(look, side)
        assert load.total is not None
        assert load.moved is not None
        assert load.capacity is not None
        usable = 0.9 * min(load.capacity, decision.memory.rates[side].learnt or load.capacity)
        floor = min(max(1.1 * sides_of(look.flows)[side], SETTINGS.min_rate), usable)
        assert floor - 1 <= rate <= max(floor, usable - (load.total - load.moved)) + 1
        if side in memory.rates:
            free = max(0.0, load.capacity - load.total)
            before = memory.rates[side].rate * decision.memory.reached
            assert rate <= max(floor, before + 0.8 * free / 11) + 1
    assert len(decision.reasons) == len(sides_of(look.flows))


@settings(max_examples=150, deadline=None)
@given(looks(), st.sampled_from(BROKERS), st.sampled_from(Side), st.floats(0, 0.5))
def test_more_client_traffic_never_gives_a_higher_rate(
    given_look: tuple[TrafficObservation, Memory], broker: int, side: Side, more: float
) -> None:
    look, memory = given_look
    old = look.brokers[broker]
    load = load_of(look, (broker, side))
    assert load.total is not None
    assert load.capacity is not None
    load = replace(load, total=load.total + more * load.capacity)
    busier = replace(old, into=load) if side is Side.INTO else replace(old, out=load)
    calm = replace(look, brokers={b: replace(s, produce_p99_ms=None) for b, s in look.brokers.items()})
    busy = replace(calm, brokers={**calm.brokers, broker: replace(busier, produce_p99_ms=None)})
    before, after = rates(LAW(calm, memory)), rates(LAW(busy, memory))
    for key, rate in after.items():
        assert rate <= before[key] + 1, key


@settings(max_examples=30, deadline=None)
@given(looks())
def test_rates_settle_under_constant_load_and_stay(given_look: tuple[TrafficObservation, Memory]) -> None:
    look, memory = given_look
    brokers = {b: replace(s, produce_p99_ms=None) for b, s in look.brokers.items()}
    seen_rates = []
    for tick in range(200):
        at_ms = 100_000 + tick * 11_000
        moved = {s: memory.rates[s].rate if s in memory.rates else 0 for s in sides_of(look.flows)}
        now = {b: _moving(s, look, moved) for b, s in brokers.items()}
        memory = LAW(replace(look, brokers=now, at_ms=at_ms, measured_ms=at_ms), memory).memory
        seen_rates.append({s: r.rate for s, r in memory.rates.items()})
    assert seen_rates[-50:] == [seen_rates[-1]] * 50


def _moving(seen: SeenBroker, look: TrafficObservation, moved: dict[BrokerSide, int]) -> SeenBroker:
    """The broker with the copies that its rates let through beside the same clients."""
    loads = []
    for side in (Side.INTO, Side.OUT):
        load = load_of(look, (seen.broker, side))
        passing = float(moved.get((seen.broker, side), 0))
        loads.append(replace(load, total=(load.total or 0) - (load.moved or 0) + passing, moved=passing))
    return replace(seen, into=loads[0], out=loads[1])


SECONDS = 400
laws: st.SearchStrategy[Law] = st.one_of(
    st.just(slo_law(SloSettings())),
    st.just(headroom_law(HeadroomSettings())),
    st.integers(MB, 200 * MB).map(fixed_law),
)


@st.composite
def scenarios(draw: st.DrawFn, *, most_clients: float = 0.9) -> Scenario:
    brokers, pieces = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    line = np.array([[draw(st.sampled_from([50.0, 125.0, 300.0])) * MB for _ in range(brokers)] for _ in range(2)])
    shares = st.floats(0, most_clients)
    clients = np.array([[[draw(shares) for _ in range(pieces)] for _ in range(brokers)] for _ in range(2)])
    ends = draw(st.lists(st.tuples(st.integers(0, brokers - 1), st.integers(1, brokers - 1)), min_size=1, max_size=5))
    count = len(ends)
    return Scenario(
        name="drawn",
        broker_ids=tuple(range(brokers)),
        line=line,
        real=np.repeat(line[..., None], pieces, axis=2),
        clients=clients * line[..., None],
        alive=np.ones((brokers, pieces), dtype=bool),
        source=np.array([s for s, _ in ends]),
        target=np.array([(s + d) % brokers for s, d in ends]),
        left=np.array([draw(st.floats(1, 3000)) * MB for _ in range(count)]),
        ingest=np.array([draw(st.sampled_from([0.0, 0.1, 2.0])) * MB for _ in range(count)]),
        partitions=np.array([draw(st.integers(1, 20)) for _ in range(count)]),
        starts_s=np.cumsum([0, *(draw(st.integers(1, 150)) for _ in range(pieces - 1))]),
        seconds=SECONDS,
    )


def by_second(scenario: Scenario) -> Scenario:
    """The same with a piece for each second."""
    at = scenario.pieces(0, scenario.seconds)
    return replace(
        scenario,
        starts_s=np.arange(scenario.seconds),
        clients=scenario.clients[..., at],
        real=scenario.real[..., at],
        alive=scenario.alive[..., at],
    )


@settings(max_examples=30, deadline=None)
@given(scenarios(most_clients=1.2), laws)
def test_copies_fit_the_lines_and_bytes_are_conserved(scenario: Scenario, law: Law) -> None:
    pieces = scenario.pieces(0, SECONDS)
    before, total = scenario.left.copy(), 0.0

    def watch(t: int, copies: LoadedCopies) -> None:
        nonlocal before, total
        line, clients = scenario.real[..., pieces[t]], scenario.clients[..., pieces[t]]
        assert (copies.moved <= np.maximum(line - clients, 0.05 * line) + 1).all()
        grown = np.where(before > 0.5, before + scenario.ingest, 0.0)
        assert np.isclose(grown.sum() - copies.left.sum(), copies.moved[0].sum(), atol=1)
        assert np.isclose(copies.moved[0].sum(), copies.moved[1].sum(), atol=1)
        assert (copies.left >= -1).all()
        before, total = copies.left.copy(), total + float(copies.moved[0].sum())

    played = play([scenario], [law], tick_s=10, window_s=20, watch=watch)[0]
    assert played.finished == (played.left_bytes <= 0.5)
    assert total >= scenario.left.sum() - played.left_bytes - 1


@settings(max_examples=40, deadline=None)
@given(scenarios(), laws)
def test_no_law_and_no_ideal_rates_are_faster_than_the_bound(scenario: Scenario, law: Law) -> None:
    least = least_seconds(scenario, 0.0)
    assert play([scenario], [law], tick_s=10, window_s=20)[0].seconds >= least
    for reserve in (0.0, 0.1, 0.5):
        assert ideal_seconds(scenario, reserve) >= least_seconds(scenario, reserve) >= least


@settings(max_examples=40, deadline=None)
@given(scenarios(most_clients=1.2), st.floats(1, 3))
def test_more_capacity_and_fewer_clients_never_raise_the_bound(scenario: Scenario, factor: float) -> None:
    least = least_seconds(scenario, 0.1)
    assert least_seconds(replace(scenario, real=scenario.real * factor), 0.1) <= least
    assert least_seconds(with_factors(scenario, ((0, 1 / factor),)), 0.1) <= least
    assert least_seconds(replace(scenario, left=scenario.left * factor), 0.1) >= least


@settings(max_examples=40, deadline=None)
@given(scenarios(most_clients=1.2))
def test_pieces_of_time_and_single_seconds_tell_the_same(scenario: Scenario) -> None:
    single = by_second(scenario)
    assert abs(least_seconds(scenario, 0.1) - least_seconds(single, 0.1)) <= 1
    assert abs(ideal_seconds(scenario, 0.1) - ideal_seconds(single, 0.1)) <= 1
    law = fixed_law(20 * MB)
    results = [play([s], [law], tick_s=30, window_s=30)[0] for s in (scenario, single)]
    assert len({(p.seconds, p.breach_s, p.left_bytes) for p in results}) == 1


AT = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
ASKED = HostQueriesAsked()
HOSTS = st.sampled_from(["a", "b", "c", "d"])
LABELS = st.fixed_dictionaries({}, optional={"host": HOSTS | st.just("")})
VALUES = st.floats(0, 1e12) | st.sampled_from([math.nan, math.inf, -1.0])
SAMPLES = st.builds(
    MetricSample, LABELS, VALUES, st.integers(-1000, 400).map(lambda seconds: AT - timedelta(seconds=seconds))
)
ANSWERS = st.dictionaries(st.sampled_from(sorted(ASKED.texts())), st.lists(SAMPLES, max_size=8).map(tuple), max_size=2)
TAGS = st.dictionaries(HOSTS, st.builds(HostTags, broker=st.none() | st.integers(1, 3)), max_size=4)


@settings(max_examples=200, deadline=None)
@given(ANSWERS, TAGS)
def test_what_is_told_is_sound_and_what_is_not_is_named(
    answers: dict[str, tuple[MetricSample, ...]], tags: dict[str, HostTags]
) -> None:
    found = measured_by_host(answers, tags, ASKED, AT)
    assert set(found.brokers) <= {t.broker for t in tags.values()}
    for seen in found.brokers.values():
        for value in (seen.into.total, seen.out.total):
            assert value is None or (math.isfinite(value) and value >= 0)
    assert found.measured_ms == -1 or epoch_ms(AT) - 120_000 <= found.measured_ms <= epoch_ms(AT)
    words = "; ".join(found.problems)
    used = {t.broker for h, t in tags.items() if h in hosts_of(answers)}
    for host in hosts_of(answers):
        told = tags.get(host)
        if told is not None and told.broker is None:
            assert f"{host}" in words
    if used - {None} - set(found.brokers):
        assert words
    mixed = {name: tuple(reversed(samples)) for name, samples in reversed(answers.items())}
    if all(len({s.labels.get("host") for s in samples}) == len(samples) for samples in answers.values()):
        assert measured_by_host(mixed, tags, ASKED, AT) == found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=20) | st.builds("broker_id:{}".format, st.text(max_size=12)), max_size=5))
def test_any_tags_can_be_read(tags: list[str]) -> None:
    broker = read_tags(tags, ASKED).broker
    assert broker is None or 0 <= broker < 2**31


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.dictionaries(st.text(max_size=4), st.floats(), max_size=3).map(str))
def test_any_statement_of_capacities_is_read_or_refused(text: str) -> None:
    data = [part.encode("utf-8", "surrogatepass") for part in (text, f"instance_types:\n  x: {text}\n")]
    for number in range(3):
        try:
            found = read_cap_map(text) if number == 2 else read_capacity_file(data[number], "f")
        except InputError:
            continue
        assert all(math.isfinite(rate) and rate > 0 for rate in found.of_type.values())
