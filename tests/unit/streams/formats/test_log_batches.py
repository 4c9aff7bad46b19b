"""Batches and their records out of raw reads.

The time of the record at an offset, and how far it can be trusted. Records decoded side by side.
"""

from struct import pack

import pytest

from kafkakit.streams.model.binary import HEADER_BYTES, read_varint
from kafkakit.streams.model.compressed_sizes import DamagedError
from kafkakit.streams.model.guarded_reads import StoredRecord, stored_records
from kafkakit.streams.model.log_batches import (
    Batch,
    Codec,
    LogRecord,
    NoRecord,
    RecordFault,
    RecordTime,
    SkippedBatch,
    TimeKind,
    WalkEnd,
    batches_of,
    record_at,
    records_of,
)
from tests.clusters.streams_batches import Rec, batch, marker, uvarint, varint
from tests.rigs.bombs import batch_of

MS = 1_758_335_260_726


def only(data: bytes) -> Batch:
    (found,) = batches_of(data)
    assert isinstance(found, Batch)
    return found


def test_a_header_tells_offsets_times_and_producer() -> None:
    data = batch(
        40, [Rec(b"k", b"v"), Rec(b"k", b"w", delta_ms=5, offset_delta=3)], transactional=True, producer=(77, 2)
    )
    head = only(data)
    assert (head.base_offset, head.next_offset, head.count) == (40, 44, 2)
    assert (head.base_ms, head.max_ms) == (MS, MS + 5)
    assert (head.producer_id, head.producer_epoch, head.is_transactional) == (77, 2, True)
    assert (head.codec, head.is_control, head.is_log_append_time, head.has_delete_horizon) == (
        Codec.NONE,
        False,
        False,
        False,
    )
    assert head.end == head.size == len(data)
    assert only(marker(4, (7, 0), commits=True)).is_control


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_records_of_every_codec_that_can_be_read(codec: str) -> None:
    data = batch(5, [Rec(b"k", None, delta_ms=-3), Rec(None, b"v" * 300, delta_ms=9, offset_delta=4)], codec=codec)
    head = only(data)
    assert head.codec_name == codec
    assert list(records_of(data, head)) == [
        LogRecord(5, MS - 3, b"k", None),
        LogRecord(9, MS + 9, None, b"v" * 300),
    ]


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_a_codec_that_cannot_be_read_is_named(codec: str) -> None:
    data = batch(5, [Rec(b"k", b"v")], codec=codec)
    assert list(records_of(data, only(data))) == [RecordFault(f"compressed with {codec}")]


def test_a_codec_that_nobody_knows_is_named_by_its_number() -> None:
    data = bytearray(batch(5, [Rec(b"k", b"v")]))
    data[22] |= 6
    assert only(bytes(data)).codec is None
    assert list(records_of(bytes(data), only(bytes(data)))) == [RecordFault("compressed with codec 6")]


def test_with_log_append_time_all_records_have_the_brokers_time() -> None:
    data = batch(0, [Rec(b"a", b""), Rec(b"b", b"", delta_ms=-50)], log_append_time=True, max_ms=MS + 99)
    times = [r.timestamp_ms for r in records_of(data, only(data)) if isinstance(r, LogRecord)]
    assert times == [MS + 99, MS + 99]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_is_not_inflated(codec: str) -> None:
    data = batch(5, [Rec(b"k", bytes(8 << 20))], codec=codec)
    assert len(data) < 20_000
    assert list(records_of(data, only(data), 1 << 20)) == [RecordFault("inflates to more than 1048576 bytes")]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_damaged_compression_is_a_fault(codec: str) -> None:
    data = bytearray(batch(5, [Rec(b"k", b"v" * 100)], codec=codec))
    data[66] ^= 0xFF
    data[64] ^= 0xFF
    assert list(records_of(bytes(data), only(bytes(data)))) == [RecordFault(f"broken {codec} data")]


def test_a_cut_tail_ends_the_walk_without_being_a_fault() -> None:
    whole = batch(0, [Rec(b"k", b"v")])
    for cut in range(1, len(whole)):
        found = list(batches_of(whole + whole[:cut]))
        assert isinstance(found[0], Batch)
        assert found[1:] == [WalkEnd(len(whole), "cut tail", is_corrupt=False)]
    assert list(batches_of(b"")) == []


