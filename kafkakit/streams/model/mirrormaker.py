"""MirrorMaker 2: its records of offsets, and what its copies of commit metadata do to parallel-consumer.

MirrorMaker copies a group's metadata as it is and translates the offset beside it, downwards where it does not know
better. A map that counts from the offset then says of every record what was true of another one. All integers are
big endian, a STRING is its length in 2 bytes and UTF-8. Source: `OffsetSync`, `Checkpoint`, `OffsetSyncStore`.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import OffsetRanges, Reading

CHECKPOINT_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The record at `upstream_offset` of a source partition has `downstream_offset` in the copy."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A group's commit as MirrorMaker translated it: `topic` is the copy's name, `metadata` the source's text."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str


def decode_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """A record of `mm2-offset-syncs.*.internal`; raises `InputError` for bytes that are none."""
    fields = _Fields("offset sync's key", key)
    topic, partition = fields.string(), fields.number("i")
    fields.finish()
    fields = _Fields("offset sync's value", value)
    upstream, downstream = fields.number("q"), fields.number("q")
    fields.finish()
    return OffsetSync(topic=topic, partition=partition, upstream_offset=upstream, downstream_offset=downstream)


def decode_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """A record of `*.checkpoints.internal`; raises `InputError` for bytes that are none, or of another version."""
    fields = _Fields("checkpoint's key", key)
    group, topic, partition = fields.string(), fields.string(), fields.number("i")
    fields.finish()
    fields = _Fields("checkpoint's value", value)
    version = fields.number("h")
    if version != CHECKPOINT_VERSION:
        raise InputError("checkpoint's value", f"version {version} is not known")
    upstream, downstream, metadata = fields.number("q"), fields.number("q"), fields.string()
    fields.finish()
    return Checkpoint(
        group=group,
        topic=topic,
        partition=partition,
        upstream_offset=upstream,
        downstream_offset=downstream,
        metadata=metadata,
    )


def syncs_by_partition(syncs: Iterable[OffsetSync]) -> dict[TopicPartition, tuple[OffsetSync, ...]]:
    """The syncs of each source partition, ascending, out of all of them in the order of their log.

    A sync of a lower offset than the one before it tells that the source's topic was recreated: it drops what came
    before, as MirrorMaker does. Of one offset the last sync counts.
    """
    found: dict[TopicPartition, list[OffsetSync]] = {}
    for sync in syncs:
        own = found.setdefault(TopicPartition(sync.topic, sync.partition), [])
        if own and sync.upstream_offset < own[-1].upstream_offset:
            own.clear()
        if own and sync.upstream_offset == own[-1].upstream_offset:
            own.pop()
        own.append(sync)
    return {partition: tuple(own) for partition, own in found.items()}


def place_downstream(
    syncs: Iterable[OffsetSync], partition: TopicPartition, upstream_offset: int
) -> tuple[int, int] | None:
    """Where an offset of the source stands in the copy: lowest place (MirrorMaker's choice), and highest.

    `syncs` are in the order of their log, and may be of other partitions too; for many offsets give those of the
    partition alone (`syncs_by_partition`). The highest place assumes that the copy has no records of its own, so that
    it never numbers faster than the source. None when no sync lies at or below the offset: MirrorMaker then
    translates nothing.
    """
    mine = (s for s in syncs if (s.topic, s.partition) == partition)
    own = syncs_by_partition(mine).get(partition, ())
    before = [s for s in own if s.upstream_offset <= upstream_offset]
    if not before:
        return None
    past = upstream_offset - before[-1].upstream_offset
    low = before[-1].downstream_offset + (1 if past else 0)
    high = before[-1].downstream_offset + past
    if len(before) < len(own):
        high = min(high, own[len(before)].downstream_offset)
    return low, max(low, high)


def skipped_by_copy(reading: Reading, source_offset: int, target_offset: int) -> OffsetRanges:
    """Pending records that parallel-consumer takes for done once its map was copied from one offset onto another.

    Both offsets are of the log that is read with the copy: `source_offset` is where the map belongs there (the exact
    place of the offset it was written for), `target_offset` is what it was committed with. A map that belongs 5 higher
    says "done" 5 too low. What lies below `target_offset` is skipped by the offset alone, and counts too. Empty for
    equal offsets. Cost: linear in the map's ranges.
    """
    state = reading.claimed or reading.state
    done = _move_ranges(state.done, source_offset - state.base)
    taken = _move_ranges(state.done, target_offset - state.base).union(
        OffsetRanges.of([(source_offset, target_offset)])
    )
    end = max(taken.end or source_offset, source_offset)
    return taken.intersection(done.gaps(source_offset, end))


def _move_ranges(ranges: OffsetRanges, by: int) -> OffsetRanges:
    return OffsetRanges(tuple((start + by, end + by) for start, end in ranges))


class _Fields:
    """Reads a record's fields in order; raises `InputError` naming `source`."""

    def __init__(self, source: str, data: bytes) -> None:
        self.source = source
        self.data = data
        self.at = 0

    def number(self, code: str) -> int:
        """A big endian integer of this struct code."""
        (value,) = struct.unpack(f">{code}", self._take(struct.calcsize(f">{code}")))
        return int(value)

    def string(self) -> str:
        """A STRING that is not null."""
        size = self.number("h")
        if size < 0:
            raise InputError(self.source, f"a text of {size} bytes")
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(self.source, "a text that is not UTF-8") from None

    def finish(self) -> None:
        """Nothing may be left."""
        if self.at != len(self.data):
            raise InputError(self.source, f"{len(self.data) - self.at} bytes behind the last field")

    def _take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise InputError(self.source, f"cut off after {len(self.data)} bytes")
        self.at += size
        return self.data[self.at - size : self.at]
