"""Partition sizes and free space as read from a metrics source."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kafkakit.core.model import TopicPartition

FROM_BROKERS = "brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """The bytes of one copy of each partition, and when they were written down."""

    bytes_of: Mapping[TopicPartition, int]
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStorage:
    """The free bytes of each broker's disks together, and when they were written down."""

    bytes_of: Mapping[int, int]
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageReading:
    """Both halves of one look at a `StorageMetrics`; `source` names it for people."""

    source: str
    sizes: PartitionSizes
    free: FreeStorage

    @property
    def taken_at(self) -> datetime:
        """The time of the older half: what counts for its age."""
        return min(self.sizes.taken_at, self.free.taken_at)
