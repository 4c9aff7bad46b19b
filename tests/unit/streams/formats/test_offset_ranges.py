"""`OffsetRanges` and identities: the few cases that say what they are."""

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.streams.model.commit import OffsetRanges, topic_id_bytes, topic_id_text


def test_ranges_are_sorted_and_joined() -> None:
    found = OffsetRanges.of([(5, 9), (1, 3), (3, 4), (8, 12), (20, 20), (30, 29)])
    assert found.ranges == ((1, 4), (5, 12))
    assert (found.count, found.first, found.end, bool(found)) == (10, 1, 12, True)
    assert (OffsetRanges().count, OffsetRanges().first, OffsetRanges().end, bool(OffsetRanges())) == (
        0,
        None,
        None,
        False,
    )


def test_members_are_found_at_the_edges() -> None:
    found = OffsetRanges.of([(1, 4), (2**63 - 2, 2**63 - 1)])
    assert [n in found for n in (0, 1, 3, 4, 2**63 - 2, 2**63 - 1, -1)] == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert "1" not in found


def test_gaps_are_what_is_missing() -> None:
    assert OffsetRanges.of([(3, 5), (7, 8)]).gaps(0, 10).ranges == ((0, 3), (5, 7), (8, 10))
    assert OffsetRanges().gaps(4, 4).ranges == ()


def test_a_topic_id_is_read_as_kafka_prints_it() -> None:
    plain = bytes(range(16))
    assert topic_id_text(plain) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    for text in (topic_id_text(plain), plain.hex(), "AAECAwQFBgcICQoLDA0ODw"):
        assert topic_id_bytes(text) == plain
    # Base64url has dashes of its own.
    assert topic_id_bytes("--------------------__") == bytes.fromhex("fbefbe" * 5 + "ff")
    for text in (
        "",
        "abc",
        "x" * 22 + "!",
        "Ä" * 22,
        "00010203-0405-0607-0809-0a0b0c0d0e0",
        "!" * 22,
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
    ):
        with pytest.raises(UsageError):
            topic_id_bytes(text)
