"""A reading of sizes and free space as one file: kafka-kit's two documents, the source and the ages of values.

`partitionmeta` and `brokermetrics` hold what kafka-kit's znodes hold. `Smallest` is the smallest copy where copies
differ, `At` the time of a value that is older than the reading.
"""

from datetime import datetime

import msgspec

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError
from kafkakit.core.metrics_znodes import byte_count, id_number
from kafkakit.core.model import TopicPartition
from kafkakit.core.storage_reading import FreeStorage, PartitionSizes, StorageReading

STORAGE_KIND = "storage-metrics"
DOCUMENT_LIMIT_BYTES = 512 << 20


class SizeEntry(msgspec.Struct, omit_defaults=True):
    """One partition."""

    size: float = msgspec.field(name="Size")
    smallest: float | None = msgspec.field(name="Smallest", default=None)
    at: datetime | None = msgspec.field(name="At", default=None)


class FreeEntry(msgspec.Struct, omit_defaults=True):
    """One broker."""

    free: float = msgspec.field(name="StorageFree")
    at: datetime | None = msgspec.field(name="At", default=None)


class StorageDocument(msgspec.Struct):
    """The file; `taken_at` is when the values were collected."""

    source: str
    taken_at: datetime
    partitionmeta: dict[str, dict[str, SizeEntry]]
    brokermetrics: dict[str, FreeEntry]


def encode_reading(reading: StorageReading) -> bytes:
    """Write the file; keys are sorted as text."""
    sizes, free = reading.sizes, reading.free
    topics: dict[str, dict[str, SizeEntry]] = {}
    for key in sorted(sizes.bytes_of, key=lambda k: (k.topic, str(k.partition))):
        entry = SizeEntry(sizes.bytes_of[key], sizes.smallest_of.get(key), sizes.times.get(key))
        topics.setdefault(key.topic, {})[str(key.partition)] = entry
    brokers = {str(b): FreeEntry(free.bytes_of[b], free.times.get(b)) for b in sorted(free.bytes_of, key=str)}
    return encode_document(STORAGE_KIND, StorageDocument(reading.source, reading.taken_at, topics, brokers))


def decode_reading(data: bytes, source: str) -> StorageReading:
    """Read the file; `InputError` names `source` and the fault."""
    found = decode_document(data, STORAGE_KIND, StorageDocument, source)
    sizes: dict[TopicPartition, int] = {}
    smallest: dict[TopicPartition, int] = {}
    size_times: dict[TopicPartition, datetime] = {}
    for topic, partitions in found.partitionmeta.items():
        for text, entry in partitions.items():
            key = TopicPartition(topic, id_number(text, f"partition {topic!r:.80}", source))
            what = f"the size of {topic!r:.80} {key.partition}"
            sizes[key] = byte_count(entry.size, what, source)
            if entry.smallest is not None:
                smallest[key] = byte_count(entry.smallest, what, source)
            if entry.at is not None:
                size_times[key] = _aware(entry.at, source)
    free: dict[int, int] = {}
    free_times: dict[int, datetime] = {}
    for text, broker in found.brokermetrics.items():
        number = id_number(text, "broker", source)
        free[number] = byte_count(broker.free, f"the free storage of broker {number}", source)
        if broker.at is not None:
            free_times[number] = _aware(broker.at, source)
    taken_at = _aware(found.taken_at, source)
    return StorageReading(
        source=found.source,
        sizes=PartitionSizes(bytes_of=sizes, taken_at=taken_at, smallest_of=smallest, times=size_times),
        free=FreeStorage(bytes_of=free, taken_at=taken_at, times=free_times),
    )


def _aware(moment: datetime, source: str) -> datetime:
    if moment.tzinfo is None:
        raise InputError(source, f"the time {moment.isoformat()} has no time zone")
    return moment
