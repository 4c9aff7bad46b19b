"""Raw reads of committed data; verdicts on batches."""

import random
import struct
import tracemalloc

import pytest
import zstandard

from kafkakit.core.cluster_facts import FetchedBatches, LogSpan
from kafkakit.streams.model.guarded_reads import (
    MOST_BLOCKS,
    PIECE_BYTES,
    RECORD_BYTES,
    BatchVerdict,
    GuardedPiece,
    GuardedRead,
    VerdictKind,
    batch_verdict,
    measure_batch,
    verdicts_of,
)
from kafkakit.streams.model.log_batches import Codec, WalkEnd
from tests.clusters.streams_batches import Rec, batch, marker, varint
from tests.rigs.bombs import CODECS, MIB, batch_of, gzip_zeros, only_batch, packed, zeros_batch, zstd_zeros
from tests.rigs.segment_writer import legacy

LIMIT = 1 << 20
A, B = (7, 0), (8, 0)


def pieces(data: bytes, start: int = 0, *, aborted: tuple[tuple[int, int], ...] = ()) -> list[GuardedPiece]:
    read = guarded(data, start, aborted=aborted)
    return list(read.pieces())


def guarded(data: bytes, start: int = 0, *, aborted: tuple[tuple[int, int], ...] = ()) -> GuardedRead:
    fetched = FetchedBatches(records=data, span=LogSpan(start=0, stable=100, end=100), aborted=aborted)
    return GuardedRead(fetched=fetched, start=start, limit_bytes=LIMIT)


def offsets(found: list[GuardedPiece]) -> list[int]:
    return [record.at for piece in found for record in piece.records]


def recs(*values: bytes) -> list[Rec]:
    return [Rec(b"k", value) for value in values]


def compressed(base: int, values: tuple[bytes, ...], codec: Codec) -> bytes:
    """A batch as a client compresses it."""
    plain = batch(base, recs(*values))
    return batch_of(packed(plain[61:], codec), codec, base=base, count=len(values))


@pytest.mark.parametrize("start", range(6))
def test_what_lies_before_the_offset_asked_for_is_left_out(start: int) -> None:
    data = batch(0, recs(b"a", b"b", b"c")) + batch(3, recs(b"d", b"e"))
    found = pieces(data, start)
    assert offsets(found) == list(range(start, 5))
    assert found[-1].next_offset == 5
    assert not any(piece.stopped for piece in found)
    assert guarded(data, start).next_offset == 5


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_lie_among_others(codec: Codec) -> None:
    values = tuple(b"%d" % number * 100 for number in range(50))
    data = batch(0, recs(b"a")) + compressed(1, values, codec) + batch(51, recs(b"z"))
    (piece,) = pieces(data)
    assert [record.value() for record in piece.records] == [b"a", *values, b"z"]
    assert [record.at for record in piece.records] == list(range(52))


def test_records_of_aborted_transactions_do_not_count() -> None:
    data = b"".join(
        (
            batch(0, recs(b"a1"), producer=A, transactional=True),  # aborted at 6
            batch(1, recs(b"plain")),
            batch(2, recs(b"b1"), producer=B, transactional=True),  # committed at 4
            batch(3, recs(b"a2"), producer=A, transactional=True),
            marker(4, B, commits=True),
            batch(5, recs(b"same producer, no transaction"), producer=A),
            marker(6, A, commits=False),
            batch(7, recs(b"a3"), producer=A, transactional=True),  # committed at 8
            marker(8, A, commits=True),
            batch(9, recs(b"b2"), producer=B, transactional=True),  # aborted at 10
            marker(10, B, commits=False),
        )
    )
    found = pieces(data, aborted=((B[0], 9), (A[0], 0)))
    assert offsets(found) == [1, 2, 5, 7]
    assert found[-1].next_offset == 11
    # A read that begins inside the aborted transaction is told of it too.
    later = data[len(batch(0, recs(b"a1"), producer=A, transactional=True)) :]
    assert offsets(pieces(later, 1, aborted=((A[0], 0), (B[0], 9)))) == [1, 2, 5, 7]
    assert offsets(pieces(data)) == [0, 1, 2, 3, 5, 7, 9], "without what was aborted all counts but the markers"


