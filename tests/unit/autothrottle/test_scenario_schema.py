"""The schema of scenarios: it accepts what the reader accepts, and names every field."""

import json
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkakit.autothrottle.decide.scenario import encode_scenario, read_scenario
from kafkakit.core.errors import InputError
from tests.places import ROOT

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