@pytest.mark.parametrize("length", [-1, 0, 13, 48, -(1 << 31)])
def test_a_length_that_cannot_be_ends_the_walk_with_its_reason(length: int) -> None:
    whole = batch(0, [Rec(b"k", b"v")])
    bad = bytearray(whole)
    bad[8:12] = pack(">i", length)
    found = list(batches_of(whole + bytes(bad) + whole))
    assert found[1:] == [WalkEnd(len(whole), f"a batch length of {length}", is_corrupt=True)]


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_named_and_passed(magic: int) -> None:
    old = pack(">qiIbb", 9, 20, 0, magic, 0) + bytes(14)
    whole = batch(10, [Rec(b"k", b"v")])
    first, second = batches_of(old + whole)
    assert first == SkippedBatch(0, 32, f"message format {magic}")
    assert isinstance(second, Batch)


@pytest.mark.parametrize(("at", "value"), [(0, -5), (0, 1 << 62), (23, -1), (57, -1)])
def test_impossible_offsets_are_passed_by(at: int, value: int) -> None:
    bad = bytearray(batch(0, [Rec(b"k", b"v")]))
    bad[at : at + (8 if at == 0 else 4)] = value.to_bytes(8 if at == 0 else 4, "big", signed=True)
    assert list(batches_of(bytes(bad))) == [SkippedBatch(0, len(bad), "impossible offsets in a batch header")]


def test_a_record_that_runs_over_its_batch_ends_it() -> None:
    data = bytearray(batch(0, [Rec(b"k", b"v"), Rec(b"l", b"w")]))
    data[61 + 9] = 0x7E  # the second record's length
    records = list(records_of(bytes(data), only(bytes(data))))
    assert records == [LogRecord(0, MS, b"k", b"v"), RecordFault("a record runs over its batch")]


def test_more_records_claimed_than_there_are() -> None:
    data = batch(0, [Rec(b"k", b"v")], count=1 << 30)
    records = list(records_of(data, only(data)))
    assert records == [LogRecord(0, MS, b"k", b"v"), RecordFault("a record runs over its batch")]


def test_an_offset_beyond_the_batch_is_a_fault() -> None:
    data = batch(0, [Rec(b"k", b"v"), Rec(b"l", b"w", offset_delta=9)], last_offset_delta=3)
    assert list(records_of(data, only(data)))[1] == RecordFault("a record's offset lies outside its batch")


@pytest.mark.parametrize("value", [0, -1, 1, 63, -64, 64, 300, -(2**31), 2**31 - 1])
def test_varints(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0, len(data)) == (value, len(data))
    assert read_varint(data, 0, len(data) - 1) == (0, -1)
    assert read_varint(b"\xff" * 9, 0, 9) == (0, -1)


def data_of(*deltas: int) -> list[Rec]:
    return [Rec(b"k", b"v", delta_ms=d) for d in deltas]


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip"])
def test_the_records_own_time_is_exact(codec: str) -> None:
    buffer = batch(10, data_of(0, -40, 25), codec=codec) + batch(13, data_of(0))
    assert record_at(buffer, 11) == RecordTime(offset=11, low_ms=MS - 40, high_ms=MS - 40, kind=TimeKind.RECORD)
    assert record_at(buffer, 12) == RecordTime(offset=12, low_ms=MS + 25, high_ms=MS + 25, kind=TimeKind.RECORD)
    assert record_at(buffer, 13) == RecordTime(offset=13, low_ms=MS, high_ms=MS, kind=TimeKind.RECORD)


def test_an_offset_before_the_buffer_gives_its_first_record() -> None:
    found = record_at(batch(10, data_of(7)), 3)
    assert isinstance(found, RecordTime)
    assert (found.offset, found.low_ms) == (10, MS + 7)


def test_markers_and_records_compacted_away_are_skipped() -> None:
    left = [Rec(b"k", b"v"), Rec(b"k", b"v", delta_ms=4, offset_delta=2)]
    buffer = (
        batch(0, left, last_offset_delta=9)
        + batch(10, [], last_offset_delta=5)
        + marker(16, (7, 0), commits=False, base_ms=MS + 1)
        + batch(20, data_of(8), transactional=True, producer=(7, 1))
    )
    assert record_at(buffer, 1) == RecordTime(offset=2, low_ms=MS + 4, high_ms=MS + 4, kind=TimeKind.RECORD)
    for offset in (3, 9, 10, 16, 20):
        assert record_at(buffer, offset) == RecordTime(
            offset=20, low_ms=MS + 8, high_ms=MS + 8, kind=TimeKind.RECORD, is_transactional=True, producer_id=7
        )
    assert record_at(buffer, 21) == NoRecord(21)