def test_a_read_of_markers_alone_comes_further() -> None:
    found = pieces(marker(3, A, commits=False), 3, aborted=((A[0], 1),))
    assert found == [GuardedPiece(next_offset=4)]


def test_compaction_leaves_gaps() -> None:
    data = b"".join(
        (
            batch(10, [Rec(b"k", b"a", offset_delta=2), Rec(b"k", b"b", offset_delta=5)], last_offset_delta=9),
            batch(20, [], last_offset_delta=4, producer=A),  # kept for its producer's state
            batch(40, [Rec(b"k", b"c", offset_delta=1)], last_offset_delta=3),
        )
    )
    found = pieces(data, 7)
    assert offsets(found) == [12, 15, 41]
    assert found[-1].next_offset == 44
    assert offsets(pieces(data, 13)) == [15, 41]
    assert pieces(data, 42)[-1] == GuardedPiece(next_offset=44, records=[])


def test_nothing_read_is_told_once() -> None:
    assert pieces(b"", 5) == [GuardedPiece(next_offset=5)]
    assert guarded(b"", 5).next_offset == 5


def test_a_cut_batch_is_for_the_next_request() -> None:
    data = batch(0, recs(b"a", b"b")) + batch(2, recs(b"c"))
    whole = len(batch(0, recs(b"a", b"b")))
    for size in range(whole, len(data)):
        read = guarded(data[:size])
        assert read.next_offset == 2
        assert offsets(list(read.pieces())) == [0, 1]
    for size in range(whole):
        assert list(guarded(data[:size]).pieces()) == [GuardedPiece(next_offset=0)]
        assert guarded(data[:size]).next_offset == 0


@pytest.mark.parametrize(
    ("middle", "kind"),
    [
        (zeros_batch(3, LIMIT), VerdictKind.BOMB),
        (batch_of(zstd_zeros(1 << 30), Codec.ZSTD, count=3), VerdictKind.BOMB),
        (batch_of(gzip_zeros(2), Codec.GZIP, count=3), VerdictKind.BOMB),
        (batch_of(b"\xff\xff\xff\xff\x07" + bytes(100_000), Codec.SNAPPY, count=3), VerdictKind.CORRUPT),
        (batch_of(b"no zstd", Codec.ZSTD, count=3), VerdictKind.CORRUPT),
        (batch_of(packed(bytes(50), Codec.LZ4)[:-5] + bytes(5), Codec.LZ4, count=3), VerdictKind.CORRUPT),
        (batch_of(packed(b"text" * 9, Codec.SNAPPY)[:-3], Codec.SNAPPY, count=3), VerdictKind.CORRUPT),
        (batch_of(packed(b"text" * 9, Codec.GZIP)[:-3], Codec.GZIP, count=3), VerdictKind.CORRUPT),
        (batch_of(b"a body that is no records", Codec.NONE, count=3), VerdictKind.CORRUPT),
        (batch_of(packed(b"a body that is no records", Codec.ZSTD), Codec.ZSTD, count=3), VerdictKind.CORRUPT),
        (batch_of(b"data", Codec.NONE, count=3, attributes=6), VerdictKind.CORRUPT),
    ],
)
def test_a_read_stops_before_what_must_not_be_decoded_and_goes_on_behind(middle: bytes, kind: VerdictKind) -> None:
    middle = struct.pack(">q", 2) + middle[8:]
    data = batch(0, recs(b"a", b"b")) + middle + batch(5, recs(b"c"))
    found = pieces(data)
    assert offsets(found) == [0, 1]
    assert found[-1].next_offset == 2
    assert found[-1].stopped.startswith(kind.value)
    verdict = found[-1].verdict
    assert verdict is not None
    assert (verdict.kind, verdict.start, verdict.end) == (kind, 2, 5)
    after = pieces(data, verdict.end)
    assert (offsets(after), after[-1].stopped) == ([5], "")
    assert pieces(data, 3)[0].next_offset == 3, "in its middle it stops where it was asked for"


