"""Keys and values of `__consumer_offsets`, against bytes that real brokers wrote and all versions of each schema."""

import json
from struct import pack
from typing import Any

import pytest

from kafkakit.streams.formats.offsets_log.group_values import (
    ClassicGroup,
    ClassicMember,
    GroupEpoch,
    GroupTopics,
    MemberAssignment,
    NewMember,
    Unread,
)
from kafkakit.streams.formats.offsets_log.keys import KeyType, LogKey, Opaque, Undecodable, decode_key
from kafkakit.streams.formats.offsets_log.records import Entry, decode_entry
from kafkakit.streams.formats.offsets_log.values import OffsetCommit, decode_offset_commit
from tests.clusters.streams_batches import group_key, offset_key, offset_value, string, uvarint
from tests.places import ROOT

CASES = json.loads((ROOT / "tests/cases/streams/offsets_log.json").read_text(encoding="utf-8"))
TOPIC_ID = bytes(range(16))


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("case", CASES["commits"], ids=lambda c: c["name"])
def test_a_commit_is_read_as_its_broker_meant_it(case: dict[str, Any]) -> None:
    told = case["commit"]
    entry = decode_entry(unhex(case["key"]), unhex(case["value"]))
    assert entry == Entry(
        LogKey(type=KeyType(case["type"]), group=case["group"], topic=case["topic"], partition=case["partition"]),
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
def test_a_record_of_a_real_group_is_read(case: dict[str, Any]) -> None:
    entry = decode_entry(unhex(case["key"]), unhex(case["value"]))
    assert isinstance(entry, Entry)
    assert entry.key == LogKey(type=KeyType(case["type"]), group=case["group"], member=case["member"])
    says = dict(case["says"])
    assert type(entry.value).__name__ == says.pop("kind")
    if "assigned" in says:
        says["assigned"] = [[bytes.fromhex(topic_id), places] for topic_id, places in says["assigned"]]
    assert {name: as_lists(getattr(entry.value, name)) for name in says} == says


def as_lists(value: object) -> object:
    return [as_lists(v) for v in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", CASES["undecodable"], ids=lambda c: c["name"])
def test_what_cannot_be_read_says_why(case: dict[str, Any]) -> None:
    assert decode_entry(unhex(case["key"]), unhex(case["value"])) == Undecodable(case["reason"])


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
    assert decode_offset_commit(fits + b"\0") == Undecodable("value version 6")
    assert decode_offset_commit(offset_value(5, version=6, committed_ms=3)) == Undecodable("value version 6")


@pytest.mark.parametrize("number", list(range(25)))
def test_every_key_type_is_known_or_opaque_and_its_tombstone_says_nothing_else(number: int) -> None:
    if number in (0, 1):
        key = offset_key("g", "t", 7, number)
    else:
        key = group_key(number, "g", *(["m"] if number in (5, 7, 8, 10, 13, 14, 16) else []))
    decoded = decode_key(key)
    if 18 <= number <= 23:
        assert decoded == Opaque(number)
        assert decode_entry(key, b"\0\0") == Opaque(number)
    else:
        assert isinstance(decoded, LogKey)
        assert (decoded.type, decoded.group) == (number, "g")
        assert decode_entry(key, None) == Entry(decoded, None)
    assert decode_key(b"\0\x19" + key[2:]) == Opaque(25)


def test_four_megabytes_of_key_are_read_or_refused() -> None:
    assert isinstance(decode_key(group_key(2, "g") + bytes(4 << 20)), LogKey)
    assert decode_key(offset_key("g", "t", 1) + bytes(4 << 20)) == Undecodable("bytes after the partition")
    assert decode_key(b"\0\1\x7f\xff" + b"x" * (4 << 20)) != decode_key(b"\0\1")


def classic(version: int, members: int = 1, assignment: bytes | None = None) -> bytes:
    """A GroupMetadataValue of any version."""
    flexible = version >= 4

    def raw(data: bytes) -> bytes:
        return (uvarint(len(data) + 1) if flexible else pack(">i", len(data))) + data

    if assignment is None:
        topics = [("orders", (0, 3)), ("logs", (1,))]
        assignment = pack(">hi", 1, len(topics))
        for topic, partitions in topics:
            assignment += string(topic) + pack(f">i{len(partitions)}i", len(partitions), *partitions)
        assignment += pack(">i", -1)
    out = pack(">h", version) + string("consumer", flexible=flexible) + pack(">i", 5)
    out += string("range", flexible=flexible) + string("m0", flexible=flexible)
    out += pack(">q", 1_758_335_260_726) if version >= 2 else b""
    out += uvarint(members + 1) if flexible else pack(">i", members)
    for number in range(members):
        out += string(f"m{number}", flexible=flexible)
        out += string(None, flexible=flexible) if version >= 3 else b""
        out += string("app", flexible=flexible) + string("/10.0.0.1", flexible=flexible)
        out += pack(">i", 60_000) if version >= 1 else b""
        out += pack(">i", 45_000) + raw(b"sub") + raw(assignment) + (b"\0" if flexible else b"")
    return out + (b"\0" if flexible else b"")


@pytest.mark.parametrize("version", range(5))
def test_classic_groups_of_all_versions(version: int) -> None:
    member = ClassicMember(
        member_id="m0",
        client_id="app",
        host="/10.0.0.1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000 if version >= 1 else -1,
        partitions=3,
    )
    assert decode_entry(group_key(2, "g"), classic(version)) == Entry(
        LogKey(type=KeyType.GROUP_METADATA, group="g"),
        ClassicGroup(
            version=version,
            protocol_type="consumer",
            generation=5,
            protocol="range",
            leader="m0",
            state_ms=1_758_335_260_726 if version >= 2 else -1,
            members=(member,),
        ),
    )


def test_an_assignment_of_another_protocol_is_not_counted() -> None:
    entry = decode_entry(group_key(2, "g"), classic(3, assignment=b"\1\2"))
    assert isinstance(entry, Entry)
    assert isinstance(entry.value, ClassicGroup)
    assert entry.value.members[0].partitions is None


def test_a_count_of_members_that_the_bytes_cannot_hold_is_refused() -> None:
    value = classic(3, members=0)[:-4] + b"\x7f\xff\xff\xff"
    assert decode_entry(group_key(2, "g"), value) == Undecodable("members runs over the end")


def compact(text: str | None) -> bytes:
    return string(text, flexible=True)


PLACES = b"\2" + TOPIC_ID + b"\3" + pack(">ii", 4, 9) + b"\0"
NEW_VALUES: list[tuple[int, bytes, object]] = [
    (3, pack(">i", 9) + b"\0", GroupEpoch(epoch=9)),
    (3, pack(">i", 9) + b"\2\0\x08" + bytes(8) + b"\1\x08" + pack(">q", 77), GroupEpoch(epoch=9, created_ms=77)),
    (
        4,
        b"\2" + TOPIC_ID + compact("t") + pack(">i", 2) + b"\2" + pack(">i", 0) + b"\2" + compact("r") + b"\0\0\0",
        GroupTopics(topics=("t",)),
    ),
    (
        5,
        compact(None) + compact("rack") + compact("app") + compact("/h") + b"\2" + compact("t") + compact(None)
        + pack(">i", 5) + compact("uniform") + b"\0",
        NewMember(client_id="app", host="/h", rack="rack", topics=("t",)),
    ),
    (6, pack(">i", 3) + b"\0", GroupEpoch(epoch=3)),
    (7, PLACES + b"\0", MemberAssignment(assigned=((TOPIC_ID, (4, 9)),))),
    (
        8,
        pack(">iib", 4, 3, 1) + PLACES + b"\1\0",
        MemberAssignment(epoch=4, previous_epoch=3, state=1, assigned=((TOPIC_ID, (4, 9)),)),
    ),
    (10, compact(None) + compact("app") + compact("/h") + b"\1\0", NewMember(client_id="app", host="/h")),
    (11, pack(">iq", 2, 5) + b"\0", GroupEpoch(epoch=2)),
    (12, pack(">i", 2) + b"\0", GroupEpoch(epoch=2)),
    (13, PLACES + b"\0", MemberAssignment(assigned=((TOPIC_ID, (4, 9)),))),
    (14, pack(">iib", 4, 3, 1) + PLACES + b"\0", MemberAssignment(
        epoch=4, previous_epoch=3, state=1, assigned=((TOPIC_ID, (4, 9)),)
    )),
    (9, b"anything", Unread()),
    (15, b"anything", Unread()),
    (16, b"\3" + compact("t") + compact("u") + bytes(17), GroupTopics(topics=("t", "u"))),
    (17, pack(">iq", 6, 1) + b"\0", GroupEpoch(epoch=6)),
    (24, b"anything", Unread()),
]  # fmt: skip


@pytest.mark.parametrize(("number", "body", "expected"), NEW_VALUES, ids=lambda v: str(v) if isinstance(v, int) else "")
def test_records_of_the_newer_groups(number: int, body: bytes, expected: object) -> None:
    key = group_key(number, "g", *(["m"] if number in (5, 7, 8, 10, 13, 14, 16) else []))
    entry = decode_entry(key, b"\0\0" + body)
    assert isinstance(entry, Entry)
    assert entry.value == expected
    if expected != Unread():
        assert decode_entry(key, b"\0\1" + body) == Undecodable("value version 1")
        assert isinstance(decode_entry(key, b"\0\0"), Undecodable)


def test_a_field_of_a_record_without_a_value_has_no_place() -> None:
    import numpy as np

    from kafkakit.streams.formats.offsets_log.rows import _field
    from kafkakit.streams.formats.offsets_log.views import Views

    data = b"\x01\x04ab" + bytes(8)  # null, then two bytes
    at, end = np.array([0, 1, 1]), np.array([4, 4, 3])
    start, stop, after, bad = _field(Views(data), at, end, np.zeros(3, np.bool_))
    assert start.tolist() == [-1, 2, -1]
    assert stop.tolist() == [-1, 4, -1]
    assert after.tolist() == [1, 4, 2]
    assert bad.tolist() == [False, False, True]
