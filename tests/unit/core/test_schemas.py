"""Schemas of documents, and the storage document."""

import json
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.documents import decode_plan, decode_snapshot, encode_plan, encode_snapshot
from kafkakit.core.errors import InputError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.storage_documents import StorageDocument, decode_reading, encode_reading
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


NOW_OF_STORAGE = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
KEYS = st.builds(TopicPartition, st.text("abz._-", min_size=1, max_size=5), st.integers(0, 2**31 - 1))
BYTES = st.integers(0, 2**53)
TIMES = st.integers(1, 10**6).map(lambda seconds: NOW_OF_STORAGE - timedelta(seconds=seconds))
SCHEMA = json.loads(resources.files("kafkakit").joinpath("core/schemas/storage-metrics.schema.json").read_text())


@st.composite
def readings(draw: st.DrawFn) -> StorageReading:
    sizes = draw(st.dictionaries(KEYS, BYTES, max_size=6))
    free = draw(st.dictionaries(st.integers(0, 2**31 - 1), BYTES, max_size=6))
    some_sizes = st.sets(st.sampled_from(sorted(sizes))) if sizes else st.just(set[TopicPartition]())
    some_free = st.sets(st.sampled_from(sorted(free))) if free else st.just(set[int]())
    return StorageReading(
        source=draw(st.text(max_size=5)),
        sizes=PartitionSizes(
            bytes_of=sizes,
            taken_at=NOW_OF_STORAGE,
            smallest_of={key: draw(BYTES) for key in draw(some_sizes)},
            times={key: draw(TIMES) for key in draw(some_sizes)},
        ),
        free=FreeStorage(bytes_of=free, taken_at=NOW_OF_STORAGE, times={b: draw(TIMES) for b in draw(some_free)}),
    )


@given(readings())
def test_what_is_written_is_read_and_fits_the_schema(reading: StorageReading) -> None:
    data = encode_reading(reading)
    assert decode_reading(data, "f") == reading
    Draft202012Validator(SCHEMA).validate(json.loads(data))


def test_the_schema_names_every_field() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for name, shape in msgspec.json.schema(StorageDocument)["$defs"].items():
        written = SCHEMA if name == "StorageDocument" else SCHEMA["$defs"][name]
        assert set(written["properties"]) - {"kafkakit"} == set(shape["properties"]), name
        assert set(written["required"]) - {"kafkakit"} == set(shape["required"]), name


def test_the_bytes_of_a_small_reading() -> None:
    reading = StorageReading(
        source="brokers of cluster X",
        sizes=PartitionSizes(
            bytes_of={TopicPartition("t", 10): 5, TopicPartition("t", 2): 7},
            taken_at=NOW_OF_STORAGE,
            smallest_of={TopicPartition("t", 2): 6},
        ),
        free=FreeStorage(bytes_of={1: 9}, taken_at=NOW_OF_STORAGE, times={1: NOW_OF_STORAGE - timedelta(hours=1)}),
    )
    assert encode_reading(reading) == (
        b'{"kafkakit":{"kind":"storage-metrics","schema":1},"source":"brokers of cluster X",'
        b'"taken_at":"2026-01-02T03:04:05.678901Z",'
        b'"partitionmeta":{"t":{"10":{"Size":5},"2":{"Size":7,"Smallest":6}}},'
        b'"brokermetrics":{"1":{"StorageFree":9,"At":"2026-01-02T02:04:05.678901Z"}}}\n'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "not a kafkakit storage-metrics file"),
        ('{"kafkakit":{"kind":"plan","schema":1}}', "is a 'plan' file"),
        ('{"taken_at":"2026-01-01T00:00:00"}', "has no time zone"),
        ('{"partitionmeta":{"t":{"-1":{"Size":1}}}}', "is not a number"),
        ('{"partitionmeta":{"t":{"1":{"Size":-1}}}}', "is not a number of bytes"),
        ('{"partitionmeta":{"t":{"1":{"Size":1,"Smallest":-1}}}}', "is not a number of bytes"),
        ('{"partitionmeta":{"t":{"1":{"Size":1,"At":"2026-01-01T00:00:00"}}}}', "has no time zone"),
        ('{"brokermetrics":{"x":{"StorageFree":1}}}', "is not a number"),
        ('{"brokermetrics":{"1":{"StorageFree":1e300}}}', "is not a number of bytes"),
        ('{"brokermetrics":{"1":{}}}', "StorageFree"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(text: str, problem: str) -> None:
    good = {
        "kafkakit": {"kind": "storage-metrics", "schema": 1},
        "source": "s", "taken_at": "2026-01-01T00:00:00Z", "partitionmeta": {}, "brokermetrics": {},
    }  # fmt: skip
    given_text = json.loads(text)
    data = json.dumps(good | given_text if given_text else {}).encode()
    with pytest.raises(InputError, match=problem) as told:
        decode_reading(data, "f")
    assert "\n" not in str(told.value)
