"""The record identity header: fixed bytes, order, and what is not one."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.streams.model.record_identity import (
    LENGTH,
    RecordId,
    decode_record_id,
    encode_record_id,
    format_record_id,
    session_of,
)

IDS = st.builds(
    RecordId,
    at_ms=st.integers(0, 2**48 - 1),
    session=st.integers(0, 2**42 - 1),
    sequence=st.integers(0, 2**32 - 1),
)


def test_the_layout_is_fixed() -> None:
    identity = RecordId(at_ms=0x0199F1A23C4D, session=0x123 << 30 | 0x0ABCDEF0, sequence=1)
    assert encode_record_id(identity).hex() == "01" + "0199f1a23c4d" + "7123" + "8abcdef0" + "00000001"
    assert format_record_id(identity) == "0199f1a2-3c4d-7123-8abc-def000000001"
    assert UUID(format_record_id(identity)).version == 7
    assert UUID(format_record_id(identity)).bytes == encode_record_id(identity)[1:]


@given(IDS)
def test_what_is_encoded_is_decoded(identity: RecordId) -> None:
    assert decode_record_id(encode_record_id(identity)) == identity


@given(IDS, IDS)
def test_texts_and_bytes_sort_as_ids(a: RecordId, b: RecordId) -> None:
    assert (a < b) == (encode_record_id(a) < encode_record_id(b)) == (format_record_id(a) < format_record_id(b))


@given(st.binary(max_size=20))
def test_other_bytes_are_none_or_come_back_unchanged(value: bytes) -> None:
    found = decode_record_id(value)
    assert found is None or encode_record_id(found) == value


def test_values_of_other_versions_lengths_and_uuids_are_none() -> None:
    value = bytearray(encode_record_id(RecordId(at_ms=1, session=2, sequence=3)))
    assert decode_record_id(bytes(value)) is not None
    for wrong in (
        value[:-1],
        [*value, 0],
        [2, *value[1:]],
        [*value[:7], 0x40, *value[8:]],
        [*value[:9], 0, *value[10:]],
    ):
        assert decode_record_id(bytes(wrong)) is None
    assert len(value) == LENGTH


@pytest.mark.parametrize("part", [{"at_ms": 2**48}, {"session": 2**42}, {"sequence": 2**32}, {"sequence": -1}])
def test_parts_that_do_not_fit_are_refused(part: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="bits"):
        RecordId(**{"at_ms": 0, "session": 0, "sequence": 0, **part})


def test_a_session_is_42_of_48_random_bits() -> None:
    assert session_of(b"\xff" * 8) == 2**42 - 1
    assert session_of(bytes(5) + b"\x3f") == 0
    with pytest.raises(ValueError, match="6 are needed"):
        session_of(b"12345")
