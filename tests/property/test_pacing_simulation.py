"""Whatever moves beside whatever clients: copies fit the lines, bytes are conserved, and the bounds are bounds."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.autothrottle.decide.law import HeadroomSettings, Law, fixed_law, headroom_law
from kafkakit.autothrottle.decide.scenario import Scenario, ideal_seconds, least_seconds, with_factors
from kafkakit.autothrottle.decide.simulate import play
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.simulator.flows import LoadedCopies

MB = 1_000_000
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
