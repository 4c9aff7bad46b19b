"""The file of a reading: what is written is read, its schema fits, and what makes no sense is refused in one line."""

import json
from datetime import UTC, datetime, timedelta
from importlib import resources

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.storage_documents import StorageDocument, decode_reading, encode_reading
from kafkakit.core.storage_reading import FreeStorage, PartitionSizes, StorageReading

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
KEYS = st.builds(TopicPartition, st.text("abz._-", min_size=1, max_size=5), st.integers(0, 2**31 - 1))
BYTES = st.integers(0, 2**53)
TIMES = st.integers(1, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds))
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
            taken_at=NOW,
            smallest_of={key: draw(BYTES) for key in draw(some_sizes)},
            times={key: draw(TIMES) for key in draw(some_sizes)},
        ),
        free=FreeStorage(bytes_of=free, taken_at=NOW, times={b: draw(TIMES) for b in draw(some_free)}),
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
            taken_at=NOW,
            smallest_of={TopicPartition("t", 2): 6},
        ),
        free=FreeStorage(bytes_of={1: 9}, taken_at=NOW, times={1: NOW - timedelta(hours=1)}),
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
