"""Records of a partition as values."""

from dataclasses import dataclass

from kafkakit.core.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition: at `offset` after the broker acknowledged it, or as it was read.

    Time and headers are those of records that were read; `at_ms` is None where the record has none. A tombstone that
    was read has an empty value and `is_null`.
    """

    partition: TopicPartition
    offset: int
    value: bytes
    key: bytes | None = None
    at_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False
