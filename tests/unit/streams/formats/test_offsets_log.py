"""Keys and values of `__consumer_offsets`, against bytes that real brokers wrote and all versions of each schema."""

import json
from typing import Any

import pytest

from kafkakit.streams.model.offsets_log.entries import (
    GROUP_TYPES,
    LogKey,
    OffsetCommit,
    OffsetsEntry,
    OpaqueEntry,
    UndecodableEntry,
    decode_entry,
    decode_key,
    decode_offset_commit,
)
from tests.clusters.streams_batches import group_key, offset_key, offset_value
from tests.places import ROOT

CASES = json.loads((ROOT / "tests/cases/streams/offsets_log.json").read_text(encoding="utf-8"))
TOPIC_ID = bytes(range(16))


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("case", CASES["commits"], ids=lambda c: c["name"])
def test_a_commit_is_read_as_its_broker_meant_it(case: dict[str, Any]) -> None:
    told = case["commit"]
    entry = decode_entry(unhex(case["key"]), unhex(case["value"]))
    assert entry == OffsetsEntry(
        LogKey(group=case["group"], topic=case["topic"], partition=case["partition"]),
        OffsetCommit(
            version=told["version"],
            offset=told["offset"],
            committed_ms=told["committed_ms"],
            metadata=told["metadata"].encode(),
            leader_epoch=told["leader_epoch"],
            expires_ms=told["expires_ms"],
            topic_id=bytes.fromhex(told["topic_id"]),
        ),
    )


@pytest.mark.parametrize("case", CASES["groups"], ids=lambda c: c["name"])
def test_a_record_of_a_real_group_is_told_from_an_offset(case: dict[str, Any]) -> None:
    assert decode_entry(unhex(case["key"]), unhex(case["value"])) == OpaqueEntry(case["type"])
    assert case["type"] in GROUP_TYPES


@pytest.mark.parametrize("case", CASES["undecodable"], ids=lambda c: c["name"])
def test_what_cannot_be_read_says_why(case: dict[str, Any]) -> None:
    assert decode_entry(unhex(case["key"]), unhex(case["value"])) == UndecodableEntry(case["reason"])


def test_the_writer_of_tests_writes_what_brokers_write() -> None:
    by_name = {c["name"]: c for c in CASES["commits"]}
    assert offset_key("orders", "logs", 3).hex() == by_name["v3"]["key"]
    for version in range(5):
        name = {1: "v1, expires after 7 days", 4: "v4 with a topic id"}.get(version, f"v{version}")
        topic_id = TOPIC_ID if version == 4 else bytes(16)
        wrote = offset_value(2217128, version=version, metadata="m", leader_epoch=7, topic_id=topic_id)
        assert wrote.hex() == by_name[name]["value"]


@pytest.mark.parametrize(
    ("tags", "topic_id"),
    [
        (b"\1\7\3abc", bytes(16)),
        (b"\2\0\x10" + TOPIC_ID + b"\x85\x02\0", TOPIC_ID),
        (b"\2\7\1a\0\x10" + TOPIC_ID, TOPIC_ID),
    ],
)
def test_unknown_tags_are_skipped(tags: bytes, topic_id: bytes) -> None:
    commit = decode_offset_commit(offset_value(5, version=4, tags=tags))
    assert isinstance(commit, OffsetCommit)
    assert (commit.offset, commit.topic_id) == (5, topic_id)


def test_a_newer_version_is_trusted_when_all_of_it_fits() -> None:
    fits = offset_value(5, version=6, metadata="m", tags=b"\1\x09\2xy")
    commit = decode_offset_commit(fits)
    assert isinstance(commit, OffsetCommit)
    assert (commit.version, commit.offset, commit.metadata) == (6, 5, b"m")
    assert decode_offset_commit(fits + b"\0") == UndecodableEntry("value version 6")
    assert decode_offset_commit(offset_value(5, version=6, committed_ms=3)) == UndecodableEntry("value version 6")


@pytest.mark.parametrize("number", range(2, 26))
def test_every_other_key_type_is_opaque_whatever_its_value(number: int) -> None:
    key = group_key(number, "g", *(["m"] if number in (5, 7, 8, 10, 13, 14, 16) else []))
    for value in (None, b"", b"\0\0"):
        assert decode_entry(key, value) == OpaqueEntry(number)


def test_a_tombstone_of_an_offset_has_no_value() -> None:
    for number in (0, 1):
        assert decode_entry(offset_key("g", "t", 7, number), None) == OffsetsEntry(
            LogKey(group="g", topic="t", partition=7), None
        )


def test_four_megabytes_of_key_are_read_or_refused() -> None:
    assert decode_key(group_key(2, "g") + bytes(4 << 20)) == OpaqueEntry(2)
    assert decode_key(offset_key("g", "t", 1) + bytes(4 << 20)) == UndecodableEntry("bytes after the partition")
    assert decode_key(b"\0\1\x7f\xff" + b"x" * (4 << 20)) != decode_key(b"\0\1")


def test_a_field_of_a_record_without_a_value_has_no_place() -> None:
    import numpy as np

    from kafkakit.streams.model.offsets_log.rows import Views, _field

    data = b"\x01\x04ab" + bytes(8)  # null, then two bytes
    at, end = np.array([0, 1, 1]), np.array([4, 4, 3])
    start, stop, after, bad = _field(Views(data), at, end, np.zeros(3, np.bool_))
    assert start.tolist() == [-1, 2, -1]
    assert stop.tolist() == [-1, 4, -1]
    assert after.tolist() == [1, 4, 2]
    assert bad.tolist() == [False, False, True]
