"""The published JSON Schemas accept what the kit writes, refuse what it would refuse, and name every field."""

import json
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from kafkakit.core.documents import decode_plan, decode_snapshot, encode_plan, encode_snapshot
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Plan
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TYPES: dict[str, type] = {"cluster-snapshot": ClusterSnapshot, "plan": Plan}


def schema_of(kind: str) -> dict[str, Any]:
    text = resources.files("kafkakit").joinpath("core", "schemas", f"{kind}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def busy_cluster() -> FakeCluster:
    cluster = FakeCluster({1: "a", 2: "b", 3: None, 4: "c"}, dirs_per_broker=2)
    cluster.add_topic("t", {0: (1, 2), 1: (2, 3)}, size_bytes=1_000, configs={"retention.ms": "1"})
    cluster.reassign({TopicPartition("t", 0): (3, 2)})
    cluster.kill(4)
    return cluster


def documents() -> dict[str, dict[str, Any]]:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=10)
    plan = make_plan(cluster, {("t", 0): (3, 2)})
    assert decode_plan(encode_plan(plan), "plan") == plan
    return {
        "cluster-snapshot": json.loads(encode_snapshot(busy_cluster().snapshot(now=NOW))),
        "plan": json.loads(encode_plan(plan)),
    }


@pytest.mark.parametrize("kind", TYPES)
def test_schema_accepts_what_the_kit_writes(kind: str) -> None:
    Draft202012Validator.check_schema(schema_of(kind))
    Draft202012Validator(schema_of(kind)).validate(documents()[kind])


@pytest.mark.parametrize("kind", TYPES)
def test_schema_names_every_field_of_the_types(kind: str) -> None:
    types, schema = msgspec.json.schema(TYPES[kind])["$defs"], schema_of(kind)
    for name, shape in types.items():
        written = schema if name == TYPES[kind].__name__ else schema["$defs"][name]
        assert set(written.get("properties", {})) - {"kafkakit"} == set(shape.get("properties", {})), name
        assert set(written.get("required", [])) - {"kafkakit"} == set(shape.get("required", [])), name
        assert written.get("enum") == shape.get("enum"), name


def refused(kind: str, change: dict[str, Any]) -> bool:
    document = documents()[kind] | change
    return not Draft202012Validator(schema_of(kind)).is_valid(document)


def test_schema_refuses_what_makes_no_sense() -> None:
    broker = {"id": 1}

    def topic(**partition: Any) -> dict[str, Any]:
        return {"topics": [{"name": "t", "partitions": [{"partition": 0, "replicas": [1], **partition}]}]}

    wrong: list[dict[str, Any]] = [
        {"kafkakit": {"kind": "plan", "schema": 1}},
        {"kafkakit": {"kind": "cluster-snapshot", "schema": 2}},
        {"taken_at": "2026-01-01T00:00:00"},
        {"brokers": [broker | {"id": -1}]},
        {"brokers": [broker | {"state": "odd"}]},
        topic(replicas=[]),
        topic(replicas=[1, 1]),
        topic(replicas=["1"]),
        topic(replica_bytes={"1": -1}),
        topic(replica_bytes={"x": 1}),
        topic(size_bytes=2**63),
        {"topics": [{"name": "a b", "partitions": []}]},
    ]
    assert [refused("cluster-snapshot", change) for change in wrong] == [True] * len(wrong)
    assert not refused("cluster-snapshot", topic(replica_bytes={"1": 1}, isr=None))
    assert refused("plan", {"fingerprint": "sha256:x"})
    assert refused("plan", {"certificate": {}})
    assert refused("plan", {"moves": [{"topic": "t", "partition": 0, "before": [], "after": [1]}]})


def test_a_snapshot_survives_the_file() -> None:
    snapshot = busy_cluster().snapshot(now=NOW)
    assert decode_snapshot(encode_snapshot(snapshot), "f") == snapshot
