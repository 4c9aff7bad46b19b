"""Offset maps of parallel-consumer: the reference's vectors, and everything that is nearly one."""

import base64
import json
from typing import Any

import pytest
import zstandard

from kafkakit.streams.model.commit import CommitState, OffsetRanges
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from tests.places import ROOT

FILE = ROOT / "tests" / "cases" / "streams" / "parallel_consumer.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
WRITTEN = [case for case in CASES if case.get("written")]


def ranges(pairs: list[list[int]]) -> OffsetRanges:
    return OffsetRanges.of((start, end) for start, end in pairs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_string_means_what_the_client_means_by_it(case: dict[str, Any]) -> None:
    reading = read_metadata(case["text"], case["offset"])
    assert reading.dialect == case["dialect"]
    assert reading.encoding == case["encoding"]
    assert reading.state == CommitState(base=case["offset"], done=ranges(case["done"]))
    assert (reading.problem or "") == case.get("problem", "")
    assert case.get("reason", "") in reading.reason
    assert (reading.reason == "") == (not case.get("problem") and not case.get("reason"))
    assert reading.chars == case.get("chars", len(case["text"]))
    assert reading.is_compressed == (case["encoding"].endswith("Compressed") and not case.get("problem"))
    claimed = reading.claimed.done if reading.claimed else OffsetRanges()
    assert claimed == ranges(case.get("claimed", []))


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case["name"])
def test_the_vectors_are_written_byte_for_byte(case: dict[str, Any]) -> None:
    assert write_parallel_consumer(CommitState(base=case["offset"], done=ranges(case["done"]))) == case["text"]


def test_one_stuck_offset_leaves_one_pending() -> None:
    state = read_metadata("ZQAAAAEAAMNL", 5).state
    assert state.pending.ranges == ((5, 6),)
    assert (state.done.count, state.end) == (49_995, 50_001)


def test_a_map_counts_from_the_offset_it_was_committed_with() -> None:
    here, there = read_metadata("bAAK5gMA", 100).state, read_metadata("bAAK5gMA", 1_000).state
    assert [(a + 900, b + 900) for a, b in here.done] == list(there.done)


def test_nothing_done_is_no_metadata() -> None:
    assert write_parallel_consumer(CommitState(base=100)) == ""


def every(step: int, length: int, base: int = 100) -> CommitState:
    """One pending offset in every `step`."""
    done = OffsetRanges.of((base + at + 1, base + min(at + step, length)) for at in range(0, length, step))
    return CommitState(base=base, done=done)


def test_a_small_map_is_not_compressed() -> None:
    state = every(3, 800)
    text = write_parallel_consumer(state)
    assert text is not None
    assert read_metadata(text, 100).encoding == "BitSetV2"
    assert read_metadata(text, 100).state == state


@pytest.mark.parametrize(("step", "length"), [(2, 100_000), (1_000, 1_000_000), (7, 16_000)])
def test_a_large_map_is_compressed(step: int, length: int) -> None:
    state = every(step, length)
    text = write_parallel_consumer(state)
    assert text is not None
    reading = read_metadata(text, 100)
    assert reading.is_compressed
    assert reading.state == state


def test_a_compressed_map_does_not_declare_its_size_as_the_client_does_not_either() -> None:
    text = write_parallel_consumer(every(2, 100_000))
    assert text is not None
    frame = zstandard.get_frame_parameters(base64.b64decode(text)[1:])
    assert frame.content_size == zstandard.CONTENTSIZE_UNKNOWN


def test_a_map_of_more_than_the_limit_is_not_written() -> None:
    state = every(3, 800)
    text = write_parallel_consumer(state)
    assert text is not None
    assert write_parallel_consumer(state, limit_chars=len(text)) == text
    assert write_parallel_consumer(state, limit_chars=len(text) - 1) is None


def test_runs_that_no_field_holds_are_not_written() -> None:
    assert write_parallel_consumer(CommitState(base=0, done=OffsetRanges.of([(1, 2**31 + 1)]))) is None
    assert write_parallel_consumer(CommitState(base=0, done=OffsetRanges.of([(1, 2**31)]))) is not None


def test_a_long_map_is_written_as_runs_without_unrolling_it() -> None:
    state = CommitState(base=1, done=OffsetRanges.of([(2_000_000_000, 4_000_000_000)]))
    text = write_parallel_consumer(state)
    assert text is not None
    assert read_metadata(text, 1).state == state


def test_more_ranges_than_are_read_are_not_written() -> None:
    assert write_parallel_consumer(every(2, 2 * 131_073)) is None


@pytest.mark.parametrize("done", [((100, 105),), ((99, 103),), ((103, 105), (101, 102)), ((101, 101),)])
def test_a_done_set_that_is_not_above_its_base_is_never_written(done: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="do not lie above"):
        write_parallel_consumer(CommitState(base=100, done=OffsetRanges(done)))
