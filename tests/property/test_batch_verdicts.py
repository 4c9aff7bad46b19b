"""Properties of verdicts: no bytes raise, no bound lies, and verdicts come in order."""

import zlib
from itertools import pairwise

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.streams.model.guarded_reads import VerdictKind, batch_verdict, measured
from kafkakit.streams.model.guarded_reads import verdicts_of as walk
from kafkakit.streams.model.log_batches import Codec, WalkEnd
from tests.rigs.bombs import CODECS, batch_of, only_batch, packed, zstd_zeros

STARTS = (b"", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18\x60\x40\x82", b"\x82SNAPPY\x00" + bytes(8), b"\x1f\x8b\x08\0")
LIMITS = st.integers(0, 1 << 22)


@given(st.sampled_from(STARTS), st.binary(max_size=300), st.sampled_from(CODECS), LIMITS)
def test_no_bytes_raise_and_safe_ones_are_bounded(start: bytes, rest: bytes, codec: Codec, limit: int) -> None:
    data = batch_of(start + rest, codec)
    found = measured(data, batch_verdict(data, only_batch(data), limit), limit)
    assert found.kind is not VerdictKind.SUSPECT
    if found.is_safe:
        assert found.at_most_bytes <= limit


@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 255), st.sampled_from(CODECS), LIMITS)
def test_what_decoders_make_of_altered_bytes_is_within_the_bound(
    held: bytes, at: int, byte: int, codec: Codec, limit: int
) -> None:
    body = bytearray(packed(held * 50, codec))
    body[at % len(body)] = byte
    data = batch_of(bytes(body), codec)
    found = measured(data, batch_verdict(data, only_batch(data), limit), limit)
    if found.is_safe and codec in (Codec.ZSTD, Codec.GZIP):
        assert len(decoded(bytes(body), codec)) <= limit


def decoded(body: bytes, codec: Codec) -> bytes:
    """What a decoder gives before it finds damage."""
    out = b""
    try:
        if codec is Codec.GZIP:
            reader = zlib.decompressobj(31)
            for at in range(len(body)):
                out += reader.decompress(body[at : at + 1])
        else:
            stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
            for at in range(len(body)):
                out += stream.decompress(body[at : at + 1])
    except (zlib.error, zstandard.ZstdError):
        pass
    return out


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """Batches of all kinds with the gaps that compaction leaves, and an offset to start from."""
    made, offset = [], draw(st.integers(0, 50))
    first = offset
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.sampled_from((0, 0, 0, 1, 7)))
        count = draw(st.integers(1, 5))
        body, codec = draw(
            st.sampled_from(
                ((b"v", Codec.NONE), (zstd_zeros(1 << 21), Codec.ZSTD), (zstd_zeros(1_000), Codec.ZSTD),
                 (b"\xff" * 9_000, Codec.LZ4), (b"", Codec.ZSTD))
            )
        )  # fmt: skip
        one = bytearray(batch_of(body, codec, base=offset, count=count))
        if draw(st.integers(0, 6)) == 0:
            one[16] = 1  # another format
        made.append(bytes(one))
        offset += count
    return b"".join(made), draw(st.integers(first, offset))


@given(logs())
def test_verdicts_come_in_the_order_of_the_log(log: tuple[bytes, int]) -> None:
    data, start = log
    verdicts = [item for item in walk(data, start, 1 << 20) if not isinstance(item, WalkEnd)]
    assert all(earlier.end <= later.end for earlier, later in pairwise(verdicts))
    assert all(verdict.start <= verdict.end >= start for verdict in verdicts)
    assert all(verdict.size > 0 for verdict in verdicts)
