"""What a scan found, what is kept of a batch in quarantine, and which offsets a group is to pass over."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.cluster_id import cluster_id_problem
from kafkakit.core.documents import encode_document
from kafkakit.core.errors import InputError
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import OffsetRanges, topic_id_text
from kafkakit.streams.model.guarded_reads import BatchVerdict

KIND = "quarantined-batch"
MOST_FOUND = 10_000
"""So many batches are listed; the others are counted."""
_CRC_AT = 17  # in the header of a batch of format 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBatch:
    """A batch that is not safe to decompress."""

    key: TopicPartition
    verdict: BatchVerdict

    @property
    def place(self) -> str:
        """Topic, partition and first offset, as `streams records show` takes them."""
        return f"{self.key.topic}/{self.key.partition}@{self.verdict.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStart:
    """Where a scan begins: an offset, or a record time in ms since 1970, or where each log does; and before `end`."""

    offset: int | None = None
    since_ms: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What became of reading partitions up to their ends.

    `offsets` is where each reading is to continue. `unread` has the partitions that were not read to their end, with
    the reason.
    """

    offsets: Mapping[TopicPartition, int]
    unread: Mapping[TopicPartition, str]
    batches: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BombScan:
    """What a scan found on a cluster: at most `MOST_FOUND` batches, and `more` that are not listed.

    `size` is how many bytes of batches were looked at, `unread` as in `Walked`.
    """

    cluster_id: str
    limit_bytes: int
    partitions: int
    batches: int
    size: int
    unread: Mapping[TopicPartition, str]
    found: tuple[FoundBatch, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedBatch:
    """What the file beside a batch in quarantine says of it; sizes in bytes, times in ms since 1970.

    `crc` is the checksum in the header, None where the header cannot be read; `sha256` is that of the batch's file.
    """

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    bytes: int
    crc: int | None
    sha256: str
    verdict: str
    reason: str
    codec: str | None
    records: int | None
    producer_id: int | None
    producer_epoch: int | None
    first_ms: int | None
    max_ms: int | None
    at_most_bytes: int
    declared_bytes: int | None
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """A batch in quarantine and the file it is in; `path` is "" where it was only planned."""

    found: FoundBatch
    path: str = ""


def starts_of(
    spans: Mapping[TopicPartition, LogSpan], offset: int | None, at: Mapping[TopicPartition, int | ItemError | None]
) -> dict[TopicPartition, int]:
    """Where reading begins: at an offset, at the first record of a time (`at`), or where the log does.

    Offsets outside of a log count as its ends.
    """
    starts = {}
    for key, span in spans.items():
        found = at.get(key, span.start if offset is None else offset)
        wanted = span.end if found is None or isinstance(found, ItemError) else found
        starts[key] = min(max(wanted, span.start), span.end)
    return starts


def continued(
    spans: Mapping[TopicPartition, LogSpan], cursors: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a reading continues: at its cursor, or where the log begins for what is new, was cut off or deleted."""
    return {
        key: cursors[key] if span.start <= cursors.get(key, -1) <= span.end else span.start
        for key, span in spans.items()
    }


def failed_reads(answers: Mapping[TopicPartition, object]) -> dict[TopicPartition, str]:
    """The partitions that a leader gave no answer for, with its reason."""
    return {key: str(answer) for key, answer in answers.items() if isinstance(answer, ItemError)}


def provenance(cluster_id: str, topic_id: bytes, found: FoundBatch, raw: bytes, limit_bytes: int) -> QuarantinedBatch:
    """What is written beside the bytes of a batch."""
    verdict, batch = found.verdict, found.verdict.batch
    has_producer = batch is not None and batch.producer_id >= 0
    return QuarantinedBatch(
        cluster_id=cluster_id,
        topic=found.key.topic,
        topic_id=topic_id_text(topic_id),
        partition=found.key.partition,
        first_offset=verdict.start,
        last_offset=verdict.end - 1,
        bytes=len(raw),
        crc=int.from_bytes(raw[_CRC_AT : _CRC_AT + 4], "big") if batch is not None else None,
        sha256=hashlib.sha256(raw).hexdigest(),
        verdict=verdict.kind,
        reason=verdict.reason,
        codec=batch.codec_name if batch is not None else None,
        records=batch.count if batch is not None else None,
        producer_id=batch.producer_id if batch is not None and has_producer else None,
        producer_epoch=batch.producer_epoch if batch is not None and has_producer else None,
        first_ms=batch.base_ms if batch is not None else None,
        max_ms=batch.max_ms if batch is not None else None,
        at_most_bytes=verdict.at_most_bytes,
        declared_bytes=verdict.declared_bytes,
        limit_bytes=limit_bytes,
    )


def encode_provenance(record: QuarantinedBatch) -> bytes:
    """The file beside a batch, schema `quarantined-batch`."""
    return encode_document(KIND, record)


def folder_names(cluster_id: str, found: FoundBatch) -> tuple[str, str, str]:
    """The folders of a batch below the quarantine, and its file's name without its end.

    The name is that of a Kafka segment, so that Kafka's own tools read the file. Raises `InputError` for a cluster id
    or a topic that is no name of a folder.
    """
    topic = found.key.topic
    if problem := cluster_id_problem(cluster_id):
        raise InputError("the cluster", problem)
    if not topic or not all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in topic):
        raise InputError("the cluster", f"topic {topic!r:.80} is not a name that Kafka allows")
    return cluster_id, f"{topic}-{found.key.partition}", f"{found.verdict.start:020d}"


def offsets_to_mark(kept: Iterable[KeptBatch], span: LogSpan | ItemError) -> OffsetRanges:
    """The offsets of batches in quarantine, as far as the log has not deleted them."""
    first = span.start if isinstance(span, LogSpan) else 0
    return OffsetRanges.of((max(first, one.found.verdict.start), one.found.verdict.end) for one in kept)
