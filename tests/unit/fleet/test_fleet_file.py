"""The file of a fleet: the schema accepts what the reader accepts, and patterns complete clusters."""

import json
from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkakit.core.errors import InputError, UsageError
from kafkakit.fleet.decide import FleetCluster, HostLimits, chosen_clusters, read_fleet
from tests.places import ROOT

SCHEMA = json.loads(
    resources.files("kafkakit").joinpath("core", "schemas", "fleet.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)

words = st.sampled_from(["a", "b", "prod-a", "7"])
wrong = st.one_of(words, st.integers(0, 9), st.lists(st.integers(0, 1), max_size=1))
texts = st.lists(words, max_size=2)
host = st.fixed_dictionaries({}, optional={"open_files": st.integers(0, 9), "max_map_count": wrong, "oder": words})
shared = {"env": words, "owner": wrong, "labels": texts, "host": host}
cluster = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "profile": words,
        "bootstrap_servers": words,
        "files": texts,
        "mirror_of": words,
        **shared,
    },
)
match = st.fixed_dictionaries({}, optional={"clusters": words, "profile": words, **shared})
documents = st.fixed_dictionaries(
    {"kafkakit": st.sampled_from(["fleet", "cluster"]), "schema": st.sampled_from([1, 1, 2])},
    optional={"clusters": st.lists(cluster, max_size=2), "matching": st.lists(match, max_size=2)},
)


@settings(max_examples=150)
@given(document=documents)
def test_the_reader_accepts_what_the_schema_accepts(document: dict[str, Any]) -> None:
    names = [one.get("name") for one in document.get("clusters", ())]
    accepted = VALIDATOR.is_valid(document) and len(names) == len(set(names))
    try:
        read_fleet(yaml.safe_dump(document).encode(), "fleet.yaml")
    except InputError:
        assert not accepted
    else:
        assert accepted


def test_the_schema_names_every_field() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["cluster"]["properties"]) == set(FleetCluster.__struct_fields__)
    assert set(SCHEMA["$defs"]["host"]["properties"]) == set(HostLimits.__struct_fields__)


def test_the_example_of_the_page_is_read() -> None:
    page = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    text = page.partition("```yaml\n")[2].partition("```")[0]
    VALIDATOR.validate(yaml.safe_load(text))
    found = read_fleet(text.encode(), "docs/fleet.md")
    assert len(found) > 1


def test_a_value_of_the_cluster_counts_before_patterns_and_the_last_pattern_before_others() -> None:
    text = b"""
kafkakit: fleet
schema: 1
clusters: [{name: prod-a, profile: a, env: own, labels: [z]}, {name: prod-b, profile: b}]
matching:
  - {clusters: "prod-*", env: first, owner: first, labels: [x], host: {open_files: 1, connections: 5}}
  - {clusters: "*-[ab]", env: last, labels: [y, x], host: {open_files: 2}}
"""
    a, b = read_fleet(text, "f")
    assert (a.env, a.owner, a.labels, a.host) == (
        "own",
        "first",
        ("x", "y", "z"),
        HostLimits(open_files=2, connections=5),
    )
    assert (b.env, b.labels) == ("last", ("x", "y"))


def test_a_file_without_a_cluster_is_refused() -> None:
    with pytest.raises(InputError, match="names no cluster"):
        read_fleet(b"kafkakit: fleet\nschema: 1\nclusters: []\n", "fleet.yaml")


def test_profiles_choose_clusters_of_the_file() -> None:
    fleet = (FleetCluster(name="a", profile="x"), FleetCluster(name="b", profile="y"))
    assert chosen_clusters(None, fleet) == fleet
    assert chosen_clusters("b", fleet) == fleet[1:]
    assert [c.profile for c in chosen_clusters("p, q,p", None)] == ["p", "q"]
    for profiles, known in [("c", fleet), ("", None)]:
        with pytest.raises(UsageError):
            chosen_clusters(profiles, known)
