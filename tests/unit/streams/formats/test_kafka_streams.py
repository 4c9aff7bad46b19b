"""Commit metadata of Kafka Streams: the reference's vectors both ways, and what is nearly one."""

import json
from typing import Any

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import CommitState
from kafkakit.streams.model.dialects.kafka_streams import write_kafka_streams
from kafkakit.streams.model.dialects.registry import read_metadata
from tests.places import ROOT

FILE = ROOT / "tests" / "cases" / "streams" / "kafka_streams.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
GOOD = [case for case in CASES if "encoding" in case]
BAD = [case for case in CASES if "encoding" not in case]
WRITTEN = [case for case in GOOD if case.get("written")]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["name"])
def test_stream_time_is_read(case: dict[str, Any]) -> None:
    reading = read_metadata(case["text"], 42)
    assert reading.dialect == "kafka-streams"
    assert reading.problem is None
    assert reading.encoding == case["encoding"]
    assert reading.stream_time_ms == case["time"]
    assert reading.processor == case["processor"]
    assert reading.state == CommitState(base=42)
    assert reading.chars == case.get("chars", len(case["text"]))


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_what_streams_does_not_write_is_opaque(case: dict[str, Any]) -> None:
    reading = read_metadata(case["text"], 42)
    assert reading.dialect == "opaque"
    assert reading.stream_time_ms is None
    assert case["reason"] in reading.reason
    assert bool(reading.reason) == bool(case["reason"])


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case["name"])
def test_the_vectors_are_written_byte_for_byte(case: dict[str, Any]) -> None:
    assert write_kafka_streams(case["time"], case["processor"], version=int(case["encoding"][1:])) == case["text"]


def test_processor_metadata_is_written_in_one_order() -> None:
    one, other = {"a": 1, "b": 2, "c": 3}, {"c": 3, "b": 2, "a": 1}
    assert write_kafka_streams(0, one) == write_kafka_streams(0, other)


@pytest.mark.parametrize(
    ("time_ms", "processor", "version", "word"),
    [
        (0, {}, 3, "version 3"),
        (-2, {}, 2, "not a time"),
        (2**62, {}, 2, "not a time"),
        (0, {"k": 1}, 1, "version 1"),
        (0, {"k": 2**63}, 2, "'k'"),
        (0, {"\ud800": 1}, 2, "processor metadata"),
    ],
)
def test_what_streams_cannot_hold_is_refused(time_ms: int, processor: dict[str, int], version: int, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        write_kafka_streams(time_ms, processor, version=version)
