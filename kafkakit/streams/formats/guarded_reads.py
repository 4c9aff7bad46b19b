"""A raw fetch of committed data walked batch by batch: records to handle, and the first batch that must not be decoded.

Verdicts come from headers, before any decompression, and no decompression goes beyond the limit. Which records count as
committed is the protocol's rule (KIP-98): of the producers whose transactions the answer names as aborted, nothing
counts from the first offset that it names up to the marker that ends the transaction. Markers are no records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from kafkakit.core.log_reads import Fetched
from kafkakit.streams.formats.batch_verdicts import BatchVerdict, VerdictKind, verdicts_of
from kafkakit.streams.formats.inflate import BombError, inflate_gzip, inflate_lz4, inflate_snappy, inflate_zstd
from kafkakit.streams.formats.log_batches import HEADER_BYTES, Batch, Codec, WalkEnd
from kafkakit.streams.formats.stored_records import StoredRecord, stored_records
from kafkakit.streams.formats.zstd_frames import DamagedError

PIECE_BYTES = 1 << 20
"""So much is decoded at once, or one batch that is larger."""
RECORD_BYTES = 32
"""A batch may have one record for so many bytes of the limit: decoded, the smallest one takes some 300 bytes."""
_Section = tuple[Batch, bytes | None]
"""A batch, and what its records are uncompressed where they do not lie so in the answer."""
_OLD_FORMATS = frozenset({"message format 0", "message format 1"})
_INFLATE = {
    Codec.GZIP: inflate_gzip,
    Codec.SNAPPY: inflate_snappy,
    Codec.LZ4: inflate_lz4,
    Codec.ZSTD: inflate_zstd,
}


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

    fetched: Fetched
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
                yield _stopped(verdict, max(self.start, verdict.start))
                return
            while aborted and aborted[-1][1] < batch.next_offset:
                open_ids.add(aborted.pop()[0])
            if batch.is_control:
                open_ids.discard(batch.producer_id)
            elif batch.count and not (batch.is_transactional and batch.producer_id in open_ids):
                plain = self._plain(verdict, batch)
                if isinstance(plain, BatchVerdict):
                    yield from self._decoded(decoded, position)
                    yield _stopped(plain, max(self.start, verdict.start))
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

    def _plain(self, verdict: BatchVerdict, batch: Batch) -> bytes | BatchVerdict | None:
        """What a batch's records are uncompressed, None where they lie so in the answer; or why they cannot be."""
        if batch.count > self.limit_bytes // RECORD_BYTES:
            return replace(verdict, kind=VerdictKind.BOMB, reason=f"it has {batch.count} records")
        if batch.codec is None or batch.codec is Codec.NONE:
            return None
        data = self.fetched.records[batch.position + HEADER_BYTES : batch.end]
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
        yield _stopped(verdict, max(self.start, batch.base_offset))

    def _wanted(self, batches: Sequence[_Section]) -> list[StoredRecord]:
        answer = self.fetched.records
        if all(plain is None for _, plain in batches):
            records = stored_records(
                answer, [(batch, batch.position + HEADER_BYTES, batch.end) for batch, _ in batches]
            )
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


def _stopped(verdict: BatchVerdict, at: int) -> GuardedPiece:
    """A batch that is not decoded. One of an old format is no damage: it is not to be passed over."""
    is_old = verdict.batch is None and verdict.reason in _OLD_FORMATS
    reason = f"{verdict.kind.value}: {verdict.reason or f'it may become {verdict.at_most_bytes} bytes'}"
    return GuardedPiece(next_offset=at, verdict=None if is_old else verdict, stopped=reason)
