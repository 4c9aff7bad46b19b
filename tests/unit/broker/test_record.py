"""The record of an operation: its file, its name, its schema, and what a damaged one leads to."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from kafkakit.broker.act.operation_files import Records
from kafkakit.broker.decide.operation import (
    OPERATION_KIND,
    Kind,
    Leg,
    LegKind,
    LegState,
    Operation,
    Stage,
    base_name,
    decode_operation,
    encode_operation,
)
from kafkakit.core.errors import InputError, UsageError
from kafkakit.wiring import write_file
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeClock, FakeCluster

AT = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = Operation(
    kind=Kind.DRAIN,
    cluster_id="fake-cluster",
    brokers=(1, 2),
    number=3,
    created_at=AT,
    updated_at=AT,
    stage=Stage.MOVING,
    legs=(
        Leg(kind=LegKind.LEADERS, plan="a.plan.json", identity="sha256:0", state=LegState.DONE),
        Leg(kind=LegKind.COPIES, plan="b.plan.json", identity="sha256:1"),
    ),
    rejoined=(2,),
    words={"command": "broker drain"},
)


def schema() -> dict[str, Any]:
    text = (
        resources.files("kafkakit")
        .joinpath("core", "schemas", "broker-operation.schema.json")
        .read_text(encoding="utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def test_a_record_survives_its_file_and_fits_its_schema() -> None:
    assert decode_operation(encode_operation(RECORD), "r") == RECORD
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(json.loads(encode_operation(RECORD)))
    types, written = msgspec.json.schema(Operation)["$defs"], schema()
    for name, shape in types.items():
        mine = written if name == "Operation" else written["$defs"][name]
        assert set(mine.get("properties", {})) - {"kafkakit"} == set(shape.get("properties", {})), name
        assert set(mine.get("required", [])) - {"kafkakit"} == set(shape.get("required", [])), name
        assert mine.get("enum") == shape.get("enum"), name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cluster_id": "../etc"}, "not a Kafka cluster id"),
        ({"brokers": []}, "names 0 brokers"),
        ({"brokers": list(range(101))}, "names 101 brokers"),
        ({"brokers": [1, 1]}, "not a list of distinct broker ids"),
        ({"brokers": [-1]}, "not a list of distinct broker ids"),
        ({"brokers": [2**31]}, "not a list of distinct broker ids"),
        ({"onto": 4}, "do not fit together"),
        ({"kind": "replace"}, "do not fit together"),
        ({"kind": "explode"}, "Invalid enum value"),
        ({"number": 0}, "out of range"),
        ({"legs": [{"kind": "copies", "plan": "../x", "identity": "i"}]}, "not the name of a plan file"),
        ({"legs": [{"kind": "copies", "plan": ".hidden", "identity": "i"}]}, "not the name of a plan file"),
        ({"legs": [{"kind": "copies", "plan": "p" * 200, "identity": "i"}]}, "not the name of a plan file"),
        ({"kafkakit": {"kind": "plan", "schema": 1}}, "expected 'broker-operation'"),
        ({"kafkakit": {"kind": OPERATION_KIND, "schema": 9}}, "has schema 9"),
    ],
)
def test_records_that_make_no_sense_are_refused(change: dict[str, Any], said: str) -> None:
    body = json.loads(encode_operation(RECORD)) | change
    with pytest.raises(InputError, match="r: ") as refused:
        decode_operation(json.dumps(body).encode(), "r")
    assert said in refused.value.message


def test_names_tell_operations_apart_and_stay_short() -> None:
    assert base_name(Kind.DRAIN, (1, 2), None) == "drain-1+2"
    assert base_name(Kind.REPLACE, (1,), 9) == "replace-1+by+9"
    assert RECORD.name == "drain-1+2.3"
    many = base_name(Kind.DRAIN, tuple(range(100)), None)
    assert len(many) < 60
    assert many != base_name(Kind.DRAIN, tuple(range(1, 101)), None)


def test_places_of_plans_follow_their_states() -> None:
    assert (RECORD.next_leg, RECORD.last_to_undo) == (1, 1)
    over = RECORD.with_leg(1, LegState.UNDONE)
    assert (over.next_leg, over.last_to_undo) == (None, 0)
    assert RECORD.without_open().legs[1].state is LegState.DROPPED
    assert RECORD.without_open().legs[0].state is LegState.DONE


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "operations", write_file, FakeClock())


def test_plans_are_there_before_the_record_names_them(records: Records, tmp_path: Path) -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2)})
    plan = make_plan(cluster, {("t", 0): (3, 2)})
    written: list[str] = []

    def note(path: Path, data: bytes, mode: int) -> None:
        written.append(path.name)
        write_file(path, data, mode)

    noting = Records(tmp_path / "operations", note, FakeClock())
    assert noting.newest(Kind.DRAIN, (1,)) is None
    begun = noting.begin(Kind.DRAIN, "fake-cluster", (1,), None, {"command": "broker drain"})
    assert written == []
    saved = noting.add(begun, [(LegKind.COPIES, plan)])
    assert written == ["drain-1.1.1-copies.plan.json", "drain-1.1.json"]
    assert (tmp_path / "operations" / "drain-1.1.json").stat().st_mode & 0o777 == 0o600
    assert records.newest(Kind.DRAIN, (1,)) == saved
    assert records.newest(Kind.DRAIN, (1, 2)) is None
    assert records.newest(Kind.DECOMMISSION, (1,)) is None
    for number in range(2, 12):
        begun = records.begin(Kind.DRAIN, "fake-cluster", (1,), None, {})
        assert records.save(begun).number == number
    newest = records.newest(Kind.DRAIN, (1,))
    assert newest is not None
    assert newest.number == 11


def test_others_that_are_open_are_found_and_damaged_ones_passed_over(records: Records, tmp_path: Path) -> None:
    mine = records.save(replace(RECORD, brokers=(1,), number=1))
    other = records.save(replace(RECORD, kind=Kind.DECOMMISSION))
    records.save(replace(RECORD, brokers=(7,)))
    records.save(replace(RECORD, number=9, stage=Stage.DONE))
    (tmp_path / "operations" / "drain-8.1.json").write_bytes(b"{")
    assert records.others_open(mine, (1,)) == (records.path_of(other),)


def test_the_last_operation_is_the_one_that_was_changed_last_even_if_taken_back(tmp_path: Path) -> None:
    clock = FakeClock()
    records = Records(tmp_path, write_file, clock)
    for kind, number, stage in (
        (Kind.DRAIN, 1, Stage.DONE),
        (Kind.DECOMMISSION, 1, Stage.DONE),
        (Kind.DRAIN, 2, Stage.UNDONE),
    ):
        clock.advance(1)
        last = records.save(replace(RECORD, kind=kind, number=number, stage=stage))
    clock.advance(1)
    records.save(replace(RECORD, brokers=(1,)))
    assert records.last_on((2, 1)) == last
    clock.advance(1)
    touched = records.save(replace(RECORD, kind=Kind.DECOMMISSION, number=1))
    assert records.last_on((1, 2)) == touched
    with pytest.raises(UsageError, match="no operation on broker 2 is on record here"):
        records.last_on((2,))


def test_a_missing_or_huge_record_is_an_input_error(records: Records, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        records.read(tmp_path / "nothing.json")
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(InputError, match="is not a record"):
        records.read(huge)
    with pytest.raises(InputError):
        records.read(tmp_path)
