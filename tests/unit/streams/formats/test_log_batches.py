"""Batches and their records out of raw reads: cut, compressed, old and broken ones too."""

from struct import pack

import pytest

from kafkakit.streams.model.log_batches import (
    Batch,
    Codec,
    LogRecord,
    RecordFault,
    Skipped,
    WalkEnd,
    batches_of,
    read_varint,
    records_of,
)
from tests.clusters.streams_batches import Rec, batch, marker, varint

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
    assert first == Skipped(0, 32, f"message format {magic}")
    assert isinstance(second, Batch)


@pytest.mark.parametrize(("at", "value"), [(0, -5), (0, 1 << 62), (23, -1), (57, -1)])
def test_impossible_offsets_are_passed_by(at: int, value: int) -> None:
    bad = bytearray(batch(0, [Rec(b"k", b"v")]))
    bad[at : at + (8 if at == 0 else 4)] = value.to_bytes(8 if at == 0 else 4, "big", signed=True)
    assert list(batches_of(bytes(bad))) == [Skipped(0, len(bad), "impossible offsets in a batch header")]


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
