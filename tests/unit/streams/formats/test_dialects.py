"""Whose a foreign payload is, and what gives away a payload that is bound to nothing."""

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafkakit.streams.model.binary import crc32c
from kafkakit.streams.model.commit import CommitIdentity, PayloadProblem
from kafkakit.streams.model.dialects import registry as bind_search
from kafkakit.streams.model.dialects.dialect import canonical_base64
from kafkakit.streams.model.dialects.registry import KnownTopic, Origin, find_origin, find_owners, read_metadata
from kafkakit.streams.model.kkm1.decode import Flag, bind_of, identity_bytes, seal
from kafkakit.streams.model.kkm1.text import Alphabet, to_text

SOURCE = CommitIdentity(cluster_id="prod-a-0001", topic_id=bytes(range(16)), partition=3, group="orders")
HERE = CommitIdentity(cluster_id="prod-b-0002", topic_id=bytes(range(16, 32)), partition=3, group="orders")
VECTOR = "~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg"
EMPTY = "~bEMBI7WoCCLawy6eWM-gHBAIHAg"
LOGS_A = KnownTopic(cluster_id="prod-a-0001", topic="logs", topic_id=bytes(range(16)), partitions=12)
LOGS_B = KnownTopic(cluster_id="prod-b-0002", topic="a.logs", topic_id=bytes(range(16, 32)), partitions=12)
GROUPS = ("billing", "orders", "audit")


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


@pytest.mark.parametrize(
    ("max_partitions", "max_groups", "tried"),
    [(100, 50, (100, 50)), (100, 10**9, (100, 3)), (10**9, 50, (24, 50))],
)
def test_a_search_ends_at_its_limits_and_says_so(
    monkeypatch: pytest.MonkeyPatch, max_partitions: int, max_groups: int, tried: tuple[int, int]
) -> None:
    monkeypatch.setattr(bind_search, "MAX_PARTITIONS", max_partitions)
    monkeypatch.setattr(bind_search, "MAX_GROUPS", max_groups)
    topics = endless_topics() if max_partitions == 100 else iter((LOGS_B, LOGS_B))
    names = endless_groups() if max_groups == 50 else iter(GROUPS)
    found = find_origin(VECTOR, HERE, topics, names)
    assert found is not None
    assert (found.search.partitions, found.search.groups, found.search.is_complete) == (*tried, False)
    assert found.sentence.endswith(f"({tried[0]} partitions and {tried[1]} groups tried, which is the limit)")


def test_topics_without_partitions_come_to_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_search, "MAX_PARTITIONS", 100)
    monkeypatch.setattr("tests.unit.streams.formats.test_dialects.LOGS_B", replace(LOGS_B, partitions=0))
    found = find_origin(VECTOR, HERE, endless_topics(), GROUPS)
    assert found is not None
    assert (found.search.partitions, found.search.is_complete) == (0, False)


def test_a_search_of_just_the_limit_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_search, "MAX_PARTITIONS", 24)
    monkeypatch.setattr(bind_search, "MAX_GROUPS", 3)
    assert origin(VECTOR).search.is_complete


def group_that_fits_too(identity: CommitIdentity) -> str:
    """The name of a group for which this partition's payloads have the checksum of SOURCE's."""
    wanted = crc32c(identity_bytes(SOURCE)) ^ 0xFFFFFFFF
    before = bind_search._unwind(wanted, bytes(5))
    for number in range(100_000):
        prefix = identity_bytes(replace(identity, group=f"g{number}-"))[:-1]
        last = (crc32c(prefix) ^ 0xFFFFFFFF ^ before).to_bytes(4, "little")
        if last.isalnum():
            return f"g{number}-{last.decode('ascii')}"
    raise AssertionError("no group fits")


def test_of_two_fits_the_nearer_one_comes_first() -> None:
    twin = group_that_fits_too(HERE)
    found = find_origin(VECTOR, HERE, (LOGS_A, LOGS_B), (*GROUPS, twin))
    assert found is not None
    assert [owner.identity for owner in found.owners] == [replace(HERE, group=twin), SOURCE]


