"""The offset after the last record that readers get: markers, aborted records and emptied batches do not count.

A client that commits the last record's offset plus one never reaches the end of a log that ends with markers, so a
proof needs this offset instead. The walk goes back from the end, one raw read at a time.
"""

from dataclasses import dataclass, replace

from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, records_of

MOST_STEPS = 200
"""Reads of one partition before the walk gives up and takes the end itself, which is never too low."""
_ABORT = b"\0\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWalk:
    """A walk back from `end`: everything from `position` on holds no record for readers.

    `aborted` are producers whose records below are of an aborted transaction. `found` is the effective end once known.
    """

    start: int
    end: int
    position: int
    aborted: frozenset[int] = frozenset()
    step: int = 1
    steps: int = 0
    found: int | None = None

    @classmethod
    def of(cls, start: int, end: int) -> "EndWalk":
        """A walk over a log; an empty one ends where it begins."""
        return cls(start=start, end=end, position=end, found=end if end <= start else None)

    @property
    def offset(self) -> int:
        """Where to read next."""
        return max(self.start, self.position - self.step)

    def after(self, buffer: bytes) -> "EndWalk":
        """Take what a raw read from `offset` returned into account; never raises, for any bytes."""
        walk = replace(self, steps=self.steps + 1)
        if walk.steps > MOST_STEPS:
            return replace(walk, found=self.end)
        batches = [each for each in batches_of(buffer) if isinstance(each, Batch)]
        below = [batch for batch in batches if batch.base_offset < self.position]
        if not below or below[-1].next_offset < self.position:
            # Compaction took batches away, or the answer was cut before the position: begin lower, up to the start.
            at_start = self.offset <= self.start and not below
            return replace(walk, step=self.step * 4, found=self.start if at_start else None)
        for batch in reversed(below):
            walk = _with_batch(walk, buffer, batch)
            if walk.found is not None:
                return walk
        return replace(walk, step=1, found=self.start if walk.position <= self.start else None)


def _with_batch(walk: EndWalk, buffer: bytes, batch: Batch) -> EndWalk:
    aborted, lower = walk.aborted, replace(walk, position=batch.base_offset)
    if batch.is_control:
        is_abort = _is_abort(buffer, batch)
        return replace(lower, aborted=aborted | {batch.producer_id} if is_abort else aborted - {batch.producer_id})
    if batch.is_transactional and batch.producer_id in aborted:
        return lower
    last = _last_record(buffer, batch)
    return lower if last is None else replace(lower, found=max(walk.start, last + 1))


def _is_abort(buffer: bytes, batch: Batch) -> bool:
    marker = next(iter(records_of(buffer, batch)), None)
    return isinstance(marker, LogRecord) and marker.key is not None and marker.key[2:4] == _ABORT


def _last_record(buffer: bytes, batch: Batch) -> int | None:
    """The offset of a batch's last record, its last offset where that cannot be read; None without records."""
    if batch.count == 0:
        return None
    if batch.count == batch.last_offset_delta + 1:
        return batch.next_offset - 1
    last = None
    for record in records_of(buffer, batch):
        if not isinstance(record, LogRecord):
            return batch.next_offset - 1
        last = record.offset
    return last
