"""Whose a foreign payload is, and what gives away a payload that is bound to nothing."""

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafkakit.streams.dialects import bind_search
from kafkakit.streams.dialects.bind_search import KnownTopic, find_owners
from kafkakit.streams.dialects.kafka_streams import write_kafka_streams
from kafkakit.streams.dialects.origin import Origin, doubts, find_origin
from kafkakit.streams.dialects.sniff import read_metadata
from kafkakit.streams.identity import CommitIdentity
from kafkakit.streams.kkm1.envelope import Flag, bind_of, seal
from kafkakit.streams.kkm1.text import Alphabet, to_text
from kafkakit.streams.ports import LogSpan

SOURCE = CommitIdentity(cluster_id="prod-a-0001", topic_id=bytes(range(16)), partition=3, group="orders")
HERE = CommitIdentity(cluster_id="prod-b-0002", topic_id=bytes(range(16, 32)), partition=3, group="orders")
VECTOR = "~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg"
EMPTY = "~bEMBI7WoCCLawy6eWM-gHBAIHAg"
LOGS_A = KnownTopic(cluster_id="prod-a-0001", topic="logs", topic_id=bytes(range(16)), partitions=12)
LOGS_B = KnownTopic(cluster_id="prod-b-0002", topic="a.logs", topic_id=bytes(range(16, 32)), partitions=12)
GROUPS = ("billing", "orders", "audit")
SPAN = LogSpan(start=50, stable=200, end=200)
NOW = 1_758_335_270_000


def written_for(identity: CommitIdentity, alphabet: Alphabet = Alphabet.BASE64) -> str:
    return to_text(alphabet, seal(identity, Flag(0), bytes.fromhex("0208b6b0cba79633e807")))


def origin(text: str, here: CommitIdentity = HERE, topics: tuple[KnownTopic, ...] = (LOGS_B, LOGS_A)) -> Origin:
    found = find_origin(text, here, iter(topics), iter(GROUPS))
    assert found is not None
    return found


@pytest.mark.parametrize("text", [VECTOR, EMPTY, VECTOR + "\0"])
def test_a_copied_payload_is_brought_home(text: str) -> None:
    found = origin(text)
    assert [owner.identity for owner in found.owners] == [SOURCE]
    assert not found.is_here
    assert found.sentence == (
        "it was written for group orders, partition logs-3 (topic id 00010203-0405-0607-0809-0a0b0c0d0e0f) of cluster "
        "prod-a-0001: another cluster, topic id (24 partitions and 3 groups tried)"
    )


@pytest.mark.parametrize(
    ("there", "difference"),
    [
        (replace(HERE, group="billing"), "another group"),
        (replace(HERE, partition=11), "another partition"),
        (replace(HERE, partition=0, group="audit"), "another partition, group"),
        (replace(SOURCE, partition=0), "another cluster, topic id, partition"),
    ],
)
@pytest.mark.parametrize("alphabet", [Alphabet.BASE64, Alphabet.WIDE])
def test_what_is_different_is_named(there: CommitIdentity, difference: str, alphabet: Alphabet) -> None:
    found = origin(written_for(there, alphabet))
    assert [owner.identity for owner in found.owners] == [there]
    assert f": {difference} (" in found.sentence


def test_a_payload_of_this_very_commit_is_no_foreign_one() -> None:
    found = origin(written_for(HERE))
    assert found.is_here
    assert found.sentence == "it is bound to this very commit"


def test_a_payload_of_nobody_known_says_what_was_tried() -> None:
    found = origin(written_for(replace(SOURCE, group="unheard-of")))
    assert found.owners == ()
    assert found.sentence == "it is bound to nothing that is known here, or damaged (24 partitions and 3 groups tried)"


@pytest.mark.parametrize("text", ["", "~", "~b", "~bEMBI", "~x123", "bAAK5gMA", '~j{"v":1}', "~b!!!!!!!!", "~w\u4e00"])
def test_what_carries_no_checksum_has_no_origin(text: str) -> None:
    assert find_origin(text, HERE, (LOGS_A,), GROUPS) is None


