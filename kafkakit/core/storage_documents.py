"""The forms in which partition sizes and free space of brokers are kept: kafka-kit's two znodes, or one file.

The znodes are JSON, gzip or plain; zstd, which kafka-kit does not read, makes a third less of them.
`<prefix>/partitionmeta` is `{"topic":{"0":{"Size":bytes}}}` and `<prefix>/brokermetrics` is
`{"1001":{"StorageFree":bytes}}`; numbers may have a fraction, as they come from averages. Source of the format:
DataDog/kafka-kit, `cmd/metricsfetcher` and `kafkazk`.

The file holds those two documents as `partitionmeta` and `brokermetrics`, with the source and the ages of values.
`Smallest` is the smallest copy if copies differ, `At` the time of a value that is older than the reading.
"""

import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.documents import decode_document, decode_json, encode_document, encode_json
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition

PARTITION_SIZES = "partitionmeta"
BROKER_STORAGE = "brokermetrics"
MAX_INFLATED = 128 << 20  # 3 million partitions need about this
MAX_BYTES = 2**63 - 1
MAX_ID = 2**31 - 1
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's word for a gzip member with the largest window
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Compression(StrEnum):
    """What the text of a znode is packed with; readers recognise each."""

    GZIP = "gzip"
    NONE = "none"
    ZSTD = "zstd"


class _Size(msgspec.Struct):
    size: float = msgspec.field(name="Size")


class _Free(msgspec.Struct):
    free: float = msgspec.field(name="StorageFree")


def decode_partition_sizes(data: bytes, source: str) -> dict[TopicPartition, int]:
    """Read a `partitionmeta` znode: bytes of one copy by partition; `InputError` names `source` and the fault."""
    topics = decode_json(_inflate(data, source), dict[str, dict[str, _Size]], source)
    return {
        TopicPartition(topic, id_number(number, f"partition {topic!r:.80}", source)): byte_count(
            entry.size, f"the size of {topic!r:.80} {number:.12}", source
        )
        for topic, partitions in topics.items()
        for number, entry in partitions.items()
    }


def decode_broker_storage(data: bytes, source: str) -> dict[int, int]:
    """Read a `brokermetrics` znode: free bytes by broker; `InputError` names `source` and the fault."""
    brokers = decode_json(_inflate(data, source), dict[str, _Free], source)
    return {
        id_number(broker, "broker", source): byte_count(entry.free, f"the free storage of broker {broker:.12}", source)
        for broker, entry in brokers.items()
    }


def encode_partition_sizes(sizes: Mapping[TopicPartition, int], compression: Compression = Compression.GZIP) -> bytes:
    """Write a `partitionmeta` znode the way kafka-kit does: compact JSON, keys sorted as text, then packed."""
    topics: dict[str, dict[str, object]] = {}
    for key in sorted(sizes, key=lambda k: (k.topic, str(k.partition))):
        topics.setdefault(key.topic, {})[str(key.partition)] = {"Size": sizes[key]}
    return _pack(topics, compression)


def encode_broker_storage(free: Mapping[int, int], compression: Compression = Compression.GZIP) -> bytes:
    """Write a `brokermetrics` znode the way kafka-kit does."""
    return _pack({str(b): {"StorageFree": free[b]} for b in sorted(free, key=str)}, compression)


def encode_parts(reading: StorageReading, compression: Compression) -> dict[str, bytes]:
    """Both znodes by name."""
    return {
        PARTITION_SIZES: encode_partition_sizes(reading.sizes.bytes_of, compression),
        BROKER_STORAGE: encode_broker_storage(reading.free.bytes_of, compression),
    }


def _pack(value: object, compression: Compression) -> bytes:
    text = encode_json(value).rstrip(b"\n")
    match compression:
        case Compression.NONE:
            return text
        case Compression.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=9).compress(text)
        case Compression.GZIP:
            packer = zlib.compressobj(wbits=_GZIP_WINDOW)  # no time stamp in the header: same input, same bytes
            return packer.compress(text) + packer.flush()


def _inflate(data: bytes, source: str) -> bytes:
    """The text itself, or what is packed in it, up to a limit: a small znode can inflate a thousandfold."""
    if data.startswith(_ZSTD_MAGIC):
        import zstandard

        try:
            text = zstandard.ZstdDecompressor().stream_reader(data).read(MAX_INFLATED + 1)
        except zstandard.ZstdError as error:
            raise InputError(source, f"cannot be unpacked: {error}") from None
        return _limit_size(text, len(text), source)
    if not data.startswith(_GZIP_MAGIC):
        return _limit_size(data, len(data), source)
    parts: list[bytes] = []
    total = 0
    for part in _members(data, source):
        total += len(part)
        parts.append(_limit_size(part, total, source))
    return b"".join(parts)


def _members(data: bytes, source: str) -> Iterator[bytes]:
    while data.startswith(_GZIP_MAGIC):
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            yield unpacker.decompress(data, MAX_INFLATED + 1)
        except zlib.error as error:
            raise InputError(source, f"cannot be unpacked: {error}") from None
        if not unpacker.eof:
            raise InputError(source, f"cannot be unpacked: it ends early, or holds more than {MAX_INFLATED >> 20} MiB")
        data = unpacker.unused_data


def _limit_size(data: bytes, total: int, source: str) -> bytes:
    if total > MAX_INFLATED:
        raise InputError(source, f"holds more than {MAX_INFLATED >> 20} MiB")
    return data


def id_number(text: str, what: str, source: str) -> int:
    """A partition's or broker's number; `InputError` when `text` is none."""
    # int() would take signs, blanks, underscores and digits of other scripts too.
    if not (text.isascii() and text.isdigit() and len(text) <= 10) or int(text) > MAX_ID:
        raise InputError(source, f"{what}: {text!r:.40} is not a number from 0 to {MAX_ID}")
    return int(text)


def byte_count(value: float, what: str, source: str) -> int:
    """A number of bytes, rounded down; `InputError` when it is none."""
    if not 0 <= value <= MAX_BYTES:  # false for NaN too
        raise InputError(source, f"{what} is {value:g}, which is not a number of bytes")
    return int(value)


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
                size_times[key] = _require_zone(entry.at, source)
    free: dict[int, int] = {}
    free_times: dict[int, datetime] = {}
    for text, broker in found.brokermetrics.items():
        number = id_number(text, "broker", source)
        free[number] = byte_count(broker.free, f"the free storage of broker {number}", source)
        if broker.at is not None:
            free_times[number] = _require_zone(broker.at, source)
    taken_at = _require_zone(found.taken_at, source)
    return StorageReading(
        source=found.source,
        sizes=PartitionSizes(bytes_of=sizes, taken_at=taken_at, smallest_of=smallest, times=size_times),
        free=FreeStorage(bytes_of=free, taken_at=taken_at, times=free_times),
    )


def _require_zone(moment: datetime, source: str) -> datetime:
    if moment.tzinfo is None:
        raise InputError(source, f"the time {moment.isoformat()} has no time zone")
    return moment
