"""What an edit looks at before it is decided: one group, its commits, and the logs they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafkakit.core.group_facts import CommittedOffset, GroupDescription
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import CommitIdentity, CommitState, Reading
from kafkakit.streams.model.dialects.registry import WITHOUT_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """One partition: its commit as the broker stores it (None: none), what that means, and its log.

    `offset_at` holds the first offset at or after each time in ms that was asked for (None: no such record), and
    `time_at` record times in ms by offset, as far as they were read.
    """

    partition: TopicPartition
    identity: CommitIdentity
    span: LogSpan
    committed: CommittedOffset | None = None
    reading: Reading | None = None
    offset_at: Mapping[int, int | None] = field(default_factory=dict)
    time_at: Mapping[int, int] = field(default_factory=dict)

    @property
    def state(self) -> CommitState | None:
        """What may be relied upon; None without a commit."""
        return None if self.reading is None else self.reading.state

    @property
    def dialect(self) -> str:
        """The dialect of its metadata."""
        return WITHOUT_METADATA.name if self.reading is None else self.reading.dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One group at `taken_at`. `dialects` are those of all its commits; `limit_chars` is what the brokers accept."""

    cluster_id: str
    taken_at: datetime
    group: GroupDescription
    partitions: tuple[SeenPartition, ...]
    dialects: frozenset[str]
    limit_chars: int

    def with_times(self, times: Mapping[TopicPartition, Mapping[int, int]]) -> "Observed":
        """Add the record times of more offsets."""
        reported = tuple(
            replace(seen, time_at={**seen.time_at, **times.get(seen.partition, {})}) for seen in self.partitions
        )
        return replace(self, partitions=reported)
