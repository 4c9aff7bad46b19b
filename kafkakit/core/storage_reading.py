"""Partition sizes and free space as read from a metrics source, and one value of one series of a metrics service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kafkakit.core.model import TopicPartition

FROM_BROKERS = "brokers"
FROM_FILE = "file"
FROM_ZOOKEEPER = "zookeeper"
KEPT_IN = (FROM_ZOOKEEPER, FROM_FILE)
"""Where a collector keeps sizes, as the word of each on the command line."""
METRICS_PREFIX = "topicmappr"
"""The parent of kafka-kit's two znodes unless another one is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """The bytes of the largest copy of each partition, and when they were written down.

    `smallest_of` has the smallest copy where it is known to be smaller, `times` those values that are older than
    `taken_at`.
    """

    bytes_of: Mapping[TopicPartition, int]
    taken_at: datetime
    smallest_of: Mapping[TopicPartition, int] = field(default_factory=dict)
    times: Mapping[TopicPartition, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStorage:
    """The free bytes of each broker's disks together, and when they were written down; `times` as above."""

    bytes_of: Mapping[int, int]
    taken_at: datetime
    times: Mapping[int, datetime] = field(default_factory=dict)


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


class Sample(NamedTuple):
    """`value` is NaN where the series has none, and `time` then that of the query."""

    labels: Mapping[str, str]
    value: float
    time: datetime
