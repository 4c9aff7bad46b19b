"""The JSON Schema of kafkakit files names what the reader knows, and accepts the examples of all rules."""

import json
import re
from importlib import resources
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkakit.lint.decide.files import KINDS, read_text
from kafkakit.lint.decide.kinds import kafkakit as kafkakit_cluster
from kafkakit.lint.decide.kinds import kafkakit as kafkakit_facts
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import LintRule
from kafkakit.rules.subjects import BatchFacts, HostFacts, LogDirFacts, RolloutFacts
from tests.places import ROOT
from tests.rigs.lint_examples import EXAMPLE_FILE, files_of, page_parts

SCHEMA: dict[str, Any] = json.loads(
    resources.files("kafkakit").joinpath("core", "schemas", "lint-cluster.schema.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("", kafkakit_cluster.CLUSTER_KEYS),
        ("Broker", kafkakit_cluster.BROKER_KEYS),
        ("Topic", kafkakit_cluster.TOPIC_KEYS),
        ("ObservedTopic", kafkakit_facts.OBSERVED_OF_TOPIC),
        ("ObservedCluster", kafkakit_facts.OBSERVED_OF_CLUSTER),
        ("Host", HostFacts.__dataclass_fields__),
        ("LogDir", LogDirFacts.__dataclass_fields__),
        ("Batch", BatchFacts.__dataclass_fields__),
        ("Rollout", RolloutFacts.__dataclass_fields__),
    ],
)
def test_the_schema_names_every_field(name: str, known: tuple[str, ...]) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    part = SCHEMA["$defs"][name] if name else SCHEMA
    assert set(part["properties"]) == set(known)
    assert part["additionalProperties"] is False


@pytest.mark.parametrize("rule", [r for r in all_rules() if r.code != "KKL006"], ids=lambda rule: rule.code)
def test_the_schema_accepts_the_examples_of_rules(rule: LintRule) -> None:
    parts = page_parts(rule.page)
    for title in ("Bad", "Good"):
        text = files_of(parts[title]).get(EXAMPLE_FILE)
        for document in yaml.safe_load_all(text or ""):
            Draft202012Validator(SCHEMA).validate(document)


@pytest.mark.parametrize("document", [{"topics": [{"partitions": 1}]}, {"topic": []}, {"env": "live"}, {"brokers": {}}])
def test_the_schema_refuses_what_the_reader_reports(document: object) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(document)


def test_the_example_of_the_documentation_is_read_and_is_valid() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    text = next(b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if b.startswith("# yaml-language-server"))
    Draft202012Validator(SCHEMA).validate(yaml.safe_load(text))
    reading = read_text("orders.yaml", text, is_named=True)
    assert reading.kinds == ("kafkakit",)
    assert reading.pieces.problems == ()
    assert len(reading.pieces.brokers) == 4


def test_the_documentation_lists_every_kind() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    section = page.partition("## Files")[2].partition("### kafkakit files")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(KINDS)
