"""Records in and out of a cluster."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record

Headers = Sequence[tuple[str, bytes | None]]


class Producer(Protocol):
    """Writes records that count only when all in-sync replicas have them (acks=all, no duplicates)."""

    def send(
        self, partition: TopicPartition, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """Queue a record, None for a tombstone; waits while the queue is full.

        Learn of its fate from `acknowledged` and `failed`.
        """
        ...

    @property
    def acknowledged(self) -> int:
        """How many records the brokers have acknowledged so far."""
        ...

    @property
    def failed(self) -> int:
        """How many records were given up after retries."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the last record failed, or what the client last complained about."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait for the queue to empty; returns how many records still have no answer."""
        ...


class Consumer(Protocol):
    """Reads the partitions it was made for, without a group."""

    def poll(self, timeout_s: float, limit: int = 500) -> Sequence[Record]:
        """Up to `limit` records, waiting at most `timeout_s` for the first."""
        ...

    def ended(self) -> Collection[TopicPartition]:
        """The partitions of which everything was given out that they held at some time since."""
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class DataPlane(Protocol):
    """Records in and out of one cluster."""

    def reach(self, timeout_s: float) -> tuple[int, ...]:
        """The ids of the brokers that the client sees; raises `TryLaterError` when it reaches none."""
        ...

    def offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> Mapping[TopicPartition, range]:
        """The offsets that each partition holds, first to past the last; unknown partitions are absent."""
        ...

    def producer(self, on_acknowledged: Callable[[Record], None] | None = None) -> Producer:
        """A producer; `on_acknowledged` is called from `send` and `flush`, never from another thread."""
        ...

    def consumer(
        self, partitions: Collection[TopicPartition], offsets: Mapping[TopicPartition, int] | None = None
    ) -> Consumer:
        """A consumer that reads the partitions from these offsets, or their first one; committed records alone."""
        ...
