"""Logs of partitions, read raw."""

from collections.abc import Collection, Mapping
from typing import Protocol

from kafkakit.core.cluster_facts import Fetched, ItemError, LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition


class LogReader(Protocol):
    """Raw reads of partitions, uncommitted data too unless it was opened for committed data.

    Calls raise `TryLaterError` when no broker can be reached. A reader follows leaders by itself: a partition whose
    leader moved answers once with a retriable error.
    """

    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        """Ids and leaders of topics (None: all, internal ones too); a topic that does not exist is absent.

        So is one that this user may not see; but `OperationFailedError` is raised where all that were named are such.
        """
        ...

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        """First, stable and end offsets; three requests to each leader (for 20,000 partitions), side by side.

        A leader that is silent costs the caller 3 s once, and nothing until it answers again.
        """
        ...

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        """The first offset whose record has this time or a later one, as the broker finds it; None: no such record."""
        ...

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, Fetched]:
        """Read from these offsets on: one request to each leader, side by side, back at the latest after `wait_ms`.

        Comes back earlier when a leader has brought records: other leaders' partitions may then be unanswered
        (`Fetched.answered`), and a leader that is slow or gone delays no other. `max_bytes` bounds each leader's
        answer and `partition_bytes` each partition's, but the first whole batch always comes. OFFSET_OUT_OF_RANGE,
        a leader that is gone, a topic that was created again (UNKNOWN_TOPIC_ID, once) are in `Fetched.error`.
        """
        ...

    def request_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        """Send what a `fetch` with these arguments would send, and come back at once.

        A later `fetch` from the same offsets takes the answers; so brokers work while the caller decodes. What cannot
        be requested is reported by that fetch.
        """
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...
