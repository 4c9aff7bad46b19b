"""The published schema of a commit says what is printed, names every field, and what it allows can be read back."""

import json
from dataclasses import fields, replace
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkakit.core.cluster_facts import GroupMember, LogSpan
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import plain_value
from kafkakit.streams.commits.decide.documents import CommitDocument, identity_of, read_commit, state_of
from kafkakit.streams.commits.report.commits import commit_data
from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    PayloadProblem,
    Reading,
    ReplayWindow,
    RouteMark,
    Spill,
    StateDocument,
    Watermark,
    Writer,
)
from kafkakit.streams.model.dialects.dialect import CommitFacts, CopiedFrom, TimeSpan

FULL = CommitState(
    base=100,
    done=OffsetRanges(((101, 103), (105, 110))),
    watermark=Watermark(oldest_ms=5, newest_done_ms=9),
    route=RouteMark(epoch=7, segment=2),
    marks=(
        Mark(start=102, end=103, state=MarkState.REJECTED),
        Mark(start=103, end=104, state=MarkState.RETRYING, count=15),
        Mark(start=104, end=105, state=MarkState.DEFERRED, deferred_s=60),
        Mark(start=106, end=107, state=MarkState.SKIPPED),
    ),
    spill=Spill(partition=1, offset=2, digest=bytes(range(8))),
    writer=Writer(member_hash=2**32 - 1, generation=3),
    replay=ReplayWindow(start=103, end=105, request_id=1),
    forgotten=4,
)
IDENTITY = CommitIdentity(cluster_id="c", topic_id=bytes(range(16)), partition=3, group="g")
BARE = CommitFacts(offset=7, metadata="", reading=Reading(dialect="plain", state=CommitState(base=7), chars=0))
WHOLE = CommitFacts(
    offset=100,
    metadata="~b",
    reading=Reading(
        dialect="kkm1", state=FULL, chars=2, problem=PayloadProblem.FOREIGN, reason="r", claimed=FULL, encoding="runs",
        alphabet="b", is_lossy=True, is_bound=False, stream_time_ms=1, processor={"k": 1},
    ),
    at_ms=99,
    key=TopicPartition("t", 3),
    group="g",
    identity=IDENTITY,
    leader_epoch=1,
    span=LogSpan(start=0, stable=1, end=200),
    pending_time=TimeSpan(low_ms=1, high_ms=2, source="log"),
    holder=GroupMember(member_id="m", client_id="c", host="h"),
    owner="somebody",
    copied_from=CopiedFrom(source="s", upstream_offset=1, place_low=2, place_high=3),
)  # fmt: skip
SCHEMA: dict[str, Any] = json.loads(
    resources.files("kafkakit").joinpath("core", "schemas", "commit.schema.json").read_text(encoding="utf-8")
)


def printed(facts: CommitFacts) -> dict[str, Any]:
    data = plain_value(commit_data(facts))
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("facts", [BARE, WHOLE], ids=["bare", "whole"])
def test_the_schema_says_what_is_printed(facts: CommitFacts) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(SCHEMA).validate(printed(facts))


def test_the_schema_names_every_field() -> None:
    assert set(SCHEMA["properties"]) == {*printed(WHOLE), "kafkakit"}
    assert set(SCHEMA["$defs"]["State"]["properties"]) == {field.name for field in fields(StateDocument)}
    assert {field.name for field in fields(CommitDocument)} <= set(SCHEMA["properties"])


def test_what_is_printed_is_read_back() -> None:
    document = read_commit(json.dumps(printed(WHOLE)).encode(), "test")
    assert state_of(document, "test") == FULL
    assert identity_of(document, "test") == IDENTITY


@pytest.mark.parametrize(
    "change",
    [
        {"spill": {"partition": 0, "offset": 0, "digest": "00"}},
        {"writer": {"member_hash": 2**32, "generation": 0}},
        {"forgotten": -1},
        {"marks": [{"start": 103, "end": 104, "state": "retrying", "count": 16}]},
        {"marks": [{"start": 103, "end": 104, "state": "lost"}]},
    ],
)
def test_what_the_schema_refuses_is_refused(change: dict[str, Any]) -> None:
    document = printed(replace(WHOLE, reading=replace(WHOLE.reading, claimed=None)))
    document["state"] |= change
    assert not Draft202012Validator(SCHEMA).is_valid(document)
    with pytest.raises(InputError):
        read_commit(json.dumps(document).encode(), "test")


def test_a_newer_schema_is_refused() -> None:
    document = printed(WHOLE) | {"kafkakit": {"command": "streams commits decode", "schema": 2}}
    with pytest.raises(InputError, match="schema 2"):
        read_commit(json.dumps(document).encode(), "test")
