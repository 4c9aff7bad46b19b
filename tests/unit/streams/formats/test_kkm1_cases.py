"""KKM1 against the cases of `tests/cases/streams/kkm1.json`: byte for byte in both directions, and what is refused."""

import base64
import json
from typing import Any

import pytest

from kafkakit.streams.model.commit import (
    CommitIdentity,
    CommitState,
    Mark,
    MarkState,
    OffsetRanges,
    Problem,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
)
from kafkakit.streams.model.kkm1.decode import identity_bytes, read_kkm1
from kafkakit.streams.model.kkm1.encode import encode_commit
from kafkakit.streams.model.kkm1.text import crc32c
from tests.places import ROOT

CASES: dict[str, Any] = json.loads((ROOT / "tests" / "cases" / "streams" / "kkm1.json").read_text())
IDENTITY = CommitIdentity(**CASES["identity"] | {"topic_id": bytes.fromhex(CASES["identity"]["topic_id"])})


def state_of(facts: dict[str, Any]) -> CommitState:
    spill = facts.get("spill")
    return CommitState(
        base=facts["base"],
        done=OffsetRanges(tuple((start, end) for start, end in facts["done"])),
        watermark=Watermark(**facts["watermark"]) if "watermark" in facts else None,
        route=RouteMark(**facts["route"]) if "route" in facts else None,
        marks=tuple(Mark(**m | {"state": MarkState[m["state"].upper()]}) for m in facts.get("marks", [])),
        spill=Spill(**spill | {"digest": bytes.fromhex(spill["digest"])}) if spill else None,
        writer=Writer(**facts["writer"]) if "writer" in facts else None,
        replay=ReplayWindow(**facts["replay"]) if "replay" in facts else None,
        forgotten=facts.get("forgotten", 0),
    )


@pytest.mark.parametrize("case", CASES["crc32c"], ids=lambda case: case["text"] or "nothing")
def test_the_checksum_is_castagnolis(case: dict[str, str]) -> None:
    assert f"{crc32c(case['text'].encode()):08x}" == case["crc"]


def test_a_checksum_can_be_continued() -> None:
    data = bytes(range(256)) * 3
    assert all(crc32c(data[at:], crc32c(data[:at])) == crc32c(data) for at in (0, 1, 5, 256, 768))


def test_the_identity_is_written_as_the_format_says() -> None:
    assert identity_bytes(IDENTITY).hex() == CASES["identity_bytes"]


@pytest.mark.parametrize("alphabet", ["b", "w", "j"])
@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_a_state_is_written_and_read_as_the_case_says(case: dict[str, Any], alphabet: str) -> None:
    state, text = state_of(case["state"]), case["texts"][alphabet]
    encoded = encode_commit(state, IDENTITY, limit_chars=4095, alphabets=(alphabet,))
    assert encoded.text == text
    assert (encoded.alphabet, encoded.chars, encoded.written) == (alphabet, len(text), state)
    assert not encoded.is_lossy
    for stored in (text, f"{text}\0"):
        reading = read_kkm1(stored, state.base, IDENTITY)
        assert (reading.problem, reading.reason, reading.state) == (None, "", state)
        assert (reading.alphabet, reading.is_bound, reading.chars) == (alphabet, True, len(stored))
        assert reading.is_lossy == bool(state.forgotten)
        assert alphabet == "j" or (reading.encoding, reading.raw_bytes) == (case["encoding"], len(case["hex"]) // 2)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_base64_text_is_that_of_the_bytes(case: dict[str, Any]) -> None:
    text = base64.urlsafe_b64encode(bytes.fromhex(case["hex"])).decode().rstrip("=")
    assert case["texts"]["b"] == f"~b{text}"


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["name"])
def test_what_cannot_be_relied_upon_leaves_the_done_set_empty(case: dict[str, Any]) -> None:
    reading = read_kkm1(case["text"], case["offset"], IDENTITY)
    assert reading.problem is Problem(case["problem"])
    assert reading.reason
    assert reading.state == CommitState(base=case["offset"])
