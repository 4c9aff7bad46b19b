"""A raw fetch of committed data walked batch by batch: records to handle, and the first batch that must not be decoded.

A client that decompresses batches by itself, as librdkafka does, is stopped or killed by a batch that becomes
gigabytes. Verdicts come from headers alone, before any decompression, and no decompression goes beyond the limit. Their
bounds are those of the formats: brokers decompress what they append block by block, and refuse data that break their
format.

Which records count as committed is the protocol's rule (KIP-98): of the producers whose transactions the answer names
as aborted, nothing counts from the first offset that it names up to the marker that ends the transaction. Markers are
no records.

Records of several batches are decoded at once: their boundaries by a walk, their fields by arrays. A walk alone costs
0.2 us a record in Python and a field-by-field read ten times as much; so the fields of all records are read side by
side, a varint in as many steps as its longest one has bytes. Format: Kafka's record batches, v2.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from io import BytesIO
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import msgspec

from kafkakit.core.cluster_facts import FetchedBatches
from kafkakit.streams.model import compressed_sizes
from kafkakit.streams.model.binary import HEADER_BYTES, TOO_LONG, VARINT, VARLONG, read_varint, varints_at
from kafkakit.streams.model.compressed_sizes import (
    GZIP_TIMES,
    LZ4_TIMES,
    SNAPPY_TIMES,
    DamagedError,
    Packed,
    lz4_size,
    snappy_size,
    zstd_size,
)
from kafkakit.streams.model.inflate import (
    BombError,
    gzip_exceeds,
    inflate_gzip,
    inflate_lz4,
    inflate_snappy,
    inflate_zstd,
)
from kafkakit.streams.model.log_batches import Batch, Codec, SkippedBatch, WalkEnd, batches_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


PIECE_BYTES = 1 << 20
"""So much is decoded at once, or one batch that is larger."""
RECORD_BYTES = 32
"""A batch may have one record for so many bytes of the limit: decoded, the smallest one takes some 300 bytes."""
_Section = tuple[Batch, Packed | None]
"""A batch, and what its records are uncompressed where they do not lie so in the answer."""
_OLD_FORMATS = frozenset({"message format 0", "message format 1"})
_INFLATE: dict[Codec, Callable[[Packed, int], Packed]] = {
    Codec.GZIP: inflate_gzip,
    Codec.SNAPPY: inflate_snappy,
    Codec.LZ4: inflate_lz4,
    Codec.ZSTD: inflate_zstd,
}


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


class StoredRecord(msgspec.Struct, gc=False):
    """A record with what it holds; it keeps nothing of the batch that it came with. Implements `ReadRecord`."""

    at: int
    time_kind: int
    time_ms: int
    the_key: bytes | None
    the_value: bytes | None
    header_bytes: bytes

    def offset(self) -> int:
        """Its place in the partition."""
        return self.at

    def key(self) -> bytes | None:
        """Its key."""
        return self.the_key

    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self.the_value

    def timestamp(self) -> tuple[int, int]:
        """The type of the time (0: none, 1: the producer's, 2: the broker's), and the time in milliseconds."""
        return (self.time_kind, self.time_ms) if self.time_ms >= 0 else (0, self.time_ms)

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Its headers, in order; bytes of a name that are no UTF-8 are replaced."""
        if self.header_bytes == _NO_HEADERS:
            return None
        data, found = self.header_bytes, []
        count, at = read_varint(data, 0, len(data))
        for _ in range(count):
            size, at = read_varint(data, at, len(data))
            name, at = data[at : at + size], at + size
            size, at = read_varint(data, at, len(data))
            found.append((name.decode(errors="replace"), data[at : at + size] if size >= 0 else None))
            at += max(0, size)
        return found

    def __len__(self) -> int:
        """The bytes of the value."""
        return len(self.the_value or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPiece:
    """Records in order; the read went on to `next_offset`. What stands there cannot be read where `stopped` says why.

    `verdict` is None there for bytes that tell no offsets to continue from, and for old message formats.
    """

    next_offset: int
    records: Sequence[StoredRecord] = ()
    verdict: BatchVerdict | None = None
    stopped: str = ""


@dataclass(slots=True, kw_only=True)
class GuardedRead:
    """One answer of a reader of committed data, requested from the offset `start` on.

    `next_offset` is where the next request continues: None where this read will stop before. Making it costs a look at
    the headers; `pieces` decodes.
    """

    fetched: FetchedBatches
    start: int
    limit_bytes: int
    verdicts: list[BatchVerdict] = field(init=False)
    ended: WalkEnd | None = field(init=False, default=None)
    next_offset: int | None = field(init=False)

    def __post_init__(self) -> None:
        found = list(verdicts_of(self.fetched.records, self.start, self.limit_bytes))
        self.verdicts = [item for item in found if isinstance(item, BatchVerdict)]
        last = found[-1] if found else None
        if isinstance(last, WalkEnd) and last.is_corrupt:
            self.ended = last
        ready = self.ended is None and all(_may_decode(verdict) for verdict in self.verdicts)
        self.next_offset = None if not ready else self.verdicts[-1].end if self.verdicts else self.start

    def pieces(self) -> Iterator[GuardedPiece]:
        """What was read, up to and with the first batch that is not safe. Never raises for what the bytes hold."""
        aborted = sorted(self.fetched.aborted, key=lambda one: one[1], reverse=True)
        open_ids: set[int] = set()
        decoded: list[_Section] = []
        size, position = 0, self.start
        for verdict in self.verdicts:
            batch = verdict.batch
            if not _may_decode(verdict) or batch is None:
                yield from self._decoded(decoded, position)
                yield _stopped_piece(verdict, max(self.start, verdict.start))
                return
            while aborted and aborted[-1][1] < batch.next_offset:
                open_ids.add(aborted.pop()[0])
            if batch.is_control:
                open_ids.discard(batch.producer_id)
            elif batch.count and not (batch.is_transactional and batch.producer_id in open_ids):
                plain = self._plain(verdict, batch)
                if isinstance(plain, BatchVerdict):
                    yield from self._decoded(decoded, position)
                    yield _stopped_piece(plain, max(self.start, verdict.start))
                    return
                decoded.append((batch, plain))
                size += batch.size if plain is None else len(plain)
            position = verdict.end
            if size >= PIECE_BYTES:
                pieces = list(self._decoded(decoded, position))
                yield from pieces
                if pieces[-1].stopped:
                    return
                decoded, size = [], 0
        yield from self._decoded(decoded, position)
        if self.ended is not None:
            yield GuardedPiece(next_offset=position, stopped=self.ended.reason)

    def _plain(self, verdict: BatchVerdict, batch: Batch) -> Packed | BatchVerdict | None:
        """What a batch's records are uncompressed, None where they lie so in the answer; or why they cannot be."""
        if batch.count > self.limit_bytes // RECORD_BYTES:
            return replace(verdict, kind=VerdictKind.BOMB, reason=f"it has {batch.count} records")
        if batch.codec is None or batch.codec is Codec.NONE:
            return None
        data = memoryview(self.fetched.records)[batch.position + HEADER_BYTES : batch.end]
        try:
            return _INFLATE[batch.codec](data, self.limit_bytes)
        except BombError as error:
            return replace(verdict, kind=VerdictKind.BOMB, reason=str(error))
        except DamagedError as error:
            return replace(verdict, kind=VerdictKind.CORRUPT, reason=str(error))

    def _decoded(self, batches: Sequence[_Section], position: int) -> Iterator[GuardedPiece]:
        """The records of batches up to `position`; where one of them is corrupt, those before it and then it."""
        if not batches:
            if position > self.start or not self.verdicts:
                yield GuardedPiece(next_offset=position)
            return
        try:
            yield GuardedPiece(next_offset=position, records=self._wanted(batches))
            return
        except DamagedError as error:
            reason = str(error)
        if len(batches) > 1:
            for batch, plain in batches:
                for piece in self._decoded([(batch, plain)], batch.next_offset):
                    yield piece
                    if piece.stopped:
                        return
            return
        batch, _ = batches[0]
        verdict = BatchVerdict(
            kind=VerdictKind.CORRUPT, start=batch.base_offset, end=batch.next_offset, position=batch.position,
            size=batch.size, at_most_bytes=batch.size, reason=reason, batch=batch,
        )  # fmt: skip
        yield _stopped_piece(verdict, max(self.start, batch.base_offset))

    def _wanted(self, batches: Sequence[_Section]) -> list[StoredRecord]:
        answer = memoryview(self.fetched.records)
        if all(plain is None for _, plain in batches):
            spans = [(batch, batch.position + HEADER_BYTES, batch.end) for batch, _ in batches]
            records = stored_records(self.fetched.records, spans)
        else:
            parts = [
                answer[batch.position + HEADER_BYTES : batch.end] if plain is None else plain
                for batch, plain in batches
            ]
            ends = list(accumulate(map(len, parts)))
            spans = [(batch, end - len(part), end) for (batch, _), part, end in zip(batches, parts, ends, strict=True)]
            records = stored_records(b"".join(parts), spans)
        if records[0].at < self.start:  # a batch is sent whole
            records = [record for record in records if record.at >= self.start]
        return records


def _may_decode(verdict: BatchVerdict) -> bool:
    """Whether its headers allow to decompress it up to the limit: gzip tells its size in no other way."""
    return verdict.is_safe or verdict.kind is VerdictKind.SUSPECT


def _stopped_piece(verdict: BatchVerdict, at: int) -> GuardedPiece:
    """A batch that is not decoded. One of an old format is no damage: it is not to be passed over."""
    is_old = verdict.batch is None and verdict.reason in _OLD_FORMATS
    reason = f"{verdict.kind.value}: {verdict.reason or f'it may become {verdict.at_most_bytes} bytes'}"
    return GuardedPiece(next_offset=at, verdict=None if is_old else verdict, stopped=reason)


MOST_BLOCKS = 1 << 16
"""So many zstd blocks are walked, 8 GiB of full ones: some 20 ms. The rest of a batch counts as the most it can be."""

_TIMES = {
    Codec.GZIP: GZIP_TIMES,
    Codec.SNAPPY: SNAPPY_TIMES,
    Codec.LZ4: LZ4_TIMES,
    Codec.ZSTD: compressed_sizes.MOST_TIMES,
}
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_LEAST = 20  # an empty deflate block, its header and trailer


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
    data = memoryview(buffer)[batch.position + HEADER_BYTES : batch.end]
    try:
        bound, declared = _sizes(codec, data, most)
    except DamagedError as error:
        return _verdict(batch, VerdictKind.CORRUPT, most, reason=str(error))
    if declared is not None and declared > bound:
        reason = f"it declares {declared} bytes, and can hold {bound}"
        return _verdict(batch, VerdictKind.CORRUPT, bound, declared, reason)
    if bound <= limit_bytes:
        return _verdict(batch, VerdictKind.SAFE, bound, declared)
    if codec is Codec.GZIP and (declared or 0) <= limit_bytes:
        return _verdict(batch, VerdictKind.SUSPECT, bound, reason="gzip has no sizes that can be relied on")
    return _verdict(batch, VerdictKind.BOMB, bound, declared)


def measure_batch(buffer: bytes, verdict: BatchVerdict, limit_bytes: int) -> BatchVerdict:
    """A suspect batch decided by inflating up to the limit and keeping nothing; other verdicts as they are.

    Costs about 0.1 s for a limit of 100 MB, whatever the batch holds.
    """
    if verdict.kind is not VerdictKind.SUSPECT:
        return verdict
    try:
        data = memoryview(buffer)[verdict.position + HEADER_BYTES : verdict.position + verdict.size]
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
    unread: SkippedBatch | None = None
    for item in batches_of(buffer):
        if isinstance(item, WalkEnd):
            yield item if unread is None else WalkEnd(unread.position, unread.reason, is_corrupt=True)
            return
        if isinstance(item, SkippedBatch):
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


def _sizes(codec: Codec, data: Packed, most: int) -> tuple[int, int | None]:
    """What the data can become at most, and what they declare; `most` is by their length."""
    if codec is Codec.ZSTD:
        size = zstd_size(data, blocks=MOST_BLOCKS)
        return size.at_most, size.declared
    if codec is Codec.LZ4:
        return lz4_size(data)
    if codec is Codec.SNAPPY:
        declared = snappy_size(data)
        return (declared, declared) if declared <= most else (most, declared)
    if data[: len(_GZIP_MAGIC)] != _GZIP_MAGIC or len(data) < _GZIP_LEAST:
        raise DamagedError("it has no gzip member")
    return most, int.from_bytes(data[-4:], "little")  # a decoder fails where less comes out


CREATE_TIME, APPEND_TIME = 1, 2
_NO_HEADERS = b"\0"
_SIDE_BY_SIDE = 8


def stored_records(data: bytes, spans: Sequence[tuple[Batch, int, int]]) -> list[StoredRecord]:
    """The records of batches in order, each with where its records lie uncompressed in `data`: start and end.

    Raises `DamagedError` where one of them is not what its format asks for: decode them one by one to find it. Cost:
    some 0.1 ms a call, and below 1 us a record.
    """
    import numpy as np

    places: list[int] = []
    for batch, start, end in spans:
        _walk(data, start, end, batch.count, places)
    batches = [batch for batch, _, _ in spans]
    counts = [batch.count for batch in batches]

    def each(values: list[int]) -> "Longs":
        return np.repeat(np.array(values, np.int64), counts)

    buffer = np.frombuffer(data, np.uint8)
    sizes, starts = _varints(buffer, np.array(places, np.int64))
    ends = starts + sizes
    delta_ms, place = _varints(buffer, starts + 1, VARLONG)
    delta, place = _varints(buffer, place)
    key_size, key_at = _varints(buffer, place)
    key_end = key_at + np.maximum(key_size, 0)
    value_size, value_at = _varints(buffer, key_end)
    value_end = value_at + np.maximum(value_size, 0)
    if (value_end >= ends).any():
        raise DamagedError("a record's fields run over its end")
    offsets = each([batch.base_offset for batch in batches]) + delta
    is_inside = (delta >= 0) & (delta <= each([batch.last_offset_delta for batch in batches]))
    if not is_inside.all() or (np.diff(offsets) <= 0).any():
        raise DamagedError("a record's offset lies outside its batch, or before the one of the record before it")
    appended = each([int(batch.is_log_append_time) for batch in batches])
    times = np.where(
        appended == 1,
        each([batch.max_ms for batch in batches]),
        each([batch.base_ms for batch in batches]) + delta_ms,
    )
    has_headers = _have_headers(data, buffer, value_end, ends)
    fields = [key_at, key_end, value_at, value_end, *([ends] if has_headers else [])]
    steps = np.diff(np.stack(fields, axis=1).ravel(), prepend=0)
    found = list(map(BytesIO(data).read, steps.tolist()))  # half the cost of slices
    width = len(fields)
    return list(
        map(
            StoredRecord,
            offsets.tolist(),
            (appended + CREATE_TIME).tolist() if appended.any() else repeat(CREATE_TIME),
            times.tolist(),
            _with_nulls(found[1::width], key_size),
            _with_nulls(found[3::width], value_size),
            found[4::width] if has_headers else repeat(_NO_HEADERS),
        )
    )


def _walk(data: bytes, at: int, end: int, count: int, places: list[int]) -> None:
    """Append where each of so many records begins; the last one ends at `end`. The caller checks what they hold."""
    append = places.append
    try:
        for _ in repeat(None, count):
            append(at)
            size = data[at]
            if size < 0x80:
                at += 1 + (size >> 1)
                continue
            high = data[at + 1]
            if high < 0x80:
                at += (high << 6) + (size >> 1) - 62
                continue
            size, at = read_varint(data, at, end)
            if size < 0 or at < 0:
                raise DamagedError("a record has an impossible length")
            at += size
    except IndexError:
        raise DamagedError("a record runs over its batch") from None
    if at != end:
        raise DamagedError("the records of a batch do not end where it ends")


def _varints(buffer: "NDArray[np.uint8]", at: "Longs", most: int = VARINT) -> tuple["Longs", "Longs"]:
    """Zigzag varints at these places, and where each ends; places beyond the buffer are for the caller to find."""
    found, after = varints_at(buffer, at, most)
    if after.size and after.max() == TOO_LONG:
        raise DamagedError("a varint is too long")
    return found, after


def _with_nulls(fields: list[bytes], sizes: "Longs") -> list[bytes | None]:
    found: list[bytes | None] = [*fields]
    for index in (sizes < 0).nonzero()[0].tolist():
        found[index] = None
    return found


def _have_headers(data: bytes, buffer: "NDArray[np.uint8]", starts: "Longs", ends: "Longs") -> bool:
    """Whether any of the records has headers; raises `DamagedError` where they are not whole."""
    some = (ends - starts != len(_NO_HEADERS)) | (buffer.take(starts, mode="clip") != _NO_HEADERS[0])
    if not some.any():
        return False
    _check_headers(data, buffer, starts[some], ends[some])
    return True


def _check_headers(data: bytes, buffer: "NDArray[np.uint8]", starts: "Longs", ends: "Longs") -> None:
    """The first headers of all records are read side by side; of a record with more, all by themselves."""
    import numpy as np

    left, at = _varints(buffer, starts)
    is_whole = bool((left >= 0).all())
    for _ in range(_SIDE_BY_SIDE):
        more = left > 0
        is_whole = is_whole and bool((at == ends)[~more].all())
        if not is_whole or not more.any():
            break
        starts, ends, left, at = starts[more], ends[more], left[more] - 1, at[more]
        for least in (0, -1):  # a value may be null
            size, at = _varints(buffer, at)
            is_whole = is_whole and bool(((size >= least) & (at <= ends)).all())
            at += np.maximum(size, 0)
    else:
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        is_whole = is_whole and all(_are_headers(data[start:end]) for start, end in places)
    if not is_whole:
        raise DamagedError("a record's headers run over its end")


def _are_headers(data: bytes) -> bool:
    """Whether the headers of a record are whole: names and values within its bytes, and nothing after them."""
    count, at = read_varint(data, 0, len(data))
    if not 0 <= count <= len(data):
        return False
    for _ in range(count):
        for least in (0, -1):  # a value may be null
            size, at = read_varint(data, at, len(data))
            if at < 0 or size < least or at + max(0, size) > len(data):
                return False
            at += max(0, size)
    return at == len(data)
