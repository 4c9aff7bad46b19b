"""The time of the record at an offset, and how far it can be trusted."""

from struct import pack

import pytest

from kafkakit.streams.model.log_batches import NoRecord, RecordTime, TimeKind, record_at
from tests.clusters.streams_batches import Rec, batch, marker

MS = 1_758_335_260_726


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
