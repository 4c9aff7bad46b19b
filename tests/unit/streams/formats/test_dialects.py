import pytest

from kafkakit.streams.model.commit import CommitIdentity, Problem
from kafkakit.streams.model.dialects.dialect import canonical_base64
from kafkakit.streams.model.dialects.registry import read_metadata

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
    assert reading.problem in (Problem.BAD_TEXT, Problem.BAD_BODY, Problem.FOREIGN)
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
