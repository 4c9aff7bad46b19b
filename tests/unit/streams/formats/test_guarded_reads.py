"""Raw reads of committed data: which records count, and where a read stops."""

import struct

import pytest

from kafkakit.core.cluster_facts import Fetched, LogSpan
from kafkakit.streams.model.guarded_reads import PIECE_BYTES, RECORD_BYTES, GuardedPiece, GuardedRead, VerdictKind
from kafkakit.streams.model.log_batches import Codec
from tests.clusters.streams_batches import Rec, batch, marker, varint
from tests.rigs.bombs import CODECS, batch_of, gzip_zeros, packed, zeros_batch, zstd_zeros

LIMIT = 1 << 20
A, B = (7, 0), (8, 0)


def pieces(data: bytes, start: int = 0, *, aborted: tuple[tuple[int, int], ...] = ()) -> list[GuardedPiece]:
    read = guarded(data, start, aborted=aborted)
    return list(read.pieces())


def guarded(data: bytes, start: int = 0, *, aborted: tuple[tuple[int, int], ...] = ()) -> GuardedRead:
    fetched = Fetched(records=data, span=LogSpan(start=0, stable=100, end=100), aborted=aborted)
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


def test_nothing_comes_after_a_damaged_batch() -> None:
    large = bytearray(batch(1, [Rec(b"k", bytes(PIECE_BYTES))]))
    large[61 + 6] ^= 0x40  # its record's offset, after a length of four bytes
    found = pieces(batch(0, recs(b"a")) + bytes(large) + batch(2, recs(b"b")))
    assert offsets(found) == [0]
    assert [bool(piece.stopped) for piece in found] == [False, True]
