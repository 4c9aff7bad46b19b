"""Records of a partition as values."""

from dataclasses import dataclass

from kafkakit.core.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition: at `offset` after the broker acknowledged it, or as it was read."""

    partition: TopicPartition
    offset: int
    value: bytes
    key: bytes | None = None
