"""Which commits MirrorMaker 2 copied here, by its own checkpoints, and where the copied offsets truly stand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.dialects.dialect import NUL, CommitFacts, CopiedFrom
from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, records_of
from kafkakit.streams.model.mirrormaker import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    decode_offset_sync,
    place_downstream,
)

CHECKPOINTS = ".checkpoints.internal"
SYNCS = "mm2-offset-syncs."
INTERNAL = ".internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """What one source cluster's checkpoints say, the newest of each group and partition; `source` is its alias."""

    source: str
    of_group: Mapping[tuple[str, TopicPartition], Checkpoint]


def checkpoint_topics(topics: Iterable[str]) -> dict[str, str]:
    """The topics of checkpoints by the alias of their source."""
    return {name.removesuffix(CHECKPOINTS): name for name in sorted(topics) if name.endswith(CHECKPOINTS)}


def sync_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics of offset syncs, which MirrorMaker keeps at the source unless it is told to keep them here."""
    return tuple(name for name in sorted(topics) if name.startswith(SYNCS) and name.endswith(INTERNAL))


def read_checkpoints(source: str, chunks: Iterable[bytes]) -> Checkpoints:
    """The newest checkpoint of each group and partition out of raw reads, in the order of the log."""
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    for record in _records(chunks):
        try:
            checkpoint = decode_checkpoint(record.key or b"", record.value or b"")
        except InputError:  # a tombstone, or a version that is not known
            continue
        found[checkpoint.group, TopicPartition(checkpoint.topic, checkpoint.partition)] = checkpoint
    return Checkpoints(source=source, of_group=found)


def read_syncs(chunks: Iterable[bytes]) -> tuple[OffsetSync, ...]:
    """All offset syncs out of raw reads."""
    found: list[OffsetSync] = []
    for record in _records(chunks):
        try:
            found.append(decode_offset_sync(record.key or b"", record.value or b""))
        except InputError:
            continue
    return tuple(found)


def copied_from(
    facts: CommitFacts, all_checkpoints: Iterable[Checkpoints], syncs: Iterable[OffsetSync]
) -> CopiedFrom | None:
    """Which checkpoint put this very commit here: the same offset, and the same text."""
    if facts.key is None or facts.group is None:
        return None
    for checkpoints in all_checkpoints:
        checkpoint = checkpoints.of_group.get((facts.group, facts.key))
        if checkpoint is None or checkpoint.downstream_offset != facts.offset:
            continue
        if checkpoint.metadata.rstrip(NUL) != facts.metadata.rstrip(NUL):
            continue
        there = TopicPartition(upstream_topic(facts.key.topic, checkpoints.source), facts.key.partition)
        place = place_downstream(syncs, there, checkpoint.upstream_offset)
        return CopiedFrom(
            source=f"{there} in {checkpoints.source}",
            upstream_offset=checkpoint.upstream_offset,
            place_low=None if place is None else place[0],
            place_high=None if place is None else place[1],
        )
    return None


def upstream_topic(topic: str, source: str) -> str:
    """The topic's name at the source: without the alias that MirrorMaker puts before it, where it does."""
    return topic.removeprefix(f"{source}.")


def _records(chunks: Iterable[bytes]) -> Iterable[LogRecord]:
    for chunk in chunks:
        for batch in batches_of(chunk):
            if isinstance(batch, Batch) and not batch.is_control:
                yield from (record for record in records_of(chunk, batch) if isinstance(record, LogRecord))


def next_offset(records: bytes, offset: int) -> int:
    """Where to read on after these batches; the same offset when they hold nothing new."""
    ends = [batch.next_offset for batch in batches_of(records) if isinstance(batch, Batch)]
    return max([offset, *ends])
