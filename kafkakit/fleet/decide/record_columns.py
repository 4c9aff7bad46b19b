"""Records of topics that two clusters hold, as columns: what tells one from another, never their content."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from zlib import crc32

from kafkakit.core.records import Record
from kafkakit.fleet.decide.config_columns import columns_of
from kafkakit.streams.model.record_identity import HEADER, decode_record_id, format_record_id

KEY_HASH_DIGITS = 16
_NAMES = ("topic", "partition", "offset", "at_ms", "record_id", "key_hash", "value_crc", "size_bytes")


def record_columns(records: Sequence[Record]) -> Mapping[str, Sequence[Any]]:
    """The table `records`; the key's hash is SHA-256, first 16 digits, the value's checksum CRC-32."""
    return columns_of(_NAMES, [_row(record) for record in records])


def _row(record: Record) -> tuple[Any, ...]:
    key = record.key
    return (
        *record.partition,
        record.offset,
        record.at_ms,
        _identity(record),
        None if key is None else sha256(key).hexdigest()[:KEY_HASH_DIGITS],
        crc32(record.value),
        len(record.value) + len(key or b""),
    )


def _identity(record: Record) -> str | None:
    value = next((value for name, value in record.headers if name == HEADER), None)
    found = None if value is None else decode_record_id(value)
    return None if found is None else format_record_id(found)