def test_partitions_above_255_and_names_beyond_ascii_are_found() -> None:
    there = CommitIdentity(cluster_id="zürich", topic_id=bytes(16), partition=70_000, group="größe")
    topic = KnownTopic(cluster_id="zürich", topic="t", topic_id=bytes(16), partitions=70_001)
    search = find_owners(bind_of(there, b"\x10body"), b"\x10body", [topic], ["größe", "grosse"])
    assert [owner.identity for owner in search.owners] == [there]
    assert (search.partitions, search.groups, search.is_complete) == (70_001, 2, True)
    assert round(search.by_chance * 2**32) == 140_002


def endless_topics() -> Iterator[KnownTopic]:
    while True:
        yield LOGS_B


def endless_groups() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"group-{number}"


def test_a_search_ends_at_its_limits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_search, "MAX_PARTITIONS", 100)
    monkeypatch.setattr(bind_search, "MAX_GROUPS", 50)
    found = find_origin(VECTOR, HERE, endless_topics(), endless_groups())
    assert found is not None
    assert (found.search.partitions, found.search.groups, found.search.is_complete) == (100, 50, False)
    assert found.sentence.endswith("(100 partitions and 50 groups tried, which is the limit)")


def test_a_search_of_just_the_limit_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_search, "MAX_PARTITIONS", 24)
    monkeypatch.setattr(bind_search, "MAX_GROUPS", 3)
    assert origin(VECTOR).search.is_complete


def test_owners_that_fit_by_chance_come_after_those_that_are_near() -> None:
    # Two clusters that share an id are two fits of one checksum; the one that is here hides the other.
    twin = replace(LOGS_A, topic="twin")
    found = origin(VECTOR, here=SOURCE, topics=(twin, LOGS_A))
    assert [owner.topic for owner in found.owners] == ["logs", "twin"]
    assert found.is_here


def test_many_owners_are_counted_not_listed() -> None:
    topics = tuple(replace(LOGS_A, topic=f"t{n}") for n in range(5))
    found = origin(VECTOR, topics=topics)
    assert len(found.owners) == 5
    assert "; or for 2 others (" in found.sentence


def test_a_map_past_the_end_of_the_log_is_of_another_offset() -> None:
    reading = read_metadata("ZQAAAAEAAMNL", 100)
    assert doubts(reading, span=SPAN, newest_record_ms=None, now_ms=NOW) == (
        "its map says that offsets up to 50,095 are done, but the log ends at 200: "
        "it was not written for offset 100 of this partition",
    )


def test_a_map_that_ends_with_the_log_is_not_doubted() -> None:
    reading = read_metadata("bAAK5gMA", 100)
    for end, count in ((110, 0), (109, 1), (-1, 0)):
        span = LogSpan(start=50, stable=end, end=end)
        assert len(doubts(reading, span=span, newest_record_ms=None, now_ms=NOW)) == count


def test_a_map_below_the_log_is_told() -> None:
    span = LogSpan(start=110, stable=900, end=900)
    (doubt,) = doubts(read_metadata("bAAK5gMA", 100), span=span, newest_record_ms=None, now_ms=NOW)
    assert doubt == "all of its map lies below the log's first offset 110"


@pytest.mark.parametrize(
    ("time_ms", "newest_ms", "words"),
    [
        (NOW - 5, NOW - 5, ()),
        (NOW - 5, None, ()),
        (NOW - 5, NOW - 9, ("4 ms later than the partition's newest record",)),
        (NOW + 7, None, ("7 ms in the future",)),
        (NOW + 7, NOW, ("7 ms later", "7 ms in the future")),
        (None, NOW, ()),
    ],
)
def test_a_stream_time_that_cannot_be(time_ms: int | None, newest_ms: int | None, words: tuple[str, ...]) -> None:
    found = doubts(read_metadata(write_kafka_streams(time_ms), 100), span=SPAN, newest_record_ms=newest_ms, now_ms=NOW)
    assert len(found) == len(words)
    assert all(word in doubt for word, doubt in zip(words, found, strict=True))


def test_other_dialects_are_not_doubted() -> None:
    for text in ("", "note", VECTOR):
        assert doubts(read_metadata(text, 100), span=SPAN, newest_record_ms=0, now_ms=0) == ()


def test_the_checksum_runs_backwards() -> None:
    data = struct.pack(">8q", *range(8)) + b"odd"
    state = bind_search._wound(0x12345678, data)
    assert bind_search._unwound(state, data) == 0x12345678