@pytest.mark.parametrize(
    ("ends", "is_committed"),
    [
        (marker(22, (7, 1), commits=True), True),
        (marker(22, (7, 1), commits=False), False),
        (marker(22, (8, 1), commits=True), False),
        (marker(22, (7, 1), commits=False) + marker(23, (7, 1), commits=True), False),
        (marker(22, (8, 1), commits=False) + marker(23, (7, 2), commits=True), True),
        (marker(22, (7, 1), commits=True)[:-1], False),
        (b"", False),
    ],
)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_next_marker_of_its_producer_commits_a_record(ends: bytes, is_committed: bool, codec: str) -> None:
    written = batch(20, data_of(8, 9), transactional=True, producer=(7, 1), codec=codec)
    found = record_at(written + ends, 21)
    assert isinstance(found, RecordTime)
    assert (found.offset, found.is_transactional, found.is_committed) == (21, True, is_committed)


def test_the_caller_learns_where_to_fetch_on() -> None:
    whole = batch(10, data_of(0, 1), last_offset_delta=5) + marker(16, (7, 0), commits=True)
    assert record_at(whole, 12) == NoRecord(17)
    assert record_at(whole + batch(17, data_of(0))[:-1], 12) == NoRecord(17)
    assert record_at(b"", 12) == NoRecord(12)


def test_log_append_time_is_the_brokers_and_needs_no_records() -> None:
    for codec in ("none", "lz4"):
        buffer = batch(10, data_of(0, -5), log_append_time=True, max_ms=MS + 9, codec=codec)
        assert record_at(buffer, 11) == RecordTime(offset=11, low_ms=MS + 9, high_ms=MS + 9, kind=TimeKind.APPEND)


def test_a_header_alone_gives_an_interval_whose_low_end_is_not_proven() -> None:
    buffer = batch(10, data_of(0, -40, 25), codec="lz4")
    assert record_at(buffer, 11) == RecordTime(
        offset=11, low_ms=MS, high_ms=MS + 25, kind=TimeKind.HEADER, is_low_proven=False
    )


def test_a_header_whose_base_time_is_the_cleaners_horizon_tells_no_low_end() -> None:
    buffer = bytearray(batch(10, data_of(0, 5), codec="snappy"))
    buffer[22] |= 64
    found = record_at(bytes(buffer), 10)
    assert isinstance(found, RecordTime)
    assert (found.low_ms, found.high_ms, found.is_low_proven) == (-1, MS + 5, False)


def test_a_compacted_batch_that_cannot_be_read_is_joined_with_what_follows() -> None:
    first = batch(10, data_of(0, 5), codec="lz4", last_offset_delta=9)
    later = batch(20, data_of(0), base_ms=MS + 1000)
    alone = record_at(first, 15)
    assert alone == RecordTime(
        offset=15,
        low_ms=MS,
        high_ms=MS + 5,
        kind=TimeKind.HEADER,
        is_low_proven=False,
        is_high_proven=False,
        is_offset_exact=False,
    )
    joined = record_at(first + later, 15)
    assert joined == RecordTime(
        offset=15, low_ms=MS, high_ms=MS + 1000, kind=TimeKind.HEADER, is_low_proven=False, is_offset_exact=False
    )
    at_its_base = record_at(first, 10)
    assert isinstance(at_its_base, RecordTime)
    assert at_its_base.is_high_proven


def test_a_record_without_a_time_says_so() -> None:
    buffer = batch(0, data_of(0), base_ms=-1, max_ms=-1)
    found = record_at(buffer, 0)
    assert isinstance(found, RecordTime)
    assert (found.low_ms, found.high_ms) == (-1, -1)


def test_what_cannot_be_read_before_the_record_is_told() -> None:
    old = pack(">qiIbb", 9, 20, 0, 1, 0) + bytes(14)
    buffer = old + batch(10, data_of(0))
    assert record_at(buffer, 9) == NoRecord(10, "message format 1")
    assert isinstance(record_at(buffer, 10), RecordTime)
    broken = bytearray(batch(10, data_of(0)))
    broken[8:12] = b"\0\0\0\1"
    assert record_at(bytes(broken), 10) == NoRecord(10, "a batch length of 1")


def test_a_batch_that_breaks_off_is_judged_by_its_header() -> None:
    buffer = bytearray(batch(0, data_of(0, 1, 2)))
    buffer[61 + 9] = 0x7E
    found = record_at(bytes(buffer), 2)
    assert isinstance(found, RecordTime)
    assert (found.kind, found.low_ms, found.high_ms) == (TimeKind.HEADER, MS, MS + 2)
    exact = record_at(bytes(buffer), 0)
    assert isinstance(exact, RecordTime)
    assert exact.kind is TimeKind.RECORD


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


def test_a_record_without_a_time_says_so_stored_records() -> None:
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
