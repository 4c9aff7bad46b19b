"""The schema of scenarios; the slo law against simulated brokers and clients."""

import json
import re
from collections.abc import Callable
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkakit.autothrottle.decide.scenario import (
    Floats,
    Scenario,
    encode_scenario,
    ideal_seconds,
    least_seconds,
    read_scenario,
)
from kafkakit.autothrottle.decide.simulate import PlayedScenario, play
from kafkakit.autothrottle.decide.slo import SloSettings, slo_law
from kafkakit.core.errors import InputError
from kafkakit.simulator.flows import LoadedCopies
from tests.places import ROOT
from tests.rigs.pacing import CLASSES, P99_OBJECTIVE_MS, WHOLE_WINDOW_S, make_scenario

SCHEMA = json.loads(
    resources.files("kafkakit")
    .joinpath("core", "schemas", "autothrottle-scenario.schema.json")
    .read_text(encoding="utf-8")
)
EVENING = (ROOT / "tests" / "cases" / "autothrottle" / "evening.yaml").read_bytes()


def accepted(document: dict[str, Any]) -> tuple[bool, bool]:
    """By the schema, and by the reader."""
    try:
        read_scenario(json.dumps(document).encode(), "f", 60)
    except InputError:
        return Draft202012Validator(SCHEMA).is_valid(document), False
    return Draft202012Validator(SCHEMA).is_valid(document), True


def evening() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(EVENING, Loader=yaml.SafeLoader)
    found["at"] = "2026-11-23T18:00:00Z"
    return found


def test_files_by_hand_and_files_of_simulate_are_accepted() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert accepted(evening()) == (True, True)
    guide = (ROOT / "docs" / "autothrottle.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert read_scenario(shown.encode(), "f", 60).line.tolist() == [[125e6] * 3, [125e6, 125e6, 250e6]]
    assert accepted(json.loads(encode_scenario(read_scenario(EVENING, "f", 60)))) == (True, True)


CHANGES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda d: d.update(other=1),
    lambda d: d.update(measured="no"),
    lambda d: d["kafkakit"].update(kind="plan"),
    lambda d: d["kafkakit"].update(schema=2),
    lambda d: d.pop("flows"),
    lambda d: d["brokers"][0].pop("capacity"),
    lambda d: d["brokers"][0].update(id=-1),
    lambda d: d["brokers"][0].update(clients_out=[]),
    lambda d: d["brokers"][0].update(clients_in=-1),
    lambda d: d["brokers"][0].update(client_in=1),
    lambda d: d["flows"][0].update(bytes=None),
    lambda d: d["flows"][0].update(partitions=0),
    lambda d: d["flows"][0].update(source=1.5),
    lambda d: d["flows"][0].pop("destination"),
)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_the_schema_refuses_the_reader_refuses(number: int) -> None:
    document = evening()
    CHANGES[number](document)
    assert accepted(document) == (False, False)


def test_fields_that_may_be_left_out_are_those_of_the_reader() -> None:
    document = evening()
    for name in ("at", "measured"):
        document.pop(name, None)
    document["brokers"][2].pop("clients_in")
    for flow in document["flows"]:
        flow.pop("partitions")
        flow.pop("ingest", None)
    assert accepted(document) == (True, True)


LAW = slo_law(SloSettings(p99_ms=P99_OBJECTIVE_MS))


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [make_scenario(kind, seed, duration_s=(400, 600)) for kind in CLASSES for seed in (100, 101)]


@pytest.fixture(scope="module")
def played(scenarios: list[Scenario]) -> list[PlayedScenario]:
    return play(scenarios, [LAW] * len(scenarios), tick_s=4, window_s=WHOLE_WINDOW_S)


def test_moves_end_soon_after_ideal_rates_would_have_ended_them(
    scenarios: list[Scenario], played: list[PlayedScenario]
) -> None:
    ideal = [ideal_seconds(s, 0.1) for s in scenarios]
    assert all(i >= least_seconds(s, 0.1) for i, s in zip(ideal, scenarios, strict=True))
    over = [p.seconds / i for p, i in zip(played, ideal, strict=True)]
    assert all(p.finished for p in played)
    assert np.median(over) < 1.2  # moves of minutes; hours come closer


def test_no_breach_is_longer_than_a_quota_window(played: list[PlayedScenario]) -> None:
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
