"""Verdicts on batches: what is safe to decompress, told from headers, for every codec and for bytes that lie."""

import random
import tracemalloc

import pytest
import zstandard

from kafkakit.streams.model.guarded_reads import (
    MOST_BLOCKS,
    BatchVerdict,
    VerdictKind,
    batch_verdict,
    measured,
    verdicts_of,
)
from kafkakit.streams.model.log_batches import Codec, WalkEnd
from tests.clusters.streams_batches import Rec, batch
from tests.rigs.bombs import CODECS, MIB, batch_of, gzip_zeros, only_batch, packed, zstd_zeros
from tests.rigs.segment_writer import legacy

LIMIT = MIB
TEXT = b"".join(b'{"order": %d, "state": "paid"}\n' % n for n in range(60_000))


def verdict(body: bytes, codec: Codec, limit: int = LIMIT) -> BatchVerdict:
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
    bomb, honest = gzip_zeros(64), packed(TEXT, Codec.GZIP)
    for body, kind in ((bomb, VerdictKind.BOMB), (honest, VerdictKind.SAFE)):
        data = batch_of(body, Codec.GZIP)
        found = batch_verdict(data, only_batch(data), 4 * MIB)
        assert found.kind is VerdictKind.SUSPECT
        decided = measured(data, found, 4 * MIB)
        assert decided.kind is kind
        assert measured(data, decided, 4 * MIB) is decided
    assert decided.at_most_bytes == 4 * MIB


def test_the_size_in_a_gzip_trailer_counts_for_nothing() -> None:
    data = batch_of(gzip_zeros(64)[:-4] + (100).to_bytes(4, "little"), Codec.GZIP)
    found = batch_verdict(data, only_batch(data), MIB)
    assert found.kind is VerdictKind.SUSPECT
    assert measured(data, found, MIB).kind is VerdictKind.BOMB


def test_one_byte_over_the_limit_is_too_much() -> None:
    data = batch_of(packed(bytes(MIB), Codec.GZIP), Codec.GZIP)
    for limit, kind in ((MIB, VerdictKind.SAFE), (MIB - 1, VerdictKind.BOMB)):
        assert measured(data, batch_verdict(data, only_batch(data), limit), limit).kind is kind


def test_a_second_member_counts_too() -> None:
    data = batch_of(packed(b"a", Codec.GZIP) + gzip_zeros(8), Codec.GZIP)
    assert measured(data, batch_verdict(data, only_batch(data), 2 * MIB), 2 * MIB).kind is VerdictKind.BOMB


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_gzip_that_is_cut_or_flipped_is_corrupt(cut: int) -> None:
    body = packed(TEXT, Codec.GZIP)
    flipped = bytearray(body)
    flipped[len(body) // 2] ^= 255
    for broken in (body[:-cut], bytes(flipped)):
        data = batch_of(broken, Codec.GZIP)
        found = batch_verdict(data, only_batch(data), 4 * MIB)
        assert measured(data, found, 4 * MIB).kind is VerdictKind.CORRUPT


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
        kind = measured(data, batch_verdict(data, only_batch(data), LIMIT), LIMIT).kind
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
    assert batch_verdict(bytes(data), only_batch(bytes(data)), LIMIT).kind is VerdictKind.CORRUPT


def test_a_walk_gives_all_verdicts_and_says_where_it_ends() -> None:
    small = batch(5, [Rec(None, b"v")] * 3)
    bomb = batch_of(zstd_zeros(4 * MIB), Codec.ZSTD, base=8, count=10)
    late = batch(30, [Rec(None, b"v")])
    found = list(verdicts_of(small + bomb + late + late[:30], 6, LIMIT))
    assert [(v.kind, v.start, v.end) for v in found[:3] if isinstance(v, BatchVerdict)] == [
        (VerdictKind.SAFE, 5, 8), (VerdictKind.BOMB, 8, 18), (VerdictKind.SAFE, 30, 31),
    ]  # fmt: skip
    assert isinstance(found[3], WalkEnd)
    assert not found[3].is_corrupt
    assert list(verdicts_of(small + bomb, 18, LIMIT)) == []


def test_a_header_that_tells_no_offsets_counts_up_to_the_next_batch() -> None:
    old = legacy(5) + legacy(6)
    found = list(verdicts_of(old + batch(7, [Rec(None, b"v")]), 5, LIMIT))
    assert [(v.kind, v.start, v.end) for v in found if isinstance(v, BatchVerdict)] == [
        (VerdictKind.CORRUPT, 5, 7), (VerdictKind.SAFE, 7, 8),
    ]  # fmt: skip
    first = found[0]
    assert isinstance(first, BatchVerdict)
    assert (first.reason, first.size) == ("message format 1", len(old))
    (end,) = verdicts_of(old, 5, LIMIT)
    assert isinstance(end, WalkEnd)
    assert (end.position, end.is_corrupt) == (0, True)
