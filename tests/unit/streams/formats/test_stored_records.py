"""Records decoded side by side: what they hold, and damage that is found."""

import pytest

from kafkakit.streams.model.compressed_sizes import DamagedError
from kafkakit.streams.model.guarded_reads import StoredRecord, stored_records
from kafkakit.streams.model.log_batches import HEADER_BYTES, Batch, batches_of
from tests.clusters.streams_batches import Rec, batch, uvarint, varint
from tests.rigs.bombs import batch_of

BASE_MS = 1_758_335_260_726


def decode(*made: bytes) -> list[StoredRecord]:
    data = b"".join(made)
    found = [one for one in batches_of(data) if isinstance(one, Batch)]
    return stored_records(data, [(one, one.position + HEADER_BYTES, one.end) for one in found])


def test_records_of_several_batches_come_in_order() -> None:
    held = (("name", b"v"), ("name", None), ("é", b""))
    stored = tuple((name.encode(), value) for name, value in held)
    found = decode(
        batch(5, [Rec(b"k", b"v", -5), Rec(None, None, 7), Rec(b"", b"", headers=stored)]),
        batch(9, [Rec(b"x" * 300, b"y" * 70_000, delta_ms=1 << 40)], base_ms=1_000),
        batch(10, [Rec(b"k", b"v", 3), Rec(b"k", b"w", 4)], log_append_time=True, max_ms=77),
    )
    assert [(one.offset(), one.key(), one.value(), one.timestamp()) for one in found] == [
        (5, b"k", b"v", (1, BASE_MS - 5)),
        (6, None, None, (1, BASE_MS + 7)),
        (7, b"", b"", (1, BASE_MS)),
        (9, b"x" * 300, b"y" * 70_000, (1, 1_000 + (1 << 40))),
        (10, b"k", b"v", (2, 77)),
        (11, b"k", b"w", (2, 77)),
    ]
    assert [len(one) for one in found] == [1, 0, 0, 70_000, 1, 1]
    assert [one.headers() for one in found] == [None, None, [*held], None, None, None]


def test_a_record_without_a_time_says_so() -> None:
    (one,) = decode(batch(0, [Rec(b"k", b"v")], base_ms=-1))
    assert one.timestamp() == (0, -1)


def test_names_that_are_no_text_are_replaced() -> None:
    (one,) = decode(batch(0, [Rec(b"k", b"v", headers=((b"\xff\xfea", b"1"),))]))
    assert one.headers() == [("\ufffd\ufffda", b"1")]


def test_lengths_of_more_bytes_than_they_need_are_read() -> None:
    """Redundant varints are unusual, and clients accept them."""
    fields = b"\0" + b"\x80\0" + b"\x80\x80\0" + varint(-1) + b"\x82\x80\x80\0" + b"v" + b"\0"
    body = bytes((2 * len(fields) | 0x80, 0x80, 0x80, 0)) + fields
    (one,) = decode(batch_of(body, 0))  # type: ignore[arg-type]
    assert (one.key(), one.value(), one.headers()) == (None, b"v", None)


def test_lengths_that_lead_back_are_not_followed() -> None:
    body = uvarint(5 | 1 << 20)[:3] + bytes(20)
    with pytest.raises(DamagedError, match="impossible length"):
        decode(batch_of(body, 0, count=1_000))  # type: ignore[arg-type]


def record(*fields: bytes, size: int | None = None) -> bytes:
    body = b"".join(fields)
    return batch_of(varint(len(body) if size is None else size) + body, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "made",
    [
        record(b"\0", varint(0), varint(0), varint(50), b"k", varint(1), b"v", varint(0)),  # a key too long
        record(b"\0", varint(0), varint(0), varint(-1), varint(50), b"v", varint(0)),  # a value too long
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v"),  # no headers
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(1)),  # a header that is missing
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(-1)),  # fewer than no headers
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(1), varint(-1), varint(0)),  # no name
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(0), b"more"),
        record(b"\0", varint(0), varint(1), varint(-1), varint(1), b"v", varint(0)),  # an offset outside
        record(b"\0", varint(0), varint(-1), varint(-1), varint(1), b"v", varint(0)),
        record(b"\0", b"\xff" * 10, varint(0), varint(-1), varint(1), b"v", varint(0)),  # a varint without an end
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(0), size=40),
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(0), size=3),
        record(b"\0", varint(0), varint(0), varint(-1), varint(1), b"v", varint(0), size=-8),
        batch(0, [Rec(b"k", b"v"), Rec(b"k", b"v", offset_delta=0)]),  # an offset twice
        batch(0, [Rec(b"k", b"v")], count=2),
        batch(0, [Rec(b"k", b"v"), Rec(b"k", b"v")], count=1),
    ],
)
def test_damage_is_found(made: bytes) -> None:
    with pytest.raises(DamagedError):
        decode(made)
    with pytest.raises(DamagedError):
        decode(batch(0, [Rec(b"k", b"v")]), made)
