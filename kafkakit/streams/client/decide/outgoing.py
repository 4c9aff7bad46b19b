"""Records as the producer takes them: what is refused, and the headers that each record gets.

`kafkakit-id` names the record wherever it is copied to (`formats/record_identity.py`). `kafkakit-ingested-ms` is when
it was handed to the producer, ms of UTC in decimal digits. A record that has them, as a replayed one, keeps them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.deliveries import BatchLimits, Headers, OutgoingRecord
from kafkakit.core.errors import UsageError
from kafkakit.streams.client.decide.send_errors import RecordRefusedError, RecordTooLargeError
from kafkakit.streams.model.record_identity import HEADER, decode_record_id

INGESTED_HEADER = "kafkakit-ingested-ms"
MAX_HEADERS = 1_000
HEADER_NAME_BYTES = 32_767
MAX_TIME_MS = (1 << 63) - 1
MAX_PARTITION = (1 << 31) - 1
_RECORD_FIELDS_BYTES = 36
"""At most: length, attributes, deltas of time and offset, lengths of key and value, number of headers."""
_HEADER_FIELDS_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLimits:
    """What a producer may hold and how long it waits.

    `batch_bytes` bounds records and batches before compression, so consumers never see a larger batch. `lane_bytes` and
    `lane_records` bound what a lane holds without acknowledgement, each lane by itself. A record that has no
    acknowledgement after `delivery_s` fails. After a change of the route, records that are on their way to the old
    segment have `drain_s` to be acknowledged there before they are sent to the new one. A record that a broker refuses
    is tried again for `refused_s`, as it may be refused because the route is changing.
    """

    batch_bytes: int = 16 << 20
    lane_bytes: int = 64 << 20
    lane_records: int = 100_000
    delivery_s: float = 120.0
    drain_s: float = 1.0
    refused_s: float = 5.0
    linger_ms: int = 5
    compression: str = "zstd"

    def __post_init__(self) -> None:
        if not 1_000 <= self.batch_bytes <= 900_000_000 or self.lane_bytes < self.batch_bytes:
            raise UsageError("batch_bytes is 1,000 to 900,000,000, and lane_bytes not less")
        if not 1 <= self.lane_records <= 10_000_000 or self.lane_bytes > 1 << 36:
            raise UsageError("lane_records is 1 to 10,000,000, and lane_bytes at most 64 GiB")
        if not 0.1 <= self.delivery_s <= 86_400 or not 0 <= self.drain_s <= 60 or not 0 <= self.refused_s <= 60:
            raise UsageError("delivery_s is 0.1 to 86,400, drain_s and refused_s are 0 to 60")
        if not 0 <= self.linger_ms <= 1_000 or self.linger_ms >= self.delivery_s * 1_000:
            raise UsageError("linger_ms is 0 to 1,000, and less than delivery_s")
        if self.compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise UsageError(f"{self.compression!r} is no compression", hint="none, gzip, snappy, lz4 or zstd")

    @property
    def of_connection(self) -> BatchLimits:
        """The limits of one Kafka producer, which holds at most a lane's records."""
        return BatchLimits(
            record_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            delivery_timeout_ms=int(self.delivery_s * 1_000),
            queue_bytes=2 * self.lane_bytes,
            queue_records=2 * self.lane_records,
            compression=self.compression,
        )


def check_record(record: OutgoingRecord) -> None:
    """`RecordRefusedError` unless every part but the headers has a type and a range that Kafka takes."""
    value, key, _, at_ms, partition = record
    if value is not None and type(value) is not bytes:
        raise RecordRefusedError(f"a record's value is bytes or None, not {type(value).__name__}")
    if key is not None and type(key) is not bytes:
        raise RecordRefusedError(f"a record's key is bytes or None, not {type(key).__name__}")
    if at_ms is not None and not (type(at_ms) is int and 0 <= at_ms <= MAX_TIME_MS):
        raise RecordRefusedError("a record's time is a number of ms since 1970, or None")
    if partition is not None and not (type(partition) is int and 0 <= partition <= MAX_PARTITION):
        raise RecordRefusedError("a partition is a number from 0, or None for the partitioner's choice")


def checked_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """The headers as a record holds them; `RecordRefusedError` for what Kafka or its client does not take."""
    try:
        pairs = tuple((name, content) for name, content in headers)
    except (TypeError, ValueError):
        raise RecordRefusedError("headers are pairs of a name and bytes or None") from None
    if len(pairs) > MAX_HEADERS:
        raise RecordRefusedError(f"headers are at most {MAX_HEADERS:,} pairs of a name and bytes or None")
    for name, content in pairs:
        _check_header(name, content)
    return pairs


def complete(headers: Headers, own: Headers) -> Headers:
    """Headers with those of the producer's own that they lack, last. An id that cannot be read is replaced."""
    kept = tuple(header for header in headers if not _is_damaged_id(header))
    names = {name for name, _ in kept}
    return (*kept, *(header for header in own if header[0] not in names))


def record_bytes(record: OutgoingRecord) -> int:
    """The most bytes that a record takes in a batch before compression."""
    size = _RECORD_FIELDS_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += _HEADER_FIELDS_BYTES + len(name if name.isascii() else name.encode()) + (len(value) if value else 0)
    return size


def too_large(size: int, limit_bytes: int) -> RecordTooLargeError:
    """The error for a record whose bytes are above the limit."""
    return RecordTooLargeError(
        f"a record has {size:,} bytes, and batches of the stream at most {limit_bytes:,} before compression",
        hint="keep large values elsewhere and write a reference, or raise batch_bytes for all its clients",
    )


def _check_header(name: object, value: object) -> None:
    # The binding of librdkafka crashes on names of another type, and on text that is not UTF-8; NUL would end a name.
    if type(name) is not str or not name or "\0" in name:
        raise RecordRefusedError("a header's name is text of one character or more, without NUL")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise RecordRefusedError("a header's name is text that UTF-8 can hold") from None
    if len(encoded) > HEADER_NAME_BYTES:
        raise RecordRefusedError(f"a header's name has {len(encoded):,} bytes, at most {HEADER_NAME_BYTES:,}")
    if value is not None and type(value) is not bytes:
        raise RecordRefusedError(f"the value of header {name[:80]!r} is bytes or None, not {type(value).__name__}")


def _is_damaged_id(header: tuple[str, bytes | None]) -> bool:
    return header[0] == HEADER and (header[1] is None or decode_record_id(header[1]) is None)
