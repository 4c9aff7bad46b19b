"""What raw reads of a log give, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlaces:
    """A topic's id (16 bytes, zeros for none) and the leader of each partition, None where there is none."""

    topic_id: bytes
    leaders: Mapping[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """The ends of a partition's log: first offset, last stable one and high watermark, the latter two exclusive."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Raw record batches of one partition as the broker sent them (the last may be cut), or why there are none.

    `records` starts with the batch that holds the offset asked for, so its first records may lie before it. The
    span is that of the answer; its members are -1 where the broker did not say. Neither records nor a span nor an
    error: the leader has not answered yet, and the next fetch from the same offset takes its answer. A reader of
    committed data gets no records from the stable offset on, and with each answer the transactions in it that were
    `aborted`: producer and first offset.
    """

    records: bytes
    span: LogSpan
    error: ItemError | None = None
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the leader has said anything; without that, nothing is known of the partition."""
        return self.error is not None or self.span.end >= 0