def test_gzip_that_only_may_be_too_large_is_decoded() -> None:
    body = batch(0, [Rec(b"k", bytes(200_000))])[61:]
    data = batch_of(packed(body, Codec.GZIP) + packed(b"", Codec.GZIP) * 40, Codec.GZIP)
    assert guarded(data).verdicts[0].kind is VerdictKind.SUSPECT
    (piece,) = pieces(data)
    assert [len(record) for record in piece.records] == [200_000]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("is_last", [False, True])
def test_old_formats_are_refused_and_never_passed_over(version: int, *, is_last: bool) -> None:
    old = bytearray(batch(2, recs(b"old")))
    old[16] = version
    data = batch(0, recs(b"a", b"b")) + bytes(old) + (b"" if is_last else batch(3, recs(b"c")))
    read = guarded(data)
    assert read.next_offset is None
    found = list(read.pieces())
    assert offsets(found) == [0, 1]
    assert (found[-1].next_offset, found[-1].verdict) == (2, None)
    assert f"message format {version}" in found[-1].stopped


def test_bytes_that_are_no_batch_stop_a_read_without_a_verdict() -> None:
    data = batch(0, recs(b"a")) + bytes(80)
    found = pieces(data)
    assert offsets(found) == [0]
    assert (found[-1].next_offset, found[-1].verdict) == (1, None)
    assert "a batch length of 0" in found[-1].stopped


def test_one_record_that_is_damaged_costs_its_batch_alone() -> None:
    good, bad = batch(0, recs(b"a", b"b")), bytearray(batch(2, recs(b"c", b"d")))
    bad[61 + 3] ^= 0x40  # its first record's offset
    found = pieces(good + bytes(bad) + batch(4, recs(b"e")))
    assert offsets(found) == [0, 1]
    verdict = found[-1].verdict
    assert verdict is not None
    assert (verdict.kind, verdict.start, verdict.end) == (VerdictKind.CORRUPT, 2, 4)


def test_much_is_decoded_a_piece_at_a_time() -> None:
    value = bytes(PIECE_BYTES // 4)
    data = b"".join(batch(number, recs(value)) for number in range(10))
    found = pieces(data)
    assert offsets(found) == list(range(10))
    assert [len(piece.records) for piece in found] == [4, 4, 2]
    assert [piece.next_offset for piece in found] == [4, 8, 10]


def test_a_batch_that_says_it_has_more_records_than_bytes_costs_nothing() -> None:
    data = batch(0, [Rec(None, b"a")], count=(1 << 31) - 1, last_offset_delta=(1 << 31) - 2)
    (piece,) = pieces(data)
    assert piece.stopped == "bomb: it has 2147483647 records"
    most = LIMIT // RECORD_BYTES
    (piece,) = pieces(batch(0, [Rec(None, b"a")], count=most))
    assert piece.stopped == "corrupt: a record runs over its batch"
    short = batch_of(varint(3) * 5, Codec.NONE, count=5)
    assert pieces(short)[0].stopped.startswith("corrupt: ")


def test_very_many_tiny_records_are_a_bomb_too() -> None:
    most = LIMIT // RECORD_BYTES
    data = batch(0, [Rec(None, None)] * (most + 1), codec="zstd")
    assert len(data) < 80_000, "it is no bomb by its bytes"
    (piece,) = pieces(data)
    assert piece.stopped == f"bomb: it has {most + 1} records"
    (piece,) = pieces(batch(0, [Rec(None, None)] * most, codec="zstd"))
    assert len(piece.records) == most


FEW, MANY = ((b"a", b"1"), (b"", None)), tuple((b"%d" % number, b"v") for number in range(20))


def test_headers_of_a_few_and_of_many_are_read_beside_records_without() -> None:
    made = [(), FEW, MANY, (), FEW[:1], MANY[:8], MANY[:9]]
    (piece,) = pieces(batch(0, [Rec(b"k", b"v", headers=headers) for headers in made]))
    found = [tuple(one.headers() or ()) for one in piece.records]
    assert found == [tuple((name.decode(), value) for name, value in headers) for headers in made]


@pytest.mark.parametrize("headers", [FEW, MANY])
def test_headers_that_run_over_their_record_cost_their_batch(headers: tuple[tuple[bytes, bytes | None], ...]) -> None:
    whole = batch(0, [Rec(b"k", b"v", headers=headers)])
    damage = {
        "a count of one more": varint(len(headers) + 1),
        "a count of one less": varint(len(headers) - 1),
        "a count below 0": varint(-1),
    }
    good = whole.index(varint(len(headers)) + varint(len(headers[0][0])))
    for what, count in damage.items():
        assert len(count) == len(varint(len(headers)))
        found = pieces(batch(0, recs(b"a")) + moved(whole[:good] + count + whole[good + len(count) :], 1))
        assert offsets(found) == [0], what
        assert "headers run over" in found[-1].stopped, what


def moved(data: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + data[8:]


def test_nothing_comes_after_a_damaged_batch() -> None:
    large = bytearray(batch(1, [Rec(b"k", bytes(PIECE_BYTES))]))
    large[61 + 6] ^= 0x40  # its record's offset, after a length of four bytes
    found = pieces(batch(0, recs(b"a")) + bytes(large) + batch(2, recs(b"b")))
    assert offsets(found) == [0]
    assert [bool(piece.stopped) for piece in found] == [False, True]


LIMIT_BATCH_VERDICTS = MIB
TEXT = b"".join(b'{"order": %d, "state": "paid"}\n' % n for n in range(60_000))


def verdict(body: bytes, codec: Codec, limit: int = LIMIT_BATCH_VERDICTS) -> BatchVerdict:
    data = batch_of(body, codec)
    return batch_verdict(data, only_batch(data), limit)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"a", bytes(300_000), TEXT, random.Random(1).randbytes(400_000)], ids=len)
