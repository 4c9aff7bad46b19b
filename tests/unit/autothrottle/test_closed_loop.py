"""The slo law against simulated brokers and clients: close to ideal rates, and no long breach."""

from itertools import pairwise

import numpy as np
import pytest

from kafkakit.autothrottle.decide.scenario import Floats, Scenario, ideal_seconds, least_seconds
from kafkakit.autothrottle.decide.simulate import Played, play
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.simulator.flows import LoadedCopies
from tests.rigs.pacing import CLASSES, P99_OBJECTIVE_MS, WHOLE_WINDOW_S, make_scenario

LAW = slo_law(SloSettings(p99_ms=P99_OBJECTIVE_MS))


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [make_scenario(kind, seed, duration_s=(400, 600)) for kind in CLASSES for seed in (100, 101)]


@pytest.fixture(scope="module")
def played(scenarios: list[Scenario]) -> list[Played]:
    return play(scenarios, [LAW] * len(scenarios), tick_s=4, window_s=WHOLE_WINDOW_S)


def test_moves_end_soon_after_ideal_rates_would_have_ended_them(
    scenarios: list[Scenario], played: list[Played]
) -> None:
    ideal = [ideal_seconds(s, 0.1) for s in scenarios]
    assert all(i >= least_seconds(s, 0.1) for i, s in zip(ideal, scenarios, strict=True))
    over = [p.seconds / i for p, i in zip(played, ideal, strict=True)]
    assert all(p.finished for p in played)
    assert np.median(over) < 1.2  # moves of minutes; hours come closer


def test_no_breach_is_longer_than_a_quota_window(played: list[Played]) -> None:
    assert max(p.longest_s for p in played) <= WHOLE_WINDOW_S


def test_a_breach_ends_where_the_network_drops_and_the_wrong_direction_seems_the_fuller_one() -> None:
    (played,) = play([make_scenario("slow", 17)], [LAW], tick_s=4, window_s=WHOLE_WINDOW_S)
    assert played.finished
    assert played.longest_s <= 3 * WHOLE_WINDOW_S


def test_rates_settle_under_constant_load() -> None:
    scenario = make_scenario("steady", 3, duration_s=(400, 401))
    scenario.clients[:] = scenario.clients.mean(axis=2, keepdims=True)
    scenario.left[:] = 1e15
    late: list[Floats] = []

    def watch(t: int, copies: LoadedCopies) -> None:
        if t > 600 and t % 4 == 0:
            late.append(np.array(copies.rates))

    play([scenario], [LAW], tick_s=4, window_s=WHOLE_WINDOW_S, watch=watch)
    rates = np.array(late)
    assert len(rates) > 200
    assert (rates.max(axis=0) <= 1.12 * rates.min(axis=0)).all()
    changes = sum((a != b).any() for a, b in pairwise(rates))
    assert changes < len(rates) / 4
