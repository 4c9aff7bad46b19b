"""Records into one topic of a cluster, for clients that may not wait."""

from collections import deque
from typing import Any, Protocol

from kafkakit.core.records import BatchLimits, ConnectionFigures, Delivered, NotDelivered, OutgoingRecord, TopicIdentity

Answer = tuple[Any, Delivered | NotDelivered]
"""What became of a record, with the token that it was sent with."""


class StreamProducer(Protocol):
    """An idempotent producer for one topic: acknowledged is what all in-sync replicas have."""

    answers: deque[Answer]
    """What `poll`, `purge` and `close` brought, each record once; the caller takes them out."""

    def send(self, record: OutgoingRecord, token: object) -> bool:
        """Queue a record; False where the queue is full. Never waits.

        Raises `OperationFailedError` where the producer takes nothing more.
        """
        ...

    def poll(self, timeout_s: float) -> None:
        """Add the answers that came; waits for the first of them."""
        ...

    def purge(self) -> None:
        """Give up every record that has no answer; each is answered as UNANSWERED. Never waits."""
        ...

    def close(self) -> None:
        """Let go of connections. May wait as long as a cluster hangs."""
        ...

    @property
    def last_error(self) -> str | None:
        """What the client last complained about."""
        ...

    @property
    def figures(self) -> ConnectionFigures | None:
        """What the client counts, at most some seconds old."""
        ...


class StreamCluster(Protocol):
    """A way into one cluster."""

    def identify(self, topic: str, timeout_s: float) -> TopicIdentity:
        """Which cluster answers and which topic it has there; two requests.

        Raises `TryLaterError` when no broker answers in time, `OperationFailedError` when it refuses the answer.
        """
        ...

    def producer(self, topic: str, limits: BatchLimits, client_id: str) -> StreamProducer:
        """A new producer, which brokers see under this client id; it starts to connect and does not wait for it."""
        ...