def test_a_fit_that_shares_neither_group_nor_partition_is_left_out_beside_one_that_does() -> None:
    far = replace(HERE, partition=5)
    twin = group_that_fits_too(far)
    found = find_origin(VECTOR, HERE, (LOGS_B, LOGS_A), (*GROUPS, twin))
    assert found is not None
    assert [owner.identity for owner in found.owners] == [SOURCE]
    assert len(found.search.owners) == 2
    alone = find_origin(VECTOR, HERE, (LOGS_B,), (*GROUPS, twin))
    assert alone is not None
    assert [owner.identity for owner in alone.owners] == [replace(far, group=twin)]


def test_topics_that_share_an_id_are_named_both() -> None:
    found = origin(VECTOR, here=SOURCE, topics=(replace(LOGS_A, topic="twin"), LOGS_A))
    assert [owner.topic for owner in found.owners] == ["logs", "twin"]
    assert found.is_here


def test_many_owners_are_counted_not_listed() -> None:
    topics = tuple(replace(LOGS_A, topic=f"t{n}") for n in range(5))
    found = origin(VECTOR, topics=topics)
    assert len(found.owners) == 5
    assert "; or for 2 others (" in found.sentence


def test_the_checksum_runs_backwards() -> None:
    data = struct.pack(">8q", *range(8)) + b"odd"
    state = bind_search._wind(0x12345678, data)
    assert bind_search._unwind(state, data) == 0x12345678


ORDERS = CommitIdentity(cluster_id="prod-a-0001", topic_id=bytes(range(16)), partition=3, group="orders")
RANGES = "~bEA9kU2IBB2QKAAECAgUCCLawy6eWM-gHBAIHAg"


def test_each_dialect_is_told_from_the_others() -> None:
    texts = {
        "": "plain",
        "\0\0": "plain",
        RANGES: "kkm1",
        "bAAK5gMA": "parallel-consumer",
        "AQAAAZlk8tg2": "kafka-streams",
        "AgAAAZlk8tg2": "kafka-streams",
        " ": "opaque",
        "offset committed by hand": "opaque",
        "MTIz": "opaque",
        '{"a": 1}': "opaque",
        "\ud800": "opaque",
    }
    assert {text: read_metadata(text, 100).dialect for text in texts} == texts


def test_a_kkm1_payload_is_read_by_its_own_codec() -> None:
    reading = read_metadata(RANGES, 100, ORDERS)
    assert reading.problem is None
    assert reading.is_bound is True
    assert reading.state.done.ranges == ((101, 103), (105, 110))


def test_a_kkm1_payload_with_the_nul_of_librdkafka_counts_it() -> None:
    reading = read_metadata(RANGES + "\0", 100, ORDERS)
    assert reading.problem is None
    assert reading.chars == len(RANGES) + 1
    assert reading.state.done.count == 7


def test_a_damaged_kkm1_payload_is_kkm1_all_the_same() -> None:
    reading = read_metadata(RANGES[:-3], 100, ORDERS)
    assert reading.dialect == "kkm1"
    assert reading.problem in (PayloadProblem.BAD_TEXT, PayloadProblem.BAD_BODY, PayloadProblem.FOREIGN)
    assert not reading.state.done


def test_a_sign_alone_is_a_bad_kkm1_payload() -> None:
    for text in ("~", "~b", "~x123", "~\0", "~~"):
        reading = read_metadata(text, 100)
        assert reading.dialect == "kkm1"
        assert reading.problem is not None
        assert reading.chars == len(text)


def test_no_dialect_but_kkm1_is_bound() -> None:
    for text in ("", "bAAK5gMA", "AQAAAZlk8tg2", "note"):
        assert read_metadata(text, 100, ORDERS).is_bound is None


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("abc", 3), ("é", 1), ("\U0001f600x", 3), ("\ud800", 1)])
def test_brokers_count_utf16_units(text: str, expected: int) -> None:
    assert read_metadata(text, 0).chars == expected


@pytest.mark.parametrize("text", ["AQ=", "AQ", "AQ==\n", "AR==", "A===", "====", "AQ==AQ==", "_-Aa", "AQ ==", "ÀQ=="])
def test_base64_is_what_encoders_write_and_nothing_else(text: str) -> None:
    assert canonical_base64(text) is None


def test_canonical_base64_is_read() -> None:
    assert canonical_base64("AQ==") == b"\1"
    assert canonical_base64("") == b""