def test_the_bound_holds_what_comes_out(codec: Codec, data: bytes) -> None:
    body = packed(data, codec)
    for limit in (1, 1_000, 500_000, 10 * MIB, 1 << 40):
        found = verdict(body, codec, limit)
        assert found.at_most_bytes >= len(data)
        assert found.kind is not VerdictKind.CORRUPT
        if found.is_safe:
            assert len(data) <= limit
        assert found.compressed_bytes == len(body)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.LZ4, Codec.SNAPPY])
def test_an_ordinary_batch_is_safe_at_twice_its_size(codec: Codec) -> None:
    assert verdict(packed(TEXT, codec), codec, 2 * len(TEXT)).is_safe


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.LZ4, Codec.SNAPPY])
def test_a_batch_over_the_limit_is_a_bomb(codec: Codec) -> None:
    assert verdict(packed(bytes(4 * MIB), codec), codec).kind is VerdictKind.BOMB


def test_gzip_is_suspect_until_it_is_measured() -> None:
    forged, honest = gzip_zeros(64)[:-4] + bytes(4), packed(TEXT, Codec.GZIP)
    for body, kind in ((forged, VerdictKind.BOMB), (honest, VerdictKind.SAFE)):
        data = batch_of(body, Codec.GZIP)
        found = batch_verdict(data, only_batch(data), 4 * MIB)
        assert found.kind is VerdictKind.SUSPECT
        decided = measure_batch(data, found, 4 * MIB)
        assert decided.kind is kind
        assert measure_batch(data, decided, 4 * MIB) is decided
    assert decided.at_most_bytes == 4 * MIB


def test_a_gzip_trailer_is_believed_where_it_tells_more_than_the_limit() -> None:
    data = batch_of(gzip_zeros(64), Codec.GZIP)
    found = batch_verdict(data, only_batch(data), MIB)
    assert (found.kind, found.declared_bytes) == (VerdictKind.BOMB, 64 * MIB)
    assert measure_batch(data, found, MIB) is found
    assert batch_verdict(data, only_batch(data), 64 * MIB).kind is VerdictKind.SUSPECT
    data = data[:-4] + (1 << 31).to_bytes(4, "little")
    assert batch_verdict(data, only_batch(data), MIB).kind is VerdictKind.CORRUPT


def test_a_smaller_size_in_a_gzip_trailer_counts_for_nothing() -> None:
    data = batch_of(gzip_zeros(64)[:-4] + (100).to_bytes(4, "little"), Codec.GZIP)
    found = batch_verdict(data, only_batch(data), MIB)
    assert found.kind is VerdictKind.SUSPECT
    assert measure_batch(data, found, MIB).kind is VerdictKind.BOMB


