"""The published schemas of routes and their history accept what is written, and name every field."""

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from kafkakit.streams.model.route import (
    GroupRule,
    LaneRule,
    PartitionSeal,
    Route,
    RouteOperation,
    SegmentState,
    decode_route,
    encode_route,
)
from kafkakit.streams.routes.decide import RouteChange, decode_change, encode_change
from tests.rigs.routes import route, segment

SEAL = (PartitionSeal(0, 10, 9, 8), PartitionSeal(1, 0, 0, 0))
FULL = replace(
    route("orders", "live", "dlq"),
    next_segment=9,
    rules=(LaneRule(lane="dlq", where="size > 1"),),
    groups=(GroupRule(name="g", ack_epoch=1),),
)
LEFT = replace(segment(7, state=SegmentState.STRANDED), seal=SEAL, sealed_at_ms=7)
MIXED = replace(
    FULL,
    operation=RouteOperation(id="f-1", kind="failover", step="sealed"),
    lanes=(
        replace(FULL.lanes[0], segments=(LEFT, segment(8))),
        replace(FULL.lanes[1], is_paused=True, segments=(segment(3, state=SegmentState.OPENED),)),
    ),
)
CHANGE = RouteChange(at_ms=1, by="me", what="x", route=MIXED, from_epoch=3, is_deletion=True)
TYPES: dict[str, type] = {"stream-route": Route, "stream-route-change": RouteChange}


def schema_of(kind: str) -> dict[str, Any]:
    text = resources.files("kafkakit").joinpath("core", "schemas", f"{kind}.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize("kind", TYPES)
def test_the_schema_accepts_what_is_written_and_names_every_field(kind: str) -> None:
    schema, types = schema_of(kind), msgspec.json.schema(TYPES[kind])["$defs"]
    Draft202012Validator.check_schema(schema)
    for value in (FULL, MIXED):
        data = encode_route(value) if kind == "stream-route" else encode_change(replace(CHANGE, route=value))
        Draft202012Validator(schema).validate(json.loads(data))
    for name, shape in types.items():
        written = schema if name == TYPES[kind].__name__ else schema["$defs"][name]
        assert set(written.get("properties", {})) - {"kafkakit"} == set(shape.get("properties", {})), name
        assert set(written.get("required", [])) - {"kafkakit"} == set(shape.get("required", [])), name
        assert sorted(written.get("enum", [])) == sorted(shape.get("enum", [])), name


def test_both_schemas_say_the_same_of_a_route() -> None:
    one, other = schema_of("stream-route"), schema_of("stream-route-change")["$defs"]
    inner = other.pop("Route")
    assert other == one["$defs"]
    assert inner["properties"] == {k: v for k, v in one["properties"].items() if k != "kafkakit"}
    assert ["kafkakit", *inner["required"]] == one["required"]


def test_the_schema_refuses_what_is_refused() -> None:
    document = json.loads(encode_route(FULL))
    valid = Draft202012Validator(schema_of("stream-route")).is_valid
    assert valid(document)
    changes: tuple[dict[str, Any], ...] = (
        {"epoch": 0},
        {"lanes": []},
        {"stream": "a b"},
        {"kafkakit": {"kind": "stream-route", "schema": 2}},
    )
    for wrong in changes:
        assert not valid(document | wrong)


def test_a_seal_takes_four_numbers_in_a_document_and_its_schema_refuses_three() -> None:
    assert b'"seal":[[0,10,9,8],[1,0,0,0]],"sealed_at_ms":7' in encode_route(MIXED)
    document = json.loads(encode_route(MIXED))
    valid = Draft202012Validator(schema_of("stream-route")).is_valid
    for wrong in ([0, 1, 1], [0, 1, 1, -1], {"partition": 0}):
        document["lanes"][0]["segments"][0]["seal"] = [wrong]
        assert not valid(document)


def test_a_route_of_the_version_before_has_no_operation_and_no_seal() -> None:
    document = json.loads(encode_route(FULL))
    del document["operation"]
    for lane in document["lanes"]:
        for each in lane["segments"]:
            del each["seal"], each["sealed_at_ms"]
    assert decode_route(json.dumps(document).encode(), "r") == FULL


def test_documents_are_read_as_they_were_written() -> None:
    assert decode_route(encode_route(MIXED), "r") == MIXED
    assert decode_change(encode_change(CHANGE), "c") == CHANGE
