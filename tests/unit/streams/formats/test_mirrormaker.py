"""MirrorMaker 2's records, and the records that a copied parallel-consumer map would skip."""

import json
from typing import Any

import pytest

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.mirrormaker import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    decode_offset_sync,
    place_downstream,
    skipped_by_copy,
    syncs_by_partition,
)
from tests.places import ROOT

FILE = ROOT / "tests" / "cases" / "streams" / "mirrormaker.json"
CASES: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
LOGS = TopicPartition("logs", 3)


@pytest.mark.parametrize("case", CASES["offset_syncs"], ids=lambda case: case["name"])
def test_offset_syncs(case: dict[str, Any]) -> None:
    key, value = bytes.fromhex(case["key"]), bytes.fromhex(case["value"])
    if "read" in case:
        assert decode_offset_sync(key, value) == OffsetSync(**case["read"])
    else:
        with pytest.raises(InputError) as refusal:
            decode_offset_sync(key, value)
        assert str(refusal.value) == case["error"]


@pytest.mark.parametrize("case", CASES["checkpoints"], ids=lambda case: case["name"])
def test_checkpoints(case: dict[str, Any]) -> None:
    key, value = bytes.fromhex(case["key"]), bytes.fromhex(case["value"])
    if "read" in case:
        assert decode_checkpoint(key, value) == Checkpoint(**case["read"])
    else:
        with pytest.raises(InputError) as refusal:
            decode_checkpoint(key, value)
        assert str(refusal.value) == case["error"]


def sync(upstream: int, downstream: int, topic: str = "logs") -> OffsetSync:
    return OffsetSync(topic=topic, partition=3, upstream_offset=upstream, downstream_offset=downstream)


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [(99, None), (100, (90, 90)), (101, (91, 91)), (150, (91, 140)), (199, (91, 150)), (200, (150, 150))],
)
def test_an_offset_is_placed_between_syncs(upstream: int, expected: tuple[int, int] | None) -> None:
    syncs = [sync(100, 90), sync(150, 0, topic="other"), sync(200, 150)]
    assert place_downstream(syncs, LOGS, upstream) == expected


def test_an_offset_behind_the_last_sync_is_past_it_by_one_or_by_as_many_records_as_upstream() -> None:
    assert place_downstream([sync(100, 90)], LOGS, 1_100) == (91, 1_090)


def test_a_topic_made_anew_drops_the_syncs_of_the_old_one() -> None:
    syncs = [sync(100, 90), sync(900, 500), sync(10, 510), sync(40, 540)]
    assert syncs_by_partition(syncs) == {LOGS: (sync(10, 510), sync(40, 540))}
    assert place_downstream(syncs, LOGS, 100) == (541, 600)
    assert place_downstream(syncs, LOGS, 5) is None


def test_of_two_syncs_of_one_offset_the_later_counts() -> None:
    assert place_downstream([sync(100, 90), sync(100, 95)], LOGS, 100) == (95, 95)


def test_syncs_are_told_apart_by_partition() -> None:
    other = sync(7, 7, topic="other")
    assert syncs_by_partition([sync(1, 1), other, sync(9, 9)]) == {
        LOGS: (sync(1, 1), sync(9, 9)),
        TopicPartition("other", 3): (other,),
    }


def test_a_map_copied_onto_a_lower_offset_skips_pending_records() -> None:
    # Pending are 100, 103 and 104, done 101, 102 and 105 to 109; on 97 the same map says 98, 99 and 102 to 106.
    skipped = skipped_by_copy(read_metadata("bAAK5gMA", 100), 100, 97)
    assert skipped.ranges == ((103, 105),)


def test_the_reading_may_be_of_the_copy() -> None:
    assert skipped_by_copy(read_metadata("bAAK5gMA", 97), 100, 97).ranges == ((103, 105),)


def test_a_map_that_was_not_moved_skips_nothing() -> None:
    skipped = skipped_by_copy(read_metadata("bAAK5gMA", 100), 5_000, 5_000)
    assert not skipped


def test_a_map_copied_onto_a_higher_offset_skips_what_lies_below_it_too() -> None:
    # On 102 the map says 103, 104 and 107 to 111; 100 lies below the offset.
    assert skipped_by_copy(read_metadata("bAAK5gMA", 100), 100, 102).ranges == ((100, 101), (103, 105), (110, 112))


def test_an_offset_without_a_map_moved_up_skips_what_it_passes() -> None:
    skipped = skipped_by_copy(read_metadata("", 100), 100, 101)
    assert skipped.ranges == ((100, 101),)


def test_an_offset_without_a_map_moved_down_skips_nothing() -> None:
    assert not skipped_by_copy(read_metadata("", 100), 100, 50)


def test_a_map_that_claims_its_own_offset_is_taken_at_its_word() -> None:
    reading = read_metadata("bgAAAAU=", 100)
    assert reading.problem is not None
    assert skipped_by_copy(reading, 100, 103).ranges == ((105, 108),)


def test_a_large_gap_is_counted_by_ranges() -> None:
    reading = read_metadata("ZQAAAAEAAMNL", 5)
    assert skipped_by_copy(reading, 1_000_005, 1_000_005 - 20_000).ranges == ((1_000_005, 1_000_006),)
    assert skipped_by_copy(reading, 1_000_005, 1_000_005 + 20_000).count == 1 + 20_000