def test_one_byte_over_the_limit_is_too_much() -> None:
    data = batch_of(packed(bytes(MIB), Codec.GZIP), Codec.GZIP)
    for limit, kind in ((MIB, VerdictKind.SAFE), (MIB - 1, VerdictKind.BOMB)):
        assert measure_batch(data, batch_verdict(data, only_batch(data), limit), limit).kind is kind


def test_a_second_member_counts_too() -> None:
    data = batch_of(packed(b"a", Codec.GZIP) + gzip_zeros(8), Codec.GZIP)
    assert measure_batch(data, batch_verdict(data, only_batch(data), 2 * MIB), 2 * MIB).kind is VerdictKind.BOMB


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_gzip_that_is_cut_or_flipped_is_corrupt(cut: int) -> None:
    body = packed(TEXT, Codec.GZIP)
    flipped = bytearray(body)
    flipped[len(body) // 2] ^= 255
    for broken in (body[:-cut], bytes(flipped)):
        data = batch_of(broken, Codec.GZIP)
        found = batch_verdict(data, only_batch(data), 4 * MIB)
        assert measure_batch(data, found, 4 * MIB).kind is VerdictKind.CORRUPT


def test_a_gibibyte_of_zeros_is_found_exactly_and_in_flat_memory() -> None:
    data = batch_of(zstd_zeros(1 << 30), Codec.ZSTD, count=1024)
    item = only_batch(data)
    tracemalloc.start()
    try:
        found = batch_verdict(data, item, 100_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.kind, found.at_most_bytes) == (VerdictKind.BOMB, 1 << 30)
    assert found.ratio > 32_000
    assert peak < 200_000
    assert (found.start, found.end) == (0, 1024)


def test_a_frame_that_lies_about_its_size_is_corrupt_or_bounded_by_its_blocks() -> None:
    sized = zstandard.ZstdCompressor(level=3).compress(TEXT)
    assert verdict(sized, Codec.ZSTD, 2 * len(TEXT)).declared_bytes == len(TEXT)
    flags, width = sized[4], 4
    assert (flags >> 6, flags & 0x20) == (2, 0x20)
    small = sized[:5] + (400_000).to_bytes(width, "little") + sized[5 + width :]
    assert verdict(small, Codec.ZSTD).kind is VerdictKind.BOMB
    large = sized[:5] + (1 << 31).to_bytes(width, "little") + sized[5 + width :]
    assert verdict(large, Codec.ZSTD).kind is VerdictKind.CORRUPT


def test_what_is_beyond_the_walk_counts_as_the_most_it_can_be() -> None:
    empty = (0).to_bytes(3, "little")
    body = b"\x28\xb5\x2f\xfd\x00\x58" + empty * (MOST_BLOCKS + 10) + (1).to_bytes(3, "little")
    assert verdict(body, Codec.ZSTD, 10 * MIB).kind is VerdictKind.BOMB
    skips = b"\x50\x2a\x4d\x18\0\0\0\0" * (MOST_BLOCKS + 1) + zstd_zeros(MIB)
    assert verdict(skips, Codec.ZSTD, 2 * MIB).kind is VerdictKind.BOMB
    whole = b"\x28\xb5\x2f\xfd\x00\x58" + empty * 1_000 + (1).to_bytes(3, "little")
    assert verdict(whole, Codec.ZSTD, 10 * MIB).at_most_bytes == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("how", ["cut", "rubbish", "trailing"])
def test_malformed_frames_are_corrupt(codec: Codec, how: str) -> None:
    body = packed(random.Random(2).randbytes(900_000), codec)
    broken = {"cut": body[:-7], "rubbish": b"\xff" * 100_000, "trailing": body + b"\xff\xff\xff"}[how]
    found = verdict(broken, codec)
    kind = found.kind
    if kind is VerdictKind.SUSPECT:
        data = batch_of(broken, codec)
        kind = measure_batch(
            data, batch_verdict(data, only_batch(data), LIMIT_BATCH_VERDICTS), LIMIT_BATCH_VERDICTS
        ).kind
    assert kind is VerdictKind.CORRUPT


def test_snappy_that_declares_more_than_it_can_hold_is_corrupt() -> None:
    body = b"\xff\xff\xff\xff\x0f" + bytes(60_000)
    assert verdict(body, Codec.SNAPPY).kind is VerdictKind.CORRUPT


def test_lz4_blocks_bound_a_frame_whatever_it_declares() -> None:
    flags, large = 0x40 | 0x20 | 0x08, 7 << 4
    frame = b"\x04\x22\x4d\x18" + bytes([flags, large]) + (5).to_bytes(8, "little") + b"\0"
    block = (10_000).to_bytes(4, "little") + bytes(10_000)
    found = verdict(frame + block + bytes(4), Codec.LZ4)
    assert (found.kind, found.at_most_bytes, found.declared_bytes) == (VerdictKind.BOMB, 255 * 10_000, 5)
    bare = b"\x04\x22\x4d\x18\x60\x40\0" + (1 << 31 | 65_536).to_bytes(4, "little") + bytes(65_536)
    assert verdict(bare + bytes(4), Codec.LZ4).at_most_bytes == 65_536
    assert verdict(bare + bytes(4), Codec.LZ4, 65_536).is_safe
    part = b"\x04\x22\x4d\x18\x60\x40\0" + (1 << 31 | 10_000).to_bytes(4, "little") + bytes(10_000) + bytes(4)
    assert verdict(part, Codec.LZ4, 10_000).at_most_bytes == 10_000
    too_large = b"\x04\x22\x4d\x18\x60\x40\0" + (65_537).to_bytes(4, "little") + bytes(65_537) + bytes(4)
    assert verdict(too_large, Codec.LZ4).kind is VerdictKind.CORRUPT


def test_what_cannot_exceed_the_limit_is_not_looked_into() -> None:
    for codec, times in ((Codec.GZIP, 1032), (Codec.SNAPPY, 22), (Codec.LZ4, 255), (Codec.ZSTD, 1 << 19)):
        assert verdict(b"\xff" * 100, codec, 100 * times).is_safe
        assert not verdict(b"\xff" * 100, codec, 100 * times - 1).is_safe


def test_batches_without_records_and_without_compression_are_safe() -> None:
    assert verdict(b"", Codec.ZSTD, 1).is_safe
    assert verdict(bytes(2 * MIB), Codec.NONE, 1).is_safe


def test_an_unknown_compression_is_corrupt() -> None:
    data = bytearray(batch_of(b"x", Codec.ZSTD))
    data[22] = 6
    assert batch_verdict(bytes(data), only_batch(bytes(data)), LIMIT_BATCH_VERDICTS).kind is VerdictKind.CORRUPT


def test_a_walk_gives_all_verdicts_and_says_where_it_ends() -> None:
    small = batch(5, [Rec(None, b"v")] * 3)
    bomb = batch_of(zstd_zeros(4 * MIB), Codec.ZSTD, base=8, count=10)
    late = batch(30, [Rec(None, b"v")])
    found = list(verdicts_of(small + bomb + late + late[:30], 6, LIMIT_BATCH_VERDICTS))
    assert [(v.kind, v.start, v.end) for v in found[:3] if isinstance(v, BatchVerdict)] == [
        (VerdictKind.SAFE, 5, 8), (VerdictKind.BOMB, 8, 18), (VerdictKind.SAFE, 30, 31),
    ]  # fmt: skip
    assert isinstance(found[3], WalkEnd)
    assert not found[3].is_corrupt
    assert list(verdicts_of(small + bomb, 18, LIMIT_BATCH_VERDICTS)) == []


def test_a_header_that_tells_no_offsets_counts_up_to_the_next_batch() -> None:
    old = legacy(5) + legacy(6)
    found = list(verdicts_of(old + batch(7, [Rec(None, b"v")]), 5, LIMIT_BATCH_VERDICTS))
    assert [(v.kind, v.start, v.end) for v in found if isinstance(v, BatchVerdict)] == [
        (VerdictKind.CORRUPT, 5, 7), (VerdictKind.SAFE, 7, 8),
    ]  # fmt: skip
    first = found[0]
    assert isinstance(first, BatchVerdict)
    assert (first.reason, first.size) == ("message format 1", len(old))
    (end,) = verdicts_of(old, 5, LIMIT_BATCH_VERDICTS)
    assert isinstance(end, WalkEnd)
    assert (end.position, end.is_corrupt) == (0, True)
