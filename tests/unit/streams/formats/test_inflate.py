"""Bounded inflation: honest frames come out whole, bombs and damage are refused whatever their headers claim."""

import gzip
import random
import zlib

import pytest
import zstandard

from kafkakit.streams.model.compressed_sizes import MAX_BLOCK, DamagedError, zstd_size
from kafkakit.streams.model.inflate import BombError, inflate_gzip, inflate_zstd

LIMIT = 64 * 1024
SAMPLES = [b"", b"a", b"abc" * 5000, random.Random(1).randbytes(60_000), bytes(LIMIT)]


def frame(data: bytes, *, sized: bool = True, checked: bool = False, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_content_size=sized, write_checksum=checked).compress(data)


def streamed(data: bytes, level: int = 3) -> bytes:
    """A frame without a size and with a large window, as Java's output stream writes it."""
    writer = zstandard.ZstdCompressor(level=level).compressobj()
    return writer.compress(data) + writer.flush()


@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_honest_frames_come_out_whole(data: bytes) -> None:
    for packed in (
        frame(data),
        frame(data, sized=False),
        frame(data, checked=True),
        frame(data, level=19),
        streamed(data),
        streamed(data, level=22),
    ):
        assert inflate_zstd(packed, LIMIT) == data
        size = zstd_size(packed)
        assert size.length == len(packed)
        assert size.at_most >= len(data)
        assert size.declared in (None, len(data))


def test_frames_are_joined_and_skippable_ones_are_skipped() -> None:
    skippable = b"\x53\x2a\x4d\x18\x03\0\0\0xyz"
    packed = frame(b"one") + skippable + streamed(b"two")
    assert inflate_zstd(packed, LIMIT) == b"onetwo"
    assert zstd_size(packed + b"rest", frames=2).length == len(packed)
    with pytest.raises(DamagedError):
        inflate_zstd(skippable, LIMIT)


@pytest.mark.parametrize("pack", [frame, streamed, lambda data: frame(data, sized=False)])
def test_one_byte_too_many_is_refused(pack: type[bytes]) -> None:
    assert inflate_zstd(pack(bytes(LIMIT)), LIMIT) == bytes(LIMIT)
    for data in (bytes(LIMIT + 1), random.Random(2).randbytes(LIMIT + 1)):
        with pytest.raises(BombError):
            inflate_zstd(pack(data), LIMIT)


def test_a_gigabyte_of_zeros_is_refused_from_its_headers() -> None:
    block = (MAX_BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (MAX_BLOCK << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    bomb = b"\x28\xb5\x2f\xfd\x00\x58" + block * 8191 + last
    assert zstd_size(bomb).at_most == 1 << 30
    with pytest.raises(BombError):
        inflate_zstd(bomb, LIMIT)


def test_what_the_headers_say_is_judged_before_a_byte_is_inflated() -> None:
    rubbish = b"\xff" * 20
    blocks = b"".join([(len(rubbish) << 3 | 2 << 1 | last).to_bytes(3, "little") + rubbish for last in (0, 1)])
    # Inflating this would find damage; two blocks of up to 128 KiB are too much already.
    with pytest.raises(BombError):
        inflate_zstd(b"\x28\xb5\x2f\xfd\x00\x58" + blocks, LIMIT)
    one = (len(rubbish) << 3 | 2 << 1 | 1).to_bytes(3, "little") + rubbish
    with pytest.raises(BombError):
        inflate_zstd(b"\x28\xb5\x2f\xfd\x80\x58" + (LIMIT + 1).to_bytes(4, "little") + one, LIMIT)
    with pytest.raises(DamagedError):
        inflate_zstd(b"\x28\xb5\x2f\xfd\x00\x58" + one, LIMIT)


def test_a_claim_that_lies_is_not_believed() -> None:
    honest = frame(bytes(70_000))
    descriptor = honest[4]
    assert descriptor >> 6 == 2
    lying = honest[:5] + (100).to_bytes(4, "little") + honest[9:]
    with pytest.raises((BombError, DamagedError)):
        inflate_zstd(lying, LIMIT)


def test_every_cut_and_every_foreign_byte_is_an_error_of_ours() -> None:
    packed = frame(b"some text, some text, some text" * 20, checked=True)
    for at in range(len(packed)):
        with pytest.raises(DamagedError):
            inflate_zstd(packed[:at], LIMIT)
        try:
            inflate_zstd(packed[:at] + bytes((packed[at] ^ 0x55,)) + packed[at + 1 :], LIMIT)
        except (DamagedError, BombError):
            continue


def test_a_window_that_needs_gigabytes_of_memory_is_refused() -> None:
    with pytest.raises((DamagedError, BombError)):
        inflate_zstd(b"\x28\xb5\x2f\xfd\x00\xf8" + (1 << 3 | 1).to_bytes(3, "little") + b"a" + b"\0" * 9, LIMIT)


@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_gzip_comes_out_whole(data: bytes) -> None:
    assert inflate_gzip(gzip.compress(data), LIMIT) == data
    assert inflate_gzip(gzip.compress(data[:9]) + gzip.compress(data[9:]), LIMIT) == data


def test_gzip_bombs_and_damage_are_refused() -> None:
    with pytest.raises(BombError):
        inflate_gzip(gzip.compress(bytes(50_000_000)), LIMIT)
    with pytest.raises(BombError):
        inflate_gzip(gzip.compress(bytes(LIMIT)) + gzip.compress(b"a"), LIMIT)
    packed = gzip.compress(b"text" * 10)
    for damaged in (
        b"",
        b"text",
        packed[:-1],
        packed[:12] + b"\xff" + packed[13:],
        zlib.compress(b"text"),
        packed * 65,
    ):
        with pytest.raises(DamagedError):
            inflate_gzip(damaged, LIMIT)
