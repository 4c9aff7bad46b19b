"""Whether a record batch may be decompressed within a limit, from its headers alone, and what is safe to read.

A client that decompresses batches by itself, as librdkafka does, is stopped or killed by a batch that becomes
gigabytes. These verdicts come before any decompression, so that no decoder gets such a batch. The bounds are those of
the formats: brokers decompress what they append block by block, and refuse data that break their format.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkakit.streams.formats import zstd_frames
from kafkakit.streams.formats.codec_sizes import GZIP_TIMES, LZ4_TIMES, SNAPPY_TIMES, lz4_size, snappy_size
from kafkakit.streams.formats.inflate import gzip_exceeds
from kafkakit.streams.formats.log_batches import HEADER_BYTES, Batch, Codec, Skipped, WalkEnd, batches_of
from kafkakit.streams.formats.zstd_frames import DamagedError, zstd_size

MOST_BLOCKS = 1 << 16
"""So many zstd blocks are walked, 8 GiB of full ones: some 20 ms. The rest of a batch counts as the most it can be."""

_TIMES = {
    Codec.GZIP: GZIP_TIMES,
    Codec.SNAPPY: SNAPPY_TIMES,
    Codec.LZ4: LZ4_TIMES,
    Codec.ZSTD: zstd_frames.MOST_TIMES,
}
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_LEAST = 20  # an empty deflate block, its header and trailer


class VerdictKind(StrEnum):
    """What may be done with a batch.

    SAFE: it holds no more than the limit. BOMB: its blocks may hold more. SUSPECT: its format has no sizes (gzip),
    and so many compressed bytes may hold more. CORRUPT: it is not what its format asks for.
    """

    SAFE = "safe"
    BOMB = "bomb"
    SUSPECT = "suspect"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVerdict:
    """What the headers of a batch tell of its size. Its offsets are `start` to `end` (exclusive).

    `at_most_bytes` bounds what a decoder can make of it, `declared_bytes` is what it claims to hold, None for no claim.
    It lies at `position` with `size` bytes in the buffer that was read. `batch` is None where the header is corrupt.
    """

    kind: VerdictKind
    start: int
    end: int
    position: int
    size: int
    at_most_bytes: int
    declared_bytes: int | None = None
    reason: str = ""
    batch: Batch | None = None

    @property
    def is_safe(self) -> bool:
        """True where a decoder may have the batch."""
        return self.kind is VerdictKind.SAFE

    @property
    def compressed_bytes(self) -> int:
        """The bytes of its records as they are stored."""
        return max(0, self.size - HEADER_BYTES)

    @property
    def ratio(self) -> float:
        """By how much it expands, at most."""
        return self.at_most_bytes / max(1, self.compressed_bytes)


def batch_verdict(buffer: bytes, batch: Batch, limit_bytes: int) -> BatchVerdict:
    """The verdict on a batch in the buffer that it was read into; never raises.

    A batch that cannot exceed the limit by its codec's greatest ratio is not looked into. Otherwise the cost is that
    of copying it, and below 1 us for each block, of which `MOST_BLOCKS` are walked; memory does not depend on what it
    holds.
    """
    codec, packed = batch.codec, batch.size - HEADER_BYTES
    if codec is None:
        return _verdict(batch, VerdictKind.CORRUPT, 0, reason=f"an unknown compression, {batch.codec_name}")
    if codec is Codec.NONE:  # what is not compressed is in memory already
        return _verdict(batch, VerdictKind.SAFE, packed)
    most = packed * _TIMES[codec]
    if most <= limit_bytes:
        return _verdict(batch, VerdictKind.SAFE, most)
    data = buffer[batch.position + HEADER_BYTES : batch.end]
    try:
        bound, declared = _sizes(codec, data, most)
    except DamagedError as error:
        return _verdict(batch, VerdictKind.CORRUPT, most, reason=str(error))
    if declared is not None and declared > bound:
        reason = f"it declares {declared} bytes, and can hold {bound}"
        return _verdict(batch, VerdictKind.CORRUPT, bound, declared, reason)
    if bound <= limit_bytes:
        return _verdict(batch, VerdictKind.SAFE, bound, declared)
    if codec is Codec.GZIP:
        return _verdict(batch, VerdictKind.SUSPECT, bound, reason="gzip has no sizes that can be relied on")
    return _verdict(batch, VerdictKind.BOMB, bound, declared)


def measured(buffer: bytes, verdict: BatchVerdict, limit_bytes: int) -> BatchVerdict:
    """A suspect batch decided by inflating up to the limit and keeping nothing; other verdicts as they are.

    Costs about 0.1 s for a limit of 100 MB, whatever the batch holds.
    """
    if verdict.kind is not VerdictKind.SUSPECT:
        return verdict
    try:
        data = buffer[verdict.position + HEADER_BYTES : verdict.position + verdict.size]
        exceeds = gzip_exceeds(data, limit_bytes)
    except DamagedError as error:
        return replace(verdict, kind=VerdictKind.CORRUPT, reason=str(error))
    if exceeds:
        return replace(verdict, kind=VerdictKind.BOMB, reason=f"it was inflated up to {limit_bytes} bytes, and went on")
    return replace(verdict, kind=VerdictKind.SAFE, at_most_bytes=limit_bytes, reason="")


def verdicts_of(buffer: bytes, start: int, limit_bytes: int) -> Iterator[BatchVerdict | WalkEnd]:
    """The verdicts on a raw read from the offset `start` on, in order, and a `WalkEnd` where it cannot be followed.

    A header that is corrupt, or of an old format, tells no offsets: it counts up to where the next batch begins, and
    without a next batch the walk ends before it. Batches below `start` are left out.
    """
    unread: Skipped | None = None
    for item in batches_of(buffer):
        if isinstance(item, WalkEnd):
            yield item if unread is None else WalkEnd(unread.position, unread.reason, is_corrupt=True)
            return
        if isinstance(item, Skipped):
            unread = unread or item
            continue
        if unread is not None:
            size = item.position - unread.position
            yield BatchVerdict(
                kind=VerdictKind.CORRUPT, start=start, end=max(start, item.base_offset), position=unread.position,
                size=size, at_most_bytes=0, reason=unread.reason,
            )  # fmt: skip
            unread = None
        if item.next_offset > start:
            start = item.next_offset
            yield batch_verdict(buffer, item, limit_bytes)
    if unread is not None:
        yield WalkEnd(unread.position, unread.reason, is_corrupt=True)


def _verdict(
    batch: Batch, kind: VerdictKind, at_most: int, declared: int | None = None, reason: str = ""
) -> BatchVerdict:
    return BatchVerdict(
        kind=kind, start=batch.base_offset, end=batch.next_offset, position=batch.position, size=batch.size,
        at_most_bytes=at_most, declared_bytes=declared, reason=reason, batch=batch,
    )  # fmt: skip


def _sizes(codec: Codec, data: bytes, most: int) -> tuple[int, int | None]:
    """What the data can become at most, and what they declare; `most` is by their length."""
    if codec is Codec.ZSTD:
        size = zstd_size(data, blocks=MOST_BLOCKS)
        return size.at_most, size.declared
    if codec is Codec.LZ4:
        return lz4_size(data)
    if codec is Codec.SNAPPY:
        declared = snappy_size(data)
        return (declared, declared) if declared <= most else (most, declared)
    if not data.startswith(_GZIP_MAGIC) or len(data) < _GZIP_LEAST:
        raise DamagedError("it has no gzip member")
    return most, None
