"""Copies beside client load: quotas, lines and bytes are kept, and a raise shows as a burst."""

import numpy as np
import pytest

from kafkakit.simulator.cluster import QuotaModel
from kafkakit.simulator.flows import LoadedCopies

MB = 1e6
QUOTA = QuotaModel(efficiency=1.0, lump_bytes=1, response_bytes=1)
LINE = np.full((2, 2), 200 * MB)
ALIVE = np.array([True, True])


def copies(rate: float, size: float = 1e12, ingest: float = 0.0) -> LoadedCopies:
    """One flow from broker 0 to broker 1, throttled at its source."""
    made = LoadedCopies(np.array([0]), np.array([1]), np.array([size]), np.array([ingest]), 2, QUOTA)
    made.rates[0][0] = rate
    return made


def passed(made: LoadedCopies, seconds: int, clients: float = 0.0) -> list[float]:
    """MB that came each second."""
    found = []
    for _ in range(seconds):
        made.second(np.full((2, 2), clients), LINE, ALIVE)
        found.append(float(made.moved[1, 1]) / MB)
    return found


def test_a_raise_bursts_and_a_cut_stalls() -> None:
    made = copies(10 * MB)
    assert passed(made, 12) == pytest.approx([10] * 12)
    made.rates[0][0] = 12 * MB
    assert passed(made, 2) == pytest.approx([10 + 2 * 11, 10])
    made.rates[0][0] = 6 * MB
    assert sum(passed(made, 6)) == 0


def test_clients_that_leave_too_little_show_as_demand_above_the_line() -> None:
    made = copies(50 * MB)
    assert passed(made, 1, clients=170 * MB) == pytest.approx([30])
    assert made.demand[0, 0] == pytest.approx(50 * MB)
    assert passed(made, 1, clients=199 * MB) == pytest.approx([10])  # a twentieth of the line is always left


def test_a_flow_ends_when_it_has_caught_up_and_rests_while_an_end_is_dead() -> None:
    made = copies(10 * MB, size=25 * MB, ingest=1 * MB)
    made.second(np.zeros((2, 2)), LINE, np.array([True, False]))
    assert made.left[0] == 26 * MB
    assert passed(made, 4) == pytest.approx([10, 10, 9, 0])
    assert made.left[0] == 0
